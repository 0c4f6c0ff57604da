"""A BitTorrent tracker (BEP 3, BEP 23), which a guest of figure 12 runs as a program, and torrents. It uses only the standard library.

`tracker.py CLIENTS` ends when so many clients have the whole file.
"""

from __future__ import annotations

import hashlib
import http.server
import socket
import sys
import threading
import time
import urllib.parse
from pathlib import Path

PORT = 6969
PIECE = 256 << 10
ALL = "all clients have the file"
"""What it prints at its end."""
LINGER_S = 0.5
"""How long it stays when all have the file, so that the last client can say so elsewhere, too."""


def encode(value: object) -> bytes:
    """Bencoding (BEP 3)."""
    match value:
        case int():
            return b"i%de" % value
        case bytes():
            return b"%d:%s" % (len(value), value)
        case str():
            return encode(value.encode())
        case list():
            return b"l" + b"".join(map(encode, value)) + b"e"
        case dict():
            return b"d" + b"".join(encode(key) + encode(value[key]) for key in sorted(value)) + b"e"
    raise TypeError(type(value))


class Server(http.server.ThreadingHTTPServer):
    """All clients ask at once when they start."""

    request_queue_size = 512


class Tracker(http.server.BaseHTTPRequestHandler):
    """Tells each client which others there are."""

    peers: set[tuple[str, int]] = set()
    complete: set[tuple[str, int]] = set()
    done = threading.Event()
    clients = 0

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        own = (self.client_address[0].removeprefix("::ffff:"), int(query.get("port", ["6881"])[0]))
        others = [peer for peer in sorted(self.peers) if peer != own][:60]
        self.peers.add(own)
        if query.get("event") == ["completed"]:
            self.complete.add(own)
            if len(self.complete) >= self.clients:
                self.done.set()
        compact = b"".join(socket.inet_aton(host) + port.to_bytes(2, "big") for host, port in others)
        body = encode({"interval": 5, "min interval": 5, "peers": compact})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def torrent(path: Path, tracker: str) -> bytes:
    """The torrent of a file, for clients that ask the tracker at this URL."""
    data = path.read_bytes()
    pieces = b"".join(hashlib.sha1(data[at : at + PIECE]).digest() for at in range(0, len(data), PIECE))
    return encode({"announce": tracker, "info": {"length": len(data), "name": path.name, "piece length": PIECE, "pieces": pieces}})


if __name__ == "__main__":
    Tracker.clients = int(sys.argv[1])
    with Server(("0.0.0.0", PORT), Tracker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Tracker.done.wait()
        time.sleep(LINGER_S)
        server.shutdown()
    print(ALL, flush=True)
