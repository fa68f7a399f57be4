"""What Kueue refuses of its own kinds: the rules of its CRDs, and then those of its webhooks (v0.17,
pkg/webhooks), in its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from moorage._core.base.quantity import Quantity

from ..field_errors import Fault, duplicate, invalid
from ..model.kueue import (
    NEVER,
    NEXT,
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    PodSet,
    ResourceGroup,
    Topology,
    TopologyLevel,
    Workload,
)
from ..model.meta import Object
from ..model.node import HOSTNAME
from ..model.workload import MIN_PARALLELISM, Job
from ..workloads.ownership import has_made_up_uid


def refusals(obj: Object) -> Iterator[Fault]:
    """Yield why a cluster with Kueue refuses an object of its kinds, beside the rules of single fields.

    Parameters
    ----------
    obj : Object
        Of any kind.
    """
    if isinstance(obj, ClusterQueue):
        yield from _of_preemption(obj.spec)
        yield from _of_sizes(obj.spec.resource_groups)
        yield from _of_groups(obj.spec.resource_groups, obj.spec.cohort_name, "cohort")
    elif isinstance(obj, Cohort):
        yield from _of_sizes(obj.spec.resource_groups)
        yield from _of_groups(obj.spec.resource_groups, obj.spec.parent_name, "parent")
    elif isinstance(obj, Topology):
        yield from _of_levels(obj.spec.levels)
    elif isinstance(obj, Job):
        yield from _of_job(obj)
    elif isinstance(obj, Workload):
        yield from _of_workload(obj)


def _of_preemption(spec: ClusterQueueSpec) -> Iterator[Fault]:
    fungibility, preemption = spec.flavor_fungibility, spec.preemption
    if fungibility.preference and (fungibility.when_can_borrow, fungibility.when_can_preempt) != (NEXT, NEXT):
        text = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"
        yield Fault("spec.flavorFungibility", invalid("object", text))
    if preemption.reclaim_within_cohort == NEVER and preemption.borrow_within_cohort.policy not in (
        NEVER,
        "",
    ):
        text = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        yield Fault("spec.preemption", invalid("object", text))


def _of_sizes(groups: Iterable[ResourceGroup]) -> Iterator[Fault]:
    for at, group in enumerate(groups):
        if any(len(each.resources) != len(group.covered_resources) for each in group.flavors):
            text = "flavors must have the same number of resources as the coveredResources"
            yield Fault(f"spec.resourceGroups[{at}]", invalid("object", text))


def _of_groups(groups: Iterable[ResourceGroup], parent: str, what: str) -> Iterator[Fault]:
    """Yield what is wrong with quotas; `what` is what the node would have above it."""
    resources: set[str] = set()
    flavors: set[str] = set()
    for at, group in enumerate(groups):
        path = f"spec.resourceGroups[{at}]"
        for index, name in enumerate(group.covered_resources):
            if name in resources:
                yield Fault(f"{path}.coveredResources[{index}]", duplicate(name))
            resources.add(name)
        for index, flavor in enumerate(group.flavors):
            where, is_queue = f"{path}.flavors[{index}]", what == "cohort"
            yield from _of_quotas(group, index, where, "" if parent else what, is_queue)
            if flavor.name in flavors:
                yield Fault(f"{path}.flavors[{index}].name", duplicate(flavor.name))
            flavors.add(flavor.name)


def _of_quotas(group: ResourceGroup, index: int, path: str, lacks: str, is_queue: bool) -> Iterator[Fault]:
    """Yield what is wrong with the quotas of a flavor; `lacks` is what limits need and there is not."""
    for at, (quota, name) in enumerate(
        zip(group.flavors[index].resources, group.covered_resources, strict=False)
    ):
        where = f"{path}.resources[{at}]"
        if quota.name != name:
            yield Fault(f"{where}.name", invalid(quota.name, "must match the name in coveredResources"))
        limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
        for field, limit in limits.items():
            if limit is not None and lacks:
                text = f"must be nil when {lacks} is empty"
                yield Fault(f"{where}.{field}", invalid(str(Quantity(limit)), text))
        lending = quota.lending_limit
        if is_queue and lending is not None and Quantity(lending) > Quantity(quota.nominal_quota):
            text = "must be less than or equal to the nominalQuota"
            yield Fault(f"{where}.lendingLimit", invalid(str(Quantity(lending)), text))


def _of_levels(levels: Sequence[TopologyLevel]) -> Iterator[Fault]:
    if not levels:
        yield Fault("spec.levels", invalid(0, "spec.levels in body should have at least 1 items"))
    if len({*levels}) < len(levels):
        yield Fault("spec.levels", invalid("array", "must be unique"))
    if any(level.node_label == HOSTNAME for level in levels[:-1]):
        text = f"the {HOSTNAME} label can only be used at the lowest level of topology"
        yield Fault("spec.levels", invalid("array", text))


def _of_job(job: Job) -> Iterator[Fault]:
    """Yield what is wrong with how many pods of a new Job have to be admitted."""
    least = job.metadata.annotations.get(MIN_PARALLELISM)
    if least is None or (job.metadata.uid and not has_made_up_uid(job)):
        return
    pods = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is not None:
        pods = min(pods, job.spec.completions)
    path = f"metadata.annotations[{MIN_PARALLELISM}]"
    if re.fullmatch(r"[+-]?[0-9]{1,18}", least) is None:
        yield Fault(path, invalid(least, f'strconv.Atoi: parsing "{least}": invalid syntax'))
    elif not 0 < int(least) < pods:
        yield Fault(path, invalid(int(least), f"should be between 0 and {pods - 1}"))


def _of_workload(workload: Workload) -> Iterator[Fault]:
    variable = [each for each in workload.spec.pod_sets if each.min_count is not None]
    for at, each in enumerate(workload.spec.pod_sets):
        if each.min_count is not None and each.min_count > each.count:
            text = "minCount should be positive and less or equal to count"
            yield Fault(f"spec.podSets[{at}]", invalid("object", text))
        yield from _of_pods(each, f"spec.podSets[{at}].template.spec")
    if len(variable) > 1:
        yield Fault("spec.podSets", invalid(len(variable), "at most one podSet can use minCount"))


def _of_pods(pod_set: PodSet, path: str) -> Iterator[Fault]:
    spec = pod_set.template.spec
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for at, container in enumerate(containers):
            if "pods" in container.resources.requests:
                where = f"{path}.{field}[{at}].resources.requests[pods]"
                yield Fault(where, invalid("pods", "the key is reserved for internal kueue use"))
