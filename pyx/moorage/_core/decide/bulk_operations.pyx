"""Operations of the cache on several pods at once: all are checked first, then all or none are changed."""

import numpy as np
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from moorage.errors import CacheError

from moorage._core.base cimport (
    ANNOTATIONS, DELETION_TIMESTAMP, LOG_ROW, METADATA, NODE_NAME, SPEC, STATUS, UID, VOLUMES,
    Field, Notice, WatchEvent, made,
)
from moorage._core.base.watch_events cimport _likeness, is_of_conditions
from moorage._core.state cimport (
    ADDED, AHEAD, ASSUMED, INFINITY, MARKED, ClusterState, Ledger, PodRecord, PodState, Replicas,
    prefetch, replicas_of,
)
from moorage._core.state.pod_spec cimport is_only_bound
from moorage._core.state.pod_spec import bound

cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject** ob_item

cdef Field PHASE = Field("phase"), LABELS = Field("labels"), FINALIZERS = Field("finalizers")
cdef Field OWNER_REFERENCES = Field("owner_references"), RESOURCE_CLAIMS = Field("resource_claims")
cdef frozenset FINISHED = frozenset(("Succeeded", "Failed"))
cdef enum:
    LINE = 64       # bytes of a cache line
    SPEC_LINES = 4  # cache lines of a PodSpec

PENDING = -1  # in the index of the ledger: a pod that is being assumed
KNOWN = "pod {} is in the cache, so can't be assumed"
NOT_ASSUMED = "pod {} wasn't assumed so cannot be {}"


# ---- pods by their objects


cdef inline char* _slot(PyObject* holder, Field field) noexcept:
    """The object in a slot, or NULL if the field is none of the type of `holder`."""
    if holder == NULL or type(<object>holder) is not field.kind:
        return NULL
    return (<char**>(<char*>holder + field.offset))[0]


cdef inline void _prefetch_pod(pods, Py_ssize_t at, bint is_whole=False) noexcept:
    """Prefetch what an operation reads of the pods behind `at`, whose objects are scattered over memory.

    `is_whole`: also what determines the class of a pod.
    """
    cdef PyObject** items
    cdef PyObject* held
    cdef Py_ssize_t last
    cdef char* part
    cdef int line
    if type(pods) is not list:
        return
    items, last = (<PyListObject*>pods).ob_item, len(<list>pods) - 1
    prefetch(items[min(at + 4 * AHEAD, last)])
    held = items[min(at + 2 * AHEAD, last)]
    part = _slot(held, METADATA)
    prefetch(part + UID.offset)
    prefetch(part + LABELS.offset)
    part = _slot(held, SPEC)
    if is_whole:
        for line in range(SPEC_LINES):
            prefetch(part + LINE * line)
    else:
        prefetch(part + NODE_NAME.offset)
    held = items[min(at + AHEAD, last)]
    prefetch(_slot(<PyObject*>_slot(held, SPEC), NODE_NAME))
    held = <PyObject*>_slot(held, METADATA)
    prefetch(_slot(held, UID))
    if is_whole:
        prefetch(_slot(held, LABELS))
        prefetch(_slot(held, ANNOTATIONS))


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
            raise CacheError(KNOWN.format(uid))
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
        if DELETION_TIMESTAMP.of(METADATA.of(pod)) is not None or state._known(pod) >= 0:
            out.add(at)
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
    cdef int32_t[::1] classes = np.empty(len(pods), dtype=np.int32)
    cdef int32_t[::1] rows = np.empty(len(pods), dtype=np.int32)
    try:
        if _prepare(state, pods, nodes, classes, rows):
            state.atomically(_place, state, pods, nodes, classes, rows, pod_state)
        else:
            _place(state, pods, nodes, classes, rows, pod_state)
    except BaseException:
        for pod in pods:
            if state.ledger.index.get(pod.metadata.uid) == PENDING:
                del state.ledger.index[pod.metadata.uid]
        raise


