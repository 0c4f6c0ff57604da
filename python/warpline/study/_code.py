"""The text of declarations: how it is run, which names it gives, and a digest of what a function does.

Results are measured again if the digest of the function that measures has changed. It is made of the text of the function, and of those functions and
classes of the same package that it uses, without comments and layout. It is the same under all versions of Python, so that results stay valid.
"""

from __future__ import annotations

import __future__
import ast
import dataclasses
import hashlib
import importlib.util
import re
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

TEXT = "__warpline_text__"
"""Under this name a module of declarations has the text that it was made of. By the time of a digest its file may have another."""

PACKAGE = "warpline_declared_"
"""How the names of the packages of declarations begin."""

PLAIN = (bool, int, float, str, bytes, type(None))
COLLECTIONS = (set, frozenset, range, re.Pattern, array, complex, date, deque, Decimal, Fraction, time, timedelta)
"""What is known by its text. (A date may have a time.)"""


def execute(module: ModuleType, file: Path, text: str) -> None:
    """Runs the text of a file as a module, which keeps it.

    Without the cache of compiled modules, which takes a file that was changed within a second for the same.
    """
    module.__file__ = str(file)
    vars(module)[TEXT] = text
    exec(compile(text, str(file), "exec"), vars(module))


def gives_name(file: Path, name: str) -> bool:
    """Whether a file gives something a name as `name="..."`, as far as its text tells."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.keyword) and node.arg == "name" and isinstance(node.value, ast.Constant) and node.value.value == name for node in ast.walk(tree))


def imported_past(module: ModuleType, file: Path, text: str) -> tuple[int, str] | None:
    """The first import in the text of a declaration, or of a module beside it, that takes a module beside the declaration by its bare name (`import helper`): its
    line, and how to write it. Such a module would be no part of the declaration: no digest would have what it does, and other machines would lack it."""
    root = Path(sys.modules[module.__name__.partition(".")[0]].__path__[0])
    dots = "." * ((module.__package__ or "").count(".") + 1)
    for node in _imports(ast.parse(text, str(file))):
        if isinstance(node, ast.Import):
            for one in node.names:
                head, _, rest = one.name.rpartition(".")
                if _is_beside(one.name.partition(".")[0], root):
                    return node.lineno, f"from {dots}{head} import {rest}" + (f" as {one.asname}" if one.asname else "")
        elif node.level == 0 and node.module and _is_beside(node.module.partition(".")[0], root):
            names = ", ".join(one.name + (f" as {one.asname}" if one.asname else "") for one in node.names)
            return node.lineno, f"from {dots}{node.module} import {names}"
    return None


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports below a node. Not those that a declaration never reaches: for a type checker, for the file as a program, and where another import has failed."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.If) and {"TYPE_CHECKING", "__name__"} & {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(child.test)}:
            for other in child.orelse:
                yield from _imports(ast.Module([other], []))
        elif not isinstance(child, ast.ExceptHandler):
            yield from _imports(child)


def _is_beside(name: str, root: Path) -> bool:
    """Whether a bare name is that of a module in a directory, and of no module that is installed."""
    files = [root / f"{name}.py", root / name / "__init__.py"]
    if name == __name__.partition(".")[0] or not (any(file.is_file() for file in files) or any((root / name).glob("*.py"))):
        return False
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        return True
    places = [found.origin] if found.has_location and found.origin else found.submodule_search_locations or []
    return any(Path(place).resolve() in (*files, root / name) for place in places)


def digest(*values: Any) -> str:
    """A digest, as 16 hexadecimal digits, of functions and other values."""
    parts = _Parts()
    for value in values:
        parts.add(value)
    return hashlib.sha256("\n".join(parts.texts).encode()).hexdigest()[:16]


class _Parts:
    """The texts of some values. What is met again is there by its number, and whole only once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._met: dict[int, tuple[int, Any]] = {}
        """The number of each function, class and object by its identity; and the thing itself, so that no other gets its identity."""

    def add(self, value: Any) -> None:
        """Adds a value with all that it uses."""
        if isinstance(value, PLAIN):
            self.texts.append(repr(value))
        elif isinstance(value, Mapping):
            self._named("{", value, "}")
        elif isinstance(value, (list, tuple)):
            self.texts.append("[")
            for item in value:
                self.add(item)
            self.texts.append("]")
        elif id(value) in self._met:
            self.texts.append(f"#{self._met[id(value)][0]}")
        else:
            self._met[id(value)] = len(self._met), value
            self._add_new(value)

    def _named(self, begin: str, items: Mapping[Any, Any], end: str) -> None:
        self.texts.append(begin)
        for name, item in items.items():
            self.texts.append(f"{name!r}:")
            self.add(item)
        self.texts.append(end)

    def _add_new(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self.texts.append(_text(value))
            for other in _used(value):
                self.add(other)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, partial):
            self.add([value.func, value.args, value.keywords])
        elif isinstance(value, MethodType):
            self.add([value.__func__, value.__self__])
        elif isinstance(inner := getattr(value, "__wrapped__", None), FunctionType):
            self.add(inner)
        elif isinstance(value, ModuleType):
            # What a module holds depends on the process. A declaration's own counts as a whole, as it is not known what is used of it.
            self.texts.append(f"{value.__name__.rpartition('.')[2]} {vars(value).get(TEXT, '')}")
        else:
            self.add(type(value))
            self._named("(", _contents(value), ")")

    def _add_class(self, value: type) -> None:
        # The name of the package depends on where the declaration is.
        self.texts.append(f"{value.__module__.rpartition('.')[2]}.{value.__qualname__}")
        if value.__module__.partition(".")[0] in sys.stdlib_module_names:
            return
        for base in value.__bases__:
            if _inside(base.__module__, value.__module__):
                self.add(base)
        attributes = dict(vars(value))
        if dataclasses.is_dataclass(value):
            attributes |= {field.name: field.default_factory if field.default is dataclasses.MISSING else field.default for field in dataclasses.fields(value)}
        for name, item in sorted(attributes.items()):
            if isinstance(item, (*PLAIN, list, tuple, dict)):
                if not name.startswith("__"):
                    self.texts.append(f"{name}=")
                    self.add(item)
                continue
            for function in _functions(item, value.__module__):
                # Those that dataclasses make have no text.
                if _source(function) is not None:
                    self.add(function)


