"""An undo restores every field of every part of a scheduler, but for those that are named here.

A new field that a verb changes is either restored, or named with the reason why nothing depends on it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.house.source import files
from tests.leaks.test_verbs import VERBS, world

COUNTS = {
    "Indexer.changes", "ObjectTable.changes", "Tables.changes", "Tables._last", "Tables._others",
    "PodNominator.epoch", "PodNominator.changes", "StoreControl.deletions",
}  # fmt: skip
"""They only grow: whoever has read one sees that something has changed, by an undo as well."""
MADE_ANEW = {
    "Informer._saved", "StoreControl._admission", "StoreControl._to_create", "Framework.pod",
    "SearchCalls._alone", "SearchCalls._state", "SimulatedController._settled", "Informer.resource_version",
    "ApiServer._chain", "ApiServer._chain_reads", "ApiServer._read", "SchedulerState.claims",
}  # fmt: skip
"""Remembered answers; the next one who asks looks whether they hold, or sets them first."""


def fields_of(one: object) -> dict[str, Any]:
    """The fields of an object in Python."""
    slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: getattr(one, name) for name in slots if hasattr(one, name)} | getattr(one, "__dict__", {})


def parts(root: object) -> Iterator[object]:
    """The objects of moorage that can be reached from one by fields and containers; objects of the API and
    of the compiled core, which has a journal, have no parts."""
    seen, left = set[int](), [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | msgspec.Struct):
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple | set | frozenset | deque):
            left += one
        elif type(one).__module__.startswith("moorage") and (fields := fields_of(one)):
            yield one
            left += fields.values()


def held(value: object, depth: int = 3) -> object:
    """What a field holds: values and objects of the API as they are, containers copied, parts by identity."""
    if isinstance(value, dict) and depth:
        return {key: held(each, depth - 1) for key, each in value.items()}
    if isinstance(value, list | tuple | deque) and depth:
        return [type(value), *(held(each, depth - 1) for each in value)]
    if isinstance(value, set):
        return value.copy()
    is_value = isinstance(value, str | bytes | int | float | None | frozenset | msgspec.Struct)
    return value if is_value else id(value)


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"fork"}))
def test_an_undo_restores_every_field(verb: str) -> None:
    made = world()
    VERBS[verb](made)
    before = [
        (part, {name: held(value) for name, value in fields_of(part).items()}) for part in parts(made.context)
    ]
    assert len(before) > 100
    with made.transaction():
        VERBS[verb](made)
        made.run()
    lost = {
        f"{type(part).__name__}.{name}"
        for part, fields in before
        for name, value in fields_of(part).items()
        if name in fields and held(value) != fields[name]
    }
    assert lost <= COUNTS | MADE_ANEW


# ---- the compiled core -------------------------------------------------------------------------------------

KEEPING = {"clone", "copy", "copy_from", "restore", "undo"}
GIVEN = {
    "Buffer.number", "BinderStore.state", "DeletedMarkers.node_name_of", "RunningPods.group",
    "RunningPods.single", "RunningPods.unit_key", "Decider.has_extenders", "Decider.keeps_candidates",
    "Decider.percentage", "Decider.search", "Decider.state", "Decider.states", "Decider.tie_break",
    "Placer.state", "PodQueue.closed", "PodQueue.lock", "PodQueue.pod_events", "ImageStates.journal",
    "Ledger.journal", "Ledger.watched", "NodeTable.journal", "NodeTable.log", "Templates.journal",
    "View.claim_counts", "View.freezes_counts", "View.images", "View.journal", "View.ledger",
    "View.table", "View.tree", "NodeTree.journal",
}  # fmt: skip
"""What an object is made with, or who it belongs to."""
DERIVED = {
    "ChangeLog.id", "ChangeLog.kind", "ChangeLog.repeated", "OrderedMap.owner",
    "Decider.bare", "Decider.failed", "Decider.from_candidates", "Decider.from_scans", "Decider.scan",
    "Decider.undo_bytes", "Placer.placed", "Placer.rows", "Placer.searches", "Placer.shared",
    "PodQueue.changed", "PodQueue.waiting", "Ledger.entered", "Ledger.found", "Ledger.lists",
    "Ledger.moved", "NodeTable.checked", "NodeTable.checked_until", "NodeTable.generation",
    "NodeTable.label_pointers", "NodeTable.other_pointers", "NodeTable.port_set", "NodeTable.rows",
    "NodeTable.taint_set", "NodeTable.wide", "View.columns", "View.is_scanned", "View.static_version",
    "View.taint_set", "View.was_undone",
}  # fmt: skip
"""Addresses and parts of what is kept, answers that the next search makes anew, counts of one call."""
CLASS = re.compile(r"^cdef class (\w+)[^\n]*:[^\n]*\n((?:[ \t#][^\n]*\n|\n)*)", re.M)
TYPE, NAME = r"[\w.]+[\w ]*?(?:\[[^\]\n]*\])?[ *]+", r"\w+(?:\[\w+\])?"
FIELD = re.compile(rf"^    cdef (?:readonly |public )?{TYPE}((?:{NAME}, \*?)*{NAME})(?: *#.*)?$", re.M)
METHOD = re.compile(r"^    (?:cpdef|cdef|def) (?:[\w ]+ )?(\w+)\([^\n]*(?:\n(?!    \S)[^\n]*)*", re.M)


def forgotten(path: Path) -> Iterator[str]:
    """The fields of classes of a file of the core that no method with which they keep their state names."""
    declared, text = path.with_suffix(".pxd"), path.read_text()
    headers = dict(CLASS.findall(declared.read_text())) if declared.exists() else {}
    for name, body in CLASS.findall(text):
        methods = {found[1]: found[0] for found in METHOD.finditer(body)}
        todo = sorted(KEEPING & methods.keys())
        for method in todo:  # grows by those that they call
            called = re.findall(r"\.(\w+)\(", methods[method])
            todo += [each for each in called if each in methods and each not in todo]
        keeping = "".join(methods[method] for method in todo)
        fields = [listed for source in (headers.get(name, ""), body) for listed in FIELD.findall(source)]
        for field in re.findall(r"\b[a-z_]\w*", ",".join(fields)) if keeping else ():
            if not re.search(rf"\.{field}\b", keeping):
                yield f"{name}.{field}"


def test_the_core_keeps_every_field() -> None:
    """Each is copied by a fork, or restored; else it is named here, with the reason why nothing is lost."""
    lost = {field for path in files(".pyx", under="pyx") for field in forgotten(path)}
    assert lost == GIVEN | DERIVED
