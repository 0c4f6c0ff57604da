"""Writes python/warpline/_model.py, the scenario's parts as dataclasses, from docs/scenario.schema.json.

Run it after a change of the scenario's structs: `python python/tools/generate_model.py`. A test compares the file with the schema
of the compiled module and fails when it is stale.
"""

from __future__ import annotations

import json
import keyword
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SCHEMA = ROOT / "docs" / "scenario.schema.json"
TARGET = ROOT / "python" / "warpline" / "_model.py"

# Quantities: text with a unit, or one of these Python types, which `encode` turns into text.
QUANTITIES = {
    "Time": ("Time", "str | timedelta"),
    "StartTime": ("StartTime", "str | timedelta"),
    "BitRate": ("Rate", "str"),
    "Size": ("Size", "str"),
    "QueueLimit": ("QueueLimit", "str | timedelta"),
    "Window": ("Window", "str | int | float"),
    "Tdf": ("Tdf", "str | int | float"),
}
# Tagged unions: the alias, and how a variant's name becomes a class name.
UNIONS = {
    "Topology": ("Topology", ""),
    "Queue": ("Queue", ""),
    "CcKind": ("CcKind", ""),
    "Loss": ("Loss", "Loss"),
    "Jitter": ("Jitter", "Jitter"),
    "Radio": ("Radio", "Radio"),
    "Routing": ("Routing", "Routing"),
    "doubleDistribution": ("Distribution", "Distribution"),
    "SizeDistribution": ("Distribution", "Distribution"),
    "TimeDistribution": ("Distribution", "Distribution"),
}
CLASS_NAMES = {"TcpOptions": "Tcp", "CongestionControl": "Cc", "NoneLoss": "NoLoss", "NoneJitter": "NoJitter", "Custom": "CustomCc"}
SCALARS = {"string": "str", "boolean": "bool", "integer": "int", "number": "float"}

HEAD = '''"""The parts of a scenario as dataclasses, with the names and meanings of the TOML file.

Generated from the JSON Schema by python/tools/generate_model.py; change the scenario's structs, not this file. What is left out
(None) has its default. Where a part is expected, a plain mapping with the same keys will do as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal, TypeAlias

from warpline._part import Part
'''


def camel(kind: str) -> str:
    return "".join(word.capitalize() for word in kind.replace("_", "-").replace("+", "-plus").split("-"))


def python_name(key: str) -> str:
    """The name of a key in Python. `from` and `for` are Python keywords, so they end in an underscore."""
    return f"{key}_" if keyword.iskeyword(key) else key


def bounds(prop: dict[str, Any]) -> str:
    """The range of a number as a sentence; empty if any number is allowed."""
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    ends = [f"{word} {prop[key]:g}" for key, word in words.items() if key in prop]
    # It goes without saying that a count is not negative.
    if not ends or ends == ["at least 0"] and str(prop.get("format")).startswith("uint"):
        return ""
    return " and ".join(ends).capitalize() + "."


