# cython: auto_pickle=False
"""The rows where the pods of a batch are placed (`Placements`), and what receives these pods (`Sink`)."""

import numpy as np
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from moorage._core.decide.pod_batch cimport CLAIMS, PodBatch
from moorage._core.state cimport ADDED, ASSUMED, ClusterState, PodState


cdef class Placements:
    """The rows where the pods of a batch were placed.

    Parameters
    ----------
    state : ClusterState
    n : int
        The number of pods. At first none is placed.
    batch : PodBatch, optional
        The pods.

    Attributes
    ----------
    failures : dict of int to object
        Why pods are unschedulable, by the index of the pod. Filled by `Placer.place` and its callers.
    """

    def __cinit__(self, ClusterState state not None, Py_ssize_t n, PodBatch batch=None):
        self.state, self.batch = state, batch
        self.failures = {}
        self.resize(n)

    def __dealloc__(self):
        _free(self)

    cpdef int resize(self, Py_ssize_t n) except -1:
        """Change the number of pods, and mark all as not placed.

        Parameters
        ----------
        n : int
            The number of pods.

        Raises
        ------
        ValueError
            `n` is negative, or no int32.
        """
        if not 0 <= n <= 0x7FFFFFFF:
            raise ValueError(f"{n} pods")
        _free(self)
        self.array, self.n = None, 0
        self.own = self.data = <int32_t*>PyMem_RawMalloc((n + 1) * sizeof(int32_t))
        if self.own == NULL:
            raise MemoryError
        self.n = n
        memset(self.data, -1, n * sizeof(int32_t))
        return 0

    def __len__(self):
        return self.n

    @property
    def rows(self):
        """The row of each pod in the node table, -1 if it is not placed: a (pods,) int32 array."""
        cdef int32_t[::1] view
        if self.array is None:
            array = np.empty(self.n + 1, dtype=np.int32)
            view = array
            if self.n:  # without pods there may be no data yet
                memcpy(&view[0], self.data, self.n * sizeof(int32_t))
            self.array, self.data = array[:self.n], &view[0]
            PyMem_RawFree(self.own)
            self.own = NULL
        return self.array

    def truncate(self, Py_ssize_t n):
        """Drop all pods after the first `n`.

        Parameters
        ----------
        n : int
            The number of pods to keep. A larger number than there are changes nothing.
        """
        self.n = min(self.n, max(<Py_ssize_t>0, n))
        if self.array is not None:
            self.array = self.array[:self.n]

    cpdef int note_names(self) except -1:
        """Record the present node names of the rows, since a row may be reused for another node later.

        Raises
        ------
        IndexError
            A row is not in the node table.
        """
        cdef Py_ssize_t at
        cdef const int32_t* names = self.state.table.name_column()
        if self.symbols == NULL:
            self.symbols = <int32_t*>PyMem_RawMalloc((self.n + 1) * sizeof(int32_t))
            if self.symbols == NULL:
                raise MemoryError
        for at in range(self.n):
            if self.data[at] >= self.state.table.used:
                self.state.table.check_row(self.data[at])
            self.symbols[at] = names[self.data[at]] if self.data[at] >= 0 else 0

    def nodes_of(self, placed):
        """Return the present names of the nodes of some placed pods.

        Parameters
        ----------
        placed : iterable of int
            Indexes of pods that have a node.

        Returns
        -------
        list of str

        Raises
        ------
        IndexError
            There is no such pod, or it has no node.
        """
        cdef Py_ssize_t at
        cdef list names = self.state.symbols.names, out = []
        cdef const int32_t* symbols = self.state.table.name_column()
        for at in placed:
            if not 0 <= at < self.n:
                raise IndexError(f"there is no pod {at} among {self.n}")
            if self.data[at] < 0:
                raise IndexError(f"pod {at} has no node")
            self.state.table.check_row(self.data[at])
            out.append(names[symbols[self.data[at]]])
        return out

    def placed_of(self, entries not None, Py_ssize_t first, Py_ssize_t end):
        """Select what belongs to the placed pods from `first` up to, but not including, `end`.

        Parameters
        ----------
        entries : sequence of object
            One for each pod of the batch.
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        entries : list of object
            Of the placed pods; the argument itself, if it is a list and these are all pods of the batch.
        nodes : list of str
            The present names of their nodes.

        Raises
        ------
        IndexError
            There are no such pods.
        """
        cdef Py_ssize_t at
        cdef list names = self.state.symbols.names, nodes = [], out = []
        cdef const int32_t* symbols = self.state.table.name_column()
        self._check(first, end)
        for at in range(first, end):
            if self.data[at] >= 0:
                if self.data[at] >= self.state.table.used:
                    self.state.table.check_row(self.data[at])
                nodes.append(names[symbols[self.data[at]]])
        if len(nodes) == len(entries) and type(entries) is list:
            return entries, nodes
        for at in range(first, end):
            if self.data[at] >= 0:
                out.append(entries[at])
        return out, nodes

    def place_on(self, list nodes not None):
        """Set the rows of the first pods by the names of their nodes.

        Parameters
        ----------
        nodes : list of str
            Those without a row are none.

        Raises
        ------
        IndexError
            There are fewer pods.
        """
        cdef Py_ssize_t at
        cdef ClusterState state = self.state
        self._check(0, len(nodes))
        for at in range(len(nodes)):
            self.data[at] = state.table.find(state.symbols.find(nodes[at]))

    cdef int _check(self, Py_ssize_t first, Py_ssize_t end) except -1:
        """Raise IndexError unless there are pods from `first` up to `end`."""
        if not 0 <= first <= end <= self.n:
            raise IndexError(f"there are no pods {first} to {end} among {self.n}")
        return 0

    def unplaced(self, Py_ssize_t first, Py_ssize_t end):
        """Return the indexes of the pods without a node from `first` up to, but not including, `end`.

        Parameters
        ----------
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        list of int

        Raises
        ------
        IndexError
            There are no such pods.
        """
        return self._which(first, end, False)

    def placed(self, Py_ssize_t first, Py_ssize_t end):
        """Return the indexes of the pods with a node from `first` up to, but not including, `end`.

        Parameters
        ----------
        first, end : int
            The index of the first pod, and the index after the last.

        Returns
        -------
        list of int

        Raises
        ------
        IndexError
            There are no such pods.
        """
        return self._which(first, end, True)

    cdef list _which(self, Py_ssize_t first, Py_ssize_t end, bint have_node):
        """The indexes of the pods with or without a node; IndexError where there are no such pods."""
        cdef Py_ssize_t at
        self._check(first, end)
        return [at for at in range(first, end) if (self.data[at] >= 0) == have_node]

    @property
    def nodes(self):
        """The name of the node of each pod, None if it is not placed: a list of str or None."""
        cdef Py_ssize_t at
        cdef list names = self.state.symbols.names
        if self.symbols == NULL:
            self.note_names()
        return [names[self.symbols[at]] for at in range(self.n)]


