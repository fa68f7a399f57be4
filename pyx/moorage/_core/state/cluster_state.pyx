"""ClusterState: the parts of a cluster's hot state, and the operations that keep them together.

Only the operations here write a cluster. Each checks first and then applies: one that raises changed nothing.
Texts are those of v1.13, internal/cache/cache.go; what scheduling sees is v1.36's.
"""

import logging

from fastrlock.rlock import FastRLock
from moorage.errors import CacheCorruptedError, CacheError

from moorage._core.base cimport DELETION_TIMESTAMP, LOG_ORDER, LOG_ROW, METADATA, NODE_NAME, SPEC, UID
from moorage._core.csrc cimport MR_HELD, MR_PRESENT
from moorage._core.state.ledger cimport ADDED, ASSUMED
from moorage._core.state.zone_tree import zone_key
from moorage._core.state.pod_class cimport Shape
from moorage._core.state.pod_spec import bound
from moorage._core.base.resources import PodGates

logger = logging.getLogger("moorage.cache")

CORRUPTED = "Schedulercache is corrupted and can badly affect scheduling decisions"


cdef class ClusterState:
    """Nodes and pods of one cluster, as the engine holds them.

    Attributes
    ----------
    lock : re-entrant lock
        Held for every change, and for reading more than one value at once.
    """

    def __cinit__(self, ledgers=1, ClusterState copy_of=None, object gates=PodGates(), ledger_of=None):
        self.lock = FastRLock()
        self.journal = Journal()
        if copy_of is not None:
            self._copy(copy_of)
            return
        self.symbols = Symbols()
        self.log = ChangeLog(self.journal)
        self.table = NodeTable(self.symbols, self.journal, self.log, ledgers)
        self.tree = NodeTree(self.journal)
        self.images = ImageStates(self.journal)
        self.view = View(self.journal, self.table, self.tree, self.images)
        self.classes = PodClasses(
            self.symbols, self.table.resource_names, self.table.label_keys, self.images.names,
            gates, ledger_of,
        )
        self.ledger = Ledger(self.journal)
        self.namespaces = Namespaces(self.journal, self.log)
        self.workloads = Workloads(self.journal, self.log)
        self.domains = Domains(self.view, self.classes, self.ledger, self.journal)
        self.zones = {}

    def _copy(self, ClusterState other):
        """Become an independent copy. Names, sets, shapes and classes are append-only and shared."""
        self.symbols = other.symbols
        self.classes = other.classes
        self.log = other.log.clone(self.journal)
        self.table = other.table.clone(self.journal, self.log)
        self.tree = other.tree.clone(self.journal)
        self.images = other.images.clone(self.journal)
        self.view = other.view.clone(self.journal, self.table, self.tree, self.images)
        self.ledger = other.ledger.clone(self.journal)
        self.namespaces = other.namespaces.clone(self.journal, self.log)
        self.workloads = other.workloads.clone(self.journal, self.log)
        self.domains = Domains(self.view, self.classes, self.ledger, self.journal)
        self.zones = other.zones.copy()

    def fork(self):
        """An independent copy of nodes, pods and view."""
        return ClusterState(copy_of=self)

    def mark(self):
        """The mark of a transaction that begins now, for `commit` or `rollback`."""
        self.table.sync_columns()  # those that an undone transaction made are made for good
        if self.journal.depth == 0:
            self.domains.refresh()  # what is pending would be read again after each rollback
        return self.journal.used, self.log.head

    def begin(self):
        """Open a transaction; they nest. Returns its mark."""
        mark = self.mark()
        self.journal.begin()
        return mark

    def commit(self, mark):
        """Keep what was done since `mark`."""
        used, _ = mark
        self.table.check_logged()
        self.journal.commit(used)

    def rollback(self, mark):
        """Undo what was done since `mark`. Consumers of the change log see the undone rows change again."""
        used, head = mark
        try:
            self.journal.rollback(used)
        finally:
            self._follow_rollback(head)

    def _follow_rollback(self, int64_t head):
        self.images.epoch += 1
        self.log.repeat(head)
        if self.domains.cursor == head:  # what is undone need not be read again
            self.domains.cursor = self.log.head
        if self.view.cursor == head:
            self.view.refresh()
        elif self.journal.depth == 0:
            self.view.skip_since(head)

    def atomically(self, operation, *arguments):
        """Run an operation that may run out of memory half-way; where it raises, nothing has changed.

        Parameters
        ----------
        operation : callable
        *arguments
            What it is called with.
        """
        mark = self.begin()
        try:
            result = operation(*arguments)
        except BaseException:
            self.rollback(mark)
            raise
        self.commit(mark)
        return result

    # ---- nodes ---------------------------------------------------------------------------------------------

    def set_node(self, node):
        """Add a node, or replace it by its new state.

        Parameters
        ----------
        node : Node

        Raises
        ------
        ValueError
            A quantity cannot be parsed.
        """
        self.atomically(self._set_node, node)

    def _set_node(self, node):
        cdef str name = node.metadata.name, zone = zone_key(node.metadata.labels)
        cdef int32_t symbol = self.symbols.intern(name), row
        before = self.zones.get(name)
        allocatable = self.table.read_allocatable(node.status.allocatable)
        row = self.table.row_for(symbol)
        self.table.set_node(row, node, allocatable)
        self.images.set_row(row, node.status.images)
        if before != zone:
            if before is not None:
                self.tree.remove(before, symbol)
            else:
                self.log.append(LOG_ORDER, row)
            self.tree.add(zone, symbol)
            self.journal.put(self.zones, name, zone)

    def remove_node(self, str name not None):
        """Remove a node; its row stays as a ghost until its last pod is gone.

        Parameters
        ----------
        name : str

        Raises
        ------
        CacheError
            The node is not known.
        """
        self.atomically(self._remove_node, name)

    def _remove_node(self, str name):
        cdef int32_t symbol = self.symbols.find(name), row = self.table.find(symbol)
        zone = self.zones.get(name)
        if zone is None:
            raise CacheError(f"node {name} is not found")
        self.tree.remove(zone, symbol)
        self.journal.drop(self.zones, name)
        self.images.set_row(row, ())
        self.table.set_node(row, None, {})
        self.log.append(LOG_ORDER, row)
        self._release_if_empty(row)

    def has_node(self, str name not None):
        return name in self.zones

    cdef int _release_if_empty(self, int32_t row) except -1:
        if self.ledger.pods_on(row) == 0 and not self.table.row(0, row).flags & (MR_PRESENT | MR_HELD):
            self.table.release(row)

    # ---- pods ----------------------------------------------------------------------------------------------

    cdef int32_t _known(self, object pod) except -2:
        """Number of a pod by its UID, or -1."""
        cdef str uid = UID.of(METADATA.of(pod))
        if not uid:
            raise CacheError("Cannot get cache key for pod with empty UID")
        return self.ledger.find(uid)

    cdef int _place(self, object pod, int32_t pod_class, int32_t row, PodState state) except -1:
        cdef Shape shape = self.classes.shape(pod_class)
        cdef int32_t number = self.ledger.insert(pod, pod_class, row, state)
        self.table.add_pod(shape.ledger, row, &shape.c, shape.ports, 1)
        self.domains.pod_moved(pod_class, self.ledger.is_terminating(number), row, 1)
        return self.table.changed(LOG_ROW, row)

    cpdef int _take_away(self, int32_t number) except -1:
        cdef int32_t row = self.ledger.row_of(number)
        cdef int32_t pod_class = self.ledger.class_of(number)
        cdef Shape shape = self.classes.shape(pod_class)
        self.domains.pod_moved(pod_class, self.ledger.is_terminating(number), row, -1)
        self.ledger.remove(number)
        self.table.add_pod(shape.ledger, row, &shape.c, shape.ports, -1)
        self.table.changed(LOG_ROW, row)
        return self._release_if_empty(row)

    cpdef int _replace(self, int32_t number, object pod, int32_t pod_class, PodState state) except -1:
        """Place a pod, in place of the one with this number (-1: of none)."""
        cdef int32_t row
        if number >= 0:
            self._take_away(number)
        row = self.table.row_for(self.symbols.intern(NODE_NAME.of(SPEC.of(pod))))
        return self._place(pod, pod_class, row, state)

    cdef int _enter(self, int32_t number, object pod, int32_t pod_class, PodState state) except -1:
        """`_replace`, or nothing if memory runs out."""
        if _can_run_out(self, number, pod, pod_class):
            return self.atomically(self._replace, number, pod, pod_class, state)
        return self._replace(number, pod, pod_class, state)

    cdef int _leave(self, int32_t number) except -1:
        """`_take_away`, or nothing if memory runs out."""
        if _can_run_out(self, number, None, 0):
            return self.atomically(self._take_away, number)
        return self._take_away(number)

    def assume_pod(self, pod):
        """Put a pod on spec.nodeName before it is bound.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            The pod is known.
        """
        if self._known(pod) >= 0:
            raise CacheError(f"pod {pod.metadata.uid} is in the cache, so can't be assumed")
        self._enter(-1, pod, self.classes.intern(pod), ASSUMED)

    def assume_template(self, int32_t pod_class, template, int64_t first, const int32_t[::1] rows not None):
        """Enter pods of one class and one template that a batch has already accounted for on `rows`, and made
        room for. The object of a single pod is made when it is first asked for.

        Parameters
        ----------
        pod_class : int
            The template's.
        template : Pod
            Pod i is this with the name base + i, where base is metadata.generateName, or metadata.name and
            "-", and with the UID namespace/base#i.
        first : int
            The ordinal of the first pod; the others follow.
        rows : (pods,) int32 array

        Raises
        ------
        CacheError
            As `check_template`, which is to be called before the batch.
        """
        self.classes.check(pod_class)
        self.table.check_rows(rows)
        replicas = self.ledger.templates.prepare(template, first, rows.shape[0], self.ledger.index)
        if rows.shape[0]:
            self.ledger.reserve_rows(self.table.used)
            self.ledger.insert_replicas(replicas, pod_class, rows)

    def check_template(self, template, int64_t first, int64_t pods):
        """Check that `assume_template` can enter some pods.

        Parameters
        ----------
        template : Pod
        first, pods : int
            The ordinal of the first pod, and how many there are.

        Raises
        ------
        CacheError
            The template has no name, or one of the UIDs or ordinals is taken. Ordinals of pods that were
            assumed together stay taken until none of those is left as its template made it.
        """
        self.ledger.templates.prepare(template, first, pods, self.ledger.index)

    def put(self, pod, int32_t row):
        """Put a pod on a row, whatever node it names. For use inside a transaction that is rolled back.

        Parameters
        ----------
        pod : Pod
        row : int
        """
        self.table.check_row(row)
        self._place(pod, self.classes.intern(pod), row, ASSUMED)

    def forget_pod(self, pod):
        """Take back an assumed pod.

        Parameters
        ----------
        pod : Pod
            With the node that it was assumed on.

        Raises
        ------
        CacheError
            The pod is not assumed, or on another node.
        """
        cdef int32_t number = self._known(pod)
        cdef str uid = pod.metadata.uid
        if number >= 0:
            held = self._node_of(number)
            if pod.spec.node_name != held:
                raise CacheError(f"pod {uid} was assumed on {pod.spec.node_name} but assigned to {held}")
        if number < 0 or self.ledger.state_of(number) != ASSUMED:
            raise CacheError(f"pod {uid} wasn't assumed so cannot be forgotten")
        self._leave(number)

    def add_pod(self, pod):
        """Add a bound pod as reported: it confirms an assumed one, moving it if its node differs, or is new.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            The pod was added before.
        """
        cdef int32_t number = self._known(pod)
        cdef str uid = pod.metadata.uid
        if number >= 0 and self.ledger.state_of(number) == ADDED:
            raise CacheError(f"pod {uid} was already in added state")
        if number >= 0:
            held = self._node_of(number)
            if held != pod.spec.node_name:
                logger.warning(  # the nodes stand as in v1.13: the new one first
                    "Pod %s was assumed to be on %s but got added to %s", uid, pod.spec.node_name, held
                )
        if self.journal.depth == 0 and self._is_confirmed_by(number, pod):
            self._confirm(number, pod)
            return
        self._enter(number, pod, self.classes.intern(pod), ADDED)

    cdef bint _is_confirmed_by(self, int32_t number, object pod) except -1:
        """Whether a reported state of a pod changes its object alone; it also adds a pod that is assumed."""
        cdef int32_t pod_class
        if number < 0:
            return False
        if self._node_of(number) != NODE_NAME.of(SPEC.of(pod)):
            return False
        pod_class = self.classes.intern(pod)
        terminating = DELETION_TIMESTAMP.of(METADATA.of(pod)) is not None
        return (
            pod_class == self.ledger.class_of(number)
            and terminating == self.ledger.is_terminating(number)
            and not self.classes.shape(pod_class).ports
        )

    cdef int _confirm(self, int32_t number, object pod) except -1:
        self.ledger.confirm(number, pod)
        return self.table.changed(LOG_ROW, self.ledger.row_of(number))

    def update_pod(self, old, new):
        """Replace an added pod by its new state.

        Parameters
        ----------
        old, new : Pod
            On one node.

        Raises
        ------
        CacheError
            `old` was not added.
        CacheCorruptedError
            `new` is on another node.
        """
        cdef int32_t number = self._known(old), pod_class
        cdef str uid = old.metadata.uid
        if number < 0 or self.ledger.state_of(number) != ADDED:
            raise CacheError(f"pod {uid} is not added to scheduler cache, so cannot be updated")
        if new.spec.node_name != self._node_of(number):
            raise CacheCorruptedError(
                f"Pod {uid} updated on a different node than previously added to.\n{CORRUPTED}"
            )
        if old.spec.node_name not in ("", new.spec.node_name):
            raise CacheError(f"no corresponding pod {old.name} in pods of node {old.spec.node_name}")
        if new.metadata.uid != uid and self._known(new) >= 0:
            raise CacheError(f"pod {new.metadata.uid} was already in added state")
        pod_class = self.classes.intern_after(new, old)
        if self.journal.depth == 0 and new.metadata.uid == uid and self._is_confirmed_by(number, new):
            self._confirm(number, new)
        else:
            self._enter(number, new, pod_class, ADDED)

    def remove_pod(self, pod):
        """Remove an added pod.

        Parameters
        ----------
        pod : Pod
            With its node.

        Raises
        ------
        CacheError
            The pod was not added.
        CacheCorruptedError
            The pod is on another node.
        """
        cdef int32_t number = self._known(pod)
        cdef str uid = pod.metadata.uid
        if number < 0 or self.ledger.state_of(number) != ADDED:
            raise CacheError(f"pod {uid} is not found in scheduler cache, so cannot be removed from it")
        held = self._node_of(number)
        if pod.spec.node_name != held:
            raise CacheCorruptedError(
                f"Pod {uid} was assumed to be on {pod.spec.node_name} but got added to {held}\n{CORRUPTED}"
            )
        self._leave(number)

    def discard_pod(self, pod):
        """Take a pod away, assumed or added. CacheError for one that is not known."""
        if self.is_assumed_pod(pod):
            self.forget_pod(pod)
        else:
            self.remove_pod(pod)

    def get_pod(self, pod):
        """The pod as the cache has it, with the node that it is on."""
        cdef int32_t number = self._known(pod)
        if number < 0:
            raise CacheError(f"pod {pod.metadata.uid} does not exist in scheduler cache")
        return bound(self.ledger.object_of(number), self._node_of(number))

    def has_pod(self, pod):
        """True for a pod that the cache knows, assumed or added."""
        return self._known(pod) >= 0

    def is_assumed_pod(self, pod):
        """True for a pod that is assumed; False for one that is confirmed, or not known."""
        cdef int32_t number = self._known(pod)
        return number >= 0 and self.ledger.state_of(number) == ASSUMED

    def finish_binding(self, pod, double deadline):
        """Binding ended; an assumed pod may expire after `deadline`."""
        cdef int32_t number = self._known(pod)
        if number >= 0 and self.ledger.state_of(number) == ASSUMED:
            self.ledger.set_deadline(number, deadline)

    def expire(self, double now):
        """Drop the assumed pods whose deadline lies before `now`; returns them."""
        return self.atomically(self._expire, now)

    def _expire(self, double now):
        numbers = self.ledger.expired(now)
        pods = [bound(self.ledger.object_of(number), self._node_of(number)) for number in numbers]
        for number in numbers:
            self._take_away(number)
        for pod in pods:
            logger.warning("Pod %s/%s expired", pod.metadata.namespace, pod.metadata.name)
        return pods

    def pods(self):
        """All pods in row order, assumed ones and those of ghosts included, with the nodes they are on."""
        return [pod for row in range(self.table.used) for pod in self.pods_of(row)]

    def pods_of(self, int32_t row):
        """The pods of a row, in the row's order."""
        self.table.check_row(row)
        name = self.table.row_name(row)
        return [bound(pod, name) for pod in self.ledger.pods_of(row)]

    def find_row(self, str name not None):
        """Row of a node, ghosts included, or None."""
        return self.table.find_row(name)

    def images_of(self, int32_t row):
        """Image name to (bytes, nodes that have it) of a row's node."""
        self.table.check_row(row)
        return self.images.read(self.images.held, row, <int64_t*>self.images.sizes.data)

    def assumed_pods(self):
        """UIDs of the assumed pods, sorted."""
        return self.ledger.assumed()

    def binding_pods(self):
        """The assumed pods whose binding has not finished, sorted by UID."""
        return [self.ledger.object_of(number) for number in self.ledger.binding()]


cdef bint _can_run_out(ClusterState state, int32_t number, object pod, int32_t pod_class) except -1:
    """Whether replacing a pod can run out of memory after its first change: for a new row, a new set of
    host ports, or for the journal. Other memory is taken here."""
    state.ledger.make_room(1)
    state.ledger.reserve_rows(state.table.used)
    state.table.sync_columns()
    if number >= 0 and state.classes.shape(state.ledger.class_of(number)).ports:
        return True
    if pod is None:
        return state.journal.depth != 0
    new_row = state.table.find(state.symbols.intern(NODE_NAME.of(SPEC.of(pod)))) < 0
    return new_row or bool(state.classes.shape(pod_class).ports) or state.journal.depth != 0
