// A worker with three tools: one that reads, one that takes its time, one with an effect.
//
//   npm install && node worker.js nats://127.0.0.1:4222 [orders.jsonl]

import { appendFile, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";
import { ToolError, Worker } from "./sluice-worker.js";

const [at = process.env.NATS_URL ?? "nats://127.0.0.1:4222", orders = "orders.jsonl"] = process.argv.slice(2);
const { username, password, host } = new URL(at);
const nc = await connect({
  servers: host, name: "worker-node", maxReconnectAttempts: -1, reconnectTimeWait: 500,
  ...(password ? { user: decodeURIComponent(username), pass: decodeURIComponent(password) } : username ? { token: decodeURIComponent(username) } : {}),
});
const worker = new Worker(nc, { user: process.env.NATS_WORKER ?? (password ? decodeURIComponent(username) : undefined) });

const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required, additionalProperties: false });

worker.tool("shout", {
  description: "Says a text in capitals.", tier: "readonly", schema: object({ text: { type: "string", description: "any text" } }),
}, async (task, { text }) => text.toUpperCase());

worker.tool("stir", {
  description: "Stirs for a while, and says how far it is.", tier: "readonly", schema: object({ rounds: { type: "integer", minimum: 1 } }),
}, async (task, { rounds }) => {
  for (let i = 1; i <= rounds; i++) {
    await sleep(100, undefined, { signal: task.signal }).catch(() => {
      throw new ToolError(`stopped at ${i} of ${rounds}`, { code: "CANCELLED", class: "cancelled", effects: "none" });
    });
    task.progress("stirring", i, rounds);
  }
  return { rounds };
});

const placed = async (task) => {
  const text = await readFile(orders, "utf8").catch(() => "");
  return text.split("\n").some((line) => line && JSON.parse(line).call === task.call) ? "ordered, as the file says" : null;
};

worker.tool("order", {
  description: "Orders something, once.", tier: "irreversible", schema: object({ item: { type: "string" }, stall_ms: { type: "integer" } }, ["item"]),
}, async (task, { item, stall_ms = 0 }) => {
  await appendFile(orders, JSON.stringify({ call: task.call, attempt: task.attempt, key: task.key, item }) + "\n");
  await sleep(stall_ms, undefined, { signal: task.signal }).catch(() => {}); // as a slow shop would
  return `ordered ${item}`;
}, placed);

await worker.serve();
