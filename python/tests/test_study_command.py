"""The command `warpline study`, with results that another program has made."""

from __future__ import annotations

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from warpline import study
from warpline.study import _imported, _registry, _store, _study
from warpline.study.__main__ import main
from warpline.study._progress import Counts, Progress

from conftest import dumbbell
from studies import NETWORK, PURE, declare, ran


def test_means_of_another_program_stand_in_until_the_figure_has_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = declare(tmp_path)
    table = tmp_path / "means.csv"
    # As a spreadsheet writes it, with a mark at the beginning.
    table.write_text('\ufeff"x, m",y value,half_width_95,seeds\n1,10,0.5,2\n2,20,,2\n3,30,0.5,2\n')
    words = ["import", f"{file}:line", str(table), "--column", "x, m=x", "--column", "y value=y", "--made-by", "another program 1.0"]
    assert main(words) == 0 and "3 means" in capsys.readouterr().out
    assert main(["judge", str(file)]) == 0
    assert "ours 3, theirs 3" in capsys.readouterr().out
    declared = _registry.load(file)
    kept = declared.study(declared.figures[0]).kept()
    assert (kept.missing, kept.builds, kept.results.half_width("y", x=1)) == (0, ["another program 1.0"], 0.5)
    # Not of another scenario, and not where the figure has run itself.
    declare(tmp_path, PURE.replace('"slope": 10', '"slope": 11'))
    assert main(["judge", str(file)]) == 1
    (done,) = study.run(str(declare(tmp_path)))
    assert done.judged.kept.results.mean("y", x=1) == pytest.approx(10.15) and len(done.judged.kept.builds) == 1
    table.write_text("x,y,half_width_95,seeds\n7,10,0.5,2\n")
    assert main([*words[:3], "--column", "x=x", "--column", "y=y", "--made-by", "a"]) == 2
    assert "means.csv:2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (None, "means.csv cannot be read: No such file"),
        ("", "no column 'x'; there are none"),
        ("x,y,half_width_95,seeds\n", "no rows"),
        ("x,y,seeds\n1,10,2\n", "no column 'half_width_95'; there are x, y, seeds"),
        ("x,y,half_width_95,seeds\n1,10,0.5,2\n2,20,0.5,\n", "means.csv:3: invalid literal for int()"),
        ("x,y,half_width_95,seeds\n1,10,0.5\n", "means.csv:2: invalid literal for int()"),
        ("x,y,half_width_95,seeds\n1,ten,0.5,2\n", "means.csv:2: could not convert string to float: 'ten'"),
        ("x,y,half_width_95,seeds\n1,10,-0.5,2\n", "means.csv:2: half_width_95 is -0.5; half of an interval is not below 0"),
        ("x,y,half_width_95,seeds\n1,nan,0.5,2\n", "means.csv:2: 'nan' is no finite number"),
        ("x,y,half_width_95,seeds\n1,10,0.5,1\n", "means.csv:2: a mean over 1 seeds; at {'x': 1}, line has 2 at least"),
        ("x,y,half_width_95,seeds\n1,10,0.5,2\n2,20,0.5,2\n1.0,11,0.5,2\n", "means.csv:4: another mean of {'x': '1.0', 'y': '11'}; line 2 has the first"),
    ],
)
def test_a_table_that_cannot_be_taken_over_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str | None, told: str) -> None:
    file = declare(tmp_path)
    if table is not None:
        (tmp_path / "means.csv").write_text(table)
    assert main(["import", f"{file}:line", str(tmp_path / "means.csv"), "--column", "x=x", "--column", "y=y", "--made-by", "a"]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "results/line.imported.parquet").exists()


def test_means_over_too_few_seeds_count_no_more(tmp_path: Path) -> None:
    file = declare(tmp_path)
    (tmp_path / "means.csv").write_text("x,y,half_width_95,seeds\n1,10,0.5,2\n2,20,0.5,3\n3,30,0.5,3\n")
    assert main(["import", f"{file}:line", str(tmp_path / "means.csv"), "--column", "x=x", "--column", "y=y", "--made-by", "a"]) == 0
    declared = _registry.load(declare(tmp_path, PURE.replace("seeds=2", "seeds=3")))
    kept = declared.study(declared.figures[0]).kept()
    assert kept.missing == 1 and kept.results.values("x") == [2, 3]


