"""Looks into compiled objects: their private attributes by name, and all that a rollback has to restore.

The garbage collector visits the object attributes of a compiled class in the order in which its .pxd declares
them.
"""

from __future__ import annotations

import gc
import re
from functools import cache
from typing import Any

import numpy as np
from tests.house.source import ROOT

from moorage._core.state import ClusterState

OBJECTS = r"dict|list|object|(?!Py_)[A-Z]\w+"


@cache
def fields(name: str, module: str) -> list[str]:
    """Names of a compiled class's object attributes, as declared."""
    text = (ROOT / "pyx" / (module.replace(".", "/") + ".pxd")).read_text()
    body = re.split(rf"^cdef class {name}:\n", text, flags=re.MULTILINE)[1]
    body = re.split(r"^\S", body, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(rf"^    cdef (?:readonly )?(?:{OBJECTS}) ([\w, ]+)$", body, flags=re.MULTILINE)
    return [field for group in found for field in group.split(", ")]


def inside(compiled: Any) -> dict[str, Any]:
    """The object attributes of a compiled object, private ones included."""
    kind = type(compiled)
    return dict(zip(fields(kind.__name__, kind.__module__), gc.get_referents(compiled), strict=True))


def values(buffer: Any, dtype: str, items: int) -> list[Any]:
    """The first items of a Buffer; those it has no room for are zero."""
    held = buffer.array(dtype, min(items, buffer.capacity)).tolist()
    return held + [0] * (items - len(held))


def chunk(chunks: Any, row: int) -> list[int]:
    """The list of one row in Chunks."""
    parts = inside(chunks)
    if row >= parts["count"].capacity:
        return []
    first, count = (int(parts[name].array("i4", row + 1)[row]) for name in ("first", "count"))
    return parts["arena"].array("i4", first + count)[first:].tolist()  # type: ignore[no-any-return]


def label_columns(state: ClusterState) -> dict[str, list[str | None]]:
    """Label key to the value per row, for the keys that have a column."""
    columns, keys = inside(state.table)["labels"], state.table.label_keys.names[1:]
    return {
        key: [state.symbols.names[symbol] for symbol in values(column, "i4", state.table.used)]
        for key, column in zip(keys, columns, strict=False)
    }


def deadlines(state: ClusterState) -> list[tuple[float, int]]:
    """(deadline, number) of the pods that can expire: entries of the heap that count."""
    ledger = inside(state.ledger)
    held = values(ledger["deadline"], "f8", len(ledger["objects"]))
    hints = [(when, number) for when, number in ledger["deadlines"] if number < len(held)]
    return sorted({(when, number) for when, number in hints if held[number] == when})


def memory(state: ClusterState, buffers: int) -> dict[int, bytes]:
    """What the journal guards, byte by byte, without trailing zeros, as buffers may have grown.

    Not the change log, pointers, the tail of the view's lists, and label columns, which an undo may drop.
    """
    table, view, log = inside(state.table), inside(state.view), inside(state.log)
    skipped = [log["kinds"], log["ids"], table["label_pointers"], *table["other_pointers"], *table["labels"]]
    skipped += [view["order"], view["names"]]
    dropped = {id(buffer) for buffer in skipped}
    out = {}
    for number, buffer in enumerate(inside(state.journal)["buffers"][:buffers]):
        data = bytes(buffer.array("u1", buffer.capacity * buffer.itemsize)).rstrip(b"\0")
        if id(buffer) not in dropped and data:
            out[number] = data
    return out


def dump(state: ClusterState, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything that a rollback must restore; of the memory, what there was `before`."""
    buffers = before["buffers"] if before else len(inside(state.journal)["buffers"])
    table, ledger, tree = inside(state.table), inside(state.ledger), inside(state.tree)
    return {
        "buffers": buffers,
        "memory": memory(state, buffers),
        "used": state.table.used,
        "nodes": list(state.table.objects),
        "free rows": list(table["free_rows"]),
        "zones of nodes": dict(inside(state)["zones"]),
        "zones": list(tree["zones"]),
        "tree": {zone: list(nodes) for zone, nodes in tree["tree"].items()},
        "tree nodes": state.tree.num_nodes,
        "pods": dict(ledger["index"]),
        "pod objects": list(ledger["objects"]),
        "uids": list(ledger["uids"]),
        "pods of rows": {row: list(pods) for row, pods in enumerate(ledger["rows"]) if pods},
        "free numbers": list(ledger["free"]),
        "deadlines": deadlines(state),
        "view": (state.view.rows().tolist(), state.view.node_names()),
        "pending": state.view.cursor < state.log.head,
    }


def assert_labels_follow_nodes(state: ClusterState) -> None:
    """Every label column says what the nodes say."""
    for key, column in label_columns(state).items():
        said = [node and node.metadata.labels.get(key) for node in state.table.objects]
        assert column == said, key


def row_array(state: ClusterState) -> np.ndarray:
    """The records of ledger 0."""
    return state.table.raw()[0]  # type: ignore[no-any-return]
