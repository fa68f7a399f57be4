"""Operations of the cache on several pods at once: all are checked first, then all or none are changed."""

import numpy as np
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from moorage.errors import CacheError

from moorage._core.base cimport (
    ANNOTATIONS, DELETION_TIMESTAMP, LOG_ROW, METADATA, NODE_NAME, SPEC, UID, Field, StringIndex,
)
from moorage._core.base.watch_events cimport _identity
from moorage._core.state cimport (
    ADDED, AHEAD, ASSUMED, INFINITY, MARKED, ClusterState, Ledger, NewPod, PodRecord, PodState, Replicas,
    prefetch, replicas_of,
)
from moorage._core.state.cluster_state import ELSEWHERE
from moorage._core.state.pod_spec import bound

cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject** ob_item

cdef Field LABELS = Field("labels")
cdef enum:
    POD_AHEAD = 16  # prefetch distance of the objects of pods, which are in memory far away
    LINE = 64       # bytes of a cache line
    SPEC_LINES = 4  # cache lines of a PodSpec

NEW_POD = np.dtype([
    ("place", "i8"), ("start", "i8"), ("pod_class", "i4"), ("row", "i4"), ("group", "i4"), ("state", "i1"),
    ("terminating", "i1"),
], align=True)
PENDING = -1  # in the index of the ledger: a pod that is being assumed
KNOWN = "pod {} is in the cache, so can't be assumed"
NOT_ASSUMED = "pod {} wasn't assumed so cannot be {}"


# ---- pods by their objects


cdef inline char* _slot(PyObject* holder, Field field) noexcept:
    """The object in a slot, or NULL if the field is none of the type of `holder`."""
    if holder == NULL or type(<object>holder) is not field.kind:
        return NULL
    return (<char**>(<char*>holder + field.offset))[0]


cdef inline PyObject* _ahead(list pods, Py_ssize_t at) noexcept:
    """The pod at an index, or the last one."""
    return (<PyListObject*>pods).ob_item[min(at, len(pods) - 1)]


cdef inline void _prefetch_pod(ClusterState state, pods, Py_ssize_t at, bint is_whole=False) noexcept:
    """Prefetch what an operation reads of the pods behind `at`, whose objects are scattered over memory.

    `is_whole`: also what determines the class of a pod.
    """
    cdef PyObject* held
    cdef char* part
    cdef int line
    if type(pods) is not list:
        return
    prefetch(_ahead(pods, at + 4 * POD_AHEAD))
    held = _ahead(pods, at + 3 * POD_AHEAD)
    part = _slot(held, METADATA)
    prefetch(part + UID.offset)
    prefetch(part + LABELS.offset)
    part = _slot(held, SPEC)
    if is_whole:
        for line in range(SPEC_LINES):
            prefetch(part + LINE * line)
    else:
        prefetch(part + NODE_NAME.offset)
    held = _ahead(pods, at + 2 * POD_AHEAD)
    prefetch(_slot(<PyObject*>_slot(held, SPEC), NODE_NAME))
    part = _slot(held, METADATA)
    prefetch(_slot(<PyObject*>part, UID))
    if is_whole:
        prefetch(_slot(<PyObject*>part, LABELS))
        prefetch(_slot(<PyObject*>part, ANNOTATIONS))
    held = _ahead(pods, at + POD_AHEAD)
    state.ledger.index.prefetch(<PyObject*>_slot(<PyObject*>_slot(held, METADATA), UID))
    state.symbols.ids.prefetch(<PyObject*>_slot(<PyObject*>_slot(held, SPEC), NODE_NAME))


def check_new(ClusterState state not None, pods):
    """Check that pods can be assumed.

    Parameters
    ----------
    state : ClusterState
    pods : sequence of Pod

    Raises
    ------
    CacheError
        A pod has no UID, is in the cache, or is listed twice.
    """
    cdef set seen = set() if len(pods) > 1 else None  # one pod is not listed twice
    for pod in pods:
        uid = UID.of(METADATA.of(pod))
        if seen is not None and uid in seen or state._known(pod) >= 0:
            raise CacheError(KNOWN.format(pod.key))
        if seen is not None:
            seen.add(uid)


