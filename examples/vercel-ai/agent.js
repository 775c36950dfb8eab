// An agent on Vercel's AI SDK, with any provider that speaks OpenAI's Chat Completions: the SDK asks the model, Sluice runs
// the calls. The tools have no execute, so that the SDK hands the calls out and ends its turn.
//
//   node agent.js [--stream] [--ask] "question"

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";
import { again, both, settings, show } from "../agent.js";

const { sluice, question, trace, turns, ask, stream } = settings();
let relay = () => {}; // takes the body of an answer as the provider sends it
const provider = createOpenAICompatible({
  name: "provider",
  baseURL: process.env.OPENAI_BASE_URL || "https://api.openai.com/v1",
  apiKey: process.env.OPENAI_API_KEY,
  fetch: async (url, init) => {
    const response = await fetch(url, init);
    if (!response.ok) return response; // the SDK asks again
    const [ours, theirs] = response.body.tee();
    relay(ours);
    return new Response(theirs, response);
  },
});
const model = provider(process.env.MODEL || "gpt-5.6");
const tools = Object.fromEntries((await sluice.tools("openai")).map(({ function: f }) =>
  [f.name, tool({ description: f.description, inputSchema: jsonSchema(f.parameters) })]));
const messages = [{ role: "user", content: question }];

for (let n = 1; ; n++) {
  if (n > turns) throw new Error(`the model has not come to an end in ${turns} turns`);
  const turn = { trace, turn: `t${n}`, can_ask: ask };
  const [content, answers] = await (stream ? again(() => streamed(turn)) : whole(turn));
  if (!answers) break;
  show(answers, (m) => m.content.map((part) => part.output.value));
  // The calls as Sluice has them, behind the words; its answers are all that they get.
  const words = content.filter((part) => part.type === "text" || part.type === "reasoning").map(({ type, text }) => ({ type, text }));
  messages.push({ role: "assistant", content: [...words, ...answers.assistant.content.filter((part) => part.type === "tool-call")] }, ...answers.messages);
}

async function whole(turn) {
  const begun = new Promise((resolve) => { relay = resolve; });
  const { text, content } = await generateText({ model, messages, tools });
  if (text) console.log(text);
  // The provider's own words, which say more than what the SDK makes of them: also whether the end is one.
  const answers = await sluice.run({ ...turn, format: "openai" }, await new Response(await begun).text());
  return [content, answers && (await asked(turn))];
}

async function streamed(turn) {
  const begun = new Promise((resolve) => { relay = resolve; });
  const result = streamText({ model, messages, tools, onError: () => {} }); // what goes wrong is thrown below
  const shown = (async () => {
    for await (const part of result.fullStream) {
      if (part.type === "text-delta") process.stdout.write(part.text);
      if (part.type === "error") throw part.error;
    }
    return result.content;
  })();
  const body = Promise.race([begun, shown.then(() => begun)]); // the model may never begin: then shown has thrown
  const [answers, content] = await both(body.then((b) => sluice.stream({ ...turn, format: "openai" }, b)), shown);
  console.log();
  return [content, answers && (await asked(turn))];
}

/** The turn in the form that the SDK's messages have. */
function asked(turn) {
  return sluice.answers({ ...turn, format: "aisdk" });
}
