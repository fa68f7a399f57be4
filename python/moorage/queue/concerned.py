"""Which of the unschedulable pods an event may move."""

from __future__ import annotations

from typing import Any

from moorage.framework.plugin.events import ClusterEvent
from moorage.objects.model.pod_group import unit_of

from .hints import Hints
from .places import Places
from .queued_pod_info import Place, QueuedPodInfo
from .unschedulable_pods import group_of


def concerned(places: Places, hints: Hints, event: ClusterEvent, new: Any) -> list[QueuedPodInfo]:
    """The pods to ask the hints about, in order of entry. Those that only an event about their own group can
    move are found by it: of very many that wait for others of their group, each event concerns a few."""
    infos = places.unschedulable.select(
        lambda group: hints.may_move(group, event) and not hints.is_of_units(group, event)
    )
    mates = [info for info in places.units.mates(unit_of(new)) if info.place is Place.UNSCHEDULABLE]
    if not mates:
        return infos
    # A pod that has just come and is kept out itself: the same plugin would keep its mates out once more.
    came = places.infos.get(new.metadata.uid)
    gate = came.gating_plugin if came is not None else ""
    for info in mates:
        if gate and info.gating_plugin == gate:
            continue
        group = group_of(info)
        if hints.may_move(group, event) and hints.is_of_units(group, event):
            infos.append(info)
    return sorted(infos, key=lambda info: info.order)
