"""A plugin of plugin.h whose struct and answers are made of bytes, and what a cycle has to do with them."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from moorage.errors import InputError
from tests.doors.engine import from_address, schedule_one
from tests.framework.runtime.compiled import compiled
from tests.make import node, pod
from tests.scheduler.make import scheduler_with

NODES = ("a", "b", "c")
ERROR_SIZE = 256
FILTER, SCORE, NORMALIZE, CHANGES, OTHER_ABI, SMALL, NAMELESS, WIDE = (1 << bit for bit in range(8))
HEAD = 16
"""Bytes before texts: flags, weight, three answers, codes and scores, factor, shift, length of error."""


class Script(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("filter_answer", "score_answer", "normalize_answer")),
        *((name, ctypes.c_int32) for name in ("resources", "labels", "values")),
        ("error_size", ctypes.c_uint32),
        ("codes", ctypes.c_uint8 * 3),
        ("scores", ctypes.c_int64 * 3),
        ("factor", ctypes.c_int64),
        ("shift", ctypes.c_int64),
        ("error", ctypes.c_char * ERROR_SIZE),
        ("seen", ctypes.c_uint64),
    ]


class NativePlugin(ctypes.Structure):
    _fields_ = [
        ("abi_major", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        *((name, ctypes.c_void_p) for name in ("filter", "score", "normalize", "add_pod", "remove_pod")),
        ("destroy", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("reason", ctypes.c_char_p),
        ("weight", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        *((name, ctypes.POINTER(ctypes.c_char_p)) for name in ("resources", "labels", "values")),
    ]


@cache
def _functions() -> tuple[ctypes.CDLL, NativePlugin]:
    """The compiled plugin."""
    folder = tempfile.mkdtemp()
    try:
        library = ctypes.CDLL(str(compiled(Path(folder), Path(__file__).with_suffix(".c"))))
    finally:
        shutil.rmtree(folder)
    return library, NativePlugin.in_dll(library, "moorage_plugin")


def number(byte: int) -> int:
    """A small number, or one of the ends of int64."""
    signed = byte - 256 if byte > 127 else byte
    return {127: (1 << 63) - 1, -128: -(1 << 63)}.get(signed, signed)


def wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def expected(flags: int, script: Script) -> tuple[set[str], str]:
    """The nodes of which one is chosen, and what an error begins with."""
    feasible = list(range(3))
    if flags & FILTER:
        if script.filter_answer:
            return set(), "error"
        if any(code not in (0, 2, 3) for code in script.codes):
            return set(), "error"
        feasible = [row for row in feasible if script.codes[row] == 0]
    if len(feasible) < 2 or not flags & SCORE:
        return {NODES[row] for row in feasible}, ""
    if script.score_answer or (flags & NORMALIZE and script.normalize_answer):
        return set(), "error"
    scores = {row: script.scores[row] for row in feasible}
    if flags & NORMALIZE:
        scores = {row: wrapped(one * script.factor + script.shift) for row, one in scores.items()}
    if not all(0 <= one <= 100 for one in scores.values()):
        return set(), "error"
    return {NODES[row] for row, one in scores.items() if one == max(scores.values())}, ""


def native_plugin(data: bytes) -> None:
    """Load a struct; if it is taken, two cycles do as the twin says."""
    head, texts = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:].split(b"\0")
    flags, weight, error_size = head[0], head[1], head[15]
    title, reason, error, *declared = [*texts, b"", b"", b""][: max(len(texts), 3)]
    lists = {
        kind: [one[1:] for one in declared if one[:1] == kind and one[1:]] for kind in (b"r", b"l", b"v")
    }
    library, given = _functions()
    script = Script(
        *(number(one) for one in head[2:5]),
        *(len(lists[kind]) for kind in (b"r", b"l", b"v")),
        min(error_size + 1, ERROR_SIZE),
        (ctypes.c_uint8 * 3)(*head[5:8]),
        (ctypes.c_int64 * 3)(*(number(one) for one in head[8:11])),
        number(head[11]),
        number(head[12]),
        (error + b"x" * ERROR_SIZE)[:ERROR_SIZE],
    )
    arrays = [(ctypes.c_char_p * (len(one) + 1))(*one, None) for one in lists.values()]
    struct = NativePlugin(
        given.abi_major + bool(flags & OTHER_ABI),
        ctypes.sizeof(NativePlugin) - bool(flags & SMALL),
        None if flags & NAMELESS else title,
        given.filter if flags & FILTER else None,
        given.score if flags & SCORE else None,
        given.normalize if flags & NORMALIZE else None,
        given.add_pod if flags & CHANGES else None,
        given.remove_pod if flags & CHANGES else None,
        None,
        ctypes.addressof(script),
        reason or None,
        number(weight) if weight < 127 else weight - 256,
        0,
        *(ctypes.cast(one, ctypes.POINTER(ctypes.c_char_p)) for one in arrays),
    )
    keep = library, script, struct, arrays, lists
    memory = {"memory": str((1 << 60) + 1)} if flags & WIDE else {}
    with suppress(InputError):
        plugin = from_address(ctypes.addressof(struct), keep=keep)
        one = scheduler_with(plugin, nodes=[node(name, **memory) for name in NODES])
        nodes, failure = expected(flags, script)
        for name in ("p", "q"):
            found = schedule_one(one.context, pod(name, labels={"l": "1"}))
            assert bool(found.error) == bool(failure), (found.error, nodes, failure)
            # The first pod's node has less room for the second: then any feasible node can be chosen.
            assert (found.node in nodes or name == "q") if nodes else found.node is None, (found.node, nodes)
