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
from tests.doors.engine import ChangeLog, ClusterState, Kind
from tests.house.source import ROOT

OBJECTS = r"dict|list|object|set|(?!Py_)[A-Z]\w+"
POD_FIELDS = ("row", "before", "after", "pod_class", "origin", "ordinal")
POD = np.dtype(
    [
        ("deadline", "f8"),
        ("start", "i8"),
        *((name, "i4") for name in POD_FIELDS),
        ("state", "i1"),
        ("terminating", "i1"),
    ],
    align=True,
)


@cache
def fields(name: str, module: str) -> list[str]:
    """Names of a compiled class's object attributes, as declared."""
    text = (ROOT / "pyx" / (module.replace(".", "/") + ".pxd")).read_text()
    body = re.split(rf"^cdef class {name}:\n", text, flags=re.MULTILINE)[1]
    body = re.split(r"^\S", body, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(rf"^    cdef (?:readonly |public )?(?:{OBJECTS}) ([\w, ]+)$", body, flags=re.MULTILINE)
    return [field for group in found for field in group.split(", ") if field != "__weakref__"]


def inside(compiled: Any) -> dict[str, Any]:
    """The object attributes of a compiled object, private ones included."""
    kind = type(compiled)
    return dict(zip(fields(kind.__name__, kind.__module__), gc.get_referents(compiled), strict=True))


def values(buffer: Any, dtype: str, items: int) -> list[Any]:
    """The first items of a Buffer; those it has no room for are zero."""
    held = buffer.array(dtype, min(items, buffer.capacity)).tolist()
    return held + [0] * (items - len(held))


def chunk(chunks: Any, row: int) -> list[int]:
    """The list of one row in IntLists."""
    parts = inside(chunks)
    if row >= parts["count"].capacity:
        return []
    first, count = (int(parts[name].array("i4", row + 1)[row]) for name in ("first", "count"))
    return parts["arena"].array("i4", first + count)[first:].tolist()  # type: ignore[no-any-return]


def entries(log: ChangeLog, cursor: int) -> list[tuple[Kind, int]]:
    """(kind, id) of the entries of a change log after a cursor, as far as it still has them."""
    ring = inside(log)
    kinds, ids = ring["kinds"].array("u1", log.capacity), ring["ids"].array("i4", log.capacity)
    places = [at % log.capacity for at in range(max(cursor, log.head - log.capacity), log.head)]
    return [(Kind(int(kinds[at])), int(ids[at])) for at in places]


def label_columns(state: ClusterState) -> dict[str, list[str | None]]:
    """Label key to the value per row, for the keys that have a column."""
    columns, keys = inside(state.table)["labels"], state.table.label_keys.names[1:]
    return {
        key: [state.symbols.names[symbol] for symbol in values(column, "i4", state.table.used)]
        for key, column in zip(keys, columns, strict=False)
    }


def totals(state: ClusterState) -> dict[str, int]:
    """Counts of the ledger."""
    held = inside(state.ledger)["totals"].array("i4,i4,i4", 1)[0].tolist()
    return dict(zip(("used", "free", "alive"), held, strict=True))


def pod_records(state: ClusterState) -> Any:
    """The records of all pod numbers that were ever used."""
    return inside(state.ledger)["pods"].array(POD, totals(state)["used"])


def numbers(state: ClusterState) -> dict[str, int]:
    """Number of every pod by UID, replicas included."""
    ledger, records = inside(state.ledger), pod_records(state)
    templates = inside(ledger["templates"])
    out = dict(ledger["index"].items())
    for id, entry in enumerate(templates["entries"]):
        if entry is None:
            continue
        for at, number in enumerate(chunk(templates["members"], id)):
            if number >= 0:
                assert (records["origin"][number], records["ordinal"][number]) == (id + 1, entry.first + at)
                out[f"{entry.prefix}#{entry.first + at}"] = number
    return out


def free_numbers(state: ClusterState) -> list[int]:
    """Free pod numbers; the last one is taken first."""
    out, at, records = list[int](), totals(state)["free"], pod_records(state)
    while at:
        out.append(at - 1)
        at = int(records["after"][at - 1])
    return out[::-1]


def numbers_of_row(state: ClusterState, row: int) -> list[int]:
    """Pods of a row in order; the links back say the same."""
    ledger, records = inside(state.ledger), pod_records(state)
    if row >= ledger["rows"].capacity:
        return []
    first, last, count, _ = ledger["rows"].array("i4,i4,i4,i4", row + 1)[row].tolist()
    forth, back = [], []
    for _ in range(count):
        forth.append(first)
        back.append(last)
        first, last = int(records["after"][first]), int(records["before"][last])
    assert forth == back[::-1]
    return forth


def deadlines(state: ClusterState) -> list[tuple[float, int]]:
    """(deadline, number) of the pods that can expire: entries of the heap that count."""
    heap, held = inside(inside(state.ledger)["deadlines"]), pod_records(state)["deadline"].tolist()
    item = np.dtype([("when", "f8"), ("number", "i4")], align=True)
    hints = heap["heap"].array(item, int(heap["count"].array("i4", 1)[0])).tolist()
    return sorted({(when, at) for when, at in hints if at < len(held) and held[at] == when})


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
        data = bytes(buffer.array("u1", buffer.capacity)).rstrip(b"\0")
        if id(buffer) not in dropped and data:
            out[number] = data
    return out


def dump(state: ClusterState, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything that a rollback must restore; of the memory, what there was `before`."""
    buffers = before["buffers"] if before else len(inside(state.journal)["buffers"])
    table, ledger, tree = inside(state.table), inside(state.ledger), state.tree
    return {
        "buffers": buffers,
        "memory": memory(state, buffers),
        "used": state.table.used,
        "nodes": list(state.table.objects),
        "free rows": list(table["free_rows"]),
        "zones of nodes": dict(inside(state)["zones"]),
        "zones": tree.zones,
        "tree": {zone: tree.nodes_in(zone) for zone in tree.zones},
        "tree nodes": tree.num_nodes,
        "pods": numbers(state),
        "pod objects": [held for held in ledger["objects"] if held is not None],
        "replicas": dict(inside(ledger["templates"])["by_prefix"]),
        "pods of rows": [state.ledger.pods_of(row) for row in range(state.table.used)],
        "free numbers": free_numbers(state),
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