def test_points_that_differ_in_the_seventh_digit_and_true_and_false_are_told_apart(tmp_path: Path) -> None:
    file = declare(tmp_path, PURE.replace("x=[1, 2, 3]", "x=[1000000, 1000001, 0.1, 'a'], on=[True, False]"))
    values = [(x, on) for x in ("1000000", "1000001.0", "0.10", "a") for on in ("true", "False")]
    table = tmp_path / "means.csv"
    table.write_text("x,on,y,half_width_95,seeds\n" + "".join(f"{x},{on},{number},,2\n" for number, (x, on) in enumerate(values)))
    words = ["import", f"{file}:line", str(table), "--column", "x=x", "--column", "on=on", "--column", "y=y", "--made-by", "a"]
    # Once more in place of themselves.
    assert main(words) == 0 == main(words)
    declared = _registry.load(file)
    kept = declared.study(declared.figures[0]).kept()
    assert kept.missing == 0 and [cell.mean("y") for cell in kept.results.cells] == list(range(8))
    assert len(_imported._read(tmp_path / "results/line.imported.parquet")) == 8


def test_who_has_made_the_means_is_told_of_those_that_stand_in_only(tmp_path: Path) -> None:
    file = declare(tmp_path)
    for x in (1, 2):
        (tmp_path / "means.csv").write_text(f"x,y,half_width_95,seeds\n{x},10,0.5,2\n")
        assert main(["import", f"{file}:line", str(tmp_path / "means.csv"), "--column", "x=x", "--column", "y=y", "--made-by", f"program {x}"]) == 0
    declared = _registry.load(file)
    assert declared.study(declared.figures[0]).kept().builds == ["program 1", "program 2"]
    (done,) = study.run(str(file), jobs=1, only={"x": 1})
    assert done.judged.kept.builds[1:] == ["program 2"] and done.judged.kept.builds[0].startswith("warpline-")


def test_means_of_a_figure_with_fewer_axes_count_no_more(tmp_path: Path) -> None:
    file = declare(tmp_path)
    table = tmp_path / "means.csv"
    table.write_text("x,y,half_width_95,seeds\n1,10,0.5,2\n3,30,0.5,2\n")
    words = ["import", f"{file}:line", str(table), "--column", "x=x", "--column", "y=y", "--made-by", "a"]

    def known() -> Any:
        declared = _registry.load(file)
        return declared.study(declared.figures[0]).kept().results.values("x")

    assert main(words) == 0 and known() == [1, 3]
    declare(tmp_path, PURE.replace("x=[1, 2, 3]", "x=[1, 2, 3], k=[1, 2]"))
    assert known() == []
    assert main([*words, "--at", "k=2"]) == 0 and known() == [1, 3]
    # They stay in the file, and count again where the figure is as it was.
    declare(tmp_path)
    assert known() == [1, 3]


