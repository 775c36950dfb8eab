// Has the SDKs' own accumulators read streams: a JSON array of {format, text} comes in, and for each of them goes out
// {calls: [{id, tool, args}]}, or {error}. Members that the SDKs need and a stream of the corpus leaves out are filled in.

import { text } from "node:stream/consumers";
import { Stream as AnthropicStream } from "@anthropic-ai/sdk/streaming";
import { MessageStream } from "@anthropic-ai/sdk/lib/MessageStream";
import { ChatCompletionStream } from "openai/lib/ChatCompletionStream";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
import { Stream } from "openai/streaming";

const fill = {
  openai(o) {
    for (const choice of o.choices ?? []) {
      choice.index ??= 0;
      for (const call of choice.delta?.tool_calls ?? []) if (call.id && call.function) call.type ??= "function";
      if (choice.delta) choice.delta.role ??= "assistant";
    }
  },
  anthropic(o) {
    if (o.message) Object.assign(o.message, { usage: { input_tokens: 0, output_tokens: 0 }, content: [], role: "assistant", ...o.message });
    if (o.type === "message_delta") o.usage ??= { output_tokens: 0 };
  },
  responses(o) {
    if (o.response) o.response.output ??= [];
  },
};

const read = {
  async openai(response) {
    const stream = ChatCompletionStream.fromReadableStream(Stream.fromSSEResponse(response, new AbortController()).toReadableStream());
    stream.on("error", () => {});
    const { tool_calls = [] } = await stream.finalMessage();
    return tool_calls.map(({ id, function: f, custom }) => ({ id, tool: (f ?? custom).name, args: f?.arguments ?? custom.input }));
  },
  async anthropic(response) {
    const stream = MessageStream.fromReadableStream(AnthropicStream.fromSSEResponse(response, new AbortController()).toReadableStream());
    stream.on("error", () => {});
    const { content } = await stream.finalMessage();
    return content.filter(({ type }) => type === "tool_use").map(({ id, name, input }) => ({ id, tool: name, args: JSON.stringify(input) }));
  },
  async responses(response) {
    let whole;
    let last;
    for await (const event of Stream.fromSSEResponse(response, new AbortController())) {
      if (!whole && event.type !== "response.created") whole = accumulateResponse({ type: "response.created", response: { output: [] } });
      whole = accumulateResponse(event, whole);
      last = event.type;
    }
    if (!/^response\.(completed|incomplete|failed)$/.test(last)) throw new Error("no terminal event");
    if (last === "response.failed") throw new Error("failed");
    return whole.output.filter(({ type }) => /^(function|custom_tool)_call$/.test(type)).map(({ call_id, name, arguments: args, input }) => ({ id: call_id, tool: name, args: args ?? input }));
  },
};

// filled is the stream with what it leaves out; what is no JSON, and long integers, stay as they are.
function filled({ format, text }) {
  return text.replace(/^data: (\{.*\})$/gm, (line, json) => {
    try {
      if (/[0-9]{16}/.test(json)) return line;
      const o = JSON.parse(json);
      fill[format](o);
      return `data: ${JSON.stringify(o)}`;
    } catch {
      return line;
    }
  });
}

const out = [];
for (const one of JSON.parse(await text(process.stdin))) {
  try {
    const response = new Response(filled(one), { headers: { "Content-Type": "text/event-stream" } });
    out.push({ calls: await read[one.format](response) });
  } catch (e) {
    out.push({ error: String(e.message ?? e).slice(0, 200) });
  }
}
console.log(JSON.stringify(out));
