"""Converters of tc's words, and of topologies that have them: what is carried, and what is said of the rest."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpline import convert
from warpline.convert import ConvertError, tc
from warpline.convert._source import Source
from warpline.convert._tc_device import INCOMING, REPLACED, UNREACHED

from conftest import links, write
from converters import lost, said


def left_out(text: str) -> list[str]:
    return tc.link(textwrap.dedent(text)).left_out.lines()


# Words and scripts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("netem delay 100ms", {"delay": "100ms"}),
        ("netem delay 100ms 10ms", {"delay": "90ms", "jitter": {"kind": "uniform", "max": "20ms", "reorder": True}}),
        ("netem delay 100ms 10ms distribution normal", {"delay": "70ms", "jitter": {"kind": "normal", "mean": "30ms", "stddev": "10ms", "reorder": True}}),
        ("netem delay 5ms 10ms", {"jitter": {"kind": "uniform", "max": "15ms", "reorder": True}}),
        ("netem loss 1%", {"loss": "1%"}),
        ("netem loss random 1", {"loss": "1%"}),
        ("netem loss 1% 25%", {"loss": {"kind": "correlated", "probability": "1%", "correlation": "25%", "form": "netem"}}),
        ("netem loss gemodel 1% 10%", {"loss": {"kind": "gilbert-elliott", "good_to_bad": "1%", "bad_to_good": "10%", "loss_bad": "100%", "loss_good": "0%"}}),
        ("netem loss state 1%", {"loss": {"kind": "four-state", "begin": "1%", "end": "99%", "pass": "0%", "lose": "100%", "alone": "0%"}}),
        ("netem duplicate 1% corrupt 0.1%", {"duplicate": "1%", "corrupt": "0.1%"}),
        ("netem delay 10ms reorder 25% 50% gap 5", {"jitter": {"kind": "overtaking", "delay": "10ms", "probability": "25%", "correlation": "50%", "form": "netem", "gap": 5}}),
        ("netem rate 10mbit 38 limit 500", {"rate": "10Mbit/s", "framing": "38B", "queue": "500p"}),
        ("netem rate 1mbps", {"rate": "8Mbit/s"}),
        ("pfifo limit 10", {"queue": {"kind": "droptail", "limit": "10p"}}),
        ("bfifo limit 10k", {"queue": {"kind": "droptail", "limit": "10240B"}}),
        # What a latency of 50 ms lets wait: 62500 bytes at 10 Mbit/s, and the burst.
        ("tbf rate 10mbit burst 32kb latency 50ms", {"queue": {"kind": "tbf", "rate": "10Mbit/s", "burst": "32768B", "limit": "95268B"}}),
        ("fq_codel limit 600 target 4ms noecn", {"queue": {"kind": "fq_codel", "limit": "600p", "target": "4ms", "ecn": False}}),
        ("cake bandwidth 20mbit besteffort metro", {"queue": {"kind": "cake", "bandwidth": "20Mbit/s", "diffserv": "besteffort", "rtt": "10ms"}}),
        ("pie alpha 2 beta 20", {"queue": {"kind": "pie", "alpha": 0.125, "beta": 1.25}}),
        ("prio bands 4", {"queue": {"kind": "priority", "classes": 4, "per_class": True}}),
    ],
)
def test_words_of_tc_are_keys_of_a_link(words: str, keys: dict[str, Any]) -> None:
    found = tc.link(words).keys
    assert {key: value for key, value in found.items() if key != "rate" or "rate" in keys} == keys
    convert.read(f"tc qdisc add dev eth0 root {words}").scenario.run(progress=False)


def test_a_backslash_neither_continues_a_comment_nor_takes_the_last_line_away() -> None:
    script = "# tc qdisc add dev eth0 root \\\ntc qdisc add dev eth0 root netem delay 10ms \\\n"
    assert tc.link(script).keys["delay"] == "10ms"
    for comment in ["# old \\\n", "\\\n # old \\\n"]:
        script = f"tc qdisc add dev eth0 root handle 1: netem delay 10ms {comment}tc qdisc add dev eth0 parent 1: pfifo limit 100\n"
        assert set(tc.link(script).keys) >= {"delay", "queue"}, script


def test_a_shaper_of_several_commands(tmp_path: Path) -> None:
    script = """\
        #!/bin/sh
        tc qdisc del dev eth0 root; tc qdisc add dev eth0 root handle 1: htb default 20
        sudo tc class add dev eth0 parent 1: classid 1:1 htb rate 20mbit
        tc class add dev eth0 parent 1:1 classid 1:10 htb rate 5mbit ceil 20mbit \\
            prio 0 && tc class add dev eth0 parent 1:1 classid 1:20 htb rate 15mbit
        tc class add dev eth0 parent 1:1 classid 1:30 htb rate 1mbit
        tc qdisc add dev eth0 parent 1:10 fq_codel limit 100
        tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid 1:10
        tc filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 80 0xffff flowid 1:30
        tc qdisc add dev ifb0 root handle 1: tbf rate 100mbit burst 64kb latency 20ms
        tc qdisc add dev ifb0 parent 1:1 netem delay 10ms
    """
    imported = convert.read(write(tmp_path, "shape.sh", script))
    link = links(imported.scenario)["a-b"]
    assert link["queue"]["classes"] == [
        "c1-1 rate 20Mbit/s",
        "c1-10 parent c1-1 rate 5Mbit/s ceil 20Mbit/s prio 0 dscp 46 leaf fq_codel:limit=100p",
        "c1-20 parent c1-1 rate 15Mbit/s default",
        "c1-30 parent c1-1 rate 1Mbit/s class 1",
    ]
    assert link["reverse"]["queue"]["rate"] == "100Mbit/s"
    assert link["reverse"]["delay"] == "10ms"
    assert "filters" in said(imported)
    assert imported.scenario.run(progress=False).flows["goodput_bps"][0] < 15e6


def test_a_queue_inside_a_shaper() -> None:
    keys = tc.link("tc qdisc add dev e root handle 1: tbf rate 10mbit burst 10kb latency 50ms\ntc qdisc add dev e parent 1:1 fq_codel limit 100").keys
    assert keys["queue"] == {"kind": "htb", "classes": ["all rate 10Mbit/s burst 10240B cburst 10240B default leaf fq_codel:limit=100p"]}
    outer = tc.link("tc qdisc add dev e root handle 1: netem delay 5ms loss 1%\ntc qdisc add dev e parent 1: tbf rate 10mbit burst 10kb limit 30k")
    assert outer.keys["delay"] == "5ms"
    assert outer.keys["queue"]["kind"] == "tbf"
    assert outer.assumed.lines()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("netem dalay 3ms", "'dalay' is not known here; there are limit, delay"),
        ("netem delay", "delay has no value behind it"),
        ("netem loss 300%", "not a percentage from 0 to 100"),
        ("netem delay 3parsec", "'3parsec' is not a time of tc, such as 20ms"),
        ("netem reorder 25%", "reorder needs a delay"),
        ("tbf rate $RATE burst 1k", "variable of a shell"),
        ("tbf rate 50%", "share of the device's speed"),
        ("tbf rate 1mbit", "needs a rate and a burst"),
        ("hfsc default 1", "the queue 'hfsc' has no counterpart"),
        ("prio bands 99", "from 2 to 16 bands"),
    ],
)
def test_errors_of_tc(words: str, message: str) -> None:
    with pytest.raises(ConvertError, match=message):
        convert.read(["tc", "qdisc", "add", "dev", "eth0", "root", *words.split()])


def test_errors_of_a_script_name_the_line(tmp_path: Path) -> None:
    file = write(tmp_path, "x.sh", "# first\ntc qdisc add dev eth0 root netem delay x\n")
    with pytest.raises(ConvertError, match=r"x.sh:2: delay x: 'x' does not begin with a number"):
        convert.read(file)
    with pytest.raises(ConvertError, match="is inside itself"):
        tc.link("tc qdisc add dev e root handle 1: tbf rate 1mbit burst 10k limit 10k\ntc qdisc add dev e parent 1: handle 1: netem delay 1ms\n" * 2)
    with pytest.raises(ConvertError, match="the devices a, b, c"):
        convert.read(write(tmp_path, "y.sh", "".join(f"tc qdisc add dev {dev} root netem delay 1ms\n" for dev in "abc")))


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("docker exec a tc qdisc", "docker exec b tc qdisc", ["docker exec a: eth0", "docker exec b: eth0"]),
        ("sudo ip netns exec h1 tc qdisc", "sudo tc -netns h2 qdisc", ["netns h1: eth0", "netns h2: eth0"]),
        ("tc qdisc", "/sbin/tc -n h1 qdisc", ["eth0", "netns h1: eth0"]),
    ],
)
def test_a_device_of_the_same_name_elsewhere_is_another(tmp_path: Path, one: str, other: str, shown: list[str]) -> None:
    text = f"{one} add dev eth0 root netem delay 10ms\n{other} add dev eth0 root netem delay 30ms loss 1%\n"
    assert list(map(str, tc.parse(Source("the file", text)))) == shown
    imported = convert.read(write(tmp_path, "two.sh", text))
    link = links(imported.scenario)["a-b"]
    assert (link["delay"], link["reverse"]["delay"], link["reverse"]["loss"]) == ("10ms", "30ms", lost(0.01))
    assert "later command" not in said(imported)
    with pytest.raises(ConvertError, match=f"the devices {', '.join(shown)}; give the words of one"):
        tc.link(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sudo -E tc", "tc"),
        ("if ! tc", "then tc"),
        ("do LANG=C sudo tc", "/usr/sbin/tc -s"),
        ("ip netns exec h1 sudo tc", "tc -net h1"),
        ("docker exec a ip netns exec h1 tc", "sudo docker exec a tc -n h1"),
    ],
)
def test_what_says_no_place_makes_no_other_device(one: str, other: str) -> None:
    text = f"{one} qdisc add dev e root handle 1: tbf rate 10mbit burst 10kb latency 50ms\n{other} qdisc add dev e parent 1: netem delay 7ms"
    keys = tc.link(text).keys
    assert (keys["queue"]["kind"], keys["delay"]) == ("tbf", "7ms")


@pytest.mark.parametrize("change", ["change dev eth0 root", "replace dev eth0 root handle 1:", "change dev eth0 handle 1:", "add dev eth0 root"])
def test_settings_that_are_replaced_are_left_out_with_a_note(tmp_path: Path, change: str) -> None:
    text = f"tc qdisc add dev eth0 root handle 1: netem delay 10ms loss 1%\ntc qdisc {change} netem delay 20ms\n"
    imported = convert.read(write(tmp_path, "phases.sh", text))
    link = links(imported.scenario)["a-b"]
    assert link["delay"] == "20ms"
    assert "loss" not in link
    place = tmp_path / "phases.sh"
    assert f"the earlier settings of a queue that a later command replaces: {place}:1" in imported.left_out


def test_a_class_that_is_changed_replaces_itself_only(tmp_path: Path) -> None:
    text = """\
        tc qdisc add dev eth0 root handle 1: htb default 2
        tc class add dev eth0 parent 1: classid 1:1 htb rate 20mbit
        tc class add dev eth0 parent 1: classid 1:2 htb rate 5mbit
        tc class change dev eth0 parent 1: classid 1:2 htb rate 7mbit
    """
    imported = convert.read(write(tmp_path, "htb.sh", text))
    lines = links(imported.scenario)["a-b"]["queue"]["classes"]
    assert [line.split(" rate ")[1].split()[0] for line in lines] == ["20Mbit/s", "7Mbit/s"]
    assert f"the earlier settings of a queue that a later command replaces: {tmp_path / 'htb.sh'}:3" in imported.left_out


_TIMES = st.builds(lambda value, unit: f"{value}{unit}", st.integers(0, 500), st.sampled_from(["ms", "us", "msec"]))
_SHARES = st.builds(lambda value, sign: f"{value / 100:g}{sign}", st.integers(0, 10_000), st.sampled_from(["%", "%"]))
_RATES = st.builds(lambda value, unit: f"{value}{unit}", st.integers(1, 900), st.sampled_from(["kbit", "mbit", "mbps", "Kibit", "000bit"]))


def _phrase(word: str, *values: st.SearchStrategy[str], least: int = 1) -> st.SearchStrategy[str]:
    return st.integers(least, len(values)).flatmap(lambda count: st.tuples(*values[:count]).map(lambda found: " ".join([word, *found])))


_NETEM = st.lists(
    st.one_of(
        _phrase("delay", _TIMES, _TIMES, _SHARES),
        _phrase("loss", _SHARES, _SHARES),
        _phrase("loss gemodel", _SHARES, _SHARES, _SHARES, _SHARES),
        _phrase("loss state", _SHARES, _SHARES, _SHARES, _SHARES, _SHARES),
        _phrase("duplicate", _SHARES, _SHARES),
        _phrase("corrupt", _SHARES, _SHARES),
        _phrase("rate", _RATES),
        _phrase("limit", st.integers(0, 10_000).map(str)),
        st.sampled_from(["distribution normal", "distribution pareto", "distribution paretonormal", "ecn"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=150)
@given(_NETEM)
def test_all_that_netem_takes_is_a_valid_link(phrases: list[str]) -> None:
    convert.read("tc qdisc add dev eth0 root netem " + " ".join(phrases)).scenario  # noqa: B018


@settings(deadline=None, max_examples=400)
@given(st.lists(st.sampled_from(["tc", "qdisc", "class", "filter", "add", "dev", "eth0", "root", "parent", "1:", "1:1", "handle", "netem", "htb", "tbf", "rate",
    "fq_codel", "delay", "10ms", "1%", "10mbit", "classid", "default", "1", "burst", "limit", "loss", "state", "gemodel", "ingress", ";", "\n", "$X", "-1", ""]), max_size=25))  # fmt: skip
def test_no_words_of_tc_break_the_parser(words: list[str]) -> None:
    for form in (" ".join(words), words):
        try:
            tc.link(form)
        except ConvertError as error:
            assert str(error)


# Trees of queues and classes --------------------------------------------------------------------------------------------


def test_a_queue_without_a_way_to_the_root_is_noted() -> None:
    found = tc.link("tc qdisc add dev eth0 parent 1:1 handle 10: netem delay 100ms")
    assert found.keys == {"rate": "1Gbit/s"}
    assert found.left_out.lines() == [f"{UNREACHED}: the command: netem below 1:1"]


def test_queues_below_one_that_has_none_here_are_noted(tmp_path: Path) -> None:
    script = """\
        tc qdisc add dev e root handle 1: prio
        tc qdisc add dev e parent 1:1 handle 10: netem delay 3ms
        tc qdisc add dev e parent 10: pfifo limit 3
    """
    imported = convert.read(write(tmp_path, "prio.sh", script))
    assert "the netem in a band of prio: bands here are plain queues of one link" in imported.left_out
    assert f"{UNREACHED}: {tmp_path / 'prio.sh'}:3: pfifo below 10:" in imported.left_out


def test_classes_that_are_of_no_htb_here_are_noted() -> None:
    assert left_out("tc class add dev e parent 1: classid 1:10 htb rate 1mbit") == [f"{UNREACHED}: the command: class 1:10 of htb"]
    inner = """\
        tc qdisc add dev e root handle 1: htb default 10
        tc class add dev e parent 1: classid 1:1 htb rate 9mbit
        tc class add dev e parent 1:1 classid 1:10 htb rate 5mbit
        tc qdisc add dev e parent 1:1 pfifo limit 10
        tc qdisc add dev e parent 1:10 handle 20: htb
        tc class add dev e parent 20: classid 20:1 htb rate 1mbit
    """
    found = tc.link(textwrap.dedent(inner))
    assert found.keys["queue"]["classes"] == ["c1-1 rate 9Mbit/s", "c1-10 parent c1-1 rate 5Mbit/s default"]
    assert found.left_out.lines() == ["the htb in a class of htb: 1:10", f"{UNREACHED}: the command: pfifo below 1:1, the command: class 20:1 of htb"]


def test_all_that_is_carried_leaves_nothing_out() -> None:
    script = """\
        tc qdisc add dev e root handle 1: htb default 20
        tc class add dev e parent 1: classid 1:10 htb rate 9mbit
        tc class add dev e parent 1: classid 1:20 htb rate 5mbit
        tc qdisc add dev e parent 1:10 fq_codel
        tc filter add dev e parent 1: protocol ip u32 match ip tos 0xb8 0xfc flowid 1:10
    """
    assert left_out(script) == []


@pytest.mark.parametrize("flow", ["1:10", "1:0x10", "1:010", "0x1:10"])
def test_a_filter_by_code_point_names_its_class_in_any_spelling(flow: str) -> None:
    script = f"""\
        tc qdisc add dev e root handle 1: htb default 0x1A
        tc class add dev e parent 1:0 classid 1:0x10 htb rate 5mbit
        tc class add dev e parent 1: classid 1:1a htb rate 7mbit
        tc filter add dev e parent 1: protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid {flow}
    """
    found = tc.link(textwrap.dedent(script))
    assert found.keys["queue"]["classes"] == ["c1-10 rate 5Mbit/s dscp 46", "c1-1a rate 7Mbit/s default"]
    assert found.left_out.lines() == []


@pytest.mark.parametrize("flow", ["1:1", "1:99"])
def test_a_filter_to_a_class_that_is_no_leaf_is_left_out(tmp_path: Path, flow: str) -> None:
    script = f"""\
        tc qdisc add dev e root handle 1: htb default 10
        tc class add dev e parent 1: classid 1:1 htb rate 9mbit
        tc class add dev e parent 1:1 classid 1:10 htb rate 5mbit
        tc filter add dev e parent 1: protocol ip prio 1 u32 match ip tos 0xb8 0xfc flowid {flow}
    """
    imported = convert.read(write(tmp_path, "htb.sh", script))
    assert links(imported.scenario)["a-b"]["queue"]["classes"] == ["c1-1 rate 9Mbit/s", "c1-10 parent c1-1 rate 5Mbit/s default"]
    (line,) = (line for line in imported.left_out if line.startswith("filters of tc"))
    assert line.endswith(f": {tmp_path / 'htb.sh'}:4")


def test_handles_of_filters_are_numbers_of_their_own() -> None:
    script = """\
        tc qdisc add dev e root handle 1: htb default 10
        tc class add dev e parent 1: classid 1:10 est 1sec 8sec htb rate 5mbit
        tc filter add dev e parent 1: handle 0x6/0xff fw flowid 1:10
        tc filter add dev e parent 1: protocol ip prio 1 handle 800::800 u32 match ip dport 80 0xffff flowid 1:10
    """
    (line,) = left_out(script)
    assert line.startswith("filters of tc")


def test_what_comes_in_has_a_note_of_its_own() -> None:
    assert left_out("tc qdisc add dev e ingress\ntc qdisc add dev e root netem delay 1ms") == [f"{INCOMING}: the command"]


def test_a_single_class_takes_what_it_takes_in_linux(tmp_path: Path) -> None:
    # Without `default` what no filter names goes past the classes (tc-htb(8)), and so it does if that names another class.
    for default in ("", " default 99"):
        script = f"tc qdisc add dev e root handle 1: htb{default}\ntc class add dev e parent 1: classid 1:10 htb rate 5mbit\n"
        imported = convert.read(write(tmp_path, "htb.sh", script))
        assert links(imported.scenario)["a-b"]["queue"]["classes"] == ["c1-10 rate 5Mbit/s class 1"]
        assert "flows of class 1 go to htb's class 1:10, which neither a code point nor htb's default names" in imported.assumed


@pytest.mark.parametrize("match", ["u32 match ip dst 0.0.0.0/0", "u32 match u32 0 0", "matchall"])
def test_a_filter_that_takes_everything_names_the_default(tmp_path: Path, match: str) -> None:
    script = f"""\
        tc qdisc add dev e root handle 1: htb
        tc class add dev e parent 1: classid 1:10 htb rate 5mbit
        tc filter add dev e parent 1: protocol ip {match} flowid 1:10
    """
    imported = convert.read(write(tmp_path, "all.sh", script))
    assert links(imported.scenario)["a-b"]["queue"]["classes"] == ["c1-10 rate 5Mbit/s default"]
    assert not imported.left_out


# One command after another ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["change dev e root netem", "replace dev e root netem"])
def test_a_queue_that_is_changed_keeps_what_is_in_it(change: str) -> None:
    found = tc.link(f"tc qdisc add dev e root handle 1: netem delay 10ms\ntc qdisc add dev e parent 1: pfifo limit 3\ntc qdisc {change} delay 20ms")
    assert (found.keys["delay"], found.keys["queue"]["limit"]) == ("20ms", "3p")
    assert found.left_out.lines() == [f"{REPLACED}: the command"]


def test_another_queue_at_the_root_takes_the_place_of_the_whole_tree(tmp_path: Path) -> None:
    script = """\
        tc qdisc add dev e root handle 1: htb default 10
        tc class add dev e parent 1: classid 1:10 htb rate 5mbit
        tc filter add dev e parent 1: protocol ip u32 match ip tos 0xb8 0xfc flowid 1:10
        tc qdisc del dev e root
        tc qdisc add dev e root handle 1: htb default 30
        tc class add dev e parent 1: classid 1:30 htb rate 7mbit
    """
    imported = convert.read(write(tmp_path, "phases.sh", script))
    assert links(imported.scenario)["a-b"]["queue"]["classes"] == ["c1-30 rate 7Mbit/s default"]
    places = ", ".join(f"{tmp_path / 'phases.sh'}:{line}" for line in (1, 2, 3))
    assert imported.left_out == (f"{REPLACED}: {places}",)


def test_commands_within_quotation_marks_are_noted(tmp_path: Path) -> None:
    script = "tc qdisc add dev e root netem delay 1ms\nssh far 'tc qdisc add dev e root netem delay 9ms'\nssh far 'tc qdisc show dev e'\n"
    imported = convert.read(write(tmp_path, "far.sh", script))
    assert links(imported.scenario)["a-b"]["delay"] == "1ms"
    assert imported.left_out == (f"commands of tc within quotation marks; write them without: {tmp_path / 'far.sh'}:2",)


# Queues inside each other -----------------------------------------------------------------------------------------------


def test_delays_of_netem_inside_netem_add_up() -> None:
    found = tc.link("tc qdisc add dev e root handle 1: netem delay 10ms loss 1%\ntc qdisc add dev e parent 1: netem delay 20ms loss 2%")
    assert (found.keys["delay"], found.keys["loss"]) == ("30ms", "2%")
    assert "the loss of a netem that has another netem in it with a loss" in found.left_out.lines()


def test_limits_and_queues_that_give_way_are_noted() -> None:
    outer = tc.link("tc qdisc add dev e root handle 1: netem rate 5mbit limit 50\ntc qdisc add dev e parent 1: fq_codel")
    assert outer.keys["queue"] == {"kind": "fq_codel"}
    assert outer.left_out.lines() == ["netem's limit, where it has another queue in it"]
    shaper = "tc qdisc add dev e root handle 1: tbf rate 10mbit burst 10kb latency 50ms\ntc qdisc add dev e parent 1: handle 2: netem delay 3ms\n"
    inner = tc.link(shaper + "tc qdisc add dev e parent 2: fq_codel")
    assert inner.keys["queue"]["kind"] == "tbf"
    assert "the queue of a netem that stands inside a shaper: the shaper's is the link's" in inner.left_out.lines()
    classes = "tc qdisc add dev e root handle 1: htb default 1\ntc class add dev e parent 1: classid 1:1 htb rate 9mbit\n"
    leaf = tc.link(classes + "tc qdisc add dev e parent 1:1 netem rate 5mbit limit 50")
    assert leaf.left_out.lines() == ["netem's limit, where it stands inside a shaper"]


# Defaults of Linux ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        # tc-red(8): max is limit / 4, min is max / 3, the probability 2 %; the burst is (min + min + max) / (3 avpkt).
        ("limit 400000 avpkt 1000", {"min_threshold": "33333B", "max_threshold": "100000B", "max_probability": "2%", "weight": "3.125%"}),
        ("limit 400000 avpkt 1000 min 30000", {"min_threshold": "30000B", "max_threshold": "90000B", "max_probability": "2%"}),
        # tc shows `ewma 5` for this: a weight of 1/32.
        ("limit 400000 avpkt 1000 min 30000 max 90000 burst 55 probability 0.1", {"max_probability": "10%", "weight": "3.125%", "gentle": False}),
        ("limit 400000 avpkt 1000 ecn", {"ecn": True, "hard_drop": False}),
        ("limit 400000 avpkt 1000 ecn harddrop", {"ecn": True, "hard_drop": True}),
    ],
)
def test_red_is_that_of_linux(words: str, keys: dict[str, Any]) -> None:
    found = tc.link(f"red {words}")
    queue = found.keys["queue"]
    assert {key: queue[key] for key in keys} == keys
    assert "burst" not in queue
    assert found.left_out.lines() == []
    convert.read(f"tc qdisc add dev eth0 root red {words}").scenario.run(progress=False)


def test_a_burst_without_a_weight_is_noted() -> None:
    assert left_out("red limit 400000 avpkt 1000 min 30000 max 90000 burst 1") == ["red's word burst: no weight of the average fits it"]
    assert left_out("sfq limit 100 redflowlimit 100000 min 8000 max 60000 avpkt 1500 burst 20 ecn")


def test_a_latency_holds_at_the_peak_rate_too() -> None:
    # q_tbf.c: the smaller one of rate * latency + burst and peakrate * latency + mtu.
    queue = tc.link("tbf rate 10mbit burst 100kb latency 50ms peakrate 11mbit mtu 1500").keys["queue"]
    assert queue["limit"] == "70250B"


def test_each_band_of_prio_has_its_own_limit() -> None:
    assert tc.link("prio").keys["queue"] == {"kind": "priority", "classes": 3, "per_class": True}


# containerlab -----------------------------------------------------------------------------------------------------------

LAB = """\
    name: lab
    topology:
      defaults: { kind: linux }
      nodes: { a: , b: }
      links:
        - endpoints: ["a:eth1", "b:eth1"]
