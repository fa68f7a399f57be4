# cython: auto_pickle=False
"""The pods of a BinderCache: the effects of its events and methods on the ledger and the node table.

Behaviour and texts are Gödel's, pkg/binder/cache. Each operation checks first and then applies: one that
raises has changed nothing.
"""

from moorage.errors import CacheCorruptedError, CacheError

from moorage._core.state.pod_spec import is_only_bound

from libc.stdint cimport int32_t

from moorage._core.binder.binder_store cimport BinderStore, uid_of
from moorage._core.base cimport ANNOTATIONS, METADATA, NODE_NAME, SPEC, UID, Deadline, Deadlines
from moorage._core.state cimport ADDED, ASSUMED, FREE, INFINITY, ClusterState, Ledger

cdef enum:
    SPARE_HINTS = 64  # entries of the heap of deadlines below which it is not rebuilt
    UNSET = -1  # in the ledger: the pod has no deadline


cdef int32_t _known(ClusterState state, object pod) except -2:
    """The number of a pod by its UID, or -1."""
    return state.ledger.find(uid_of(pod))


cpdef find(ClusterState state, pod):
    """Return the cached pod with the UID of a pod.

    Parameters
    ----------
    state : ClusterState
    pod : Pod

    Returns
    -------
    Pod or None

    Raises
    ------
    CacheError
        The pod has no UID.
    """
    cdef int32_t number = _known(state, pod)
    return None if number < 0 else state.ledger.object_of(number)


def find_uid(ClusterState state not None, str uid not None):
    """Return the cached pod with a UID.

    Parameters
    ----------
    state : ClusterState
    uid : str

    Returns
    -------
    Pod or None
    """
    cdef int32_t number = state.ledger.find(uid)
    return None if number < 0 else state.ledger.object_of(number)


