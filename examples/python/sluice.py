"""What an agent needs of Sluice, over HTTP, with nothing but Python. Copy it, and change it."""

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request

PATIENCE = 60.0  # seconds that a node may be away, for example to start again
WAIT = 25_000  # ms that one request waits: proxies end what waits for longer
PASSING = (408, 429, 502, 503, 504)  # statuses after which the same request is sent again


class Problem(Exception):
    """A problem that the node answers with: what is wrong, and what to do next."""

    def __init__(self, status, title="", detail="", next="", type="", **_):
        super().__init__(f"{title}: {detail}. {next}")
        self.code = type.split(":")[-1]  # stream-cut, turn-exists …: docs/http.md lists all
        self.status = status


class Sluice:
    def __init__(self, url=None, token=None):
        self.url = url or os.environ.get("SLUICE_URL") or "http://127.0.0.1:8383"
        token = token or os.environ.get("SLUICE_TOKEN")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def tools(self, format):
        """The tools, as the provider's API takes them."""
        return self._ask("GET", f"/v1/tools?format={format}")

    def run(self, turn, message):
        """Runs the calls of a message, and returns what answers does: None where it has none and is the model's last word.

        turn has trace, turn and format; message is the provider's response as it came, in bytes, in which no number has been
        rounded. The node may be killed and started again meanwhile: the same trace and turn attach to what was submitted before.
        Raises a Problem where it has no calls, and the model was cut off, blocked or failed all the same.
        """
        body = json.dumps(turn)[:-1].encode() + b',"message":' + message + b"}"
        try:
            self._ask("POST", "/v1/turns", body)
        except Problem as e:
            if e.code == "nothing-to-run":
                return None
            raise
        return self.answers(turn)

    def answers(self, turn):
        """Waits until a turn has ended, and returns its calls ("assistant") and their answers ("messages").

        The calls are the model's once more, each with an id of its own and arguments that are JSON. People may have to be asked first.
        """
        path = f"/v1/turns/{turn['trace']}/{turn['turn']}/messages?format={turn['format']}&wait_ms={WAIT}"
        while True:
            m = self._ask("GET", path)
            if m["state"] in ("completed", "abandoned"):
                return m
            time.sleep(0.1)

    def stream(self, turn, chunks, media="text/event-stream"):
        """Passes a model's stream on while it comes, and then does what run does; nothing runs before the stream has ended well.

        chunks are its bytes. Returns None where it asks for no call and is the model's last word. Raises a Problem where it was
        cut or broken: nothing was submitted, and the model can be asked again, under the same trace and turn.
        """
        kept = bytearray()

        def passed_on():
            for chunk in chunks:
                kept.extend(chunk)
                yield chunk

        path, body = f"/v1/turns:stream?{query(turn)}", passed_on()
        try:
            got = self._once("POST", path, body, media)
        except (OSError, http.client.HTTPException, Problem) as e:
            if not passing(e):
                raise
            # The node has gone, or the stream has: what can be read of it is sent again.
            for _ in body:
                pass
            got = self._ask("POST", path, bytes(kept), media)
        return None if got["state"] == "nothing" else self.answers(turn)

    def _ask(self, method, path, body=None, media="application/json"):
        end, pause = time.monotonic() + PATIENCE, 0.1
        while True:
            try:
                return self._once(method, path, body, media)
            except (OSError, http.client.HTTPException, Problem) as e:
                if not passing(e) or time.monotonic() > end:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _once(self, method, path, body=None, media="application/json"):
        headers = self.headers if body is None else {**self.headers, "Content-Type": media}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE) as response:
                return json.load(response)
        except urllib.error.HTTPError as e:
            said = e.read()
            try:
                problem = {**json.loads(said), "status": e.code}
            except ValueError:  # not a node's words
                problem = {"status": e.code, "title": e.reason, "detail": said[:500].decode(errors="replace")}
            raise Problem(**problem) from None


def query(turn):
    return urllib.parse.urlencode({name: str(v).lower() if isinstance(v, bool) else v for name, v in turn.items()})


def passing(e):
    """Whether the same request may be sent again: the node is not there, or has no time."""
    return not isinstance(e, Problem) or e.status in PASSING and e.code != "stream-silent"
