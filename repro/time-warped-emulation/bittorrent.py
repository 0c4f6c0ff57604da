"""Figure 12: BitTorrent clients (aria2, from Debian) that fetch a file from each other, in dilated guests.

As a program, this file is the tracker (BEP 3, BEP 23) that a guest of the scenario runs; it uses only the standard library.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import math
import os
import socket
import stat
import statistics
import sys
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

import figures

if TYPE_CHECKING:
    from study import Study

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
    """The scenario: machines with this many clients, and one link of `rate_mbit` that all of their traffic shares, as the paper's emulator had.

    Each machine is connected to it at the same rate, which its clients share. The first machine also has the seeder and the tracker.
    """
    clock = "" if tdf is None else f'clock = {{ mode = "dilated", tdf = {tdf} }}\n'
    text = f'name = "bittorrent"\nduration = "{duration}s"\n{clock}'
    memory = 256_000_000 + (clients // machines + 2) * int(size * 2.5)
    common = ["--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false", "--disable-ipv6=true", "--console-log-level=warn",
              "--summary-interval=0", "--show-console-readout=false", "--file-allocation=none", "--seed-ratio=0.0", "--bt-max-peers=60",
              "--listen-port=6881", "--check-certificate=false"]
    queue = 'queue = { kind = "droptail", limit = "100ms" }'

    def link(start: str, end: str, rate: float, delay: str = "0s") -> str:
        return f'[[link]]\nfrom = "{start}"\nto = "{end}"\nrate = "{rate}Mbit/s"\ndelay = "{delay}"\n{queue}\n'

    for number in range(-1, clients):
        name = f"client{number}" if number >= 0 else "seeder"
        own = max(number, 0) % machines
        # On its machine nothing limits a client.
        text += link(name, f"up{own}", 10 * rate_mbit, "2ms") + link(f"down{own}", name, 10 * rate_mbit, "2ms")
        text += f'[[host]]\nname = "{name}"\nendpoint = "guest"\nmachine = "m{own}"\nmemory = "{memory}B"\n'
        start, where, extra = (0.8, f"/tmp/{name}", [f"--on-bt-download-complete={directory}/done.sh"])
        if number < 0:
            text += f'[[host.program]]\ncommand = ["{sys.executable}", "{Path(__file__).resolve()}"]\nexpect = "running"\n'
            start, where, extra = 0.4, str(directory), ["--check-integrity=true"]
        words = ["aria2c", *common, *extra, f"--dir={where}", f"{directory}/file.torrent"]
        text += f'[[host.program]]\ncommand = {json.dumps(words)}\nstart = "{start}s"\nexpect = "any"\n'
    text += link("in", "out", rate_mbit, "2ms")
    for machine in range(machines):
        text += link(f"up{machine}", "in", rate_mbit, "2ms") + link("out", f"down{machine}", rate_mbit, "2ms")
    return text


def study(study: Study) -> object:
    found: list[dict] = []
    curves: dict[str, tuple] = {}
    size = 4_000_000 if study.short else 46_000_000
    directory = (study.out / "bittorrent").resolve()
    directory.mkdir(exist_ok=True)
    (directory / "file").write_bytes(os.urandom(1000) * (size // 1000))
    # The seeder is the first node that links mention.
    (directory / "file.torrent").write_bytes(torrent(directory / "file", f"http://10.0.0.1:{PORT}/announce"))
    script = directory / "done.sh"
    script.write_text("#!/bin/sh\nread up rest < /proc/uptime\necho done $up\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    # The panels: perceived Mbit/s of the shared link, and the factor.
    panels = {"a": (1000, 1), "b": (1000, 10), "c": (10_000, 10)} if not study.short else {"b": (100, 5), "c": (1000, 5)}
    totals: dict[tuple[str, int], tuple[float, bool]] = {}
    counts = study.clients or ([4] if study.short else [40, 80, 120, 160, 200, 240])
    for panel, (rate, tdf) in panels.items():
        for clients in counts:
            machines = 2 if study.short else 10
            duration = 15 if study.short else 120
            means, kept = [], True
            for seed in range(1, study.runs + 1):
                name = f"figure12-{panel}-{clients}-{seed}"
                summary, run = study.run(name, scenario(directory, clients, machines, rate, tdf, duration, size), seed)
                times = []
                for printed in (run / "programs").glob("client*.0.stdout"):
                    # The guests' clock shows 100 s when the run begins, and clients start at 0.8 s.
                    times += [float(line.split()[1]) - 100.8 for line in printed.read_text().splitlines() if line.startswith("done ")]
                study.check(len(times) == clients, f"{name}: {clients - len(times)} of {clients} clients have not finished in {duration} s")
                kept = kept and summary["live"]["kept_pace"]
                if times:
                    means.append(statistics.mean(times))
            mean = statistics.mean(means) if means else math.nan
            rates = [clients * size * 8 / own / 1e6 for own in means]
            total = statistics.mean(rates) if rates else math.nan
            totals[panel, clients] = total, kept
            # A client's own rate is below what it moves: nothing may be faster than the shared link.
            wrong = study.check(total <= rate, f"figure12 {panel}, {clients} clients: {total:.0f} Mbit/s over a link of {rate}", kept)
            found.append({"panel": panel, "rate_mbit": rate, "tdf": tdf, "clients": clients, "runs": len(means), "mean_s": mean,
                          "aggregate_mbit": total, "aggregate_stdev_mbit": figures.deviation(rates), "kept_pace": kept})  # fmt: skip
            print(f"  ({panel}) TDF {tdf:2}, {rate:5} Mbit/s, {clients:3} clients: {mean:7.2f} s, {total:9.1f} Mbit/s in all{'' if kept else '  (did not keep pace)'}{wrong}", flush=True)
            xs, ys = curves.setdefault(f"({panel}) TDF {tdf}, {rate} Mbit/s", ([], []))
            xs.append(clients)
            ys.append(total)
    for clients in counts:
        # More CPU helps (b beside a), and then a faster network helps (c beside b).
        for better, worse in (("b", "a"), ("c", "b")):
            if worse in panels:
                (more, fine), (less, _) = totals[better, clients], totals[worse, clients]
                study.check(more >= 0.95 * less, f"figure12, {clients} clients: ({better}) has {more:.0f} Mbit/s in all, and ({worse}) {less:.0f}", fine)
    study.plot("figure12", "clients", "aggregate Mbit/s", curves)
    return found


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("0.0.0.0", PORT), Tracker).serve_forever()