def terminating_or_known(ClusterState state not None, pods):
    """Return the indexes of the pods that are being deleted or are in the cache.

    Parameters
    ----------
    state : ClusterState
    pods : iterable of Pod

    Returns
    -------
    set of int

    Raises
    ------
    CacheError
        A pod has no UID.
    """
    cdef set out = set()
    cdef Py_ssize_t at
    for at, pod in enumerate(pods):
        _prefetch_pod(state, pods, at)
        if DELETION_TIMESTAMP.of(METADATA.of(pod)) is not None or state._known(pod) >= 0:
            out.add(at)
    return out


def not_assumed(ClusterState state not None, pods):
    """Return the indexes of the pods that are not in the cache as assumed ones: others have bound or deleted
    them since they were assumed.

    Parameters
    ----------
    state : ClusterState
    pods : iterable of Pod
        Mostly in the order in which they were assumed.

    Returns
    -------
    list of int
    """
    cdef list out = []
    cdef Py_ssize_t at
    cdef int32_t number = -1
    for at, pod in enumerate(pods):
        number += 1
        if number >= state.ledger.sums().used or state.ledger.objects[number] is not pod:
            number = state._known(pod)
        if number < 0 or state.ledger.state_of(number) != ASSUMED:
            out.append(at)
    return out


def assume_pods(ClusterState state not None, pods):
    """Assume several pods on the nodes of their specs, all or none.

    Parameters
    ----------
    state : ClusterState
    pods : sequence of Pod
        With spec.nodeName set.

    Raises
    ------
    CacheError
        A pod has no UID, is in the cache, or is listed twice.
    """
    _place_new(state, pods, ASSUMED)


cdef int _place_new(ClusterState state, pods, PodState pod_state, nodes=None) except -1:
    """Enter pods that are not in the cache, all or none, on the nodes that they name, or on others."""
    cdef NewPod[::1] new = np.empty(len(pods), dtype=NEW_POD)
    try:
        if _prepare(state, pods, nodes, pod_state, new):
            state.atomically(_place, state, pods, nodes, new)
        else:
            _place(state, pods, nodes, new)
    except BaseException:
        for pod in pods:
            if state.ledger.index.find(pod.metadata.uid, 0) == PENDING:
                state.ledger.index.remove(pod.metadata.uid)
        raise


cdef bint _prepare(ClusterState state, pods, nodes, PodState pod_state, NewPod[::1] new) except -1:
    """Check pods, mark their UIDs as pending, and read what is entered (row -1: the node has no row yet).

    Returns whether memory can run out when the pods are entered.
    """
    cdef StringIndex index = state.ledger.index
    cdef Py_ssize_t at, known = len(index)
    cdef int32_t last = -1
    cdef bint can_run_out = state.journal.depth != 0
    state.ledger.make_room(len(pods))  # so that no slot of the index moves later
    for at, pod in enumerate(pods):
        _prefetch_pod(state, pods, at, True)
        uid = UID.of(METADATA.of(pod))
        if not uid or state.ledger.templates.find(uid) >= 0:
            state._known(pod)  # raises where there is no UID
            raise CacheError(KNOWN.format(pod.key))
        new[at].place = index.slot_for(uid) - index.slots
        if len(index) != known + at + 1:  # the pod is in the cache, or is listed twice
            raise CacheError(KNOWN.format(pod.key))
        new[at].pod_class = state.classes.intern(pod)
        name = NODE_NAME.of(SPEC.of(pod)) if nodes is None else nodes[at]
        new[at].row = state.table.find(state.symbols.find(name))
        new[at].state = pod_state
        state.ledger.describe(pod, &new[at])
        if new[at].row < 0:
            can_run_out = True
        if new[at].pod_class != last:  # most pods have the class of the previous one
            last = new[at].pod_class
            can_run_out = can_run_out or bool(state.classes.shape(last).ports)
    state.ledger.reserve_rows(state.table.used)
    state.table.sync_columns()
    return can_run_out


def _place(ClusterState state not None, pods, nodes, NewPod[::1] new not None):
    """Enter checked pods."""
    cdef Py_ssize_t at
    for at, pod in enumerate(pods):
        _prefetch_entry(state, new, at)
        if new[at].row < 0:
            name = NODE_NAME.of(SPEC.of(pod)) if nodes is None else nodes[at]
            new[at].row = state.table.row_for(state.symbols.intern(name))
        state._put_in(pod, &new[at])


