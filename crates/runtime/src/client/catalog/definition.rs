//! What a server says it offers, looked at one by one: what cannot be used is left out alone (F095).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use steadfast_core::catalog::{ContentHash, Cut, Described, Index, Subject};
use steadfast_core::object::Members;

use crate::schema::mirror::{self, Mirror};
use crate::schema::{Schema, SchemaError, is_bounded};

/// How many definitions one list may have.
const MOST_DEFINITIONS: usize = 10_000;
/// How much of a name is shown where the definition is not.
const SHOWN: usize = 128;

/// A tool, prompt, resource or template, as a server describes it: an untrusted party's words.
#[derive(Debug)]
pub struct Definition {
    /// Its name; of a resource its URI, of a template that.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For models.
    pub description: Option<String>,
    /// `tags` in its `_meta`, or in an object there.
    pub tags: Vec<String>,
    /// All of it, as it came.
    pub json: String,
    /// What it says, whatever the order of its members.
    pub content: ContentHash,
    /// Why arguments or results are not checked here: one sentence. The server checks them all the same.
    pub unchecked: Option<String>,
    pub(super) input: Option<Arc<Schema>>,
    pub(super) output: Option<Arc<Schema>>,
    /// The arguments that headers repeat (HDR-19).
    pub(super) mirrors: Vec<Mirror>,
}

impl Definition {
    /// `execution.taskSupport`, as 2025-11-25 has it of a tool.
    pub(super) fn task_support(&self) -> Option<String> {
        let members = Members::parse(&self.json).ok()?;
        Members::parse(members.get("execution")?).ok()?.get_str("taskSupport")
    }
}

/// A definition that cannot be used, and was left out alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name, or its place in the list.
    pub name: String,
    /// Why, in one sentence.
    pub reason: String,
}

/// One list, as it was at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) definitions: Arc<[Arc<Definition>]>,
    pub(super) left_out: Arc<[LeftOut]>,
    pub(super) cut: Option<Cut>,
    by_name: HashMap<String, usize>,
    index: OnceLock<Index>,
}

impl Snapshot {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Definition>> {
        self.by_name.get(name).and_then(|&at| self.definitions.get(at))
    }

    /// Made at the first search.
    pub(super) fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            Index::new(self.definitions.iter().map(|one| Described {
                name: &one.name,
                texts: [
                    one.title.as_deref().unwrap_or_default(),
                    one.description.as_deref().unwrap_or_default(),
                ],
                tags: &one.tags,
            }))
        })
    }

    pub(super) fn contents(&self) -> impl Iterator<Item = (&str, ContentHash)> {
        self.definitions.iter().map(|one| (one.name.as_str(), one.content))
    }

    /// Looks at each item of these pages. What is to the byte as it was before is taken over, compiled schemas
    /// included. `mirrored`: over this hop arguments travel in headers too.
    ///
    /// # Errors
    /// A page is no result of the method.
    pub(super) fn of(
        subject: &Subject,
        mirrored: bool,
        pages: &[Bytes],
        mut cut: Option<Cut>,
        before: Option<&Self>,
    ) -> Result<Self, String> {
        let (member, named_by) = subject.members();
        let mut definitions: Vec<Arc<Definition>> = Vec::new();
        let mut left_out = Vec::new();
        let mut by_name = HashMap::new();
        let mut count = 0;
        for page in pages {
            for item in items(page, member)? {
                count += 1;
                if count > MOST_DEFINITIONS {
                    cut = Some(Cut::Bytes);
                    break;
                }
                let json = item.get();
                let members = Members::parse(json).ok();
                let name = members.as_ref().and_then(|members| members.get_str(named_by));
                let shown = name.as_deref().map_or_else(
                    || format!("#{count}"),
                    |name| name.chars().filter(|c| !c.is_control()).take(SHOWN).collect(),
                );
                let looked_at = match (members, name) {
                    (None, _) => Err("it is no object".to_owned()),
                    (Some(_), None) => Err(format!("it has no {named_by}")),
                    (Some(_), Some(name)) if by_name.contains_key(&name) => {
                        Err("an earlier one has the same name".to_owned())
                    }
                    (Some(members), Some(name)) => {
                        match before.and_then(|before| before.get(&name)).filter(|known| known.json == json) {
                            Some(known) => Ok(Arc::clone(known)),
                            None => Definition::of(subject, mirrored, name, json, &members).map(Arc::new),
                        }
                    }
                };
                match looked_at {
                    Ok(definition) => {
                        by_name.insert(definition.name.clone(), definitions.len());
                        definitions.push(definition);
                    }
                    Err(reason) => left_out.push(LeftOut { name: shown, reason }),
                }
            }
        }
        let (definitions, left_out) = (definitions.into(), left_out.into());
        Ok(Self { definitions, left_out, cut, by_name, index: OnceLock::new() })
    }
}

