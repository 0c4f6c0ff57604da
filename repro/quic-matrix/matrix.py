#!/usr/bin/env python3
"""Transfers between QUIC implementations in guests: builds the programs, runs all pairs over all paths, writes a table and a picture."""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PORT = 4433

#: The paths: a name, bytes of a transfer, and the keys of the link.
PATHS = {
    "clean: 20 Mbit/s, 20 ms": (5_000_000, 'rate = "20Mbit/s"\ndelay = "10ms"\nqueue = "1BDP"'),
    "1 % loss": (5_000_000, 'rate = "20Mbit/s"\ndelay = "10ms"\nqueue = "1BDP"\nloss = "1%"'),
    "reordering by up to 5 ms": (
        5_000_000,
        'rate = "20Mbit/s"\ndelay = "10ms"\nqueue = "1BDP"\njitter = { kind = "uniform", max = "5ms", reorder = true }\nreverse = { jitter = "none" }',
    ),
    "long: 50 Mbit/s, 300 ms": (20_000_000, 'rate = "50Mbit/s"\ndelay = "150ms"\nqueue = "1BDP"'),
}


@dataclasses.dataclass(frozen=True)
class Program:
    """An implementation: how it is built into a directory, and what starts it."""

    build: tuple[tuple[str, ...], ...]
    command: tuple[str, ...]


def programs(build: Path) -> dict[str, Program]:
    cargo = lambda name: Program(  # noqa: E731
        (("cargo", "build", "--release", "--locked", "--manifest-path", str(HERE / name / "Cargo.toml"), "--target-dir", str(build / name)),),
        (str(build / name / "release" / f"transfer-{name}"),),
    )
    venv = build / "venv"
    return {
        "quinn": cargo("quinn"),
        "quic-go": Program((("go", "build", "-C", str(HERE / "quic-go"), "-o", str(build / "transfer-quic-go"), "."),), (str(build / "transfer-quic-go"),)),
        "aioquic": Program(
            (
                (sys.executable, "-m", "venv", str(venv)),
                (str(venv / "bin/pip"), "install", "--quiet", "--requirement", str(HERE / "aioquic/requirements.txt")),
                (str(venv / "bin/python"), "-m", "compileall", "-q", str(venv)),
            ),
            (str(venv / "bin/python"), str(HERE / "aioquic/transfer.py")),
        ),
        "quiche": cargo("quiche"),
    }


def prepare(build: Path) -> dict[str, Program]:
    """Builds the certificate and the programs. Says which cannot be built."""
    build.mkdir(parents=True, exist_ok=True)
    if not (build / "key").exists():
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        files = ["-keyout", build / "key", "-out", build / "certificate"]
        subprocess.run(
            ["openssl", "req", "-x509", *curve, "-nodes", *files, "-days", "3650", "-subj", "/CN=server"], check=True, capture_output=True
        )
    built = {}
    for name, program in programs(build).items():
        try:
            for step in program.build:
                subprocess.run(step, check=True, capture_output=True, text=True)
            built[name] = program
        except FileNotFoundError as error:
            print(f"{name} is left out: {error.filename} is not installed", file=sys.stderr)
        except subprocess.CalledProcessError as error:
            print(f"{name} is left out: it cannot be built:\n{error.stderr.strip()}", file=sys.stderr)
    return built


def scenario(title: str, server: Program, client: Program, build: Path, size: int, link: str) -> str:
    quoted = lambda *words: json.dumps([str(word) for word in words])  # noqa: E731
    return f"""\
description = "{title}"
duration = "600s"
until = "client exits"

[[link]]
between = ["server", "client"]
{link}

[[host]]
name = "server"
endpoint = "guest"

[[host.program]]
command = {quoted(*server.command, "server", build / "certificate", build / "key", PORT)}
ready = {PORT}
expect = "running"

[[host]]
name = "client"
endpoint = "guest"

[[host.program]]
command = {quoted(*client.command, "client", "{server}", PORT, size)}
environment = {{ PYTHONDONTWRITEBYTECODE = "1" }}
"""


@dataclasses.dataclass
class Row:
    """A transfer."""

    path: str
    server: str
    client: str
    seed: int
    seconds: float | None
    goodput_mbps: float | None
    failure: str


