// Serves tools to Sluice nodes over NATS, as docs/remote-tools.md says.
//
//   const worker = new Worker(await connect({ servers }));
//   worker.tool("shout", { description: "…", schema: {…}, tier: "readonly" }, async (task, { text }) => text.toUpperCase());
//   await worker.serve();

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

const VERSION = 1, EVERY = 2000, PART = 512 * 1024;
const NAME = /^(?!.*__)[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const MEMBERS = ["description", "schema", "version", "tier", "honours_key", "key", "limits"];
const LIMITS = ["wall_ms", "output_bytes", "lines", "text_bytes", "keep", "retries"];

/** Refuses what nodes would pass over without a word. */
function known(what, given, names) {
  for (const name of Object.keys(given)) if (!names.includes(name)) throw new TypeError(`${what}: there is no ${name}: use ${names.join(", ")}`);
}

/** A tool's own failure, for the model to read. */
export class ToolError extends Error {
  constructor(message, said = {}) {
    super(message);
    this.said = { message, ...said }; // code, class, path, effects, after_ms
  }
}

export class Worker {
  constructor(nc, { user = "worker", room = 16, drain = 10_000 } = {}) {
    Object.assign(this, { nc, room, drain, name: `${user}.${randomUUID()}`, since: new Date().toISOString() });
    this.tools = new Map(); // name → {definition, run, probe}
    this.tasks = new Map(); // id → task
    this.told = new Map(); // name → what nodes call its definition
    this.leaving = false;
  }

  /** Declares a tool. definition: description, schema, tier, limits, honours_key, key. probe(task, args) says what it found, or null. */
  tool(name, definition, run, probe) {
    if (!NAME.test(name)) throw new RangeError(`${name} can be no tool's name: 1 to 64 of A-Za-z0-9_-, the first a letter or a digit, without __`);
    known(name, definition, MEMBERS);
    known(`${name}: limits`, definition.limits ?? {}, LIMITS);
    this.tools.set(name, { definition: { ...definition, probe: !!probe }, run, probe });
  }

  send(subject, message, reply) {
    try {
      this.nc.publish(subject, JSON.stringify({ v: VERSION, ...message }), { reply });
    } catch (err) { // it is said again, or asked for
      console.error("not sent:", err.message);
    }
  }

  announce(type = "here") {
    for (const [name, { definition }] of this.tools) {
      this.send(`sluice.here.${name}.${this.name}`, {
        type, since: this.since, every_ms: EVERY, running: this.tasks.size, room: this.room,
        about: `node on ${hostname()}, process ${process.pid}`, tool: definition,
      });
    }
  }

  /** Serves until SIGTERM or SIGINT, then lets what runs end. */
  async serve() {
    const hear = (err, m) => err || this.#hear(m.json(), m.reply);
    this.nc.subscribe(`sluice.worker.${this.name}`, { callback: hear });
    this.nc.subscribe("sluice.workers", { callback: hear });
    this.announce(); // BEFORE anything is offered: a node hands nothing to a worker that it does not know
    for (const name of this.tools.keys()) {
      this.nc.subscribe(`sluice.tool.${name}`, { queue: "workers", callback: (err, m) => err || this.#offered(m.json(), m.reply) });
    }
    const beat = setInterval(() => {
      this.announce();
      for (const task of this.tasks.values()) { // accepted, and nobody said go
        if (!task.go && Date.now() - task.born > 10_000) this.tasks.delete(task.id);
      }
    }, EVERY);
    await this.nc.flush();
    const silence = setTimeout(() => {
      if (!this.told.size) console.error(`no node has answered: is there one that hears workers, and may ${this.name.split(".")[0]} serve these tools (NATS_WORKER), and are their names allowed?`);
    }, 5000);
    await new Promise((stop) => { process.once("SIGTERM", stop); process.once("SIGINT", stop); });
    clearInterval(beat);
    clearTimeout(silence);
    this.leaving = true;
    this.announce("gone");
    const running = () => Promise.all([...this.tasks.values()].map((task) => task.gone));
    await Promise.race([running(), later(this.drain)]);
    for (const task of this.tasks.values()) task.abort.abort("the worker stops");
    await Promise.race([running(), later(1000)]);
    await this.nc.close();
  }

  #offered(offer, reply) {
    const why = this.#refuses(offer);
    if (!why && !this.tasks.has(offer.id)) {
      const task = { id: offer.id, verb: offer.verb, tool: offer.tool, born: Date.now(), seq: 0, parts: [], abort: new AbortController() };
      task.gone = new Promise((over) => { task.leave = over; });
      task.heard = new Promise((done) => { task.done = done; });
      this.tasks.set(offer.id, task);
    }
    this.send(reply, { type: why ? "refuse" : "accept", worker: this.name, why });
  }

  #refuses(offer) {
    const tool = this.tools.get(offer.tool), told = this.told.get(offer.tool);
    if (offer.v !== VERSION) return "version";
    if (!tool || (told && !told.has(offer.definition))) return "definition";
    if (offer.verb !== "run" && !(offer.verb === "probe" && tool.probe)) return "verb";
    if (offer.left_ms <= 0) return "deadline";
    if (this.leaving) return "draining";
    return this.tasks.size >= this.room && !this.tasks.has(offer.id) ? "busy" : undefined;
  }

  #hear(m, reply) {
    const task = this.tasks.get(m.id);
    if (m.type === "describe") {
      if (!this.leaving) this.announce();
    } else if (m.type === "told") {
      const fresh = !this.told.has(m.tool);
      this.told.set(m.tool, (this.told.get(m.tool) ?? new Set()).add(m.definition));
      if (m.status === "refused") console.error("a node refuses", m.tool, "-", m.why);
      if (fresh && this.told.size === this.tools.size) console.log("serving", ...[...this.tools.keys()].sort());
    } else if (task && m.type === "cancel") {
      task.abort.abort(m.why);
    } else if (task && m.type === "done") {
      task.done(true);
    } else if (task && m.type === "no") {
      this.#drop(task);
    } else if (task && m.type === "go" && !task.go) {
      Object.assign(task, { go: m, reply });
      if (m.work) this.#run(task, m.work);
    } else if (task && m.type === "part") {
      if (m.part === 1) task.parts = [];
      task.parts.push(Buffer.from(m.data, "base64"));
      if (m.part === m.parts && task.parts.length === m.parts) this.#run(task, JSON.parse(Buffer.concat(task.parts).toString()));
    }
  }

  #drop(task) {
    this.tasks.delete(task.id);
    task.leave();
  }

  async #run(task, work) {
    const say = (message) => this.send(task.reply, { seq: ++task.seq, ...message, id: task.id, worker: this.name });
    let news, spoke = 0; // progress that was not said yet, and when something last was
    const sign = () => {
      say(news ?? { type: "beat" });
      [news, spoke] = [undefined, Date.now()];
    };
    const progress = (text, done = 0, total = 0) => { // at most ten times a second: what comes between is said with the next sign of life
      news = { type: "progress", text, done, total };
      if (Date.now() - spoke > 100) sign();
    };
    const beat = setInterval(sign, task.go.beat_ms);
    const late = setTimeout(() => task.abort.abort("deadline"), task.go.left_ms);
    sign();
    const { tool, verb, args, ...rest } = work;
    const last = await this.#attempt({
      ...rest, tool, verb, signal: task.abort.signal, progress,
    }, args);
    clearInterval(beat);
    clearTimeout(late);
    last.seq = ++task.seq; // the same, however often it is said
    for (let i = 0; i < 30; i++) { // until the node has heard it
      this.#end(task, say, last);
      if (await Promise.race([task.heard, later(task.go.beat_ms)])) break;
    }
    this.#drop(task);
  }

  async #attempt(task, args) {
    const tool = this.tools.get(task.tool);
    try {
      if (task.verb === "probe") {
        const found = await tool.probe(task, args);
        return { type: "found", found: found != null, result: { text: found ?? "" } };
      }
      return { type: "result", result: result(await tool.run(task, args)) };
    } catch (err) { // a fault of the tool's, if it is no ToolError: what it did by then is done
      return { type: "error", error: err instanceof ToolError ? err.said : { message: err instanceof Error ? `${err.name}: ${err.message}` : String(err) } };
    }
  }

  #end(task, say, last) {
    const body = Buffer.from(JSON.stringify({ v: VERSION, ...last, id: task.id }));
    if (body.length < Math.min(task.go.message_bytes, this.nc.info?.max_payload ?? Infinity) - 1024) return say(last);
    const parts = Math.ceil(body.length / PART);
    for (let i = 0; i < parts; i++) {
      say({ type: "part", seq: last.seq, part: i + 1, parts, data: body.subarray(i * PART, (i + 1) * PART).toString("base64") });
    }
  }
}

/** What a tool gave as the model gets it: a text as it is, nothing as nothing, all else as JSON. */
function result(out) {
  if (out === undefined || out === null) return {};
  return typeof out === "string" ? { text: out } : { text: JSON.stringify(out), data: out };
}

const later = (ms) => new Promise((done) => { setTimeout(done, ms).unref(); });
