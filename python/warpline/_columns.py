"""The columns of results: their types, units, meanings and headings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from warpline._warpline import result_tables


@dataclass(frozen=True)
class Column:
    """A column of a table of results.

    Attributes:
        name: Its name.
        type: "text", "integer", "number" or "boolean".
        optional: Whether a row may have None in place of a value.
        unit: "bit/s", "B", "packets", "s", "ms" or "ns"; "1" for a share, "index" or "" for plain numbers.
        heading: What plots and reports call it.
        about: What it holds.
        key: Whether it identifies the row and measures nothing, like the number of a flow.
        compared: Whether `warpline compare` compares it.
        fold: How several rows become one: "sum", "mean" or "max"; None if the column is left out then.
        quantity: The word that `warpline.plot.bands` knows it by; None if it cannot be drawn so.
        place: Its place among the columns that the terminal shows; None if the terminal does not show it.
    """

    name: str
    type: str
    optional: bool
    unit: str
    heading: str
    about: str
    key: bool
    compared: bool
    fold: str | None
    quantity: str | None
    place: int | None


@cache
def tables() -> dict[str, dict[str, Column]]:
    """The columns of every table, by the name of the table and of the column."""
    return {
        table["name"]: {column["name"]: Column(**column) for column in table["columns"]} for table in result_tables()
    }


def columns(table: str) -> dict[str, Column]:
    """The columns of a table, by name. Tables are "flows", "links", "series_flows" and so on; "groups", "totals" and "run" are in the summary.

    Raises:
        KeyError: If there is no such table.
    """
    known = tables()
    if table not in known:
        raise KeyError(f"no table {table!r}; the tables are {', '.join(known)}")
    return known[table]