def _contents(value: Any) -> dict[str, Any]:
    """What an object holds, by name."""
    if isinstance(value, COLLECTIONS):
        return {"": sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else repr(value)}
    if _is_array(value):
        # The bytes of objects are their places in memory.
        held = repr(value.tolist()) if value.dtype.hasobject else hashlib.sha256(value.tobytes()).hexdigest()
        return {"": [str(value.dtype), list(value.shape), held]}
    slots = {name: getattr(value, name) for name in sorted(_slots(type(value))) if hasattr(value, name)}
    if slots or hasattr(value, "__dict__"):
        return slots | dict(sorted(getattr(value, "__dict__", {}).items()))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {}


def _slots(of: type) -> set[str]:
    """The names that `__slots__` gives the attributes of a class."""
    named = [vars(one).get("__slots__", ()) for one in of.__mro__]
    return {name for names in named for name in ([names] if isinstance(names, str) else names)} - {"__dict__", "__weakref__"}


def _is_array(value: Any) -> bool:
    """Whether it is an array of numpy, or a number of it."""
    return all(hasattr(value, name) for name in ("dtype", "shape", "tobytes", "tolist")) and not isinstance(value, type)


def _functions(value: Any, module: str) -> list[FunctionType]:
    """The function that a value is, and those that it wraps (a property, a static method, a function whose results are kept), of the package of a module."""
    if isinstance(value, property):
        inner = [value.fget, value.fset]
    elif isinstance(value, (cached_property, partial)):
        inner = [value.func]
    else:
        inner = [value, getattr(value, "__wrapped__", None)]
    return [one for one in inner if isinstance(one, FunctionType) and _inside(str(one.__globals__.get("__name__", "")), module)]


