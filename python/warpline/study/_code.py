"""A digest of what a function does: results are measured again if the function that measures has changed.

It is made of the text of the function and of those functions of the same package that it calls, without comments and layout.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any


def digest(*functions: Any) -> str:
    """A digest, as 16 hexadecimal digits, of functions and other values."""
    parts: dict[str, None] = {}
    for function in functions:
        _collect(function, parts)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _collect(value: Any, parts: dict[str, None]) -> None:
    if isinstance(value, Mapping):
        for name, item in value.items():
            parts[f"{name!r}:"] = None
            _collect(item, parts)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, parts)
    elif isinstance(value, FunctionType):
        text = _text(value.__code__)
        if text not in parts:
            parts[text] = None
            for other in _used(value):
                _collect(other, parts)
    elif isinstance(value, type):
        name = f"{value.__module__}.{value.__qualname__}"
        if name not in parts:
            parts[name] = None
            methods = [item for key, item in sorted(vars(value).items()) if isinstance(item, FunctionType)]
            # Those that dataclasses make have no text of their own.
            _collect([method for method in methods if Path(method.__code__.co_filename).is_file()], parts)
    elif isinstance(value, (bool, int, float, str, bytes, type(None))):
        parts[repr(value)] = None
    else:
        _collect(type(value), parts)
        _collect(dict(sorted(getattr(value, "__dict__", {}).items())), parts)


def _used(function: FunctionType) -> Iterator[Any]:
    """What a function uses of its own package, and what it closes over."""
    home = function.__module__.rpartition(".")[0] or function.__module__
    for name in dict.fromkeys(name for name in _names(function.__code__) if not name.startswith("__")):
        value = function.__globals__.get(name)
        owner = value if isinstance(value, (FunctionType, type)) else type(value)
        if owner.__module__ == function.__module__ or owner.__module__.startswith(home + "."):
            yield value
        elif isinstance(value, (bool, int, float, str, tuple, list, dict)):
            yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            pass
    for default in function.__defaults__ or ():
        yield default


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _text(code: CodeType) -> str:
    """The text of a function in a form without comments and layout. Of several on one line, all."""
    try:
        state = Path(code.co_filename).stat()
        found = _functions(code.co_filename, state.st_mtime_ns, state.st_size).get(code.co_firstlineno)
    except OSError:
        found = None
    # A function typed at a prompt has no file.
    return found or f"{code.co_name} {code.co_code.hex()} {code.co_consts!r} {sys.version_info[:2]}"


@lru_cache(maxsize=64)
def _functions(file: str, _changed_ns: int, _size: int) -> dict[int, str]:
    """The functions in a file, by their first line. The other arguments are for the cache."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            if not isinstance(node, ast.Lambda) and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
                node.body[0].value.value = ""
            found[line] = f"{found[line]}\n{ast.unparse(node)}" if line in found else ast.unparse(node)
    return found