def test_the_command_runs_judges_and_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    paper = tmp_path / "repro/paper"
    paper.mkdir(parents=True)
    declare(paper, PURE + "\n    OTHER = study.Elsewhere(name='real', title='Real paths', how='make real', why='it needs the Internet')\n", "declarations.py")
    (paper / "declarations.py").write_text((paper / "declarations.py").read_text() + "\nPAPER = study.Paper('A. Author, \"Lines\"', [FIGURE, OTHER])\n")
    (tmp_path / "docs/src").mkdir(parents=True)
    monkeypatch.chdir(paper)
    monkeypatch.delenv(_registry.REPRO, raising=False)
    assert main(["judge"]) == 1, "no results yet"
    assert main(["reproduce", "paper/line", "--page", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr().out
    assert "met  it rises threefold: ours 2.97" in said and "1 figure: 1 met" in said
    page = (tmp_path / "page.html").read_text()
    assert "6 of 6 runs done" in page and "Ended" in page and "refresh" not in page
    assert main(["judge"]) == 0
    assert main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "paper/line" in listed and "(1 met)" in listed and "Real paths" in listed
    assert main(["reproduce", "--list", "paper/line", "--quick"]) == 0
    listed = capsys.readouterr().out
    assert "Real paths" not in listed and "(1 no results" in listed
    assert main(["evidence"]) == 0 and main(["evidence", "--check"]) == 0
    book = (tmp_path / "docs/src/evidence.md").read_text()
    assert "| it rises threefold | 3 | 2.97" in book and "Not judged here, because it needs the Internet" in book
    (tmp_path / "docs/src/evidence.md").write_text(book.replace("threefold", "twofold"))
    assert main(["evidence", "--check"]) == 1
    assert main(["reproduce", "--all", "--quick"]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reproduce", "papers/line"], "is it paper?"),
        (["reproduce", "paper/lime"], "is it line?"),
        (["reproduce"], "--list"),
        (["reproduce", "--list", "paper/lime"], "is it line?"),
        (["run", "mine.py", "--dask", "localhost:1", "--jobs", "2"], "--jobs is for this machine"),
        (["reproduce", "paper", "--all"], "one of the two"),
        (["run", "nowhere.py"], "cannot be read"),
        (["run", "empty"], "no paper 'empty'; there are paper; for the declarations in empty.py here, write empty.py"),
        (["run", "mine.py", "--dask", ""], "the address of the Dask scheduler is empty"),
        (["run", "empty", "--repro", "/nowhere"], "; for the declarations in empty.py here, write empty.py"),
        (["judge", "--repro", "/nowhere"], "--repro DIR"),
        (["run", "wrong.py"], "wrong.py:2: ZeroDivisionError"),
        (["run", "lacking.py"], "lacking.py:1: FileNotFoundError: [Errno 2] No such file or directory: 'paths.csv'"),
        (["run", "empty.py"], "declares nothing"),
    ],
)
def test_wrong_words_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], told: str) -> None:
    (tmp_path / "repro/paper").mkdir(parents=True)
    declare(tmp_path / "repro/paper", name="declarations.py")
    (tmp_path / "wrong.py").write_text("import os\n1 / 0\n")
    (tmp_path / "lacking.py").write_text("open('paths.csv')\n")
    (tmp_path / "empty.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_a_claim_that_is_not_met_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(declare(tmp_path, PURE.replace("theirs=3", "theirs=5")))]) == 1
    assert "not met" in capsys.readouterr().out
    assert main(["run", str(declare(tmp_path, PURE.replace("theirs=3", "differs='a steeper line', theirs=5")))]) == 0
    assert "a steeper line" in capsys.readouterr().out
    assert main(["run", str(declare(tmp_path, PURE.replace("theirs=3", "differs='a steeper line', theirs=3")))]) == 1
    assert "agrees after all" in capsys.readouterr().out
    # A reason belongs to the full form: the quick one may agree all the same, whichever command judges it.
    assert main(["run", str(tmp_path / "mine.py"), "--quick"]) == 0 == main(["judge", str(tmp_path / "mine.py"), "--quick"])
    assert main(["judge", str(tmp_path / "mine.py")]) == 1


TWO = PURE + """
    OTHER = study.Figure(name="other", title="Another", model=model, points=study.grid(k=[1], x=[1]), settings={"slope": 10}, quick=study.quick())
"""


def test_points_that_a_later_figure_does_not_have_are_told_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(declare(tmp_path, TWO.replace("FIGURE =", "OTHERS =")))
    assert main(["run", file, "--only", "x=2,3"]) == 2
    assert "other has no such points: x is 1" in capsys.readouterr().err
    assert ran(tmp_path) == []


@pytest.mark.parametrize("ours", ["{}['none']", "len(results.cells).none"])
def test_a_claim_that_raises_an_error_is_named_and_the_next_figure_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], ours: str) -> None:
    file = str(declare(tmp_path, TWO.replace('results.rising("y", "x")', ours)))
    for command in ("run", "judge"):
        assert main([command, file]) == 2
        said = capsys.readouterr()
        assert "error: mine/line, claim 'it rises threefold': " in said.err and "Error: " in said.err and "(mine.py:19, in <lambda>)" in said.err
        assert ("mine/other: Another" in said.out) == (command == "run")


