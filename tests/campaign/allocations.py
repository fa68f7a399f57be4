"""Python's allocations fail, one after the other: `python -m tests.campaign.allocations REPORT [--every N]`.

Each operation runs on three nodes and six pods in a process of its own per failing allocation, so that a
crash is seen. What is allowed is a MemoryError, with the cluster as it was before; or no error, where the
interpreter or a cache does without the memory. Failing buffers of the core are the matter of
tests/leaks/test_memory_error.py.
"""

from __future__ import annotations

import _testcapi  # type: ignore[import-not-found]
import argparse
import ctypes
import json
import os
import re
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moorage import Cluster, Scheduler
from moorage.kube import Node, Pod, dump, load
from tests.leaks.world import node, plain, pod, terms

Operation = Callable[[Scheduler], object]
DONE, REFUSED, CHANGED, OTHER = range(4)
CRASHED = 100
LIBC = ctypes.CDLL(None)
IN_MSGSPEC = "a crash in msgspec"
"""Its decoders and encoders use a NULL pointer where memory is missing; the library's own matter."""
NAMES = {DONE: "no error", REFUSED: "MemoryError, unchanged", CHANGED: "changed", OTHER: "another error"}


def made() -> Scheduler:
    """Three nodes, three bound pods, and three that wait."""
    bound = [plain(f"b{at}", node_name=f"n{at}") for at in range(3)]
    waiting = [pod("w0"), terms("w1"), plain("w2", "2")]
    return Scheduler(Cluster(nodes=[node(f"n{at}") for at in range(3)], pods=[*bound, *waiting]))


def seen(scheduler: Scheduler) -> list[Any]:
    """What users see of a cluster: objects in the store, usage in the cache, what waits."""
    state = scheduler.cache.state
    state.view.refresh()
    table = state.table
    usage = {
        (kind, name): column.tolist()
        for kind in ("allocatable", "requested", "nonzero")
        for name, column in getattr(table, kind).items()
        if any(column)
    }
    stored = [dump([one]) for kind in (Pod, Node) for one in scheduler.client.list(kind)[0]]
    held = sorted((one.name, one.spec.node_name) for one in state.pods())
    return [stored, usage, held, state.assumed_pods(), state.view.node_names()]


def transaction(scheduler: Scheduler) -> None:
    with scheduler.cache.transaction():
        scheduler.cache.add_node(node("extra"))
        for at in range(3):
            scheduler.cache.assume_pod(plain(f"p{at}", node_name="extra"))
        scheduler.cache.remove_node(node("n0"))


def simulate(scheduler: Scheduler) -> None:
    scheduler.schedule_pods([pod("p0"), plain("p1"), terms("p2")], dry_run=True)


def read(scheduler: Scheduler) -> None:
    load(_FILE[0])


_FILE = [""]
OPERATIONS: dict[str, Operation] = {
    "load": read,
    "dry run": simulate,
    "fork": lambda scheduler: scheduler.fork(),
    "transaction": transaction,
    "run": lambda scheduler: scheduler.run(),
}


def attempt(operation: Operation, failing: int) -> tuple[int, str]:
    """What becomes of an operation in which one allocation fails; in a process of its own."""
    scheduler = made()
    before = seen(scheduler)
    told = ""
    try:
        _testcapi.set_nomemory(failing, failing + 1)
        try:
            operation(scheduler)
        finally:
            _testcapi.remove_mem_hooks()
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate" not in str(error):  # a lock
            return OTHER, traceback.format_exc(limit=-3)
        outcome = REFUSED
        # A run that ends early keeps what it has bound.
        if seen(scheduler) != before and operation is not OPERATIONS["run"]:
            outcome = CHANGED
    except BaseException:
        outcome, told = OTHER, traceback.format_exc(limit=-3)
    else:
        return DONE, ""
    if outcome == REFUSED:
        told = later(scheduler)
        outcome = OTHER if told else REFUSED
    return outcome, told


def later(scheduler: Scheduler) -> str:
    """What is wrong with a run afterwards, in comparison with one without a failure."""
    try:
        scheduler.run()
        other = made()
        other.run()
        names = {one.name: one.spec.node_name for one in scheduler.client.list(Pod)[0]}
        expected = {one.name: one.spec.node_name for one in other.client.list(Pod)[0]}
        return "" if names == expected else f"placed {names} instead of {expected}"
    except BaseException:
        return traceback.format_exc(limit=-3)


def child(operation: Operation, failing: int) -> tuple[str, str]:
    """The name of the outcome and what is told of it."""
    with tempfile.TemporaryFile() as out:
        number = os.fork()
        if number == 0:
            code = OTHER
            try:
                os.dup2(out.fileno(), 2)
                LIBC.signal(signal.SIGSEGV, tell_where)
                code, told = attempt(operation, failing)
                out.write(told.encode())
                out.flush()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        out.seek(0)
        told = out.read().decode(errors="replace")
    if 0 <= code < CRASHED:
        return NAMES[code], told[-1500:]
    first = re.search(r"\S*(?:site-packages|moorage)/\S+", told)
    return IN_MSGSPEC if first and "/msgspec/" in first[0] else "a crash", told[:1500]


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def tell_where(number: int) -> None:
    """Handle SIGSEGV: write the libraries that the stack leads through, and end."""
    frames = (ctypes.c_void_p * 40)()
    LIBC.backtrace_symbols_fd(frames, LIBC.backtrace(frames, 40), 2)
    os._exit(CRASHED)


def campaign(every: int, most: int) -> dict[str, Any]:
    """Fail each so many-th allocation of all operations, until an operation does not reach it any more."""
    report: dict[str, Any] = {}
    for name, operation in OPERATIONS.items():
        counts: Counter[str] = Counter()
        wrong: dict[str, Any] = {}
        quiet, failing = 0, 0
        while quiet < 20 and failing < most:
            outcome, told = child(operation, failing)
            quiet = quiet + 1 if outcome == NAMES[DONE] else 0
            counts[outcome] += 1
            if outcome not in (NAMES[DONE], NAMES[REFUSED], IN_MSGSPEC):
                wrong.setdefault(told or outcome, f"allocation {failing}: {outcome}")
            failing += every
        report[name] = {"outcomes": dict(counts), "wrong": wrong}
    return report


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--most", type=int, default=1 << 40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        file.write_text(dump([node(f"n{at}") for at in range(3)] + [plain(f"p{at}") for at in range(6)]))
        _FILE[0] = str(file)
        for operation in OPERATIONS.values():  # imports and caches
            operation(made())
            seen(made())
        later(made())
        report = campaign(options.every, options.most)
    Path(options.report).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