cdef class BinderPods(BinderStore):
    """The pods of a binder's cache, by UID.

    Parameters
    ----------
    state : ClusterState
    handler : CacheHandler
        Has the clock and the time limits.
    node_name_of : callable
        Returns the node of a pod whose spec has no node name.
    """

    cdef object node_name_of

    def __init__(self, ClusterState state not None, handler, node_name_of):
        super().__init__(state, handler)
        self.node_name_of = node_name_of

    def find(self, pod):
        """Return the cached pod with the UID of a pod.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Pod or None

        Raises
        ------
        CacheError
            The pod has no UID.
        """
        cdef int32_t number = _known(self.state, pod)
        return None if number < 0 else self.state.ledger.object_of(number)

    cdef bint _is_on_annotated_node(self, int32_t number) except -1:
        """Whether only an annotation of a pod names its node, or nothing does."""
        held = self.state.ledger.object_of(number)
        if NODE_NAME.of(SPEC.of(held)):
            return False
        if not self.state._node_of(number):
            return True
        return bool(ANNOTATIONS.of(METADATA.of(held)) and self.node_name_of(held))

    def find_named(self, pod):
        """Return the cached pod with the namespace and name of a pod.

        Of several such pods it is the one with the same UID, else the one with the lowest number in the
        ledger. Unless the pod with the same UID matches, all pods are searched.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Pod or None
        """
        cdef Ledger ledger = self.state.ledger
        cdef str namespace = pod.metadata.namespace, name = pod.metadata.name
        cdef int32_t number = ledger.find(pod.metadata.uid)
        if number >= 0 and _is_named(ledger.object_of(number), namespace, name):
            return self.state.ledger.object_of(number)
        for number in range(ledger.sums().used):
            if ledger.state_of(number) != FREE and _is_named(ledger.object_of(number), namespace, name):
                return self.state.ledger.object_of(number)
        return None

    def is_assumed_pod(self, pod):
        """Whether a pod is assumed, regardless of its deadline.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        bool

        Raises
        ------
        CacheError
            The pod has no UID.
        """
        cdef int32_t number = _known(self.state, pod)
        return number >= 0 and self.state.ledger.state_of(number) == ASSUMED

    def has_expired(self, pod, double now):
        """Whether a pod is assumed and its deadline has passed. `expire` removes such pods.

        Parameters
        ----------
        pod : Pod
        now : float
            The time in seconds.

        Returns
        -------
        bool

        Raises
        ------
        CacheError
            The pod has no UID.
        """
        cdef int32_t number = _known(self.state, pod)
        cdef double deadline = UNSET if number < 0 else self.state.ledger.record(number).deadline
        return deadline != UNSET and deadline < now

    def assume_pod(self, pod):
        """Put a pod on its node before it is bound.

        A pod whose node is in an annotation only does not expire. A pod without any node uses no node's
        resources.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            The cache has a pod of that UID, or the pod has none.
        """
        cdef ClusterState state = self.state
        cdef str node_name = NODE_NAME.of(SPEC.of(pod))
        cdef int32_t pod_class
        cdef double deadline
        if _known(state, pod) >= 0:
            raise CacheError(f"pod {pod.key} was already in binder cache")
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

    cdef int _finish_binding(self, pod, double deadline) except -1:
        """Set the deadline of a pod, if it is assumed and its spec has a node name."""
        cdef int32_t number = _known(self.state, pod)
        if number < 0 or self.state.ledger.state_of(number) != ASSUMED:
            return 0
        if self._is_on_annotated_node(number):
            return 0
        if self.state.journal.depth:
            self.state.atomically(_finish, self.state, number, deadline)
        else:
            _set_deadline(self.state, number, deadline)
        return 0

    def finish_binding(self, pod):
        """Set the deadline of an assumed pod after an attempt to bind it.

        Pods that are not assumed, or have no node name in their spec, are ignored.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            The pod has no UID.
        """
        self._finish_binding(pod, self.handler.clock() + self.handler.pod_assumed_ttl)

    def forget_pod(self, pod):
        """Remove an assumed pod.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Pod or None
            The removed pod; None if it is not assumed.

        Raises
        ------
        CacheCorruptedError
            It was assumed on another node.
        CacheError
            The pod has no UID.
        """
        cdef ClusterState state = self.state
        cdef int32_t number = _known(state, pod)
        if number < 0 or state.ledger.state_of(number) != ASSUMED:
            return None
        assumed_on = state._node_of(number)
        node_name = NODE_NAME.of(SPEC.of(pod)) or self.node_name_of(pod)
        if assumed_on != node_name:
            text = f"pod {pod.key} was assumed on {assumed_on} but forgotten on {node_name or 'no node'}"
            raise CacheCorruptedError(text)
        return _leave(state, number)

    def add_pod(self, pod):
        """Add a pod whose binding was reported. It confirms an assumed pod, and moves it if its node differs.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Pod or None
            The cached pod of that UID, which the pod replaces.

        Raises
        ------
        CacheError
            The pod has no UID, or has been added before.
        """
        cdef int32_t number = _known(self.state, pod)
        assumed = None if number < 0 else self.state.ledger.object_of(number)
        _class_of(self.state, assumed, pod)
        self.state.add_pod(pod)
        return assumed

    def update_pod(self, old, new):
        """Replace a pod by its new state, which is bound.

        If the UIDs differ, the old pod was deleted and the new one created.

        Parameters
        ----------
        old, new : Pod

        Returns
        -------
        list of Pod
            The cached pods with these UIDs, which `new` replaces.

        Raises
        ------
        CacheError
            The UIDs differ, and the new pod has been added before.
        """
        cdef ClusterState state = self.state
        cdef int32_t number = _known(state, old), other = number, pod_class
        cdef list replaced = []
        if number >= 0:
            replaced.append(state.ledger.object_of(number))
        if old.metadata.uid != new.metadata.uid:
            other = _known(state, new)
            if other >= 0 and state.ledger.state_of(other) == ADDED:
                raise CacheError(f"pod {new.key} was already in added state")
            if other >= 0:
                replaced.append(state.ledger.object_of(other))
        pod_class = _class_of(state, replaced[0] if replaced else None, new)
        if other != number:
            state.atomically(_swap, state, number, other, new, pod_class)
        elif state.journal.depth == 0 and state._is_confirmed_by(number, new):
            state._confirm(number, new)
        else:
            state._enter(number, new, pod_class, ADDED)
        return replaced

    def remove_pod(self, pod):
        """Remove a pod in any state.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Pod or None
            The removed pod; None if the cache has no pod of that UID.

        Raises
        ------
        CacheError
            The pod has no UID.
        """
        cdef int32_t number = _known(self.state, pod)
        return None if number < 0 else _leave(self.state, number)

    def expire(self, double now):
        """Remove the assumed pods whose deadline has passed.

        Parameters
        ----------
        now : float
            The time in seconds.

        Returns
        -------
        list of Pod
            The removed pods, in the order of their deadlines.
        """
        cdef Deadlines deadlines = self.state.ledger.deadlines
        if not deadlines.size() or deadlines.first().when >= now:
            return []
        if self.state.journal.depth:
            return self.state.atomically(_expire, self.state, now)
        return _expire(self.state, now)