/// The items of one page, each as it came.
fn items<'a>(page: &'a [u8], member: &str) -> Result<Vec<&'a RawValue>, String> {
    let page = std::str::from_utf8(page).map_err(|_| "it is not UTF-8".to_owned())?;
    if !is_bounded(page) {
        return Err("it holds more values than are read".to_owned());
    }
    let parsed: HashMap<String, &'a RawValue> =
        serde_json::from_str(page).map_err(|_| "it is no object".to_owned())?;
    let list = parsed.get(member).ok_or_else(|| format!("it has no {member}"))?;
    serde_json::from_str(list.get()).map_err(|_| format!("its {member} is no list"))
}

impl Definition {
    fn of(
        subject: &Subject,
        mirrored: bool,
        name: String,
        json: &str,
        members: &Members<'_>,
    ) -> Result<Self, String> {
        let mut definition = Self {
            name,
            title: members.get_str("title"),
            description: members.get_str("description"),
            tags: members.get("_meta").map(tags).unwrap_or_default(),
            json: json.to_owned(),
            content: ContentHash::of(json),
            unchecked: None,
            input: None,
            output: None,
            mirrors: Vec::new(),
        };
        match subject {
            Subject::Tools => definition.read_schemas(mirrored, members)?,
            Subject::Prompts | Subject::Resources | Subject::Templates | Subject::Resource(_) => {}
        }
        Ok(definition)
    }

    fn read_schemas(&mut self, mirrored: bool, members: &Members<'_>) -> Result<(), String> {
        let read = |member: &str| -> Result<Option<Value>, String> {
            let Some(json) = members.get(member) else { return Ok(None) };
            serde_json::from_str(json).map(Some).map_err(|_| format!("its {member} cannot be read"))
        };
        let input = read("inputSchema")?.ok_or("it has no inputSchema")?;
        if mirrored {
            self.mirrors = mirror::of(&input)?;
        }
        self.input = self.usable("inputSchema", Schema::of_input(input))?;
        if let Some(output) = read("outputSchema")? {
            self.output = self.usable("outputSchema", Schema::new(output))?;
        }
        Ok(())
    }

    /// A dialect that is not ours (VAL-02) makes no tool unusable: older servers declare draft-07 for all of theirs.
    fn usable(
        &mut self,
        member: &str,
        schema: Result<Schema, SchemaError>,
    ) -> Result<Option<Arc<Schema>>, String> {
        match schema {
            Ok(schema) => Ok(Some(Arc::new(schema))),
            Err(error @ SchemaError::Dialect(_)) => {
                self.unchecked = Some(format!("its {member} is not checked here: {error}"));
                Ok(None)
            }
            Err(
                error @ (SchemaError::TooCostly
                | SchemaError::Elsewhere(_)
                | SchemaError::Invalid(_)
                | SchemaError::NotAnObject),
            ) => Err(format!("its {member} cannot be used: {error}")),
        }
    }

    /// The first line of what it says of itself, for a list that a model reads.
    pub(super) fn summary(&self) -> String {
        let said = self.description.as_deref().or(self.title.as_deref()).unwrap_or_default();
        said.lines().next().unwrap_or_default().chars().take(200).collect()
    }
}