def transfer(warpline: Path, text: str, size: int, row: Row) -> Row:
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "run"
        seed = ["--set", f"seed={row.seed}"]
        ran = subprocess.run([warpline, "run", "-", "--json", "--out", out, *seed], input=text, capture_output=True, text=True, check=False)
        if ran.returncode not in (0, 1) or not (out / "summary.json").exists():
            raise SystemExit(f"{row.server} to {row.client}, {row.path}: {ran.stderr}")
        client = next(program for program in json.loads((out / "summary.json").read_text())["guests"]["programs"] if program["host"] == "client")
        if client["ok"]:
            row.seconds = float((out / client["stdout"]).read_text())
            row.goodput_mbps = size * 8 / row.seconds / 1e6
        else:
            said = (out / client["stderr"]).read_text().strip().splitlines()
            row.failure = f"{client['outcome']}: {said[-1] if said else ''}"
        return row


def picture(rows: list[Row], names: list[str], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "quic-matrix"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(PATHS), figsize=(3.6 * len(PATHS), 3.9), layout="constrained")
    for at, (axis, name) in enumerate(zip(axes, PATHS, strict=True)):
        capacity = float(PATHS[name][1].split("Mbit")[0].rsplit('"', 1)[1])
        grid = [[mean(rows, name, server, client) for client in names] for server in names]
        axis.imshow([[value or 0 for value in line] for line in grid], vmin=0, vmax=capacity, cmap="YlGn")
        for y, line in enumerate(grid):
            for x, value in enumerate(line):
                color = "#b00020" if value is None else "white" if value > 0.7 * capacity else "black"
                axis.text(x, y, "failed" if value is None else f"{value:.1f}", ha="center", va="center", color=color)
        axis.set_title(name, fontsize=11)
        axis.set_xticks(range(len(names)), names)
        axis.set_yticks(range(len(names)), names if at == 0 else [""] * len(names))
        axis.set_xlabel("receives")
        if at == 0:
            axis.set_ylabel("sends")
    figure.suptitle("Goodput in Mbit/s")
    figure.savefig(path, metadata={"Date": None})


def mean(rows: list[Row], path: str, server: str, client: str) -> float | None:
    """Mean goodput of a pair in Mbit/s; none if a transfer failed."""
    own = [row.goodput_mbps for row in rows if (row.path, row.server, row.client) == (path, server, client)]
    return None if None in own or not own else sum(own) / len(own)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warpline", type=Path, default=ROOT / "target/release/warpline", help="the program to run")
    parser.add_argument("--build", type=Path, default=ROOT / "target/quic-matrix", help="where the programs are built")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each transfer")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="runs at a time")
    parser.add_argument("--table", type=Path, default=HERE / "results.csv", help="the table to write")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs/src/quic-matrix.svg", help="the picture to write")
    parser.add_argument("--scenarios", type=Path, help="write the scenarios into this directory, and run none")
    arguments = parser.parse_args()
    built = prepare(arguments.build.resolve())
    pairs = [(path, server, client) for path in PATHS for server in built for client in built]
    texts = {pair: scenario(f"{pair[1]} to {pair[2]}, {pair[0]}", built[pair[1]], built[pair[2]], arguments.build.resolve(), *PATHS[pair[0]]) for pair in pairs}
    if arguments.scenarios:
        arguments.scenarios.mkdir(parents=True, exist_ok=True)
        for (path, server, client), text in texts.items():
            (arguments.scenarios / f"{server}-{client}-{path.split(':')[0].replace(' ', '-').replace('%', 'percent')}.toml").write_text(text)
        return
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        started = [
            pool.submit(transfer, arguments.warpline, texts[pair], PATHS[pair[0]][0], Row(*pair, seed, None, None, ""))
            for pair in pairs
            for seed in range(1, arguments.seeds + 1)
        ]
        for future in concurrent.futures.as_completed(started):
            future.result()
            done = sum(one.done() for one in started)
            print(f"\r{done} of {len(started)}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        rows = [future.result() for future in started]
    with arguments.table.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in dataclasses.fields(Row)])
        writer.writerows(
            [row.path, row.server, row.client, row.seed, row.seconds, row.goodput_mbps and round(row.goodput_mbps, 3), row.failure] for row in rows
        )
    picture(rows, list(built), arguments.picture)
    failed = sum(row.seconds is None for row in rows)
    print(f"{len(rows)} transfers, {failed} failed: {arguments.table}, {arguments.picture}")


main()
