// An agent on OpenAI's Chat Completions: the SDK asks the model, Sluice runs the calls.
//
//   node chat.js [--stream] [--ask] "question"

import OpenAI from "openai";
import { ChatCompletionStream } from "openai/lib/ChatCompletionStream";
import { Stream } from "openai/streaming";
import { again, both, settings, show } from "../agent.js";

const { sluice, question, trace, turns, ask, stream } = settings();
const openai = new OpenAI(); // OPENAI_API_KEY, OPENAI_BASE_URL
const model = process.env.MODEL || "gpt-5.6";
const tools = await sluice.tools("openai");
const messages = [{ role: "user", content: question }];

for (let n = 1; ; n++) {
  if (n > turns) throw new Error(`the model has not come to an end in ${turns} turns`);
  const turn = { trace, turn: `t${n}`, format: "openai", can_ask: ask };
  const [message, answers] = await (stream ? again(() => streamed(turn)) : whole(turn));
  if (!answers) break;
  show(answers, (m) => m.content);
  // The calls as Sluice has them: none without an id, none with another's, none with broken JSON.
  messages.push({ role: "assistant", content: message.content, tool_calls: answers.assistant.tool_calls }, ...answers.messages);
}

async function whole(turn) {
  const completion = await openai.chat.completions.create({ model, messages, tools });
  const { message } = completion.choices[0];
  if (message.content) console.log(message.content);
  return [message, await sluice.run(turn, completion)]; // which knows whether a message without calls is the end, or was cut off
}

async function streamed(turn) {
  const response = await openai.chat.completions.create({ model, messages, tools, stream: true }).asResponse();
  const [ours, theirs] = response.body.tee(); // what the provider sends goes to Sluice as it is
  const shown = ChatCompletionStream.fromReadableStream(Stream.fromSSEResponse(new Response(theirs), new AbortController()).toReadableStream());
  shown.on("content", (text) => process.stdout.write(text));
  const [answers, message] = await both(sluice.stream(turn, ours), shown.finalMessage());
  console.log();
  return [message, answers];
}
