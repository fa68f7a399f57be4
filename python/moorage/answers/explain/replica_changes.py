"""What becomes of changes in the workload of a pod that waits, and changes of the workload itself: a pod that
is deleted, fewer replicas, and the revision before. Each is made by the verbs of a user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from moorage.cluster import ChangingScheduler
from moorage.cluster.helpful_changes import HelpfulChange, Kind
from moorage.cluster.lacking_pods import rollouts
from moorage.cluster.played_changes import PlayedChanges, make
from moorage.controllers import Rollout
from moorage.kube import DaemonSet, Deployment, Pod, ReplicaSet, StatefulSet
from moorage.kube.model.workload import ControllerRevision
from moorage.kube.workloads.deployment_rollout import revision_of, without_hash
from moorage.kube.workloads.ownership import Workload
from moorage.kube.workloads.revisions import is_updated, mark_of, update_revision
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient, find_object

from .pods_in_the_way import running_pods, sets_of
from .probe import Probe

MOST_OTHERS = 3
_CONTROLLERS = {kind.__name__: kind for kind in (ReplicaSet, StatefulSet, DaemonSet)}


class _Owner(NamedTuple):
    """The workload of a pod.

    Attributes
    ----------
    top : Deployment, ReplicaSet, StatefulSet or DaemonSet
    own : ReplicaSet, StatefulSet or DaemonSet
        The controller of the pod.
    others : list of ReplicaSet
        The other ones of a Deployment.
    """

    top: Any
    own: Any
    others: list[ReplicaSet]

    @property
    def text(self) -> str:
        """As kubectl names it."""
        return Workload(self.top.namespace, self.top.kind, self.top.name).text

    def stalled(self, scheduler: ChangingScheduler) -> list[Rollout]:
        """Return its rollout, if that is not complete after a run."""
        return [rollout for rollout in rollouts(scheduler) if rollout.workload == self.top.full_name]


def carried_out(probe: Probe, changes: list[HelpfulChange]) -> list[HelpfulChange]:
    """Return the changes that place a pod as its workload takes them. A rollout that cannot end with one says
    so. A StatefulSet or a DaemonSet may not replace a pod that waits when its template changes: the pod is to
    be deleted, too, or alone if the template has changed before."""
    owner, played = _owner_of(probe), probe.played
    if owner is None or played is None or not played.may_run(2 * len(changes) + 1):
        return changes
    if not isinstance(owner.own, ReplicaSet):
        return [*_with_deletions(probe, played, owner, changes)]
    revisions = [*map(revision_of, owner.others)]
    if not running_pods(probe, owner.others) or max(revisions) >= revision_of(owner.own):
        return changes
    return [_unless_it_stalls(played, owner, change) for change in changes]


def _unless_it_stalls(played: PlayedChanges, owner: _Owner, change: HelpfulChange) -> HelpfulChange:
    for rollout in played.after(owner.stalled, partial(make, change, owner.top)):
        fit = rollout.updated - len(rollout.without_node)
        why = f"{fit} of {rollout.replicas} new pods get a node, so the rollout stalls"
        return replace(change, text=f"{change.text}: {why}", is_rare=True)
    return change


def _with_deletions(
    probe: Probe, played: PlayedChanges, owner: _Owner, changes: Iterable[HelpfulChange]
) -> Iterator[HelpfulChange]:
    own, client = owner.own, cast(ObjectClient, probe.engine.handle.client)
    placed = partial(played.placed, [probe.pod], probe.running)

    def delete(scheduler: ChangingScheduler) -> None:
        if find_object(scheduler.client, Pod, probe.pod.name, probe.pod.namespace) is None:
            scheduler.run()  # which makes it
        scheduler.change.delete(f"pod/{probe.pod.key}")

    for change in changes:
        by_template = partial(make, change, own)
        if not change.changes_pods or placed(by_template):
            yield change
        elif placed(by_template, delete):
            text = f"{change.text}, and delete pod {probe.pod.name}, which {owner.text} does not replace"
            yield replace(change, text=text, values=change.values | {"deleted": probe.pod.key})
    listed: list[ControllerRevision] = client.list(ControllerRevision, own.namespace)[0]
    revisions = [each for each in listed if each.metadata.is_controlled_by(own.metadata.uid)]
    present = update_revision(own, revisions)
    if present is not None and not is_updated(probe.pod, mark_of(own, present)):
        probe.kinds.add(Kind.DELETE)
        if placed(delete):
            text = f"delete pod {probe.pod.name}: {owner.text} makes it again of its present template"
            yield HelpfulChange(Kind.DELETE, text, values={"deleted": probe.pod.key})


def workload_changes(probe: Probe, others: int) -> Iterator[HelpfulChange]:
    """Yield what ends the waiting of a pod without a place for it: its workload goes back to the revision
    before, or has as many replicas as there are pods on nodes.

    Parameters
    ----------
    others : int
        Number of other changes that help; with more than `MOST_OTHERS` the replicas stay.
    """
    owner, played = _owner_of(probe), probe.played
    if owner is None or isinstance(owner.own, DaemonSet):
        return
    top, fits = owner.top, len(running_pods(probe, [owner.own]))
    replicas = 1 if top.spec.replicas is None else top.spec.replicas
    yield from _undone(probe, owner, replicas)
    if not (others <= MOST_OTHERS and 0 < fits < replicas) or running_pods(probe, owner.others):
        return

    def scale(scheduler: ChangingScheduler) -> None:
        scheduler.change.scale(f"{top.kind}/{top.key}", fits)

    if played is not None and played.may_run(1):
        is_enough = all(pod.spec.node_name for pod in played.pods_like(probe.pod, scale))
    else:
        is_enough = isinstance(owner.own, ReplicaSet)  # whose pods without a node go first
    if is_enough:
        yield _fewer_replicas(owner.text, replicas, fits, "as it is")


def _fewer_replicas(workload: str, before: int, fits: int, where: str) -> HelpfulChange:
    text = f"scale {workload} to {fits}: {fits} of {before} fit {where}"
    values = {"workload": workload, "field": "replicas", "from": str(before), "to": str(fits)}
    return HelpfulChange(Kind.FEWER_REPLICAS, text, values=values)


def with_new_nodes(
    changes: Iterable[HelpfulChange], number: int, is_enough: Callable[[str, int], bool]
) -> Iterator[HelpfulChange]:
    """Yield changes of a workload's replicas that leave room for those of its pods that run on new nodes, and
    the other changes.

    Parameters
    ----------
    number : int
        Number of these pods.
    is_enough : callable
        Whether all pods of a workload that is scaled to so many have nodes.
    """
    for change in changes:
        if change.kind != Kind.FEWER_REPLICAS or not number:
            yield change
            continue
        before, fits = int(change.values["from"]), int(change.values["to"]) + number
        if fits < before and is_enough(change.values["workload"], fits):
            where = f"with {number} on new nodes"
            yield _fewer_replicas(change.values["workload"], before, fits, where)


def _owner_of(probe: Probe) -> _Owner | None:
    """Return the workload of a pod; None without one whose replicas and revisions are known."""
    client, owner = cast(ObjectClient, probe.engine.handle.client), probe.pod.metadata.controller()
    kind = None if owner is None else _CONTROLLERS.get(owner.kind)
    own: Any = kind and owner and find_object(client, kind, owner.name, probe.pod.namespace)
    if not own:
        return None
    above = own.metadata.controller()
    if above is None:
        return _Owner(own, own, [])
    if above.kind != Deployment.__name__:  # no other kind scales by its own `replicas` alone
        return None
    top = find_object(client, Deployment, above.name, own.namespace)
    others = [each for each in sets_of(client, own.namespace, above.uid) if each.name != own.name]
    return None if top is None else _Owner(top, own, others)


def _undone(probe: Probe, owner: _Owner, replicas: int) -> Iterator[HelpfulChange]:
    """Yield the rollout of the revision before that of the pod, if that ends."""
    now = revision_of(owner.own) if isinstance(owner.own, ReplicaSet) else 0
    before = max(owner.others, key=revision_of, default=None)
    if before is None or not 0 < revision_of(before) < now:
        return
    probe.kinds.add(Kind.UNDO)
    template = without_hash(before.spec.template)

    def undo(scheduler: ChangingScheduler) -> None:
        scheduler.change.apply(replace(owner.top, spec=replace(owner.top.spec, template=template)))

    played = probe.played
    if played is not None and played.may_run(1) and not played.after(owner.stalled, undo):
        text = f"roll {owner.text} back to revision {revision_of(before)}: {replicas} of {replicas} pods run"
        values = {
            "workload": owner.text,
            "field": "revision",
            "from": str(now),
            "to": str(revision_of(before)),
        }
        placed = len(probe.waiting) if len(probe.waiting) > 1 else 0
        yield HelpfulChange(Kind.UNDO, text, values=values, placed=placed)
