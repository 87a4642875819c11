// A server written with the official TypeScript SDK: server.mjs --era modern|legacy (--stdio | --http). It speaks the one
// era only. Its tools are those of `shop` that interop/run-servers needs, and `open_till`, which adds another tool.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { NodeStreamableHTTPServerTransport, toNodeHandler } from "@modelcontextprotocol/node";
import { McpServer, acceptedContent, createMcpHandler, inputRequired, isInitializeRequest } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const { values: options } = parseArgs({
  options: { era: { type: "string" }, stdio: { type: "boolean" }, http: { type: "boolean" } },
});
const modern = options.era === "modern";
const WIDGETS = "inventory://widget";
const TASKS = "io.modelcontextprotocol/tasks";
const text = (it) => ({ content: [{ type: "text", text: it }] });

let stock = 1000;
let tills = 0;
const tasks = new Map();

// `changed` tells the subscribers where the SDK does not know them by the server instance.
function shop(changed) {
  const server = new McpServer(
    { name: "interop-typescript", version: "1.0.0" },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        ...(modern && { extensions: { [TASKS]: {} } }),
      },
    },
  );

  server.registerTool("echo", { inputSchema: z.looseObject({}) }, (args) => text(JSON.stringify(args)));

  const count = z.object({ steps: z.int().min(1), step_ms: z.int().min(0) });
  server.registerTool("count_slowly", { inputSchema: count }, async ({ steps, step_ms }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= steps; progress += 1) {
      const step = sleep(step_ms, "done", { signal: mcpReq.signal }).catch(() => "aborted");
      if ((await step) === "aborted") {
        console.error(`count_slowly was cancelled after ${progress - 1} of ${steps} steps`);
        return text("stopped");
      }
      if (progressToken !== undefined) {
        await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: steps } });
      }
    }
    return text(`${steps} steps done`);
  });

  if (modern) addTasks(server, count);

  server.registerResource("widget", WIDGETS, {}, (uri) => ({ contents: [{ uri: uri.href, text: `${stock} available` }] }));
  const reservation = z.object({ sku: z.literal("widget"), quantity: z.int().min(1), tenant: z.string() });
  server.registerTool("reserve_inventory", { inputSchema: reservation }, ({ quantity }) => {
    stock -= quantity;
    changed.resource(server);
    return text(`${stock} available`);
  });

  const till = () => text("open");
  for (let number = 1; number <= tills; number += 1) server.registerTool(`till_${number}`, {}, till);
  server.registerTool("open_till", {}, () => {
    tills += 1;
    // Where the instance is the connection this tells its client; else `changed` does.
    server.registerTool(`till_${tills}`, {}, till);
    changed.tools();
    return text(`till_${tills}`);
  });

  const name = z.object({ name: z.string() });
  server.registerTool("ask_name", {}, (context) => {
    const answer = acceptedContent(context.mcpReq.inputResponses, "name", name);
    if (answer) return text(`Hello, ${answer.name}.`);
    const question = inputRequired.elicit({ message: "What is your name?", requestedSchema: name });
    return inputRequired({ inputRequests: { name: question } });
  });

  return server;
}

// The tasks extension, which the SDK leaves to others: the call of `long_job` becomes a task.
function addTasks(server, inputSchema) {
  const now = () => new Date().toISOString();
  server.registerTool("long_job", { inputSchema }, ({ steps, step_ms }) => {
    const [taskId, createdAt] = [randomUUID(), now()];
    const task = { taskId, status: "working", createdAt, lastUpdatedAt: createdAt, ttlMs: 60_000, pollIntervalMs: 20 };
    tasks.set(taskId, task);
    sleep(steps * step_ms).then(() => {
      const result = { resultType: "complete", ...text(`${steps} steps done`) };
      Object.assign(task, { status: "completed", lastUpdatedAt: now(), result });
    });
    return { resultType: "task", ...task };
  });
  const params = z.looseObject({ taskId: z.string() });
  server.server.setRequestHandler("tasks/get", { params }, ({ taskId }) => ({ ...tasks.get(taskId) }));
}

// One server instance a connection: who subscribed is known by it.
const subscribers = new Set();
const byInstance = {
  resource: () => subscribers.forEach((server) => server.server.sendResourceUpdated({ uri: WIDGETS })),
  tools: () => {},
};

function subscribable(server) {
  if (modern) {
    subscribers.add(server); // the SDK's own router picks the listeners
    return server;
  }
  server.server.setRequestHandler("resources/subscribe", () => (subscribers.add(server), {}));
  server.server.setRequestHandler("resources/unsubscribe", () => (subscribers.delete(server), {}));
  return server;
}

// The protocol of sessions, one transport each.
function sessions() {
  const open = new Map();
  return async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
    const session = request.headers["mcp-session-id"];
    let transport = open.get(session);
    if (session && !transport) return void response.writeHead(404).end();
    if (!transport && isInitializeRequest(body)) {
      transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void open.set(id, transport),
        onsessionclosed: (id) => void open.delete(id),
      });
      await subscribable(shop(byInstance)).connect(transport);
    }
    if (!transport) return void response.writeHead(400).end();
    await transport.handleRequest(request, response, body);
  };
}

if (options.stdio) {
  if (modern) serveStdio(() => subscribable(shop(byInstance)), { legacy: "reject" });
  else await subscribable(shop(byInstance)).connect(new StdioServerTransport());
} else {
  const handler = modern && createMcpHandler(
    () => shop({ resource: () => handler.notify.resourceUpdated(WIDGETS), tools: () => handler.notify.toolsChanged() }),
    { legacy: "reject" },
  );
  const http = createServer(modern ? toNodeHandler(handler) : sessions());
  http.listen(0, "127.0.0.1", () => console.error(`listening on http://127.0.0.1:${http.address().port}/mcp`));
  process.on("SIGTERM", () => process.exit(0));
}
