"""Operations on several pods at once: checked as a whole first, then all or none."""

import numpy as np
from libc.stdint cimport int32_t, int64_t

from moorage.errors import CacheError

from moorage._core.base cimport LOG_ROW, METADATA, NODE_NAME, SPEC, UID
from moorage._core.state cimport (
    AHEAD, ASSUMED, INFINITY, MARKED, ClusterState, Ledger, PodRecord, Replicas, prefetch, replicas_of,
)
from moorage._core.state.pod_spec import bound, is_only_bound

PENDING = -1  # the number of a pod that is being entered
KNOWN = "pod {} is in the cache, so can't be assumed"
NOT_ASSUMED = "pod {} wasn't assumed so cannot be {}"


# ---- pods by their objects


def check_new(ClusterState state not None, pods):
    """Check that pods can be assumed.

    Parameters
    ----------
    pods : sequence of Pod

    Raises
    ------
    CacheError
        One of them is known, or stands there twice.
    """
    cdef set seen = set()
    for pod in pods:
        uid = UID.of(METADATA.of(pod))
        if uid in seen or state._known(pod) >= 0:
            raise CacheError(KNOWN.format(uid))
        seen.add(uid)


def assume_pods(ClusterState state not None, pods):
    """Assume several pods; all or none."""
    cdef int32_t[::1] classes = np.empty(len(pods), dtype=np.int32)
    cdef int32_t[::1] rows = np.empty(len(pods), dtype=np.int32)
    try:
        if _prepare(state, pods, classes, rows):
            state.atomically(_assume, state, pods, classes, rows)
        else:
            _assume(state, pods, classes, rows)
    except BaseException:
        for pod in pods:
            if state.ledger.index.get(pod.metadata.uid) == PENDING:
                del state.ledger.index[pod.metadata.uid]
        raise


cdef bint _prepare(ClusterState state, pods, int32_t[::1] classes, int32_t[::1] rows) except -1:
    """Check pods that are to come, hold their UIDs as pending, and find their classes and rows (-1: none
    yet). Answers whether memory can run out when they are entered."""
    cdef dict index = state.ledger.index
    cdef Py_ssize_t at, known = len(index)
    cdef int32_t last = -1
    cdef bint can_run_out = state.journal.depth != 0
    for at, pod in enumerate(pods):
        uid = UID.of(METADATA.of(pod))
        if not uid or state.ledger.templates.find(uid) >= 0:
            state._known(pod)  # raises where there is no UID
            raise CacheError(KNOWN.format(uid))
        index.setdefault(uid, PENDING)
        if len(index) != known + at + 1:  # it is in the cache, or stands here twice
            raise CacheError(KNOWN.format(uid))
        classes[at] = state.classes.intern(pod)
        rows[at] = state.table.find(state.symbols.find(NODE_NAME.of(SPEC.of(pod))))
        if rows[at] < 0:
            can_run_out = True
        if classes[at] != last:  # pods of one class stand together
            last = classes[at]
            can_run_out = can_run_out or bool(state.classes.shape(last).ports)
    _make_room(state, len(pods))
    return can_run_out


def _assume(ClusterState state, pods, const int32_t[::1] classes, const int32_t[::1] rows):
    cdef Py_ssize_t at
    cdef int32_t row
    for at, pod in enumerate(pods):
        row = rows[at]
        if row < 0:
            row = state.table.row_for(state.symbols.intern(NODE_NAME.of(SPEC.of(pod))))
        state._place(pod, classes[at], row, ASSUMED)


cdef int _make_room(ClusterState state, Py_ssize_t pods) except -1:
    """Take the memory that so many more pods on known rows need."""
    state.ledger.make_room(pods)
    state.ledger.reserve_rows(state.table.used)
    state.table.sync_columns()


def forget_pods(ClusterState state not None, pods):
    """Take several assumed pods back; all or none."""
    cdef int32_t[::1] numbers = np.empty(len(pods), dtype=np.int32)
    cdef Py_ssize_t at
    for at, pod in enumerate(pods):
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
    """Several bound pods were reported; all or none."""
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
    seen = set()
    for at, pod in enumerate(pods):
        if numbers[at] >= 0 and state.ledger.state_of(numbers[at]) != ASSUMED or pod.metadata.uid in seen:
            raise CacheError(f"pod {pod.metadata.uid} was already in added state")
        seen.add(pod.metadata.uid)
    _make_room(state, len(pods))
    state.atomically(_add, state, pods)


def add_bound(ClusterState state not None, pods, nodes):
    """`add_pods` for pods as they were before others bound them, with the names of their nodes: of pods that
    share a spec it is read once."""
    reported = [bound(pod, node) for pod, node in zip(pods, nodes, strict=True)]
    for pod, bound_pod in zip(pods, reported, strict=True):
        state.classes.remember(bound_pod, state.classes.intern(pod))
    add_pods(state, reported)


def _add(ClusterState state, pods):
    for pod in pods:
        state.add_pod(pod)


