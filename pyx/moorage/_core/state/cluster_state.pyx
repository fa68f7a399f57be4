"""ClusterState: nodes, pods and derived tables of one cluster, and the operations that change them.

All changes of a cluster are operations of this class. An operation validates its arguments before it changes
anything, so an operation that raises has changed nothing. Error texts are those of kube-scheduler v1.13,
internal/cache/cache.go; the state that a scheduling cycle reads follows v1.36.
"""

import logging

from fastrlock.rlock import FastRLock
from moorage.errors import CacheCorruptedError, CacheError

from moorage._core.base cimport (
    DELETION_TIMESTAMP, LOG_ORDER, LOG_ROW, METADATA, NAME, NODE_NAME, SPEC, STATUS, UID, Field,
)
from moorage._core.csrc cimport MR_HELD, MR_PRESENT
from moorage._core.state.ledger cimport ADDED, ASSUMED, FREE
from moorage._core.state.zone_tree cimport zone_key
from moorage._core.state.pod_class cimport Shape
from moorage._core.state.pod_spec import bound
from moorage._core.base.resources import PodGates

logger = logging.getLogger("moorage.cache")

cdef Field LABELS = Field("labels"), ALLOCATABLE = Field("allocatable"), IMAGES = Field("images")

ELSEWHERE = "pod {} is on {} in the cache, so it cannot be forgotten on {}"
CORRUPTED = "Schedulercache is corrupted and can badly affect scheduling decisions"


