"""What Kueue refuses of its own kinds: the rules of its CRDs, and then those of its webhooks (v0.17,
pkg/webhooks), in its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from moorage._core.base.quantity import Quantity

from ..model.kueue import (
    ANY,
    BEST_EFFORT,
    DRAIN,
    HOLD,
    LOWER,
    NEVER,
    NEWER,
    NEXT,
    RUN,
    STOP,
    STRICT,
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    FairSharing,
    LocalQueue,
    PodSet,
    ResourceGroup,
    Topology,
    TopologyLevel,
    Workload,
)
from ..model.meta import Object, QuantityLike
from ..model.node import HOSTNAME
from ..model.workload import MIN_PARALLELISM, Job
from ..workloads.ownership import has_made_up_uid

_NEGATIVE = "must be greater than or equal to 0"
_STOPS = (RUN, HOLD, DRAIN)
_PREFERENCES = ("BorrowingOverPreemption", "PreemptionOverBorrowing")


def refusals(obj: Object) -> list[str]:
    """Return why a cluster with Kueue refuses an object of its kinds; none if it takes it.

    Parameters
    ----------
    obj : Object
        Of any kind.

    Returns
    -------
    list of str
        Each begins with the path of the field.
    """
    if isinstance(obj, ClusterQueue):
        return [*_of_schema(obj.spec)] or [*_of_queue(obj.spec)]
    if isinstance(obj, Cohort):
        groups = _of_groups(obj.spec.resource_groups, obj.spec.parent_name, "parent")
        return [*_of_sizes(obj.spec.resource_groups)] or [*_of_weight(obj.spec.fair_sharing), *groups]
    if isinstance(obj, LocalQueue):
        return [*_unsupported("spec.stopPolicy", obj.spec.stop_policy, _STOPS)]
    if isinstance(obj, Topology):
        return [*_of_levels(obj.spec.levels)]
    if isinstance(obj, Job):
        return [*_of_job(obj)]
    return [*_of_workload(obj)] if isinstance(obj, Workload) else []


def _invalid(path: str, value: object, text: str) -> str:
    return f"{path}: Invalid value: {msgspec.json.encode(value).decode()}: {text}"


def _unsupported(path: str, value: str, allowed: Iterable[str]) -> Iterator[str]:
    if value not in allowed:
        known = ", ".join([f'"{each}"' for each in allowed])
        yield f'{path}: Unsupported value: "{value}": supported values: {known}'


def _of_schema(spec: ClusterQueueSpec) -> Iterator[str]:
    """Yield what the CRD of ClusterQueues refuses."""
    fungibility, preemption = spec.flavor_fungibility, spec.preemption
    borrowing = preemption.borrow_within_cohort
    for path, value, allowed in (
        ("queueingStrategy", spec.queueing_strategy, (STRICT, BEST_EFFORT)),
        ("stopPolicy", spec.stop_policy, _STOPS),
        ("flavorFungibility.whenCanBorrow", fungibility.when_can_borrow, (STOP, NEXT)),
        ("flavorFungibility.whenCanPreempt", fungibility.when_can_preempt, (STOP, NEXT)),
        ("flavorFungibility.preference", fungibility.preference or _PREFERENCES[0], _PREFERENCES),
        ("preemption.borrowWithinCohort.policy", borrowing.policy, (NEVER, LOWER)),
        ("preemption.reclaimWithinCohort", preemption.reclaim_within_cohort, (NEVER, LOWER, ANY)),
        ("preemption.withinClusterQueue", preemption.within_cluster_queue, (NEVER, LOWER, NEWER)),
    ):
        yield from _unsupported(f"spec.{path}", value, allowed)
    if fungibility.preference and (fungibility.when_can_borrow, fungibility.when_can_preempt) != (NEXT, NEXT):
        text = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"
        yield _invalid("spec.flavorFungibility", "object", text)
    if preemption.reclaim_within_cohort == NEVER and borrowing.policy not in (NEVER, ""):
        text = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        yield _invalid("spec.preemption", "object", text)
    yield from _of_sizes(spec.resource_groups)


def _of_sizes(groups: Iterable[ResourceGroup]) -> Iterator[str]:
    for at, group in enumerate(groups):
        if any(len(each.resources) != len(group.covered_resources) for each in group.flavors):
            text = "flavors must have the same number of resources as the coveredResources"
            yield _invalid(f"spec.resourceGroups[{at}]", "object", text)


def _of_queue(spec: ClusterQueueSpec) -> Iterator[str]:
    yield from _of_groups(spec.resource_groups, spec.cohort_name, "cohort")
    yield from _of_weight(spec.fair_sharing)


def _of_weight(sharing: FairSharing) -> Iterator[str]:
    if sharing.weight is not None and Quantity(sharing.weight).sign() < 0:
        yield _invalid("spec.fairSharing", str(Quantity(sharing.weight)), _NEGATIVE)


def _of_groups(groups: Iterable[ResourceGroup], parent: str, what: str) -> Iterator[str]:
    """Yield what is wrong with quotas; `what` is what the node would have above it."""
    resources: set[str] = set()
    flavors: set[str] = set()
    for at, group in enumerate(groups):
        path = f"spec.resourceGroups[{at}]"
        for index, name in enumerate(group.covered_resources):
            if name in resources:
                yield f'{path}.coveredResources[{index}]: Duplicate value: "{name}"'
            resources.add(name)
        for index, flavor in enumerate(group.flavors):
            where, is_queue = f"{path}.flavors[{index}]", what == "cohort"
            yield from _of_quotas(group, index, where, "" if parent else what, is_queue)
            if flavor.name in flavors:
                yield f'{path}.flavors[{index}].name: Duplicate value: "{flavor.name}"'
            flavors.add(flavor.name)


def _of_quotas(group: ResourceGroup, index: int, path: str, lacks: str, is_queue: bool) -> Iterator[str]:
    """Yield what is wrong with the quotas of a flavor; `lacks` is what limits need and there is not."""
    for at, (quota, name) in enumerate(
        zip(group.flavors[index].resources, group.covered_resources, strict=False)
    ):
        where = f"{path}.resources[{at}]"
        if quota.name != name:
            yield _invalid(f"{where}.name", quota.name, "must match the name in coveredResources")
        yield from _negative(f"{where}.nominalQuota", quota.nominal_quota)
        limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
        for field, limit in limits.items():
            if limit is not None:
                if lacks:
                    text = f"must be nil when {lacks} is empty"
                    yield _invalid(f"{where}.{field}", str(Quantity(limit)), text)
                yield from _negative(f"{where}.{field}", limit)
        lending = quota.lending_limit
        if is_queue and lending is not None and Quantity(lending) > Quantity(quota.nominal_quota):
            text = "must be less than or equal to the nominalQuota"
            yield _invalid(f"{where}.lendingLimit", str(Quantity(lending)), text)


def _negative(path: str, amount: QuantityLike) -> Iterator[str]:
    if Quantity(amount).sign() < 0:
        yield _invalid(path, str(Quantity(amount)), _NEGATIVE)


def _of_levels(levels: Sequence[TopologyLevel]) -> Iterator[str]:
    if not levels:
        yield _invalid("spec.levels", 0, "spec.levels in body should have at least 1 items")
    for at, level in enumerate(levels):
        if not level.node_label:
            yield f"spec.levels[{at}].nodeLabel: Required value"
    if len({*levels}) < len(levels):
        yield _invalid("spec.levels", "array", "must be unique")
    if any(level.node_label == HOSTNAME for level in levels[:-1]):
        text = f"the {HOSTNAME} label can only be used at the lowest level of topology"
        yield _invalid("spec.levels", "array", text)


def _of_job(job: Job) -> Iterator[str]:
    """Yield what is wrong with how many pods of a new Job have to be admitted."""
    least = job.metadata.annotations.get(MIN_PARALLELISM)
    if least is None or (job.metadata.uid and not has_made_up_uid(job)):
        return
    pods = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is not None:
        pods = min(pods, job.spec.completions)
    path = f"metadata.annotations[{MIN_PARALLELISM}]"
    if re.fullmatch(r"[+-]?[0-9]{1,18}", least) is None:
        yield _invalid(path, least, f'strconv.Atoi: parsing "{least}": invalid syntax')
    elif not 0 < int(least) < pods:
        yield _invalid(path, int(least), f"should be between 0 and {pods - 1}")


def _of_workload(workload: Workload) -> Iterator[str]:
    variable = [each for each in workload.spec.pod_sets if each.min_count is not None]
    for at, each in enumerate(workload.spec.pod_sets):
        if each.min_count is not None and each.min_count > each.count:
            text = "minCount should be positive and less or equal to count"
            yield _invalid(f"spec.podSets[{at}]", "object", text)
        yield from _of_pods(each, f"spec.podSets[{at}].template.spec")
    if len(variable) > 1:
        yield _invalid("spec.podSets", len(variable), "at most one podSet can use minCount")


def _of_pods(pod_set: PodSet, path: str) -> Iterator[str]:
    spec = pod_set.template.spec
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for at, container in enumerate(containers):
            if "pods" in container.resources.requests:
                where = f"{path}.{field}[{at}].resources.requests[pods]"
                yield _invalid(where, "pods", "the key is reserved for internal kueue use")
