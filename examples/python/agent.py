"""An agent on any server that speaks OpenAI's Chat Completions: urllib asks the model, Sluice runs the calls.

    python3 agent.py [--stream] [--ask] "question"
"""

import argparse
import json
import os
import time
import urllib.error
import urllib.request
import uuid

from sluice import Problem, Sluice

URL = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
KEY = os.environ.get("OPENAI_API_KEY", "")
MODEL = os.environ.get("MODEL") or "gpt-5.6"


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--stream", action="store_true", help="read the model's answers as they come")
    words.add_argument("--ask", action="store_true", help="a person can be asked; otherwise what must be asked is denied")
    words.add_argument("--trace", default=str(uuid.uuid4()), help="names the conversation in Sluice's log")
    words.add_argument("--turns", type=int, default=20, help="how often the model may answer")
    words.add_argument("question", nargs="*", default=["What is in this folder?"])
    args = words.parse_args()

    sluice = Sluice()
    tools = sluice.tools("openai")
    messages = [{"role": "user", "content": " ".join(args.question)}]
    for n in range(1, args.turns + 1):
        turn = {"trace": args.trace, "turn": f"t{n}", "format": "openai", "can_ask": args.ask}
        content, answers = (streamed if args.stream else whole)(sluice, turn, messages, tools)
        if answers is None:
            return
        show(answers["messages"])
        # The calls as Sluice has them: none without an id, none with another's, none with broken JSON.
        messages.append({"role": "assistant", "content": content, "tool_calls": answers["assistant"]["tool_calls"]})
        messages.extend(answers["messages"])
    raise SystemExit(f"the model has not come to an end in {args.turns} turns")


def ask(messages, tools, stream):
    """Asks the model, and asks again where it has no time."""
    body = json.dumps({"model": MODEL, "messages": messages, "tools": tools, "stream": stream}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    for failed in range(4):
        try:
            return urllib.request.urlopen(urllib.request.Request(URL + "/chat/completions", body, headers), timeout=600)
        except urllib.error.HTTPError as e:
            if failed == 3 or e.code != 429 and e.code < 500:
                raise SystemExit(f"the model: {e.code} {e.reason}: {e.read(2000).decode(errors='replace')}") from None
        time.sleep(2**failed)


def whole(sluice, turn, messages, tools):
    """Has the model answer at once. Returns its words, and the answers to its calls: None where there are none."""
    with ask(messages, tools, False) as response:
        raw = response.read()
    content = json.loads(raw)["choices"][0]["message"]["content"]
    print(content or "")
    return content, sluice.run(turn, raw)  # which knows whether a message without calls is the end, or was cut off


def streamed(sluice, turn, messages, tools):
    """Relays the model's stream, and shows its words. A stream that broke has submitted nothing: the model is asked again."""
    for _ in range(3):
        said = []
        try:
            with ask(messages, tools, True) as response:
                answers = sluice.stream(turn, shown(response, said))
            print()
            return "".join(said), answers
        except Problem as e:
            if not e.code.startswith("stream-") and e.code != "model-failed":
                raise
            print(f"\n[again] {e}")
    raise SystemExit("the model's stream broke three times")


def shown(lines, said):
    """The lines of a stream, whose words are shown and kept as they go by."""
    for line in lines:
        yield line
        try:
            choices = json.loads(line.removeprefix(b"data:")).get("choices")
        except ValueError:
            continue  # [DONE], an empty line, one that was cut
        if choices and choices[0].get("delta", {}).get("content"):
            said.append(choices[0]["delta"]["content"])
            print(said[-1], end="", flush=True)


def show(messages):
    """Shows the answers of a turn, a line each."""
    for message in messages:
        answer = json.loads(message["content"])
        error = answer.get("error")
        said = f"{error['code']}: {error['message']}" if error else answer.get("text", "")
        print(f"[{answer['status']}] {said.partition(chr(10))[0][:120]}")


if __name__ == "__main__":
    try:
        main()
    except Problem as e:
        raise SystemExit(f"agent: error: {e}") from None
