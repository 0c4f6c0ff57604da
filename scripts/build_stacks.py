#!/usr/bin/env python3
"""Builds the transport stacks that are not part of the program, as shared objects.

    scripts/build_stacks.py [--sanitize] DIRECTORY

Each folder of crates/stacks/native is a stack. The sources of one in C come from the package that its folder `sources` names: cargo fetches them
and checks them against Cargo.lock there. Or it is in a library of the system, which pkg-config finds; without the library it is left out. One in Go is
a module, whose dependencies go.sum pins; without Go it is left out. A stack whose file in DIRECTORY is newer than all that it is made of is left as it is.

With --sanitize: those in C, with the address and undefined-behaviour sanitizers, and with them the program try_stack, which tries a stack by itself."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NATIVE = Path(__file__).resolve().parent.parent / "crates" / "stacks" / "native"

# The files of each stack's package that are compiled, and where its headers are.
SOURCES = {
    "lwip": (
        "src",
        "core/def.c core/inet_chksum.c core/init.c core/ip.c core/mem.c core/memp.c core/netif.c core/pbuf.c core/tcp.c core/tcp_in.c "
        "core/tcp_out.c core/timeouts.c core/ipv4/icmp.c core/ipv4/ip4.c core/ipv4/ip4_addr.c",
        "include",
    ),
}

# Functions of usrsctp's, and those that it has of the C library, that are led to ours: see native/sctp/system.c.
LED = ["malloc", "calloc", "free", "sctp_os_timer_start", "sctp_os_timer_stop", "sctp_pcb_init"]

# Stacks in libraries of the system: the library's name for pkg-config, its oldest version that will do, Debian's packages, and how it is linked if not
# as pkg-config says: from its static archive, of which each stack has its own copy.
LIBRARIES = {
    "bsd": ("slirp", "4.7", "libslirp-dev, libglib2.0-dev and pkg-config", None),
    "sctp": (
        "usrsctp",
        "0.9.5",
        "libusrsctp-dev and pkg-config",
        ["-l:libusrsctp.a", "-Wl,--exclude-libs,ALL,--gc-sections", *(f"-Wl,--wrap={name}" for name in LED)],
    ),
}

# Our files that stacks in libraries share.
SHARED = ["ipv4.c", "ipv4.h", "table.c", "table.h"]

# Stacks in Go.
MODULES = ["netstack"]

# Warnings are errors in our own files; those of the stacks' are not ours to mend.
OWN = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]
COMMON = ["-O3", "-g1", "-fPIC", "-ffile-prefix-map={root}=stack"]
# All symbols are bound when it is loaded, and to the object's own.
LINK = ["-shared", "-Wl,-z,now,-z,relro,-Bsymbolic"]
# For try_stack. Stacks shift signed numbers and read words at odd addresses, so that undefined behaviour is only looked for in our own files.
SANITIZE = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FOREIGN = ["-w", "-fno-sanitize=undefined"]


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--sanitize"]
    sanitize = len(words) < len(sys.argv) - 1
    if len(words) != 1:
        sys.exit(__doc__)
    out = Path(words[0])
    out.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CC", "cc")
    extra = SANITIZE if sanitize else []
    for name, (directory, files, headers) in SOURCES.items():
        root = package(name) / directory
        build(compiler, name, out / f"{name}.so", extra, root, files.split(), [f"-isystem{root / headers}"], [])
    for name, library in LIBRARIES.items():
        build_with_library(compiler, name, library, out / f"{name}.so", extra)
    if sanitize:
        build_program(compiler, out / "try_stack")
        return
    for name in MODULES:
        build_module(name, out / f"{name}.so")


def package(name: str) -> Path:
    """The directory of a stack's package, which cargo fetches if it is not there."""
    manifest = NATIVE / name / "sources" / "Cargo.toml"
    cargo = os.environ.get("CARGO", "cargo")
    command = [cargo, "metadata", "--locked", "--format-version", "1", "--manifest-path", manifest]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    found = next(package for package in metadata["packages"] if package["name"] == name)
    return Path(found["manifest_path"]).parent


def own_files(name: str) -> list[Path]:
    """Our own files that a stack is made of."""
    # The last two say which version of its package a stack is made of.
    kinds = (".c", ".h", ".s", ".go", ".mod", ".sum", ".toml", ".lock")
    shared = [NATIVE / file for file in SHARED if name in LIBRARIES]
    return [path for path in (NATIVE / name).rglob("*") if path.suffix in kinds] + [*shared, NATIVE / "warpline_stack.h", Path(__file__)]


