"""YAML with the line of each key, and checks of what stands there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from warpline._frames import require
from warpline.convert._draft import ConvertError
from warpline.convert._source import Source

T = TypeVar("T")


class Map(dict[str, Any]):
    """A mapping that knows the line of each of its keys, and what it is called in messages."""

    def __init__(self, source: Source, line: int) -> None:
        super().__init__()
        self.source = source
        self.line = line
        self.lines: dict[str, int] = {}

    def at(self, key: str | None = None) -> str:
        """The place of a key, or of the mapping itself."""
        return self.source.at(self.line if key is None else self.lines.get(key, self.line))

    def wrong(self, key: str, message: str) -> ConvertError:
        """The error that something is wrong with the value of a key."""
        return ConvertError(f"{self.at(key)}: {key}: {message}")

    def take(self, key: str, kind: type[T], what: str) -> T | None:
        """The value of a key, which has to be of a type that `what` says in words; None if it has none.

        Raises:
            ConvertError: If it is of another type.
        """
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, kind) or isinstance(value, bool) and kind is not bool:
            raise self.wrong(key, f"is {_shown(value)}; it has to be {what}")
        return value

    def map(self, key: str) -> Map:
        """The mapping below a key; an empty one if there is none.

        Raises:
            ConvertError: If something else is there.
        """
        found = self.take(key, Map, "a mapping, with lines `key: value`")
        return Map(self.source, self.lines.get(key, self.line)) if found is None else found

    def maps(self) -> Iterator[tuple[str, Map]]:
        """The mappings that it consists of; an empty one for a key without a value.

        Raises:
            ConvertError: If it has something else.
        """
        for key in self:
            yield key, self.map(key)

    def list(self, key: str) -> list[Any]:
        """The list below a key; an empty one if there is none.

        Raises:
            ConvertError: If something else is there.
        """
        found: list[Any] | None = self.take(key, list, "a list, with lines that begin with `-`")
        return [] if found is None else found

    def entries(self, key: str) -> Iterator[Map]:
        """The mappings of the list below a key.

        Raises:
            ConvertError: If the list has something else.
        """
        for value in self.list(key):
            if not isinstance(value, Map):
                raise self.wrong(key, f"has {_shown(value)}; its entries have to be mappings, with lines `key: value`")
            yield value

    def text(self, key: str) -> str | None:
        """A value as text, also if it is a number; None if it has none.

        Raises:
            ConvertError: If it is a list or a mapping.
        """
        value = self.get(key)
        if isinstance(value, (list, dict)):
            raise self.wrong(key, f"is {_shown(value)}; it has to be text or a number")
        return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _shown(value: object) -> str:
    shown = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
    return shown if len(shown) < 80 else shown[:77] + "..."


def load(source: Source) -> Map:
    """What a file holds.

    Raises:
        ConvertError: If it is not YAML, or not a mapping.
        MissingDependencyError: If PyYAML is not installed.
    """
    yaml = require("yaml", "convert", "reading YAML")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """Makes mappings that know their lines."""

    def mapping(loader: Any, node: Any) -> Iterator[Map]:
        written: set[str] = set()
        for key_node, _ in node.value:
            # What `<<` brings in from elsewhere gives way to what stands here.
            here = node.start_mark.index <= key_node.start_mark.index < node.end_mark.index
            if here and key_node.value != "<<" and isinstance(key_node.value, str):
                if key_node.value in written:
                    line = key_node.start_mark.line + 1
                    raise ConvertError(f"{source.at(line)}: {key_node.value}: stands twice in one mapping; only one of its values can hold")
                written.add(key_node.value)
        loader.flatten_mapping(node)
        made = Map(source, node.start_mark.line + 1)
        yield made
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node, deep=True))
            line = key_node.start_mark.line + 1
            made[key] = loader.construct_object(value_node, deep=True)
            made.lines[key] = line

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        found = yaml.load(source.text, Loader)
    except ConvertError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = source.name if mark is None else source.at(mark.line + 1)
        raise ConvertError(f"{place}: is not YAML: {getattr(error, 'problem', None) or str(error).splitlines()[0]}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        # PyYAML raises errors of many kinds for values that are not what their tags say.
        raise ConvertError(f"{source.name}: is not YAML that can be read: {error}") from error
    if not isinstance(found, Map):
        raise ConvertError(f"{source.at(1)}: has to be a mapping, with lines `key: value`")
    return found
