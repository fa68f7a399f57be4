"""Rows with one resource ledger for guaranteed pods and one for best-effort pods, as in Gödel.

The Node, the NMNode and the CNR (CustomNodeResource) of one name share a row. A pod is counted in the ledger
of its QoS level.
"""

from moorage.errors import CacheError

from libc.stdint cimport int32_t, int64_t

from moorage._core.base cimport LOG_STATIC, METADATA, UID
from moorage._core.csrc cimport MR_HELD, mr_ledger, mr_row_value
from moorage._core.state cimport ClusterState, Shape


def describe(ClusterState state not None, str name not None, allocatable, bint held):
    """Set the allocatable resources of a row, which need not have a Node.

    Parameters
    ----------
    state : ClusterState
    name : str
        The node's name.
    allocatable : sequence of dict
        The resources of each ledger, as `NodeTable.read_allocatable` returns them.
    held : bool
        Whether to keep the row if it has neither a Node nor pods; else it is released.
    """
    state.atomically(_describe, state, name, allocatable, held)


def _describe(ClusterState state not None, str name not None, allocatable, bint held):
    """Set the allocatable resources of a row, as an operation of `ClusterState.atomically`."""
    cdef int32_t row = state.table.row_for(state.symbols.intern(name))
    for ledger, resources in enumerate(allocatable):
        state.table.check_ledger(ledger)
        state.table.set_allocatable(ledger, row, resources)
    if held:
        state.table.row(0, row).flags |= MR_HELD
    else:
        state.table.row(0, row).flags &= ~MR_HELD
    state.table.changed(LOG_STATIC, row)
    state._release_if_empty(row)


def misfits(ClusterState state not None, pod, str name not None, without=(), bint ignore_pods_limit=False):
    """Return why the resources of a node are insufficient for a pod (Gödel, pkg/plugins/noderesources).

    The resources are those of the ledger of the pod's QoS level.

    Parameters
    ----------
    state : ClusterState
    pod : Pod
    name : str
        The node's name.
    without : iterable of Pod
        Pods to count as removed. Pods on other nodes are ignored.
    ignore_pods_limit : bool
        Whether to ignore the limit on the number of pods.

    Returns
    -------
    list of str
        Upstream's texts, such as "Insufficient cpu"; empty if the resources suffice.

    Raises
    ------
    CacheError
        There is no such node.
    """
    cdef int32_t row = state.table.find(state.symbols.find(name)), number, at, pods
    cdef Shape shape, other
    cdef mr_ledger ledger
    cdef list reasons = []
    cdef int64_t cpu, memory
    if row < 0:
        raise CacheError(f"node {name} is not found")
    shape = state.classes.shape(state.classes.intern(pod))
    state.table.sync_columns()
    state.table.fill_ledger(shape.ledger, &ledger)
    pods = ledger.rows[row].pods + 1
    cpu, memory = shape.c.cpu, shape.c.memory
    cdef dict others = {}
    cdef set seen = set()
    for at in range(shape.c.n_others):
        others[shape.c.others[at].resource] = shape.c.others[at].value
    for removed in without:
        number = state.ledger.find(UID.of(METADATA.of(removed)))
        if number < 0 or state.ledger.row_of(number) != row or number in seen:
            continue
        seen.add(number)
        pods -= 1
        other = state.classes.shape(state.ledger.class_of(number))
        if other.ledger == shape.ledger:
            cpu -= other.c.cpu
            memory -= other.c.memory
            for at in range(other.c.n_others):
                if other.c.others[at].resource in others:
                    others[other.c.others[at].resource] -= other.c.others[at].value
    if pods > ledger.rows[row].pods_max and not ignore_pods_limit:
        reasons.append("Too many pods")
    if shape.c.cpu == 0 and shape.c.memory == 0 and shape.c.n_others == 0:
        return reasons
    if mr_row_value(&ledger, row, 0) < mr_row_value(&ledger, row, 2) + cpu:
        reasons.append("Insufficient cpu")
    if mr_row_value(&ledger, row, 1) < mr_row_value(&ledger, row, 3) + memory:
        reasons.append("Insufficient memory")
    for at, resource in enumerate(shape.others):
        number = shape.c.others[at].resource
        if ledger.others[number][2 * row] < ledger.others[number][2 * row + 1] + <int64_t>others[number]:
            reasons.append(f"Insufficient {resource}")
    return reasons
