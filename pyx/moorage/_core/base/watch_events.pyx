# cython: auto_pickle=False
"""Watch events, the notices that informers make of them, and maps of objects by key.

A scheduler writes many objects that nobody reads: a pod that is bound gets a new specification, status and
resource version. Such a write is an event that has the previous object and a function that makes the new one,
which is called when the object is first read. Maps and notices hold the event in place of the object.

A store also says in the event what it was asked to do, the cause, where it does so in bulk. Who receives the
event need not compare the objects to find out.
"""

import msgspec
cimport cython
from cpython.dict cimport PyDict_SetDefault
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from moorage._core.base.fields cimport (
    DELETION_TIMESTAMP, METADATA, NAME, NAMESPACE, NODE_NAME, SPEC, STATUS, UID, Field, key_of,
)

cdef Field SCHEDULING_GATES = Field("scheduling_gates")
cdef Field CREATION_TIMESTAMP = Field("creation_timestamp"), FINALIZERS = Field("finalizers")
cdef Field GRACE_PERIOD = Field("deletion_grace_period_seconds"), RESOURCE_VERSION = Field("resource_version")
cdef Field CONDITIONS = Field("conditions"), TYPE = Field("type"), CONDITION_STATUS = Field("status")

replace = msgspec.structs.replace

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(dict items, object key) except? NULL


cdef str _key_of(object held):
    """Return the key of an object that is held by itself or by the event that makes it."""
    return (<WatchEvent>held).name() if type(held) is WatchEvent else key_of(held)


def keys_of(objects):
    """Return the key of each object.

    Parameters
    ----------
    objects : iterable of (Object or WatchEvent)
        Each object, or the event that makes it.

    Returns
    -------
    list of str
        ``namespace/name``, or the name alone without a namespace.
    """
    return [_key_of(held) for held in objects]


cdef object made(object held):
    """Return an object that is held by itself or by the event that makes it."""
    return (<WatchEvent>held).read() if type(held) is WatchEvent else held


@cython.no_gc  # cannot be part of a reference cycle, and thousands are created at a time
@cython.freelist(256)
cdef class WatchEvent:
    """One change of one object.

    Parameters
    ----------
    type : {"ADDED", "MODIFIED", "DELETED"}
    object : Object
        The object after the change; for DELETED its last state, with the resource version of the deletion.
    resource_version : str
        The version that the change made.
    old : Object, optional
        The object before the change, where the server knows it.
    cause : Cause, optional
        What a store was asked to do; OTHER, the default, where that is not known.

    Attributes
    ----------
    type : str
    cause : Cause
    """

    def __init__(self, str type not None, object object not None, resource_version, old=None,
                 Cause cause=Cause.OTHER):
        self.type = type
        self._object = object
        self._version, self._number = resource_version, -1
        self._old = old
        self.cause = cause

    @staticmethod
    def deferred(str type not None, old not None, int64_t version, make not None, argument=None):
        """Return an event whose object is made when it is first read.

        Parameters
        ----------
        type : {"MODIFIED", "DELETED"}
        old : Object or WatchEvent
            The object before the change, or the event that makes it.
        version : int
            The resource version of the change.
        make : callable
            Returns the object from the old one, the resource version and `argument`. It may change the
            resource version and the conditions alone.
        argument : object, optional

        Returns
        -------
        WatchEvent
        """
        return _deferred(type, Cause.OTHER, old, version, make, argument)

    def __class_getitem__(cls, item):
        return cls

    cdef object read(self):
        """Return the object after the change."""
        if self._object is None:
            made = self._make(self.before(), self.resource_version, self._argument)
            if self._object is None:  # another thread may have made it meanwhile
                self._object = made
        return self._object

    cdef object before(self):
        """Return the object before the change, or None."""
        if type(self._old) is WatchEvent:
            self._old = (<WatchEvent>self._old).read()
        return self._old

    cdef object held(self):
        """Return what maps hold: the object, or the event itself while the object has not been made."""
        return self if self._object is None else self._object

    cdef str name(self):
        """Return `key`. It is kept, so that all maps share one string."""
        if self._key is None:
            self._key = key_of(_identity(self))
        return self._key

    @property
    def object(self):
        """The object after the change; for DELETED its last state, with the deletion's resource version."""
        return self.read()

    @property
    def old(self):
        """The object before the change, where the server knows it; else None."""
        return self.before()

    @property
    def identity(self):
        """An object that exists already, with the metadata and the spec with which the object was created.

        It differs from `object` at most in what bindings set, in conditions and in the resource version.
        """
        return _identity(self)

    @property
    def resource_version(self):
        """The version that the change made."""
        if self._version is None:
            return str(self._number)
        return self._version

    @property
    def key(self):
        """``namespace/name`` of the object, or its name alone without a namespace."""
        return self.name()

    def __eq__(self, other):
        if type(other) is not WatchEvent:
            return NotImplemented
        return (
            self.type == other.type and self.resource_version == other.resource_version
            and self.object == other.object and self.old == other.old
        )

    __hash__ = None

    def __repr__(self):
        return (
            f"WatchEvent(type={self.type!r}, object={self.object!r}, "
            f"resource_version={self.resource_version!r}, old={self.old!r})"
        )


