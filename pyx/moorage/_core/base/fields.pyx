"""Attributes read and written by the cached offset of a slot; rules of fields; keys of objects and groups.

A loop over many pods reads the same attributes of each pod. For a type with ``__slots__`` the offset of an
attribute is a constant; caching it saves the lookup of the descriptor.
"""

from types import MemberDescriptorType

import msgspec
from libc.math cimport INFINITY

from moorage.errors import InputError

cdef extern from "structmember.h":  # CPython's
    ctypedef struct PyMemberDef:
        Py_ssize_t offset

cdef extern from "Python.h":
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member


cdef enum:
    MAX_SPECS = 1 << 10
    MAX_VALID = 1 << 10  # values of a field that are known to follow its rule
    MULTIPLIER = 1000003


cdef class Field:
    """A reader of one attribute, with its offset in the type of the object that was read last.

    Parameters
    ----------
    name : str
        The name of the attribute.
    """

    def __cinit__(self, str name not None):
        self.name = name

    cdef object _resolve(self, object holder):
        """Return the attribute of `holder` by ordinary lookup, and cache its offset if it is a slot."""
        kind = type(holder)
        descriptor = getattr(kind, self.name, None)
        # Only plain slots are cached; a property or a custom __getattribute__ runs at every read.
        if isinstance(descriptor, MemberDescriptorType) and kind.__getattribute__ is object.__getattribute__:
            self.kind = None
            self.offset = (<PyMemberDescrObject*>descriptor).d_member.offset
            self.kind = kind
        return getattr(holder, self.name)

    cdef int _put_first(self, object holder, object value) except -1:
        """Set the attribute of a struct of another type than the last one; cache its offset."""
        msgspec.structs.force_setattr(holder, self.name, value)
        self._resolve(holder)


cdef class Fields:
    """The fields of a struct type, without some.

    Parameters
    ----------
    *excluded : str
        Names of fields.
    """

    def __cinit__(self, *excluded):
        self.excluded = excluded

    cdef int _read_type(self, object holder) except -1:
        """Find the fields of the type of `holder`."""
        if type(holder) is not self.kind:
            names = [name for name in type(holder).__struct_fields__ if name not in self.excluded]
            self.fields, self.kind = [Field(name) for name in names], type(holder)
            self._read_offsets(holder)

    cdef int _read_offsets(self, object holder) except -1:
        """Find where the fields of the type of `holder` are."""
        cdef Field field
        self.n_slots = -1
        if len(self.fields) > MOST_SLOTS:
            return 0
        for at, field in enumerate(self.fields):
            field.of(holder)
            if field.kind is not type(holder):
                return 0
            self.offsets[<int32_t>at] = field.offset
        self.n_slots = <int32_t>len(self.fields)

    cdef size_t hash(self, object holder) except? 0:
        """Return a hash of the addresses of the objects in these fields."""
        cdef Field field
        cdef object value
        cdef size_t out = 1
        cdef int32_t at
        self._read_type(holder)
        for at in range(self.n_slots):
            out = out * MULTIPLIER + <size_t>_slot(holder, self.offsets[at])
        if self.n_slots >= 0:
            return out
        for field in self.fields:
            value = field.of(holder)
            out = out * MULTIPLIER + <size_t><PyObject*>value
        return out

    cdef bint are_same(self, object holder, object other) except -1:
        """Whether two structs of one type have the same objects in these fields."""
        cdef Field field
        cdef int32_t at
        if holder is other:
            return True
        if type(holder) is not type(other):
            return False
        self._read_type(holder)
        for at in range(self.n_slots):
            if _slot(holder, self.offsets[at]) != _slot(other, self.offsets[at]):
                return False
        if self.n_slots >= 0:
            return True
        for field in self.fields:
            if field.of(holder) is not field.of(other):
                return False
        return True


cdef inline PyObject* _slot(object holder, Py_ssize_t offset) noexcept:
    """The object in a slot."""
    return (<PyObject**>(<char*><PyObject*>holder + offset))[0]


