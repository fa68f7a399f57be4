"""The pods of each unit, by UID: an index that is written whenever a pod comes or goes."""

from moorage._core.fields cimport METADATA, SPEC, UID, Field

cdef Field ANNOTATIONS = Field("annotations")
cdef Field NAME = Field("name")
cdef Field NAMESPACE = Field("namespace")
cdef Field SCHEDULING_GROUP = Field("scheduling_group")


cdef class RunningPods:
    """UIDs by unit key.

    Parameters
    ----------
    unit_key : callable
        The key of a pod's unit. A pod without a group is one by itself, single/namespace/name, which is known
        here as well.
    group : str
        The annotation that names a pod's group.
    single : str
        What keys of units of one pod begin with.
    """

    cdef dict units  # a UID, or a set of them: most units have one pod
    cdef object unit_key
    cdef str group, single

    def __cinit__(self, unit_key, str group, str single):
        self.unit_key = unit_key
        self.group = group
        self.single = single
        self.units = {}

    def clone(self):
        """An independent copy."""
        cdef RunningPods out = RunningPods(self.unit_key, self.group, self.single)
        out.units = {key: held.copy() if type(held) is set else held for key, held in self.units.items()}
        return out

    cdef str _key(self, object pod):
        meta = METADATA.of(pod)
        if SCHEDULING_GROUP.of(SPEC.of(pod)) is not None or self.group in <dict>ANNOTATIONS.of(meta):
            return self.unit_key(pod)
        return f"{self.single}/{<str>NAMESPACE.of(meta)}/{<str>NAME.of(meta)}"

    def enter(self, pod):
        """A pod is there; returns the key of its unit."""
        cdef str key = self._key(pod)
        self.put(key, UID.of(METADATA.of(pod)))
        return key

    def leave(self, pod):
        """A pod that was there is no more; returns the key of its unit."""
        cdef str key = self._key(pod)
        self.drop(key, UID.of(METADATA.of(pod)))
        return key

    cpdef put(self, str key, str uid):
        held = self.units.setdefault(key, uid)
        if held is uid:
            return
        if type(held) is set:
            (<set>held).add(uid)
        else:
            self.units[key] = {held, uid}

    cpdef drop(self, str key, str uid):
        held = self.units[key]
        if type(held) is set:
            (<set>held).discard(uid)
            if held:
                return
        del self.units[key]

    def of(self, str key):
        """UIDs of a unit, sorted."""
        held = self.units.get(key)
        if held is None:
            return ()
        return tuple(sorted(held)) if type(held) is set else (held,)

    def keys(self):
        """Keys of the units that have pods."""
        return sorted(self.units)
