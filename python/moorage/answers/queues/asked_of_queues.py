"""Pods that are asked about, and that Kueue would have to let go first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moorage.kube import Pod
from moorage.kube.model.meta import ObjectMeta
from moorage.kube.model.workload import KUEUE

from ..asked_pods import is_queued
from ..homeless_pods import Withheld
from .decided_workloads import name_of, new_preemptions, owner_of
from .queued_workloads import whys_of_pods

if TYPE_CHECKING:
    from moorage.cluster import ChangingScheduler


def let_go(
    scheduler: ChangingScheduler, pods: Sequence[Pod], preempting: bool = True
) -> tuple[list[Pod], dict[str, Withheld]]:
    """Ask Kueue about pods as if each came by a manifest, after those before it; nothing is changed.

    Parameters
    ----------
    pods : sequence of Pod
        Those that do not go through a queue are let go.
    preempting : bool, optional
        Whether others may lose their quota for them. By default they may.

    Returns
    -------
    pods : list of Pod
        Those that go, with what their flavors add.
    withheld : dict of str to Withheld
        By ``namespace/name``, why the others do not go.
    """
    client, out, withheld = scheduler.client, list[Pod](), dict[str, Withheld]()
    queued = [is_queued(client, pod) for pod in pods]
    queues = scheduler.controllers.find_queues() if any(queued) and scheduler.controllers else None
    if queues is None:
        return [*pods], withheld
    with scheduler.transaction():
        before, stand_ins = queues.cycles, list[Pod | None]()
        for at, (pod, is_one) in enumerate(zip(pods, queued, strict=True)):
            marks = {key: value for key, value in pod.metadata.labels.items() if key.startswith(f"{KUEUE}/")}
            meta = ObjectMeta(name=f"moorage-asks-{at}", namespace=pod.namespace, labels=marks)
            stand_ins.append(replace(pod, metadata=meta) if is_one else None)
        scheduler.change.apply([pod for pod in stand_ins if pod is not None])
        whys = whys_of_pods(queues)
        if not preempting:
            for each in new_preemptions(queues.cycles, before):
                owner = owner_of(queues.kueue.workloads[each.by].obj)
                why = f"Kueue would preempt {name_of(queues.kueue, each.workload)} for it"
                whys.setdefault(f"{owner.namespace}/{owner.name}", Withheld(why, waits=True))
        for pod, stand_in in zip(pods, stand_ins, strict=True):
            if stand_in is not None and stand_in.key in whys:
                withheld[pod.key] = whys[stand_in.key]
                continue
            if stand_in is not None:
                spec = client.get(Pod, stand_in.name, stand_in.namespace).spec
                own = replace(pod.spec, node_selector=spec.node_selector, tolerations=spec.tolerations)
                pod = replace(pod, spec=own)
            out.append(pod)
    return out, withheld
