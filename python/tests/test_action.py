"""The GitHub Action: its inputs are options of the command line, and its script makes the words that they mean."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "packaging/action/run.sh"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
OWN = {"scenario", "command", "working-directory", "packages"}
"""Inputs that are no options."""


def options(command: str) -> set[str]:
    """The long options of a command, as its help has them."""
    shown = (ROOT / f"crates/cli/tests/cli/snapshots/cli__help__help-{command}.snap").read_text(encoding="utf-8")
    return set(re.findall(r"^ +(?:-\w, |    )--([\w-]+)", shown, re.MULTILINE))


def listed(name: str) -> list[str]:
    """The inputs that the script takes for options of a command."""
    found = re.search(rf"^{name}=\((.*)\)$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1].split()


def test_inputs_are_options_of_the_command_line() -> None:
    inputs = ACTION["inputs"]
    assert set(inputs) - OWN == {*listed("run"), *listed("shell")}
    for command in ("run", "shell"):
        assert set(listed(command)) <= options(command), command
        kind = "With scenario" if command == "run" else "With command"
        for name in listed(command):
            assert inputs[name]["description"].startswith(kind), name
    assert all(one["description"] for one in inputs.values())
    assert not any(one.get("required") for one in inputs.values())


def test_every_input_reaches_the_script() -> None:
    assert ACTION["runs"]["using"] == "composite"
    steps = ACTION["runs"]["steps"]
    assert all("shell" in step for step in steps if "run" in step)
    (run,) = [step for step in steps if step.get("id") == "run"]
    passed = {name: value for name, value in run["env"].items() if name.startswith("INPUT_")}
    assert passed == {f"INPUT_{name.upper()}": f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"] if name not in OWN - {"scenario", "command"}}
    assert run["run"].strip('"').removeprefix("$GITHUB_ACTION_PATH/") == str(SCRIPT.relative_to(ROOT))
    # What is not listed as given anyway has no default.
    assert {name for name, one in ACTION["inputs"].items() if "default" in one} - OWN == set(listed("given_anyway"))


def words(tmp_path: Path, **inputs: str) -> tuple[int, list[str], str]:
    """The exit code, the words that the program gets, and what is said."""
    program = tmp_path / "warpline"
    program.write_text("#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done\nexit 7\n")
    program.chmod(0o755)
    given = {f"INPUT_{name.upper()}": value for name, value in {"out": "warpline", **inputs}.items()}
    found = subprocess.run([SCRIPT], env={"PATH": "/usr/bin:/bin", "WARPLINE": str(program), "GITHUB_OUTPUT": str(tmp_path / "output"), **given}, capture_output=True, text=True, check=False)
    return found.returncode, found.stdout.splitlines(), found.stderr


def test_the_script_runs_a_scenario(tmp_path: Path) -> None:
    code, said, _ = words(tmp_path, scenario="a b.toml", seeds="1..4", set="link[a-b].loss=1%\nduration=5s\n", junit="j.xml")
    assert code == 7
    assert said == ["run", "--seeds=1..4", "--set=link[a-b].loss=1%", "--set=duration=5s", "--out=warpline", "--junit=j.xml", "--", "a b.toml"]
    assert (tmp_path / "output").read_text() == "out=warpline\n"


def test_the_script_runs_a_command_behind_a_link(tmp_path: Path) -> None:
    code, said, _ = words(tmp_path, command="make test && echo $HOME", netem="delay 20ms loss 1%", queue="100p")
    assert (code, said) == (7, ["shell", "--netem=delay 20ms loss 1%", "--queue=100p", "--", "sh", "-c", "make test && echo $HOME"])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "give the input scenario"),
        ({"scenario": "a.toml", "command": "true"}, "either"),
        ({"scenario": "a.toml", "loss": "1%"}, "the input loss goes with command"),
        ({"command": "true", "seeds": "1..4"}, "the input seeds goes with scenario"),
    ],
)
def test_inputs_that_do_not_go_together_are_refused(tmp_path: Path, inputs: dict[str, str], message: str) -> None:
    code, said, error = words(tmp_path, **inputs)
    assert (code, said) == (2, [])
    assert message in error