def archives(compiler: str, directories: list[Path], libraries: list[str]) -> list[Path]:
    """The static archives that the linker takes for these options. It looks into `directories` first."""
    found = []
    for name in (option.removeprefix("-l:") for option in libraries if option.startswith("-l:")):
        own = next((directory / name for directory in directories if (directory / name).exists()), None)
        asked = subprocess.run([compiler, f"-print-file-name={name}"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        # A compiler that does not find a file gives its name back. The linker will say that it is not there.
        found += [path for path in [own or Path(asked)] if path.exists()]
    return found


def is_fresh(target: Path, parts: list[Path]) -> bool:
    """Whether a file is newer than all of its parts. Cargo and Debian give files the times of their packages, so it counts when they were put there, too."""
    if not target.exists():
        return False
    built = target.stat().st_mtime
    return all(max(path.stat().st_mtime, path.stat().st_ctime) <= built for path in parts)


def build_module(name: str, target: Path) -> None:
    if is_fresh(target, own_files(name)):
        return
    if shutil.which("go") is None:
        print(f"{target}: left out, as Go is not installed")
        return
    fetched = subprocess.run(["go", "mod", "download"], cwd=NATIVE / name, stderr=subprocess.PIPE, text=True, check=False)
    if fetched.returncode != 0:
        reason = fetched.stderr.strip().splitlines()
        print(f"{target}: left out, as the modules of {NATIVE / name / 'go.mod'} cannot be fetched: {reason[-1] if reason else 'go gives no reason'}")
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        whole = Path(scratch).resolve() / target.name
        command = ["go", "build", "-buildmode=c-shared", "-trimpath", "-o", whole, "."]
        environment = {**os.environ, "CGO_ENABLED": "1", "CGO_CFLAGS": "-O2 -Wall -Wextra -Werror -Wno-unused-parameter"}
        subprocess.run(command, check=True, cwd=NATIVE / name, env=environment)
        whole.replace(target)
    print(f"{target}: built")


def build_with_library(compiler: str, name: str, library: tuple[str, str, str, list[str] | None], target: Path, sanitize: list[str]) -> None:
    package_name, version, packages, link = library
    options = {}
    for kind in ("cflags", "libs"):
        try:
            asked = subprocess.run(["pkg-config", f"--{kind}", f"{package_name} >= {version}"], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            asked = None
        if asked is None or asked.returncode != 0:
            print(f"{target}: left out, as pkg-config finds no {package_name} from {version} on (Debian: {packages})")
            return
        options[kind] = asked.stdout.split()
    directories = [option for option in options["libs"] if option.startswith("-L")]
    libraries = options["libs"] if link is None else directories + link
    build(compiler, name, target, sanitize, NATIVE / name, [], options["cflags"], libraries)


def build(compiler: str, name: str, target: Path, sanitize: list[str], root: Path, files: list[str], include: list[str], libraries: list[str]) -> None:
    """Compiles our files of a stack, and those of the stack in `root`, and links them."""
    sources = [root / file for file in files]
    directories = [Path(option.removeprefix("-L")) for option in libraries if option.startswith("-L")]
    if is_fresh(target, own_files(name) + sources + archives(compiler, directories, libraries)):
        return
    common = [option.format(root=root) for option in COMMON] + sanitize
    ours = sorted(path for path in own_files(name) if path.suffix == ".c")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        objects = []
        for source, options in [(source, OWN) for source in ours] + [(source, FOREIGN) for source in sources]:
            object_file = Path(scratch) / f"{len(objects)}.o"
            subprocess.run([compiler, *common, *options, f"-I{NATIVE / name}", *include, "-c", source, "-o", object_file], check=True)
            objects.append(object_file)
        whole = Path(scratch) / target.name
        subprocess.run([compiler, *LINK, *sanitize, *objects, *libraries, "-o", whole], check=True)
        whole.replace(target)
    print(f"{target}: built")


def build_program(compiler: str, target: Path) -> None:
    source = NATIVE / f"{target.name}.c"
    if is_fresh(target, [source, NATIVE / "warpline_stack.h", Path(__file__)]):
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        whole = Path(scratch) / target.name
        subprocess.run([compiler, *OWN, "-g1", *SANITIZE, source, "-ldl", "-o", whole], check=True)
        whole.replace(target)
    print(f"{target}: built")


if __name__ == "__main__":
    main()
