// The official TypeScript clients against `shop`: client.mjs --sdk v2|v1 --era modern|legacy --stderr FILE
// (--url URL | --command JSON). Prints one line a check, as interop/run reads them.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    sdk: { type: "string" },
    era: { type: "string" },
    stderr: { type: "string" },
    url: { type: "string" },
    command: { type: "string" },
  },
});
const modern = options.era === "modern";
const TASKS = "io.modelcontextprotocol/tasks";
const WIDGETS = "inventory://widget";
const PATIENCE_MS = 10_000;

// Both generations of the package, brought to one shape.
async function load() {
  if (options.sdk === "v2") {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    return {
      Client,
      StreamableHTTPClientTransport,
      StdioClientTransport,
      negotiation: { versionNegotiation: { mode: modern ? { pin: "2026-07-28" } : "legacy" } },
      onRequest: (client, method, handler) => client.setRequestHandler(method, handler),
      onNotification: (client, method, handler) => client.setNotificationHandler(method, handler),
      call: (client, params, how) => client.callTool(params, how),
    };
  }
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const types = await import("@modelcontextprotocol/sdk/types.js");
  const schemas = {
    "elicitation/create": types.ElicitRequestSchema,
    "notifications/resources/updated": types.ResourceUpdatedNotificationSchema,
  };
  return {
    Client,
    StreamableHTTPClientTransport,
    StdioClientTransport,
    negotiation: {},
    onRequest: (client, method, handler) => client.setRequestHandler(schemas[method], handler),
    onNotification: (client, method, handler) => client.setNotificationHandler(schemas[method], handler),
    call: (client, params, how) => client.callTool(params, undefined, how),
  };
}

function assert(holds, why) {
  if (!holds) throw new Error(why);
}

async function until(what, holds) {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    const value = await holds();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within ${PATIENCE_MS} ms: ${what}`);
}

const text = (result) => result.content.map((item) => item.text ?? "").join("\n");

// The handler itself says on stderr that it saw the cancel; the number of steps tells the calls apart.
const stopped = (steps) =>
  until(`the handler of ${steps} steps observed the cancel`, () =>
    readFileSync(options.stderr, "utf8").includes(` of ${steps} steps`),
  );

const sdk = await load();
const transport = options.url
  ? new sdk.StreamableHTTPClientTransport(new URL(options.url))
  : (([command, ...args]) => new sdk.StdioClientTransport({ command, args }))(JSON.parse(options.command));
const capabilities = { elicitation: {} };
const clientInfo = { name: "interop-typescript", version: "1.0.0" };
const client = new sdk.Client(clientInfo, { capabilities, ...sdk.negotiation });
const call = (name, args, how) => sdk.call(client, { name, arguments: args }, how);

// A request that the client has no method for, through its own transport, and the answer as it came.
let last = 0;
function raw(method, params) {
  const id = `raw-${(last += 1)}`;
  const meta = modern && {
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": clientInfo,
      "io.modelcontextprotocol/clientCapabilities": { ...capabilities, extensions: { [TASKS]: {} } },
    },
  };
  const inner = transport.onmessage;
  return new Promise((resolve, reject) => {
    transport.onmessage = (message, extra) => {
      if (message.id !== id) return inner(message, extra);
      transport.onmessage = inner;
      return message.error ? reject(new Error(JSON.stringify(message.error))) : resolve(message.result);
    };
    transport.send({ jsonrpc: "2.0", id, method, params: { ...params, ...meta } }).catch(reject);
  });
}

const checks = {
  async list() {
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    for (const name of ["echo", "count_slowly", "reserve_inventory", "long_job", "ask_name"]) {
      assert(names.includes(name), `no tool ${name} among ${names}`);
    }
  },

  async call() {
    const result = await call("echo", { word: "grüße", n: 1 });
    assert(!result.isError && text(result).includes("grüße"), JSON.stringify(result));
  },

  async progress() {
    const seen = [];
    const onprogress = ({ progress }) => seen.push(progress);
    const result = await call("count_slowly", { steps: 5, step_ms: 30 }, { onprogress });
    assert(!result.isError, JSON.stringify(result));
    assert(seen.length >= 2, `${seen.length} progress notifications`);
    assert(seen.every((value, i) => i === 0 || value > seen[i - 1]), `not rising: ${seen}`);
  },

  async abort() {
    const control = new AbortController();
    const onprogress = () => control.abort(new Error("enough"));
    let ended = "with an answer";
    await call("count_slowly", { steps: 1001, step_ms: 50 }, { signal: control.signal, onprogress }).catch((error) => {
      ended = String(error);
    });
    assert(control.signal.aborted && ended.includes("enough"), `the call ended ${ended}`);
    await stopped(1001);
    // interop/run reads the wire from here on: steps of 50 ms would show by now.
    await call("echo", { mark: "after the abort" });
    await new Promise((resolve) => setTimeout(resolve, 300));
    await call("echo", { mark: "long after the abort" });
  },

  async timeout() {
    let why;
    await call("count_slowly", { steps: 1002, step_ms: 50 }, { timeout: 300 }).catch((error) => (why = String(error)));
    assert(/time/i.test(why ?? ""), `expected the client's own timeout: ${why}`);
    await stopped(1002);
  },

  async subscription() {
    const updated = [];
    sdk.onNotification(client, "notifications/resources/updated", ({ params }) => updated.push(params.uri));
    const stock = async () => JSON.stringify((await client.readResource({ uri: WIDGETS })).contents);
    const before = await stock();
    let subscription;
    if (modern) subscription = await client.listen({ resourceSubscriptions: [WIDGETS] });
    else await client.subscribeResource({ uri: WIDGETS });
    const result = await call("reserve_inventory", { sku: "widget", quantity: 1, tenant: "interop" });
    assert(!result.isError, text(result));
    await until("an update of the resource", () => updated.includes(WIDGETS));
    assert((await stock()) !== before, "the resource reads as before");
    if (modern) await subscription.close();
    else await client.unsubscribeResource({ uri: WIDGETS });
  },

  async task() {
    const job = { name: "long_job", arguments: { steps: 3, step_ms: 30 } };
    const created = await raw("tools/call", modern ? job : { ...job, task: { ttl: 60_000 } });
    const taskId = modern ? created.taskId : created.task?.taskId;
    assert(taskId, `no task: ${JSON.stringify(created)}`);
    const task = await until("the task's end", async () => {
      const now = await raw("tasks/get", { taskId });
      return !["working", "submitted"].includes(now.status) && now;
    });
    assert(task.status === "completed", JSON.stringify(task));
    const result = modern ? task.result : await raw("tasks/result", { taskId });
    assert(result?.content?.length > 0, JSON.stringify(result));
  },

  async question() {
    sdk.onRequest(client, "elicitation/create", async ({ params }) => {
      const [field] = Object.keys(params.requestedSchema.properties);
      return { action: "accept", content: { [field]: "Ada" } };
    });
    const result = await call("ask_name", {});
    assert(text(result).includes("Ada"), JSON.stringify(result));
  },
};

await client.connect(transport);
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`failed ${name}: ${String(error).replaceAll("\n", " ")}`);
  }
}
if (options.url && !modern) await transport.terminateSession();
await client.close();
