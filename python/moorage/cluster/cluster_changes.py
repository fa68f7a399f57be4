"""The verbs of a change: what an operator does with kubectl, written to the store of a scheduler.

Each change is made whole or not at all, and can be undone in a transaction or tried on a fork. In a store of
the scheduler's own the controllers of workloads follow.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, NoReturn, cast

from msgspec.structs import replace

from moorage.arguments import typed
from moorage.engine.scheduler import ScheduleResult
from moorage.errors import InputError, either, located, nearest_or_known, no_attribute, number_of
from moorage.grouped import grouped
from moorage.kube import Namespace, Node, Object, Pod, PodGroup
from moorage.kube.admission.request import service_account
from moorage.kube.admission.validate_object import GATE, refuse_comparisons
from moorage.kube.model.cluster import RefusedPod
from moorage.kube.model.meta import percent, share
from moorage.kube.model.node import SHORT_LABELS, ZONE
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.model.workload import MAX_PODS, QUEUE, CronJob, Job
from moorage.kube.read.python_values import Source
from moorage.kube.workloads.job_state import next_run, runs_under_way
from moorage.kube.workloads.missing_pods import new_pod
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient, ServerError, kind_named

from .apply_objects import apply as apply_objects
from .change import (
    Change,
    delete_object,
    preemptions,
    updated,
)
from .given_objects import node_like
from .lacking_pods import suspended
from .node_changes import (
    LASTING,
    add_copies,
    delete_nodes,
    evict_pods,
    labelled,
    mark_unschedulable,
    parse_copy,
    reason_to_stay,
    tainted,
)
from .pod_scheduler import PodScheduler
from .references import get, object_named, select_nodes, select_objects, workloads_named
from .waiting_drains import WaitingDrain, changing, evict_again, grace_of_evictions
from .workload_changes import (
    RESTARTABLE,
    SCALABLE,
    RequestFile,
    ResourceRequest,
    read_requests,
    restarted,
    scale_to,
    scaled,
    write_requests,
)

_PERMANENT = ("default", "kube-system", "kube-public")
"""Namespaces that the API server does not delete."""


class ClusterChanges:
    """The verbs that change the cluster of a scheduler: its attribute `change`."""

    def __init__(self, scheduler: PodScheduler) -> None:
        self.scheduler = scheduler

    def __repr__(self) -> str:
        return f"<changes of {self.scheduler!r}>"

    def __getattr__(self, name: str) -> NoReturn:
        raise no_attribute(self, name)

    def _pods_on(self, nodes: Iterable[Node]) -> Iterator[Pod]:
        """Yield the pods on nodes, node by node, with the finished ones, which the cache does not have."""
        finished = defaultdict[str, list[Pod]](list)
        for pod in self.scheduler.pods.finished.values():
            finished[pod.spec.node_name].append(pod)
        for node in nodes:
            info = self.scheduler.cache.node_info(node.name)
            yield from () if info is None else info.pods
            yield from finished[node.name]

    # ---- changes of objects --------------------------------------------------------------------------------

    @typed
    def apply(self, what: Source | Iterable[Source]) -> Change:
        """Create or change objects: manifests as ``kubectl apply`` does, objects of moorage as ``kubectl
        replace``.

        A manifest, from a file or as a value, is merged with the object of its kind, namespace and name: what
        neither it nor the last manifest names stays (see `apply_manifest`). An object replaces it whole,
        except for its status, and the node of a bound pod. Objects are validated and get defaults, with the
        feature gates of the scheduler. A manifest must be in a namespace of the cluster, if it has any;
        namespaces that objects of moorage name are created.

        Parameters
        ----------
        what : Object, or anything that `load` reads, or iterable of them
            Objects, files and directories, texts, dicts, or objects of a Kubernetes client.

        Returns
        -------
        Change
            What was created, and what has changed; its notes are what a server warns of.

        Raises
        ------
        InputError
            An object is invalid, a file cannot be read, or an API server refuses a manifest, for example as
            it changes what may not change; nothing is written.
        """
        check = None if self.scheduler.handle.feature_gates[GATE] else refuse_comparisons
        with changing(self.scheduler.context) as client:
            return apply_objects(
                client, self.scheduler.controllers, what, check, self.scheduler.handle.feature_gates
            )

    @typed
    def delete(self, *references: str, kind: str = "", selector: str = "", namespace: str = "") -> Change:
        """Delete objects. What a workload owns goes with it; pods of a workload come back. A claim that a
        pod on a node uses stays until the pod is gone, and so does a pod group with pods that have not ended.

        Parameters
        ----------
        *references : str
            Such as ``deploy/web``, ``node/n1`` and ``pod/NAMESPACE/web-1``; without a kind a node, workload,
            group or pod.
        kind : str, optional
            With it, the objects of this kind that a selector matches are deleted.
        selector : str
            A label selector; "" selects all objects of the kind.
        namespace : str
            Of the selected objects, and of those whose references name none; "" for all namespaces.

        Raises
        ------
        InputError
            An object does not exist or may not be deleted, or a selector is given without a kind; nothing is
            deleted.
        """
        if not kind and (selector or (namespace and not references)):
            raise InputError("a selector or a namespace needs a kind")
        controllers = self.scheduler.controllers
        with changing(self.scheduler.context) as client:
            objects = [object_named(client, each, namespace=namespace) for each in references]
            if kind:
                objects += select_objects(client, kind_named(kind), namespace, selector)
            for obj in {(type(obj), obj.key): obj for obj in objects}.values():
                if isinstance(obj, Namespace) and obj.name in _PERMANENT:
                    text = f'namespaces "{obj.name}" is forbidden: this namespace may not be deleted'
                    raise InputError(text)
                if controllers is not None and isinstance(obj, PersistentVolumeClaim | PodGroup):
                    controllers.claims.protect(obj)
                delete_object(client, obj)
            return Change(deleted=tuple(dict.fromkeys(obj.full_name for obj in objects)))

    @typed
    def scale(self, reference: str, replicas: int | str, *, namespace: str = "") -> Change:
        """Set the number of replicas of workloads.

        Parameters
        ----------
        reference : str
            A Deployment, ReplicaSet, StatefulSet, ReplicationController, Rollout, DeploymentConfig, CloneSet
            or LeaderWorkerSet, such as ``deploy/web``; those of ``namespace/NAME``, of a label selector, of
            both (``namespace/NAME,app=web``), or all (``*``).
        replicas : int or str
            How many, or a percentage of today's, such as ``150%``, rounded up.
        namespace : str
            Of workloads whose reference, labels or ``*`` name none; by default all namespaces.

        Raises
        ------
        InputError
            No such workload exists, or it has no replicas, or the number is out of range.
        """
        percent = None if isinstance(replicas, int) else re.fullmatch(r"([0-9]{1,6})%", replicas)
        if percent is None and not isinstance(replicas, int):
            raise InputError(f"must be a whole number or a percentage, not {replicas!r}", obj=reference)
        with changing(self.scheduler.context) as client:
            parts = []
            for obj in workloads_named(client, reference, SCALABLE, "has no replicas to set", namespace):
                there = 1 if obj.spec.replicas is None else obj.spec.replicas
                number = replicas if percent is None else -(-there * int(percent[1]) // 100)
                if not 0 <= int(number) <= MAX_PODS:
                    raise InputError(
                        f"must be between 0 and {MAX_PODS}, not {number}", obj=reference, path="replicas"
                    )
                parts.append(scaled(client, obj, int(number)))
            return _together([Change(changed=names) for names in parts])

    @typed
    def restart(self, reference: str, *, namespace: str = "") -> Change:
        """Roll workloads out anew, as ``kubectl rollout restart`` does.

        Parameters
        ----------
        reference : str
            A Deployment, StatefulSet or DaemonSet, such as ``deploy/web``; others as for `scale`, at the same
            time.
        namespace : str
            As for `scale`.

        Raises
        ------
        InputError
            No such workload exists, or it is of another kind.
        """
        with changing(self.scheduler.context) as client:
            lacks = "cannot be restarted, only changed by a manifest"
            workloads = workloads_named(client, reference, RESTARTABLE, lacks, namespace)
            return _together([_updated(client, obj, restarted(obj)) for obj in workloads])

    def restart_all(self) -> Change:
        """Restart all Deployments, StatefulSets and DaemonSets, one after the other: each is rolled out by a
        run before the next one is restarted. A rollout that finds no room goes on beside the next ones.

        Returns
        -------
        Change
            The workloads, by kind, namespace and name; as deleted the pods that were evicted for new ones.
        """
        changed, preempted = list[str](), dict[str, str]()
        for struct in RESTARTABLE:
            objects: list[Any] = self.scheduler.client.list(struct)[0]
            for obj in sorted(objects, key=lambda obj: obj.key):
                changed += self.restart(f"{obj.kind}/{obj.namespace}/{obj.name}").changed
                preempted |= preemptions(self.scheduler.run()).preempted
        return Change(changed=tuple(changed), deleted=tuple(preempted), preempted=preempted)

    def autoscale_to(self, bound: Literal["min", "max"]) -> Change:
        """Give the targets of HorizontalPodAutoscalers and KEDA's ScaledObjects their least or most replicas.

        Parameters
        ----------
        bound : {"min", "max"}
            Of several autoscalers of one target, the widest bound counts.

        Returns
        -------
        Change
            What has changed; `kept` has the autoscalers without effect, and why.

        Raises
        ------
        ValueError
            There is no such bound.
        """
        if bound not in ("min", "max"):
            raise ValueError(f"must be min or max, not {bound!r}")
        with changing(self.scheduler.context) as client:
            return scale_to(client, bound)

    def run_cron_jobs(self) -> Change:
        """Let each CronJob create its next Job, all at once. One that is suspended creates none; neither does
        one with the concurrencyPolicy Forbid that has a Job that has not finished. With Replace that Job is
        deleted, with Allow the new one runs beside it (kubernetes v1.36, syncCronJob).

        Returns
        -------
        Change
            The Jobs, each with the name of its CronJob and ``-next``, and those that they replace; `kept` has
            the CronJobs that wait for a Job.
        """
        with changing(self.scheduler.context) as client:
            jobs: list[Job] = client.list(Job)[0]
            stored: list[CronJob] = client.list(CronJob)[0]
            crons = [cron for cron in stored if not (cron.spec.suspend or cron.metadata.deletion_timestamp)]
            busy, taken = runs_under_way(jobs), {job.key for job in jobs}
            parts, kept, replaced = list[Change](), dict[str, str](), list[Job]()
            for entry in crons:
                running = busy.get(entry.key, [])
                if running and entry.spec.concurrency_policy == "Forbid":
                    kept[entry.full_name] = (
                        f"Job {running[0].name} has not finished, and its policy is Forbid"
                    )
                    continue
                if entry.spec.concurrency_policy == "Replace":
                    try:
                        for job in running:
                            delete_object(client, job, user=service_account(CronJob.__name__))
                            replaced.append(job)
                    except ServerError as error:
                        kept[entry.full_name] = str(error)
                        continue
                new = next_run(entry, taken)
                try:
                    parts.append(apply_objects(client, self.scheduler.controllers, [new]))
                except InputError as error:  # an API server refuses it
                    kept[entry.full_name] = error.message
                    if self.scheduler.controllers is not None:
                        pod = new_pod(new, new.spec.template)
                        number = 1 if new.spec.parallelism is None else new.spec.parallelism
                        self.scheduler.controllers.control.refused += (
                            RefusedPod(pod, error.message),
                        ) * number
            change = _together(parts)
            return replace(change, deleted=tuple(obj.full_name for obj in replaced), kept=kept)

    @typed
    def set_requests(self, what: str | Iterable[ResourceRequest]) -> Change:
        """Give containers of workloads other requests of cpu and memory, and roll the workloads out; those of
        CronJobs and suspended Jobs have them when they run. A limit that is lower is raised to the request.

        Parameters
        ----------
        what : str or iterable of ResourceRequest
            A file: VerticalPodAutoscalers with a recommendation, or rows with the fields workload,
            container, cpu, memory and namespace, as CSV, JSON or YAML (see `read_requests`).

        Returns
        -------
        Change
            What has changed; `kept` has the VerticalPodAutoscalers without effect, and why.

        Raises
        ------
        InputError
            The file is not valid, a workload does not replace its pods as moorage simulates it (bare pods,
            Jobs that run, Rollouts, …), it or a container does not exist or is there twice, or a quantity is
            none; nothing changes.
        """
        requests = read_requests(what) if isinstance(what, str) else RequestFile(list(what), {})
        with changing(self.scheduler.context) as client, located(source=requests.source):
            return write_requests(client, requests)

    def unsuspend(self) -> Change:
        """Let all suspended Jobs make their pods, and the suspended workloads of other projects that the
        cluster has (JobSets, RayClusters, …), as Kueue does when it admits them. Those
        in a queue of Kueue that the cluster has are left to it.

        Returns
        -------
        Change
            `kept` has the workloads from which no pods follow, and why.
        """
        changed: list[str] = []
        with changing(self.scheduler.context) as client:
            controllers = self.scheduler.controllers
            queued = controllers is not None and controllers.queues is not None
            waiting = [workload for workload in suspended(self.scheduler) if not (queued and workload.queue)]
            objects = [obj for workload in waiting for obj in workload.objects]
            created = apply_objects(client, self.scheduler.controllers, objects).created if objects else ()
            kept = {workload.text: workload.why for workload in waiting if workload.why}
            jobs: list[Job] = client.list(Job)[0]
            for job in jobs:
                if job.spec.suspend and not (queued and QUEUE in job.metadata.labels):
                    running = replace(job, spec=replace(job.spec, suspend=False))
                    changed += _updated(client, job, running).changed
        return Change(created=created, changed=tuple(changed), kept=kept)

    @typed
    def label(self, reference: str, *labels: str, namespace: str = "") -> Change:
        """Set or remove labels of an object.

        Parameters
        ----------
        reference : str
            Such as ``n1``, ``node/n1`` or ``deploy/web``.
        *labels : str
            Each ``KEY=VALUE``, or ``KEY-`` to remove a label.
        namespace : str
            Of an object whose reference names none.

        Raises
        ------
        InputError
            The object does not exist, or a label is not valid.
        """
        with changing(self.scheduler.context) as client:
            obj = object_named(client, reference, namespace=namespace)
            new = labelled(obj, labels)
            if isinstance(new, Namespace):
                from moorage.kube.admission.pod_security import label_faults

                for fault in label_faults(new.metadata.labels):
                    raise InputError(fault.text, obj=new.full_name, path=fault.field)
            return _updated(client, obj, new)

    # ---- changes of nodes ----------------------------------------------------------------------------------

    @typed
    def add_nodes(
        self, count: int, like: Source, *, zone: str = "", labels: Mapping[str, str] = {}
    ) -> Change:
        """Add nodes like another one.

        A new node has the labels, taints, capacity and images of the other one, and its own name and
        hostname; for a node of the cluster it also has copies of its CSINode, of its ResourceSlices and of
        its own CSIStorageCapacities. It is schedulable, and has no taints of a moment, such as
        node.kubernetes.io/not-ready. Labels by which drivers tell where volumes are (``topologyKeys``) tell
        the new node's name or zone. Its name is that of the other one and a number.

        Parameters
        ----------
        like : str, Node, dict, text, or anything else that `load` reads
            The name of a node of the cluster, or a template. ``NAME,zone=ZONE,LABEL=VALUE`` has labels, too.
        zone : str, optional
            The zone of the new nodes; by default the zone of the other one.
        labels : mapping of str to str, optional
            Other labels of the new nodes.

        Returns
        -------
        Change
            What was created: nodes, CSINodes, ResourceSlices, CSIStorageCapacities; and notes about labels
            and storage of the new nodes that moorage cannot know.

        Raises
        ------
        InputError
            There is no such node, the template or a label is not valid, or the count is out of range.
        TypeError
            The template is nothing that `load` reads.
        """
        named, given = node_like(like), {**labels, **({ZONE: zone} if zone else {})}
        is_template = not isinstance(named, str)
        if isinstance(named, str):
            name, of_copy = parse_copy(named)
            given = of_copy | given
        with changing(self.scheduler.context) as client:
            node = get(client, Node, name) if isinstance(named, str) else named
            return add_copies(client, count, node, given, is_template)

    @typed
    def remove_nodes(self, nodes: str | Sequence[str]) -> Change:
        """Remove nodes with the pods on them, as when machines are lost. Disruption budgets have no say.

        Parameters
        ----------
        nodes : str or sequence of str
            Names or a selector.

        Returns
        -------
        Change
            What was deleted: nodes, CSINodes, ResourceSlices, pods.

        Raises
        ------
        InputError
            There is no such node.
        """
        with changing(self.scheduler.context) as client:
            selected = select_nodes(client, nodes)
            pods = [*self._pods_on(selected)]
            return delete_nodes(client, selected, pods)

    @typed
    def upgrade_nodes(
        self, nodes: str | Sequence[str], surge: int | str = 1, max_unavailable: int | str | None = None
    ) -> Change:
        """Replace nodes by copies, as the upgrade of a pool does: a node is drained, a run places its pods,
        it is removed, and the next copy is added.

        Evictions that disruption budgets refuse are tried again after a run. Where pods stay, the upgrade
        ends, and the nodes that are left stay, too.

        Parameters
        ----------
        nodes : str or sequence of str
            Names or a selector.
        surge : int or str
            How many copies are added before the first node is drained; a percentage is of the nodes, rounded
            up, as in AKS.
        max_unavailable : int or str, optional
            How many nodes may be missing meanwhile. The pools of providers drain `surge` and so many nodes
            more at the same time. A percentage is rounded down, but to 1 at least, as in EKS and
            MachineConfigPools. By default nodes are drained one after the other.

        Returns
        -------
        Change
            The nodes that were added, cordoned and removed, the pods that were evicted, and the pods and
            nodes that were kept.

        Raises
        ------
        InputError
            There is no such node, a number is not between 0 and the number of nodes, or both are 0.
        """
        old = [node.name for node in select_nodes(self.scheduler.client, nodes)]
        if isinstance(max_unavailable, str):
            max_unavailable = max(percent(max_unavailable) * len(old) // 100, 1)
        surge = share(surge, len(old))
        for path, number in (("surge", surge), ("max-unavailable", max_unavailable or 0)):
            if not 0 <= number <= len(old):
                raise InputError(
                    f"must be between 0 and {len(old)}, the number of nodes, not {number}", path=path
                )
        at_once = 1 if max_unavailable is None else surge + max_unavailable
        if not at_once:
            raise InputError("no node may come first, and none be missing: give surge or max-unavailable")
        parts = [self.add_nodes(1, name) for name in old[:surge]]
        for at in range(0, len(old), at_once):
            names = old[at : at + at_once]
            emptied = empty_nodes(self, names)
            parts += emptied.changes
            if kept := emptied.kept:
                self.scheduler.context.drains += (emptied.drain,)
                stay = number_of(len(kept), "pod stays", "pods stay")
                why = f"not reached, as {stay} on {either(names)}"
                waiting = {f"Node {left}": why for left in old[at + at_once :]}
                return replace(_together(parts), kept=kept | waiting)
            parts += [self.add_nodes(1, name) for name in old[at + surge : at + surge + at_once]]
            parts.append(replace(self.remove_nodes(names), deleted=tuple([f"Node {name}" for name in names])))
        return _together(parts)

    @typed
    def fail_zone(self, zone: str | Sequence[str]) -> Change:
        """Remove all nodes of one or more zones (label topology.kubernetes.io/zone), with the pods on them.
        Autoscalers make no node there from now on.

        Parameters
        ----------
        zone : str or sequence of str
            Names of zones; as ``LABEL=VALUE`` what else fails together, such as a region or a rack.

        Raises
        ------
        InputError
            No node is in a zone.
        """
        nodes: list[Node] = self.scheduler.client.list(Node)[0]
        zones = [zone] if isinstance(zone, str) else zone
        lost = dict[tuple[str, str], list[str]]()
        for each in zones:
            name, _, value = each.rpartition("=")
            keys = (name, *SHORT_LABELS.get(name, ())) if "=" in each else (ZONE,)
            label = next((key for key in keys if any(key in node.metadata.labels for node in nodes)), keys[0])
            by_value = grouped((node.metadata.labels.get(label), node.name) for node in nodes)
            if value not in by_value:
                near = nearest_or_known(value, filter(None, by_value))
                if "," in each:
                    near = "; name each zone by itself, and repeat the option"
                where = f'has the label "{each}"' if "=" in each else f'is in the zone "{each}"'
                raise InputError(f"no Node {where}{near}")
            lost[label, value] = by_value[value]
        change = self.remove_nodes([*dict.fromkeys(chain.from_iterable(lost.values()))])
        self.scheduler.context.lost_domains += tuple(lost)
        return change

    @typed
    def cordon(self, nodes: str | Sequence[str]) -> Change:
        """Make nodes unschedulable: those of some names, or of a selector."""
        return self._set_unschedulable(nodes, True)

    @typed
    def uncordon(self, nodes: str | Sequence[str]) -> Change:
        """Make nodes schedulable again: those of some names, or of a selector."""
        return self._set_unschedulable(nodes, False)

    @typed
    def drain(
        self,
        nodes: str | Sequence[str],
        *,
        respect_budgets: bool = True,
        force: bool = False,
        delete_local_data: bool = True,
        wait: bool = False,
    ) -> Change:
        """Cordon nodes and evict their pods, as ``kubectl drain --ignore-daemonsets`` does.

        Pods of DaemonSets and mirror pods stay. A pod stays, and `Change.kept` says why, if its disruption
        budget allows no disruption now, or if no controller would make it again. kubectl waits for budgets:
        with `wait`, each `run` goes on; else `evict` does with the pods that were kept. Others that have been
        placed count as healthy. kubectl evicts nothing if one pod has no controller; here the others are
        evicted.

        Parameters
        ----------
        nodes : str or sequence of str
            Names or a selector.
        respect_budgets : bool
            Whether disruption budgets have a say; False as ``--disable-eviction``.
        force : bool
            Whether pods without a controller are evicted; they do not come back.
        delete_local_data : bool
            Whether pods with an emptyDir volume are evicted, as with ``--delete-emptydir-data``.
        wait : bool
            Whether later runs evict the pods that disruption budgets keep now, as soon as these allow it.

        Returns
        -------
        Change
            The nodes that were cordoned, the pods that were deleted, and those that were kept.

        Raises
        ------
        InputError
            There is no such node.
        """
        with changing(self.scheduler.context) as client:
            selected = select_nodes(client, nodes)
            cordoned = mark_unschedulable(client, selected, True)
            why_not = partial(reason_to_stay, force=force, delete_local_data=delete_local_data)
            pods, grace_of = [*self._pods_on(selected)], grace_of_evictions(self.scheduler.context)
            drained = replace(evict_pods(client, pods, why_not, grace_of, respect_budgets), changed=cordoned)
            if wait:
                self.scheduler.context.drains += (WaitingDrain.of(pods, drained),)
            return drained

    @typed
    def evict(self, pods: Iterable[Pod]) -> Change:
        """Evict pods as far as disruption budgets allow it now.

        Parameters
        ----------
        pods : iterable of Pod
            Their names, namespaces and UIDs count; those that are gone are left out.

        Returns
        -------
        Change
            The pods that were deleted, and those that were kept.
        """
        return evict_again(self.scheduler.context, pods)

    @typed
    def taint(self, nodes: str | Sequence[str], *taints: str) -> Change:
        """Set or remove taints of nodes. Pods that do not tolerate a new taint NoExecute are deleted.

        A pod that tolerates it for some seconds stays.

        Parameters
        ----------
        nodes : str or sequence of str
            Names or a selector.
        *taints : str
            Each ``KEY=VALUE:EFFECT`` or ``KEY:EFFECT``, which replaces a taint of this key and effect; or
            ``KEY:EFFECT-`` or ``KEY-`` to remove it.

        Returns
        -------
        Change
            The nodes that were changed; `kept` has those of several that had the taints already.

        Raises
        ------
        InputError
            There is no such node, or a taint is malformed or not found.
        """
        with changing(self.scheduler.context) as client:
            selected = select_nodes(client, nodes)
            parts = [_updated(client, node, tainted(node, taints)) for node in selected]
            change, why = _together(parts), "it has the taint already"
            idle = [node.full_name for node in selected if node.full_name not in change.changed]
            return replace(change, kept=dict.fromkeys(idle, why) if change.changed else {})

    def _set_unschedulable(self, nodes: str | Sequence[str], value: bool) -> Change:
        with changing(self.scheduler.context) as client:
            return Change(changed=mark_unschedulable(client, select_nodes(client, nodes), value))


class Emptied(NamedTuple):
    """What was done to empty nodes, which pods stay, and why, the drain as it is then, and what the run came
    to."""

    changes: list[Change]
    kept: dict[str, str]
    drain: WaitingDrain
    result: ScheduleResult


def empty_nodes(change: ClusterChanges, nodes: Sequence[str], force: bool = False) -> Emptied:
    """Drain nodes, and place their pods, until all are gone or none can go; then the drain ends."""
    context = change.scheduler.context
    others = context.drains
    drained = change.drain(nodes, force=force, wait=True)
    result = change.scheduler.run()
    drain = cast("WaitingDrain", context.drains[-1])
    context.drains = context.drains[: len(others)]
    lasting = {name: why for name, why in drained.unfinished.items() if why in LASTING}
    changes = [drained, Change(deleted=drain.evicted), preemptions(result)]
    return Emptied(changes, lasting | drain.kept, drain, result)


def _updated(client: ObjectClient, old: Object, new: Object) -> Change:
    if new == old:
        return Change()
    return Change(changed=(updated(client, old, new).full_name,))


def _together(parts: Sequence[Change]) -> Change:
    """Return changes as one, without what was kept."""

    def all_of(field: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(getattr(part, field) for part in parts)))

    created, changed, deleted, notes = map(all_of, ("created", "changed", "deleted", "notes"))
    preempted = dict(chain.from_iterable(part.preempted.items() for part in parts))
    return Change(created, changed, deleted, preempted=preempted, notes=notes)
