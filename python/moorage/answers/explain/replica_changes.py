"""Changes of the workload of a pod that waits: fewer replicas, and the revision before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from moorage.cluster import ChangingScheduler
from moorage.cluster.helpful_changes import HelpfulChange, Kind, of_pod, tried
from moorage.kube import DaemonSet, Deployment, Pod, ReplicaSet, StatefulSet
from moorage.kube.model.workload import ControllerRevision, PodTemplateSpec
from moorage.kube.workloads.deployment_rollout import max_unavailable, revision_of
from moorage.kube.workloads.ownership import Workload, is_healthy
from moorage.kube.workloads.revisions import is_updated, mark_of, update_revision
from moorage.store import ObjectClient, find_object

from .pods_in_the_way import running_pods, sets_of, with_others
from .probe import Probe

MOST_OTHERS = 3
_CONTROLLERS = {kind.__name__: kind for kind in (ReplicaSet, StatefulSet)}
_REPLACING = {kind.__name__: kind for kind in (StatefulSet, DaemonSet)}


class _Replicated(NamedTuple):
    """The workload of a pod.

    Attributes
    ----------
    own : ReplicaSet or StatefulSet
        The controller of the pod.
    """

    scaled: Any
    own: Any
    others: list[ReplicaSet]

    @property
    def text(self) -> str:
        """As kubectl names it."""
        return Workload(self.scaled.namespace, self.scaled.kind, self.scaled.name).text

    @property
    def replicas(self) -> int:
        """How many pods it should have."""
        number = self.scaled.spec.replicas
        return 1 if number is None else number


def workload_changes(probe: Probe, others: int) -> Iterator[HelpfulChange]:
    """Yield what ends the waiting of a pod without a place for it: its workload goes back to the revision
    before, or has as many replicas as there are pods on nodes.

    Parameters
    ----------
    others : int
        Number of other changes that help; with more than `MOST_OTHERS` the replicas stay.
    """
    workload = _workload_of(probe)
    if workload is None:
        return
    yield from _undone(probe, workload)
    fits = len(running_pods(probe, [workload.own]))
    if others <= MOST_OTHERS and 0 < fits < workload.replicas and not running_pods(probe, workload.others):
        reference = f"{workload.scaled.kind}/{workload.scaled.key}"

        def scale(scheduler: ChangingScheduler) -> None:
            scheduler.scale(reference, fits)

        if probe.played is not None and probe.played.may_run(1):
            left = probe.played.pods_like(probe.pod, scale)
            if not all(pod.spec.node_name for pod in left):
                return
        yield _fewer_replicas(workload.text, workload.replicas, fits, "as it is")


def _fewer_replicas(workload: str, before: int, fits: int, where: str) -> HelpfulChange:
    text = f"scale {workload} to {fits}: {fits} of {before} fit {where}"
    values = {"workload": workload, "field": "replicas", "from": str(before), "to": str(fits)}
    return HelpfulChange(Kind.FEWER_REPLICAS, text, values=values)


def with_new_nodes(changes: Iterable[HelpfulChange], number: int) -> Iterator[HelpfulChange]:
    """Yield changes of a workload's replicas that leave room for those of its pods that run on new nodes, and
    the other changes.

    Parameters
    ----------
    number : int
        Number of these pods.
    """
    for change in changes:
        if change.kind != Kind.FEWER_REPLICAS or not number:
            yield change
            continue
        before, fits = int(change.values["from"]), int(change.values["to"]) + number
        if fits < before:
            where = f"with {number} on new nodes"
            yield _fewer_replicas(change.values["workload"], before, fits, where)


def _workload_of(probe: Probe) -> _Replicated | None:
    """Return the workload of a pod; None without one whose replicas and revisions are known."""
    client, owner = cast(ObjectClient, probe.engine.handle.client), probe.pod.metadata.controller()
    kind = None if owner is None else _CONTROLLERS.get(owner.kind)
    own: Any = kind and owner and find_object(client, kind, owner.name, probe.pod.namespace)
    if own is None:
        return None
    above = own.metadata.controller()
    if above is None:
        return _Replicated(own, own, [])
    if above.kind != Deployment.__name__:  # no other kind scales by its own `replicas` alone
        return None
    scaled = find_object(client, Deployment, above.name, own.namespace)
    others = [each for each in sets_of(client, own.namespace, above.uid) if each.name != own.name]
    return None if scaled is None else _Replicated(scaled, own, others)


def _undone(probe: Probe, workload: _Replicated) -> Iterator[HelpfulChange]:
    """Yield the rollout of the revision before that of the pod, if the pods that it lacks then fit in the
    place of those of the pod's revision."""
    now = revision_of(workload.own) if isinstance(workload.own, ReplicaSet) else 0
    before = max(workload.others, key=revision_of, default=None)
    if before is None or not 0 < revision_of(before) < now:
        return
    runs = len(running_pods(probe, [before]))
    lacking = max(0, workload.replicas - runs)
    of = f"of {workload.replicas} pods"
    parts = [f"{min(runs, workload.replicas)} {of} run"] if runs else []
    others = "the other fits" if lacking == 1 else f"the other {lacking} fit"
    parts += [others if runs else f"{lacking} {of} fit"] if lacking else []
    in_place = running_pods(probe, [workload.own])
    least = workload.replicas - max_unavailable(workload.scaled)
    goes_first = runs >= least or workload.scaled.spec.strategy.type == "Recreate"
    change = HelpfulChange(
        Kind.UNDO,
        f"roll {workload.text} back to revision {revision_of(before)}: {', '.join(parts)}",
        (of_pod(partial(_of_template, template=before.spec.template)),),
        values={
            "workload": workload.text,
            "field": "revision",
            "from": str(now),
            "to": str(revision_of(before)),
        },
    )

    def judge(pod: Pod) -> dict[str, Any]:
        stored = probe.stored(pod)
        if stored is None or lacking > probe.most_tried(stored):
            return {}
        numbered = _numbered(stored, lacking)
        beside = lacking if goes_first or not lacking else probe.count_placed(numbered)
        with with_others(probe, in_place, []):
            feasible = probe.count_feasible(stored)
            if lacking and (not feasible or probe.count_placed(numbered) < lacking):
                return {}
        placed = len(probe.waiting) if len(probe.waiting) > 1 else 0
        gain = {"pod": stored, "feasible_nodes": feasible, "placed": placed}
        if beside < lacking:
            stalls = not beside and runs + len(in_place) <= least and all(map(is_healthy, in_place))
            why = ", and none before, so the rollout stalls" * stalls
            gain |= {"text": f"{change.text} once revision {now} is gone{why}", "is_rare": stalls}
        return gain

    yield from tried(probe, change, judge)