cdef bint _prepare(ClusterState state, pods, nodes, int32_t[::1] classes, int32_t[::1] rows) except -1:
    """Check pods, mark their UIDs as pending, and find their classes and rows (-1: the node has no row yet).

    Returns whether memory can run out when the pods are entered.
    """
    cdef dict index = state.ledger.index
    cdef Py_ssize_t at, known = len(index)
    cdef int32_t last = -1
    cdef bint can_run_out = state.journal.depth != 0
    for at, pod in enumerate(pods):
        _prefetch_pod(pods, at, True)
        uid = UID.of(METADATA.of(pod))
        if not uid or state.ledger.templates.find(uid) >= 0:
            state._known(pod)  # raises where there is no UID
            raise CacheError(KNOWN.format(uid))
        index.setdefault(uid, PENDING)
        if len(index) != known + at + 1:  # the pod is in the cache, or is listed twice
            raise CacheError(KNOWN.format(uid))
        classes[at] = state.classes.intern(pod)
        name = NODE_NAME.of(SPEC.of(pod)) if nodes is None else nodes[at]
        rows[at] = state.table.find(state.symbols.find(name))
        if rows[at] < 0:
            can_run_out = True
        if classes[at] != last:  # most pods have the class of the previous one
            last = classes[at]
            can_run_out = can_run_out or bool(state.classes.shape(last).ports)
    _make_room(state, len(pods))
    return can_run_out


def _place(ClusterState state, pods, nodes, const int32_t[::1] classes, const int32_t[::1] rows,
           PodState pod_state):
    """Enter checked pods."""
    cdef Py_ssize_t at
    cdef int32_t row
    for at, pod in enumerate(pods):
        row = rows[at]
        if row < 0:
            name = NODE_NAME.of(SPEC.of(pod)) if nodes is None else nodes[at]
            row = state.table.row_for(state.symbols.intern(name))
        state._place(pod, classes[at], row, pod_state)


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
        _prefetch_pod(pods, at)
        numbers[at] = state._known(pod)
    at = _first_not_assumed(state.ledger, numbers)
    if at >= 0:
        raise CacheError(NOT_ASSUMED.format(pods[at].metadata.uid, "forgotten"))
    for at, pod in enumerate(pods):
        held = state._node_of(numbers[at])
        if NODE_NAME.of(SPEC.of(pod)) != held:
            raise CacheError(
                f"pod {pod.metadata.uid} was assumed on {pod.spec.node_name} but assigned to {held}"
            )
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
        if numbers[at] >= 0 and state.ledger.state_of(numbers[at]) != ASSUMED or pod.metadata.uid in seen:
            raise CacheError(f"pod {pod.metadata.uid} was already in added state")
        seen.add(pod.metadata.uid)
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


def _add(ClusterState state, pods):
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
        _prefetch_pod(pods, at)
        numbers[at] = state._known(pod)
    _finish(state, numbers, deadline)


def confirm_reported(ClusterState state not None, notices):
    """Confirm the leading assumed pods that notices report as bound; see `confirm_pods`.

    Parameters
    ----------
    state : ClusterState
    notices : iterable of Notice
        Of pods.

    Returns
    -------
    list of Notice
        The notices of these pods.
    """
    cdef list out = []
    cdef Notice notice
    cdef int32_t number
    for notice in notices:
        if not _reports_binding(notice):
            break
        number = state._known(_likeness(notice._new))
        if number < 0 or state.ledger.state_of(number) != ASSUMED:
            break
        _confirm_assumed(state, number, notice._new)
        out.append(notice)
    return out


cdef bint _follows(WatchEvent event, object held) except -1:
    """Whether an event is the next one of an object, which is held by itself or by an event."""
    return event._previous is held or event._previous is made(held)


cdef bint _reports_binding(Notice notice) except -1:
    """Whether a notice says that a pod got a node, and the pod has not finished."""
    cdef object old, new
    if notice._new is None or notice._old is None:
        return False
    if type(notice._new) is WatchEvent and _follows(<WatchEvent>notice._new, notice._old):
        # Of the events whose object is not made, bindings alone change the node.
        return (<WatchEvent>notice._new).is_binding and PHASE.of(STATUS.of(made(notice._old))) not in FINISHED
    old, new = made(notice._old), made(notice._new)
    return (
        PHASE.of(STATUS.of(new)) not in FINISHED and not NODE_NAME.of(SPEC.of(old))
        and bool(NODE_NAME.of(SPEC.of(new))) and _has_same_uid(old, new)
    )