cdef inline void _prefetch_entry(ClusterState state, const NewPod[::1] new, Py_ssize_t at) noexcept:
    """Prefetch what entering the pods behind `at` changes."""
    cdef Py_ssize_t last = new.shape[0] - 1
    cdef int32_t row = new[min(at + 2 * AHEAD, last)].row
    prefetch(state.ledger.index.slots + new[min(at + AHEAD, last)].place)
    if row >= 0:
        prefetch(state.ledger.row(row))
        prefetch(state.table.row(0, row))
    row = new[min(at + AHEAD, last)].row
    if row >= 0:
        prefetch(state.ledger.record(state.ledger.row(row).last))


cdef int _make_room(ClusterState state, Py_ssize_t pods) except -1:
    """Reserve memory for more pods on rows that exist."""
    state.ledger.make_room(pods)
    state.ledger.reserve_rows(state.table.used)
    state.table.sync_columns()


def forget_pods(ClusterState state not None, pods):
    """Remove several assumed pods, all or none.

    Parameters
    ----------
    state : ClusterState
    pods : sequence of Pod
        With the spec.nodeName they were assumed with.

    Raises
    ------
    CacheError
        A pod is not assumed, was assumed on another node, or is listed twice.
    """
    cdef int32_t[::1] numbers = np.empty(len(pods), dtype=np.int32)
    cdef Py_ssize_t at
    for at, pod in enumerate(pods):
        _prefetch_pod(state, pods, at)
        numbers[at] = state._known(pod)
    at = _first_not_assumed(state.ledger, numbers)
    if at >= 0:
        raise CacheError(NOT_ASSUMED.format(pods[at].key, "forgotten"))
    for at, pod in enumerate(pods):
        held = state._node_of(numbers[at])
        if NODE_NAME.of(SPEC.of(pod)) != held:
            raise CacheError(ELSEWHERE.format(pod.key, held, pod.spec.node_name or "no node"))
    _run(state, _forget, numbers)


def add_pods(ClusterState state not None, pods):
    """Add several bound pods, all or none. They confirm assumed pods.

    Parameters
    ----------
    state : ClusterState
    pods : sequence of Pod

    Raises
    ------
    CacheError
        A pod has no UID, has been added before, or is listed twice.
    """
    cdef int32_t[::1] numbers = np.empty(len(pods), dtype=np.int32)
    cdef Py_ssize_t at
    cdef bint only_confirmed = state.journal.depth == 0
    for at, pod in enumerate(pods):
        numbers[at] = state._known(pod)
        only_confirmed = only_confirmed and state._is_confirmed_by(numbers[at], pod)
    if only_confirmed and _first_not_assumed(state.ledger, numbers) < 0:
        for at, pod in enumerate(pods):
            state._confirm(numbers[at], pod)
        return
    cdef set seen = set()
    cdef bint are_new = True
    for at, pod in enumerate(pods):
        are_new = are_new and numbers[at] < 0
        uid = UID.of(METADATA.of(pod))
        if numbers[at] >= 0 and state.ledger.state_of(numbers[at]) != ASSUMED or uid in seen:
            raise CacheError(f"pod {pod.key} was already in added state")
        seen.add(uid)
    if are_new:
        _place_new(state, pods, ADDED)
        return
    _make_room(state, len(pods))
    state.atomically(_add, state, pods)


def add_bound(ClusterState state not None, pods, nodes):
    """Add several pods that other schedulers bound, all or none.

    Pods that are not in the cache are entered as they are; their objects get the node when they are read.

    Parameters
    ----------
    state : ClusterState
    pods : sequence of Pod
        As they were before they were bound.
    nodes : sequence of str
        The name of the node of each pod.

    Raises
    ------
    CacheError
        As in `add_pods`.
    ValueError
        There are more pods than nodes, or fewer.
    """
    cdef list reported
    if len(pods) != len(nodes):
        raise ValueError(f"{len(pods)} pods and {len(nodes)} nodes")
    if len({UID.of(METADATA.of(pod)) for pod in pods}) == len(pods) \
            and not any([state._known(pod) >= 0 for pod in pods]):
        _place_new(state, pods, ADDED, nodes)
        return
    reported = [bound(pod, node) for pod, node in zip(pods, nodes, strict=True)]
    for pod, bound_pod in zip(pods, reported, strict=True):
        state.classes.remember(bound_pod, state.classes.intern(pod))
    add_pods(state, reported)


