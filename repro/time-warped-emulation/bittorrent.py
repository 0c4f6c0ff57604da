"""Figure 12: BitTorrent clients (aria2, from Debian) that fetch a file from each other, in dilated guests.

As a program, this file is the tracker (BEP 3, BEP 23) that a guest of the scenario runs; it uses only the standard library.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import socket
import statistics
import stat
import sys
import urllib.parse
from pathlib import Path

PORT = 6969
PIECE = 256 << 10


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


class Tracker(http.server.BaseHTTPRequestHandler):
    peers: set[tuple[str, int]] = set()

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        own = (self.client_address[0].removeprefix("::ffff:"), int(query.get("port", ["6881"])[0]))
        others = [peer for peer in sorted(self.peers) if peer != own][:60]
        self.peers.add(own)
        compact = b"".join(socket.inet_aton(host) + port.to_bytes(2, "big") for host, port in others)
        body = encode({"interval": 5, "min interval": 5, "peers": compact})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def torrent(path: Path, tracker: str) -> bytes:
    data = path.read_bytes()
    pieces = b"".join(hashlib.sha1(data[at : at + PIECE]).digest() for at in range(0, len(data), PIECE))
    return encode({"announce": tracker, "info": {"length": len(data), "name": path.name, "piece length": PIECE, "pieces": pieces}})


def scenario(directory: Path, clients: int, machines: int, rate_mbit: float, tdf: float | None, duration: float, size: int) -> str:
    """The scenario: a star of machines with this many clients. The first machine also has the seeder and the tracker."""
    clock = "" if tdf is None else f'clock = {{ mode = "dilated", tdf = {tdf} }}\n'
    text = f'name = "bittorrent"\nduration = "{duration}s"\n{clock}'
    memory = 256_000_000 + (clients // machines + 2) * int(size * 2.5)
    common = ["--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false", "--disable-ipv6=true", "--console-log-level=warn",
              "--summary-interval=0", "--show-console-readout=false", "--file-allocation=none", "--seed-ratio=0.0", "--bt-max-peers=60",
              "--listen-port=6881", "--check-certificate=false"]
    leaf = 'queue = { kind = "droptail", limit = "100ms" }'
    for number in range(-1, clients):
        name = f"client{number}" if number >= 0 else "seeder"
        machine = f"m{max(number, 0) % machines}"
        # As in the paper, each machine has one link, which its clients share.
        share = rate_mbit * machines / max(1, clients)
        text += f'[[link]]\nbetween = ["{name}", "core"]\nrate = "{share:.3f}Mbit/s"\ndelay = "5ms"\n{leaf}\n'
        text += f'[[host]]\nname = "{name}"\nendpoint = "guest"\nmachine = "{machine}"\nmemory = "{memory}B"\n'
        start, where, extra = (0.8, f"/tmp/{name}", [f"--on-bt-download-complete={directory}/done.sh"])
        if number < 0:
            text += f'[[host.program]]\ncommand = ["{sys.executable}", "{Path(__file__).resolve()}"]\nexpect = "running"\n'
            start, where, extra = 0.4, str(directory), ["--check-integrity=true"]
        words = ["aria2c", *common, *extra, f"--dir={where}", f"{directory}/file.torrent"]
        text += f'[[host.program]]\ncommand = {json.dumps(words)}\nstart = "{start}s"\nexpect = "any"\n'
    return text


def study(study) -> object:
    found, curves = [], {}
    size = 4_000_000 if study.short else 46_000_000
    directory = (study.out / "bittorrent").resolve()
    directory.mkdir(exist_ok=True)
    (directory / "file").write_bytes(os.urandom(1000) * (size // 1000))
    # The seeder is the first node that links mention.
    (directory / "file.torrent").write_bytes(torrent(directory / "file", f"http://10.0.0.1:{PORT}/announce"))
    script = directory / "done.sh"
    script.write_text("#!/bin/sh\nread up rest < /proc/uptime\necho done $up\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    # Perceived Mbit/s of a machine's link, and the factor: (a), (b) and (c) of the paper.
    settings = [(100, 1), (100, 10), (1000, 10)] if not study.short else [(100, 5)]
    for rate, tdf in settings:
        for clients in study.clients or ([4] if study.short else [40, 80, 120, 160, 200, 240]):
            machines = 2 if study.short else 10
            duration = 15 if study.short else 120
            name = f"figure12-{rate}-{tdf}-{clients}"
            summary, run = study.run(name, scenario(directory, clients, machines, rate, tdf, duration, size))
            times = []
            for printed in (run / "programs").glob("client*.0.stdout"):
                # The guests' clock shows 100 s when the run begins, and clients start at 0.8 s.
                times += [float(line.split()[1]) - 100.8 for line in printed.read_text().splitlines() if line.startswith("done ")]
            if len(times) < clients:
                study.wrong.append(f"{name}: {clients - len(times)} of {clients} clients have not finished in {duration} s")
            mean = statistics.mean(times) if times else float("nan")
            total = clients * size * 8 / mean / 1e6
            found.append({"rate": rate, "tdf": tdf, "clients": clients, "mean_s": mean, "aggregate_mbit": total,
                          "kept_pace": summary["live"]["kept_pace"]})
            print(f"  TDF {tdf:2}, {rate:5} Mbit/s a machine, {clients:3} clients: {mean:7.2f} s, {total:9.1f} Mbit/s in all")
            xs, ys = curves.setdefault(f"TDF {tdf}, {rate} Mbit/s", ([], []))
            xs.append(clients)
            ys.append(total)
    study.plot("figure12", "clients", "aggregate Mbit/s", curves)
    return found


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("0.0.0.0", PORT), Tracker).serve_forever()
