# cython: auto_pickle=False
"""RunningPods: an index of the assumed and bound pods of each scheduling unit (Gödel's pod group or pod)."""

from functools import partial

from moorage._core.binder.binder_store cimport BinderStore
from moorage._core.base cimport ANNOTATIONS, METADATA, NAMESPACE, SPEC, UID, Field
from moorage._core.state cimport ClusterState

cdef Field NAME = Field("name"), SCHEDULING_GROUP = Field("scheduling_group")


cdef class RunningPods(BinderStore):
    """The assumed and bound pods of each unit. A unit is a pod group, or a single pod.

    Parameters
    ----------
    state : ClusterState
    handler : CacheHandler
        Has the clock and the time limits.
    unit_key : callable
        Returns the key of the unit of a pod that has a group.
    group : str
        The key of the annotation with the name of a pod's group.
    single : str
        The first part of the key of a single pod: {single}/{namespace}/{name}.
    """

    cdef dict groups  # by key of the unit: the set of UIDs
    cdef dict singles  # by name: the pod, or a list if several pods have the name
    cdef object unit_key
    cdef str group, single

    def __init__(self, ClusterState state not None, handler, unit_key, str group not None,
                 str single not None):
        super().__init__(state, handler)
        self.groups = {}
        self.singles = {}
        self.unit_key = unit_key
        self.group = group
        self.single = single

    def clone(self, ClusterState state not None):
        """Return an independent copy.

        Parameters
        ----------
        state : ClusterState
            A copy of this store's state.

        Returns
        -------
        RunningPods
        """
        cdef RunningPods out = super().clone(state)
        out.groups = {key: (<set>uids).copy() for key, uids in self.groups.items()}
        out.singles = {name: pods[:] if type(pods) is list else pods for name, pods in self.singles.items()}
        return out

    cpdef enter(self, pod):
        """Add a pod that was assumed or bound.

        Parameters
        ----------
        pod : Pod
        """
        if self.state.journal.depth:
            self.state.journal.on_undo(partial(self._drop, pod))
        self._put(pod)

    cpdef leave(self, pod):
        """Remove a pod that was added.

        Parameters
        ----------
        pod : Pod
        """
        if self.state.journal.depth:
            self.state.journal.on_undo(partial(self._put, pod))
        self._drop(pod)

    def leave_all(self, list pods not None):
        """Remove several pods that were added.

        Parameters
        ----------
        pods : list of Pod
        """
        for pod in pods:
            self.leave(pod)

    cdef bint _has_group(self, pod) except -1:
        """Whether a pod belongs to a pod group."""
        return (
            SCHEDULING_GROUP.of(SPEC.of(pod)) is not None
            or self.group in <dict>ANNOTATIONS.of(METADATA.of(pod))
        )

    cpdef _put(self, pod):
        """Add a pod to the index, unless it is there: an undo does not know how far the change came."""
        cdef str name
        if self._has_group(pod):
            key = self.unit_key(pod)
            if key in self.groups:
                (<set>self.groups[key]).add(UID.of(METADATA.of(pod)))
            else:
                self.groups[key] = {UID.of(METADATA.of(pod))}
            return
        name = NAME.of(METADATA.of(pod))
        pods = self.singles.setdefault(name, pod)
        if pods is pod:
            return
        if type(pods) is not list:
            self.singles[name] = [pods, pod]
            return
        for other in <list>pods:
            if other is pod:
                return
        (<list>pods).append(pod)

    cpdef _drop(self, pod):
        """Remove a pod from the index, if it is there."""
        cdef str name, uid = UID.of(METADATA.of(pod))
        cdef list rest
        if self._has_group(pod):
            key = self.unit_key(pod)
            uids = self.groups.get(key)
            if uids is not None:
                (<set>uids).discard(uid)
                if not uids:
                    del self.groups[key]
            return
        name = NAME.of(METADATA.of(pod))
        pods = self.singles.get(name)
        if type(pods) is not list:
            if pods is not None and UID.of(METADATA.of(pods)) == uid:
                del self.singles[name]
            return
        rest = [other for other in <list>pods if UID.of(METADATA.of(other)) != uid]
        self.singles[name] = rest if len(rest) > 1 else rest[0]

    def running(self, str key not None):
        """Return the UIDs of the pods of a unit.

        Parameters
        ----------
        key : str
            The key of the unit.

        Returns
        -------
        tuple of str
            The UIDs in ascending order; empty if the unit has no such pods.
        """
        cdef str namespace, name
        if not key.startswith(f"{self.single}/"):
            return tuple(sorted(self.groups.get(key, ())))
        namespace, _, name = key[len(self.single) + 1 :].partition("/")
        pods = self.singles.get(name, [])
        return tuple(sorted([
            UID.of(METADATA.of(pod))
            for pod in (pods if type(pods) is list else [pods])
            if NAMESPACE.of(METADATA.of(pod)) == namespace
        ]))
