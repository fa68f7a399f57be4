"""What notices report about pods: the leading new ones, and those that were bound or evicted."""

from libc.stdint cimport int32_t

from moorage._core.base cimport NODE_NAME, SPEC, STATUS, Cause, Field, Notice, WatchEvent, made
from moorage._core.base.watch_events cimport _identity
from moorage._core.state cimport ASSUMED, ClusterState, Ledger
from moorage._core.state.pod_spec cimport is_only_bound
from moorage.errors import CacheError

cdef Field PHASE = Field("phase"), SCHEDULER_NAME = Field("scheduler_name")
cdef frozenset FINISHED = frozenset(("Succeeded", "Failed"))


def new_pods(notices, bint is_bound, is_ours=None):
    """Return the pods of the leading notices of new pods that have not finished.

    Parameters
    ----------
    notices : iterable of Notice
        Of pods.
    is_bound : bool
        Whether the pods are on nodes; otherwise they are on none.
    is_ours : callable, optional
        False for a pod that ends the pods; asked once for pods in a row with one scheduler name.

    Returns
    -------
    list of Pod
    """
    cdef list out = []
    cdef Notice notice
    cdef object asked = None
    cdef bint has_node
    for notice in notices:
        if notice._old is not None or notice._new is None:
            break
        pod = made(notice._new)
        spec = SPEC.of(pod)
        has_node = bool(NODE_NAME.of(spec))
        if has_node != is_bound or PHASE.of(STATUS.of(pod)) in FINISHED:
            break
        if is_ours is not None and SCHEDULER_NAME.of(spec) is not asked:
            if not is_ours(pod):
                break
            asked = SCHEDULER_NAME.of(spec)
        out.append(pod)
    return out


def enter_bindings(ClusterState state not None, notices, bint adds):
    """Enter the leading pods that were bound: confirm those that are assumed, and add those that are not in
    the cache, as other schedulers have bound them.

    Parameters
    ----------
    state : ClusterState
    notices : iterable of Notice
        Of pods.
    adds : bool
        Whether pods are added. Otherwise the first one that is not in the cache ends them.

    Returns
    -------
    int
        The number of leading pods that were entered. The next one needs a closer look: it has finished, is in
        the cache and not assumed, or the cache refuses it.
    """
    cdef Notice notice
    cdef int32_t number = -1, count = 0
    for notice in notices:
        if notice.cause != Cause.BOUND or _has_finished(notice._new):
            break
        number = _number_of(state, notice._new, number + 1)
        if number >= 0:
            if state.ledger.state_of(number) != ASSUMED:
                break
            _confirm_assumed(state, number, notice._new)
        elif not adds or not _add_bound(state, notice):
            break
        count += 1
    return count


def confirm_bindings(ClusterState state not None, notices):
    """Confirm the leading assumed pods that were bound to the node where they were assumed, and are otherwise
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
    cdef int32_t number = -1, count = 0
    for notice in notices:
        if notice.cause != Cause.BOUND or type(notice._new) is not WatchEvent:
            break
        number = _number_of(state, notice._new, number + 1)
        if number < 0 or state.ledger.state_of(number) != ASSUMED \
                or not _only_binds(state, number, <WatchEvent>notice._new):
            break
        state._confirm(number, notice._new)
        count += 1
    return count


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
        number = state._known(_identity(held))
        if number < 0:
            state.add_pod(made(held))
        elif state.ledger.state_of(number) == ASSUMED:
            _confirm_assumed(state, number, held)


def evictions(notices):
    """Return the leading pods on nodes that were evicted.

    Parameters
    ----------
    notices : iterable of Notice
        Of pods.

    Returns
    -------
    list of (Notice, Notice)
        For each pod the change of its conditions, and its deletion. The pod has not finished.
    """
    cdef list out = []
    cdef Notice notice, change = None
    for notice in notices:
        if notice.cause != Cause.EVICTED:
            break
        if notice._new is not None:
            if not _is_on_node(notice._old):
                break
            change = notice
        elif change is None:  # it had the condition before
            break
        else:
            out.append((change, notice))
            change = None
    return out


cdef int _confirm_assumed(ClusterState state, int32_t number, object held) except -1:
    """Add an assumed pod as it is reported, by itself or by the event that makes it."""
    if type(held) is WatchEvent:
        if _only_binds(state, number, <WatchEvent>held):
            return state._confirm(number, (<WatchEvent>held).held())
    pod = made(held)
    if is_only_bound(state.ledger.model_of(number), pod):
        state.classes.remember(pod, state.ledger.class_of(number))
        if state.journal.depth == 0 and state._is_confirmed_by(number, pod):
            return state._confirm(number, pod)
    state.add_pod(pod)


cdef bint _only_binds(ClusterState state, int32_t number, WatchEvent event) except -1:
    """Whether an event only binds the assumed pod with a number to the node where it is, and the pod can be
    confirmed in place (see `ClusterState._is_confirmed_by`)."""
    cdef Ledger ledger = state.ledger
    if event.cause != Cause.BOUND or state.journal.depth or event.before() is not ledger.objects[number] \
            and not is_only_bound(ledger.model_of(number), event.before()):
        return False
    if not state.table.has_ports(ledger.row_of(number), state.classes.shape(ledger.class_of(number)).ports):
        return False
    return event._argument == state._node_of(number)


cdef int32_t _number_of(ClusterState state, object held, int32_t next_number) except -2:
    """Return the number of a pod that is held by itself or by the event that makes it; -1 for an unknown pod.

    `next_number`: that of the pod that was assumed after the previous one. Most pods are bound in the order
    in which they were assumed.
    """
    if type(held) is WatchEvent and (<WatchEvent>held)._old is not None \
            and 0 <= next_number < state.ledger.sums().used \
            and state.ledger.objects[next_number] is (<WatchEvent>held)._old:
        return next_number
    return state._known(_identity(held))


cdef bint _add_bound(ClusterState state, Notice notice) except -1:
    """Add a pod that is not in the cache and got a node; return False where the cache refuses it."""
    old, new = notice.old, notice.new
    try:
        if is_only_bound(old, new):  # the specification need not be read again
            state.classes.remember(new, state.classes.intern(old))
        state.add_pod(new)
    except (CacheError, ValueError):
        return False
    return True


cdef bint _has_finished(object held) except -1:
    """Whether a pod has finished, which its binding and its eviction do not change."""
    return PHASE.of(STATUS.of(_identity(held))) in FINISHED


cdef bint _is_on_node(object held) except -1:
    """Whether a pod is on a node and has not finished. It is held by itself, or by an event that has bound it
    or set conditions."""
    cdef object node = None
    while type(held) is WatchEvent and (<WatchEvent>held)._object is None and node is None:
        if (<WatchEvent>held).cause == Cause.BOUND:
            node = (<WatchEvent>held)._argument
        held = (<WatchEvent>held)._old
    held = _identity(held)
    return bool(node or NODE_NAME.of(SPEC.of(held))) and PHASE.of(STATUS.of(held)) not in FINISHED