def _add(ClusterState state not None, pods):
    """Add bound pods one by one."""
    for pod in pods:
        state.add_pod(pod)


def finish_bindings(ClusterState state not None, pods, double deadline):
    """Set the deadline of assumed pods whose bindings have ended. Pods that are not assumed are ignored.

    Parameters
    ----------
    state : ClusterState
    pods : sequence of Pod
    deadline : float
        The time in seconds after which they expire; infinity: never.
    """
    cdef int32_t[::1] numbers = np.empty(len(pods), dtype=np.int32)
    cdef Py_ssize_t at
    for at, pod in enumerate(pods):
        _prefetch_pod(state, pods, at)
        numbers[at] = state._known(pod)
    _finish(state, numbers, deadline)


# ---- pods of a template by their ordinals


def forget_template(ClusterState state not None, template, int64_t first, int64_t pods):
    """Remove assumed pods of a template, all or none.

    Parameters
    ----------
    state : ClusterState
    template : Pod
    first : int
        The ordinal of the first pod.
    pods : int
        The number of pods.

    Raises
    ------
    CacheError
        A pod is not assumed.
    """
    _run(state, _forget, _assumed_replicas(state, template, first, pods, "forgotten"))


def finish_template(ClusterState state not None, template, int64_t first, int64_t pods, double deadline):
    """Set the deadline of assumed pods of a template whose bindings have ended.

    Parameters
    ----------
    state : ClusterState
    template : Pod
    first : int
        The ordinal of the first pod.
    pods : int
        The number of pods. Those that are not assumed are ignored.
    deadline : float
        The time in seconds after which they expire; infinity: never.
    """
    _finish(state, _numbers(state.ledger, replicas_of(template, first, pods)), deadline)


def confirm_template(ClusterState state not None, template, int64_t first, int64_t pods):
    """Confirm assumed pods of a template as bound to their nodes, all or none. They get no objects.

    Parameters
    ----------
    state : ClusterState
    template : Pod
    first : int
        The ordinal of the first pod.
    pods : int
        The number of pods.

    Raises
    ------
    CacheError
        A pod is not assumed.
    """
    _run(state, _confirm, _assumed_replicas(state, template, first, pods, "confirmed"))


cdef int32_t[::1] _assumed_replicas(ClusterState state, template, int64_t first, int64_t pods, str what):
    """The numbers of assumed pods of a template; CacheError if one is not assumed."""
    cdef Replicas wanted = replicas_of(template, first, pods)
    cdef int32_t[::1] numbers = _numbers(state.ledger, wanted)
    cdef Py_ssize_t at = _first_not_assumed(state.ledger, numbers)
    if at >= 0:
        raise CacheError(NOT_ASSUMED.format(wanted.key(<int32_t>(first + at)), what))
    return numbers


cdef int32_t[::1] _numbers(Ledger ledger, Replicas wanted):
    """The numbers of replicas in the ledger; -1 for those that are not in it."""
    cdef int32_t[::1] out = np.empty(wanted.count, dtype=np.int32)
    if wanted.count:
        ledger.templates.find_range(wanted, ledger.index, &out[0])
    return out


# ---- by number


cdef Py_ssize_t _first_not_assumed(Ledger ledger, int32_t[::1] numbers) noexcept:
    """The index of the first number that is -1, is repeated, or whose pod is not assumed; -1 if none is."""
    cdef Py_ssize_t at, out = -1
    for at in range(numbers.shape[0]):
        if numbers[at] < 0 or ledger.state_of(numbers[at]) != ASSUMED:
            out = at
            break
        ledger.record(numbers[at]).state = MARKED
    for at in range(numbers.shape[0] if out < 0 else out):
        ledger.record(numbers[at]).state = ASSUMED
    return out