fn tags(meta: &str) -> Vec<String> {
    let of =
        |members: &Members<'_>| -> Option<Vec<String>> { serde_json::from_str(members.get("tags")?).ok() };
    let Ok(meta) = Members::parse(meta) else { return Vec::new() };
    let inner = || meta.iter().find_map(|(_, json)| of(&Members::parse(json).ok()?));
    of(&meta).or_else(inner).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(mirrored: bool, tools: Value, before: Option<&Snapshot>) -> Snapshot {
        let page = Bytes::from(json!({ "tools": tools }).to_string());
        Snapshot::of(&Subject::Tools, mirrored, &[page], None, before).unwrap()
    }

    fn tool(name: &str, schema: Value) -> Value {
        json!({ "name": name, "inputSchema": schema })
    }

    // shows: HDR-23, HDR-25, VAL-02, VAL-04, VAL-07, VAL-08, D-44
    #[test]
    fn f095_a_bad_tool_is_left_out_alone_with_its_name_and_the_reason() {
        let object = json!({ "type": "object" });
        let next = |level: usize| json!({ "$ref": format!("#/$defs/d{level}") });
        let twice = |level: usize| json!({ "allOf": [next(level + 1), next(level + 1)] });
        let mut defs: serde_json::Map<_, _> =
            (0..30).map(|level| (format!("d{level}"), twice(level))).collect();
        defs.insert("d30".to_owned(), json!({ "type": "integer" }));
        let bomb = json!({ "type": "object", "properties": { "a": next(0) }, "$defs": defs });
        let marked =
            json!({ "type": "object", "properties": { "n": { "type": "number", "x-mcp-header": "N" } } });
        let tools = json!([
            tool("good", object.clone()),
            tool("string", json!({ "type": "string" })),
            tool("choice", json!({ "anyOf": [object] })),
            tool("key", json!({ "type": "object", "properties": { "$.x": { "type": "string" } } })),
            tool("inside", json!({ "type": "object", "properties": { "a": { "required": "a" } } })),
            tool("elsewhere", json!({ "type": "object", "$ref": "http://127.0.0.1:9/schema" })),
            tool("bomb", bomb),
            tool("old", json!({ "type": "object", "$schema": "http://json-schema.org/draft-07/schema#" })),
            tool("good", json!({ "type": "object", "description": "another" })),
            tool("marked", marked),
            { "name": "none" },
            { "inputSchema": {} },
            7,
        ]);
        let listed = snapshot(true, tools.clone(), None);
        let names = |listed: &Snapshot| -> Vec<String> {
            listed.definitions.iter().map(|one| one.name.clone()).collect()
        };
        assert_eq!(names(&listed), ["good", "key", "old"]);
        let reasons: Vec<String> =
            listed.left_out.iter().map(|out| format!("{}: {}", out.name, out.reason)).collect();
        for (reason, (name, word)) in reasons.iter().zip([
            ("string", "object"),
            ("choice", "object"),
            ("inside", "inputSchema cannot be used"),
            ("elsewhere", "127.0.0.1:9"),
            ("bomb", "too many checks"),
            ("good", "same name"),
            ("marked", "x-mcp-header"),
            ("none", "no inputSchema"),
            ("#12", "no name"),
            ("#13", "no object"),
        ]) {
            assert!(reason.starts_with(&format!("{name}: ")) && reason.contains(word), "{reason}");
        }
        assert_eq!(reasons.len(), 10, "{reasons:#?}");
        assert!(listed.get("old").unwrap().unchecked.as_ref().unwrap().contains("draft-07"));
        assert!(
            names(&snapshot(false, tools, None)).contains(&"marked".to_owned()),
            "no headers, no rule on them"
        );
    }

    #[test]
    fn what_did_not_change_keeps_its_compiled_schemas() {
        let old = snapshot(
            true,
            json!([tool("a", json!({ "type": "object" })), tool("b", json!({ "type": "object" }))]),
            None,
        );
        let changed = json!({ "type": "object", "required": ["x"] });
        let new =
            snapshot(true, json!([tool("a", json!({ "type": "object" })), tool("b", changed)]), Some(&old));
        assert!(Arc::ptr_eq(old.get("a").unwrap(), new.get("a").unwrap()));
        assert_ne!(old.get("b").unwrap().content, new.get("b").unwrap().content);
    }

    #[test]
    fn i_27_a_page_that_is_none_is_refused_and_a_list_of_anything_is_bounded() {
        for page in ["", "[]", "{}", r#"{"tools":{}}"#, r#"{"tools":null}"#, "\u{feff}{}"] {
            let pages = [Bytes::copy_from_slice(page.as_bytes())];
            assert!(Snapshot::of(&Subject::Tools, true, &pages, None, None).is_err(), "{page}");
        }
        let many = format!(r#"{{"tools":[{}1]}}"#, "1,".repeat(20_000));
        let listed = Snapshot::of(&Subject::Tools, true, &[many.into()], None, None).unwrap();
        assert_eq!((listed.left_out.len(), listed.cut), (MOST_DEFINITIONS, Some(Cut::Bytes)));
    }

    #[test]
    fn tags_stand_in_meta_or_in_an_object_there() {
        assert_eq!(tags(r#"{"tags":["a","b"]}"#), ["a", "b"]);
        assert_eq!(tags(r#"{"x":1,"_fastmcp":{"tags":["a"]}}"#), ["a"]);
        assert!(tags(r#"{"tags":"a"}"#).is_empty() && tags("[]").is_empty());
    }
}
