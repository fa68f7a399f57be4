"""The order in which workloads make their pods, and single pods of files come among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model.cluster import Cluster
from ..model.meta import Object
from ..model.other_workloads import CloneSet
from ..model.pod import Pod
from ..model.workload import DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet
from .ages import seconds
from .other_kinds import PARENTS

WORKLOADS: tuple[type[Object], ...] = (
    Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job, CloneSet, *PARENTS,
)  # fmt: skip
"""The kinds whose pods are made by simulated controllers."""


def put_in_turn(cluster: Cluster, objects: Iterable[Object], before: Mapping[str, Object]) -> None:
    """Sort the workloads of a cluster, and note after which of them the single pods of files come.

    Workloads whose objects nobody has changed come first, the oldest of them before the others. Those that
    are new or changed follow in the order of the files, and single pods of manifests stand among them.

    Parameters
    ----------
    cluster : Cluster
        Its `others` and `turns` are changed.
    objects : iterable of Object
        In the order of the files.
    before : mapping of str to Object
        By ``Kind namespace/name``, objects as they were before a file has changed them.
    """
    slots = [at for at, obj in enumerate(cluster.others) if isinstance(obj, WORKLOADS)]
    if not slots:
        return
    workloads = {_name(obj): obj for obj in map(cluster.others.__getitem__, slots)}
    pods = {pod.key for pod in cluster.pods}
    new = {_name(obj): obj for obj in objects if _name(obj) in before or _is_manifest(obj)}
    old = [obj for name, obj in workloads.items() if name not in new]
    old.sort(key=lambda obj: seconds(obj.metadata.creation_timestamp or "0001-01-01T00:00:00Z"))
    last = _name(old[-1]) if old else ""
    for name, obj in new.items():
        if name in workloads:
            old.append(workloads[name])
            last = name
        elif isinstance(obj, Pod) and obj.key in pods and is_single(obj):
            cluster.turns[obj.key] = last
    for at, obj in zip(slots, old, strict=True):
        cluster.others[at] = obj


def _name(obj: Object) -> str:
    return f"{obj.kind} {obj.key}"


def is_single(pod: Pod) -> bool:
    """Whether a pod is to be created by itself."""
    return not pod.spec.node_name and pod.metadata.controller() is None


def _is_manifest(obj: Object) -> bool:
    return obj.metadata.creation_timestamp is None
