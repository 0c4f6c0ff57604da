"""The compiled part of warpline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, final

import pandas
import polars
import pyarrow

__all__ = [
    "AckSample",
    "CcConfig",
    "CongestionEvent",
    "Interval",
    "LARGEST_SEED",
    "NativeEvaluation",
    "NativeRun",
    "NativeScenario",
    "NativeSteps",
    "Progress",
    "QuicCongestion",
    "QuicConnection",
    "QuicMessage",
    "QuicServer",
    "Table",
    "__version__",
    "evaluate",
    "finish_seeds",
    "json_schema",
    "openmetrics_names",
    "prepare_seeds",
    "quic_keygen",
    "report_seeds",
    "result_tables",
    "run_scenario",
    "seeds_in",
    "show",
    "student_t_975",
    "tc_netem",
    "tc_percent",
    "tc_value",
]

__version__: str
LARGEST_SEED: int

_Phase: TypeAlias = Literal["open", "disorder", "cwr", "recovery", "loss"]
_Trigger: TypeAlias = Literal["dup_acks", "rack", "rto", "ecn"]

def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a scenario."""

def openmetrics_names(table: str) -> list[tuple[str, str, str | None, float, str]]:
    """The columns of a table that are metrics: each with its name in OpenMetrics, its unit there, what its values are divided by, and what it is."""

def run_scenario(
    scenario: NativeScenario,
    *,
    seed: int | None = None,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    report: bool = False,
    observer: Callable[[Progress], object] | None = None,
    cc: Mapping[str, Callable[[CcConfig], object]] = ...,
    cores: int | None = None,
) -> tuple[NativeRun, BaseException | None]:
    """Runs a scenario and returns the run, with the exception that stopped it if one did."""

def evaluate(
    algorithm: str,
    *,
    quick: bool = False,
    seeds: int = 5,
    only: Sequence[str] = ...,
    guests: bool = False,
    observer: Callable[[int, int], object] | None = None,
    cc: Mapping[str, Callable[[CcConfig], object]] = ...,
) -> NativeEvaluation:
    """Evaluates a congestion control; the names in `cc` are those of Python's classes."""

def report_seeds(out: str | PathLike[str], runs: Sequence[NativeRun]) -> None:
    """Writes the report page of runs of several seeds: means with intervals, and each run."""

def seeds_in(directory: str | PathLike[str]) -> list[int]:
    """The seeds of which a directory holds runs, in rising order."""

def prepare_seeds(
    scenario: NativeScenario,
    directory: str | PathLike[str],
    *,
    force: bool = False,
    cc: Mapping[str, Callable[[CcConfig], object]] = ...,
) -> None:
    """Makes room for the runs of several seeds in a directory, by the rules of the command line, but runs that are there are never replaced without
    `force`. Whether the scenario can be run is checked first, so that no earlier set is removed for nothing.

    Raises:
        RunError: If the scenario cannot be run, or if what the directory holds may not be replaced.
        Exception: Any exception from a congestion control.
    """

def finish_seeds(directory: str | PathLike[str], seeds: Sequence[int], runs: Sequence[NativeRun]) -> None:
    """Writes replications.json into the directory of these seeds' runs, as the command line does, and removes runs of other seeds. If there is
    no run, the directory goes.

    Raises:
        RunError: If it cannot be written.
    """

def result_tables() -> list[dict[str, Any]]:
    """Every table of results and its columns, with their names, units and meanings."""

def show(unit: str, value: float) -> str:
    """A value as people read it, to about three digits: `show("bit/s", 9.57e6)` is "9.57 Mbit/s"."""

