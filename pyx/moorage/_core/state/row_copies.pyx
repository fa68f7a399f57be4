"""Copies of the rows of a cluster, the base of `Snapshot` and `NodeInfo`.

An update copies the rows that the change log names since the last update.
"""

from cpython.object cimport PyObject
from fastrlock.rlock cimport lock_fastrlock, unlock_fastrlock
from fastrlock.rlock import FastRLock
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from moorage._core.base cimport LOG_STATIC, Buffer, ChangeLog, Journal
from moorage._core.state.ledger cimport AHEAD, RowPods, prefetch
from moorage._core.state.node_table cimport NodeTable
from moorage._core.state.pod_spec import bound
from moorage._core.state.cluster_state cimport ClusterState
from moorage._core.state.view cimport View


cdef extern from "Python.h":
    ctypedef struct PyListObject:
        PyObject** ob_item


cdef struct Pair:
    char* to
    const char* origin
    Py_ssize_t size


cdef inline void _copy_item(const Pair* pair, Py_ssize_t row) noexcept nogil:
    """Copy one item of a column. A call of memcpy costs more than most; a constant size needs none."""
    cdef char* to = pair.to + row * pair.size
    cdef const char* origin = pair.origin + row * pair.size
    if pair.size == 4:
        memcpy(to, origin, 4)
    elif pair.size == 8:
        memcpy(to, origin, 8)
    elif pair.size == 16:
        memcpy(to, origin, 16)
    elif pair.size == 48:
        memcpy(to, origin, 48)
    elif pair.size == 64:
        memcpy(to, origin, 64)
    else:
        memcpy(to, origin, pair.size)


cdef class RowCopies:
    """An independent copy of the rows of a cluster, with a view of its own.

    The node list and the image counts follow the rules of `View`, relative to the last update of this copy.
    The pod list of a row is shared with the cluster until it changes.

    Attributes
    ----------
    lock : fastrlock.rlock.FastRLock
        A re-entrant lock; callers hold it for reading several values of one moment.
    table : NodeTable
        The rows.
    cursor : int
        The head of the cluster's change log at the last update.
    """

    cdef readonly object lock
    cdef ClusterState source  # the cluster that was copied; None if nothing has been copied
    cdef readonly NodeTable table
    cdef View view
    cdef readonly int64_t cursor
    cdef list pods
    cdef Buffer pairs, sizes, copied
    cdef int64_t epoch
    cdef int32_t n_pairs, rows
    cdef int64_t moves

    def __cinit__(self):
        self.lock = FastRLock()

    @property
    def classes(self):
        """Return the pod classes of the source; None if nothing has been copied."""
        return None if self.source is None else self.source.classes

    def update(self, ClusterState source not None):
        """Copy the rows that have changed since the last update; all rows of a new source.

        If an exception is raised, the copy is empty until the next update. The lock of the cluster is held.

        Parameters
        ----------
        source : ClusterState
        """
        if self.source is source and self.cursor == source.log.head:
            return
        lock_fastrlock(source.lock, -1, True)  # a with statement costs as much as the copy of a row
        try:
            self._update(source)
        finally:
            unlock_fastrlock(source.lock)

    cdef int _update(self, ClusterState source) except -1:
        """Call `update` with the lock of the cluster."""
        lock_fastrlock(self.lock, -1, True)
        try:
            if self.source is not source:
                self._start(source)
            self._follow()
        except BaseException:
            self.source = None
            raise
        finally:
            unlock_fastrlock(self.lock)

    cdef int _follow(self) except -1:
        """Copy the rows that the change log names after the cursor."""
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
                if log.kind[at & (log.capacity - 1)] > LOG_STATIC:
                    continue
                row = log.id[(at + AHEAD) & (log.capacity - 1)]  # behind the head there are older rows
                if row < self.rows:
                    prefetch((<PyListObject*>self.pods).ob_item[row])
                row = log.id[at & (log.capacity - 1)]
                # A row that the log names twice is copied once; the log can name one that is no more.
                if row < self.rows and self.copied.int64()[row] != head:
                    self.copied.int64()[row] = head
                    self._copy(row)
        self.cursor = head

    def _start(self, ClusterState source not None):
        """Become an empty copy of a cluster."""
        cdef Journal journal = Journal()
        self.table = NodeTable(source.symbols, journal, ChangeLog(journal, 1), source.table.ledgers)
        self.table.taint_sets = source.table.taint_sets
        self.table.port_sets = source.table.port_sets
        self.table.resource_names = source.table.resource_names
        self.view = View(journal, source.table, source.tree, source.images, False)
        self.pods = []
        self.pairs = Buffer(journal, sizeof(Pair))
        self.sizes = Buffer(journal, sizeof(int64_t))
        self.copied = Buffer(journal, sizeof(int64_t))
        self.epoch = -1
        self.cursor = -source.log.capacity - 1  # counts as lost, so that every row is copied
        self.rows = 0
        self.moves = -1
        self.source = source

    cdef int _prepare(self) except -1:
        """Make pairs of the columns here and in the source, if columns of the source moved or were added."""
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
        self.copied.reserve(source.used)
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
        """Copy one row."""
        cdef NodeTable source = self.source.table
        cdef int32_t at
        cdef RowPods before = self.pods[row]
        for at in range(self.n_pairs):
            _copy_item(<const Pair*>self.pairs.data + at, row)
        node = source.objects[row]
        if self.table.objects[row] is not node:
            self.table.objects[row] = node
        now = self.source.ledger.share(row, before)
        if now is not before:
            self.pods[row] = now

    def names(self):
        """Return the node names in list order."""
        return self.view.node_names() if self.source is not None else []

    def row_list(self):
        """Return the rows in list order, as a list of int."""
        return self.view.rows().tolist() if self.source is not None else []

    def find_row(self, str name not None):
        """Return the row of a node in the list.

        Parameters
        ----------
        name : str
            The name of the node.

        Returns
        -------
        int or None
            None if the list has no such node.
        """
        return self.view.find_row(name) if self.source is not None else None

    def pods_of(self, int32_t row):
        """Return the pods of a row as of the last update, with spec.nodeName set.

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
        self._check_row(row)
        name = self.table.row_name(row)
        return [bound(pod, name) for pod in self.source.ledger.read(self.pods[row], row)]

    def images_of(self, int32_t row):
        """Return the images of a row as of the last update.

        Parameters
        ----------
        row : int

        Returns
        -------
        dict of str to (int, int)
            By image name the size in bytes and the number of nodes that had the image.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        self._check_row(row)
        return self.view.images.read(self.view.seen, row, self.sizes.int64())

    cdef int _check_row(self, int32_t row) except -1:
        """Raise IndexError unless there is such a row."""
        if self.source is None:
            raise IndexError(f"there is no row {row}: nothing has been copied")
        return self.table.check_row(row)
