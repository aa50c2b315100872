"""Which cells of a notebook an answer needs: a chapter computes for minutes, and an answer uses little of that.

Everything is read from the code, nothing is run.  A cell is needed when it binds a name that a needed cell, or an
answer, uses without binding it; all cells that bind such a name are needed, in the order of the notebook.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TIMED = ("time", "timeit", "capture", "prun")  # cell magics that run the cell's code
_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\n]*\n?")


@dataclass(frozen=True)
class Code:
    """A cell's code, in Python alone, and the names that it takes from other cells and gives to them.

    `fault` says why it is no Python; `all_names` is set where names cannot be told (`from x import *`).  `calls` are
    names with a method that is called for its effect alone, as in `steps.append(f)`; `imports` is a part of `gives`.
    """

    source: str
    takes: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    all_names: bool = False
    fault: SyntaxError | None = None


def read(source: str, name: str) -> Code:
    """The code of a cell. Magics and shell commands are taken out, and a cell that is in another language is empty."""
    plain = python_of(source)
    try:
        tree = ast.parse(plain, name)
        table = symtable.symtable(plain, name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # ValueError: null bytes
        fault = error if isinstance(error, SyntaxError) else SyntaxError(str(error) or type(error).__name__)
        return Code(plain, fault=fault)
    takes, gives, imports = set(), set(), set()
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            gives.add(symbol.get_name())
        if symbol.is_imported():
            imports.add(symbol.get_name())
        if symbol.is_referenced():
            takes.add(symbol.get_name())
    _below(table, takes, gives)
    stars = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]
    gives |= set(_changed(tree))
    takes |= set(_met(tree))
    names = [frozenset(each) for each in (takes, gives, _called(tree), imports)]
    return Code(plain, *names, bool(stars))


def _below(table: symtable.SymbolTable, takes: set[str], gives: set[str]) -> None:
    """The global names of functions, classes and comprehensions."""
    for child in table.get_children():
        for symbol in child.get_symbols():
            if symbol.is_global():
                takes.add(symbol.get_name())
                if symbol.is_assigned():
                    gives.add(symbol.get_name())
        _below(child, takes, gives)


def _outer(tree: ast.Module) -> Iterable[ast.AST]:
    """The nodes that are not within a function or a class: names there are others."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _changed(tree: ast.Module) -> Iterable[str]:
    """Names whose objects the cell writes into: `mask[0] = True` and `layer.scale = 1` make those what they are."""
    for node in _outer(tree):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from _first(node)


def _called(tree: ast.Module) -> Iterable[str]:
    """Names with a method that a statement calls, and drops what it gives: it is called for what it does to them."""
    for node in _outer(tree):
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            yield from _first(call.func)


def _first(node: ast.AST) -> Iterable[str]:
    """The name that a chain of attributes and items begins with."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _met(tree: ast.Module) -> Iterable[str]:
    """Names that have to be there for `x += 1` and `del x`."""
    for node in _outer(tree):
        targets = [node.target] if isinstance(node, ast.AugAssign) else getattr(node, "targets", [])
        if isinstance(node, ast.AugAssign | ast.Delete):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def python_of(source: str) -> str:
    """The Python in a cell. What IPython adds becomes calls of `get_ipython()`, which the sandbox lets do nothing."""
    found = _CELL_MAGIC.match(source)
    if found:
        return python_of(source[found.end() :]) if found[1] in TIMED else ""
    if _parses(source):
        return source
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        plain = TransformerManager().transform_cell(source)
    except Exception:  # no IPython, or a cell that it cannot read
        return source
    return plain if _parses(plain) else source


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
        return True
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def needed(codes: Sequence[Code], wanted: Iterable[int], names: Iterable[str] = ()) -> list[int]:
    """The positions of the cells that those at `wanted` need, with these, in order; `names` are needed besides."""
    imported = {name for code in codes for name in code.imports}  # what is done to a module, no answer waits for
    gives = [code.gives | (code.calls - imported) for code in codes]
    chosen = set(wanted) | {i for i, code in enumerate(codes) if code.all_names}
    open_names, done = set(names), set(dir(builtins))
    for i in chosen:
        open_names |= codes[i].takes
    while open_names - done:
        now, done = open_names - done, done | open_names
        for i, code in enumerate(codes):
            if i not in chosen and gives[i] & now:
                chosen.add(i)
                open_names |= code.takes
    return sorted(chosen)