def student_t_975(degrees_of_freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution: half of a 95 % interval's width in standard errors."""

def tc_netem(words: Sequence[str], rated: bool) -> tuple[str, list[str]]:
    """netem's words (tc-netem(8)) as keys of a link, a JSON object, and what these do not have, in sentences. `rated`: the link has a rate from elsewhere.

    Raises:
        ValueError: If a word is not known, or its value is wrong.
    """

def tc_percent(word: str) -> float:
    """A percentage of `tc`, 0 to 100.

    Raises:
        ValueError: If the word is none.
    """

def tc_value(kind: Literal["rate", "size", "time", "count"], word: str) -> int:
    """A number of `tc`: a rate in bit/s, a size in bytes, a time in nanoseconds, or a whole number.

    Raises:
        ValueError: If the word is none.
    """

@final
class NativeScenario:
    """A checked scenario. People use `warpline.Scenario`, which is built on this."""

    @staticmethod
    def load(path: str | PathLike[str], sets: Sequence[str] = ...) -> NativeScenario:
        """Reads a scenario file and applies `sets`, each "path=value"."""
    @staticmethod
    def from_toml(
        name: str, text: str, sets: Sequence[str] = ..., directory: str | PathLike[str] = ...
    ) -> NativeScenario:
        """Reads TOML text. Errors call it `name`; paths in it are relative to `directory`."""
    @staticmethod
    def from_json(text: str, sets: Sequence[str] = ..., directory: str | PathLike[str] = ...) -> NativeScenario:
        """Reads JSON text with the structure of the TOML file."""
    def to_toml(self) -> str:
        """The scenario as TOML in its normal form, with defaults filled in."""
    def to_json(self) -> str:
        """The scenario as JSON text, with defaults filled in."""
    def scenario_hash(self) -> str:
        """Hash of the scenario: "sha256:..."."""
    def seeds(self) -> list[int]:
        """The seeds of all runs that the scenario plans: its seed, or those of `replications`."""
    def builds(self) -> list[str]:
        """The kernels of guests and the stacks in shared objects that a run would use on this machine."""
    @property
    def directory(self) -> PathLike[str]:
        """Directory that paths of traces and logs are relative to."""

@final
class NativeEvaluation:
    """The verdicts on a congestion control. People use `warpline.Evaluation`, which is built on this."""

    def to_json(self) -> str:
        """The evaluation as JSON text."""
    def render(self, all: bool) -> str:
        """The verdicts as text, and the figures behind them: of those that are not met, or of all."""
    def to_markdown(self) -> str:
        """The same in Markdown, with all figures."""
    def to_html(self) -> str:
        """A page with plots."""
    def write(self, directory: str | PathLike[str]) -> PathLike[str]:
        """Writes the page, the figures and the scenarios into a directory, and returns the path of the page."""

@final
class NativeRun:
    """A run's results. People use `warpline.Run`, which is built on this."""

    @staticmethod
    def open(directory: str | PathLike[str]) -> NativeRun:
        """Opens a run directory."""
    @property
    def directory(self) -> PathLike[str] | None:
        """The run directory; None for a run that is in memory only."""
    @property
    def failures(self) -> list[str]:
        """What failed: stacks, programs, what the scenario expects. Empty for a run that was opened."""
    def summary_json(self) -> str:
        """The summary as JSON text: the bytes of summary.json."""
    def table(self, name: str) -> Table:
        """A table by its name; empty where nothing of it was recorded."""
    def recordings(self) -> list[PathLike[str]]:
        """Captures (.pcapng) and qlog files (.sqlog) in the run directory."""
    def report(self, out: str | PathLike[str], others: Sequence[NativeRun] = ...) -> None:
        """Writes the report page of this run and of `others` beside it."""
    def __reduce__(self) -> tuple[Callable[..., NativeRun], tuple[object, ...]]:
        """For pickle: a run directory is named, and opened again; a run in memory goes along with its tables."""

@final
class Table:
    """A table of results in Arrow's columnar format.

    Any library that supports the Arrow PyCapsule interface can read it: `polars.DataFrame(table)`,
    `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)`. A single column is `table["goodput_bps"]`.
    """

    @staticmethod
    def of_seeds(tables: Sequence[tuple[int, Table]]) -> Table:
        """Joins tables that have the same columns, one below the other; a new first column holds the seed of each."""
    @staticmethod
    def from_columns(columns: dict[str, list[bool | int | float | str | None]], *, text: Sequence[str] = ...) -> Table:
        """A table made of Python lists of the same length. A column in which all values are None holds numbers, or text if `text` names it."""
    @staticmethod
    def read(path: str | PathLike[str]) -> Table:
        """Reads a Parquet file. Rows keep their order.

        Raises:
            RunError: If it cannot be read.
        """
    def write(self, path: str | PathLike[str]) -> None:
        """Writes the table as a Parquet file, whole or not at all.

        Raises:
            RunError: If it cannot be written.
        """
    def __reduce__(self) -> tuple[Callable[..., Table], tuple[bytes]]:
        """For pickle."""
    @property
    def num_rows(self) -> int:
        """Number of rows."""
    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
    @property
    def units(self) -> dict[str, str]:
        """Units of the columns that have one, by name."""
    @property
    def descriptions(self) -> dict[str, str]:
        """What each column holds, by name."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]:
        """The names of the columns, as of a dictionary."""
    def __contains__(self, name: str, /) -> bool: ...
    def __getitem__(self, name: str, /) -> list[Any]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table as an Arrow C stream (Arrow PyCapsule interface)."""
    def __arrow_c_schema__(self) -> object:
        """The schema as an Arrow C schema (Arrow PyCapsule interface)."""
    def polars(self) -> polars.DataFrame:
        """The table as a polars frame; needs polars."""
    def pandas(self) -> pandas.DataFrame:
        """The table as a pandas frame; needs pandas and pyarrow."""
    def pyarrow(self) -> pyarrow.Table:
        """The table as a pyarrow table; needs pyarrow."""

@final
class Progress:
    """How far a run has come."""

    def __new__(cls, simulated_s: float, duration_s: float, events: int = 0) -> Progress: ...
    @property
    def simulated_s(self) -> float:
        """Time that has passed in the run, in seconds."""
    @property
    def duration_s(self) -> float:
        """Duration of the whole run, in seconds."""
    @property
    def events(self) -> int:
        """Events handled."""
    @property
    def fraction(self) -> float:
        """Share of the run that is done, 0 to 1."""

@final
class CcConfig:
    """What a congestion control receives when its connection starts."""

    def __new__(
        cls, mss: int = 1460, initial_window: int = 14600, initial_ssthresh: float = ...
    ) -> CcConfig: ...
    @property
    def mss(self) -> int:
        """Payload size of a full segment in bytes."""
    @property
    def initial_window(self) -> int:
        """Initial window in bytes."""
    @property
    def initial_ssthresh(self) -> float:
        """Initial slow-start threshold in bytes; `math.inf` for none."""

@final
class AckSample:
    """What an acknowledgement tells a congestion control. Times are in seconds, amounts in bytes."""

    def __new__(
        cls,
        *,
        now: float = 0.0,
        acked: int = 1460,
        mss: int = 1460,
        rtt: float | None = None,
        srtt: float = 0.0,
        min_rtt: float = 0.0,
        one_way_delay: float | None = None,
        delivery_rate: float | None = None,
        delivered: int = 0,
        prior_delivered: int = 0,
        prior_in_flight: int = 0,
        in_flight: int = 0,
        next_seq: int = 0,
        ack: int = 0,
        ce: int = 0,
        cwnd_limited: bool = True,
        phase: _Phase = "open",
    ) -> AckSample: ...
    @property
    def now(self) -> float:
        """When it was processed, in seconds of the run."""
    @property
    def acked(self) -> int:
        """Bytes newly acknowledged, cumulatively or selectively."""
    @property
    def mss(self) -> int:
        """Payload size of a full segment in bytes."""
    @property
    def rtt(self) -> float | None:
        """RTT sample in seconds, if this acknowledgement gave one."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT in seconds; 0.0 before the first sample."""
    @property
    def min_rtt(self) -> float:
        """Smallest RTT of the connection in seconds; 0.0 before the first sample."""
    @property
    def one_way_delay(self) -> float | None:
        """One-way delay in seconds with an unknown constant offset, if timestamps are in use."""
    @property
    def delivery_rate(self) -> float | None:
        """Delivery rate in bit/s, if known."""
    @property
    def delivered(self) -> int:
        """Bytes delivered over the connection so far."""
    @property
    def prior_delivered(self) -> int:
        """Bytes delivered when the newest segment acknowledged here was sent."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before this acknowledgement."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight after it."""
    @property
    def next_seq(self) -> int:
        """Next byte to be sent."""
    @property
    def ack(self) -> int:
        """Cumulative acknowledgement."""
    @property
    def ce(self) -> int:
        """Bytes reported congestion-experienced by this acknowledgement."""
    @property
    def cwnd_limited(self) -> bool:
        """Whether the window, and not the application or the receiver, limited sending; it must not grow otherwise."""
    @property
    def phase(self) -> _Phase:
        """State of the connection. The window must not grow in "cwr" and "recovery"."""

@final
class CongestionEvent:
    """A reason to reduce the window. Times are in seconds, amounts in bytes."""

    def __new__(
        cls,
        *,
        now: float = 0.0,
        trigger: _Trigger = "dup_acks",
        in_flight: int = 0,
        mss: int = 1460,
        min_rtt: float = 0.0,
        srtt: float = 0.0,
    ) -> CongestionEvent: ...
    @property
    def now(self) -> float:
        """When, in seconds of the run."""
    @property
    def trigger(self) -> _Trigger:
        """What showed the congestion."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight at that moment."""
    @property
    def mss(self) -> int:
        """Payload size of a full segment in bytes."""
    @property
    def min_rtt(self) -> float:
        """Smallest RTT of the connection in seconds; 0.0 before the first sample."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT in seconds; 0.0 before the first sample."""

@final
class Interval:
    """What happened on a connection between two decisions. Times are in seconds, amounts in bytes, rates in bit/s."""

    def __new__(
        cls,
        *,
        number: int = 0,
        start: float = 0.0,
        end: float = 0.0,
        sent: int = 0,
        acked: int = 0,
        lost: int = 0,
        ce: int = 0,
        acks: int = 0,
        rtt: float | None = None,
        rtt_min: float | None = None,
        srtt: float = 0.0,
        min_rtt: float = 0.0,
        delivery_rate: float | None = None,
        max_delivery_rate: float = 0.0,
        in_flight: int = 0,
        cwnd: int = 14600,
        pacing_rate: float | None = None,
        mss: int = 1460,
        cwnd_limited: bool = True,
        timeout: bool = False,
    ) -> Interval: ...
    @property
    def number(self) -> int:
        """Its number on the connection, from 0."""
    @property
    def start(self) -> float:
        """When it began, in seconds of the run: with the last one's end, or with the first data sent."""
    @property
    def end(self) -> float:
        """When it ended, in seconds of the run."""
    @property
    def duration(self) -> float:
        """Its length in seconds; 0.0 if two acknowledgements came at the same time."""
    @property
    def sent(self) -> int:
        """Bytes sent, retransmissions included."""
    @property
    def acked(self) -> int:
        """Bytes newly acknowledged, cumulatively or selectively."""
    @property
    def lost(self) -> int:
        """Bytes taken for lost."""
    @property
    def loss(self) -> float:
        """Share of the bytes of which something was learnt that were taken for lost, 0 to 1."""
    @property
    def ce(self) -> int:
        """Bytes reported congestion-experienced."""
    @property
    def acks(self) -> int:
        """Acknowledgements of new data."""
    @property
    def throughput(self) -> float:
        """Bits acknowledged per second; 0.0 where the interval has no length."""
    @property
    def rtt(self) -> float | None:
        """Mean of the RTT samples in seconds, if there were any."""
    @property
    def rtt_min(self) -> float | None:
        """Smallest of them."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT in seconds at the end; 0.0 before the first sample."""
    @property
    def min_rtt(self) -> float:
        """Smallest RTT of the connection in seconds; 0.0 before the first sample."""
    @property
    def delivery_rate(self) -> float | None:
        """The last delivery rate sample of the interval in bit/s, if there was one."""
    @property
    def max_delivery_rate(self) -> float:
        """Largest delivery rate sample of the connection in bit/s; 0.0 before the first."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight at the end."""
    @property
    def cwnd(self) -> int:
        """Congestion window in bytes that was in force."""
    @property
    def pacing_rate(self) -> float | None:
        """Pacing rate in bit/s that was in force, if there was one."""
    @property
    def mss(self) -> int:
        """Payload size of a full segment in bytes."""
    @property
    def cwnd_limited(self) -> bool:
        """Whether the window limited sending at the end, and not the application or the receiver."""
    @property
    def timeout(self) -> bool:
        """Whether a retransmission time-out ended it."""

@final
class NativeSteps:
    """A run in steps. People use `warpline.gym`, which is built on this."""

    def __new__(
        cls,
        scenario: NativeScenario,
        *,
        name: str,
        every: str,
        seed: int | None = None,
        pacing_rate: float | None = None,
    ) -> NativeSteps: ...
    def send(self, cwnd: float, pacing_rate: float | None = None) -> None:
        """Lets the run go on with this window in bytes, and pacing rate in bit/s if there is one."""
    def receive(self) -> tuple[Interval | None, float | None]:
        """Waits for the next decision: the interval before it, and None. When the run has ended, the interval that was cut short, if there is one, and how many seconds of the run have passed."""
    @property
    def duration(self) -> float:
        """Duration of the run in seconds, as its scenario has it."""
    def close(self) -> None:
        """Ends the run, if it has not ended yet."""

def quic_keygen(path: str) -> str:
    """Makes a key in a new file that only its owner can read; returns its public half."""

@final
class QuicCongestion:
    """The congestion control of a connection at one moment."""

    @property
    def algorithm(self) -> str:
        """The algorithm's name."""
    @property
    def cwnd(self) -> int:
        """Congestion window in bytes; may be below one datagram."""
    @property
    def mtu(self) -> int:
        """Bytes of a full datagram."""
    @property
    def min_rtt(self) -> float:
        """Smallest RTT in seconds."""
    @property
    def srtt(self) -> float:
        """Smoothed RTT in seconds."""
    @property
    def delivered(self) -> int:
        """Bytes acknowledged."""
    @property
    def lost(self) -> int:
        """Bytes lost."""

@final
class QuicConnection:
    """A connection to a server."""

    @staticmethod
    def connect(address: str, *, key: str, trust: str | None = None, cc: str = "nice") -> QuicConnection:
        """Connects to "host:port"."""
    def send(self, data: bytes | PathLike[str]) -> int:
        """Sends a message and waits until the receiver has taken it; returns its length in bytes."""
    @property
    def congestion(self) -> QuicCongestion | None:
        """The congestion control now."""
    @property
    def peer(self) -> str | None:
        """The server's public key."""
    def close(self) -> None:
        """Closes it; a second time does nothing."""
    def __enter__(self) -> QuicConnection: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class QuicMessage:
    """A message that came in."""

    @property
    def data(self) -> bytes:
        """Its bytes."""
    @property
    def peer(self) -> str | None:
        """The sender's public key."""
    @property
    def remote(self) -> str:
        """The sender's address."""

@final
class QuicServer:
    """Receives messages: iterate over it."""

    @staticmethod
    def bind(address: str, *, key: str, trust: str | None = None, max_bytes: int = ...) -> QuicServer:
        """Listens on "address:port"."""
    @property
    def address(self) -> str:
        """Where it listens."""
    def close(self) -> None:
        """Stops listening; a second time does nothing."""
    def __iter__(self) -> QuicServer: ...
    def __next__(self) -> QuicMessage: ...
    def __enter__(self) -> QuicServer: ...
    def __exit__(self, *_exception: object) -> None: ...
