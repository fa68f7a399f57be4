"""Classes of the core end no process, however they are made, copied, pickled or printed."""

from __future__ import annotations

import copy
import gc
import importlib
import os
import pickle
import pkgutil
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.house.source import ROOT

import moorage as mo
from moorage import _core

LIBRARY = "libmoorage_kernels"
USES: dict[str, Callable[[Any], object]] = {
    "__reduce__": lambda value: value.__reduce__(),
    "__setstate__": lambda value: value.__setstate__(()),
    **{use.__name__: use for use in (copy.copy, copy.deepcopy, pickle.dumps, repr, hash, len, list, bool)},
}


def core_classes() -> Iterator[type]:
    for found in pkgutil.walk_packages(_core.__path__, f"{_core.__name__}."):
        if not found.name.endswith(LIBRARY):
            values = vars(importlib.import_module(found.name)).values()
            yield from (one for one in values if isinstance(one, type) and one.__module__ == found.name)


def raw(kinds: Iterable[type]) -> Iterator[object]:
    """An instance of each class that can be made without its constructor."""
    for kind in kinds:
        try:
            yield kind.__new__(kind)
        except TypeError:
            continue


def reachable(*roots: object) -> Iterator[object]:
    """One instance of each class of the core that a scheduler or its result refers to."""
    kinds, seen, waiting = set(core_classes()), set[int](), [*roots]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type | types.ModuleType):
            continue
        seen.add(id(value))
        if type(value) in kinds:
            kinds.discard(type(value))
            yield value
        waiting += gc.get_referents(value)


def crash(value: object) -> str:
    """The first use that ends a child process; "" where none does."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for name, use in USES.items():
            os.write(theirs, f"{name}\n".encode())
            try:
                use(value)
            except BaseException:
                continue
        os._exit(0)
    os.close(theirs)
    with open(ours, encoding="utf-8") as report:
        *_, last = report.read().split()
    return last if os.waitpid(child, 0)[1] else ""


def test_no_use_of_a_class_ends_the_process() -> None:
    kinds = list(core_classes())
    assert len(kinds) > 100
    loaded = mo.Scheduler(mo.load(ROOT / "examples/shop/cluster.yaml"))
    made = mo.Scheduler(mo.synthetic(nodes=5, pods=60))
    real = list(reachable(loaded, loaded.run(), made, made.run()))
    assert len(real) > 40
    crashes = {
        f"{type(value).__module__}.{type(value).__name__}": use
        for value in (*raw(kinds), *real)
        if (use := crash(value))
    }
    assert crashes == {}
