#!/usr/bin/env python3
"""Kills either end of `warpline replicate` at random moments, and checks what the receiver has after every kill.

    scripts/replicate_kills.py --kills 200 [--seed 1] [--warpline target/debug/warpline]

The source tree changes from time to time meanwhile. `current` must always lead to a complete version of the source tree: names, kinds, modes,
times, and every byte. It must never go back to an older version. A push that reports success must have succeeded. At the end the
last version must arrive, and nothing else may be left. The exit code is 1 at the first failure. This uses only the standard library, and none
of Warpline's own checks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

Tree = dict[bytes, tuple[object, ...]]


def describe(root: bytes) -> Tree:
    """Everything in a tree that must be the same at the receiver."""
    tree: Tree = {}

    def add(path: bytes) -> None:
        data = os.lstat(path)
        name = os.path.relpath(path, root)
        if os.path.islink(path):
            tree[name] = ("link", os.readlink(path), data.st_mtime_ns)
        elif os.path.isdir(path):
            tree[name] = ("directory", data.st_mode & 0o7777, data.st_mtime_ns)
            for entry in sorted(os.listdir(path)):
                add(os.path.join(path, entry))
        else:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()
            tree[name] = ("file", data.st_mode & 0o7777, data.st_mtime_ns, data.st_size, digest)

    add(root)
    return tree


def change(root: Path, rng: random.Random, count: int) -> None:
    """Adds, rewrites, patches, moves and removes files."""
    for _ in range(count):
        files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        kind = rng.choice(["new", "new", "rewrite", "patch", "remove", "mode", "link", "directory", "hole"])
        if kind == "new" or not files:
            directory = root / rng.choice(["", "a", "a/b", "c"])
            directory.mkdir(parents=True, exist_ok=True)
            name = os.fsencode(f"f{rng.randrange(10**6)}") + rng.choice([b"", b"\xff\xfe", "ü".encode()])
            size = rng.choice([0, 1, 4096, rng.randrange(300_000), rng.randrange(3_000_000)])
            Path(os.fsdecode(os.path.join(os.fsencode(directory), name))).write_bytes(rng.randbytes(size))
            continue
        path = rng.choice(files)
        os.chmod(path, 0o644)
        if kind == "rewrite":
            path.write_bytes(rng.randbytes(rng.randrange(1_000_000)))
        elif kind == "patch":
            data = bytearray(path.read_bytes())
            at = rng.randrange(len(data) + 1)
            data[at:at] = rng.randbytes(rng.randrange(100))
            path.write_bytes(data)
        elif kind == "remove":
            path.unlink()
        elif kind == "mode":
            os.chmod(path, rng.choice([0o600, 0o444, 0o755, 0o640]))
        elif kind == "link":
            (root / f"l{rng.randrange(10**6)}").symlink_to(os.path.relpath(path, root))
        elif kind == "directory":
            empty = root / f"d{rng.randrange(10**6)}"
            empty.mkdir()
            empty.chmod(0o555)
        else:
            with open(path, "r+b") as file:
                file.seek(rng.randrange(5_000_000) + 100_000)
                file.write(b"after the hole")


class Failure(Exception):
    pass


class Bench:
    def __init__(self, warpline: str, directory: Path, rng: random.Random) -> None:
        self.warpline = warpline
        self.rng = rng
        self.source = directory / "source"
        self.store = directory / "store"
        self.key = directory / "key"
        self.port = rng.randrange(20000, 60000)
        self.log = open(directory / "log", "wb")
        subprocess.run([warpline, "replicate", "keygen", self.key], check=True, stdout=subprocess.DEVNULL)
        self.source.mkdir()
        change(self.source, rng, 30)
        self.trees = [describe(os.fsencode(self.source))]
        self.seen = -1
        self.server: subprocess.Popen[bytes] | None = None
        self.pusher: subprocess.Popen[bytes] | None = None
        self.pushed = 0
        self.done = 0
        self.moments = {"building": 0, "not switched": 0, "removing": 0, "between": 0}

    def start(self, finishing: bool = False) -> None:
        if self.server is None:
            command = [self.warpline, "replicate", "serve", str(self.store), "--key", str(self.key), "--listen", f"127.0.0.1:{self.port}"]
            self.server = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        if self.pusher is None:
            if self.seen == len(self.trees) - 1 and not finishing:
                self.grow()
            self.pushed = len(self.trees) - 1
            command = [self.warpline, "replicate", "push", str(self.source), f"127.0.0.1:{self.port}", "--key", str(self.key), "--quiet"]
            self.pusher = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def reap(self) -> None:
        """Checks whether the push has ended by itself."""
        if self.pusher is not None and self.pusher.poll() is not None:
            code, self.pusher = self.pusher.returncode, None
            if code != 0:
                raise Failure(f"a push ended with {code}; see the log")
            self.done += 1
            self.check()
            if self.seen < self.pushed:
                raise Failure(f"a push of tree {self.pushed} said it was done, but current is tree {self.seen}")

    def kill(self, which: str) -> None:
        for name in ["server", "pusher"]:
            process = getattr(self, name)
            if process is not None and which in (name, "both"):
                process.send_signal(signal.SIGKILL)
                process.wait()
                setattr(self, name, None)

    def moment(self) -> None:
        """What the receiver was doing when it was killed, according to its directory."""
        names = {part: os.listdir(self.store / part) if (self.store / part).is_dir() else [] for part in ["incoming", "versions", "trash"]}
        current = os.path.basename(os.path.realpath(self.store / "current"))
        newest = max(names["versions"], key=lambda name: os.lstat(self.store / "versions" / name).st_ctime_ns, default=current)
        at = "building" if names["incoming"] and newest == current else "not switched" if newest != current else "removing" if names["trash"] or names["incoming"] else "between"
        self.moments[at] += 1

    def check(self) -> None:
        link = self.store / "current"
        if not os.path.lexists(link):
            if self.seen >= 0:
                raise Failure("current is gone")
            return
        version = os.path.realpath(os.fsencode(link))
        tree = describe(version)
        if tree not in self.trees:
            nearest = min(self.trees, key=lambda known: len(set(known.items()) ^ set(tree.items())))
            difference = sorted(set(nearest.items()) ^ set(tree.items()), key=repr)[:6]
            raise Failure(f"current is not a version of the source; it differs in {difference}")
        number = self.trees.index(tree)
        if number < self.seen:
            raise Failure(f"current went back from tree {self.seen} to {number}")
        self.seen = number

    def grow(self) -> None:
        """Changes the source tree. The pusher is killed first, so that it cannot read a half-changed tree."""
        self.kill("pusher")
        change(self.source, self.rng, self.rng.randrange(1, 30))
        tree = describe(os.fsencode(self.source))
        if tree not in self.trees:
            self.trees.append(tree)

    def finish(self) -> None:
        self.start(finishing=True)
        deadline = time.monotonic() + 120
        while self.pusher is not None:
            if time.monotonic() > deadline:
                raise Failure("the last push does not end")
            time.sleep(0.05)
            self.reap()
        if self.pushed != len(self.trees) - 1:
            self.finish()
            return
        # Old versions are removed after the push.
        while os.listdir(self.store / "trash") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill("server")
        self.check()
        if self.seen != len(self.trees) - 1:
            raise Failure(f"current is tree {self.seen} of {len(self.trees) - 1}")
        left = {part: len(os.listdir(self.store / part)) for part in ["incoming", "trash", "versions", "manifests"]}
        if left["incoming"] or left["trash"] or left["versions"] > 2 or left["manifests"] != left["versions"]:
            raise Failure(f"something is left over: {left}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warpline", default="target/debug/warpline")
    parser.add_argument("--longest", type=float, default=0.5, help="longest time in seconds between two kills")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    directory = Path(tempfile.mkdtemp(prefix="replicate-kills-"))
    bench = Bench(os.path.abspath(options.warpline), directory, rng)
    kills = {"server": 0, "pusher": 0, "both": 0}
    try:
        while sum(kills.values()) < options.kills:
            bench.start()
            until = time.monotonic() + rng.uniform(0, options.longest)
            while time.monotonic() < until:
                time.sleep(min(0.02, max(0.0, until - time.monotonic())))
                bench.reap()
                bench.start()
            which = rng.choice(["server", "pusher", "both"])
            bench.kill(which)
            kills[which] += 1
            if which != "pusher":
                bench.moment()
            bench.check()
        bench.finish()
    except Failure as failure:
        bench.kill("both")
        print(f"after {sum(kills.values())} kills: {failure}; {directory} is kept for inspection", file=sys.stderr)
        return 1
    summary = {"kills": kills, "trees": len(bench.trees), "pushes_done": bench.done, "receiver_killed_while": bench.moments, "seed": options.seed}
    print(json.dumps(summary))
    bench.log.close()
    for path in directory.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
