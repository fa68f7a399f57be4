"""ClusterState: the parts of a cluster's hot state, and the operations that keep them together.

Only the operations here write a cluster. Each checks first and then applies: one that raises changed nothing.
Texts are those of kube-scheduler v1.36, backend/cache/cache.go.
"""

from functools import partial

from msgspec.structs import replace

from moorage._core.buffers cimport Journal
from moorage._core.change_log cimport LOG_ORDER, LOG_ROW, ChangeLog
from moorage._core.images cimport ImageStates
from moorage._core.ledger cimport ADDED, ASSUMED, Ledger, PodState
from moorage._core.node_table cimport NodeTable
from moorage._core.node_tree cimport NodeTree
from moorage._core.node_tree import zone_key
from moorage._core.pod_class cimport PodClasses, Shape
from moorage._core.symbols cimport Symbols
from moorage._core.view cimport View

cdef enum:
    # Upper bounds of what the journal takes: for a pod that comes or goes, for each of its requests of other
    # resources, and for each pod in a list that moves.
    POD_RECORD = 768
    REQUEST_RECORD = 32
    LISTED_RECORD = 16


cdef class ClusterState:
    """Nodes and pods of one cluster, as the engine holds them."""

    def __cinit__(self, int32_t ledgers=1):
        self.symbols = Symbols()
        self.journal = Journal()
        self.log = ChangeLog(self.journal)
        self.table = NodeTable(self.symbols, self.journal, self.log, ledgers)
        self.tree = NodeTree(self.journal)
        self.images = ImageStates(self.journal)
        self.view = View(self.table, self.tree, self.images)
        self.classes = PodClasses(self.table, self.images)
        self.ledger = Ledger(self.journal)
        self.zones = {}

    # ---- nodes ---------------------------------------------------------------------------------------------

    def set_node(self, node):
        """A node appeared or changed; one that is not known is added."""
        cdef str name = node.metadata.name, zone = zone_key(node.metadata.labels)
        cdef int32_t symbol = self.symbols.intern(name), row
        before = self.zones.get(name)
        allocatable = self.table.read_allocatable(node.status.allocatable)
        self._make_room_for_node(symbol, node, node.status.images)
        row = self.table.row_for(symbol)
        self.table.set_node(row, node, allocatable)
        self.images.set_row(row, node.status.images)
        if before != zone:
            if before is not None:
                self.tree.remove(before, symbol)
            else:
                self.log.append(LOG_ORDER, row)
            self.tree.add(zone, symbol)
            self._set_zone(name, before, zone)

    def remove_node(self, str name):
        """A node went; its row stays as a ghost until its last pod is gone."""
        cdef int32_t symbol = self.symbols.find(name), row = self.table.find(symbol)
        zone = self.zones.get(name)
        if zone is None:
            raise KeyError(f"node {name} is not found")
        self._make_room_for_node(symbol, None, ())
        self.tree.remove(zone, symbol)
        self._set_zone(name, zone, None)
        self.images.set_row(row, ())
        self.table.clear_node(row)
        self.log.append(LOG_ORDER, row)
        self._release_if_empty(row)

    cdef int _make_room_for_node(self, int32_t symbol, object node, object images) except -1:
        """Get all memory that a change of a node can need before anything is changed."""
        cdef int32_t row = self.table.find(symbol)
        cdef Py_ssize_t names = 0 if row < 0 else self.images.count(row)
        self.images.make_room(self.table.used + 1, images)
        names += sum([len(image.names) for image in images])
        self.ledger.make_room(0, self.table.used + 1)
        return self.table.make_room(node, names)

    def _set_zone(self, str name, before, after):
        """Zone key of each node in the tree."""
        if after is None:
            del self.zones[name]
        else:
            self.zones[name] = after
        if self.journal.depth:
            if before is None:
                self.journal.on_undo(partial(self.zones.pop, name))
            else:
                self.journal.on_undo(partial(self.zones.__setitem__, name, before))

    def has_node(self, str name):
        return name in self.zones

    def _release_if_empty(self, int32_t row):
        if self.ledger.pods_on.size(row) == 0 and self.table.row_name(row) not in self.zones:
            self.table.release(row)

    # ---- pods ----------------------------------------------------------------------------------------------

    cdef int32_t _known(self, object pod) except -2:
        """Number of a pod by its UID, or -1."""
        if not pod.metadata.uid:
            raise ValueError("cannot get cache key for pod with empty UID")
        return self.ledger.find(pod.metadata.uid)

    cdef int _make_room_for_pod(self, int32_t leaving, Shape coming, int32_t row) except -1:
        """Get all memory that is needed to take the pod with number `leaving` away (-1: none) and to place one on
        `row` (-1: a new one), before anything is changed."""
        cdef Shape shape
        cdef int32_t left, port_set = 0 if row < 0 else self.table.port_set_of(row)
        cdef Py_ssize_t record = 2 * POD_RECORD
        if leaving >= 0:
            shape = self.classes.shape(self.ledger.class_of(leaving))
            left = self.ledger.row_of(leaving)
            moved = self.table.port_sets.moved(self.table.port_set_of(left), shape.ports, False)
            port_set = moved if left == row else port_set
            record += REQUEST_RECORD * shape.c.n_others
        if coming is not None:
            self.table.port_sets.moved(port_set, coming.ports, True)
            record += REQUEST_RECORD * coming.c.n_others
        self.ledger.make_room(1, self.table.used + 1)
        if row >= 0:
            record += LISTED_RECORD * self.ledger.pods_on.size(row)
        return self.journal.reserve(record)

    cdef int _place(self, str uid, object pod, int32_t pod_class, int32_t row, PodState state) except -1:
        cdef Shape shape = self.classes.shape(pod_class)
        self.ledger.insert(uid, pod, pod_class, row, state)
        self.table.add_pod(0, row, &shape.c, shape.ports, 1)
        return self.table.changed(LOG_ROW, row)

    cdef int _take_away(self, int32_t number) except -1:
        cdef int32_t row = self.ledger.row_of(number)
        cdef Shape shape = self.classes.shape(self.ledger.class_of(number))
        self.ledger.remove(number)
        self.table.add_pod(0, row, &shape.c, shape.ports, -1)
        self.table.changed(LOG_ROW, row)
        self._release_if_empty(row)
        return 0

    cdef int _replace(self, int32_t leaving, object pod, int32_t pod_class, PodState state) except -1:
        """Place a pod on its node, in place of the one with number `leaving` (-1: none)."""
        cdef int32_t symbol = self.symbols.intern(pod.spec.node_name)
        self._make_room_for_pod(leaving, self.classes.shape(pod_class), self.table.find(symbol))
        self.table.make_row_room(symbol)
        if leaving >= 0:
            self._take_away(leaving)
        return self._place(pod.metadata.uid, pod, pod_class, self.table.row_for(symbol), state)

    def assume_pod(self, pod):
        """Put a pod on spec.nodeName before it is bound."""
        if self._known(pod) >= 0:
            raise KeyError(f"pod {_names(pod)} is in the cache, so can't be assumed")
        self._replace(-1, pod, self.classes.intern(pod), ASSUMED)

    cdef int make_room_for_run(self, Shape shape, Py_ssize_t pods) except -1:
        """Get the memory for placing that many pods of a shape, wherever they go."""
        cdef Py_ssize_t each = POD_RECORD + REQUEST_RECORD * shape.c.n_others
        self.ledger.make_room(pods, self.table.used)
        return self.journal.reserve(pods * each + LISTED_RECORD * (len(self.ledger) + pods))

    def assume_rows(self, int32_t pod_class, pods, int32_t[::1] rows):
        """Enter pods of one class that a batch has already accounted for on `rows`, and made room for."""
        cdef Py_ssize_t at
        for at in range(rows.shape[0]):
            pod = pods[at]
            self.ledger.insert(pod.metadata.uid, pod, pod_class, rows[at], ASSUMED)

    def forget_pod(self, pod):
        """Take back an assumed pod; one that is not known is forgotten already."""
        cdef int32_t number = self._known(pod)
        if number < 0:
            return
        held = self.table.row_name(self.ledger.row_of(number))
        if pod.spec.node_name != held:
            raise KeyError(f"pod {_names(pod)} was assumed on {pod.spec.node_name} but assigned to {held}")
        if self.ledger.state_of(number) != ASSUMED:
            raise KeyError(f"pod {_names(pod)} wasn't assumed so cannot be forgotten")
        self._make_room_for_pod(number, None, -1)
        self._take_away(number)

    def add_pod(self, pod):
        """A bound pod was reported: confirms an assumed one (moving it if its node differs), or adds it."""
        cdef int32_t number = self._known(pod)
        if number >= 0 and self.ledger.state_of(number) == ADDED:
            raise KeyError(f"pod {_names(pod)} was already in added state")
        self._replace(number, pod, self.classes.intern(pod), ADDED)

    def update_pod(self, pod):
        """A bound pod changed; it stays where it is."""
        cdef int32_t number = self._known(pod)
        if number < 0:
            raise KeyError(f"pod {_names(pod)} is not added to scheduler cache, so cannot be updated")
        if self.ledger.state_of(number) != ADDED:
            raise KeyError(f"assumed pod {_names(pod)} should not be updated")
        self._replace(number, pod, self.classes.intern(pod), ADDED)

    def remove_pod(self, pod):
        """A pod went, assumed or added."""
        cdef int32_t number = self._known(pod)
        if number < 0:
            raise KeyError(f"pod {_names(pod)} is not found in scheduler cache, so cannot be removed from it")
        self._make_room_for_pod(number, None, -1)
        self._take_away(number)

    def get_pod(self, pod):
        """The pod as the cache has it, with the node that it is on."""
        cdef int32_t number = self._known(pod)
        if number < 0:
            raise KeyError(f"pod {_names(pod)} does not exist in scheduler cache")
        held = self.ledger.objects[number]
        name = self.table.row_name(self.ledger.row_of(number))
        if held.spec.node_name == name:
            return held
        # A batch enters pods as they came; the bound object is made when somebody asks for it.
        return replace(held, spec=replace(held.spec, node_name=name))

    def is_assumed_pod(self, pod):
        cdef int32_t number = self._known(pod)
        return number >= 0 and self.ledger.state_of(number) == ASSUMED

    def finish_binding(self, pod, double deadline):
        """Binding ended; an assumed pod may expire after `deadline`."""
        cdef int32_t number = self._known(pod)
        if number >= 0 and self.ledger.state_of(number) == ASSUMED:
            self.ledger.set_deadline(number, deadline)

    def expire(self, double now):
        """Drop the assumed pods whose deadline lies before `now`; returns them."""
        numbers = self.ledger.expired(now)
        pods = [self.ledger.objects[number] for number in numbers]
        for number in numbers:
            self._take_away(number)
        return pods


def _names(pod):
    return f"{pod.metadata.uid}({pod.metadata.namespace}/{pod.metadata.name})"
