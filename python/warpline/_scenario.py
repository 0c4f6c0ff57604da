"""Scenarios: built in Python or read from TOML, checked when made, and run. A change makes a new scenario."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from warpline import _notebook
from warpline._congestion import CcFactories
from warpline._errors import RunInterrupted
from warpline._model import (
    Change,
    Clock,
    Flow,
    Host,
    Link,
    ReplicationPlan,
    Routing,
    Size,
    Tcp,
    Time,
    Topology,
    Until,
)
from warpline._part import encode
from warpline._progress import Observer, ProgressLine, wanted
from warpline._run import Run
from warpline._runs import RunSet, at_once, check_force, checked, checked_jobs, checked_seed, failure_of, run_seeds, seed_directory
from warpline._warpline import NativeScenario, finish_seeds, prepare_seeds, run_scenario


class Scenario:
    """A network experiment: hosts, links, what runs on the hosts, and for how long.

    The keys are those of the TOML file, as keyword arguments. Times are text with a unit ("50ms") or a timedelta, rates and
    sizes text with a unit ("10Mbit/s", "64kB"). Parts are `Link`, `Flow`, `Dumbbell` and so on, or plain mappings.

        scenario = warpline.Scenario(
            name="two-flows",
            duration="60s",
            topology=warpline.Dumbbell(bottleneck={"rate": "10Mbit/s", "delay": "20ms"}),
            flow=[warpline.Flow(from_="left", to="right", count=2, cc="nice")],
        )
        run = scenario.run()

    A scenario does not change: `set` and `replace` return a new one. A scenario with errors raises `ScenarioError`, which lists
    all of them.
    """

    __slots__ = ("_native",)
    _native: NativeScenario

    def __init__(
        self,
        *,
        duration: Time,
        name: str | None = None,
        description: str | None = None,
        warmup: Time | None = None,
        until: Until | None = None,
        expect: Sequence[str] = (),
        seed: int | None = None,
        sample_interval: Time | None = None,
        framing: Size | None = None,
        fast_forward: bool | None = None,
        clock: Clock | Mapping[str, Any] | None = None,
        replications: ReplicationPlan | Mapping[str, Any] | None = None,
        tcp: Tcp | Mapping[str, Any] | None = None,
        topology: Topology | None = None,
        routing: Routing | None = None,
        link: Sequence[Link | Mapping[str, Any]] = (),
        change: Sequence[Change | Mapping[str, Any]] = (),
        host: Sequence[Host | Mapping[str, Any]] = (),
        flow: Sequence[Flow | Mapping[str, Any]] = (),
        directory: str | os.PathLike[str] = "",
    ) -> None:
        """Builds and checks a scenario.

        Args:
            duration: How long the run lasts.
            name: Short name, used for the run directory and in reports.
            description: What the experiment shows, for people.
            warmup: Time at the start that results leave out.
            until: What ends the run before its duration, such as "client exits"; of a list of conditions, all must come true.
            expect: Conditions on the results, such as "flow.bulk.goodput > 1Mbit/s"; on the command line a run that does not meet them fails.
            seed: Seed of all randomness.
            sample_interval: Interval of the time series.
            framing: Bytes that every link adds to every packet.
            fast_forward: Whether stretches in which every flow repeats itself are skipped; the summary says how far off that is.
            clock: How time passes.
            replications: The seeds that the command line runs. In Python, name them: `scenario.run(seeds=scenario.seeds)`.
            tcp: TCP options of every flow that does not set its own.
            topology: A network built from a few parameters.
            routing: How flows choose among routes that are as good as each other; by default "ecmp" in fat-tree, leaf-spine and clos, "first"
                elsewhere.
            link: Links, one by one.
            change: Changes of links during the run, in order of time.
            host: Settings of single hosts; other hosts need no entry.
            flow: The traffic.
            directory: Directory that paths of traces and logs are relative to; the current one by default.

        Raises:
            ScenarioError: With all errors of the scenario.
        """
        data = {
            "name": name,
            "description": description,
            "duration": duration,
            "warmup": warmup,
            "until": until,
            "expect": expect,
            "seed": seed,
            "sample_interval": sample_interval,
            "framing": framing,
            "fast_forward": fast_forward,
            "clock": clock,
            "replications": replications,
            "tcp": tcp,
            "topology": topology,
            "routing": routing,
            "link": link,
            "change": change,
            "host": host,
            "flow": flow,
        }
        self._native = NativeScenario.from_json(json.dumps(encode(data)), [], os.fspath(directory))

    @classmethod
    def _of(cls, native: NativeScenario) -> Scenario:
        scenario = cls.__new__(cls)
        scenario._native = native
        return scenario

    @classmethod
    def load(cls, path: str | os.PathLike[str], *changes: str) -> Scenario:
        """Reads a scenario file and applies `changes`, each "path=value" as in `set`.

        Raises:
            ScenarioError: With all errors in the file, each with line and column.
        """
        return cls._of(NativeScenario.load(os.fspath(path), list(changes)))

    @classmethod
    def from_toml(cls, text: str, *, name: str = "scenario", directory: str | os.PathLike[str] = "") -> Scenario:
        """Reads TOML text. Errors call it `name`; paths in it are relative to `directory`."""
        return cls._of(NativeScenario.from_toml(name, text, [], os.fspath(directory)))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, directory: str | os.PathLike[str] = "") -> Scenario:
        """Builds a scenario from a mapping with the structure of the TOML file."""
        return cls._of(NativeScenario.from_json(json.dumps(encode(data)), [], os.fspath(directory)))

    def to_toml(self) -> str:
        """The scenario as TOML, with defaults filled in. Reading it gives the same scenario."""
        return self._native.to_toml()

    def to_dict(self) -> dict[str, Any]:
        """The scenario as plain data, with defaults filled in."""
        data: dict[str, Any] = json.loads(self._native.to_json())
        return data

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the scenario as a TOML file."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def set(self, *changes: str) -> Scenario:
        """A copy with changes, each "path=value": `scenario.set("link.0.rate=5Mbit/s", "flow.bulk.cc=nice")`.

        The path names an entry of a list by its number, from 0, or by its name. The value is TOML, or plain text.
        """
        return self._of(NativeScenario.from_json(self._native.to_json(), list(changes), str(self.directory)))

    def replace(self, **changes: Any) -> Scenario:
        """A copy with other values of top-level keys: `scenario.replace(duration="10s", seed=7)`. None removes a key."""
        return self.from_dict({**self.to_dict(), **changes}, directory=self.directory)

    @property
    def name(self) -> str:
        """Short name."""
        name: str = self.to_dict()["name"]
        return name

    @property
    def seed(self) -> int:
        """Seed of all randomness."""
        seed: int = self.to_dict()["seed"]
        return seed

    @property
    def directory(self) -> Path:
        """Directory that paths of traces and logs are relative to."""
        return Path(self._native.directory)

    @property
    def hash(self) -> str:
        """Hash of the whole scenario: "sha256:..."."""
        return self._native.scenario_hash()

    @property
    def seeds(self) -> list[int]:
        """The seeds of all runs that the scenario plans: those of `replications`, or its own one."""
        return self._native.seeds()

    @property
    def builds(self) -> list[str]:
        """The kernels of guests and the stacks in shared objects that a run would use on this machine, each with digits of a hash of its files:
        "linux-6.1.176-0123456789ab", "lwip-ba9876543210". Empty where all hosts are parts of Warpline itself.

        Raises:
            RunError: If one of them is not there, or cannot be read.
        """
        return self._native.builds()

    @overload
    def run(
        self,
        *,
        seed: int | None = None,
        seeds: None = None,
        cores: int | None = None,
        jobs: int | None = None,
        out: str | os.PathLike[str] | None = None,
        force: bool = False,
        report: bool = False,
        progress: bool | Observer = True,
        cc: CcFactories | None = None,
    ) -> Run: ...
    @overload
    def run(
        self,
        *,
        seeds: Iterable[int],
        cores: int | None = None,
        jobs: int | None = None,
        out: str | os.PathLike[str] | None = None,
        force: bool = False,
        report: bool = False,
        progress: bool | Observer = True,
        cc: CcFactories | None = None,
    ) -> RunSet: ...
    def run(
        self,
        *,
        seed: int | None = None,
        seeds: Iterable[int] | None = None,
        cores: int | None = None,
        jobs: int | None = None,
        out: str | os.PathLike[str] | None = None,
        force: bool = False,
        report: bool = False,
        progress: bool | Observer = True,
        cc: CcFactories | None = None,
    ) -> Run | RunSet:
        """Runs the scenario, once or with several seeds. Other Python threads go on meanwhile.

        Args:
            seed: Replaces the seed of the scenario. A scenario with `replications` warns if neither is given, as one run is made.
            seeds: Makes one run for each seed. The result is a `RunSet`, whose tables have a column of seeds.
            cores: How many cores one simulated run uses; the results are the same. By default as many as make it faster, and with
                `seeds` one.
            jobs: How many of them run at once; by default one per CPU. Only one at a time can be inside a congestion control
                written in Python. Without `seeds` it is an error.
            out: Run directory to write: tables, captures, summary.json. With `seeds` it gets a run directory for each: "seed-1"
                and so on, and replications.json with means and intervals, as `warpline run --seeds` writes it. Without it, the results
                stay in memory, and captures and qlog files are not made.
            force: Whether to replace a run or a set of seeds that is there already. Without `out` it is an error. An earlier set is removed
                when all that can be checked before the runs has been checked.
            report: Whether to write report.html into the directory. Without `out` it is an error.
            progress: True shows a progress line in a terminal or a notebook; with `seeds` there is none. A function is called with
                a `Progress` now and then; if it returns False, the run stops and returns its results until then. With `seeds`, the
                function is called from several threads with the progress of each run, and False stops all of them.
            cc: Congestion controls written in Python, by the name that flows give in cc = {kind = "custom", name = "..."}.

        Raises:
            RunInterrupted: On Ctrl-C; its `run` holds the results until then. With `seeds`, a KeyboardInterrupt without results.
            RunError: If the scenario cannot be run or results cannot be written. If seeds failed, it names them; the runs of the others are in `out`.
            ValueError: If the arguments do not fit each other, or one of them is no value that it can have.
            Exception: Any exception from `progress` or a congestion control.
        """
        if out is None and report:
            raise ValueError("report=True writes report.html into the run directory, and none is named: name it (out=...), or call `report` of the result")
        check_force(force, out)
        if seeds is None and jobs is not None:
            raise ValueError(
                f"jobs={jobs!r} says how many seeds run at once, and no seeds are named: name them (seeds=...), or leave out jobs; "
                "how many cores one run uses is cores=..."
            )
        jobs = checked_jobs(jobs)
        if cores is not None and cores < 1:
            raise ValueError(f"cores={cores!r}: a run uses at least one core; give a number from 1, or leave out cores")
        if seeds is not None:
            if seed is not None:
                raise ValueError("seed and seeds are both given: name one of them")
            return self._run_seeds(checked(seeds), cores or 1, jobs, None if out is None else Path(out), force, report, progress, cc)
        if seed is not None:
            seed = checked_seed(seed, "seed is")
        else:
            self._warn_of_planned_seeds(stacklevel=2)
        line = ProgressLine(sys.stderr) if progress is True and wanted() else None
        observer: Observer | None = line if isinstance(progress, bool) else progress
        try:
            native, raised = run_scenario(
                self._native,
                seed=seed,
                out=None if out is None else os.fspath(out),
                force=force,
                report=report,
                observer=observer,
                cc=dict(cc or {}),
                cores=cores,
            )
        finally:
            if line is not None:
                line.close()
        run = Run(native)
        if isinstance(raised, KeyboardInterrupt):
            summary = run.summary
            raise RunInterrupted(
                f"stopped at {summary['simulated_s']:.3f} of {summary['duration_s']:g} s; "
                "the exception's `run` holds the results until then",
                run,
            ) from None
        if raised is not None:
            raise raised
        return run

    def _run_seeds(
        self,
        seeds: list[int],
        cores: int,
        jobs: int | None,
        out: Path | None,
        force: bool,
        report: bool,
        progress: bool | Observer,
        cc: CcFactories | None,
    ) -> RunSet:
        threads = at_once(seeds, jobs)
        if out is not None:
            # This may remove an earlier set: whatever can be wrong with the arguments has been found before.
            prepare_seeds(self._native, out, force=force, cc=dict(cc or {}))

        def one(seed: int, observer: Observer) -> Run:
            place = None if out is None else seed_directory(out, seed)
            return self.run(seed=seed, cores=cores, out=place, force=force, progress=observer, cc=cc)

        made, failed = run_seeds(seeds, threads, one, None if isinstance(progress, bool) else progress)
        runs = RunSet(made, out)
        if out is not None:
            finish_seeds(out, seeds, [run._native for run in made])
            if report and made:
                runs.report(out / "report.html")
        if failed:
            raise failure_of(failed, len(seeds)) from failed[0][1]
        return runs

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        return self.to_dict() == other.to_dict() and self.directory == other.directory

    def __hash__(self) -> int:
        return hash((self.hash, self.directory))

    def __repr__(self) -> str:
        data = self.to_dict()
        return f"<warpline.Scenario {data['name']}: {data['duration']}, {len(data.get('flow', []))} flow entries>"

    def _repr_html_(self) -> str:
        """Small tables for notebooks: the flows, the network and the hosts."""
        data = self.to_dict()
        caption = f"{data['name']}: {data['duration']}, seed {data['seed']}"
        topology = [data["topology"]] if data.get("topology") else []
        flows = _notebook.entries(caption, data.get("flow", []), ("name", "from", "to", "app", "cc", "count", "start"))
        network = _notebook.entries("", topology, list(topology[0])) if topology else ""
        links = _notebook.entries("", data.get("link") or [], ("name", "between", "from", "to", "rate", "delay", "queue", "loss"))
        hosts = _notebook.entries("", data.get("host") or [], ("name", "endpoint", "cc", "kernel"))
        return flows + network + links + hosts

    def _warn_of_planned_seeds(self, stacklevel: int) -> None:
        """Says that a single run is made of a scenario that plans several, which the command line would make."""
        planned = self.seeds
        if len(planned) > 1:
            warnings.warn(
                f"the scenario plans {len(planned)} runs (replications), and one is made, with its seed {self.seed}: "
                "seeds=scenario.seeds makes them all, and naming one seed makes one without this warning",
                stacklevel=stacklevel + 1,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._native.to_json(), str(self.directory))


def _restore(text: str, directory: str) -> Scenario:
    return Scenario._of(NativeScenario.from_json(text, [], directory))


def run(path: str | os.PathLike[str], *changes: str, **options: Any) -> Run:
    """Runs a scenario file: `warpline.run("dumbbell.toml", "duration=10s", seed=3)`. Takes the options of `Scenario.run` except `seeds`."""
    if options.get("seeds") is not None:
        raise ValueError("run() makes one run; for several seeds use Scenario.load(path).run(seeds=...)")
    run: Run = Scenario.load(path, *changes).run(**options)
    return run
