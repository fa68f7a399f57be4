"""Why pods, or groups of a tree, cannot be scheduled together (kube-scheduler v1.38,
schedule_one_podgroup.go validatePodGroupHierarchy; v1.37, validatePodGroup).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moorage.kube import AnyGroup, CompositePodGroup, Pod
from moorage.kube.model.pod import PREEMPTS
from moorage.kube.model.pod_group import group_of

from ..framework.group_index import GroupTree
from .scheduler_state import SchedulerState

IN_GROUP, IN_HIERARCHY = "all pods in a single pod group", "all pods in a pod group hierarchy"
OTHER_SCHEDULER = "{} should have the same .spec.schedulerName set, got: {} and {}"
SAME_PRIORITY = "should have the same priority as the"
OTHER_PRIORITY = "{} " + SAME_PRIORITY + " {}pod group's priority, got {} and {}"
OTHER_POLICY = "{} should have the same preemption policy, got {} and {}"
DEFAULT = "default-scheduler"
DEEPEST = 4
"""The deepest level of a tree, which only has pod groups; the root is on the first."""
TOO_DEEP = "hierarchy depth exceeds maximum allowed depth {} at {}"
OTHER_WORKLOAD = "pod group workload does not match root workload, got: {} and {}"
BASIC_BELOW_GANG = "gang parent {} cannot have basic child {}"
SINGLE_BELOW_ALL = "parent {} with All disruption mode cannot have child {} with Single disruption mode"


def why_invalid(context: SchedulerState, group: AnyGroup, pods: Sequence[Pod]) -> str:
    """Return why pods cannot form a group; "" if they can.

    Parameters
    ----------
    group : PodGroup or CompositePodGroup
        At the top of its tree.
    pods : sequence of Pod
        The pending ones before those that have a node.
    """
    release = context.handle.release
    if not release.hierarchies_are_validated:
        return next(_problems_of_pods(group, pods, pods, is_named=False), "")
    return next(_problems_of_tree(context.groups.tree_of(group), group, pods), "")


def _problems_of_tree(
    member: GroupTree, root: AnyGroup, pods: Sequence[Pod], above: AnyGroup | None = None, depth: int = 1
) -> Iterator[str]:
    """Yield what is wrong with a group of a tree and with its pods, and with the groups below it."""
    group = member.group
    if group is None:
        return
    if above is not None:
        yield from _problems_of_group(group, root, _policy(root, pods), above)
    if isinstance(group, CompositePodGroup):
        if depth == DEEPEST:
            yield TOO_DEEP.format(DEEPEST, _named(group))
        for child in member.children:
            yield from _problems_of_tree(child, root, pods, group, depth + 1)
    else:
        yield from _problems_of_pods(root, pods, [pod for pod in pods if group_of(pod) == member.key])


def _problems_of_group(group: AnyGroup, root: AnyGroup, expected: str, above: AnyGroup) -> Iterator[str]:
    own, top = _named(group), _named(root)
    if _workload(group) != _workload(root):
        yield OTHER_WORKLOAD.format(*(f'"{_workload(each)}" ({_named(each)})' for each in (group, root)))
    if (group.spec.priority or 0) != (root.spec.priority or 0):
        priorities = f"{group.spec.priority or 0} ({own})", f"{root.spec.priority or 0} ({top})"
        yield OTHER_PRIORITY.format("all pod groups in a hierarchy", "root ", *priorities)
    if (policy := group.spec.preemption_policy) and policy != expected:
        yield OTHER_POLICY.format("all pod groups in a hierarchy", f"{policy} ({own})", expected)
    policies = above.spec.scheduling_policy, group.spec.scheduling_policy
    if policies[0] and policies[0].gang and policies[1] and policies[1].basic:
        yield BASIC_BELOW_GANG.format(_named(above), own)
    modes = above.spec.disruption_mode, group.spec.disruption_mode
    if modes[0] and modes[0].all and modes[1] and modes[1].single:
        yield SINGLE_BELOW_ALL.format(_named(above), own)


def _problems_of_pods(
    root: AnyGroup, pods: Sequence[Pod], own: Sequence[Pod], is_named: bool = True
) -> Iterator[str]:
    """Yield what is wrong with pods of a group.

    Parameters
    ----------
    pods : sequence of Pod
        Those of the whole tree: all are to be like the first.
    is_named : bool
        Whether texts name pods and groups, and the policy of the root counts, as in v1.38.
    """
    policy = _policy(root, pods) if is_named else pods[0].spec.preemption_policy or PREEMPTS if pods else ""
    whose, level = (IN_HIERARCHY, "root ") if is_named else (IN_GROUP, "")

    def named(value: object, name: str) -> str:
        return f"{value} ({name})" if is_named else str(value)

    for pod in own:
        spec, first, name = pod.spec, pods[0], f'"{pod.name}"'
        if spec.scheduler_name != first.spec.scheduler_name:
            schedulers = [
                named(f'"{each.spec.scheduler_name or DEFAULT}"', f'"{each.name}"') for each in (pod, first)
            ]
            yield OTHER_SCHEDULER.format(whose, *schedulers)
        if (spec.priority or 0) != (root.spec.priority or 0):
            priorities = named(spec.priority or 0, name), named(root.spec.priority or 0, _named(root))
            yield OTHER_PRIORITY.format(whose, level, *priorities)
        if (own_policy := spec.preemption_policy or PREEMPTS) != policy:
            yield OTHER_POLICY.format(whose, named(own_policy, name), policy)


def _policy(root: AnyGroup, pods: Sequence[Pod]) -> str:
    """The preemption policy of a tree: that of its root, or else of its first pod."""
    return root.spec.preemption_policy or (pods[0].spec.preemption_policy if pods else "") or PREEMPTS


def _workload(group: AnyGroup) -> str:
    return group.spec.workload_ref.workload_name if group.spec.workload_ref is not None else ""


def _named(group: AnyGroup) -> str:
    """The kind and name of a group, as messages have it."""
    return f'"{group.kind.lower()}/{group.key}"'
