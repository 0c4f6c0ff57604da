"""The script that builds transport stacks: it builds one again when a part of it has changed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """scripts/build_stacks.py."""
    spec = importlib.util.spec_from_file_location("build_stacks", ROOT / "scripts/build_stacks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_part_that_was_put_there_later_counts_whatever_its_time(script: ModuleType, tmp_path: Path) -> None:
    target, part = tmp_path / "stack.so", tmp_path / "part.c"
    part.touch()
    assert not script.is_fresh(target, [part])
    target.touch()
    # As cargo unpacks it: much older than the stack, and yet put there later.
    os.utime(part, (1153704088, 1153704088))
    os.utime(target, (1700000000, 1700000000))
    assert not script.is_fresh(target, [part])
    later = part.stat().st_ctime + 1
    os.utime(target, (later, later))
    assert script.is_fresh(target, [part])


def test_the_version_of_a_package_is_a_part_of_its_stack(script: ModuleType) -> None:
    sources = script.NATIVE / "lwip/sources"
    assert {sources / "Cargo.toml", sources / "Cargo.lock"} <= set(script.own_files("lwip"))


def test_static_archives_are_parts_of_their_stacks(script: ModuleType, tmp_path: Path) -> None:
    archive = tmp_path / "libusrsctp.a"
    options = script.LIBRARIES["sctp"][3]
    # The compiler is asked for what is not in the directories: this one knows no file, and gives the name back.
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\necho "${1#-print-file-name=}"\n')
    compiler.chmod(0o755)
    assert script.archives(str(compiler), [tmp_path], options) == []
    archive.touch()
    assert script.archives(str(compiler), [tmp_path], options) == [archive]
    compiler.write_text(f"#!/bin/sh\necho {archive}\n")
    assert script.archives(str(compiler), [], options) == [archive]