BUILDS = """
    OTHER = study.Figure(name="built", title="Built", scenario=SOURCE, points=study.grid(x=[1, 2]), measures={"jain": "totals.jain"}, quick=study.quick())
    FIGURE = study.Figure(name="line", title="A line", model=model, points=study.grid(x=[1]), settings={"slope": 10}, quick=study.quick())
"""


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("lambda at: {}[at['x']]", "KeyError: 1 (mine.py:24, in <lambda>)"),
        ("lambda at: 7", "TypeError: "),
        ("study.file('two.toml', lambda at: at['none'])", "KeyError: 'none' (mine.py:24, in <lambda>)"),
        ("study.file('none.toml')", "none.toml"),
        ("study.template('none.in')", "FileNotFoundError: "),
        ("study.template('one.in')", "one.in: $sec names no axis or setting; there are x, seed"),
        ("study.template('wrong.in')", "duratoin"),
    ],
)
def test_a_scenario_that_cannot_be_made_is_named_and_the_next_figure_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, told: str) -> None:
    (tmp_path / "one.in").write_text("duration = '$sec'")
    (tmp_path / "wrong.in").write_text("duratoin = '1s'")
    file = str(declare(tmp_path, PURE.replace("FIGURE =", "PLAIN =").replace('name="line"', 'name="plain"') + BUILDS.replace("SOURCE", source)))
    assert main(["run", file, "--jobs", "1"]) == 2
    said = capsys.readouterr()
    assert "error: mine/built, scenario of {'x': 1}, seed 1: " in said.err and told in said.err
    assert "mine/plain: A line" in said.out and "mine/line: A line" in said.out
    assert main(["judge", file]) == 1, "nothing is kept of it"
    # If several figures fail, the message has all their errors.
    twice = PURE + BUILDS.replace("SOURCE", source) + BUILDS.replace("SOURCE", source).replace("OTHER", "THIRD").replace('"built"', '"third"')
    assert main(["run", str(declare(tmp_path, twice)), "--jobs", "1"]) == 2
    said = capsys.readouterr()
    assert "mine/built, scenario" in said.err and "mine/third, scenario" in said.err


ENDS = """
    import sys

    def ended(*_):
        sys.exit(CODE)

    OTHER = study.Figure(**{**dict(name="other", title="Other", model=model, points=study.grid(x=[1]), settings={"slope": 10}, quick=study.quick()), PART})
"""


@pytest.mark.parametrize("code", ["", "0", "3", "'why'"])
@pytest.mark.parametrize(
    ("part", "named"),
    [
        ('"model": None, "scenario": ended, "measures": {"jain": "totals.jain"}', "scenario of {'x': 1}, seed 1"),
        ('"claims": [study.Claim(text="c", ours=ended, theirs=1, bound=study.within(0.1))]', "claim 'c'"),
    ],
)
def test_a_declaration_that_exits_ends_no_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str, named: str, code: str) -> None:
    ends = ENDS.replace("PART", part).replace("CODE", code)
    file = str(declare(tmp_path, PURE.split("    FIGURE =")[0] + ends + "\n    FIGURE =" + PURE.split("    FIGURE =")[1]))
    assert main(["run", "--jobs", "1", file]) == 2
    said = capsys.readouterr()
    assert "mine/line: A line" in said.out, "the figure after it runs"
    assert f"error: mine/other, {named}: sys.exit({code}) in a declaration ends no study; raise an error that says what is wrong (mine.py:" in said.err


def test_a_file_that_exits_is_told_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = declare(tmp_path, PURE + "\n    import sys\n    sys.exit(0)\n")
    assert main(["judge", str(file)]) == 2
    assert f"error: {file}:{len(file.read_text().splitlines())}: sys.exit(0) in a declaration ends no study" in capsys.readouterr().err


def test_a_run_or_a_picture_that_exits_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = declare(tmp_path, PURE.replace("return {", "__import__('sys').exit(0)\n        return {"))
    with ThreadPoolExecutor(1) as executor:
        (done,) = study.run(file, executor=executor)
    assert len(done.failures) == 6 and "sys.exit(0) in a declaration ends no study" in done.failures[0].error
    declare(tmp_path, PURE.replace('study.lines(x="x", y="y")', "study.lines(x='x', y='y', of=lambda _: __import__('sys').exit(0))"))
    assert main(["run", str(file), "--jobs", "1"]) == 1
    assert "not drawn: mine/line, picture: sys.exit(0)" in capsys.readouterr().out


def test_a_quick_form_that_is_wrong_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = declare(tmp_path, PURE.replace("points=study.grid(x=[1, 3]), seeds=1)", "points=[])"))
    assert main(["run", str(file), "--quick"]) == 2
    assert "error: mine/line, quick form: ValueError: line: no points" in capsys.readouterr().err
    assert main(["run", str(file)]) == 0


def test_what_cannot_be_sent_to_another_process_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PURE.replace("import os", "import os, threading").replace("def model", "LOCK = threading.Lock()\n\n    def model").replace("return {", "LOCK.locked()\n        return {")
    assert main(["run", str(declare(tmp_path, text))]) == 2
    said = capsys.readouterr().err
    assert "error: mine/line, as it is sent to the processes that run it: " in said and "pickle" in said
    assert ran(tmp_path) == []


