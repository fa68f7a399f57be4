"""`python -m tests.doors.rewrite_imports`: tests import what lies inside a room through its door.

A test imports from `moorage`, from a room or a part of one (`moorage.engine.queue`), or from
`tests/doors/ROOM.py`. This program
rewrites deeper imports of all tests. It adds to the doors what they lack and leaves their comments; you
say why tests need what is new. It goes when the rooms have moved.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import moorage

DOORS = Path(__file__).parent
TESTS = DOORS.parent
ROOMS = {
    "kube",
    "store",
    "engine",
    "controllers",
    "cluster",
    "autoscalers",
    "queues",
    "answers",
    "sim",
    "live",
    "cli",
    "compat",
}
NO_REASON = "# Say why tests need this."
"""The comment above names of a module that a door did not have; `test_doors.py` refuses it."""
RENAMED = "# Two names of the room are the same."


class Name(NamedTuple):
    """What a test imports from inside a room."""

    module: str
    name: str


def room_of(module: str) -> str:
    """The room that a module is in; the core is the engine's."""
    room = module.split(".")[1]
    return room if room in ROOMS else "engine"


def value_of(module: str, name: str) -> object:
    """What a module has under a name, or its submodule of this name."""
    held = import_module(module)
    return getattr(held, name) if hasattr(held, name) else import_module(f"{module}.{name}")


def public_module(name: Name) -> str | None:
    """The package that exports a name to users, if one does."""
    value = value_of(*name)
    if isinstance(value, ModuleType):
        return None
    parts = name.module.split(".")
    for package in (".".join(parts[:2]), ".".join(parts[:3])):
        if package.startswith("moorage._"):
            continue
        door = import_module(package)
        exports = hasattr(door, "__path__") or name.name in getattr(door, "__all__", ())
        if exports and getattr(door, name.name, None) is value:
            return package
    if name.name in moorage.__all__ and getattr(moorage, name.name) is value:
        return "moorage"
    return None


def with_import(text: str, name: Name, shown: str) -> str:
    """A door with one more import where lint sorts it to, so that no comment gets another import below it."""
    lines = text.splitlines(keepends=True)
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
    same = [node for node in imports if node.module == name.module]
    order = [(not each.isupper(), not each[0].isupper(), each) for each in (name.name, *_names(same))]
    later = [node for node, place in zip(same, order[1:], strict=True) if place > order[0]]
    if not same:
        later = [node for node in imports if str(node.module) > name.module]
    at = later[0].lineno - 1 if later else (same or imports)[-1].end_lineno or 0
    new = [f"from {name.module} import {name.name} as {shown}\n"]
    if not same:
        new.insert(0, f"{NO_REASON}\n")
        while lines[at - 1].startswith("#"):
            at -= 1
        if lines[at].startswith("#"):
            new.append("\n")
    lines[at:at] = new
    return "".join(lines)


def _names(imports: list[ast.ImportFrom]) -> list[str]:
    return [each.name for node in imports for each in node.names]


class Door:
    """The names of one room, each under a name of its own."""

    def __init__(self, room: str) -> None:
        self.path = DOORS / f"{room}.py"
        self.text = self.path.read_text()
        self.names: dict[str, Name] = {}
        for node in ast.parse(self.text).body:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                self.names |= {each.asname or each.name: Name(node.module, each.name) for each in node.names}

    def name_of(self, name: Name) -> str:
        """The name in the door; it is added where it is not there."""
        value = value_of(*name)
        shown = name.name
        while shown in self.names and value_of(*self.names[shown]) is not value:
            module = name.module.rpartition(".")[2].strip("_")
            shown = f"{module.upper() if shown.isupper() else module}_{shown}"
        if shown not in self.names:
            self.names[shown] = name
            self.text = with_import(self.text, name, shown)
            if shown != name.name:
                text = self.text if "__all__ = [" in self.text else f"{self.text}\n{RENAMED}\n__all__ = []\n"
                self.text = text.replace("__all__ = [", f'__all__ = ["{shown}", ')
        return shown


def is_deep(node: ast.AST) -> bool:
    """Whether a statement imports from below a part of a room, or a module of such a package."""
    if isinstance(node, ast.Import):
        return any(
            each.name.startswith("moorage.") and each.name.count(".") > 1 and not _is_door(each.name)
            for each in node.names
        )
    if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
        return False
    if node.module.split(".")[0] != "moorage" or node.module == "moorage":
        return False
    return not _is_door(node.module) or any(
        isinstance(value := value_of(node.module, each.name), ModuleType) and not _is_door(value.__name__)
        for each in node.names
    )


def _is_door(module: str) -> bool:
    """Whether users may import from a module: a room, a part of one, or a module beside the rooms."""
    parts = module.split(".")
    if parts[1].startswith("_core"):
        return False
    if len(parts) == 2:
        return True
    return len(parts) == 3 and any(hasattr(import_module(module), sign) for sign in ("__path__", "__all__"))


def statements(node: ast.ImportFrom, doors: dict[str, Door]) -> Iterator[str]:
    """The statements that replace a deep import."""
    assert node.module is not None
    wanted = defaultdict[str, list[str]](list)
    for each in node.names:
        name = Name(node.module, each.name)
        module, shown = public_module(name), name.name
        if module is None:
            room = room_of(node.module)
            module, shown = f"tests.doors.{room}", doors.setdefault(room, Door(room)).name_of(name)
        local = each.asname or each.name
        wanted[module].append(shown if local == shown and each.asname is None else f"{shown} as {local}")
    for module, names in wanted.items():
        yield f"{' ' * node.col_offset}from {module} import {', '.join(names)}\n"


def main() -> None:
    doors: dict[str, Door] = {}
    for path in sorted(TESTS.rglob("*.py")):
        if DOORS in path.parents:
            continue
        text = path.read_text()
        lines = text.splitlines(keepends=True)
        nodes = [node for node in ast.walk(ast.parse(text)) if is_deep(node)]
        for node in sorted(nodes, key=lambda each: each.lineno, reverse=True):
            assert isinstance(node, ast.ImportFrom), f"{path}:{node.lineno}: import names from the module"
            old = "".join(lines[node.lineno - 1 : node.end_lineno])
            assert "#" not in old, f"{path}:{node.lineno}: a comment would be lost"
            lines[node.lineno - 1 : node.end_lineno] = statements(node, doors)
        if nodes:
            path.write_text("".join(lines))
    for door in doors.values():
        door.path.write_text(door.text)


if __name__ == "__main__":
    main()
