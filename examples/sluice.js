// What an agent needs of Sluice, over HTTP, with nothing but Node.js. Copy it, and change it.

import { setTimeout as sleep } from "node:timers/promises";

/** A problem that the node answers with: what is wrong, and what to do next. */
export class Problem extends Error {
  constructor({ type = "", title = "", detail = "", next = "", status }) {
    super(`${title}: ${detail}. ${next}`);
    this.code = type.split(":").at(-1); // stream-cut, turn-exists …: docs/http.md lists all
    this.status = status;
  }
}

const patience = 60_000; // ms that a node may be away, for example to start again
const wait = 25_000; // ms that one request waits: proxies end what waits for longer
const passing = (e) => e instanceof Problem ? [408, 429, 502, 503, 504].includes(e.status) && e.code !== "stream-silent" : e instanceof TypeError; // fetch's own: no connection

export class Sluice {
  constructor({ url = process.env.SLUICE_URL || "http://127.0.0.1:8383", token = process.env.SLUICE_TOKEN } = {}) {
    this.url = url;
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** The tools, as the provider's API takes them. */
  tools(format) {
    return this.#ask("GET", `/v1/tools?format=${format}`);
  }

  /**
   * Runs the calls of a message and returns { assistant, messages }: the calls once more, each with an id of its own and
   * arguments that are JSON, and their answers; null where it has none and is the model's last word. turn has trace, turn and
   * format; message is the provider's response, or its text as it came, in which no number has been rounded. Throws a Problem
   * where it has no calls, and the model was cut off, blocked or failed all the same.
   *
   * The node may be killed and started again meanwhile: the same trace and turn attach to what was submitted before.
   */
  async run(turn, message) {
    const text = typeof message === "string" ? message : JSON.stringify(message);
    try {
      await this.#ask("POST", "/v1/turns", `${JSON.stringify(turn).slice(0, -1)},"message":${text}}`);
    } catch (e) {
      if (e instanceof Problem && e.code === "nothing-to-run") return null;
      throw e;
    }
    return this.answers(turn);
  }

  /** Waits until a turn has ended, and returns its calls and answers; people may have to be asked first. */
  async answers({ trace, turn, format }) {
    for (;;) {
      const m = await this.#ask("GET", `/v1/turns/${trace}/${turn}/messages?format=${format}&wait_ms=${wait}`);
      if (m.state === "completed" || m.state === "abandoned") return m;
      await sleep(100);
    }
  }

  /**
   * Passes a model's stream on while it comes, and then does what run does; nothing runs before the stream has ended well.
   * Returns null where it asks for no call and is the model's last word. Throws a Problem where it was cut or broken: nothing was submitted, and the model
   * can be asked again, under the same trace and turn.
   */
  async stream(turn, body, media = "text/event-stream") {
    const kept = [];
    const reader = body.getReader();
    const relay = new ReadableStream({
      async pull(to) {
        const { done, value } = await reader.read();
        if (done) return to.close();
        kept.push(value);
        to.enqueue(value);
      },
    });
    const path = `/v1/turns:stream?${new URLSearchParams(turn)}`;
    let got;
    try {
      got = await this.#once("POST", path, relay, media);
    } catch (e) {
      if (!passing(e)) throw e;
      // The node has gone, or the stream has: one that can be read to its end is sent again.
      for (let r = await reader.read(); !r.done; r = await reader.read()) kept.push(r.value);
      got = await this.#ask("POST", path, Buffer.concat(kept), media);
    }
    return got.state === "nothing" ? null : this.answers(turn);
  }

  async #ask(method, path, body, media = "application/json") {
    const end = Date.now() + patience;
    for (let pause = 100; ; pause = Math.min(2 * pause, 2000)) {
      try {
        return await this.#once(method, path, body, media);
      } catch (e) {
        if (!passing(e) || Date.now() > end) throw e;
      }
      await sleep(pause);
    }
  }

  async #once(method, path, body, media) {
    const headers = body === undefined ? this.headers : { ...this.headers, "Content-Type": media };
    const response = await fetch(this.url + path, { method, headers, body, duplex: "half" });
    const text = await response.text();
    if (response.ok) return JSON.parse(text);
    let problem = { title: response.statusText, detail: text.slice(0, 500) };
    try { problem = JSON.parse(text); } catch { /* not a node's words */ }
    throw new Problem({ ...problem, status: response.status });
  }
}