cdef void _free(Placements placements) noexcept:
    """Free the memory of the object. The garbage collector may have cleared `array` before."""
    PyMem_RawFree(placements.own)
    PyMem_RawFree(placements.symbols)
    placements.own = placements.symbols = placements.data = NULL


cdef class Sink:
    """Receives the pods that `Placer.place` has placed. This base class ignores them."""

    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        """Receive pods that have been tried. The placed ones are counted on their rows already.

        Parameters
        ----------
        batch : PodBatch
            The pods.
        out : Placements
            Their rows, -1 for pods that are not placed.
        first, end : int
            The index of the first pod, and the index after the last.
        """
        return 0


cdef class LedgerSink(Sink):
    """Enters placed pods in the ledger as assumed. Replicas of a template get no objects."""

    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        """Enter the placed pods from `first` to `end` in the ledger.

        Parameters
        ----------
        batch, out, first, end
            As in `Sink.enter`.

        Raises
        ------
        IndexError
            There are no such pods, or a row is not in the node table.
        """
        _check_given(batch, out)
        if batch.replicas is not None:
            return _enter_replicas(batch, out, first, end)
        return _enter(batch, out, first, end, ASSUMED)


cdef class BoundSink(Sink):
    """Enters placed pods in the ledger as added, as if their bindings had been reported at once."""

    cpdef int enter(self, PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
        """Enter the placed pods from `first` to `end` in the ledger.

        Parameters
        ----------
        batch, out, first, end
            As in `Sink.enter`. The pods have objects, which get the node when the cache returns them.

        Raises
        ------
        IndexError
            There are no such pods with objects, or a row is not in the node table.
        """
        _check_given(batch, out)
        return _enter(batch, out, first, end, ADDED)


cdef int _check_given(PodBatch batch, Placements out) except -1:
    """Check that there are pods and rows; a method that C calls too cannot declare it."""
    if batch is None or out is None:
        raise TypeError("a batch or its placements are None")
    return 0


cdef int _enter(PodBatch batch, Placements out, int32_t first, int32_t end, PodState pod_state) except -1:
    """Enter placed pods that have objects in the ledger."""
    cdef int32_t at, each, pod_class
    cdef ClusterState state = batch.state
    cdef const int32_t* rows = out.data
    if not 0 <= first <= end <= min(<Py_ssize_t>len(batch.pods), out.n):
        raise IndexError(f"there are no pods {first} to {end} with a row")
    for at in range(first, end):
        if rows[at] >= 0:
            state.table.check_row(rows[at])
    each = batch.span_at(first)
    state.ledger.make_room(end - first)
    for at in range(first, end):
        while batch.spans[each].end <= at:
            each += 1
        if rows[at] >= 0:
            pod_class = batch.spans[each].pod_class
            if batch.spans[each].route & CLAIMS:
                pod_class = state.classes.intern(batch.pods[at])
            state.ledger.insert(batch.pods[at], pod_class, rows[at], pod_state)


cdef int _enter_replicas(PodBatch batch, Placements out, int32_t first, int32_t end) except -1:
    """Enter the replicas up to the first that is not placed: those after it are not placed either."""
    cdef int32_t placed = first
    if not 0 <= first <= end <= min(<Py_ssize_t>len(batch), out.n):
        raise IndexError(f"there are no pods {first} to {end} with a row")
    while placed < end and out.data[placed] >= 0:
        placed += 1
    if placed > first:
        batch.state.assume_template(batch.spans[0].pod_class, batch.replicas.template,
                                    batch.replicas.first + first, out.rows[first:placed])