cdef class SpecMemo:
    """Values by pod spec, which all specs share that were made of one template.

    Specs are alike if they have the same objects in all fields except the node name and the volumes. The
    volumes are the same objects, or differ in their names alone. A value must not depend on these two.
    Specs that are read from a dump, or made by `replace`, share the objects of their fields.

    Parameters
    ----------
    *unread : str
        Further fields of volumes on which a value does not depend.
    """

    def __cinit__(self, *unread):
        self.entries, self.hashes = {}, []
        self.spec_fields, self.volume_fields = Fields("node_name", "volumes"), Fields("name", *unread)

    cpdef object get(self, object spec):
        """Return the value of a spec that is alike.

        Parameters
        ----------
        spec : PodSpec

        Returns
        -------
        object
            None if there is none.
        """
        cdef tuple entry = self.latest  # most pods are of the template of the previous one
        if entry is None or not self.spec_fields.are_same(spec, entry[0]):
            entry = self.entries.get(self.spec_fields.hash(spec))
            if entry is None or not self.spec_fields.are_same(spec, entry[0]):
                return None
            self.latest = entry
        known = entry[0]
        cdef tuple volumes = VOLUMES.of(spec), others = VOLUMES.of(known)
        cdef Py_ssize_t at
        if volumes is not others:
            if len(volumes) != len(others):
                return None
            for at in range(len(volumes)):
                if not self.volume_fields.are_same(volumes[at], others[at]):
                    return None
        return entry[1]

    cpdef int put(self, object spec, object value) except -1:
        """Store the value of a spec. The value that was stored first may be dropped.

        Parameters
        ----------
        spec : PodSpec
        value : object
            Not None.
        """
        cdef object hashed = self.spec_fields.hash(spec)
        if hashed not in self.entries:
            if len(self.hashes) < MAX_SPECS:
                self.hashes.append(hashed)
            else:
                del self.entries[self.hashes[self.oldest]]
                self.hashes[self.oldest] = hashed
                self.oldest = (self.oldest + 1) % MAX_SPECS
        # The entry keeps the objects of the fields alive, so that their addresses stay theirs.
        self.entries[hashed] = self.latest = (spec, value)


cdef class SpecRule:
    """A rule of pod specs, with templates whose specs follow it.

    Parameters
    ----------
    rule : callable
        Raises an InputError about a spec. It reads neither its node name nor the names of its volumes.
    """

    def __cinit__(self, rule):
        self.rule, self.valid = rule, SpecMemo()

    def __call__(self, spec):
        """Raise the error of the rule, unless a spec of the same template follows it."""
        if self.valid.get(spec) is None:
            self.rule(spec)
            self.valid.put(spec, True)


cdef class _FieldRule:
    """A rule of one field, with values that follow it, so that objects that share them are checked fast."""

    cdef tuple path  # of Field
    cdef str encoded
    cdef object omitted, rule
    cdef bint omits_map  # each struct without a map has an empty one of its own
    cdef bint has_maps  # the lists, so that they have no hash
    cdef dict valid  # texts and lists, and other values by address

    def __cinit__(self, names, encoded, omitted, rule):
        self.path = tuple([Field(name) for name in names])
        self.encoded, self.omitted, self.rule, self.valid = encoded, omitted, rule, {}
        self.omits_map = omitted == {}

    cdef int check(self, object holder) except -1:
        """Raise the error of the rule, if the field of `holder` does not follow it."""
        cdef object value = holder
        for field in self.path:
            value = (<Field>field).of(value)
        if value is self.omitted or (self.omits_map and type(value) is dict and not value):
            return 0
        if type(self.rule) is SpecRule:  # which remembers the specs of a template
            return self.apply(value)
        key = value if type(value) is str else <size_t><PyObject*>value
        if type(value) is tuple and not self.has_maps:
            try:
                hash(value)
                key = value
            except TypeError:
                self.has_maps = True
        if key in self.valid:
            return 0
        self.apply(value)
        if len(self.valid) >= MAX_VALID:
            self.valid.clear()
        self.valid[key] = value  # which keeps its address
        return 0

    cdef int apply(self, object value) except -1:
        """Raise the error of the rule, which names the field."""
        try:
            self.rule(value)
        except InputError as error:
            raise error.located(path=self.encoded) from None
        return 0


