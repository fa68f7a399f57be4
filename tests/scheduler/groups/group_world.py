"""Groups of pods over small clusters, and the slow way to place one: a fork, and cycles of single pods."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.core.made_up import Manifest, make_node, make_pod, make_spec
from tests.doors.engine import group_attempt, place_group, schedule_one
from tests.make import node
from tests.scheduler.groups import gang_kit

from moorage import Cluster, Scheduler
from moorage.engine.framework import Placement
from moorage.kube import Node, Pod, PodGroup, decode_object

RACK = "rack"


def gang(minimum: int, key: str = "") -> PodGroup:
    """The group "gang", bound to a topology if a key is given."""
    return gang_kit.gang("gang", minimum, **(gang_kit.topology(key) if key else {}))


def basic() -> PodGroup:
    """The group "gang" without a minimum."""
    return gang_kit.gang("gang", 0)


def members(count: int, cpu: Any = "1", first: int = 0) -> list[Pod]:
    """Pods m0, m1 … of the group "gang"."""
    return [gang_kit.member(f"m{at}", "gang", cpu) for at in range(first, first + count)]


def racks(*cpus: str, size: int = 2) -> list[Node]:
    """For each amount of cpu a rack of nodes that have so much."""
    return [
        node(f"n{rack}-{at}", labels={RACK: f"r{rack}"}, cpu=cpu)
        for rack, cpu in enumerate(cpus)
        for at in range(size)
    ]


def over(*cpus: str, **settings: Any) -> Scheduler:
    return Scheduler(Cluster(nodes=[node(f"n{at}", cpu=cpu) for at, cpu in enumerate(cpus)]), **settings)


def place(scheduler: Scheduler, group: PodGroup, pods: list[Pod], **rest: Any) -> group_attempt.GroupResult:
    return place_group(scheduler.context, scheduler.context.rotation.engines[0], group, pods, **rest)


def made_up(
    world: int, nodes: int, pods: int, without_images: bool = False, **settings: Any
) -> tuple[Scheduler, list[Pod]]:
    """A scheduler over a made-up cluster, and pods of a few classes."""
    random = Random(world)
    manifests = [make_node(random, at) for at in range(nodes)]
    for one in manifests if without_images else ():
        one["status"].pop("images", None)
    specs = [make_spec(random, nodes) for _ in range(4)]
    wanted = [make_pod(f"p{at}", random.choice(specs)) for at in range(pods)]
    return Scheduler(Cluster(nodes=decoded(manifests)), **settings), decoded(wanted)


def decoded(manifests: list[Manifest]) -> list[Any]:
    return [decode_object(one) for one in manifests]


def twin(
    scheduler: Scheduler, group: PodGroup, pods: list[Pod], scheduled: int = 0
) -> tuple[npt.NDArray[np.int32], bool]:
    """What becomes of a group, by single cycles in which nobody is evicted; a failed one is forgotten pod by
    pod. To be asked about a scheduler of its own."""
    for engine in scheduler.engines.values():
        engine.runs_post_filter = False
    rows = [-1] * len(pods)
    spare = scheduled + len(pods) - group.min_count
    for at, one in enumerate(pods if spare >= 0 else ()):
        found = schedule_one(scheduler.context, one)
        row = -1 if found.node is None else scheduler.table.find_row(found.node)
        assert row is not None
        rows[at] = row
        spare -= row < 0
        if spare < 0:
            break
    placed = sum(row >= 0 for row in rows)
    fits = placed > 0 and scheduled + placed >= group.min_count
    return np.array(rows if fits else [-1] * len(rows), dtype=np.int32), fits


# ---- what is remembered of placements ----------------------------------------------------------------------


def note_searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the placements that are searched for pod groups from now on, with a memory."""
    found, search = list[str](), group_attempt._try_in

    def note(members: Any, placement: Placement, commit: bool) -> group_attempt.Attempt:
        if members.memory is not None and not members.is_composite:
            found.append(placement.name)
        return search(members, placement, commit)

    monkeypatch.setattr(group_attempt, "_try_in", note)
    return found
