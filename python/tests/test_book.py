"""The book: the study of its tutorial, and the page of its gallery. `crates/cli/tests/book.rs` runs its commands."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from warpline import study

from conftest import code_of_chapter

ROOT = Path(__file__).parent.parent.parent


def test_the_gallery_has_what_its_tool_says() -> None:
    spec = importlib.util.spec_from_file_location("draw_gallery", ROOT / "python/tools/draw_gallery.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        # A dataclass looks for its module.
        patch.setitem(sys.modules, "draw_gallery", tool)
        spec.loader.exec_module(tool)
    assert (ROOT / "docs/src/gallery.md").read_text(encoding="utf-8") == tool.page(), "run python python/tools/draw_gallery.py"
    names = [picture.name for picture in tool.PICTURES]
    assert len(set(names)) == len(names)
    assert sorted(path.stem for path in (ROOT / "docs/src/gallery").glob("*.svg")) == sorted(names)


def test_the_study_of_the_tutorial(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scenarios/tutorial", tmp_path / "tutorial", ignore=shutil.ignore_patterns("results"))
    declaration, scenario = tmp_path / "tutorial/buffers.py", tmp_path / "tutorial/buffer.toml"
    (done,) = study.run(str(declaration), quick=True)
    assert [verdict.state for verdict in done.judged.verdicts] == ["met", "met"]
    # "One more doubt": with the same round-trip times, flows back off together.
    lines = scenario.read_text().splitlines(keepends=True)
    scenario.write_text("".join(line for line in lines if not line.startswith("access_delays")))
    (done,) = study.run(str(declaration), quick=True)
    assert [verdict.state for verdict in done.judged.verdicts] == ["met", "not met"]


IN_THE_PACKAGE = textwrap.dedent((study.__doc__ or "").split("\n\n", 1)[1].split("\n\n`warpline study run")[0])


@pytest.mark.parametrize("text", [code_of_chapter("studies.md"), IN_THE_PACKAGE], ids=["book", "package"])
def test_the_study_of_the_chapter_on_studies(tmp_path: Path, text: str) -> None:
    """The declaration stands in the book and in the package, and needs one scenario of Warpline's."""
    shutil.copy(ROOT / "scenarios/web-and-background.toml", tmp_path)
    (tmp_path / "delay.py").write_text(text)
    (done,) = study.run(tmp_path / "delay.py", quick=True, jobs=1)
    assert [verdict.state for verdict in done.judged.verdicts] == ["met"] and done.good
