"""Interrupting a scheduler at any line of its Python code, and what must hold afterwards."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.doors.engine import pod_requests

import moorage
from moorage import Scheduler
from moorage.engine.cache import Transaction
from moorage.kube import Pod

PACKAGE = str(Path(moorage.__file__).parent)


class StrikeError(KeyboardInterrupt):
    """Ctrl-C at the moment that a test asks for."""


def struck(action: Callable[[], object], at: int, files: str | tuple[str, ...] = PACKAGE) -> bool:
    """Do something, with an interrupt at the trace event (a call or a line in these files) of this
    number, from 1 on; False where it ends before."""
    events = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal events
        if not frame.f_code.co_filename.startswith(files):
            return None
        if event not in ("call", "line") or (event == "call" and frame.f_code.co_flags & CO_GENERATOR):
            return trace  # the call may be that which closes a generator, where exceptions are ignored
        events += 1
        if events == at:
            sys.settrace(None)
            raise StrikeError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except StrikeError:
        return True
    finally:
        sys.settrace(before)
    assert events < at, "the interrupt was lost"
    return False


def check_usage(one: Scheduler) -> None:
    """What the rows say is requested is what the pods of the cache request."""
    requests = [pod_requests(pod) for pod in one.cache.state.pods()]
    for resource in ("cpu", "memory"):
        milli = resource == "cpu"
        wanted = sum(
            (each[resource].milli_value() if milli else each[resource].value())
            for each in requests
            if resource in each
        )
        assert int(one.table.requested[resource].sum()) == wanted
    assert not one.cache.state.journal.depth


def check_settled(one: Scheduler) -> None:
    """After a run nothing is halfway: each pod is in the cache where it is bound, or in the queue."""
    check_usage(one)
    pods: list[Pod] = one.client.list(Pod)[0]
    waiting = {key: started.node for key, started in one.bindings.waiting.items()}
    bound = {pod.metadata.uid: pod.spec.node_name for pod in pods if pod.spec.node_name}
    assert {pod.metadata.uid: pod.spec.node_name for pod in one.cache.state.pods()} == bound | waiting
    assert set(one.cache.state.assumed_pods()) == waiting.keys()
    queued = [info.pod.metadata.uid for infos in one.queue.pending_pods() for info in infos]
    in_flight = [info.pod.metadata.uid for info in one.queue.in_flight()]
    assert sorted(queued + in_flight) == sorted({pod.metadata.uid for pod in pods} - bound.keys())
    assert set(in_flight) == waiting.keys()
    assert len(one.queue) == len(queued)
    assert not one.handle.on_eviction
    assert len(one.handle.waiting_pods) == len(waiting)


@cache
def _ends_of_with(code: CodeType) -> set[int]:
    """Where the line events of a ``with`` statement are that leaves its block: no signal is handled there,
    and an exception of the trace function would keep a lock."""
    steps = list(dis.get_instructions(code))
    nones = [step.opname == "LOAD_CONST" and step.argval is None for step in steps]
    return {steps[at].offset for at in range(len(steps) - 3) if nones[at : at + 3] == [True] * 3}


Line = tuple[CodeType, int]


def struck_in_undo(action: Callable[[], object], line: Line | None, seen: dict[Line, None]) -> bool:
    """Do something, with an interrupt where this line is first reached while a transaction ends; False where
    it never is. `seen` takes the lines that are reached."""
    end, depth = Transaction.end.__code__, 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal depth
        if frame.f_code is end:
            depth += (event == "call") - (event == "return")
        if depth and event == "line" and frame.f_lasti not in _ends_of_with(frame.f_code):
            seen[here := (frame.f_code, frame.f_lineno)] = None
            if here == line:
                sys.settrace(None)
                raise StrikeError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except StrikeError:
        return True
    finally:
        sys.settrace(before)
    return False
