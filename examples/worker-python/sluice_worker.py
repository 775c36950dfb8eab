"""Serves tools to Sluice nodes over NATS, as docs/remote-tools.md says.

    worker = Worker(Nats("nats://127.0.0.1:4222"))

    @worker.tool("count_words", "Counts the words of a text.", {"text": {"type": "string"}}, tier="readonly")
    def count_words(task, text):
        return str(len(text.split()))

    worker.serve()
"""

import base64
import inspect
import json
import os
import re
import secrets
import signal
import socket
import threading
import time

VERSION, EVERY, PART = 1, 2.0, 512 << 10
NAME = re.compile("(?!.*__)[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LIMITS = ("wall_ms", "output_bytes", "lines", "text_bytes", "keep", "retries")


class ToolError(Exception):
    """A tool's own failure, for the model to read."""

    def __init__(self, message, code="EXECUTION_ERROR", kind="tool", effects="", after=0.0):
        super().__init__(message)
        self.said = {"message": message, "code": code, "class": kind, "effects": effects, "after_ms": int(after * 1000)}


class Task:
    """One attempt of a call, as its tool sees it."""

    def __init__(self, worker, offer):
        self._worker, self.id, self.verb, self.name = worker, offer["id"], offer["verb"], offer["tool"]
        self.cancelled = threading.Event()  # set where the node wants the end, or the time is up
        self.over = threading.Event()       # the node has heard the end, or somebody else has the attempt
        self.reply, self.go, self.work, self.parts, self.seq, self.born = "", None, None, [], 0, time.monotonic()
        self.lock, self.news, self.spoke = threading.Lock(), None, 0.0

    def progress(self, text="", done=0, total=0):
        """Says how far it is, at most ten times a second: what comes between is said with the next sign of life."""
        self.news = {"type": "progress", "text": text, "done": done, "total": total}
        if time.monotonic() - self.spoke > 0.1:
            self.sign()

    def sign(self):
        news, self.news, self.spoke = self.news, None, time.monotonic()
        self.say(news or {"type": "beat"})

    def say(self, message):
        with self.lock:
            self.seq += 1
            message.setdefault("seq", self.seq)
        self._worker.send(self.reply, {**message, "id": self.id, "worker": self._worker.name})


class Worker:
    def __init__(self, nats, user="worker", room=16, drain=10.0):
        self.nats, self.room, self.drain = nats, room, drain
        self.user, self.name = user, f"{user}.{secrets.token_hex(8)}"
        self.tools, self.tasks, self.lock = {}, {}, threading.Lock()
        self.since, self.leaving, self.told = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), False, {}

    def tool(self, name, description, properties, tier="irreversible", required=None, probe=None, honours_key=False, key="", **limits):
        """Declares a tool: its function gets the task, and the arguments by name.

        key is the JSON Pointer to the argument that makes task.key where the caller gives none; probe(task, …) says what it found, or None.
        limits are wall_ms, output_bytes, lines, text_bytes, keep and retries.
        """
        if not NAME.fullmatch(name):  # it is a part of subjects, and the server would close the connection
            raise ValueError(f"{name!r} can be no tool's name: 1 to 64 of A-Za-z0-9_-, the first a letter or a digit, without __")
        for limit in limits.keys() - LIMITS:
            raise TypeError(f"{name}: there is no limit {limit}: use {', '.join(LIMITS)}")

        def declare(run):
            schema = {"type": "object", "properties": properties, "additionalProperties": False,
                      "required": list(properties) if required is None else required}
            definition = {"description": description, "schema": schema, "tier": tier, "probe": probe is not None,
                          "honours_key": honours_key, "key": key, "limits": limits}
            self.tools[name] = (run, probe, definition)
            return run
        return declare

    def send(self, subject, message):
        body = json.dumps({"v": VERSION, **message}).encode()
        try:
            self.nats.publish(subject, body)
        except OSError as err:  # it is said again, or asked for
            print(f"not sent: {err}", flush=True)

    def announce(self, kind="here"):
        for name, (_, _, definition) in self.tools.items():
            self.send(f"sluice.here.{name}.{self.name}", {
                "type": kind, "since": self.since, "every_ms": int(EVERY * 1000), "running": len(self.tasks), "room": self.room,
                "about": f"python on {socket.gethostname()}, process {os.getpid()}", "tool": definition})

    def serve(self):
        """Serves until SIGTERM or SIGINT, then lets what runs end."""
        stop = threading.Event()
        for s in (signal.SIGTERM, signal.SIGINT):
            signal.signal(s, lambda *_: stop.set())
        self.nats.subscribe(f"sluice.worker.{self.name}", self._hear)
        self.nats.subscribe("sluice.workers", self._hear)
        for name in self.tools:
            self.nats.subscribe(f"sluice.tool.{name}", self._offered, queue="workers")
        self.nats.on_connect = self.announce
        if self.nats.wait(10):
            self.announce()
        silent = time.monotonic() + 5
        while not self.nats.refused and not stop.wait(EVERY):
            self.announce()
            if silent and time.monotonic() > silent:
                silent = 0
                if not self.told:
                    print(f"no node has answered: is there one that hears workers, and may {self.user} serve these tools (NATS_WORKER), and are their names allowed?", flush=True)
            for task in list(self.tasks.values()):  # accepted, and nobody said go
                if not task.go and time.monotonic() - task.born > 10:
                    self.tasks.pop(task.id, None)
        if self.nats.refused:
            raise SystemExit(f"the server does not let us in ({self.nats.refused}): the URL needs its token, or a user and password, as nats://tok@host:4222")
        self.leaving = True
        self.announce("gone")
        late = time.monotonic() + self.drain
        while self.tasks and time.monotonic() < late:
            time.sleep(0.02)
        for task in list(self.tasks.values()):
            task.cancelled.set()
            task.over.wait(1)
        self.nats.close()

    def _offered(self, subject, reply, body):
        offer = json.loads(body)
        why = self._refuses(offer)
        if not why:
            with self.lock:
                self.tasks.setdefault(offer["id"], Task(self, offer))
        self.send(reply, {"type": "refuse" if why else "accept", "worker": self.name, "why": why})

    def _refuses(self, offer):
        name, told = offer["tool"], self.told.get(offer["tool"])
        if offer["v"] != VERSION:
            return "version"
        if name not in self.tools or told and offer["definition"] not in told:
            return "definition"
        if offer["verb"] != "run" and not (offer["verb"] == "probe" and self.tools[name][1]):
            return "verb"
        if offer["left_ms"] <= 0:
            return "deadline"
        if self.leaving:
            return "draining"
        return "busy" if len(self.tasks) >= self.room and offer["id"] not in self.tasks else ""

    def _hear(self, subject, reply, body):
        m = json.loads(body)
        kind, task = m["type"], self.tasks.get(m.get("id"))
        if kind == "describe" and not self.leaving:
            self.announce()
        elif kind == "told":
            fresh = m["tool"] not in self.told
            self.told.setdefault(m["tool"], set()).add(m.get("definition"))  # none: it makes no sense
            if m["status"] == "refused":
                print("a node refuses", m["tool"], "-", m.get("why"), flush=True)
            if fresh and len(self.told) == len(self.tools):
                print("serving", *sorted(self.tools), flush=True)
        elif task and kind == "cancel":
            task.cancelled.set()
        elif task and kind == "done":
            task.over.set()
        elif task and kind == "no":
            self.tasks.pop(task.id, None)
        elif task and kind == "go" and not task.go:
            task.go, task.reply, task.work = m, reply, m.get("work")
        elif task and kind == "part":
            task.parts = [] if m["part"] == 1 else task.parts
            task.parts.append(base64.b64decode(m["data"]))
            if m["part"] == m["parts"] == len(task.parts):
                task.work = json.loads(b"".join(task.parts))
        if task and task.work and kind in ("go", "part"):
            threading.Thread(target=self._run, args=(task,), daemon=True).start()

    def _run(self, task):
        ended, beat = threading.Event(), task.go["beat_ms"] / 1000
        end = time.monotonic() + task.go["left_ms"] / 1000

        def beats():
            while not ended.wait(max(0.01, min(beat, end - time.monotonic())) if not task.cancelled.is_set() else beat):
                task.sign()
                if time.monotonic() >= end:
                    task.cancelled.set()
        threading.Thread(target=beats, daemon=True).start()
        task.sign()
        last = self._attempt(task)
        ended.set()
        last["seq"] = task.seq + 1  # the same, however often it is said
        for _ in range(30):  # until the node has heard it
            self._end(task, last)
            if task.over.wait(beat):
                break
        self.tasks.pop(task.id, None)

    def _attempt(self, task):
        run, probe, _ = self.tools[task.name]
        task.call, task.attempt, task.key = task.work["call"], task.work["attempt"], task.work.get("key", "")
        try:
            if task.verb == "probe":
                found = probe(task, **task.work["args"])
                return {"type": "found", "found": found is not None, "result": {"text": found or ""}}
            inspect.signature(run).bind(task, **task.work["args"])
            return {"type": "result", "result": result(run(task, **task.work["args"]))}
        except ToolError as err:
            return {"type": "error", "error": err.said}
        except Exception as err:  # a fault of the tool's: what it did by then is done
            return {"type": "error", "error": {"message": f"{type(err).__name__}: {err}"}}

    def _end(self, task, last):
        body = json.dumps({"v": VERSION, **last, "id": task.id}).encode()
        if len(body) < min(task.go["message_bytes"], self.nats.max_payload) - 1024:
            return task.say(dict(last))
        parts = [body[i:i + PART] for i in range(0, len(body), PART)]
        for i, part in enumerate(parts):
            task.say({"type": "part", "seq": last["seq"], "part": i + 1, "parts": len(parts), "data": base64.b64encode(part).decode()})


def result(out):
    """What a tool gave as the model gets it: a text as it is, nothing as nothing, all else as JSON."""
    if out is None:
        return {}
    if isinstance(out, str):
        return {"text": out}
    return {"text": json.dumps(out, ensure_ascii=False, separators=(",", ":"), allow_nan=False), "data": out}  # NaN is no JSON: a fault of the tool's
