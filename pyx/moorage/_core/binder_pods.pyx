"""Pods as the BinderCache has them: what its events and methods do to the ledger, and so to the node table.

Behaviour and texts are Gödel's, pkg/binder/cache. Each operation checks first and then applies: one that
raises changed nothing.
"""

from moorage.errors import CacheCorruptedError, CacheError

from libc.stdint cimport int32_t

from moorage._core.deadlines cimport Deadline, Deadlines
from moorage._core.fields cimport METADATA, NODE_NAME, SPEC, UID
from moorage._core.ledger cimport ADDED, ASSUMED, Ledger
from moorage._core.state cimport ClusterState

cdef enum:
    SPARE_HINTS = 64


cdef int32_t _known(ClusterState state, object pod) except -2:
    """Number of a pod by its UID, or -1."""
    cdef str uid = UID.of(METADATA.of(pod))
    if not uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return state.ledger.find(uid)


def find(ClusterState state, pod):
    """The pod with this UID as it was entered, or None."""
    cdef int32_t number = _known(state, pod)
    return None if number < 0 else state.ledger.object_of(number)


def find_uid(ClusterState state, str uid):
    """The same by the UID."""
    cdef int32_t number = state.ledger.find(uid)
    return None if number < 0 else state.ledger.object_of(number)


def node_of(ClusterState state, pod):
    """Name of the node that a pod is charged to; None for a pod that is not known."""
    cdef int32_t number = _known(state, pod)
    return None if number < 0 else state._node_of(number)


def is_assumed(ClusterState state, pod):
    """True for a pod that is assumed, however long ago."""
    cdef int32_t number = _known(state, pod)
    return number >= 0 and state.ledger.state_of(number) == ASSUMED


def confirmed_on(ClusterState state, pod):
    """Name of the node of an added pod; None for any other."""
    cdef int32_t number = _known(state, pod)
    if number < 0 or state.ledger.state_of(number) != ADDED:
        return None
    return state._node_of(number)


def assume(ClusterState state, pod, str node_name, double deadline):
    """Put a pod on a node before it is bound; it may expire after `deadline`."""
    cdef int32_t pod_class
    if _known(state, pod) >= 0:
        raise CacheError(f"pod {pod.metadata.uid} was already in binder cache")
    pod_class = state.classes.intern(pod)
    if state.journal.depth == 0 and node_name == NODE_NAME.of(SPEC.of(pod)):
        state.ledger.deadlines.reserve(1)
        state._enter(-1, pod, pod_class, ASSUMED)
        _set_deadline(state, state.ledger.find(UID.of(METADATA.of(pod))), deadline)
    else:
        state.safely(_assume, state, pod, node_name, pod_class, deadline)


def _assume(ClusterState state, pod, str node_name, int32_t pod_class, double deadline):
    state._place(pod, pod_class, state.table.row_for(state.symbols.intern(node_name)), ASSUMED)
    _set_deadline(state, state.ledger.find(UID.of(METADATA.of(pod))), deadline)


def finish(ClusterState state, pod, double deadline):
    """An attempt to bind ended: an assumed pod may expire after `deadline`. Others are left alone, and those
    that name no node: only bound pods expire."""
    cdef int32_t number = _known(state, pod)
    if number < 0 or state.ledger.state_of(number) != ASSUMED:
        return
    if not NODE_NAME.of(SPEC.of(state.ledger.object_of(number))):
        return
    if state.journal.depth:
        state.safely(_finish, state, number, deadline)
    else:
        _set_deadline(state, number, deadline)


def _finish(ClusterState state, int32_t number, double deadline):
    _set_deadline(state, number, deadline)


def forget(ClusterState state, pod, str node_name):
    """Take back an assumed pod, which is returned; None where it is not assumed."""
    cdef int32_t number = _known(state, pod)
    if number < 0 or state.ledger.state_of(number) != ASSUMED:
        return None
    held = state._node_of(number)
    if held != node_name:
        uid = pod.metadata.uid
        raise CacheCorruptedError(f"pod {uid} was assumed on {held} but forgotten on {node_name}")
    return _leave(state, number)


def add(ClusterState state, pod):
    """A bound pod was reported: it confirms an assumed one (moving it if its node differs), or is new.
    Returns the pod that was assumed, or None."""
    cdef int32_t number = _known(state, pod)
    held = None if number < 0 else state.ledger.object_of(number)
    state.add_pod(pod)
    return held


def update(ClusterState state, old, new):
    """A pod changed to a bound one: what was known by its UID gives way to it, and is returned: a list.

    Where the UID differs, the old pod went and the new one came.
    """
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
    pod_class = state.classes.intern(new)
    if other != number:
        state.safely(_swap, state, number, other, new, pod_class)
    elif state.journal.depth == 0 and state._is_confirmed_by(number, new):
        state._confirm(number, new)
    else:
        state._enter(number, new, pod_class, ADDED)
    return held


def _swap(ClusterState state, int32_t number, int32_t other, new, int32_t pod_class):
    if number >= 0:
        state._take_away(number)
    state._replace(other, new, pod_class, ADDED)


def remove(ClusterState state, pod):
    """A pod went, in whatever state it is; it is returned, or None where it is not known."""
    cdef int32_t number = _known(state, pod)
    return None if number < 0 else _leave(state, number)


cdef object _leave(ClusterState state, int32_t number):
    held = state.ledger.object_of(number)
    state._leave(number)
    return held


def expire(ClusterState state, double now):
    """Drop the assumed pods whose deadline lies before `now`; returns them, the earliest first."""
    cdef Deadlines deadlines = state.ledger.deadlines
    if not deadlines.size() or deadlines.first().when >= now:
        return []
    return state.safely(_expire, state, now)


def _expire(ClusterState state, double now):
    cdef list numbers = state.ledger.expired(now)
    cdef list pods = [state.ledger.object_of(number) for number in numbers]
    for number in numbers:
        state._take_away(number)
    return pods


# ---- deadlines


cdef int _set_deadline(ClusterState state, int32_t number, double deadline) except -1:
    """Set a pod's deadline. Most pods leave before it, and what the heap says of them is void: it is left out
    when there is too much of it."""
    cdef Ledger ledger = state.ledger
    ledger.set_deadline(number, deadline)
    if state.journal.depth == 0 and ledger.deadlines.size() > SPARE_HINTS + 2 * len(ledger):
        _tidy(ledger)
    return 0


cdef int _tidy(Ledger ledger) except -1:
    """Build the heap anew from what counts."""
    cdef Deadlines deadlines = ledger.deadlines
    cdef Deadline* heap = <Deadline*>deadlines.heap.data
    cdef Deadline hint
    cdef int32_t at, hints = deadlines.size()
    (<int32_t*>deadlines.count.data)[0] = 0
    for at in range(hints):
        hint = heap[at]
        if ledger.state_of(hint.number) == ASSUMED and ledger.record(hint.number).deadline == hint.when:
            deadlines.push(hint)  # into a place that has been read
    return 0
