"""Tables as frames of other libraries. The libraries are optional, and imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from warpline._errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from warpline._warpline import Table


def require(module: str, extra: str, purpose: str) -> Any:
    """Imports an optional library, or says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingDependencyError(
            f"{purpose} needs {name}, which is not installed; install it with: pip install 'warpline[{extra}]'"
        ) from error


def to_polars(table: Table) -> polars.DataFrame:
    """The table as a polars frame."""
    frame: polars.DataFrame = require("polars", "polars", "Table.polars()").DataFrame(table)
    return frame


def to_pyarrow(table: Table) -> pyarrow.Table:
    """The table as a pyarrow table."""
    found: pyarrow.Table = require("pyarrow", "pandas", "Table.pyarrow()").table(table)
    return found


def to_pandas(table: Table) -> pandas.DataFrame:
    """The table as a pandas frame."""
    require("pandas", "pandas", "Table.pandas()")
    frame: pandas.DataFrame = require("pyarrow", "pandas", "Table.pandas()").table(table).to_pandas()
    return frame