cdef class ClusterState:
    """The state of one cluster.

    Parameters
    ----------
    ledgers : int, default 1
        Number of resource ledgers of the node table.
    copy_of : ClusterState, optional
        A state to copy; the other parameters are then ignored.
    gates : PodGates
        Feature gates that affect how pods are read.
    ledger_of : callable, optional
        Returns the number of the resource ledger that a pod is charged to; by default 0.

    Attributes
    ----------
    lock : fastrlock.rlock.FastRLock
        A re-entrant lock. Callers hold it for each change, and for reading several values of one moment.
    symbols, journal, log, table, tree, images, view, classes, ledger, namespaces, workloads, domains
        The parts of the state; each has its own module.
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
        self.table.quantities_saturate = gates.quantities_saturate
        self.table.sums_saturate = gates.sums_saturate
        self.tree = NodeTree(self.journal)
        self.images = ImageStates(self.journal)
        self.view = View(self.journal, self.table, self.tree, self.images)
        self.classes = PodClasses(
            self.symbols, self.table.resource_names, self.table.label_keys, self.images.names,
            gates, ledger_of,
        )
        self.classes.users.add(self)
        self.ledger = Ledger(self.journal, self.symbols)
        self.namespaces = Namespaces(self.journal, self.log)
        self.workloads = Workloads(self.journal, self.log)
        self.domains = Domains(self.view, self.classes, self.ledger, self.journal)
        self.zones = {}

    def _copy(self, ClusterState other not None):
        """Become an independent copy of a state; append-only tables (symbols, sets, classes) are shared."""
        self.symbols = other.symbols
        self.classes = other.classes
        self.classes.users.add(self)
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
        """Return an independent copy."""
        return ClusterState(copy_of=self)

    def number_classes_anew(self):
        """Forget the classes that no pod has any more; the others get new numbers.

        The tables of classes are append-only, and pods with labels of their own, as those of Jobs, add a
        class each. So whoever schedules for long calls this between two runs, now and then. What is kept for
        each class is made again where it is needed; no decision depends on it.

        Returns
        -------
        bool
            False if it cannot be now: in a transaction, and while a fork shares the classes.
        """
        if self.journal.depth or len(self.classes.users) > 1:
            return False
        self.classes.begin_anew()
        self.domains.clear()
        self.ledger.classify_anew(self.classes)
        return True

    def mark(self):
        """Return the mark of a transaction that begins now, for `commit` or `rollback`.

        Returns
        -------
        tuple of (int, int, int)
            The used bytes of the journal, the head of the change log, and the epoch of the image counts.
        """
        self.table.sync_columns()  # columns created inside a transaction would be lost with a rollback
        if self.journal.depth == 0:  # else each rollback would make the pending entries pending again
            self.domains.refresh()
            self.view.settle()
        return self.journal.used, self.log.head, self.images.epoch

    def begin(self):
        """Open a transaction; transactions nest.

        Returns
        -------
        tuple of (int, int, int)
            Its mark, see `mark`.
        """
        mark = self.mark()
        self.journal.begin()
        return mark

    def commit(self, mark):
        """Close a transaction and keep its changes.

        Parameters
        ----------
        mark : tuple of (int, int, int)
            The result of `begin` or `mark`.

        Raises
        ------
        ValueError
            If no open transaction has this mark.
        """
        used, _, _ = mark
        self.table.check_logged()
        self.journal.commit(used)

    def rollback(self, mark):
        """Close a transaction and undo its changes; the changed rows are logged again.

        Parameters
        ----------
        mark : tuple of (int, int, int)
            The result of `begin` or `mark`.

        Raises
        ------
        ValueError
            If no open transaction has this mark.
        """
        cdef int64_t used, head, epoch
        used, head, epoch = mark
        if not 0 <= head <= self.log.head:
            raise ValueError(f"the change log has no entry {head}")
        try:
            self.journal.rollback(used)
        finally:
            _follow_rollback(self, head, epoch)

    def atomically(self, operation, *arguments):
        """Run an operation in a transaction that is rolled back if the operation raises.

        Parameters
        ----------
        operation : callable
        *arguments
            The arguments of the operation.

        Returns
        -------
        object
            The result of the operation.
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
            If a quantity of status.allocatable cannot be parsed.
        """
        self.atomically(self._set_nodes, (node,))

    def add_nodes(self, nodes):
        """Add nodes, one after the other, as one change, unless one of them is known.

        Parameters
        ----------
        nodes : sequence of Node

        Returns
        -------
        bool
            Whether they were added.

        Raises
        ------
        ValueError
            If a quantity of status.allocatable cannot be parsed.
        """
        for node in nodes:
            if NAME.of(METADATA.of(node)) in self.zones:
                return False
        self.atomically(self._set_nodes, nodes)
        return True

    def _set_nodes(self, nodes):
        """Add or replace nodes, inside a transaction."""
        for node in nodes:
            self._set_node(node)

    cdef int _set_node(self, object node) except -1:
        """Add or replace a node, inside a transaction."""
        meta, status = METADATA.of(node), STATUS.of(node)
        cdef str name = NAME.of(meta), zone = zone_key(LABELS.of(meta))
        cdef int32_t symbol = self.symbols.intern(name), row
        before = self.zones.get(name)
        allocatable = self.table.read_allocatable(ALLOCATABLE.of(status))
        row = self.table.row_for(symbol)
        self.table.set_node(row, node, allocatable)
        self.images.set_row(row, IMAGES.of(status))
        if before != zone:
            if before is not None:
                self.tree.remove(before, symbol)
            else:
                self.log.append(LOG_ORDER, row)
            self.tree.add(zone, symbol)
            self.journal.put(self.zones, name, zone)

    def remove_node(self, str name not None):
        """Remove a node. Its row remains, as a ghost, until the last pod of the row has been removed.

        Parameters
        ----------
        name : str
            The name of the node.

        Raises
        ------
        CacheError
            If there is no such node.
        """
        self.atomically(self._remove_node, name)

    def _remove_node(self, str name):
        """Remove a node, inside a transaction."""
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
        """Whether there is a node with this name; ghosts are not nodes."""
        return name in self.zones

    cdef int _release_if_empty(self, int32_t row) except -1:
        """Free a row that has neither a node nor pods, unless something holds it."""
        if self.ledger.pods_on(row) == 0 and not self.table.row(0, row).flags & (MR_PRESENT | MR_HELD):
            self.table.release(row)

    # ---- pods ----------------------------------------------------------------------------------------------

    cdef int32_t _known(self, object pod) except -2:
        """Return the number of a pod by its UID, or -1; raise CacheError for an empty UID."""
        cdef str uid = UID.of(METADATA.of(pod))
        if not uid:
            raise CacheError("Cannot get cache key for pod with empty UID")
        return self.ledger.find(uid)

    cdef int _place(self, object pod, int32_t pod_class, int32_t row, PodState state) except -1:
        """Add a pod to a row."""
        cdef NewPod new
        new.place, new.pod_class, new.row, new.state = -1, pod_class, row, state
        self.ledger.describe(pod, &new)
        return self._put_in(pod, &new)

    cdef int _put_in(self, object pod, const NewPod* new) except -1:
        """Add a pod to the ledger, the node table and the counters of domains."""
        cdef Shape shape = self.classes.shape(new.pod_class)
        self.ledger.enter(pod, new)
        self.table.add_pod(shape.ledger, new.row, &shape.c, shape.ports, 1)
        self.domains.pod_moved(new.pod_class, new.terminating, new.row, 1)
        return self.table.changed(LOG_ROW, new.row)

    cpdef int _take_away(self, int32_t number) except -1:
        """Remove a pod from the ledger, the node table and the counters of domains."""
        cdef int32_t row
        _check_number(self, number)
        row = self.ledger.row_of(number)
        self._take_off(number, row, self.classes.shape(self.ledger.class_of(number)).ports)
        return self._settle(row)

    cdef int _take_off(self, int32_t number, int32_t row, tuple ports) except -1:
        """Do as `_take_away` without `_settle`, while some host ports of the pod, or none, leave its row."""
        cdef int32_t pod_class = self.ledger.class_of(number)
        cdef Shape shape = self.classes.shape(pod_class)
        self.domains.pod_moved(pod_class, self.ledger.is_terminating(number), row, -1)
        self.ledger.remove(number)
        cdef bint is_saturated = self.table.sums_saturate and self.table.is_saturated(shape.ledger, row)
        self.table.add_pod(shape.ledger, row, &shape.c, ports, -1)
        if is_saturated:
            self._count_anew(shape.ledger, row)
        return 0

    cdef int _count_anew(self, int32_t which, int32_t row) except -1:
        """Count anew what the pods of a row request that are charged to a resource ledger."""
        cdef Shape shape
        cdef int32_t number = self.ledger.row(row).first
        self.table.clear_usage(which, row)
        for _ in range(self.ledger.pods_on(row)):
            shape = self.classes.shape(self.ledger.class_of(number))
            if shape.ledger == which:
                self.table.add_usage(which, row, &shape.c)
            number = self.ledger.record(number).after
        return 0

    cdef int _settle(self, int32_t row) except -1:
        """Log that pods have left a row, and free the row if it is empty."""
        self.table.changed(LOG_ROW, row)
        return self._release_if_empty(row)

    cpdef int _replace(self, int32_t number, object pod, int32_t pod_class, PodState state) except -1:
        """Remove the pod with a number (-1: none), then add a pod on the node that it names."""
        cdef int32_t row
        self.classes.check(pod_class)
        if number >= 0:
            self._take_away(number)
        row = self.table.row_for(self.symbols.intern(NODE_NAME.of(SPEC.of(pod))))
        return self._place(pod, pod_class, row, state)

    cdef int _enter(self, int32_t number, object pod, int32_t pod_class, PodState state) except -1:
        """Call `_replace`, in a transaction if it can run out of memory half-way."""
        if _can_run_out(self, number, pod, pod_class):
            return self.atomically(self._replace, number, pod, pod_class, state)
        return self._replace(number, pod, pod_class, state)

    cdef int _leave(self, int32_t number) except -1:
        """Call `_take_away`, in a transaction if it can run out of memory half-way."""
        if self._can_run_out_by(number):
            return self.atomically(self._take_away, number)
        return self._take_away(number)

    cdef int _take_each(self, dict numbers, dict freed) except -1:
        """Remove pods by their numbers, the keys of `numbers`, all or none.

        `freed` has the host ports of these pods by row: the rows are without them before the pods leave.
        """
        cdef int32_t number, row
        cdef dict left = {row: self.table.ports_without(row, ports) for row, ports in freed.items()}
        cdef bint journals = self.journal.depth != 0
        self.table.sync_columns()
        for number in numbers:
            journals |= not self.table.row(0, self.ledger.row_of(number)).flags & (MR_PRESENT | MR_HELD)
        if journals:  # a freed row, or the journal, can run out of memory half-way
            return self.atomically(self._take_all, numbers, left)
        return self._take_all(numbers, left)

    cpdef int _take_all(self, dict numbers, dict left) except -1:
        """Give rows their sets of host ports, then remove pods that have no others."""
        cdef int32_t number, row, set_id, before = -1
        for row, set_id in left.items():
            self.table.check_row(row)
            if not 0 <= set_id < <int32_t>len(self.table.port_sets.sets):
                raise IndexError(f"there is no set of ports {set_id}")
            self.table.put_ports(row, set_id)
        for number in numbers:
            _check_number(self, number)
            row = self.ledger.row_of(number)
            if row != before and before >= 0:  # pods that leave a row one after the other are one change
                self._settle(before)
            self._take_off(number, row, ())
            before = row
        if before >= 0:
            self._settle(before)

    cdef bint _can_run_out_by(self, int32_t number) except -1:
        """Whether `_take_away` can run out of memory half-way. Other memory for it is allocated here."""
        return _can_run_out(self, number, None, 0)

    def assume_pod(self, pod):
        """Add a pod that is not yet bound to the node of its spec.nodeName.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            If the pod is in the cache already.
        """
        if self._known(pod) >= 0:
            raise CacheError(f"pod {pod.key} is in the cache, so can't be assumed")
        self._enter(-1, pod, self.classes.intern(pod), ASSUMED)

    def assume_template(self, int32_t pod_class, template, int64_t first, const int32_t[::1] rows not None):
        """Add assumed pods of a template to the ledger; the batch has updated usage and counters already.

        The object of a pod is created when it is first read.

        Parameters
        ----------
        pod_class : int
            The class of the template.
        template : Pod
            Pod i is the template with the name base + i, where base is metadata.generateName, or
            metadata.name and "-", and with the UID namespace/base#i.
        first : int
            The ordinal of the first pod; the others follow.
        rows : (pods,) int32 array
            The row of each pod.

        Raises
        ------
        CacheError
            As `check_template`, which must be called before the batch.
        IndexError
            If there is no such class or row.
        """
        self.classes.check(pod_class)
        self.table.check_rows(rows)
        replicas = self.ledger.templates.prepare(template, first, rows.shape[0], self.ledger.index)
        if rows.shape[0]:
            self.ledger.reserve_rows(self.table.used)
            self.ledger.insert_replicas(replicas, pod_class, rows)

    def check_template(self, template, int64_t first, int64_t pods):
        """Check that `assume_template` can add some pods.

        Parameters
        ----------
        template : Pod
        first : int
            The ordinal of the first pod.
        pods : int
            The number of pods.

        Raises
        ------
        CacheError
            If the template has no name, or if a UID or ordinal is in use. The ordinals of pods that were
            assumed together remain in use until each of these pods has been removed or replaced by an object
            of its own.
        """
        self.ledger.templates.prepare(template, first, pods, self.ledger.index)

    def put(self, pod, int32_t row):
        """Add a pod as assumed to a row, whatever node it names; for a transaction that is rolled back.

        Parameters
        ----------
        pod : Pod
        row : int

        Raises
        ------
        IndexError
            If there is no such row.
        """
        self.table.check_row(row)
        self._place(pod, self.classes.intern(pod), row, ASSUMED)

    def forget_pod(self, pod):
        """Remove an assumed pod.

        Parameters
        ----------
        pod : Pod
            Its spec.nodeName is the node that it was assumed on.

        Raises
        ------
        CacheError
            If the pod is not assumed, or is assumed on another node.
        """
        cdef int32_t number = self._known(pod)
        if number >= 0:
            held = self._node_of(number)
            if pod.spec.node_name != held:
                raise CacheError(ELSEWHERE.format(pod.key, held, pod.spec.node_name or "no node"))
        if number < 0 or self.ledger.state_of(number) != ASSUMED:
            raise CacheError(f"pod {pod.key} wasn't assumed so cannot be forgotten")
        self._leave(number)

    def add_pod(self, pod):
        """Add a bound pod that the API server reported.

        If the pod is assumed, this confirms it, and moves it if it was assumed on another node.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            If the pod has been added before.
        """
        cdef int32_t number = self._known(pod)
        if number >= 0 and self.ledger.state_of(number) == ADDED:
            raise CacheError(f"pod {pod.key} was already in added state")
        if number >= 0:
            held = self._node_of(number)
            if held != pod.spec.node_name:
                logger.warning(  # v1.13 names the new node first
                    "Pod %s was assumed to be on %s but got added to %s", pod.key, pod.spec.node_name, held
                )
        if self.journal.depth == 0 and self._is_confirmed_by(number, pod):
            self._confirm(number, pod)
            return
        self._enter(number, pod, self.classes.intern(pod), ADDED)

    cdef bint _is_confirmed_by(self, int32_t number, object pod) except -1:
        """Whether a reported pod equals the one with a number in node, class and deletion, and its host ports
        are in use there.

        Then only the object of the pod changes, and its state if it was assumed.
        """
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
            and self.table.has_ports(self.ledger.row_of(number), self.classes.shape(pod_class).ports)
        )

    cdef int _confirm(self, int32_t number, object pod) except -1:
        """Make a pod an added one with a new object."""
        self.ledger.confirm(number, pod)
        return self.table.changed(LOG_ROW, self.ledger.row_of(number))

    def update_pod(self, old, new):
        """Replace an added pod by its new state.

        Parameters
        ----------
        old, new : Pod
            Both are on one node.

        Raises
        ------
        CacheError
            If `old` has not been added.
        CacheCorruptedError
            If `new` is on another node.
        """
        cdef int32_t number = self._known(old), pod_class
        cdef str uid = old.metadata.uid
        if number < 0 or self.ledger.state_of(number) != ADDED:
            raise CacheError(f"pod {old.key} is not added to scheduler cache, so cannot be updated")
        if new.spec.node_name != self._node_of(number):
            raise CacheCorruptedError(
                f"Pod {old.key} updated on a different node than previously added to.\n{CORRUPTED}"
            )
        if old.spec.node_name not in ("", new.spec.node_name):
            raise CacheError(f"no corresponding pod {old.key} in pods of node {old.spec.node_name}")
        if new.metadata.uid != uid and self._known(new) >= 0:
            raise CacheError(f"pod {new.key} was already in added state")
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
            Its spec.nodeName is the node that it is on.

        Raises
        ------
        CacheError
            If the pod has not been added.
        CacheCorruptedError
            If the pod is on another node.
        """
        cdef int32_t number = self._known(pod)
        if number < 0 or self.ledger.state_of(number) != ADDED:
            raise CacheError(f"pod {pod.key} is not found in scheduler cache, so cannot be removed from it")
        held = self._node_of(number)
        if pod.spec.node_name != held:
            raise CacheCorruptedError(
                f"Pod {pod.key} was assumed to be on {pod.spec.node_name or 'no node'} "
                f"but got added to {held}\n{CORRUPTED}"
            )
        self._leave(number)

    def discard_pod(self, pod):
        """Remove the pod with the UID of a pod, assumed or added, whatever node that one names.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            If the pod is not in the cache.
        """
        cdef int32_t number = self._known(pod)
        if number < 0:
            raise CacheError(f"pod {pod.key} is not found in scheduler cache, so cannot be removed from it")
        self._leave(number)

    def get_pod(self, pod):
        """Return the pod in the cache that has the UID of a pod, with spec.nodeName set.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Pod

        Raises
        ------
        CacheError
            If there is no such pod.
        """
        cdef int32_t number = self._known(pod)
        if number < 0:
            raise CacheError(f"pod {pod.key} does not exist in scheduler cache")
        return bound(self.ledger.object_of(number), self._node_of(number))

    def has_pod(self, pod):
        """Whether a pod with the UID of `pod` is in the cache, assumed or added."""
        return self._known(pod) >= 0

    def is_assumed_pod(self, pod):
        """Whether a pod with the UID of `pod` is in the cache as assumed."""
        cdef int32_t number = self._known(pod)
        return number >= 0 and self.ledger.state_of(number) == ASSUMED

    def finish_binding(self, pod, double deadline):
        """Set when an assumed pod expires, once its binding has finished.

        Parameters
        ----------
        pod : Pod
            Ignored if it is not assumed.
        deadline : float
            Seconds on the caller's clock; infinity means never.
        """
        cdef int32_t number = self._known(pod)
        if number >= 0 and self.ledger.state_of(number) == ASSUMED:
            self.ledger.set_deadline(number, deadline)

    def expire(self, double now):
        """Remove the assumed pods whose deadline is before `now`.

        Parameters
        ----------
        now : float
            Seconds on the caller's clock.

        Returns
        -------
        list of Pod
            The removed pods, earliest deadline first.
        """
        return self.atomically(self._expire, now)

    def _expire(self, double now):
        """Remove the expired pods, inside a transaction."""
        numbers = self.ledger.expired(now)
        pods = [bound(self.ledger.object_of(number), self._node_of(number)) for number in numbers]
        for number in numbers:
            self._take_away(number)
        for pod in pods:
            logger.warning("Pod %s/%s expired", pod.metadata.namespace, pod.metadata.name)
        return pods

    def pods(self):
        """Return all pods in row order, with spec.nodeName set.

        Returns
        -------
        list of Pod
            Includes assumed pods and pods of ghosts.
        """
        return [pod for row in range(self.table.used) for pod in self.pods_of(row)]

    def pods_of(self, int32_t row):
        """Return the pods of a row, in the order of the row, with spec.nodeName set.

        Parameters
        ----------
        row : int

        Returns
        -------
        list of Pod

        Raises
        ------
        IndexError
            If there is no such row.
        """
        self.table.check_row(row)
        name = self.table.row_name(row)
        return [bound(pod, name) for pod in self.ledger.pods_of(row)]

    def find_row(self, str name not None):
        """Return the row of a node name.

        Parameters
        ----------
        name : str

        Returns
        -------
        int or None
            None if there is neither a node nor a ghost with this name.
        """
        return self.table.find_row(name)

    def images_of(self, int32_t row):
        """Return the images that the node of a row reports.

        Parameters
        ----------
        row : int

        Returns
        -------
        dict of str to (int, int)
            By image name the size in bytes and the number of nodes that have the image.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        self.table.check_row(row)
        return self.images.read(self.images.held, row, self.images.sizes.int64())

    def assumed_pods(self):
        """Return the UIDs of the assumed pods, sorted."""
        return self.ledger.assumed()

    def binding_pods(self):
        """Return the assumed pods whose binding has not finished, sorted by UID."""
        return [self.ledger.object_of(number) for number in self.ledger.binding()]


cdef int _follow_rollback(ClusterState state, int64_t head, int64_t epoch) except -1:
    """Log the undone changes again, and advance the cursors of consumers that the rollback restored."""
    state.images.epoch += state.images.epoch != epoch
    state.log.repeat(head)
    if state.domains.cursor == head:  # the counters are as they were at `head`
        state.domains.cursor = state.log.head
    state.view.follow_rollback(head)


cdef int _check_number(ClusterState state, int32_t number) except -1:
    """Check that a number is that of a pod."""
    if not 0 <= number < state.ledger.sums().used or state.ledger.state_of(number) == FREE:
        raise IndexError(f"there is no pod {number}")
    return 0


cdef bint _can_run_out(ClusterState state, int32_t number, object pod, int32_t pod_class) except -1:
    """Whether replacing a pod can run out of memory after its first change.

    Memory for a new row, a freed row, a new set of host ports and the journal is allocated during the
    changes; all other memory is allocated here.
    """
    cdef int32_t row
    state.ledger.make_room(1)
    state.ledger.reserve_rows(state.table.used)
    state.table.sync_columns()
    if number >= 0:
        row = state.ledger.row_of(number)
        if state.ledger.pods_on(row) == 1 and not state.table.row(0, row).flags & (MR_PRESENT | MR_HELD):
            return True
        if state.classes.shape(state.ledger.class_of(number)).ports:
            return True
    if pod is None:
        return state.journal.depth != 0
    state.domains.make_room(pod_class)
    new_row = state.table.find(state.symbols.intern(NODE_NAME.of(SPEC.of(pod)))) < 0
    return new_row or bool(state.classes.shape(pod_class).ports) or state.journal.depth != 0