def test_a_page_that_cannot_be_written_is_told_once_and_the_study_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # It is written when the study begins and when it ends.
    monkeypatch.setattr("warpline.study._progress.write_whole", full)
    page = tmp_path / "page.html"
    assert main(["run", str(declare(tmp_path)), "--jobs", "1", "--page", str(page)]) == 0
    said = capsys.readouterr()
    assert said.err.count(f"{page}: the page of the progress cannot be written: ") == 1 and "1 figure: 1 met" in said.out


@pytest.mark.skipif(sys.platform == "win32", reason="unix: a fifo")
def test_a_page_takes_the_place_of_no_fifo_directory_or_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(declare(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("a")
    (tmp_path / "circle").symlink_to("circle")
    for name in ("fifo", "directory", "circle"):
        assert main(["run", file, "--page", str(tmp_path / name)]) == 2
        assert f"error: {tmp_path / name} is not a regular file" in capsys.readouterr().err
    for name in ("none/page.html", "file/page.html"):
        assert main(["run", file, "--page", str(tmp_path / name)]) == 2
        assert f"there is no directory {(tmp_path / name).parent}" in capsys.readouterr().err
    assert (tmp_path / "fifo").is_fifo() and (tmp_path / "directory").is_dir() and not (tmp_path / "none").exists()
    assert ran(tmp_path) == [], "nothing has run before the error"
    # What a link leads to is written, and the link stays.
    for name, target in (("link", "file"), ("new", "made.html")):
        (tmp_path / name).symlink_to(target)
        assert main(["run", file, "--jobs", "1", "--page", str(tmp_path / name)]) == 0
        assert (tmp_path / name).is_symlink() and "Ended: " in (tmp_path / target).read_text()


def test_one_run_is_told_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = PURE.replace("x=[1, 2, 3]", "x=[1]").replace("seeds=2", "seeds=1")
    assert main(["run", str(declare(tmp_path, one)), "--jobs", "1"]) == 1
    assert main(["run", str(declare(tmp_path, one.replace("x=[1]", "x=[2]"))), "--jobs", "1"]) == 1
    assert "  1 run of what is not declared any more: kept, and not judged (`warpline study prune` drops them)\n" in capsys.readouterr().out
    assert main(["judge", str(declare(tmp_path, one.replace("x=[1]", "x=[1, 3]")))]) == 1
    assert "1 of 2 points lack runs; there is 1 run so far" in capsys.readouterr().out
    broken = one.replace("x=[1]", "x=[4]").replace("return {", "1 / 0\n        return {")
    assert main(["run", str(declare(tmp_path, broken)), "--jobs", "1"]) == 1
    assert "; 1 run failed\n" in capsys.readouterr().out


def test_runs_that_are_not_declared_any_more_can_be_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(declare(tmp_path))
    assert main(["prune", file]) == 0
    assert capsys.readouterr().out.endswith(": 0 runs dropped\n") and not (tmp_path / "results").exists(), "nothing has run"
    assert main(["run", file, "--jobs", "1"]) == 0 == main(["prune", file])
    assert capsys.readouterr().out.endswith(": 0 runs dropped\n")
    declare(tmp_path, PURE.replace("x=[1, 2, 3]", "x=[3, 4]"))
    assert main(["prune", file]) == 0
    assert capsys.readouterr().out.endswith(": 4 runs dropped\n")
    # What is left counts.
    ran(tmp_path)
    main(["run", file, "--jobs", "1"])
    said = capsys.readouterr().out
    assert sorted(ran(tmp_path)) == ["4 1", "4 2"] and "declared any more" not in said
    # Another model has other runs.
    declare(tmp_path, PURE.replace("% 3", "% 2"))
    assert main(["prune", file]) == 2
    said = capsys.readouterr().err
    assert "none of the 4 runs that are kept is declared" in said and said.endswith(f"to drop them all, delete {tmp_path / 'results/line.parquet'}\n")


def test_a_picture_that_raises_an_error_hides_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(declare(tmp_path, PURE.replace('study.lines(x="x", y="y")', "study.lines(x='x', y='y', of=lambda results: {}['none'])")))
    assert main(["run", file, "--jobs", "1"]) == 1
    said = capsys.readouterr().out
    assert "met  it rises threefold" in said and "not drawn: mine/line, picture: KeyError: 'none' (mine.py:20, in <lambda>)" in said
    assert main(["judge", file, "--draw"]) == 2
    assert "mine/line, picture: KeyError" in capsys.readouterr().err


def test_a_table_or_picture_that_cannot_be_made_now_is_not_there_as_one_of_other_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, picture = (tmp_path / f"results/line.{ending}" for ending in ("md", "svg"))

    def there(text: str, *words: str, code: int = 0) -> tuple[bool, bool]:
        """Whether the table, with this title, and the picture are there after a command. They are before."""
        study.run(str(declare(tmp_path)), jobs=1)
        assert table.exists() and picture.exists()
        assert main([*(words or ("run", "--jobs", "1")), str(declare(tmp_path, text))]) == code
        return table.exists() and text.split('title="')[1].split('"')[0] in table.read_text(), picture.exists()

    # A figure without a picture, and one whose picture raises an error: its table is of the new results.
    assert there(PURE.replace('picture=study.lines(x="x", y="y"),', "")) == (True, False)
    broken = PURE.replace('study.lines(x="x", y="y")', "study.lines(x='x', y='y', of=lambda results: {}['none'])").replace("A line", "Another")
    assert there(broken, code=1) == (True, False)
    assert there(broken, "judge", "--draw", code=2) == (True, False)
    assert there(PURE.replace('study.lines(x="x", y="y")', "study.table(of=lambda results: {}['none'])"), code=1) == (False, False)
    # One without results.
    assert there(PURE.replace("% 3", "% 4"), "judge", "--draw", code=1) == (False, False)
    # Without matplotlib there is no new picture, which is said, and is no error.
    for words in ((), ("judge", "--draw")):
        study.run(str(declare(tmp_path)), jobs=1)
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "matplotlib", None)
            assert main([*(words or ("run", "--jobs", "1")), str(tmp_path / "mine.py")]) == 0
        said = capsys.readouterr().err
        assert "mine/line: not drawn: a picture needs matplotlib, which is not installed" in said and "line.svg is an earlier one" in said
        assert table.exists() and picture.exists()


def test_runs_that_failed_are_told_where_a_claim_raises_an_error_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PURE.replace("return {", "1 / (at['x'] - 2)\n        return {").replace('results.rising("y", "x")', 'results.values("x")[2]')
    assert main(["run", str(declare(tmp_path, text)), "--jobs", "1"]) == 2
    said = capsys.readouterr().err
    assert "error: mine/line, claim 'it rises threefold': IndexError: " in said
    assert all(f"failed: {{'x': 2}}, seed {seed}: ZeroDivisionError: " in said for seed in (1, 2))


def test_a_figure_whose_results_cannot_be_written_does_not_end_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(declare(tmp_path, TWO))
    with _store.Store(tmp_path / "results/line.parquet"):
        assert main(["run", file, "--jobs", "1"]) == 3
    said = capsys.readouterr()
    assert "mine/other: Another" in said.out and "error: mine/line: another study is running" in said.err
    assert ran(tmp_path) == ["1 1"]
    # Nor one whose files cannot be written.
    (tmp_path / "results/line.md").mkdir()
    assert main(["run", file, "--jobs", "1", "--force"]) == 3
    said = capsys.readouterr()
    assert "mine/other: Another" in said.out and "error: mine/line: " in said.err and "line.md" in said.err


def test_a_pool_that_takes_no_more_work_fails_runs_and_ends_no_study(tmp_path: Path) -> None:
    class Broken:
        def submit(self, *_: object) -> Any:
            raise BrokenProcessPool("a process has died")

    first, second = study.run(str(declare(tmp_path, TWO)), executor=Broken())
    assert first.failures and second.failures and "a process has died" in first.failures[0].error


def test_some_points_are_run_and_the_others_keep_what_they_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(declare(tmp_path))
    assert main(["run", file, "--jobs", "1", "--only", "x=1,3"]) == 1
    assert ran(tmp_path) == ["1 1", "1 2", "3 1", "3 2"] and "1 of 3 points lack runs" in capsys.readouterr().out
    assert main(["run", file, "--jobs", "1", "--only", "x=2"]) == 0
    assert ran(tmp_path) == ["2 1", "2 2"]
    (done,) = study.run(file, jobs=1, force=True, only={"x": lambda x: x > 2})
    assert done.good and ran(tmp_path) == ["3 1", "3 2"]
    wrong = ("y=1", "line has no axis 'y'; there are x"), ("x=4", "line has no such points: x is 1, 2, 3"), ("x", "--only x: write --only AXIS=VALUE")
    for word, told in wrong:
        assert main(["run", file, "--only", word]) == 2
        assert told in capsys.readouterr().err
    assert ran(tmp_path) == []


def test_an_axis_may_be_named_again_for_a_value_that_has_a_comma(tmp_path: Path) -> None:
    text = PURE.replace("x=[1, 2, 3]", "cc=['reno', 'vegas(1,3)', 'vegas(0,0)'], x=[1]")
    chosen = ["--only", "cc=vegas(1,3)", "--only", "cc=vegas(0,0)"]
    # Its claims read other points, too.
    assert main(["run", str(declare(tmp_path, text)), "--jobs", "1", *chosen]) == 1
    assert sorted(ran(tmp_path)) == ["1 1", "1 1", "1 2", "1 2"]


def test_a_value_of_an_axis_and_a_heading_may_have_an_equals_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PURE.replace("x=[1, 2, 3]", "cc=['reno', 'nice:threshold=0.1'], x=[1]")
    file = str(declare(tmp_path, text))
    assert main(["run", file, "--jobs", "1", "--only", "cc=nice:threshold=0.1"]) == 1
    assert ran(tmp_path) == ["1 1", "1 2"] and "1 of 2 points lack runs" in capsys.readouterr().out
    (tmp_path / "means.csv").write_text("x,y=10,half_width_95,seeds\n1,10,,2\n")
    words = ["import", file, str(tmp_path / "means.csv"), "--column", "x=x", "--column", "y=10=y", "--made-by", "a"]
    assert main([*words, "--at", "cc=nice:threshold=0.1"]) == 0


def test_an_error_that_nobody_foresaw_does_not_end_the_next_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _study.Study.kept

    def kept(self: _study.Study) -> _study.Kept:
        if self.name == "mine/line":
            raise KeyError("unforeseen")
        return whole(self)

    monkeypatch.setattr(_study.Study, "kept", kept)
    assert main(["run", str(declare(tmp_path, TWO)), "--jobs", "1"]) == 2
    said = capsys.readouterr()
    assert "error: mine/line: KeyError: 'unforeseen'" in said.err and "mine/other: Another" in said.out


def test_a_declaration_of_a_wrong_kind_is_one_line_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = declare(tmp_path, PURE.replace("seeds=2", "seeds=lambda at: 6 / 2"))
    assert main(["run", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"error: {file}:12: TypeError: 3.0 seeds at {{'x': 1}}: a whole number is needed"


def test_a_judgement_that_cannot_be_drawn_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(declare(tmp_path))
    assert main(["run", file, "--jobs", "1"]) == 0
    (tmp_path / "results/line.md").unlink()
    (tmp_path / "results/line.md").mkdir()
    capsys.readouterr()
    assert main(["judge", file, "--draw"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and "line.md" in line


def test_true_and_false_are_chosen_as_toml_and_as_python_have_them(tmp_path: Path) -> None:
    file = str(declare(tmp_path, PURE.replace("x=[1, 2, 3]", "x=[True, False]")))
    for word, made in (("x=False", "False"), ("x=True", "True"), ("x=false", "False"), ("x=true", "True")):
        assert main(["run", file, "--jobs", "1", "--force", "--only", word]) in (0, 1)
        assert ran(tmp_path) == [f"{made} 1", f"{made} 2"], word


def test_none_is_chosen_as_the_message_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(declare(tmp_path, PURE.replace("x=[1, 2, 3]", "x=[1], b=[None, 'text', 2]")))
    assert main(["run", file, "--only", "b=3"]) == 2
    assert "b is None, text, 2" in capsys.readouterr().err
    for word, made in (("None", 1), ("none", 1), ("None,2", 2)):
        main(["run", file, "--jobs", "1", "--force", "--only", f"b={word}"])
        assert len(ran(tmp_path)) == 2 * made, word


def test_a_figure_that_is_named_twice_runs_and_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = declare(tmp_path)
    (tmp_path / "link.py").symlink_to(file)
    for command in (["run", "--force", "--jobs", "1"], ["judge"]):
        assert main([*command, str(file), f"{file}:line", str(file), str(tmp_path / "link.py")]) == 0
        said = capsys.readouterr().out
        assert said.count("mine/line: A line") == 1 and ("1 figure: 1 met" in said) == (command[0] == "run")
        assert len(ran(tmp_path)) == (6 if command[0] == "run" else 0)


@pytest.mark.parametrize("command", ["run", "judge", "import", "evidence", "reproduce"])
def test_an_option_that_there_is_not_is_told_with_the_usage_of_its_command(capsys: pytest.CaptureFixture[str], command: str) -> None:
    words = {"run": ["o.py"], "import": ["o.py", "a.csv", "--made-by", "a"]}.get(command, [])
    with pytest.raises(SystemExit) as caught:
        main([command, *words, "--bogus"])
    said = capsys.readouterr().err
    name = "warpline reproduce" if command == "reproduce" else f"warpline study {command}"
    assert caught.value.code == 2 and said.startswith(f"usage: {name} ") and f"{name}: error: unrecognized arguments: --bogus" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "none.csv cannot be read: No such file"),
        (["--column", "cc"], "--column cc: write --column HEADING=NAME"),
        (["--at", "x"], "--at x: write --at AXIS=VALUE"),
    ],
)
def test_what_is_wrong_with_the_words_of_an_import_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    assert main(["import", f"{declare(tmp_path)}:line", str(tmp_path / "none.csv"), "--made-by", "x", *words]) == 2
    assert told in capsys.readouterr().err


def test_an_import_without_a_measure_says_which_columns_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "means.csv").write_text("x,y,half_width_95,seeds\n1,10,0.5,2\n")
    words = ["import", f"{declare(tmp_path)}:line", str(tmp_path / "means.csv"), "--made-by", "a", "--column", "x=x"]
    assert main(words) == 2
    assert "--column names no column as the measure; name one, as HEADING=NAME" in capsys.readouterr().err
    assert main([*words, "--column", "y=y", "--column", "seeds=z"]) == 2
    said = capsys.readouterr().err
    assert "--column names y and z as the measure" in said and "means.csv has the columns x, y, half_width_95, seeds" in said


def test_where_all_runs_fail_no_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(declare(tmp_path, PURE.replace("return {", "1 / 0\n        return {"))), "--jobs", "1"]) == 1
    said = capsys.readouterr().out
    assert "ZeroDivisionError" in said and "parquet" not in said


