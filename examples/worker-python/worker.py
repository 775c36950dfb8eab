"""A worker with three tools: one that reads, one that takes its time, one with an effect.

    python3 worker.py nats://127.0.0.1:4222 [notes.jsonl]
"""

import json
import os
import sys
from urllib.parse import unquote, urlsplit

from natslite import Nats
from sluice_worker import ToolError, Worker

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
notes = sys.argv[2] if len(sys.argv) > 2 else "notes.jsonl"
own = urlsplit(url)
worker = Worker(Nats(url, "worker-python"), user=os.environ.get("NATS_WORKER") or (own.password and unquote(own.username)) or "worker")


@worker.tool("count_words", "Counts the words of a text.", {"text": {"type": "string", "description": "any text"}}, tier="readonly")
def count_words(task, text):
    return {"words": len(text.split()), "characters": len(text)}


@worker.tool("countdown", "Counts down, a step each 100 ms, and says how far it is.",
             {"steps": {"type": "integer", "minimum": 1, "maximum": 6000}}, tier="readonly", wall_ms=600_000)
def countdown(task, steps):
    for i in range(steps):
        if task.cancelled.wait(0.1):
            raise ToolError(f"stopped at {i} of {steps}", code="CANCELLED", kind="cancelled", effects="none")
        task.progress("counting", i + 1, steps)
    return "lift off"


def find_note(task, text, stall_ms=0):
    """The probe: whether the note of this call is in the file."""
    if os.path.exists(notes):
        with open(notes, encoding="utf-8") as f:
            if any(json.loads(line)["call"] == task.call for line in f):
                return "noted, as the file says"
    return None


@worker.tool("note", "Appends a note to a file.", {"text": {"type": "string"}, "stall_ms": {"type": "integer"}},
             required=["text"], tier="irreversible", probe=find_note)
def note(task, text, stall_ms=0):
    with open(notes, "a", encoding="utf-8") as f:
        f.write(json.dumps({"call": task.call, "attempt": task.attempt, "text": text}) + "\n")
        f.flush()
        os.fsync(f.fileno())
    task.cancelled.wait(stall_ms / 1000)  # as a slow disk would
    return "noted"


worker.serve()