"""


def test_classes_and_filters_of_containerlab_count(tmp_path: Path) -> None:
    text = """\
        name: lab
        topology:
          nodes:
            a:
              kind: linux
              exec:
                - "tc qdisc add dev eth1 root handle 1: htb default 10"
                - "tc class add dev eth1 parent 1: classid 1:10 htb rate 10mbit"
                - "tc class add dev eth1 parent 1: classid 1:20 htb rate 5mbit"
                - "tc filter add dev eth1 parent 1: protocol ip u32 match ip tos 0xb8 0xfc flowid 1:20"
            b: { kind: linux, exec: [ip link set eth1 up, tc qdisc show dev eth1] }
          links:
            - endpoints: ["a:eth1", "b:eth1"]
    """
    imported = convert.read(write(tmp_path, "lab.clab.yml", text))
    assert links(imported.scenario)["a-b"]["queue"]["classes"] == ["c1-10 rate 10Mbit/s default", "c1-20 rate 5Mbit/s dscp 46"]
    assert imported.left_out == ("of nodes: exec: b",)


def test_commands_of_all_nodes_kinds_and_groups_come_before_a_nodes_own(tmp_path: Path) -> None:
    text = """\
        name: lab
        mgmt: { network: custom }
        topology:
          defaults: { kind: linux, exec: ["tc qdisc add dev eth1 root handle 1: htb default 10"] }
          kinds: { linux: { image: alpine, exec: ["tc class add dev eth1 parent 1: classid 1:10 htb rate 10mbit"] } }
          groups: { edge: { exec: ["/bin/sh -c 'tc class add dev eth1 parent 1: classid 1:20 htb rate 20mbit'"] } }
          nodes:
            a: { group: edge, exec: ["tc filter add dev eth1 parent 1: protocol ip u32 match ip tos 0xb8 0xfc flowid 1:20"] }
            b: { group: edge, exec: ["tc filter add dev eth1 parent 1: protocol ip u32 match ip tos 0x28 0xfc flowid 1:20"] }
          links:
            - endpoints: ["a:eth1", { node: b, interface: eth1, mac: "02:00:00:00:00:01" }]
    """
    imported = convert.read(write(tmp_path, "lab.clab.yml", text))
    link = links(imported.scenario)["a-b"]
    assert link["queue"]["classes"] == ["c1-10 rate 10Mbit/s default", "c1-20 rate 20Mbit/s dscp 46"]
    assert link["reverse"]["queue"]["classes"] == ["c1-10 rate 10Mbit/s default", "c1-20 rate 20Mbit/s dscp 10"]
    assert set(imported.left_out) == {"of links' ends: mac", "of the lab: mgmt", "of nodes: image: kind linux"}


def test_a_command_that_yaml_takes_for_a_mapping_is_refused(tmp_path: Path) -> None:
    text = LAB.replace("a: ,", "a: { exec: [tc qdisc add dev eth1 root handle 1: htb default 10] },")
    with pytest.raises(ConvertError, match=r"lab.clab.yml:4: exec: has a line that is not text; write quotation marks"):
        convert.read(write(tmp_path, "lab.clab.yml", text))


def test_parallel_links_of_containerlab_with_another_mtu_are_noted(tmp_path: Path) -> None:
    text = LAB + """\
        - { endpoints: ["a:eth2", "b:eth2"], mtu: 1400 }
    """
    imported = convert.read(write(tmp_path, "lab.clab.yml", text))
    assert "the mtu of links beside the first one between the same nodes: a-b" in imported.left_out


def test_a_script_of_containerlab_says_all_or_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "lab.clab.yml", LAB.replace("name: lab", "name: lab\n    prefix: __lab-name"))
    script = "containerlab tools netem set -n lab-b -i eth1 --delay 3ms\ndocker exec lab-a tc qdisc add dev eth1 root netem delay 9ms\n# tc qdisc add\n"
    imported = convert.read(file, script=write(tmp_path, "netem.sh", script))
    assert links(imported.scenario)["a-b"]["reverse"]["delay"] == "3ms"
    assert imported.left_out == (f"commands of tc in the script; write them among the `exec` lines of nodes: {tmp_path / 'netem.sh'}:2",)
    with pytest.raises(ConvertError, match="netem.sh:1: --jitter needs --delay"):
        convert.read(file, script=write(tmp_path, "netem.sh", "containerlab tools netem set -n lab-b -i eth1 --jitter 3ms\n"))


@pytest.mark.parametrize(
    ("node", "line"),
    [
        # Only what `<<` brings in may give way.
        ("{ <<: &x { image: one, exec: [date] }, image: two }", None),
        ("{ image: one, image: two }", 4),
    ],
)
def test_a_key_stands_once_in_a_mapping(tmp_path: Path, node: str, line: int | None) -> None:
    file = write(tmp_path, "lab.clab.yml", LAB.replace("a: ,", f"a: {node},"))
    if line is None:
        assert "of nodes: exec, image: a" in convert.read(file).left_out
    else:
        with pytest.raises(ConvertError, match=f"lab.clab.yml:{line}: image: stands twice in one mapping"):
            convert.read(file)


# Graphs, Shadow and mahimahi --------------------------------------------------------------------------------------------


def test_attributes_of_edges_that_give_way_are_noted() -> None:
    graph: networkx.MultiGraph[str] = networkx.MultiGraph()
    graph.add_edge("a", "b", rate="1Mbit/s", delay="1ms")
    graph.add_edge("a", "b", rate="1Mbit/s", delay="2ms", loss="1%")
    graph.add_edge("b", "c", bandwidth="2Mbit/s", capacity="3Mbit/s", speed="2Mbit/s", delay="1ms", weight="5Mbit/s")
    imported = convert.from_networkx(graph)
    assert links(imported.scenario)["b-c"]["rate"] == "2Mbit/s"
    assert set(imported.left_out) == {
        "capacity of edges, where bandwidth says the rate: b-c",
        "what parallel edges beside the one with the shortest delay say, apart from rates and delays: a-b",
        "attributes of edges that a scenario has no place for: weight",
    }
    named = convert.from_networkx(graph, rate_from="weight")
    assert links(named.scenario)["b-c"]["rate"] == "5Mbit/s"
    assert "attributes of edges that a scenario has no place for: bandwidth, capacity, rate, speed" in named.left_out


def test_mahimahis_infinite_queue_takes_no_arguments(tmp_path: Path) -> None:
    trace = write(tmp_path, "x.trace", "10\n20\n")
    with pytest.raises(ConvertError, match="the queue infinite takes no arguments"):
        convert.read(["mm-link", "--uplink-queue-args=packets=100", str(trace), str(trace)])


def test_shadows_shutdown_times_are_exact(tmp_path: Path) -> None:
    text = """\
        general: { stop_time: 1h }
        network: { graph: { type: 1_gbit_switch } }
        hosts:
          a: { network_node_id: 0, processes: [{ path: sleep, args: "9999", shutdown_time: 1000005 ms }] }
          b: { network_node_id: 0, processes: [{ path: sleep, args: "9999", start_time: 1s, shutdown_time: 11s }] }
    """
    toml = convert.read(write(tmp_path, "shadow.yaml", text)).toml
    assert '"TERM", "1000.005", "sleep"' in toml
    assert '"TERM", "10", "sleep"' in toml