@cython.no_gc
@cython.freelist(256)
cdef class Notice:
    """What an informer tells a handler: an object was added, changed or deleted.

    Parameters
    ----------
    old : Object or DeletedFinalStateUnknown or None
        The object before a change; a deleted object, or its tombstone; None for an object that was added.
    new : Object or None
        The object after the change; None for a deletion.
    is_initial : bool
        Whether the object existed when the handler was registered.

    Attributes
    ----------
    is_initial : bool
    cause : Cause
        That of the event, where `old` is the object that it has changed; else OTHER.
    """

    def __init__(self, old, new, bint is_initial=False):
        self._old = old
        self._new = new
        self.is_initial = is_initial

    def __class_getitem__(cls, item):
        return cls

    @property
    def old(self):
        """The object before a change; a deleted object, or its tombstone; None for an added object."""
        if type(self._old) is WatchEvent:
            self._old = (<WatchEvent>self._old).read()
        return self._old

    @property
    def new(self):
        """The object after a change; None for a deletion."""
        if type(self._new) is WatchEvent:
            self._new = (<WatchEvent>self._new).read()
        return self._new

    @property
    def identity(self):
        """An object that exists already, or the tombstone of a deleted one; see `WatchEvent.identity`. It is
        the object after the change, or before its deletion."""
        return _identity(self._old if self._new is None else self._new)

    @property
    def is_addition(self):
        """Whether the object was added."""
        return self._old is None

    @property
    def is_deletion(self):
        """Whether the object was deleted."""
        return self._new is None


