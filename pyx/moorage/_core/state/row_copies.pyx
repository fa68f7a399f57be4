"""Copies of rows, brought up to date by copying what the change log names: what snapshots stand on."""

from fastrlock.rlock import FastRLock
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from moorage._core.base cimport LOG_STATIC, Buffer, ChangeLog, Journal
from moorage._core.state.node_table cimport NodeTable
from moorage._core.state.pod_spec import bound
from moorage._core.state.cluster_state cimport ClusterState
from moorage._core.state.view cimport View


cdef struct Pair:
    char* to
    const char* origin
    Py_ssize_t size


cdef class RowCopies:
    """An independent copy of a cluster's rows, with a view of its own: the node list and the image counts
    follow the same rules as the scheduler's view, from this copy's own last update on. Pod lists are shared
    until they change.
    """

    cdef readonly object lock
    cdef readonly ClusterState source
    cdef readonly NodeTable table
    cdef readonly View view
    cdef readonly int64_t cursor
    cdef list pods
    cdef Buffer pairs, sizes
    cdef int64_t epoch
    cdef int32_t n_pairs, rows
    cdef int64_t moves

    def __cinit__(self):
        self.lock = FastRLock()

    @property
    def classes(self):
        """Shapes and classes of pods, which the source shares."""
        return None if self.source is None else self.source.classes

    def is_behind(self, ClusterState source not None):
        """True unless nothing has changed in `source` since the last update."""
        return self.source is not source or self.cursor != source.log.head

    def update(self, ClusterState source not None):
        """Copy what has changed since the last update, or everything from a source that is new here. A copy
        whose update fails is empty until the next one."""
        with self.lock:
            try:
                if self.source is not source:
                    self._start(source)
                self._follow()
            except BaseException:
                self.source = None
                raise

    def _follow(self):
        cdef ClusterState source = self.source
        cdef ChangeLog log = source.log
        cdef int64_t at, head = log.head
        cdef int32_t row
        self._prepare()
        self.view.refresh()
        if self.epoch != source.images.epoch:
            self.sizes.copy_from(source.images.sizes)
            self.epoch = source.images.epoch
        if log.lost(self.cursor):
            for row in range(source.table.used):
                self._copy(row)
        else:
            for at in range(self.cursor, head):
                if log.kind[at & (log.capacity - 1)] <= LOG_STATIC:
                    self._copy(log.id[at & (log.capacity - 1)])
        self.cursor = head

    def _start(self, ClusterState source):
        cdef Journal journal = Journal()
        self.table = NodeTable(source.symbols, journal, ChangeLog(journal, 1), source.table.ledgers)
        self.table.taint_sets = source.table.taint_sets
        self.table.port_sets = source.table.port_sets
        self.table.resource_names = source.table.resource_names
        self.view = View(journal, source.table, source.tree, source.images, False)
        self.pods = []
        self.pairs = Buffer(journal, sizeof(Pair))
        self.sizes = Buffer(journal, sizeof(int64_t))
        self.epoch = -1
        self.cursor = -source.log.capacity - 1  # every row is new
        self.rows = 0
        self.moves = -1
        self.source = source

    cdef int _prepare(self) except -1:
        """Pair this copy's columns with the source's, unless none of those has moved or come since."""
        cdef Buffer mine, theirs
        cdef Pair* pair
        cdef NodeTable source = self.source.table
        if self.moves == source.journal.moves and self.rows == source.used:
            return 0
        source.sync_columns()
        self.table.sync_columns()
        self.table.make_room(source.used)
        while len(self.pods) < source.used:
            self.pods.append(None)
        here, there = self.table.column_buffers(), source.column_buffers()
        self.pairs.reserve(len(here))
        self.n_pairs = <int32_t>len(here)
        pair = <Pair*>self.pairs.data
        for mine, theirs in zip(here, there, strict=True):
            pair.to = mine.data
            pair.origin = theirs.data
            pair.size = mine.itemsize
            pair += 1
        self.rows = source.used
        self.moves = source.journal.moves

    cdef int _copy(self, int32_t row) except -1:
        cdef Pair* pair = <Pair*>self.pairs.data
        cdef NodeTable source = self.source.table
        cdef Py_ssize_t skip
        cdef int32_t at
        if row >= source.used:  # made and undone since
            return 0
        for at in range(self.n_pairs):
            if pair[at].size == sizeof(int32_t):  # a call of memcpy costs more than most columns
                (<int32_t*>pair[at].to)[row] = (<int32_t*>pair[at].origin)[row]
            elif pair[at].size == sizeof(int64_t):
                (<int64_t*>pair[at].to)[row] = (<int64_t*>pair[at].origin)[row]
            else:
                skip = row * pair[at].size
                memcpy(pair[at].to + skip, pair[at].origin + skip, pair[at].size)
        self.table.objects[row] = source.objects[row]
        self.pods[row] = self.source.ledger.share(row)

    def names(self):
        """Node names in list order."""
        return self.view.node_names() if self.source is not None else []

    def row_list(self):
        """Rows in list order."""
        return self.view.rows().tolist() if self.source is not None else []

    def find_row(self, str name not None):
        """Row of a node that is in the list, or None."""
        return self.view.find_row(name) if self.source is not None else None

    def pods_of(self, int32_t row):
        """Pods of a row as of the last update, each with its node name."""
        self._check_row(row)
        name = self.table.row_name(row)
        return [bound(pod, name) for pod in self.source.ledger.read(self.pods[row], row)]

    def images_of(self, int32_t row):
        """Image name to (bytes, nodes that had it when the row was copied)."""
        self._check_row(row)
        return self.view.images.read(self.view.seen, row, <int64_t*>self.sizes.data)

    cdef int _check_row(self, int32_t row) except -1:
        if self.source is None:
            raise IndexError(f"there is no row {row}: nothing has been copied")
        return self.table.check_row(row)
