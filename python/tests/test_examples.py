"""The notebooks among the examples: they run from the first cell to the last, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells(notebook: Path) -> list[dict[str, Any]]:
    """Its cells of code."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(notebook: Path) -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(notebook))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    # One namespace for all cells, as in a kernel. The cells are plain Python, so no kernel is needed.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(notebook)):
        code = compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec")
        exec(code, namespace)
    if notebook.stem == "bufferbloat":
        delays = dict(namespace["delays"].select("link.line.queue", "latency_p95_ms").iter_rows())
        assert delays["250p"] > 100 > 40 > delays["fq_codel"]