cdef class ObjectMap:
    """Objects by key, some of them held by the event that makes the object. Iterates over keys.

    Parameters
    ----------
    objects : dict of str to Object
        The contents; the map takes ownership.
    """

    def __init__(self, dict objects not None):
        self.held = objects

    def __class_getitem__(cls, item):
        return cls

    def __len__(self):
        return len(self.held)

    def __iter__(self):
        return iter(self.held)

    def __contains__(self, key):
        return key in self.held

    def __setitem__(self, str key not None, held not None):
        """Set the object of a key, or the event that makes it."""
        self.held[key] = held

    def __getitem__(self, key):
        """Return the object of a key; KeyError where there is none."""
        obj = self.find(key)
        if obj is None:
            raise KeyError(key)
        return obj

    cdef object find(self, key):
        """Return the object of a key, or None."""
        cdef PyObject* found = PyDict_GetItemWithError(self.held, key)
        if found == NULL:
            return None
        if type(<object>found) is WatchEvent:
            held = self.held[key] = (<WatchEvent>found).read()
            return held
        return <object>found

    def get(self, key):
        """Return the object of a key, or None.

        Parameters
        ----------
        key : str

        Returns
        -------
        Object or None
        """
        return self.find(key)

    def take_back(self, events):
        """Undo the last events.

        Parameters
        ----------
        events : sequence of WatchEvent
            In their order.
        """
        cdef WatchEvent event
        for event in reversed(events):
            if event is None:
                raise TypeError("an event is None")
            if event._old is None:
                self.held.pop(event.name(), None)
            else:
                self.held[event.name()] = event._old

    def copy(self):
        """Return a copy of the map; objects that have not been made are shared."""
        return ObjectMap(self.held.copy())

    def to_dict(self):
        """Return a new dict of key to object.

        Returns
        -------
        dict of str to Object
        """
        return {key: self.find(key) for key in list(self.held)}

    def record(self, WatchEvent event not None, list events not None):
        """Apply an event to the map and append it to a history. No interrupt comes between the two.

        Parameters
        ----------
        event : WatchEvent
        events : list of WatchEvent
            The history.
        """
        cdef str key = event.name()
        events.append(event)
        if event.type == "DELETED":
            self.held.pop(key, None)
        else:
            self.held[key] = event.held()

    def create(self, objects, bint namespaced, str uid_prefix not None, str now, int64_t version,
               list events not None):
        """Add new objects, up to the first that cannot be added.

        That is one without a name, one with a namespace where its kind has none, or one whose key is taken.

        Parameters
        ----------
        objects : sequence of Object
            Of one kind.
        namespaced : bool
            Whether the kind has namespaces.
        uid_prefix : str
            The UID of an object without one is this and the resource version.
        now : str
            The creation time of an object without one.
        version : int
            The resource version of the first object; it grows by 1 with each.
        events : list of WatchEvent
            Takes an event for each object.

        Returns
        -------
        int
            The number of objects that were added.
        """
        cdef WatchEvent event
        cdef Py_ssize_t done = 0
        copied = copied_meta = None
        for obj in objects:
            meta = METADATA.of(obj)
            if not NAME.of(meta) or NAMESPACE.of(meta) and not namespaced:
                break
            if copied is None:
                copied, copied_meta = type(obj).__copy__, type(meta).__copy__
            event = WatchEvent.__new__(WatchEvent)
            event.type, event._key, event._version = "ADDED", key_of(obj), f"{version + done}"
            meta, event._object = copied_meta(meta), copied(obj)
            METADATA.put(event._object, meta)
            RESOURCE_VERSION.put(meta, event._version)
            if not UID.of(meta):
                UID.put(meta, f"{uid_prefix}{version + done:012x}")
            if not CREATION_TIMESTAMP.of(meta):
                CREATION_TIMESTAMP.put(meta, now)
            events.append(event)
            if <object>PyDict_SetDefault(self.held, event._key, event._object) is not event._object:
                events.pop()
                break
            done += 1
        return done

    def update(self, objects, int64_t version, list events not None):
        """Replace objects, up to the first that needs a closer look.

        That is one that is not in the map with the same UID and resource version, is being deleted, or does
        not change.

        Parameters
        ----------
        objects : sequence of Object
            Of one kind.
        version : int
            The resource version of the first new state; it grows by 1 with each.
        events : list of WatchEvent
            Takes an event for each object.

        Returns
        -------
        int
            The number of objects that were replaced.
        """
        cdef WatchEvent event
        cdef str key, resource_version
        cdef Py_ssize_t done = 0
        for obj in objects:
            key = key_of(obj)
            current = self.find(key)
            if current is None:
                break
            meta, old = METADATA.of(obj), METADATA.of(current)
            if UID.of(meta) != UID.of(old) or RESOURCE_VERSION.of(meta) != RESOURCE_VERSION.of(old) \
                    or DELETION_TIMESTAMP.of(meta) is not None or DELETION_TIMESTAMP.of(old) is not None \
                    or obj == current:
                break
            resource_version = f"{version + done}"
            meta = replace(
                meta,
                creation_timestamp=CREATION_TIMESTAMP.of(old),
                deletion_grace_period_seconds=GRACE_PERIOD.of(old),
                resource_version=resource_version,
            )
            obj = replace(obj, metadata=meta)
            event = WatchEvent.__new__(WatchEvent)
            event.type, event._object, event._version = "MODIFIED", obj, resource_version
            event._key, event._old = key, current
            events.append(event)
            self.held[key] = obj
            done += 1
        return done

    def bind(self, pods, nodes, keys, make, int64_t version, list events not None):
        """Bind pods to nodes, up to the first that cannot be bound.

        A pod can be bound if it is in the map with the same UID, has no node and no scheduling gates, and is
        not being deleted (kube-apiserver v1.36, subresource ``pods/binding``).

        Parameters
        ----------
        pods : sequence of Pod
        nodes : sequence of str
            The node of each pod; not empty.
        keys : sequence of str
            The key of each pod.
        make : callable
            Makes the bound pod from the stored one, the resource version and the node. The one condition that
            it sets is PodScheduled.
        version : int
            The resource version of the first binding; it grows by 1 with each.
        events : list of WatchEvent
            Takes an event for each bound pod.

        Returns
        -------
        int
            The number of pods that were bound.

        Raises
        ------
        ValueError
            There are more pods than nodes or keys, or fewer; no pod has been bound.
        """
        cdef WatchEvent event
        cdef Py_ssize_t at
        cdef list listed = list(pods) if type(pods) is not list else pods
        cdef list names = list(nodes) if type(nodes) is not list else nodes
        cdef list known = list(keys) if type(keys) is not list else keys
        cdef str key
        if not len(listed) == len(names) == len(known):
            raise ValueError("one of the lists of pods, nodes and keys is shorter")
        for at in range(len(listed)):
            key, node = known[at], names[at]
            current = self.find(key)
            if not node or current is None or not _can_be_bound(listed[at], current):
                return at
            event = _deferred("MODIFIED", Cause.BOUND, current, version + at, make, node)
            event._key = key
            events.append(event)
            self.held[key] = event
        return len(listed)

    def set_condition(self, objects, condition, make, int64_t version, list events not None, str stays=""):
        """Set a condition of objects where that changes it. No interrupt comes between two changes.

        Parameters
        ----------
        objects : sequence of Object
            The name and namespace of each count; no two are equal.
        condition : Condition
            Replaces the condition of its type, or is appended.
        make : callable
            Makes the object with the condition; see `WatchEvent.deferred`.
        version : int
            The resource version of the first change; it grows by 1 with each.
        events : list of WatchEvent
            Takes an event for each changed object.
        stays : str
            The status with which a condition of its type stays as it is; "" for none.

        Returns
        -------
        list of bool
            Of each object, whether it existed.
        """
        cdef WatchEvent event
        cdef str key
        cdef list found = []
        cdef Py_ssize_t first = len(events)
        for key, held in [(key_of(obj), self.find(key_of(obj))) for obj in objects]:  # made first
            found.append(held is not None)
            if held is not None and _changes(CONDITIONS.of(STATUS.of(held)), condition, stays):
                event = _deferred(
                    "MODIFIED", Cause.CONDITION, held, version + len(events) - first, make, condition
                )
                event._key = key
                events.append(event)
                self.held[key] = event
        return found

    def evict(self, pods, condition, make, remove, int64_t version, list events not None):
        """Add a condition to pods and delete them, up to the first that cannot be deleted at once.

        That is a pod with finalizers. No interrupt comes between two changes.

        Parameters
        ----------
        pods : sequence of (Pod or WatchEvent)
            Each pod or the event that makes it, of which the name, namespace and UID count.
        condition : Condition
            Replaces the condition of its type, or is appended.
        make, remove : callable
            Make the pod with the condition, and the last state of the deleted pod; see `WatchEvent.deferred`.
        version : int
            The resource version of the first change; it grows by 1 with each.
        events : list of WatchEvent
            Takes the change of each pod, if the condition changes, and the deletion of each pod.

        Returns
        -------
        list of bool
            Of each pod up to that one, whether it existed.
        """
        cdef list found = []
        cdef WatchEvent event
        version -= len(events)
        for key, held, changes in [self._victim(pod, condition) for pod in pods]:  # may run Python
            found.append(held is not None)
            if held is None:
                continue
            if changes is None or key not in self.held:
                found.pop()
                break
            if changes:
                event = _deferred("MODIFIED", Cause.EVICTED, held, version + len(events), make, condition)
                event._key = key
                events.append(event)
                held = event
            event = _deferred("DELETED", Cause.EVICTED, held, version + len(events), remove, None)
            event._key = key
            events.append(event)
            del self.held[key]
        return found

    cdef tuple _victim(self, object pod, object condition):
        """Return the key of a pod, what is held of it, and whether a condition would change; None in place of
        these where it is not in the map, or has finalizers."""
        cdef str key = _key_of(pod)
        held = self.held.get(key)
        if held is None or held is not pod and _uid(held) != _uid(pod):
            return key, None, None
        if FINALIZERS.of(METADATA.of(_identity(held))):
            return key, held, None
        return key, held, _changes(_conditions(held, TYPE.of(condition)), condition)