def finish_bindings(ClusterState state not None, pods, double deadline):
    """The bindings of several pods ended; they may expire after `deadline`."""
    cdef int32_t[::1] numbers = np.empty(len(pods), dtype=np.int32)
    cdef Py_ssize_t at
    for at, pod in enumerate(pods):
        numbers[at] = state._known(pod)
    _finish(state, numbers, deadline)


def confirm_pods(ClusterState state not None, pods):
    """Pods that this cache's scheduler bound were reported. A bind alone changes no class, so no spec is
    read; a pod can have changed before, though. One that is not assumed any more is added as it comes, unless
    somebody did before."""
    cdef int32_t number
    for pod in pods:
        number = state._known(pod)
        if number >= 0 and is_only_bound(state.ledger.model_of(number), pod):
            state.classes.remember(pod, state.ledger.class_of(number))
        if number < 0 or state.ledger.state_of(number) == ASSUMED:
            state.add_pod(pod)


# ---- pods of a template by their ordinals


def forget_template(ClusterState state not None, template, int64_t first, int64_t pods):
    """Take assumed pods of a template back: `pods` of them from ordinal `first` on; all or none."""
    _run(state, _forget, _assumed_replicas(state, template, first, pods, "forgotten"))


def finish_template(ClusterState state not None, template, int64_t first, int64_t pods, double deadline):
    """The bindings of so many pods of a template ended; they may expire after `deadline`."""
    _finish(state, _numbers(state.ledger, replicas_of(template, first, pods)), deadline)


def confirm_template(ClusterState state not None, template, int64_t first, int64_t pods):
    """So many assumed pods of a template are bound as they were assumed; all or none. They stay without
    objects."""
    _run(state, _confirm, _assumed_replicas(state, template, first, pods, "confirmed"))


cdef int32_t[::1] _assumed_replicas(ClusterState state, template, int64_t first, int64_t pods, str what):
    cdef Replicas wanted = replicas_of(template, first, pods)
    cdef int32_t[::1] numbers = _numbers(state.ledger, wanted)
    cdef Py_ssize_t at = _first_not_assumed(state.ledger, numbers)
    if at >= 0:
        raise CacheError(NOT_ASSUMED.format(wanted.uid(<int32_t>(first + at)), what))
    return numbers


cdef int32_t[::1] _numbers(Ledger ledger, Replicas wanted):
    cdef int32_t[::1] out = np.empty(wanted.count, dtype=np.int32)
    if wanted.count:
        ledger.templates.find_range(wanted, ledger.index, &out[0])
    return out


# ---- by number


cdef Py_ssize_t _first_not_assumed(Ledger ledger, int32_t[::1] numbers) noexcept:
    """Place of the first number whose pod is not there, not assumed, or stands here twice; or -1."""
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
    """Run an operation on pods of the ledger; where memory can run out, with a way back."""
    cdef Py_ssize_t at
    cdef bint can_run_out = state.journal.depth != 0
    cdef int32_t seen = -1, pod_class
    for at in range(numbers.shape[0]):
        pod_class = state.ledger.class_of(numbers[at])
        if pod_class != seen:  # pods of one class stand together
            seen = pod_class
            can_run_out |= bool(state.classes.shape(pod_class).ports)
    if can_run_out:
        state.atomically(operation, state, numbers)
    else:
        operation(state, numbers)


cdef inline void _prefetch(ClusterState state, const int32_t[::1] numbers, Py_ssize_t at) noexcept:
    """Pods of a batch are on rows in no order: have those that come soon on their way from memory."""
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
    cdef Py_ssize_t at
    for at in range(numbers.shape[0]):
        _prefetch(state, numbers, at)
        state._take_away(numbers[at])


def _confirm(ClusterState state, const int32_t[::1] numbers):
    cdef Py_ssize_t at
    for at in range(numbers.shape[0]):
        _prefetch(state, numbers, at)
        state.ledger.confirm(numbers[at])
        state.table.changed(LOG_ROW, state.ledger.row_of(numbers[at]))


cdef int _finish(ClusterState state, const int32_t[::1] numbers, double deadline) except -1:
    """Set the deadline of those that are assumed; -1 stands for a pod that is not there."""
    if state.journal.depth:
        return state.atomically(_set_deadlines, state, numbers, deadline)
    if deadline != INFINITY:
        state.ledger.deadlines.reserve(numbers.shape[0])
    return _set_deadlines(state, numbers, deadline)


def _set_deadlines(ClusterState state, const int32_t[::1] numbers, double deadline):
    cdef Py_ssize_t at
    for at in range(numbers.shape[0]):
        if numbers[at] >= 0 and state.ledger.state_of(numbers[at]) == ASSUMED:
            state.ledger.set_deadline(numbers[at], deadline)
    return 0


# ---- counting


def has_pods_below(ClusterState state not None, int32_t priority):
    """Whether a pod of a lower priority is on a row. Terminating ones count."""
    cdef int32_t each, classes = <int32_t>len(state.classes.keys)
    cdef unsigned char[::1] lower
    if state.classes.lowest_priority >= priority:
        return False
    lower = np.empty(classes + 1, dtype=np.uint8)
    for each in range(classes):
        lower[each] = state.classes.shape(each).priority < priority
    return state.ledger.has_any(lower)