def _inside(name: str, module: str) -> bool:
    """Whether a module is of the same package as another. That of a declaration is one, with the packages in it."""
    home = module.partition(".")[0] if module.startswith(PACKAGE) else module.rpartition(".")[0] or module
    return name == module or name.startswith(home + ".")


def _used(function: FunctionType) -> Iterator[Any]:
    """What a function uses of its own package, what it closes over, and the defaults of its arguments."""
    module = function.__module__ or ""
    # In an order of ours: that of the compiled code is another one in another version of Python.
    names = sorted({name for name in _names(function.__code__) if not name.startswith("__")})
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            # `helper.speed(run)`: any name of the function may be one of the module's.
            found = [vars(value)[other] for other in names if other in vars(value)] if _inside(value.__name__, module) else []
        else:
            found = [value]
        for one in found:
            owner = one if isinstance(one, type) else type(one)
            if _inside(owner.__module__, module) or isinstance(one, (bool, int, float, str, bytes, tuple, list, dict)):
                yield one
            elif isinstance(one, COLLECTIONS) or _is_array(one) or (dataclasses.is_dataclass(one) and owner is not one):
                # A queue of Warpline's, a regular expression: what it holds, and not how its class works.
                yield [owner.__qualname__, _contents(one)]
            else:
                functions = _functions(one, module)
                yield from [one] if functions and isinstance(one, partial) else functions
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            pass
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _text(function: FunctionType) -> str:
    """The text of a function in a form without comments and layout. Of several on one line, all, and which it is if it is not the first."""
    code = function.__code__
    source = _source(function)
    found = None if source is None else _texts(source).get(code.co_firstlineno)
    if source is None or not found:
        # A function typed at a prompt has no file.
        return f"{code.co_name} {code.co_code.hex()} {code.co_consts!r} {sys.version_info[:2]}"
    flags = code.co_flags & __future__.annotations.compiler_flag
    alike = _compiled(source, code.co_filename, flags).get((code.co_firstlineno, code.co_name), ())
    number = alike.index(code) if code in alike else 0
    return f"{found}\n#{number}" if number else found


def _source(function: FunctionType) -> str | None:
    """The text of the file of a function, as it was when the function was made, as far as that is known."""
    file = function.__code__.co_filename
    if function.__globals__.get("__file__") == file and TEXT in function.__globals__:
        return str(function.__globals__[TEXT])
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=64)
def _texts(source: str) -> dict[int, str]:
    """The functions in the text of a file, by their first line."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            if not isinstance(node, ast.Lambda) and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
                node.body[0].value.value = ""
            found[line] = f"{found[line]}\n{_shape(node)}" if line in found else _shape(node)
    return found


@lru_cache(maxsize=64)
def _compiled(source: str, file: str, flags: int) -> dict[tuple[int, str], list[CodeType]]:
    """The code of the functions in the text of a file, in its order, by their first line and name. Several on one line have no other difference."""
    found: dict[tuple[int, str], list[CodeType]] = {}
    waiting = [compile(source, file, "exec", flags=flags, dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        found.setdefault((code.co_firstlineno, code.co_name), []).append(code)
        waiting += reversed([one for one in code.co_consts if isinstance(one, CodeType)])
    return found


def _shape(node: Any) -> str:
    """A part of a program as text. (That of `ast.unparse` and `ast.dump` changes from one version of Python to the next.)"""
    if isinstance(node, list):
        return f"[{', '.join(map(_shape, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = [f"{name}={_shape(value)}" for name, value in ast.iter_fields(node) if name not in ("ctx", "kind", "type_comment") and value is not None and value != []]
    return f"{type(node).__name__}({', '.join(parts)})"
