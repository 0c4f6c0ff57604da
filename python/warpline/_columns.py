"""What is known of the columns of results: their units, meanings and headings, from their declarations in the compiled part."""

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
        optional: Whether a row may have no value: None.
        unit: "bit/s", "B", "packets", "s", "ms" or "ns"; "1" for a share, "index" or "" for plain numbers.
        heading: What plots and reports call it.
        about: What it holds.
        key: Whether it is a number that says which row it is and measures nothing.
        compared: Whether comparisons go through it.
        fold: What becomes of it where several rows are one: "sum", "mean", "max"; None where nothing does.
        quantity: The word by which `warpline.plot.bands` draws it over time; None where it does not.
        place: Its place among the columns that the summary shows; None where it does not.
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
    """The columns of every table, by the table's name and their own."""
    return {
        table["name"]: {column["name"]: Column(**column) for column in table["columns"]} for table in result_tables()
    }


def columns(table: str) -> dict[str, Column]:
    """The columns of a table by name: "flows", "links", "series_flows" and so on, or "groups", "totals" and "run" of the summary.

    Raises:
        KeyError: If there is no such table.
    """
    known = tables()
    if table not in known:
        raise KeyError(f"no table {table!r}; the tables are {', '.join(known)}")
    return known[table]
