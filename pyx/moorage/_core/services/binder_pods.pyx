"""Pods as the BinderCache has them: what its events and methods do to the ledger, and so to the node table.

Behaviour and texts are Gödel's, pkg/binder/cache. Each operation checks first and then applies: one that
raises changed nothing.
"""

from moorage.errors import CacheCorruptedError, CacheError

from moorage._core.state.pod_spec import is_only_bound

from libc.stdint cimport int32_t

from moorage._core.services.binder_store cimport BinderStore, uid_of
from moorage._core.base.deadlines cimport Deadline, Deadlines
from moorage._core.base.fields cimport METADATA, NODE_NAME, SPEC, UID
from moorage._core.state.ledger cimport ADDED, ASSUMED, FREE, INFINITY, Ledger, Totals
from moorage._core.state.cluster_state cimport ClusterState

cdef enum:
    SPARE_HINTS = 64
    UNSET = -1  # the ledger's deadline of a pod that was given none


cdef int32_t _known(ClusterState state, object pod) except -2:
    """Number of a pod by its UID, or -1."""
    return state.ledger.find(uid_of(pod))


cpdef find(ClusterState state, pod):
    """The pod with this UID as it was entered, or None."""
    cdef int32_t number = _known(state, pod)
    return None if number < 0 else state.ledger.object_of(number)


def find_uid(ClusterState state not None, str uid not None):
    """The pod with a UID as it was entered, or None."""
    cdef int32_t number = state.ledger.find(uid)
    return None if number < 0 else state.ledger.object_of(number)


cdef class BinderPods(BinderStore):
    """The pods of a binder's cache, by UID.

    Parameters
    ----------
    state, handler
        Of a store.
    node_name_of : callable
        The node of a pod whose spec names none.
    """

    cdef object node_name_of

    def __init__(self, ClusterState state not None, handler, node_name_of):
        super().__init__(state, handler)
        self.node_name_of = node_name_of

    def find(self, pod):
        """The pod with this UID as it was entered, or None."""
        return find(self.state, pod)

    def find_named(self, pod):
        """The pod with this namespace and name as it was entered, or None. Of pods that follow one another
        under one name, the one with this UID is found, or the one with the lowest number. Without it, all
        pods are looked at."""
        cdef Ledger ledger = self.state.ledger
        cdef str namespace = pod.metadata.namespace, name = pod.metadata.name
        cdef int32_t number = ledger.find(pod.metadata.uid)
        if number >= 0 and _is_named(ledger.object_of(number), namespace, name):
            return ledger.object_of(number)
        for number in range(_numbers(ledger)):
            if ledger.state_of(number) != FREE and _is_named(ledger.object_of(number), namespace, name):
                return ledger.object_of(number)
        return None

    def is_assumed_pod(self, pod):
        """True for a pod that is assumed, however long ago."""
        cdef int32_t number = _known(self.state, pod)
        return number >= 0 and self.state.ledger.state_of(number) == ASSUMED

    def has_expired(self, pod, double now):
        """True for an assumed pod whose deadline lies before `now`; it is there until `expire` is called."""
        cdef int32_t number = _known(self.state, pod)
        cdef double deadline = UNSET if number < 0 else self.state.ledger.record(number).deadline
        return deadline != UNSET and deadline < now

    def assume_pod(self, pod):
        """Put a pod on its node before it is bound. One that only names a node in an annotation does not
        expire, and one that names none is charged nowhere."""
        cdef ClusterState state = self.state
        cdef str node_name = NODE_NAME.of(SPEC.of(pod))
        cdef int32_t pod_class
        cdef double deadline
        if _known(state, pod) >= 0:
            raise CacheError(f"pod {pod.metadata.uid} was already in binder cache")
        pod_class = state.classes.intern(pod)
        if not node_name:
            state.atomically(_assume, state, pod, self.node_name_of(pod), pod_class, INFINITY)
            return
        deadline = self.handler.clock() + self.handler.assumed_pod_expiration
        if state.journal.depth:
            state.atomically(_assume, state, pod, node_name, pod_class, deadline)
        else:
            state.ledger.deadlines.reserve(1)
            state._enter(-1, pod, pod_class, ASSUMED)
            _set_deadline(state, state.ledger.find(UID.of(METADATA.of(pod))), deadline)

    def finish_binding(self, pod):
        """An attempt to bind ended: an assumed pod lives for the handler's TTL. Others are left alone, and
        those that name no node: only bound pods expire."""
        cdef ClusterState state = self.state
        cdef int32_t number = _known(state, pod)
        cdef double deadline
        if number < 0 or state.ledger.state_of(number) != ASSUMED:
            return
        if not NODE_NAME.of(SPEC.of(state.ledger.object_of(number))):
            return
        deadline = self.handler.clock() + self.handler.pod_assumed_ttl
        if state.journal.depth:
            state.atomically(_finish, state, number, deadline)
        else:
            _set_deadline(state, number, deadline)

    def forget_pod(self, pod):
        """Take back an assumed pod, which is returned; None where it is not assumed."""
        cdef ClusterState state = self.state
        cdef int32_t number = _known(state, pod)
        if number < 0 or state.ledger.state_of(number) != ASSUMED:
            return None
        held = state._node_of(number)
        node_name = NODE_NAME.of(SPEC.of(pod)) or self.node_name_of(pod)
        if held != node_name:
            uid = pod.metadata.uid
            raise CacheCorruptedError(f"pod {uid} was assumed on {held} but forgotten on {node_name}")
        return _leave(state, number)

    def add_pod(self, pod):
        """A bound pod was reported: it confirms an assumed one (moving it if its node differs), or is new.
        Returns the pod that was assumed, or None."""
        cdef int32_t number = _known(self.state, pod)
        held = None if number < 0 else self.state.ledger.object_of(number)
        _class_of(self.state, held, pod)
        self.state.add_pod(pod)
        return held

    def update_pod(self, old, new):
        """A pod changed to a bound one: what was known by its UID gives way to it, and is returned: a list.

        Where the UID differs, the old pod went and the new one came.
        """
        cdef ClusterState state = self.state
        cdef int32_t number = _known(state, old), other = number, pod_class
        cdef list held = []
        if number >= 0:
            held.append(state.ledger.object_of(number))
        if old.metadata.uid != new.metadata.uid:
            other = _known(state, new)
            if other >= 0 and state.ledger.state_of(other) == ADDED:
                raise CacheError(f"pod {new.metadata.uid} was already in added state")
            if other >= 0:
                held.append(state.ledger.object_of(other))
        pod_class = _class_of(state, held[0] if held else None, new)
        if other != number:
            state.atomically(_swap, state, number, other, new, pod_class)
        elif state.journal.depth == 0 and state._is_confirmed_by(number, new):
            state._confirm(number, new)
        else:
            state._enter(number, new, pod_class, ADDED)
        return held

    def remove_pod(self, pod):
        """A pod went, in whatever state it is; it is returned, or None where it is not known."""
        cdef int32_t number = _known(self.state, pod)
        return None if number < 0 else _leave(self.state, number)

    def expire(self, double now):
        """Drop the assumed pods whose deadline lies before `now`; returns them, the earliest first."""
        cdef Deadlines deadlines = self.state.ledger.deadlines
        if not deadlines.size() or deadlines.first().when >= now:
            return []
        if self.state.journal.depth:
            return self.state.atomically(_expire, self.state, now)
        return _expire(self.state, now)