cdef int _run(ClusterState state, operation, int32_t[::1] numbers) except -1:
    """Run an operation on pods by their numbers, in a transaction if memory can run out."""
    cdef Py_ssize_t at
    cdef bint can_run_out = state.journal.depth != 0
    cdef int32_t seen = -1, pod_class
    for at in range(numbers.shape[0]):
        pod_class = state.ledger.class_of(numbers[at])
        if pod_class != seen:  # most pods have the class of the previous one
            seen = pod_class
            can_run_out |= bool(state.classes.shape(pod_class).ports)
    if can_run_out:
        state.atomically(operation, state, numbers)
    else:
        operation(state, numbers)


cdef inline void _prefetch(ClusterState state, const int32_t[::1] numbers, Py_ssize_t at) noexcept:
    """Prefetch the records and rows of the next pods, which are scattered over memory."""
    cdef PodRecord* pod
    if at + 2 * AHEAD < numbers.shape[0]:
        pod = state.ledger.record(numbers[at + 2 * AHEAD])
        prefetch(state.ledger.row(pod.row))
        prefetch(state.table.row(0, pod.row))
        prefetch(state.ledger.record(pod.before))
        prefetch(state.ledger.record(pod.after))
    if at + AHEAD < numbers.shape[0]:
        prefetch(state.ledger.record(state.ledger.row(state.ledger.row_of(numbers[at + AHEAD])).last))


cdef int _check_numbers(ClusterState state, const int32_t[::1] numbers, int32_t least=0) except -1:
    """Check that numbers are those of pods that the ledger has had, or -1 if that is the least."""
    cdef Py_ssize_t at
    cdef int32_t used = state.ledger.sums().used
    for at in range(numbers.shape[0]):
        if not least <= numbers[at] < used:
            raise IndexError(f"there is no pod {numbers[at]}")
    return 0


def _forget(ClusterState state not None, const int32_t[::1] numbers not None):
    """Remove pods by their numbers."""
    cdef Py_ssize_t at
    _check_numbers(state, numbers)
    for at in range(numbers.shape[0]):
        _prefetch(state, numbers, at)
        state._take_away(numbers[at])


def _confirm(ClusterState state not None, const int32_t[::1] numbers not None):
    """Confirm assumed pods by their numbers."""
    cdef Py_ssize_t at
    _check_numbers(state, numbers)
    for at in range(numbers.shape[0]):
        _prefetch(state, numbers, at)
        state.ledger.confirm(numbers[at])
        state.table.changed(LOG_ROW, state.ledger.row_of(numbers[at]))


cdef int _finish(ClusterState state, const int32_t[::1] numbers, double deadline) except -1:
    """Set the deadline of pods by their numbers. Pods that are not assumed are skipped, and so is -1."""
    if state.journal.depth:
        return state.atomically(_set_deadlines, state, numbers, deadline)
    if deadline != INFINITY:
        state.ledger.deadlines.reserve(numbers.shape[0])
    return _set_deadlines(state, numbers, deadline)


def _set_deadlines(ClusterState state not None, const int32_t[::1] numbers not None, double deadline):
    """Set the deadline of the assumed pods among numbers."""
    cdef Py_ssize_t at
    _check_numbers(state, numbers, -1)
    for at in range(numbers.shape[0]):
        if numbers[at] >= 0 and state.ledger.state_of(numbers[at]) == ASSUMED:
            state.ledger.set_deadline(numbers[at], deadline)
    return 0


def remove_added(ClusterState state not None, pods):
    """Remove those of some pods that have been added, all or none.

    Parameters
    ----------
    state : ClusterState
    pods : iterable of (Pod or WatchEvent)
        Each pod, or the event that makes it.

    Returns
    -------
    list of (Pod or WatchEvent)
        The other pods, assumed or not in the cache.
    """
    cdef int32_t number, row
    cdef tuple ports
    cdef set held
    cdef dict numbers = {}  # those to remove, each once
    cdef dict freed = {}  # their host ports by row
    cdef list others = []
    for pod in pods:
        number = state._known(_identity(pod))
        if number < 0 or state.ledger.state_of(number) != ADDED or number in numbers:
            others.append(pod)
            continue
        numbers[number] = None
        ports = state.classes.shape(state.ledger.class_of(number)).ports
        if ports:
            row = state.ledger.row_of(number)
            held = freed.get(row)
            if held is None:
                held = freed[row] = set()
            for port in ports:
                held.add(port)
    if numbers:
        state._take_each(numbers, freed)
    return others
