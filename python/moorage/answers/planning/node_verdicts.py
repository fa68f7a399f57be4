"""The verdict of the filters about one pod on every node, by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from moorage.cluster import PodScheduler
from moorage.engine.framework.plugin.interface import Code, FilterPlugin
from moorage.engine.framework.plugin.status import Status
from moorage.engine.scheduler.cycle.diagnosis import explain_verdict
from moorage.kube.model.pod import Pod

FITS, LEFT_OUT = 0, 1
"""Kinds besides the verdicts of filters, which name their filter in high bits: the pod fits; PreFilter leaves
the node out of the search, or rejects the pod."""
FIT = "NodeResourcesFit"
FIXED = frozenset(
    {"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodeDeclaredFeatures"}
)
"""Filters whose rejection of a node lasts, wherever other pods are."""
LASTING = FIXED | {FIT, "NodePorts"}
"""Filters whose rejection of a node lasts while pods are only added."""
PASSES = Status(Code.SUCCESS, ())


@dataclass(frozen=True, slots=True)
class NodeVerdicts:
    """The verdict about a pod on each node.

    Attributes
    ----------
    rows : (n,) int32 array
        Rows of all nodes of the snapshot.
    kinds : (n,) uint64 array
        0 where the pod fits; otherwise a key of `statuses`.
    statuses : dict of int to Status
        The status of the first filter that rejects the pod, or of PreFilter, by kind.
    filters : frozenset of str
        The filters that PreFilter does not skip for the pod; none where PreFilter rejects it.
    """

    rows: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint64]
    statuses: dict[int, Status]
    filters: frozenset[str]


def node_verdicts(scheduler: PodScheduler, pod: Pod) -> NodeVerdicts:
    """Return the verdicts of a cycle that begins now, without scores. The caller holds the lock of the cache.

    Parameters
    ----------
    pod : Pod
        In the cache or not; without a name, if need be.
    """
    context = scheduler.context
    if not pod.name:
        pod = replace(pod, metadata=replace(pod.metadata, name=pod.metadata.generate_name))
    engine, rows = context.engine_for(pod), context.view_rows()
    state = engine.framework.new_state(pod)
    engine.begin_cycle(state.target)
    profile = engine.profile_of(state.target)
    ran = engine.framework.run_pre_filter_plugins(state, pod)
    if ran.error or ran.rejection is not None:
        status = ran.rejection or Status(Code.ERROR, (ran.error,))
        kinds = np.full(len(rows), LEFT_OUT, dtype=np.uint64)
        return NodeVerdicts(rows, kinds, {LEFT_OUT: status}, frozenset())
    engine.begin_search(state, pod, ran)
    searched, verdicts = engine.search.verdicts(*state.target)
    numbered = engine.number_statuses(state.target, searched, verdicts)
    absent = Status(ran.absent.code, ran.absent.reasons, " ".join(ran.plugins)) if ran.absent else PASSES
    statuses = {FITS: PASSES, LEFT_OUT: absent}
    for verdict in np.unique(verdicts[verdicts != FITS]).tolist():
        statuses[verdict] = explain_verdict(profile, state.shape, verdict, numbered)
    others = np.setdiff1d(rows, searched)
    kinds = np.concatenate([verdicts, np.full(len(others), LEFT_OUT, dtype=np.uint64)])
    filters = frozenset(profile.filter_names).difference(ran.skipped)
    return NodeVerdicts(np.concatenate([searched, others]), kinds, statuses, filters)


def free_amounts(scheduler: PodScheduler, resource: str) -> npt.NDArray[np.int64]:
    """Return what each row of the node table has free of a resource; never less than 0."""
    allocatable, requested = (scheduler.table.column(kind, resource) for kind in ("allocatable", "requested"))
    free: npt.NDArray[np.int64] = np.maximum(allocatable - requested, 0)
    return free


def checked_needs(scheduler: PodScheduler, pod: Pod) -> dict[str, int]:
    """Return the requests that NodeResourcesFit checks for a pod, with 1 for ``pods``.

    Returns
    -------
    dict of str to int
        Positive amounts, without those of devices; none if the profile of the pod does not have the filter.
    """
    classes, engine = scheduler.cache.state.classes, scheduler.context.engine_of(pod)
    shape = classes.shape_of(classes.intern(pod))
    filters: Sequence[Any] = engine.profile.at(FilterPlugin)
    fit = next((plugin for plugin in filters if plugin.name == FIT), None)
    if fit is None:
        return {}
    names, groups = (fit.args.get(key) or () for key in ("ignoredResources", "ignoredResourceGroups"))
    ignored = engine.profile.delegated_resources().union(names)
    checked = {
        name: need
        for name, need in shape.needs.items()
        if need > 0 and name not in ignored and name.partition("/")[0] not in groups
    }
    return checked | {"pods": 1}
