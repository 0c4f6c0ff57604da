"""Shared by the programs that run in real time: commands behind emulated links, Nice in the kernel, CSV, plots."""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def arguments(about: str | None, short: str) -> argparse.ArgumentParser:
    """The arguments that all of them take; `short` describes the short form."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpline", type=Path)
    parser.add_argument("--short", action="store_true", help=short)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="directory for CSV and plots")
    return parser


def run(main: Callable[[], int]) -> None:
    """Runs `main` and exits with its code; an interrupt exits with 130."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


def ends_on_request() -> None:
    """Treats SIGTERM (as from `timeout`) like Ctrl-C: ends what runs, and removes Nice from the kernel."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def missing(*programs: str) -> list[str]:
    """The programs that this machine lacks, and root's privileges if they are missing."""
    lacks = [f"{name} is not installed" for name in programs if shutil.which(name) is None]
    return lacks + (["root's privileges (sudo)"] if os.geteuid() != 0 else [])


@contextlib.contextmanager
def nice(warpline: str) -> Iterator[str]:
    """Keeps TCP Nice in the kernel meanwhile. Yields the reason if that is not possible, and otherwise an empty text."""
    loaded = json.loads(subprocess.run([warpline, "nice", "status", "--json"], capture_output=True, text=True).stdout or "{}").get("loaded")
    before = bool(loaded and loaded["stays"])
    done = subprocess.run([warpline, "nice", "load"], capture_output=True, text=True)
    if before:
        print("TCP Nice was in the kernel before and stays there, with its parameters.", file=sys.stderr)
    try:
        yield done.stderr.strip() if done.returncode != 0 else ""
    finally:
        if done.returncode == 0 and not before:
            subprocess.run([warpline, "nice", "unload"], capture_output=True)


def ports(count: int) -> int:
    """The first of `count` ports that are free now for TCP and UDP."""
    for first in range(20000, 60000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                        stack.enter_context(socket.socket(socket.AF_INET, kind)).bind(("", port))
            except OSError:
                continue
            return first
    raise SystemExit("there are no free ports")


def behind(warpline: str, path: tuple[str, str, str], server: str, script: str) -> subprocess.Popen[str]:
    """Starts `script` behind a link (rate in Mbit/s, delay, queue) and `server` in front of it; both are shell commands."""
    rate, delay, queue = path
    words = [warpline, "shell", "--rate", f"{rate}Mbit/s", "--delay", delay, "--queue", queue, "--base", server, "--", "sh", "-c", script]
    # In a process group of their own: only this program gets an interrupt, and it then ends all of them.
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def gather(jobs: dict[object, Callable[[], subprocess.Popen[str]]], at_once: int) -> Iterator[tuple[object, str]]:
    """Runs the jobs, several at a time, and yields the output of each when it ends. An interrupt or a failed job ends all."""
    waiting, running = list(jobs.items()), {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                key, start = waiting.pop(0)
                running[key] = start()
            for key, process in list(running.items()):
                if process.poll() is None:
                    continue
                del running[key]
                output, errors = process.communicate()
                if process.returncode != 0:
                    raise SystemExit(f"{key}: {' '.join(process.args)}\n{output}{errors}")
                yield key, output
            time.sleep(0.1)
    finally:
        for process in running.values():
            os.killpg(process.pid, signal.SIGTERM)
        for process in running.values():
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def read(file: Path) -> list[dict]:
    """The rows of a table that `write` of kernel.py wrote; numbers as numbers."""

    def value(text: str) -> str | float:
        try:
            return float(text)
        except ValueError:
            return text

    with file.open(newline="") as text:
        return [{key: value(cell) for key, cell in row.items()} for row in csv.DictReader(text)]


def axes(title: str, xlabel: str, ylabel: str):
    """A figure and its axes; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None, None
    drawing = Figure(figsize=(6, 3.6), layout="constrained")
    ax = drawing.subplots()
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return drawing, ax
