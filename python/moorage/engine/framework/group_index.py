"""PodGroups: index of the pod groups of a cluster, of the composite groups over them, and of their pods."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import is_not
from typing import Any

from moorage._core.base.fields import disrupted_whole, unfinished_group_of
from moorage._core.base.watch_events import keys_of
from moorage.kube import AnyGroup, CompositePodGroup, Pod, PodGroup, UnitKey, group_of
from moorage.kube.model.pod_group import COMPOSITE, unit_name

from .handle import FrameworkHandle

INDEX, CHILDREN = "podGroup", "parentCompositePodGroup"
OF_COMPOSITE = f"{COMPOSITE}/"


def _by_parent(group: AnyGroup) -> tuple[str, ...]:
    return () if group.parent is None else ("/".join(group.parent),)


def is_composite(key: UnitKey) -> bool:
    """Whether a key is that of a composite pod group."""
    return key[1].startswith(OF_COMPOSITE)


def _are_alike(group: AnyGroup | None, other: AnyGroup | None) -> bool:
    """Whether two states of a group, None for none, differ at most in status and resource version."""
    if group is other or group is None or other is None:
        return group is other
    mine, theirs = group.metadata, other.metadata
    is_same = mine.uid == theirs.uid and mine.creation_timestamp == theirs.creation_timestamp
    return is_same and group.api_version == other.api_version and group.spec == other.spec


class FollowedGroups:
    """The groups of one kind, without what conditions and the resource version change.

    Attributes
    ----------
    log : KeyLog
        Of their changes, those of conditions included.
    """

    def __init__(self, indexer: Any) -> None:
        self._indexer, self.log = indexer, indexer.follow()
        self._read = -1
        self._known: dict[str, AnyGroup] = {}

    def changed(self) -> list[str] | None:
        """Return the keys of the groups that came, went or got another specification since the last call.

        Returns
        -------
        list of str or None
            None where any group may have.
        """
        keys, self._read = self.log.since(self._read), self.log.head
        if keys is None:
            groups = self._indexer.identities()
            self._known = dict(zip(keys_of(groups), groups, strict=True))
            return None
        known = self._known
        changed: list[str] = []
        groups = self._indexer.identities_of(keys)
        is_other = list(map(is_not, map(known.get, keys), groups))
        for key, group in compress(zip(keys, groups, strict=True), is_other):
            if not _are_alike(known.get(key), group):
                changed.append(key)
            if group is not None:
                known[key] = group
            else:
                known.pop(key, None)
        return changed


@dataclass(frozen=True, slots=True)
class GroupTree:
    """A pod group, or a composite one with the groups in it.

    Attributes
    ----------
    group : PodGroup or CompositePodGroup or None
        Its conditions and resource version may be of an earlier state. None where no object has the key.
    children : tuple of GroupTree
        The groups of a composite group, the oldest first.
    leaves : tuple of UnitKey
        The keys of the pod groups, in order.
    is_bound : bool
        Whether the group, or one below it, is bound to a topology.
    minimum : int
        Number of pods, or of groups of a composite group, that it needs; at least 1.
    """

    key: UnitKey
    group: AnyGroup | None
    children: tuple[GroupTree, ...] = ()
    leaves: tuple[UnitKey, ...] = field(init=False)
    is_bound: bool = field(init=False)
    minimum: int = field(init=False)

    def __post_init__(self) -> None:
        is_bound = self.group is not None and bool(self.group.topology_keys)
        object.__setattr__(self, "minimum", 1 if self.group is None else max(1, self.group.min_count))
        object.__setattr__(self, "is_bound", is_bound or any(child.is_bound for child in self.children))
        below = chain.from_iterable(child.leaves for child in self.children)
        object.__setattr__(self, "leaves", tuple(below) if is_composite(self.key) else (self.key,))

    def __iter__(self) -> Iterator[GroupTree]:
        """Iterate over the tree, each group before those in it."""
        yield self
        for child in self.children:
            yield from child

    def has_enough(self, pods: Mapping[UnitKey, int]) -> bool:
        """Whether the group and all groups below it that count have what they need.

        Parameters
        ----------
        pods : mapping of UnitKey to int
            Number of pods by pod group.
        """
        count = pods.get(self.key, 0)
        for child in self.children:
            count += child.has_enough(pods)
        return count >= self.minimum

    def succeeds_whole(self, pending: Mapping[UnitKey, int], placed: Mapping[UnitKey, int]) -> bool:
        """Whether all groups of a tree that have pods to place would succeed if each of these pods were
        placed.

        Parameters
        ----------
        pending, placed : mapping of UnitKey to int
            Number of pods by pod group.
        """
        then = Counter(pending)
        then.update(placed)
        waiting = (group for group in self if group is self or any(map(pending.get, group.leaves)))
        return all(group.has_enough(then) for group in waiting)


class PodGroups:
    """The pod groups known to the informers, with an index of their pods.

    Plugins of a scheduler share one instance through `FrameworkHandle.shared`. A pod group that names a
    composite group belongs to a tree, whose pods are scheduled together.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._cluster = handle.cache.state
        self._groups = handle.informers.informer(PodGroup).indexer
        self._composites = handle.informers.informer(CompositePodGroup).indexer
        self._pods = handle.informers.informer(Pod).indexer
        self._pods.add_index(INDEX, unfinished_group_of, is_lasting=True)
        self._groups.add_index(CHILDREN, _by_parent, is_lasting=True)
        self._composites.add_index(CHILDREN, _by_parent, is_lasting=True)
        self._followed = FollowedGroups(self._groups), FollowedGroups(self._composites)
        self._heads = -1, -1
        self._version = 0
        self._has_trees = handle.has_trees
        self.ranks_members = not handle.release.members_are_pods
        self._whole: Mapping[UnitKey, int] = {}
        self._evicted_with: Mapping[UnitKey, UnitKey] = {}
        self._lowest = math.inf
        self._priorities: dict[UnitKey, int | None] = {}  # of pod groups that have not changed since
        self._read = -1  # the version of these two and `_lowest`
        self._complete: dict[UnitKey, bool] = {}  # as of the change `_completed` of pods and of `_version`
        self._completed = -1
        self._leaving: UnitKey | None = None  # see `counting`
        self._trees: dict[UnitKey, GroupTree] = {}  # as of `_version`; so are `_roots` and `_leaves`
        self._roots: dict[UnitKey, UnitKey | None] = {}
        self._leaves: dict[UnitKey, tuple[UnitKey, ...]] = {}

    @contextmanager
    def counting(self, pod: Pod) -> Iterator[None]:
        """Count a pod that is deleted among those of its group, while it leaves the queue: upstream asks
        PreEnqueue about the others before it forgets the pod.
        """
        self._leaving = group_of(pod) if unfinished_group_of(pod) else None
        self._completed = -1
        try:
            yield
        finally:
            self._leaving, self._completed = None, -1

    def _follow(self) -> None:
        """Forget what was found of groups, if one has changed since in more than its conditions."""
        groups, composites = self._followed
        heads = groups.log.head, composites.log.head
        if self._heads == heads:
            return
        self._heads = heads
        changed, others = groups.changed(), composites.changed()
        known_units = self._priorities
        is_known = changed is None or any(tuple(key.split("/", 1)) in known_units for key in changed)
        if others is None or others or is_known:
            self._priorities = {}
        if changed is None or others is None or changed or others:
            self._version += 1
            self._trees, self._roots, self._leaves, self._complete = {}, {}, {}, {}

    def get(self, key: UnitKey) -> AnyGroup | None:
        """Return a pod group, or None if it does not exist."""
        groups, name = self._named(key)
        group: AnyGroup | None = groups.get(name)
        return group

    def known(self, key: UnitKey) -> AnyGroup | None:
        """Return a pod group as `get` does, with conditions and a resource version of any earlier state."""
        groups, name = self._named(key)
        group: AnyGroup | None = groups.identity(name)
        return group

    def _named(self, key: UnitKey) -> tuple[Any, str]:
        """Return the groups of the kind of a group, and its key among them."""
        return self._composites if is_composite(key) else self._groups, unit_name(key)

    # ---- trees ---------------------------------------------------------------------------------------------

    def ancestors(self, key: UnitKey) -> list[UnitKey]:
        """Return the composite groups that a group belongs to, directly and by others.

        Returns
        -------
        list of UnitKey
            From the parent upwards. The last one may not exist; one that comes again is in a cycle, and ends
            the list.
        """
        ancestors: list[UnitKey] = []
        above = self.parent(self.known(key))
        while above is not None:
            ancestors.append(above)
            if above in ancestors[:-1]:
                break
            above = self.parent(self.known(above))
        return ancestors

    def parent(self, group: AnyGroup | None) -> UnitKey | None:
        """Return the composite group that a group belongs to; None for none, and without the gate for
        them.
        """
        return group.parent if group is not None and self._has_trees else None

    def root(self, key: UnitKey) -> UnitKey | None:
        """Return the group at the top of the tree that a group belongs to.

        Returns
        -------
        UnitKey or None
            None if the tree has no top: a group does not exist, or belongs to itself.
        """
        self._follow()
        if key not in self._roots:
            above = self.ancestors(key)
            top = above[-1] if above else key
            group = self.known(top)
            self._roots[key] = top if group is not None and self.parent(group) is None else None
        return self._roots[key]

    def top(self, key: UnitKey) -> UnitKey:
        """Return the group whose pods are tried together with those of a group.

        Returns
        -------
        UnitKey
            See `root`; the group itself, where its tree has no top.
        """
        self._follow()
        return self._roots.get(key) or self.root(key) or key

    def children(self, key: UnitKey) -> list[AnyGroup]:
        """Return the groups that belong to a composite group directly.

        Returns
        -------
        list of PodGroup or CompositePodGroup
            The oldest first, then by name and kind. Their conditions may be of an earlier state.
        """
        value, kinds = "/".join(key), (self._groups, self._composites)
        groups = [group for kind in kinds for group in kind.identities_by_index(CHILDREN, value)]
        return sorted(
            groups, key=lambda group: (group.metadata.creation_timestamp or "", group.name, group.kind)
        )

    def tree(self, key: UnitKey) -> GroupTree:
        """Return a group with the groups that belong to it.

        Parameters
        ----------
        key : UnitKey
            Of a group at the top of its tree, or of a pod group.
        """
        self._follow()
        known = self._trees.get(key)
        if known is None:
            children = [self.tree(child.unit) for child in self.children(key)] if is_composite(key) else ()
            known = self._trees[key] = GroupTree(key, self.known(key), tuple(children))
        return known

    def tree_of(self, group: AnyGroup) -> GroupTree:
        """Return the tree of a group, which need not be known.

        Parameters
        ----------
        group : PodGroup or CompositePodGroup
            Of a pod group, this specification counts.
        """
        tree = self.tree(group.unit)
        is_known = tree.group is not None and (tree.children or tree.group.spec == group.spec)
        return tree if is_known else GroupTree(group.unit, group, tree.children)

    def leaves(self, key: UnitKey) -> Sequence[UnitKey]:
        """Return the pod groups below a composite group, level by level, or the pod group itself."""
        if not is_composite(key):
            return (key,)
        self._follow()
        if (known := self._leaves.get(key)) is not None:
            return known
        leaves, stack, seen = list[UnitKey](), [key], set[UnitKey]()
        while stack:
            at = stack.pop(0)
            if not is_composite(at):
                leaves.append(at)
            elif at not in seen:
                seen.add(at)
                stack += [child.unit for child in self.children(at)]
        known = self._leaves[key] = tuple(leaves)
        return known

    def affected(self, group: AnyGroup) -> list[UnitKey]:
        """Return the keys of the groups whose pods may belong to another tree, as a group came or went."""
        parent = self.parent(group)
        above = [] if parent is None else [parent, self.top(parent)]
        return [group.unit, *self.leaves(group.unit), *above]

    # ---- eviction as a whole -------------------------------------------------------------------------------

    @property
    def whole(self) -> Mapping[UnitKey, int]:
        """Priority by group, of the groups whose pods are only evicted together; a group that belongs to such
        a group is none of them."""
        self._refresh()
        return self._whole

    @property
    def evicted_with(self) -> Mapping[UnitKey, UnitKey]:
        """By pod group whose pods are only evicted with others, the group in `whole` that has them."""
        self._refresh()
        return self._evicted_with

    @property
    def lowest_priority(self) -> float:
        """The lowest priority of any group; infinity without groups."""
        self._refresh()
        return self._lowest

    def priorities(self) -> dict[UnitKey, int | None]:
        """Return what is known by `priority_of`: another object whenever an answer may have changed."""
        self._follow()
        return self._priorities

    def priority_of(self, key: UnitKey) -> int | None:
        """Return the priority with which pods of a pod group are evicted: that of the group at the top.

        Returns
        -------
        int or None
            None for that of each pod itself: the group does not exist, or is not asked.
        """
        known = self.priorities()
        if not self.ranks_members:
            return None
        if key not in known:
            known[key] = self._priority_above(key)
        return known[key]

    def _priority_above(self, key: UnitKey) -> int | None:
        """Return the priority of the group at the top of the tree of a group."""
        group = self.known(key)
        for above in self.ancestors(key):
            group = self.known(above) or group
        return None if group is None else group.spec.priority or 0

    def _refresh(self) -> None:
        self._follow()
        if self._read == self._version:
            return
        self._read = self._version
        groups = self._groups.identities()
        composites = self._composites.identities() if self._has_trees else ()
        whole, self._lowest = disrupted_whole((*groups, *composites))
        priority = {group.unit: group.spec.priority or 0 for group in whole}
        evicted_with = {unit: unit for unit in priority}
        if priority and composites:
            evicted_with = {}
            for group in groups:
                above = [
                    ancestor for ancestor in (group.unit, *self.ancestors(group.unit)) if ancestor in priority
                ]
                evicted_with.update({group.unit: above[-1]} if above else {})
            priority = {unit: self._priority_above(leaf) or 0 for leaf, unit in evicted_with.items()}
        self._whole, self._evicted_with = priority, evicted_with

    # ---- pods ----------------------------------------------------------------------------------------------

    def size(self, key: UnitKey) -> int:
        """Return the number of pods of a pod group that have not finished."""
        count: int = self._pods.count(INDEX, "/".join(key))
        return count + (key == self._leaving)

    def is_complete(self, root: UnitKey) -> bool:
        """Whether a tree has the pods and groups that it needs."""
        tree, changes = self.tree(root), self._pods.changes
        if self._completed != changes:
            self._completed, self._complete = changes, {}
        known = self._complete.get(root)
        if known is None:
            known = tree.has_enough({leaf: self.size(leaf) for leaf in tree.leaves})
            self._complete[root] = known
        return known

    def pending(self, key: UnitKey) -> list[Pod]:
        """Return the pods of a group that have no node and are not being deleted.

        The order is by priority, then by age, then by name.

        Returns
        -------
        list of Pod
            Of a composite group, one pod group after the other.
        """
        if is_composite(key):
            return [pod for leaf in self.tree(key).leaves for pod in self.pending(leaf)]
        pods = [
            pod
            for pod in self.members(key)
            if not (pod.spec.node_name or pod.metadata.deletion_timestamp or self._cluster.has_pod(pod))
        ]
        return sorted(
            pods, key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.name)
        )

    def members(self, key: UnitKey) -> list[Pod]:
        """Return the pods of a group that have not finished."""
        leaves = self.leaves(key)
        return [pod for leaf in leaves for pod in self._pods.by_index(INDEX, "/".join(leaf))]

    def uids(self, key: UnitKey) -> list[str]:
        """Return the UIDs of the pods of a group that have not finished."""
        values = ["/".join(leaf) for leaf in self.leaves(key)]
        return [pod.metadata.uid for value in values for pod in self._pods.identities_by_index(INDEX, value)]

    def scheduled(self, *keys: UnitKey) -> list[list[Pod]]:
        """Return the pods of groups that have a node or are assumed."""
        leaves = [self.leaves(key) for key in keys]
        values = map("/".join, chain.from_iterable(leaves))
        pods = iter(self._pods.select(INDEX, values, self._cluster.has_pod))
        return [[pod for _ in of_group for pod in next(pods)] for of_group in leaves]