cdef class FieldRules:
    """The rules of the fields of a struct type.

    Parameters
    ----------
    rules : iterable of (sequence of str, str, object, callable)
        Of each rule the names of the attributes that lead to the field, its path in JSON, a value that
        follows the rule, and a function that raises an InputError about other values. The rule reads nothing
        but the value.
    """

    def __cinit__(self, rules):
        self.rules = [_FieldRule(*rule) for rule in rules]

    def __len__(self):
        return len(self.rules)

    def check(self, holder):
        """Check a struct.

        Parameters
        ----------
        holder : Struct

        Raises
        ------
        InputError
            Of the first field that does not follow its rule.
        """
        for rule in self.rules:
            (<_FieldRule>rule).check(holder)


METADATA, NAME, NAMESPACE = Field("metadata"), Field("name"), Field("namespace")
UID, DELETION_TIMESTAMP, ANNOTATIONS = Field("uid"), Field("deletion_timestamp"), Field("annotations")
SPEC, NODE_NAME, STATUS = Field("spec"), Field("node_name"), Field("status")
RESOURCES = Field("resources")
CONTAINER_STATUSES, INIT_CONTAINER_STATUSES = Field("container_statuses"), Field("init_container_statuses")
VOLUMES = Field("volumes")
cdef Field PHASE = Field("phase")
cdef frozenset FINISHED = frozenset(("Succeeded", "Failed"))
cdef Field SCHEDULING_GROUP = Field("scheduling_group"), POD_GROUP_NAME = Field("pod_group_name")

cdef Field PRIORITY = Field("priority"), DISRUPTION_MODE = Field("disruption_mode"), ALL = Field("all")

# Has the name of a pod's group, if `spec.schedulingGroup` is not set (Gödel).
GROUP_ANNOTATION = "godel.bytedance.com/pod-group-name"


cdef str key_of(object obj):
    """Return the key of an object: ``namespace/name``, or the name alone without a namespace."""
    meta = METADATA.of(obj)
    name, namespace = NAME.of(meta), NAMESPACE.of(meta)
    return f"{namespace}/{name}" if namespace else name


cpdef tuple group_of(object pod):
    """Return namespace and name of a pod's group.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    UnitKey or None
        None for a pod without a group.
    """
    group, meta = SCHEDULING_GROUP.of(SPEC.of(pod)), METADATA.of(pod)
    if group is not None:
        name = POD_GROUP_NAME.of(group)
    else:
        annotations = ANNOTATIONS.of(meta)
        name = annotations.get(GROUP_ANNOTATION) if annotations else None
    return (NAMESPACE.of(meta), name) if name else None


def unfinished_group_of(pod):
    """Return the group of a pod that has not finished, as an index has it.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    tuple of str
        ``namespace/name`` of the group; empty for a pod without one, and for a finished pod.
    """
    if PHASE.of(STATUS.of(pod)) in FINISHED:
        return ()
    group = group_of(pod)
    return () if group is None else (f"{group[0]}/{group[1]}",)


def disrupted_whole(groups):
    """Select the groups whose pods are evicted only together.

    Parameters
    ----------
    groups : iterable of (PodGroup or CompositePodGroup)

    Returns
    -------
    whole : list of (PodGroup or CompositePodGroup)
    lowest : float
        The lowest priority of all groups; infinity without groups.
    """
    cdef list whole = []
    lowest = None
    for group in groups:
        spec = SPEC.of(group)
        priority = PRIORITY.of(spec) or 0
        if lowest is None or priority < lowest:
            lowest = priority
        mode = DISRUPTION_MODE.of(spec)
        if mode is not None and ALL.of(mode) is not None:
            whole.append(group)
    return whole, INFINITY if lowest is None else lowest