class Generator:
    def __init__(self, schema: dict[str, Any]) -> None:
        self.defs: dict[str, Any] = schema["$defs"]
        self.classes: dict[str, str] = {}
        self.aliases: dict[str, str] = {}

    def words(self, node: dict[str, Any]) -> list[str] | None:
        """The words of an enumeration of strings."""
        if "enum" in node:
            return [str(word) for word in node["enum"]]
        found: list[str] = []
        for option in node.get("oneOf", []):
            if "const" in option:
                found.append(option["const"])
            elif "enum" in option:
                found += option["enum"]
            else:
                return None
        return found or None

    def type_of(self, node: dict[str, Any]) -> str:
        """The Python type of a schema, without None."""
        if "$ref" in node:
            return self.reference(node["$ref"].rsplit("/", 1)[1])
        if words := self.words(node):
            return "Literal[" + ", ".join(f'"{word}"' for word in words) + "]"
        for many in ("anyOf", "allOf", "oneOf"):
            if many in node:
                types = [self.type_of(option) for option in node[many] if option.get("type") != "null"]
                return " | ".join(dict.fromkeys(types))
        kinds = node.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
        if kinds == ["array"]:
            return f"Sequence[{self.type_of(node['items'])}]"
        if kinds == ["object"] and isinstance(node.get("additionalProperties"), dict):
            return f"Mapping[str, {self.type_of(node['additionalProperties'])}]"
        if kinds and all(kind in SCALARS for kind in kinds):
            return " | ".join(SCALARS[kind] for kind in kinds)
        raise ValueError(f"no Python type for {node}")

    def reference(self, name: str) -> str:
        node = self.defs[name]
        if name in QUANTITIES:
            alias, meaning = QUANTITIES[name]
            self.alias(alias, meaning)
            return alias
        if name in UNIONS:
            alias, suffix = UNIONS[name]
            # A short form is text.
            members = [self.variant(option, suffix) if "properties" in option else self.type_of(option) for option in node["oneOf"]]
            self.alias(alias, " | ".join([*members, "Mapping[str, Any]"]))
            return alias
        if "properties" in node:
            return f"{self.record(name, node)} | Mapping[str, Any]"
        alias = CLASS_NAMES.get(name, name)
        self.alias(alias, self.type_of(node))
        return alias

    def alias(self, name: str, meaning: str) -> None:
        # The distributions of counts, sizes and times are one class each, so one alias.
        if self.aliases.setdefault(name, meaning) != meaning:
            raise ValueError(f"{name} means two things: {self.aliases[name]} and {meaning}")

    def variant(self, node: dict[str, Any], suffix: str) -> str:
        kind = node["properties"]["kind"]["const"]
        name = camel(kind) + suffix
        return self.record(CLASS_NAMES.get(name, name), node, kind)

    def record(self, name: str, node: dict[str, Any], kind: str | None = None) -> str:
        name = CLASS_NAMES.get(name, name)
        if name in self.classes and "Distribution" not in name:
            return name
        self.classes.setdefault(name, "")  # Parts may contain each other.
        required = set(node.get("required", []))
        fields, docs = [], []
        for key, prop in node.get("properties", {}).items():
            if key == "kind" and kind is not None or prop.get("deprecated"):
                continue
            kind_of = "float | Size | Time" if "Distribution" in name and key in DISTRIBUTED else self.type_of(prop)
            optional = key not in required
            fields.append((optional, f"    {python_name(key)}: {kind_of}" + (" | None = None" if optional else "")))
            about = " ".join([*prop.get("description", "").split(), bounds(prop)]).rstrip()
            docs.append(textwrap.fill(f"{python_name(key)}: {about}", 120, initial_indent="        ",
                                      subsequent_indent="            "))
        about = textwrap.fill(" ".join(node.get("description", "").split()), 120, initial_indent='    """',
                              subsequent_indent="    ")
        lines = ["@dataclass(frozen=True, kw_only=True, slots=True)", f"class {name}(Part):", about]
        if docs:
            lines += ["", "    Attributes:", *docs, '    """']
        else:
            lines[-1] += '"""'
        lines += ["", f'    KIND: ClassVar[str | None] = {f"{kind!r}".replace(chr(39), chr(34)) if kind else None}']
        lines += [line for _, line in sorted(fields, key=lambda field: field[0])]
        self.classes[name] = "\n".join(lines)
        return name


DISTRIBUTED = {"value", "min", "max", "mean", "median"}


def generate(schema: dict[str, Any]) -> str:
    """The text of _model.py."""
    generator = Generator(schema)
    keys: list[str] = []
    for key, prop in schema["properties"].items():
        generator.type_of(prop)
        if not prop.get("deprecated"):
            keys.append(key)
    parts = [HEAD]
    parts += [f"\n\n{text}\n" for _, text in sorted(generator.classes.items())]
    parts.append("\n\n")
    for name, meaning in generator.aliases.items():  # An alias comes after the aliases that it uses.
        parts.append(wrap_alias(name, meaning))
    parts.append("\n# Keys of a scenario.\nSCENARIO_KEYS: tuple[str, ...] = (\n")
    parts += [f'    "{key}",\n' for key in keys]
    parts.append(")\n\n__all__ = [\n")
    parts += [f'    "{name}",\n' for name in sorted([*generator.classes, *generator.aliases])]
    parts.append("]\n")
    return "".join(parts)


def wrap_alias(name: str, meaning: str) -> str:
    line = f"{name}: TypeAlias = {meaning}\n"
    if len(line) <= 120:
        return line
    body = "".join(f"    {'| ' if i else ''}{part}\n" for i, part in enumerate(meaning.split(" | ")))
    return f"{name}: TypeAlias = (\n{body})\n"


def main() -> None:
    """Writes the file."""
    TARGET.write_text(generate(json.loads(SCHEMA.read_text(encoding="utf-8"))), encoding="utf-8")
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
