"""Tests hold on to public names: what they know beside them is a list that only gets shorter."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

from tests.house.source import ROOT, files

TABLE = "tests/doors/private_uses.toml"
MOST = {"private": 73, "replaced": 83}
MAYBE = re.compile(r"(?<!\bself)(?<!\bcls)(?<!super\(\))\._[a-z]|setattr\(|\.object\(")
PRIVATE = re.compile(r"_[a-z][a-z_0-9]*")
PRODUCT = ("moorage", "tests.doors")
OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
OWN = {"self", "cls", "super()", "type(self)"}
PATCHES = {"monkeypatch", "patch", "patches", "mock"}
REPLACE = {"setattr", "object"}
"""``monkeypatch.setattr`` and ``patch.object``."""


def uses(path: Path) -> Counter[str]:
    """How often a test uses a private attribute of another object ("private"), and replaces something of the
    product ("replaced")."""
    if MAYBE.search(text := path.read_text()) is None:
        return Counter()
    tree = ast.parse(text)
    own, foreign, counts = _own_names(tree), _foreign_modules(tree), Counter[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=attr) if PRIVATE.fullmatch(attr):
                is_own = attr in own | OF_TUPLES or ast.unparse(value) in OWN or _root(value) in foreign
                counts["private"] += not is_own
            case ast.Call(func=ast.Attribute(value=value, attr=attr), args=[target, *_]) if attr in REPLACE:
                counts["replaced"] += _root(value) in PATCHES and _is_product(target, foreign)
    return counts


def all_uses() -> dict[str, Counter[str]]:
    """Of each file of tests."""
    found = {path.relative_to(ROOT).as_posix(): uses(path) for path in files(".py", under="tests")}
    return {name: counts for name, counts in found.items() if counts.total()}


def _is_product(target: ast.expr, foreign: set[str]) -> bool:
    if isinstance(target, ast.Constant):
        return str(target.value).startswith(PRODUCT)
    return _root(target) not in foreign


def _root(node: ast.expr) -> str:
    """The name with which an expression begins; ``self._x.y`` begins with self."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _own_names(tree: ast.Module) -> set[str]:
    """Private names that a module gives its own classes."""
    return {
        name
        for node in ast.walk(tree)
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef)
            else [node.attr]
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _root(node) == "self"
            else [node.target.id]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            else []
        )
    }


def _foreign_modules(tree: ast.Module) -> set[str]:
    """Names that a module does not import from the product."""
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if not (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).startswith(PRODUCT)
    }


def test_the_list_has_each_use_and_gets_shorter() -> None:
    listed = tomllib.loads((ROOT / TABLE).read_text())
    assert all(entry.pop("why") for entry in listed.values())
    found = {
        name: {kind: number for kind, number in counts.items() if number}
        for name, counts in all_uses().items()
    }
    assert found == listed, f"take the public way; else say why not in {TABLE}, and lower what is less now"
    for kind, most in MOST.items():
        assert sum(entry.get(kind, 0) for entry in listed.values()) <= most, kind


def test_what_counts_as_private(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(
        "import os\nfrom moorage import store\nfrom tests.doors.kube import work\n"
        "from tests.make import pod\n"
        "class Own:\n    def _go(self): self._at = super()._go() or self._at._inner\n"
        "store._lock, pod()._spec, Own()._go(), os._exit, row._replace(), store.__name__\n"
        "monkeypatch.setattr(work, 'MAX', 1)\nmonkeypatch.setattr(os, 'fork', None)\n"
        "monkeypatch.setattr('moorage.cli.run', 1)\nmonkeypatch.setattr('os.fork', 1)\n"
        "with patch.object(store, 'get'): mock.patch.object(pod().x, 'y', z)\n"
    )
    assert uses(file) == {"private": 2, "replaced": 3}
