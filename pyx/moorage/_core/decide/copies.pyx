"""Many pods like one on a row at once, for questions whose answer does not depend on the order of
placements."""

from libc.stdint cimport int32_t

from moorage._core.decide.pod_batch cimport (
    PINNED, PROFILE, SIGNATURE, SIGNED, WAITS, PodBatch, PodSpan, count_pods,
)
from moorage._core.decide.search cimport Search
from moorage._core.decide.terms cimport Terms
from moorage._core.state cimport ClusterState

cdef int32_t FILTERED_BY_ROW = PINNED | SIGNED | SIGNATURE | WAITS | -PROFILE  # bits of routes


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
    if rows.shape[0] != copies.shape[0]:
        raise IndexError(f"{rows.shape[0]} rows and {copies.shape[0]} numbers of copies")
    state.table.check_rows(rows)
    for at in range(<int32_t>rows.shape[0]):
        if copies[at]:
            count_pods(state, pod_class, rows[at], copies[at])