def with_deletions(probe: Probe, changes: Iterable[HelpfulChange]) -> Iterator[HelpfulChange]:
    """Yield the changes that place a pod. A StatefulSet or a DaemonSet may not replace a pod that waits when
    its template changes: then the pod is to be deleted, too, or alone if the template has changed before."""
    client, owner = cast(ObjectClient, probe.engine.handle.client), probe.pod.metadata.controller()
    kind = None if owner is None else _REPLACING.get(owner.kind)
    own: Any = kind and owner and find_object(client, kind, owner.name, probe.pod.namespace)
    changes, played = [*changes], probe.played
    if not own or played is None or not played.may_run(2 * len(changes) + 1):
        yield from changes
        return
    workload = Workload(own.namespace, own.kind, own.name).text

    def delete(scheduler: ChangingScheduler) -> None:
        if find_object(scheduler.client, Pod, probe.pod.name, probe.pod.namespace) is None:
            scheduler.run()  # which makes it
        scheduler.delete(f"pod/{probe.pod.key}")

    for change in changes:
        template = own.spec.template
        changed = replace(template, spec=change.of(replace(probe.pod, spec=template.spec)).spec)
        if changed == template:
            yield change
            continue

        def apply(scheduler: ChangingScheduler, changed: PodTemplateSpec = changed) -> None:
            scheduler.apply(replace(own, spec=replace(own.spec, template=changed)))

        if played.placed([probe.pod], probe.running, apply):
            yield change
        elif played.placed([probe.pod], probe.running, apply, delete):
            text = f"{change.text}, and delete pod {probe.pod.name}, which {workload} does not replace"
            yield replace(change, text=text, values=change.values | {"deleted": probe.pod.key})
    revisions = [
        each
        for each in client.list(ControllerRevision, own.namespace)[0]
        if each.metadata.is_controlled_by(own.metadata.uid)
    ]
    present = update_revision(own, revisions)
    if present is not None and is_updated(probe.pod, mark_of(own, present)):
        return
    probe.kinds.add(Kind.DELETE)
    if played.placed([probe.pod], probe.running, delete):
        text = f"delete pod {probe.pod.name}: {workload} makes it again of its present template"
        yield HelpfulChange(Kind.DELETE, text, values={"deleted": probe.pod.key})


def of_rollouts(probe: Probe, changes: list[HelpfulChange]) -> list[HelpfulChange]:
    """Return the changes that place a pod; one with which its rollout cannot end says so, and comes last."""
    workload = _workload_of(probe)
    old = running_pods(probe, workload.others) if workload else ()
    if workload is None or not old or max(map(revision_of, workload.others)) >= revision_of(workload.own):
        return changes
    own = running_pods(probe, [workload.own])

    def judge(change: HelpfulChange, _: Pod) -> dict[str, Any]:
        replaced = (*old, *own) if change.changes_pods else old  # another template is one more revision
        needed = workload.replicas - (0 if change.changes_pods else len(own))
        gain = {"placed": change.placed}
        if change.pod is None or not 0 < needed <= probe.most_tried(change.pod):
            return gain
        with with_others(probe, replaced, []):
            fit = probe.count_placed(_numbered(change.pod, needed))
        if fit == needed:
            return gain
        why = f"{fit} of {needed} pods fit in place of the old ones, so the rollout stalls"
        return {"text": f"{change.text}: {why}", "is_rare": True}

    return [each for change in changes for each in tried(probe, change, partial(judge, change))]


def _of_template(pod: Pod, template: PodTemplateSpec) -> Pod:
    """Return a pod of another template."""
    metadata = replace(pod.metadata, labels=template.metadata.labels)
    return replace(pod, metadata=metadata, spec=template.spec)


def _numbered(pod: Pod, number: int) -> list[Pod]:
    """Return a number of pods like one."""
    meta = pod.metadata
    return [
        replace(pod, metadata=replace(meta, name=f"{meta.name}-{at}", uid=f"{meta.uid}-{at}"))
        for at in range(number)
    ]