cdef bint _is_named(object pod, str namespace, str name) except -1:
    """Whether a pod has a namespace and a name."""
    meta = METADATA.of(pod)
    return meta.name == name and meta.namespace == namespace


cdef int32_t _class_of(ClusterState state, object cached, object pod) except -1:
    """The class of a reported pod. It is that of the cached pod if the pod has only been bound since."""
    if cached is not None and not state.classes.knows(pod) and is_only_bound(cached, pod):
        state.classes.remember(pod, state.classes.intern(cached))
    return state.classes.intern(pod)


def _assume(ClusterState state not None, pod, str node_name, int32_t pod_class, double deadline):
    """Enter a pod as assumed."""
    state._place(pod, pod_class, state.table.row_for(state.symbols.intern(node_name)), ASSUMED)
    _set_deadline(state, state.ledger.find(UID.of(METADATA.of(pod))), deadline)


def _finish(ClusterState state not None, int32_t number, double deadline):
    """Set a pod's deadline, as an operation of `ClusterState.atomically`."""
    if not 0 <= number < state.ledger.sums().used:
        raise IndexError(f"there is no pod {number}")
    _set_deadline(state, number, deadline)


def _swap(ClusterState state not None, int32_t number, int32_t other, new, int32_t pod_class):
    """Remove the old pod, and replace the cached pod of the new UID, if any, by the new pod."""
    if number >= 0:
        state._take_away(number)
    state._replace(other, new, pod_class, ADDED)


cdef object _leave(ClusterState state, int32_t number):
    """Remove a pod by its number; return it."""
    pod = state.ledger.object_of(number)
    state._leave(number)
    return pod


def _expire(ClusterState state not None, double now):
    """Remove the assumed pods whose deadline has passed; return them."""
    cdef list numbers = state.ledger.expired(now), pods = []
    cdef bint has_ports = False
    cdef int32_t number
    for number in numbers:
        pods.append(state.ledger.object_of(number))
        has_ports = has_ports or bool(state.classes.shape(state.ledger.class_of(number)).ports)
    if has_ports:  # removing host ports may take memory, which can run out
        state.atomically(_take_all_away, state, numbers)
    else:
        _take_all_away(state, numbers)
    return pods


def _take_all_away(ClusterState state not None, list numbers):
    """Remove pods by their numbers."""
    cdef int32_t number
    for number in numbers:
        state._take_away(number)


# ---- deadlines


cdef int _set_deadline(ClusterState state, int32_t number, double deadline) except -1:
    """Set a pod's deadline.

    Most pods leave before their deadline, and their entries stay in the heap. It is rebuilt when most entries
    may be of such pods.
    """
    cdef Ledger ledger = state.ledger
    ledger.set_deadline(number, deadline)
    if state.journal.depth == 0 and ledger.deadlines.size() > SPARE_HINTS + 2 * ledger.sums().used:
        _tidy(ledger)


cdef int _tidy(Ledger ledger) except -1:
    """Rebuild the heap of deadlines in its present memory."""
    cdef int32_t number
    cdef double when
    ledger.deadlines.count.int32()[0] = 0
    for number in range(ledger.sums().used):
        when = ledger.record(number).deadline
        if ledger.state_of(number) == ASSUMED and when != UNSET and when != INFINITY:
            ledger.deadlines.push(Deadline(when, number))
