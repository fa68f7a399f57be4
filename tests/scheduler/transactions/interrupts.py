"""Interrupting a scheduler at any line of its Python code, and what must hold afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

import moorage
from moorage._core.base.resources import pod_requests
from moorage.objects import Pod
from moorage.scheduler import Scheduler

PACKAGE = str(Path(moorage.__file__).parent)


class StrikeError(KeyboardInterrupt):
    """Ctrl-C at the moment that a test asks for."""


def struck(action: Callable[[], object], at: int, room: str = PACKAGE) -> bool:
    """Do something, with an interrupt at the trace event (a call or a line in a room of the package) of this
    number, from 1 on; False where it ends before."""
    events = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal events
        if not frame.f_code.co_filename.startswith(room):
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
