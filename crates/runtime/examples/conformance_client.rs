//! The client that `conformance/run-client` hands to the official suite: a host of [`Client`] that does what a scenario
//! asks for and leaves to the library what is the library's: the era, retries, headers, the echo of a `requestState`,
//! the resumption of a stream. `conformance/client-scenarios.md` says what each scenario wants.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steadfast::client::{Answering, CallOptions, Client, Handler, NoAnswer, Question};

type Done = Result<(), Box<dyn Error>>;

/// A user who agrees to everything: forms get their defaults, and a yes where there is none.
struct Agreeable;

impl Handler for Agreeable {
    fn capabilities(&self) -> String {
        json!({ "elicitation": {}, "sampling": {}, "roots": {} }).to_string()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        let params: Value = serde_json::from_str(&question.params).unwrap_or_default();
        let answer = match question.method.as_str() {
            "elicitation/create" => {
                Ok(json!({ "action": "accept", "content": filled(&params["requestedSchema"]) }))
            }
            "sampling/createMessage" => Ok(json!({
                "role": "assistant", "model": "none", "content": { "type": "text", "text": "Certainly." },
            })),
            "roots/list" => Ok(json!({ "roots": [] })),
            _ => Err(NoAnswer::Unsupported(question.method)),
        };
        Box::pin(std::future::ready(answer.map(|answer| answer.to_string())))
    }
}

fn filled(schema: &Value) -> Value {
    let mut content = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        match (&field["default"], field["type"].as_str()) {
            (Value::Null, Some("boolean")) => content.insert(name.clone(), json!(true)),
            (Value::Null, _) => None,
            (default, _) => content.insert(name.clone(), default.clone()),
        };
    }
    Value::Object(content)
}

/// A connected server, in values instead of bytes.
struct Host(Client);

impl Host {
    async fn request(&self, method: &str, params: Value) -> Result<Value, Box<dyn Error>> {
        let answered = self.0.request(method, &params.to_string(), CallOptions::default()).await?;
        Ok(serde_json::from_slice(&answered.result)?)
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Box<dyn Error>> {
        let answered = self.0.call_tool(tool, &arguments.to_string(), CallOptions::default()).await?;
        Ok(serde_json::from_slice(&answered.result)?)
    }

    async fn tools(&self) -> Result<Vec<Value>, Box<dyn Error>> {
        let listed = self.0.list_tools(CallOptions::default()).await?;
        listed.definitions.iter().map(|tool| Ok(serde_json::from_str(&tool.json)?)).collect()
    }

    async fn play(&self, scenario: &str) -> Done {
        match scenario {
            // The suite looks at how the connection is made.
            "initialize" | "request-metadata" => {
                self.0.discover(CallOptions::default()).await?;
            }
            "tools_call" => {
                self.tools().await?;
                self.call("add_numbers", json!({ "a": 5, "b": 3 })).await?;
            }
            "elicitation-sep1034-client-defaults" => {
                self.call("test_client_elicitation_defaults", json!({})).await?;
            }
            "sse-retry" => {
                self.call("test_reconnection", json!({})).await?;
            }
            // The suite looks at what is not fetched.
            "json-schema-ref-no-deref" => {
                self.tools().await?;
            }
            "json-schema-2020-12-preservation" => {
                let tools = self.tools().await?;
                let focal = tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool");
                let schema = &focal.ok_or("the tool to look at is not listed")?["inputSchema"];
                self.call("json_schema_echo", json!({ "schema": schema })).await?;
            }
            "sep-2322-client-request-state" => {
                let tools = ["echo_state", "unrelated", "no_state", "no_result_type"];
                for tool in tools {
                    self.call(&format!("test_mrtr_{tool}"), json!({})).await?;
                }
            }
            "http-standard-headers" => self.standard_headers().await?,
            "http-custom-headers" => self.custom_headers().await?,
            "http-invalid-tool-headers" => {
                for tool in self.tools().await? {
                    let name = tool["name"].as_str().ok_or("a tool without a name")?;
                    self.call(name, required(&tool["inputSchema"])).await?;
                }
            }
            other => return Err(format!("this client does not know the scenario {other}").into()),
        }
        Ok(())
    }

    async fn standard_headers(&self) -> Done {
        let tools = self.tools().await?;
        self.call(tools[0]["name"].as_str().ok_or("a tool without a name")?, json!({})).await?;
        let listed = self.request("resources/list", json!({})).await?;
        let uri = listed["resources"][0]["uri"].as_str().ok_or("no resource is listed")?;
        self.0.read_resource(uri, CallOptions::default()).await?;
        let listed = self.request("prompts/list", json!({})).await?;
        let name = listed["prompts"][0]["name"].as_str().ok_or("no prompt is listed")?;
        self.0.get_prompt(name, "{}", CallOptions::default()).await?;
        Ok(())
    }

    async fn custom_headers(&self) -> Done {
        self.tools().await?;
        let context: Value = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
        for call in context["toolCalls"].as_array().ok_or("the context names no calls")? {
            let mut arguments = call["arguments"].clone();
            // The tool's own schema has no null; what is absent is the same to this test.
            arguments.as_object_mut().ok_or("arguments are an object")?.retain(|_, value| !value.is_null());
            self.call(call["name"].as_str().ok_or("a call without a name")?, arguments).await?;
        }
        Ok(())
    }
}

/// Arguments that a schema of strings is satisfied with.
fn required(schema: &Value) -> Value {
    schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| (name, "x"))
        .collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let url = std::env::args()
        .next_back()
        .filter(|last| last.starts_with("http"))
        .ok_or("name the server's URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let host = Host(Client::of_url(&url)?.handler(Arc::new(Agreeable)).build());
    let played = host.play(&scenario).await;
    host.0.close(Duration::from_secs(2)).await;
    played
}
