"""What notices report about pods: the leading ones of one kind, and bindings entered into the cache in one
step."""

from libc.stdint cimport int32_t

from moorage._core.base cimport METADATA, NODE_NAME, SPEC, STATUS, UID, Field, Notice, WatchEvent, made
from moorage._core.base.watch_events cimport _likeness
from moorage._core.decide.bulk_operations import add_pods
from moorage._core.state cimport ASSUMED, ClusterState, Ledger, Totals
from moorage._core.state.pod_spec cimport is_only_bound

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


def confirm_reported(ClusterState state not None, notices):
    """Confirm the leading assumed pods that notices report as bound; see `confirm_pods`.

    Parameters
    ----------
    state : ClusterState
    notices : iterable of Notice
        Of pods.

    Returns
    -------
    int
        The number of these pods.
    """
    cdef Notice notice
    cdef int32_t number = -1, count = 0
    for notice in notices:
        if not _reports_binding(notice):
            break
        number = _number_of(state, notice._new, number + 1)
        if number < 0 or state.ledger.state_of(number) != ASSUMED:
            break
        _confirm_assumed(state, number, notice._new)
        count += 1
    return count


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
    cdef int32_t number = -1, count = 0
    for notice in notices:
        if type(notice._new) is not WatchEvent or not _reports_binding(notice):
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
        number = state._known(_likeness(held))
        if number < 0:
            state.add_pod(made(held))
        elif state.ledger.state_of(number) == ASSUMED:
            _confirm_assumed(state, number, held)


def add_reported(ClusterState state not None, notices):
    """Add the leading pods that notices report as bound by other schedulers.

    It stops before a pod that is in the cache, or that the cache refuses.

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
    cdef list out = [], pods = []
    cdef Notice notice
    cdef set seen = set()
    for notice in notices:
        if not _reports_binding(notice):
            break
        old, uid = notice.old, UID.of(METADATA.of(_likeness(notice._new)))
        if uid in seen or state._known(old) >= 0:
            break
        new = notice.new
        try:
            if is_only_bound(old, new):  # the specification need not be read again
                state.classes.remember(new, state.classes.intern(old))
            state.classes.intern(new)
        except ValueError:
            break
        seen.add(uid)
        pods.append(new)
        out.append(notice)
    if pods:
        add_pods(state, pods)
    return out


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
    cdef object old, deleted
    for notice in notices:
        if change is None:
            if notice._old is None or notice._new is None:
                break
            change = notice
            continue
        if notice._new is not None:
            break
        if not (_keeps_binding(change) or _is_update_on_node(change.old, change.known)):
            break
        old, deleted = change.likeness, notice.likeness
        # A tombstone has no metadata.
        if type(deleted) is not type(old) or not _has_same_uid(deleted, old):
            break
        out.append((change, notice))
        change = None
    return out


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


cdef int32_t _number_of(ClusterState state, object held, int32_t next_number) except -2:
    """Return the number of a pod that is held by itself or by the event that makes it; -1 for an unknown pod.

    `next_number`: that of the pod that was assumed after the previous one. Most pods are bound in the order
    in which they were assumed.
    """
    if type(held) is WatchEvent and (<WatchEvent>held)._previous is not None \
            and 0 <= next_number < (<Totals*>state.ledger.totals.data).used \
            and state.ledger.objects[next_number] is (<WatchEvent>held)._previous:
        return next_number
    return state._known(_likeness(held))


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


cdef bint _keeps_binding(Notice change) except -1:
    """Whether a pod has been bound, has not finished, and is only changed in conditions: as events tell that
    hold it."""
    cdef WatchEvent event
    if type(change._new) is not WatchEvent or type(change._old) is not WatchEvent:
        return False
    event = change._old
    if not event.is_binding or (<WatchEvent>change._new)._previous is not event:
        return False
    return PHASE.of(STATUS.of(event.subject())) not in FINISHED


cdef bint _is_update_on_node(object old, object new) except -1:
    """Whether a pod is on one node before and after a change, and has not finished."""
    cdef object node = NODE_NAME.of(SPEC.of(old))
    if not node or PHASE.of(STATUS.of(old)) in FINISHED:
        return False
    return new is old or (
        NODE_NAME.of(SPEC.of(new)) == node and _has_same_uid(old, new)
        and PHASE.of(STATUS.of(new)) not in FINISHED
    )


cdef bint _has_same_uid(object pod, object other) except -1:
    """Whether two objects have one UID."""
    return UID.of(METADATA.of(pod)) == UID.of(METADATA.of(other))