def evictions(notices):
    """Return the leading notices of pods on nodes that are each changed and then deleted.

    The pods have not finished, and are on the same node before and after the change.

    Parameters
    ----------
    notices : iterable of Notice
        Of pods.

    Returns
    -------
    list of (Notice, Notice)
        The change and the deletion of each pod.
    """
    cdef list out = []
    cdef Notice notice, change = None
    for notice in notices:
        if change is None:
            if notice._old is None or notice._new is None:
                break
            change = notice
            continue
        if notice._new is not None or not _is_update_on_node(change):
            break
        old, deleted = change.likeness, notice.likeness
        # A tombstone has no metadata.
        if type(deleted) is not type(old) or not _has_same_uid(deleted, old):
            break
        out.append((change, notice))
        change = None
    return out


def end_at_once(ClusterState state not None, pods, known, bint is_controlled):
    """Whether evictions would delete pods at once, and no controller would react.

    Parameters
    ----------
    state : ClusterState
    pods : sequence of (Pod or WatchEvent)
        Each pod as it is in the cache, or the event that makes it.
    known : sequence of (Pod or None)
        What informers know of each: at least its metadata without the resource version.
    is_controlled : bool
        Whether there are controllers. They react to pods with owners, volumes or claims.

    Returns
    -------
    bool
        False for pods that are assumed, terminating or unknown, or have finalizers.
    """
    cdef int32_t number
    for pod, latest in zip([_likeness(held) for held in pods], known, strict=True):
        number, meta = state._known(pod), METADATA.of(pod)
        if latest is None or number >= 0 and state.ledger.state_of(number) == ASSUMED:
            return False
        current = METADATA.of(latest)
        if UID.of(current) != UID.of(meta) or FINALIZERS.of(current):
            return False
        if is_controlled and has_dependencies(pod):
            return False
        if DELETION_TIMESTAMP.of(current) is not None or DELETION_TIMESTAMP.of(meta) is not None:
            return False
    return True


cpdef bint has_dependencies(pod) except -1:
    """Whether controllers may have work when a pod changes or goes: it has owners, volumes or claims."""
    spec = SPEC.of(pod)
    return bool(OWNER_REFERENCES.of(METADATA.of(pod)) or VOLUMES.of(spec) or RESOURCE_CLAIMS.of(spec))


def preemptions(ClusterState state not None, notices, written):
    """Return the leading notices by preemptor, if they report what was written, and nothing else.

    Parameters
    ----------
    state : ClusterState
    notices : iterable of Notice
        Of pods.
    written : sequence of WatchEvent
        What `ObjectMap.preempt` has written.

    Returns
    -------
    list of (list of (Notice or None, Notice), Notice)
        For each preemptor the change, if there is one, and the deletion of each victim, and its own change.
        Empty where there are other notices, or a victim is in the cache.
    """
    cdef list out = [], gone = []
    cdef Notice notice, change = None
    cdef WatchEvent event
    reported = iter(notices)
    for event in written:
        notice = next(reported, None)
        if notice is None:
            return []
        if event.type == "DELETED":
            if notice._new is not None or notice._old is not event and notice._old is not event._object \
                    or state._known(_likeness(event)) >= 0:
                return []
            gone.append((change, notice))
            change = None
        elif notice._old is None or notice._new is not event and notice._new is not event._object:
            return []
        elif event._make is not None:
            change = notice
        else:
            out.append((gone, notice))
            gone = []
    return out


cdef bint _is_update_on_node(Notice change) except -1:
    """Whether a pod is on one node before and after a change, and has not finished."""
    if is_of_conditions(change):
        return PHASE.of(STATUS.of(change.likeness)) not in FINISHED
    old, new = change.old, change.known
    node = NODE_NAME.of(SPEC.of(old))
    if not node or PHASE.of(STATUS.of(old)) in FINISHED:
        return False
    return new is old or (NODE_NAME.of(SPEC.of(new)) == node and _has_same_uid(old, new)
                          and PHASE.of(STATUS.of(new)) not in FINISHED)


cdef bint _has_same_uid(object pod, object other) except -1:
    """Whether two objects have one UID."""
    return UID.of(METADATA.of(pod)) == UID.of(METADATA.of(other))


def confirm_pods(ClusterState state not None, pods):
    """Add pods that the scheduler of this cache has bound, as the informer reports them.

    A pod that has only been bound since it was assumed keeps its class, so that its spec is not read again;
    if an event of the store says so, its object is made when it is read. A pod that is in the cache and not
    assumed is ignored.

    Parameters
    ----------
    state : ClusterState
    pods : iterable of (Pod or WatchEvent)
        As they are reported, with spec.nodeName set; or the event that makes the reported pod.

    Raises
    ------
    CacheError
        A pod has no UID. The pods before it have been added.
    """
    cdef int32_t number
    for held in pods:
        number = state._known(_likeness(held))
        if number < 0:
            state.add_pod(made(held))
        elif state.ledger.state_of(number) == ASSUMED:
            _confirm_assumed(state, number, held)


