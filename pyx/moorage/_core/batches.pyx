"""Operations on several pods at once: checked as a whole first, then all or none."""

from libc.stdint cimport int32_t

from moorage.errors import CacheError

from moorage._core.ledger cimport ASSUMED, FREE, PodState
from moorage._core.pod_spec import is_only_bound
from moorage._core.state cimport ClusterState


cdef int _check(ClusterState state, pods, tuple states, str text) except -1:
    """Raise where a pod is in another state than the operation needs, or stands in the batch twice."""
    cdef int32_t number
    cdef PodState found
    seen = set()
    for pod in pods:
        number = state._known(pod)
        found = FREE if number < 0 else state.ledger.state_of(number)
        if found not in states or pod.metadata.uid in seen:
            raise CacheError(text.format(pod.metadata.uid))
        seen.add(pod.metadata.uid)
    return 0


cdef int _run(ClusterState state, operation, pods) except -1:
    """Run an operation whose memory is there, or record it and take it back if memory runs out."""
    state.ledger.make_room(len(pods))
    for pod in pods:
        if state._can_run_out(state._known(pod), pod, state.classes.intern(pod)):
            state.safely(operation, state, pods)
            return 0
    operation(state, pods)
    return 0


def assume_pods(ClusterState state, pods):
    """Assume several pods; all or none."""
    _check(state, pods, (FREE,), "pod {} is in the cache, so can't be assumed")
    _run(state, _assume, pods)


def _assume(ClusterState state, pods):
    for pod in pods:
        state._replace(-1, pod, state.classes.intern(pod), ASSUMED)


def forget_pods(ClusterState state, pods):
    """Take several assumed pods back; all or none."""
    _check(state, pods, (ASSUMED,), "pod {} wasn't assumed so cannot be forgotten")
    for pod in pods:
        held = state._node_of(state._known(pod))
        if pod.spec.node_name != held:
            raise CacheError(
                f"pod {pod.metadata.uid} was assumed on {pod.spec.node_name} but assigned to {held}"
            )
    _run(state, _forget, pods)


def _forget(ClusterState state, pods):
    for pod in pods:
        state._take_away(state._known(pod))


def add_pods(ClusterState state, pods):
    """Several bound pods were reported; all or none."""
    _check(state, pods, (FREE, ASSUMED), "pod {} was already in added state")
    _run(state, _add, pods)


def _add(ClusterState state, pods):
    for pod in pods:
        state.add_pod(pod)


def finish_bindings(ClusterState state, pods, double deadline):
    """The bindings of several pods ended; they may expire after `deadline`."""
    for pod in pods:
        state._known(pod)
    for pod in pods:
        state.finish_binding(pod, deadline)


def confirm_pods(ClusterState state, pods):
    """Pods that this cache's scheduler bound were reported. A bind alone changes no class, so no spec is
    read; a pod can have changed before, though. One that is not assumed any more is added as it comes, unless
    somebody did before."""
    cdef int32_t number
    for pod in pods:
        number = state._known(pod)
        if number >= 0 and is_only_bound(state.ledger.object_of(number), pod):
            state.classes.remember(pod, state.ledger.class_of(number))
        if number < 0 or state.ledger.state_of(number) == ASSUMED:
            state.add_pod(pod)
