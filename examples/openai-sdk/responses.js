// An agent on OpenAI's Responses: the SDK asks the model, Sluice runs the calls.
//
//   node responses.js [--stream] [--ask] "question"

import OpenAI from "openai";
import { Stream } from "openai/streaming";
import { again, both, settings, show } from "../agent.js";

const { sluice, question, trace, turns, ask, stream } = settings();
const openai = new OpenAI(); // OPENAI_API_KEY, OPENAI_BASE_URL
const model = process.env.MODEL || "gpt-5.6";
const tools = await sluice.tools("responses");
const input = [{ role: "user", content: question }];

for (let n = 1; ; n++) {
  if (n > turns) throw new Error(`the model has not come to an end in ${turns} turns`);
  const turn = { trace, turn: `t${n}`, format: "responses", can_ask: ask };
  const [output, answers] = await (stream ? again(() => streamed(turn)) : whole(turn));
  if (!answers) break;
  show(answers, (item) => item.output);
  // The calls as Sluice has them, in their places: no id twice, no broken JSON.
  const calls = answers.assistant.filter((item) => item.type === "function_call");
  input.push(...output.map((item) => (item.type === "function_call" ? calls.shift() : item)), ...answers.messages);
}

async function whole(turn) {
  const response = await openai.responses.create({ model, input, tools, store: false });
  if (response.output_text) console.log(response.output_text);
  return [response.output, await sluice.run(turn, response)]; // which knows whether one without calls is the end, or was cut off
}

async function streamed(turn) {
  const raw = await openai.responses.create({ model, input, tools, store: false, stream: true }).asResponse();
  const [ours, theirs] = raw.body.tee(); // what the provider sends goes to Sluice as it is
  const [answers, last] = await both(sluice.stream(turn, ours), shown(theirs));
  return [last.output, answers];
}

async function shown(body) {
  let last;
  for await (const event of Stream.fromSSEResponse(new Response(body), new AbortController())) {
    if (event.type === "response.output_text.delta") process.stdout.write(event.delta);
    last = event.response ?? last; // of the stream's last event: the whole response
  }
  console.log();
  return last;
}
