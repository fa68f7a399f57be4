"""Many pods like one on a row at once, for questions whose answer does not depend on the order of
placements."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from moorage._core.base cimport LOG_ROW, allocate
from moorage._core.csrc cimport mr_verdict
from moorage._core.decide.pod_batch cimport PINNED, PROFILE, SIGNED, WAITS, PodBatch, PodSpan
from moorage._core.decide.search cimport Search
from moorage._core.decide.terms cimport Terms
from moorage._core.state cimport ClusterState, Shape

cdef int32_t FILTERED_BY_ROW = PINNED | SIGNED | WAITS | -PROFILE  # bits of routes


def filters_rows_alone(Search search not None, PodBatch batch not None):
    """Return whether the verdict of the filters about the first pod of a batch on a node depends on that node
    alone.

    It does not with hard constraints or required terms, which count pods of other rows, with host ports or
    volumes, or with plugins outside the core. Scores may depend on other nodes.

    Parameters
    ----------
    search : Search
    batch : PodBatch

    Returns
    -------
    bool
    """
    cdef const PodSpan* span = batch.spans + batch.span_at(0)
    cdef Terms terms
    if search.plan.externals or search.plan.needs_python or span.route & ~FILTERED_BY_ROW:
        return False
    terms = search._terms_of(span.pod_class, 0)
    return not (terms.n_hard or terms.affinity_filters)


def account_copies(ClusterState state not None, PodBatch batch not None, const int32_t[::1] rows not None,
                   const int32_t[::1] copies not None):
    """Count several pods like the first of a batch on each of some rows, without entering them in the ledger:
    inside a transaction that is rolled back, for pods of which `filters_rows_alone` holds.

    Parameters
    ----------
    state : ClusterState
    batch : PodBatch
    rows : (n,) int32 array
    copies : (n,) int32 array
        The number of pods on each row.

    Raises
    ------
    IndexError
        A row is not in the node table, or the arrays differ in length.
    """
    cdef int32_t at, pod_class = batch.spans[batch.span_at(0)].pod_class
    cdef Shape shape = state.classes.shape(pod_class)
    if rows.shape[0] != copies.shape[0]:
        raise IndexError(f"{rows.shape[0]} rows and {copies.shape[0]} numbers of copies")
    state.table.check_rows(rows)
    for at in range(<int32_t>rows.shape[0]):
        if copies[at]:
            state.table.add_pod(0, rows[at], &shape.c, shape.ports, copies[at])
            state.domains.pod_moved(pod_class, False, rows[at], copies[at])
            state.table.changed(LOG_ROW, rows[at])


cdef class Room:
    """How many pods like the first of a batch pass the filters on the nodes, one after the other.

    Each node takes as many, whatever the order of the placements is: for pods of which `filters_rows_alone`
    holds. Follows the pods that come and go, by `recount`.

    Parameters
    ----------
    search : Search
        Searches all nodes.
    batch : PodBatch
    most : int
        The number of pods on a node that is of interest.

    Attributes
    ----------
    total : int
        The number on all nodes, at most `most` on each.
    nodes : int
        The number of nodes that take one.
    searched : int
        The number of nodes that a search examines.
    """

    cdef Search search
    cdef Shape shape
    cdef list memory
    cdef int32_t* room  # by row
    cdef int32_t pod_class, most, rows
    cdef readonly int64_t total
    cdef readonly int32_t nodes, searched

    def __init__(self, Search search not None, PodBatch batch not None, int32_t most):
        cdef int32_t at
        self.search, self.most, self.memory = search, most, []
        self.pod_class = batch.spans[batch.span_at(0)].pod_class
        self.shape = search.state.classes.shape(self.pod_class)
        self.rows = search.state.table.used
        self.room = <int32_t*>allocate(self.memory, sizeof(int32_t), self.rows + 1)
        memset(self.room, 0, self.rows * sizeof(int32_t))
        self.total, self.nodes = 0, 0
        search._prepare(self.pod_class, 0, 0)
        self.searched = search.search.n
        for at in range(self.searched):
            _count_row(self, search.search.order[at])

    def recount(self, tuple rows not None):
        """Count again on some rows of which pods have changed.

        Parameters
        ----------
        rows : tuple of int

        Returns
        -------
        int
            `total`.

        Raises
        ------
        IndexError
            There is no such row.
        """
        cdef int32_t row
        self.search._prepare(self.pod_class, 0, 0)
        for row in rows:
            if not 0 <= row < self.rows:
                raise IndexError(f"there is no row {row} among {self.rows}")
            _count_row(self, row)
        return self.total


cdef int _count_row(Room room, int32_t row) except -1:
    """Count on a row of which the search is prepared."""
    cdef Search search = room.search
    cdef int32_t found = 0
    while found < room.most and not mr_verdict(&search.plan.c, &search.cluster, &room.shape.c,
                                               &search.search.pod, row):
        search.state.table.add_pod(0, row, &room.shape.c, (), 1)
        search._repoint()
        found += 1
    if found:
        search.state.table.add_pod(0, row, &room.shape.c, (), -found)
    room.total += found - room.room[row]
    room.nodes += (found > 0) - (room.room[row] > 0)
    room.room[row] = found
