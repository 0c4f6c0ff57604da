"""What makes a release: it names files, targets and options that exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    """The release workflow."""
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load((SOURCE / ".github/workflows/release.yml").read_text())
    return found


def test_every_job_has_steps_that_run_or_use_something(workflow: dict[str, Any]) -> None:
    jobs = workflow["jobs"]
    assert set(jobs["publish"]["needs"].split()) <= set(jobs)
    for job in jobs.values():
        assert job["steps"] and all(("run" in step) != ("uses" in step) for step in job["steps"])
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)


def test_it_calls_scripts_and_scenarios_that_exist(workflow: dict[str, Any]) -> None:
    words = {word for job in workflow["jobs"].values() for step in job["steps"] for word in re.findall(r"(?:scripts|scenarios)/[\w./-]+\w", step.get("run", ""))}
    assert {"scripts/release.sh", "scenarios/dumbbell.toml"} <= words
    assert [word for word in words if not (SOURCE / word).is_file()] == []


def test_its_targets_are_targets_of_rust(workflow: dict[str, Any]) -> None:
    known = subprocess.run(["rustc", "--print", "target-list"], capture_output=True, text=True, check=True).stdout.split()
    targets = [entry["target"] for entry in workflow["jobs"]["build"]["strategy"]["matrix"]["include"]]
    assert len(targets) >= 4 and set(targets) <= set(known)


def test_binstall_finds_the_archive_that_the_script_makes() -> None:
    script = (SOURCE / "scripts/release.sh").read_text()
    assert "name=warpline-$version-$target" in script and '"$out/$name.tar.gz"' in script and "$name/bin/warpline" in script
    metadata = json.loads(subprocess.run(["cargo", "metadata", "--no-deps", "--locked", "--format-version=1"], cwd=SOURCE, capture_output=True, text=True, check=True).stdout)
    cli = next(package for package in metadata["packages"] if package["name"] == "warpline-cli")
    binstall = cli["metadata"]["binstall"]
    assert binstall["pkg-url"].endswith("/warpline-{ version }-{ target }.tar.gz")
    assert binstall["bin-dir"] == "warpline-{ version }-{ target }/bin/{ bin }"


def test_the_containers_copy_what_is_there() -> None:
    for dockerfile in ("Dockerfile", "containers/quic-interop/Dockerfile"):
        copied = re.findall(r"^COPY (?!--from)(\S+) ", (SOURCE / dockerfile).read_text(), re.MULTILINE)
        assert copied and all((SOURCE / name).exists() for name in copied), dockerfile
    container = re.sub(r"^\s*//.*$", "", (SOURCE / ".devcontainer/devcontainer.json").read_text(), flags=re.MULTILINE)
    build = json.loads(container)["build"]
    dockerfile = (SOURCE / ".devcontainer" / build["dockerfile"]).resolve()
    assert f"AS {build['target']}" in dockerfile.read_text()


def test_the_wheel_gets_the_program_where_maturin_looks_for_it() -> None:
    settings = tomllib.loads((SOURCE / "pyproject.toml").read_text())["tool"]["maturin"]
    assert f"beside={settings['module-name']}.data\n" in (SOURCE / "scripts/release.sh").read_text()
    assert f"/{settings['module-name']}.data/\n" in (SOURCE / ".gitignore").read_text()
