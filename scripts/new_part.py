#!/usr/bin/env python3
"""Makes a new congestion control or queue from a template: one file with its parameters, code and tests, and one line in the list.

    scripts/new_part.py cc my_control
    scripts/new_part.py queue my_queue

The result compiles and passes its tests. It does what Reno, or a FIFO with a limit on the wait, does: change that. With --check the script
makes one of each in a copy of the source under the build directory, and runs their tests there."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

KINDS = {
    # The directory, the list's macro, the template, the crate.
    "cc": ("crates/transport/src/cc", "algorithms", "cc.rs", "warpline-transport"),
    "queue": ("crates/net/src/qdisc", "queues", "queue.rs", "warpline-net"),
}
HERE = pathlib.Path(__file__).resolve().parent


def make(root: pathlib.Path, kind: str, name: str) -> pathlib.Path:
    """Writes the file and the line; returns the file. Leaves everything as it was if something is wrong."""
    directory, macro, template, _ = KINDS[kind]
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        sys.exit(f"`{name}` is not a name for a module: write lower-case letters, digits and single underscores, as in `my_control`")
    file, listing = root / directory / f"{name}.rs", root / directory / "mod.rs"
    if file.exists():
        sys.exit(f"{file} exists already: choose another name")
    text, pattern = listing.read_text(), re.compile(rf"^({macro}! {{\n(?: +\S.*\n)+)}}$", re.M)
    title = " ".join(word.capitalize() for word in name.split("_"))
    type_name = title.replace(" ", "")
    if not pattern.search(text):
        sys.exit(f"{listing} has no list `{macro}! {{ ... }}`")
    if re.search(rf"\b(mod {name};|::{type_name}\b)", text):
        sys.exit(f"{listing} has a `{name}` or `{type_name}` already: choose another name")
    words = {"@NAME@": name, "@TYPE@": type_name, "@TITLE@": title}
    body = (HERE / "templates" / template).read_text()
    file.write_text(re.sub("@[A-Z]+@", lambda found: words[found.group()], body))
    listing.write_text(pattern.sub(rf"\1    {name}::{type_name},\n}}", text))
    # Line breaks depend on how long the name is.
    subprocess.run(["rustfmt", "--edition", "2024", "--config-path", root, file], check=True)
    return file


def check(root: pathlib.Path) -> None:
    """Makes one of each in a copy of the source, and runs their tests."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")).absolute()
    copy = target / "template"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in ["Cargo.toml", "Cargo.lock", "rustfmt.toml", "clippy.toml", "crates", "fuzz", "examples"]:
        (shutil.copytree if (root / name).is_dir() else shutil.copy2)(root / name, copy / name)
    for kind in KINDS:
        make(copy, kind, "made_from_template")
    cargo = [os.environ.get("CARGO", "cargo"), "test", "--quiet", "--locked", "--lib"]
    crates = [crate for *_, crate in KINDS.values()]
    cargo += [word for crate in crates for word in ("--package", crate)]
    # Their tests are few and short here, so that optimising takes longer than it saves.
    cargo += [word for crate in ["warpline-core", *crates] for word in ("--config", f"profile.dev.package.{crate}.opt-level=0")]
    run = subprocess.run(
        [*cargo, "made_from_template"], cwd=copy, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, stdout=subprocess.PIPE, text=True
    )
    print(run.stdout.strip())
    passed = [int(count) for count in re.findall(r"(\d+) passed", run.stdout)]
    if run.returncode or len(passed) != len(KINDS) or not all(passed):
        sys.exit("the templates in scripts/templates do not make parts that pass their tests")
    shutil.rmtree(copy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="what to make")
    parser.add_argument("name", nargs="?", help="its name in scenarios and of its module, as in `my_control`")
    parser.add_argument("--check", action="store_true", help="try the templates")
    arguments = parser.parse_args()
    if arguments.check:
        check(HERE.parent)
        return
    if not arguments.name:
        parser.error("say what to make and its name, as in: cc my_control")
    file = make(HERE.parent, arguments.kind, arguments.name)
    *_, crate = KINDS[arguments.kind]
    print(f"{file.relative_to(HERE.parent)} is made, and in the list of {file.parent.name}/mod.rs. Next:")
    print(f"  cargo test -p {crate} {arguments.name}     # its own tests")
    if arguments.kind == "cc":
        print(f"  INSTA_UPDATE=always cargo test -p {crate}  # adds its windows to the recorded ones")
    print("  make schema                                  # adds it to the schema, the reference and Python's classes")


if __name__ == "__main__":
    main()