cdef int _confirm_assumed(ClusterState state, int32_t number, object held) except -1:
    """Add an assumed pod as it is reported, by itself or by the event that makes it."""
    if type(held) is WatchEvent:
        if _only_binds(state, number, <WatchEvent>held):
            return state._confirm(number, (<WatchEvent>held).kept())
    pod = made(held)
    if is_only_bound(state.ledger.model_of(number), pod):
        state.classes.remember(pod, state.ledger.class_of(number))
        if state.journal.depth == 0 and state._is_confirmed_by(number, pod):
            return state._confirm(number, pod)
    state.add_pod(pod)


def confirm_bindings(ClusterState state not None, notices):
    """Confirm the leading assumed pods that notices report as bound where they were assumed, and otherwise
    unchanged.

    Parameters
    ----------
    state : ClusterState
    notices : iterable of Notice
        Of pods.

    Returns
    -------
    int
        The number of leading notices of that kind.
    """
    cdef Notice notice
    cdef int32_t number, count = 0
    for notice in notices:
        if type(notice._new) is not WatchEvent or not _reports_binding(notice):
            break
        number = state._known(_likeness(notice._new))
        if number < 0 or state.ledger.state_of(number) != ASSUMED \
                or not _only_binds(state, number, <WatchEvent>notice._new):
            break
        state._confirm(number, notice._new)
        count += 1
    return count


cdef bint _only_binds(ClusterState state, int32_t number, WatchEvent event) except -1:
    """Whether an event only binds the assumed pod with a number to the node where it is, and the pod can be
    confirmed in place (see `ClusterState._is_confirmed_by`)."""
    cdef Ledger ledger = state.ledger
    if not event.is_binding or state.journal.depth or event.before() is not ledger.objects[number] \
            and not is_only_bound(ledger.model_of(number), event.before()):
        return False
    if not state.table.has_ports(ledger.row_of(number), state.classes.shape(ledger.class_of(number)).ports):
        return False
    return event._argument == state._node_of(number)


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
        raise CacheError(NOT_ASSUMED.format(wanted.uid(<int32_t>(first + at)), what))
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


def _forget(ClusterState state, const int32_t[::1] numbers):
    """Remove pods by their numbers."""
    cdef Py_ssize_t at
    for at in range(numbers.shape[0]):
        _prefetch(state, numbers, at)
        state._take_away(numbers[at])


def _confirm(ClusterState state, const int32_t[::1] numbers):
    """Confirm assumed pods by their numbers."""
    cdef Py_ssize_t at
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


def _set_deadlines(ClusterState state, const int32_t[::1] numbers, double deadline):
    """Set the deadline of the assumed pods among numbers."""
    cdef Py_ssize_t at
    for at in range(numbers.shape[0]):
        if numbers[at] >= 0 and state.ledger.state_of(numbers[at]) == ASSUMED:
            state.ledger.set_deadline(numbers[at], deadline)
    return 0


def remove_added(ClusterState state not None, pods):
    """Remove those of some pods that have been added.

    Parameters
    ----------
    state : ClusterState
    pods : iterable of (Pod or WatchEvent)

    Returns
    -------
    list of (Pod or WatchEvent)
        The other pods, assumed or not in the cache.
    """
    cdef int32_t number
    cdef list others = []
    for pod in pods:
        number = state._known(_likeness(pod))
        if number < 0 or state.ledger.state_of(number) != ADDED:
            others.append(pod)
        else:
            state._leave(number)
    return others


# ---- counting


def has_pods_below(ClusterState state not None, int32_t priority):
    """Whether a pod of lower priority is on any node.

    Parameters
    ----------
    state : ClusterState
    priority : int

    Returns
    -------
    bool
        Terminating pods count.
    """
    cdef int32_t each, classes = <int32_t>len(state.classes.keys)
    cdef unsigned char[::1] lower
    if state.classes.lowest_priority >= priority:
        return False
    lower = bytearray(classes + 1)
    for each in range(classes):
        lower[each] = state.classes.shape(each).priority < priority
    return state.ledger.has_any(lower)
