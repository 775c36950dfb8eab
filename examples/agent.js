// What the agents here have in common: their command line, and what they show.

import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";
import { Problem, Sluice } from "./sluice.js";

/** The command line of an agent: its question, and how it is to go about it. */
export function settings(more = {}) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      stream: { type: "boolean", default: false }, // read the model's answers as they come
      ask: { type: "boolean", default: false }, // a person can be asked; otherwise what must be asked is denied
      trace: { type: "string", default: randomUUID() }, // names the conversation in Sluice's log
      turns: { type: "string", default: "20" }, // how often the model may answer
      ...more,
    },
  });
  return { ...values, turns: Number(values.turns), question: positionals.join(" ") || "What is in this folder?", sluice: new Sluice() };
}

/** Shows the answers of a turn, a line each. */
export function show({ messages }, content) {
  for (const text of messages.flatMap(content)) {
    const { status, text: said = "", error } = JSON.parse(text);
    console.log(`[${status}] ${(error ? `${error.code}: ${error.message}` : said).split("\n")[0].slice(0, 120)}`);
  }
}

/** Waits for both: what Sluice says of a stream, and what the SDK makes of it. Where it broke, Sluice's word says how. */
export async function both(answers, shown) {
  const ends = await Promise.allSettled([answers, shown]);
  for (const end of ends) if (end.status === "rejected") throw end.reason;
  return ends.map((end) => end.value);
}

/** Asks a model again whose stream broke: nothing of it has been submitted. */
export async function again(ask, times = 3) {
  for (let failed = 1; ; failed++) {
    try {
      return await ask();
    } catch (e) {
      const broken = e instanceof Problem ? e.code.startsWith("stream-") || e.code === "model-failed" : e.message === "terminated"; // of fetch: the connection broke
      if (!broken || failed === times) throw e;
      console.log(`[again] ${e.message}`);
    }
  }
}