cdef tuple _conditions(object held, str kind):
    """Return the conditions of an object that is held by itself or by an event; those of other types may be
    older."""
    while type(held) is WatchEvent and (<WatchEvent>held)._object is None \
            and (<WatchEvent>held).cause == Cause.BOUND and kind != "PodScheduled":
        held = (<WatchEvent>held)._old
    return CONDITIONS.of(STATUS.of(made(held)))


cdef bint _changes(tuple conditions, condition, str stays="") except -1:
    """Whether a condition would change, besides its transition time if its status stays. One with the status
    `stays` does not."""
    cdef bint keeps_time
    for one in conditions:
        if TYPE.of(one) == TYPE.of(condition):
            if stays and CONDITION_STATUS.of(one) == stays:
                return False
            keeps_time = CONDITION_STATUS.of(one) == CONDITION_STATUS.of(condition)
            return one != (replace(condition, last_transition_time=one.last_transition_time) if keeps_time
                           else condition)
    return True


cdef object _identity(object held):
    """Return an object that exists already and is that which is held, but for what bindings, conditions and
    the resource version set."""
    cdef WatchEvent event
    while type(held) is WatchEvent:
        event = <WatchEvent>held
        held = event._old if event._object is None else event._object
    return held


cdef bint _is_same(object held, object other) noexcept:
    """Whether two objects, held by themselves or by the events that make them, are one. None is made."""
    if type(held) is WatchEvent and (<WatchEvent>held)._object is not None:
        held = (<WatchEvent>held)._object
    if type(other) is WatchEvent and (<WatchEvent>other)._object is not None:
        other = (<WatchEvent>other)._object
    return held is other


cdef object _uid(object held):
    """Return the UID of an object that is held by itself or by an event."""
    return UID.of(METADATA.of(_identity(held)))


cdef WatchEvent _deferred(str type, Cause cause, object old, int64_t version, object make, object argument):
    """Return an event whose object is made when it is first read."""
    cdef WatchEvent event = WatchEvent.__new__(WatchEvent)
    event.type = type
    event.cause = cause
    event._old = old
    event._number = version
    event._make = make
    event._argument = argument
    return event


cdef Notice _notice(object old, object new, Cause cause):
    """Return a notice about an object that was not in the initial list."""
    cdef Notice notice = Notice.__new__(Notice)
    notice.cause = cause
    notice._old = old
    notice._new = new
    return notice


cdef bint _can_be_bound(object pod, object current) except -1:
    """Whether a request to bind `pod` is valid for the stored pod."""
    meta, spec = METADATA.of(current), SPEC.of(current)
    if pod is not current:
        uid = UID.of(METADATA.of(pod))
        if uid and uid != UID.of(meta):
            return False
    if DELETION_TIMESTAMP.of(meta) is not None:
        return False
    return not NODE_NAME.of(spec) and not SCHEDULING_GATES.of(spec)
