// What benches/client does with our client, by the official TypeScript client: bench.mjs (--url URL | --command JSON).

import { parseArgs } from "node:util";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const WARM_UP_MS = 300;
const COUNTED_MS = 1000;
const ARGUMENTS = { account: "a-17", cents: 500, note: "for the coffee of the week" };

const { values: options } = parseArgs({ options: { url: { type: "string" }, command: { type: "string" } } });
const transport = options.url
  ? new StreamableHTTPClientTransport(new URL(options.url))
  : (([command, ...args]) => new StdioClientTransport({ command, args }))(JSON.parse(options.command));
const versionNegotiation = { mode: { pin: "2026-07-28" } };
const client = new Client({ name: "bench", version: "1.0.0" }, { versionNegotiation });

async function calls(inFlight, lastingMs) {
  const end = performance.now() + lastingMs;
  let made = 0;
  const caller = async () => {
    while (performance.now() < end) {
      const result = await client.callTool({ name: "echo", arguments: ARGUMENTS });
      if (!result.content[0].text.includes("coffee")) throw new Error("the answer is another");
      made += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  return made;
}

await client.connect(transport);
for (const inFlight of [1, 16]) {
  await calls(inFlight, WARM_UP_MS);
  const began = performance.now();
  const made = await calls(inFlight, COUNTED_MS);
  console.log(`${inFlight} ${(made * 1000) / (performance.now() - began)}`);
}
await client.close();
