// An agent on Gemini: the SDK asks the model, Sluice runs the calls.
//
//   node agent.js [--stream] [--ask] "question"

import { GoogleGenAI } from "@google/genai";
import { again, both, settings, show } from "../agent.js";

const { sluice, question, trace, turns, ask, stream } = settings();
const gemini = new GoogleGenAI({ // GOOGLE_GEMINI_BASE_URL
  apiKey: process.env.GEMINI_API_KEY,
  httpOptions: { retryOptions: { attempts: 4 } }, // of its own it does not ask again where the model has no time
});
const model = process.env.MODEL || "gemini-3.8-flash";
const config = { tools: await sluice.tools("gemini") };
const contents = [{ role: "user", parts: [{ text: question }] }];

for (let n = 1; ; n++) {
  if (n > turns) throw new Error(`the model has not come to an end in ${turns} turns`);
  const turn = { trace, turn: `t${n}`, format: "gemini", can_ask: ask };
  const [parts, answers] = await (stream ? again(() => streamed(turn)) : whole(turn));
  if (!answers) break;
  show(answers, (content) => content.parts.map(({ functionResponse: { response } }) => response.output ?? response.error));
  // The calls as Sluice has them, in their places, with the thoughts that Gemini wants back.
  const calls = answers.assistant.parts.filter((part) => part.functionCall);
  contents.push({ role: "model", parts: parts.map((part) => (part.functionCall ? calls.shift() : part)) }, ...answers.messages);
}

async function whole(turn) {
  const response = await gemini.models.generateContent({ model, contents, config });
  const parts = response.candidates?.[0]?.content?.parts ?? [];
  for (const { text, thought } of parts) if (text && !thought) console.log(text);
  return [parts, await sluice.run(turn, said(response))]; // which knows whether a response without calls is the end, or was cut off
}

/** What Sluice needs of a response: the model's message, or why there is none. */
function said({ candidates, promptFeedback }) {
  return { candidates, promptFeedback };
}

async function streamed(turn) {
  const { readable, writable } = new TransformStream();
  const parts = [];
  const read = async () => {
    const to = writable.getWriter();
    try {
      for await (const chunk of await gemini.models.generateContentStream({ model, contents, config })) {
        for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
          if (part.text && !part.thought) process.stdout.write(part.text);
          parts.push(part);
        }
        await to.write(new TextEncoder().encode(JSON.stringify(said(chunk)) + "\n"));
      }
      await to.close();
    } catch (e) {
      await to.abort(e).catch(() => {}); // half a stream must not look whole
      throw e;
    }
  };
  const [answers] = await both(sluice.stream(turn, readable, "application/x-ndjson"), read()); // a chunk a line
  console.log();
  return [parts, answers];
}