cdef bint _is_named(object held, str namespace, str name) except -1:
    meta = METADATA.of(held)
    return meta.name == name and meta.namespace == namespace


cdef int32_t _class_of(ClusterState state, object held, object pod) except -1:
    """The class of a pod that was reported; most are only bound since they were entered, and are not read."""
    if held is not None and not state.classes.knows(pod) and is_only_bound(held, pod):
        state.classes.remember(pod, state.classes.intern(held))
    return state.classes.intern(pod)


def _assume(ClusterState state, pod, str node_name, int32_t pod_class, double deadline):
    state._place(pod, pod_class, state.table.row_for(state.symbols.intern(node_name)), ASSUMED)
    _set_deadline(state, state.ledger.find(UID.of(METADATA.of(pod))), deadline)


def _finish(ClusterState state, int32_t number, double deadline):
    _set_deadline(state, number, deadline)


def _swap(ClusterState state, int32_t number, int32_t other, new, int32_t pod_class):
    if number >= 0:
        state._take_away(number)
    state._replace(other, new, pod_class, ADDED)


cdef object _leave(ClusterState state, int32_t number):
    held = state.ledger.object_of(number)
    state._leave(number)
    return held


def _expire(ClusterState state, double now):
    cdef list numbers = state.ledger.expired(now), pods = []
    cdef bint has_ports = False
    cdef int32_t number
    for number in numbers:
        pods.append(state.ledger.object_of(number))
        has_ports = has_ports or bool(state.classes.shape(state.ledger.class_of(number)).ports)
    if has_ports:  # then memory can run out
        state.atomically(_take_all_away, state, numbers)
    else:
        _take_all_away(state, numbers)
    return pods


def _take_all_away(ClusterState state, list numbers):
    cdef int32_t number
    for number in numbers:
        state._take_away(number)


# ---- deadlines


cdef int _set_deadline(ClusterState state, int32_t number, double deadline) except -1:
    """Set a pod's deadline. Most pods leave before it and make their heap entries void: the heap is rebuilt
    when most entries must be."""
    cdef Ledger ledger = state.ledger
    ledger.set_deadline(number, deadline)
    if state.journal.depth == 0 and ledger.deadlines.size() > SPARE_HINTS + 2 * _numbers(ledger):
        _tidy(ledger)


cdef inline int32_t _numbers(Ledger ledger) noexcept:
    return (<Totals*>ledger.totals.data).used


cdef int _tidy(Ledger ledger) except -1:
    """Make the heap of deadlines anew; there is room."""
    cdef int32_t number
    cdef double when
    (<int32_t*>ledger.deadlines.count.data)[0] = 0
    for number in range(_numbers(ledger)):
        when = ledger.record(number).deadline
        if ledger.state_of(number) == ASSUMED and when != UNSET and when != INFINITY:
            ledger.deadlines.push(Deadline(when, number))
