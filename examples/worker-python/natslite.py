"""A small NATS client: connect, publish, subscribe, come back when the connection breaks.

It needs nothing but the standard library. In a program of your own use nats-py, which
does the same and much more (nkeys, credentials files, JetStream).
"""

import json
import random
import socket
import ssl
import threading
from urllib.parse import unquote, urlsplit

MAX_LINE = 4096


class Nats:
    """A connection. Callbacks run on its one reading thread: they must be quick."""

    def __init__(self, url, name="worker"):
        at = urlsplit(url if "://" in url else "nats://" + url)
        self.host, self.port = at.hostname or "127.0.0.1", at.port or 4222
        self.tls = at.scheme == "tls"
        self.hello = {"verbose": False, "pedantic": False, "lang": "python", "version": "1", "protocol": 1,
                      "headers": True, "no_responders": True, "name": name}
        if at.password is not None:
            self.hello["user"], self.hello["pass"] = unquote(at.username or ""), unquote(at.password)
        elif at.username:
            self.hello["auth_token"] = unquote(at.username)
        self.max_payload = 1 << 20
        self.on_connect = lambda: None  # called on the reading thread, whenever a connection is there
        self.refused = ""  # why the server lets nobody in who says what we say: nothing is tried any more
        self._subs, self._lock, self._sock = {}, threading.RLock(), None
        self._closed, self._ready = threading.Event(), threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, seconds):
        """Waits for the first connection. It returns False if there is none by then, or the server refuses us."""
        return self._ready.wait(seconds) and not self.refused

    def publish(self, subject, body, reply=""):
        """Publishes bytes. Without a connection it raises OSError: say it again later."""
        head = f"PUB {subject} {reply + ' ' if reply else ''}{len(body)}\r\n".encode()
        self._send(head + body + b"\r\n")

    def subscribe(self, subject, callback, queue=""):
        """Calls callback(subject, reply, body) for each message, also after a reconnect."""
        with self._lock:
            sid = str(len(self._subs) + 1)
            self._subs[sid] = (subject, queue, callback)
            if self._sock:
                self._send(self._sub(sid))
        return sid

    def close(self):
        self._closed.set()
        with self._lock:
            if self._sock:
                self._sock.shutdown(socket.SHUT_RDWR)

    def _sub(self, sid):
        subject, queue, _ = self._subs[sid]
        return f"SUB {subject} {queue + ' ' if queue else ''}{sid}\r\n".encode()

    def _send(self, data):
        with self._lock:
            if not self._sock:
                raise ConnectionError("there is no connection to NATS now")
            self._sock.sendall(data)

    def _run(self):
        wait = 0.1
        while not self._closed.is_set():
            try:
                self._serve()
                wait = 0.1
            except (OSError, ValueError) as err:
                if not self.refused:
                    print(f"NATS: {err}", flush=True)
            with self._lock:
                if self._sock:
                    self._sock.close()
                self._sock = None
            self._closed.wait(wait * (0.5 + random.random()))
            wait = min(2 * wait, 2.0)

    def _serve(self):
        sock = socket.create_connection((self.host, self.port), timeout=10)
        read = sock.makefile("rb")
        info = json.loads(read.readline(1 << 20)[5:])
        if self.tls or info.get("tls_required"):
            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=self.host)
            read = sock.makefile("rb")
        self.max_payload = info.get("max_payload", self.max_payload)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(60)  # the server pings more often
        with self._lock:
            hello = f"CONNECT {json.dumps(self.hello)}\r\n".encode()
            sock.sendall(hello + b"".join(self._sub(sid) for sid in self._subs) + b"PING\r\n")  # at once: who is refused reads why
            self._sock = sock
        while line := read.readline(MAX_LINE):
            self._line(read, line)
        raise ConnectionError("the server has closed the connection")

    def _line(self, read, line):
        op, _, rest = line.strip().partition(b" ")
        words = rest.decode().split()
        if op in (b"MSG", b"HMSG"):
            head = int(words[-2]) if op == b"HMSG" else 0
            subject, sid, reply = words[0], words[1], words[2] if len(words) > (4 if head else 3) else ""
            body = read.read(int(words[-1]) + 2)[head:-2]
            if sid in self._subs:
                self._subs[sid][2](subject, reply, body)
        elif op == b"PING":
            self._send(b"PONG\r\n")
        elif op == b"PONG":  # to our one PING, behind the subscriptions
            self._ready.set()
            self.on_connect()
        elif op == b"-ERR":
            said = rest.decode(errors="replace").strip("'")
            print("NATS says", said, flush=True)
            if said == "Authorization Violation":
                self.refused = said
                self._closed.set()
                self._ready.set()
