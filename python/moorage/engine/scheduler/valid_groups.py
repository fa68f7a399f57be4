"""Why pods, or groups of a tree, cannot be scheduled together (kube-scheduler v1.38,
schedule_one_podgroup.go validatePodGroupHierarchy; v1.37, validatePodGroup).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moorage.kube import AnyGroup, CompositePodGroup, Pod

from ..framework.group_index import GroupTree
from .scheduler_state import SchedulerState

IN_GROUP, IN_HIERARCHY = "all pods in a single pod group", "all pods in a pod group hierarchy"
OTHER_SCHEDULER = "{} should have the same .spec.schedulerName set, got: {} and {}"
SAME_PRIORITY = "should have the same priority as the"
OTHER_PRIORITY = "{} " + SAME_PRIORITY + " {}pod group's priority, got {} and {}"
OTHER_POLICY = "{} should have the same preemption policy, got {} and {}"
DEFAULT, PREEMPTS = "default-scheduler", "PreemptLowerPriority"
DEEPEST = 4
"""The deepest level of a tree, which only has pod groups; the root is on the first."""
TOO_DEEP = "pod group hierarchy of {} is deeper than {} levels"
OTHER_WORKLOAD = "pod group workload does not match root workload, got: {} and {}"
BASIC_BELOW_GANG = "gang parent {} cannot have basic child {}"
SINGLE_BELOW_ALL = "all parent {} cannot have single child {}"


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
        return _why_pods_invalid(group, pods, is_named=False)
    tree = context.groups.tree_of(group)
    problem = next(_problems_of_groups(tree, group, tree), "")
    return problem or _why_pods_invalid(group, pods, is_named=True)


def _problems_of_groups(
    tree: GroupTree, root: AnyGroup, member: GroupTree, above: AnyGroup | None = None, depth: int = 1
) -> Iterator[str]:
    """Yield what is wrong with a group of a tree, and with those below it."""
    group = member.group
    if group is None:
        return
    own, top = _named(group), _named(root)
    if depth > DEEPEST or (depth == DEEPEST and isinstance(group, CompositePodGroup)):
        yield TOO_DEEP.format(top, DEEPEST)
    if above is not None:
        names = [f'"{_workload(each)}" ({name})' for each, name in ((group, own), (root, top))]
        if _workload(group) != _workload(root):
            yield OTHER_WORKLOAD.format(*names)
        priorities = [f"{each.spec.priority or 0} ({name})" for each, name in ((group, own), (root, top))]
        if (group.spec.priority or 0) != (root.spec.priority or 0):
            yield OTHER_PRIORITY.format("all pod groups in a hierarchy", "root ", *priorities)
        policy, expected = group.spec.preemption_policy, root.spec.preemption_policy
        if policy and policy != (expected or policy):
            yield OTHER_POLICY.format("all pod groups in a hierarchy", f"{policy} ({own})", expected)
        policies = above.spec.scheduling_policy, group.spec.scheduling_policy
        if policies[0] and policies[0].gang and policies[1] and policies[1].basic:
            yield BASIC_BELOW_GANG.format(_named(above), own)
        modes = above.spec.disruption_mode, group.spec.disruption_mode
        if modes[0] and modes[0].all and modes[1] and modes[1].single:
            yield SINGLE_BELOW_ALL.format(_named(above), own)
    for child in member.children:
        yield from _problems_of_groups(tree, root, child, group, depth + 1)


def _why_pods_invalid(group: AnyGroup, pods: Sequence[Pod], is_named: bool) -> str:
    """Return what is wrong with the pods of a group; `is_named`: in the words of v1.38."""
    if not pods:
        return ""
    priority, first = group.spec.priority or 0, pods[0].spec
    policy = (group.spec.preemption_policy if is_named else None) or first.preemption_policy or PREEMPTS
    whose, root = (IN_HIERARCHY, "root ") if is_named else (IN_GROUP, "")
    for pod in pods:
        spec, name = pod.spec, f' ("{pod.name}")' if is_named else ""
        if spec.scheduler_name != first.scheduler_name:
            names = [f'"{each.scheduler_name or DEFAULT}"' for each in (spec, first)]
            return OTHER_SCHEDULER.format(whose, names[0] + name, names[1])
        if (spec.priority or 0) != priority:
            top = f" ({_named(group)})" if is_named else ""
            return OTHER_PRIORITY.format(whose, root, f"{spec.priority or 0}{name}", f"{priority}{top}")
        if (spec.preemption_policy or PREEMPTS) != policy:
            return OTHER_POLICY.format(whose, f"{spec.preemption_policy or PREEMPTS}{name}", policy)
    return ""


def _workload(group: AnyGroup) -> str:
    return group.spec.workload_ref.workload_name if group.spec.workload_ref is not None else ""


def _named(group: AnyGroup) -> str:
    """The kind and name of a group, as messages have it."""
    return f'"{group.kind.lower()}/{group.key}"'
