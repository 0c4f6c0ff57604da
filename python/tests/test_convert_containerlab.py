"""The converter of containerlab's topologies."""

from __future__ import annotations

from pathlib import Path

import pytest

import warpline
from warpline import convert
from warpline.convert import ConvertError
from warpline.convert.__main__ import main

from conftest import links, write
from converters import lost, said

LAB = """\
    name: lab
    topology:
      defaults: { kind: linux }
      kinds: { linux: { image: alpine } }
      nodes:
        r1: { kind: nokia_srlinux }
        pc1:
          exec:
            - ip link set eth1 up
            - tc qdisc add dev eth1 root netem delay 10ms rate 5mbit
        pc2:
      links:
        - endpoints: ["pc1:eth1", "r1:e1-1"]
        - endpoints: [{ node: r1, interface: e1-2 }, { node: pc2, interface: eth1 }]
          mtu: 1400
        - endpoints: ["r1:e1-3", "host:out"]
        - { type: macvlan, endpoint: { node: pc2, interface: eth9 } }
"""


def test_containerlabs_nodes_links_and_impairments(tmp_path: Path) -> None:
    file = write(tmp_path, "lab.clab.yml", LAB)
    script = write(tmp_path, "netem.sh", "containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay 3ms --jitter 1ms --loss 0.5 --rate 800\n")
    imported = convert.read(file, script=script)
    found = links(imported.scenario)
    assert (found["pc1-r1"]["rate"], found["pc1-r1"]["delay"]) == ("5Mbit/s", "10ms")
    assert (found["pc1-r1"]["reverse"]["rate"], found["pc1-r1"]["reverse"]["delay"]) == ("1Gbit/s", "0s")
    assert found["r1-pc2"]["mtu"] == "1.4kB"
    back = found["r1-pc2"]["reverse"]
    assert (back["rate"], back["loss"], back["delay"]) == ("800kbit/s", lost(0.005), "2ms")
    assert "nokia_srlinux" in said(imported)
    assert "out of the lab" in said(imported)
    guests = convert.read(file, guests=True).scenario.to_dict()["host"]
    assert {host["name"] for host in guests if host["endpoint"] == "guest"} == {"pc1", "pc2"}
    (flow,) = imported.scenario.to_dict()["flow"]
    assert {flow["from"], flow["to"]} == {"pc1", "pc2"}
    assert imported.scenario.run(progress=False).flows["goodput_bps"][0] > 0


def test_a_rate_that_commands_say_holds_whatever_is_assumed(tmp_path: Path) -> None:
    old = "- tc qdisc add dev eth1 root netem delay 10ms rate 5mbit"
    assert old in LAB
    text = LAB.replace(old, "- 'tc qdisc add dev eth1 root handle 1: netem loss 1% rate 10mbit'\n            - 'tc qdisc add dev eth1 parent 1: fq_codel'")
    imported = convert.read(write(tmp_path, "lab.clab.yml", text))
    link = links(imported.scenario)["pc1-r1"]
    assert (link["rate"], link["loss"], link["queue"]["kind"]) == ("10Mbit/s", lost(0.01), "fq_codel")
    assert "netem's losses and copies come behind the queue; in Linux its child has the packets that it leaves: pc1:eth1" in imported.assumed
    assert "the words do not say how fast" not in said(imported)


def test_parallel_links_of_containerlab_are_one(tmp_path: Path) -> None:
    text = """\
        name: lab
        topology:
          nodes:
            a:
              kind: linux
              exec:
                - tc qdisc add dev eth1 root netem delay 10ms rate 5mbit
                - tc qdisc add dev eth2 root netem delay 2ms loss 1% rate 3mbit
            b: { kind: linux, exec: [tc qdisc add dev eth2 root netem rate 7mbit] }
          links:
            - endpoints: ["a:eth1", "b:eth1"]
            - endpoints: ["b:eth2", "a:eth2"]
    """
    imported = convert.read(write(tmp_path, "lab.clab.yml", text), rate="100Mbit/s")
    link = links(imported.scenario)["a-b"]
    assert (link["rate"], link["delay"], link["loss"]) == ("8Mbit/s", "2ms", lost(0.01))
    # Nothing says how fast b:eth1 is.
    assert (link["reverse"]["rate"], link["reverse"]["delay"]) == ("107Mbit/s", "0s")
    assert "sum of their rates and the shortest of their delays: a-b" in said(imported)
    assert "beside the one with the shortest delay between the same nodes, apart from rates: a:eth1" in said(imported)


def test_a_later_netem_set_replaces_the_one_before(tmp_path: Path) -> None:
    script = write(tmp_path, "netem.sh", "".join(f"containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay {delay}\n" for delay in ("3ms", "4ms")))
    imported = convert.read(write(tmp_path, "lab.clab.yml", LAB), script=script)
    assert links(imported.scenario)["r1-pc2"]["reverse"]["delay"] == "4ms"
    assert "the earlier settings of a queue that a later command replaces: pc2:eth1" in imported.left_out


def test_netem_set_counts_as_a_command_only(tmp_path: Path) -> None:
    lines = ["# containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay 3ms", "ssh far 'containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay 3ms'"]
    imported = convert.read(write(tmp_path, "lab.clab.yml", LAB), script=write(tmp_path, "netem.sh", "\n".join(lines)))
    assert "reverse" not in links(imported.scenario)["r1-pc2"]
    assert f"netem set within quotation marks: {tmp_path / 'netem.sh'}:2" in imported.left_out
    with pytest.raises(ConvertError, match="netem.sh:1: netem set needs -n NODE"):
        convert.read(tmp_path / "lab.clab.yml", script=write(tmp_path, "netem.sh", "containerlab tools netem set"))


def test_the_command_takes_containerlabs_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lab.clab.yml", LAB)
    write(tmp_path, "netem.sh", "containerlab tools netem set -n clab-lab-pc2 -i eth1 --delay 3ms\n")
    assert main(["import", "lab.clab.yml", "--script", "netem.sh", "--out", "lab.toml"]) == 0
    assert links(warpline.Scenario.load(tmp_path / "lab.toml"))["r1-pc2"]["reverse"]["delay"] == "3ms"
    assert main(["import", "lab.clab.yml", "--script", "nowhere.sh"]) == 2
    assert "nowhere.sh: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"pc1:eth1", "r1:e1-1"', '"pc1:eth1", "r9:e1-1"', r"lab.clab.yml:13: endpoints: r9:e1-1: there is no node r9; there are r1, pc1, pc2"),
        ('"pc1:eth1", "r1:e1-1"', '"pc1:eth1"', r"lab.clab.yml:13: endpoints: has 1 ends"),
        ("rate 5mbit", "rate fast", r"lab.clab.yml:8: exec:\d+: rate fast"),
        ("links:", "linkz:", "links: has no link between two nodes"),
        ("mtu: 1400", "mtu: much", r"lab.clab.yml:15: mtu: is 'much'; it has to be a number of bytes"),
        ("name: lab", "name: [", r"lab.clab.yml:3: is not YAML"),
    ],
)
def test_errors_of_containerlab_name_the_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    file = write(tmp_path, "lab.clab.yml", LAB.replace(old, new, 1))
    with pytest.raises(ConvertError, match=words):
        convert.read(file)
