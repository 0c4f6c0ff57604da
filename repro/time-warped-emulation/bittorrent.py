"""Figure 12: BitTorrent clients (aria2, from Debian) that fetch a file from each other, in dilated guests."""

from __future__ import annotations

import random
import shlex
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import warpline
from warpline import study
from warpline.study import Claim, Figure, Results

from .network import paced
from .tracker import ALL, PORT, torrent

ARIA2 = [
    "aria2c",
    "--enable-dht=false",
    "--enable-dht6=false",
    "--bt-enable-lpd=false",
    "--disable-ipv6=true",
    "--console-log-level=warn",
    "--summary-interval=0",
    "--show-console-readout=false",
    "--file-allocation=none",
    "--seed-ratio=0.0",
    "--bt-max-peers=60",
    "--listen-port=6881",
    "--check-certificate=false",
]
SEEDER_START, CLIENT_START = 0.4, 0.8
"""When programs start, in seconds, or as soon as the tracker listens."""
TELL = "read up rest < /proc/uptime; echo {} $up"
"""Tells the guest's time."""


def swarm(directory: Path, at: study.Point) -> warpline.Scenario:
    """Machines with the clients, and one link that all of their traffic shares, as the paper's emulator had. Each machine is connected to it at the same
    rate, which its clients share. The first machine also has the seeder and the tracker, and the run ends when all clients have the file."""
    rate, machines, size = at["rate_mbps"], at["machines"], at["mb"] * 1_000_000

    def link(start: str, end: str, rate: float = rate, delay: str = "2ms") -> warpline.Link:
        return warpline.Link(from_=start, to=end, rate=f"{rate}Mbit/s", delay=delay, queue=warpline.Droptail(limit="100ms"))

    def client(name: str, machine: int, where: Path, start: float, more: str, programs: list[warpline.Program]) -> warpline.Host:
        words = f"{TELL.format('begun')}; exec {shlex.join([*ARIA2, more, f'--dir={where}', f'{directory}/file.torrent'])}"
        memory = 256_000_000 + (at["clients"] // machines + 2) * int(size * 2.5)
        programs = [*programs, warpline.Program(command=words, start=f"{start}s", expect="any")]
        return warpline.Host(name=name, endpoint="guest", machine=f"m{machine}", memory=f"{memory}B", cpu_share=at["share"], program=programs)

    command = [sys.executable, str(Path(__file__).with_name("tracker.py")), str(at["clients"])]
    tracker = warpline.Program(name="tracker", command=command, expect="any", ready=PORT)
    # The seeder is the first node that links mention: 10.0.0.1.
    hosts = [client("seeder", 0, directory, SEEDER_START, "--check-integrity=true", [tracker])]
    hosts += [
        client(f"client{number}", number % machines, Path(f"/tmp/client{number}"), CLIENT_START, f"--on-bt-download-complete={directory}/done.sh", [])
        for number in range(at["clients"])
    ]
    links = []
    for host in hosts:
        machine = str(host.machine).removeprefix("m")
        # On its machine nothing limits a client.
        links += [link(host.name, f"up{machine}", 10 * rate), link(f"down{machine}", host.name, 10 * rate)]
    links.append(link("in", "out"))
    links += [one for machine in range(machines) for one in (link(f"up{machine}", "in"), link("out", f"down{machine}"))]
    clock = warpline.Clock(mode="dilated", tdf=at["tdf"])
    return warpline.Scenario(name="bittorrent", duration=f"{at['seconds']}s", until="seeder.tracker exits", clock=clock, link=links, host=hosts)


def download(at: study.Point) -> dict[str, float]:
    """How long the clients take, and what they fetch a second in all."""
    size = at["mb"] * 1_000_000
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch).resolve()
        (directory / "file").write_bytes(random.Random(1).randbytes(1000) * (size // 1000))
        (directory / "file.torrent").write_bytes(torrent(directory / "file", f"http://10.0.0.1:{PORT}/announce"))
        script = directory / "done.sh"
        script.write_text(f"#!/bin/sh\n{TELL.format('done')}\n")
        script.chmod(0o755)
        # Guests read the files as their own users.
        directory.chmod(0o755)
        run = swarm(directory, at).run(seed=at["seed"], out=directory / "run", progress=False)
        if run.failures:
            raise RuntimeError("; ".join(run.failures))
        programs = directory / "run/programs"
        printed = [path.read_text() for path in programs.glob("client*.0.stdout")]
        tracker = (programs / "seeder.tracker.stdout").read_text()
    paced(run)
    told = [dict(line.split() for line in text.splitlines() if line.startswith(("begun ", "done "))) for text in printed]
    times = [float(one["done"]) - float(one["begun"]) for one in told if "done" in one]
    if run.summary["simulated_s"] < at["seconds"] and (ALL not in tracker or len(times) < at["clients"]):
        raise RuntimeError(f"the tracker ended when {len(times)} of {at['clients']} clients had said that they have the file")
    mean = statistics.fmean(times) if times else at["seconds"]
    return {"finished": len(times) / at["clients"], "mean_s": mean, "total_mbps": at["clients"] * size * 8 / mean / 1e6}


PANELS = {"a": (1000, 3), "b": (1000, 30), "c": (10_000, 30)}
"""Perceived rate of the shared link in Mbit/s, and the factor, of the panels of the figure. The paper has factors of 1 and 10. With ten machines on two cores,
a machine perceives about the paper's CPU at three times these."""
CLIENTS = [40, 80, 120, 160, 200, 240]


def points(panels: dict[str, tuple[int, int]], clients: list[int]) -> list[study.Point]:
    """Each panel with each number of clients."""
    return [{"panel": panel, "rate_mbps": rate, "tdf": tdf, "clients": count} for panel, (rate, tdf) in panels.items() for count in clients]


def more_in_all(panel: str, than: str) -> Callable[[Results], float]:
    """What clients fetch in all in one panel over that in another, the most of the numbers of clients that both have."""

    def ours(results: Results) -> float:
        ones, others = ({clients: total for clients, total, _ in results.series("total_mbps", "clients", panel=one)} for one in (panel, than))
        if not ones.keys() & others.keys():
            raise study.NoResultsError(f"no number of clients in both ({panel}) and ({than})")
        return max(total / others[clients] for clients, total in ones.items() if clients in others)

    return ours


def of_the_link(results: Results) -> float:
    """The clients' mean time can be no less than this: the link carries one file after the other, and client i has its file after i of n parts.
    Returns that least mean divided by theirs, the largest of all."""

    def ours(cell: study.Cell) -> float:
        clients, rate = (float(cell.where[axis]) for axis in ("clients", "rate_mbps"))  # type: ignore[arg-type]
        return cell.mean("total_mbps") / rate * (clients + 1) / (2 * clients)

    return max(map(ours, results.cells))


FIG12 = Figure(
    name="fig12",
    source="Figure 12",
    title="BitTorrent clients that fetch a file from each other",
    note="aria2 with a tracker of our own. Each of ten machines has 0.15 of a core. (a) is 1 Gbit/s at TDF 3, (b) the same at TDF 30 with ten times the perceived CPU, and (c) 10 Gbit/s at TDF 30. The paper has TDF 1 and 10, and curves: (a) stays at some 570 Mbit/s, (b) comes close to 1 Gbit/s, and (c) passes 4 Gbit/s. That more is 1.5 and 3 times as much are our numbers. What all clients fetch is computed as in the paper: the bytes of all by the mean of their times. The last takes longer than that, so it can be more than the link's rate, and up to twice as much if the clients have the file one after the other.",
    model=download,
    points=points(PANELS, CLIENTS),
    settings={"machines": 10, "seconds": 400, "mb": 46, "share": 0.15},
    seeds=10,
    alone=True,
    needs=["aria2c"],
    labels={"clients": "Clients", "total_mbps": "All clients (Mbit/s)", "mean_s": "Mean time (s)", "finished": "Share that finished"},
    picture=study.lines(x="clients", y="total_mbps", by="panel"),
    claims=[
        Claim(text="all clients finish: the least share", ours=lambda results: results.min("finished"), theirs=1, bound=study.at_least()),
        Claim(text="nothing is faster than the shared link: the least mean time that its rate allows, divided by the clients' mean time, the most", ours=of_the_link, theirs=1, bound=study.at_most()),
        Claim(text="more CPU helps: what all clients fetch in (b), divided by that in (a), the most of all numbers of clients", ours=more_in_all("b", "a"), theirs=1.5, bound=study.at_least(), quick=False),
        Claim(text="with more CPU, a faster network helps: what all clients fetch in (c), divided by that in (b), the most of all numbers of clients", ours=more_in_all("c", "b"), theirs=3, bound=study.at_least()),
    ],
    quick=study.quick(points=points({"b": (100, 5), "c": (1000, 5)}, [4]), seeds=1, machines=2, seconds=15, mb=4),
)