def test_paths_are_texts_or_paths(tmp_path: Path) -> None:
    (done,) = study.run(declare(tmp_path), page=str(tmp_path / "page.html"), jobs=1)
    assert done.good and "Ended: 6 of 6 runs done." in (tmp_path / "page.html").read_text()


def test_the_page_of_a_study_that_was_stopped_says_so(tmp_path: Path) -> None:
    def stop(_: study.Done) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.run(declare(tmp_path, TWO), page=tmp_path / "page.html", jobs=1, said=stop)
    page = (tmp_path / "page.html").read_text()
    assert "Stopped: " in page and " left" not in page and "refresh" not in page
    counts = [Counts("f", total=60, done=10)]
    progress = Progress(counts, page=tmp_path / "page.html")
    assert " left" in progress.html(last=False)
    progress.close(finished=False)
    assert "Stopped: f: 10 of 60 runs done." in (tmp_path / "page.html").read_text()


def test_means_of_a_measure_that_the_figure_does_not_have_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dumbbell(duration="2s", warmup="0s").save(tmp_path / "two.toml")
    text = NETWORK.replace('measures=lambda run, at: {"mbps": {flow["name"]: flow["goodput_bps"] / 1e6 for flow in run.summary["flows"][:2]}, "rate_seen": at["rate"]}', 'measures={"mbps": "totals.jain"}')
    (tmp_path / "means.csv").write_text("rate,mbps,half_width_95,seeds\n2,2,,1\n")
    words = ["import", str(declare(tmp_path, text)), str(tmp_path / "means.csv"), "--column", "rate=rate", "--made-by", "a"]
    assert main([*words, "--column", "mbps=latency"]) == 2
    assert "rates has no measure 'latency', so that nothing would read it; there are mbps" in capsys.readouterr().err
    assert main([*words, "--column", "mbps=mbps"]) == 0


def test_a_number_of_processes_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("abc", "0", "-1"):
        with pytest.raises(SystemExit):
            main(["run", str(declare(tmp_path)), f"--jobs={word}"])
        assert f"argument --jobs: {word!r} is no whole number of at least 1" in capsys.readouterr().err
