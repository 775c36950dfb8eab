// An agent on Anthropic's Messages: the SDK asks the model, Sluice runs the calls.
//
//   node agent.js [--stream] [--ask] "question"

import Anthropic from "@anthropic-ai/sdk";
import { MessageStream } from "@anthropic-ai/sdk/lib/MessageStream";
import { Stream } from "@anthropic-ai/sdk/streaming";
import { again, both, settings, show } from "../agent.js";

const { sluice, question, trace, turns, ask, stream } = settings();
const anthropic = new Anthropic(); // ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL
const model = process.env.MODEL || "claude-sonnet-5-5";
const tools = await sluice.tools("anthropic");
const messages = [{ role: "user", content: question }];

for (let n = 1; ; n++) {
  if (n > turns) throw new Error(`the model has not come to an end in ${turns} turns`);
  const turn = { trace, turn: `t${n}`, format: "anthropic", can_ask: ask };
  const [content, answers] = await (stream ? again(() => streamed(turn)) : whole(turn));
  if (!answers) break;
  show(answers, (m) => m.content.map((block) => block.content));
  // The calls as Sluice has them, in their places: what was cut off is an object, too.
  const calls = answers.assistant.content.filter((block) => block.type === "tool_use");
  messages.push({ role: "assistant", content: content.map((block) => (block.type === "tool_use" ? calls.shift() : block)) }, ...answers.messages);
}

async function whole(turn) {
  // The body as it came: in JavaScript long numbers would lose their last digits.
  const response = await anthropic.messages.create({ model, max_tokens: 4096, messages, tools }).asResponse();
  const text = await response.text();
  const { content } = JSON.parse(text);
  for (const block of content) if (block.type === "text") console.log(block.text);
  return [content, await sluice.run(turn, text)]; // which knows whether a message without calls is the end, or was cut off
}

async function streamed(turn) {
  const response = await anthropic.messages.create({ model, max_tokens: 4096, messages, tools, stream: true }).asResponse();
  const [ours, theirs] = response.body.tee(); // what the provider sends goes to Sluice as it is
  const shown = MessageStream.fromReadableStream(Stream.fromSSEResponse(new Response(theirs), new AbortController()).toReadableStream());
  shown.on("text", (text) => process.stdout.write(text));
  const [answers, message] = await both(sluice.stream(turn, ours), shown.finalMessage());
  console.log();
  return [message.content, answers];
}
