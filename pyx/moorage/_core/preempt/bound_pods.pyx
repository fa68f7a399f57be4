# cython: auto_pickle=False
"""BoundPods: pods with the names of their nodes, of which each object is made when it is read.

The victims of a preemption are mostly known by their names and UIDs alone.
"""

from libc.stdint cimport int32_t

from moorage._core.base cimport DELETION_TIMESTAMP, METADATA
from moorage._core.base.watch_events cimport _identity, made
from moorage._core.state cimport ClusterState, Ledger
from moorage._core.state.pod_spec import bound


cdef class BoundPods:
    """A sequence of pods, each with the name of its node.

    Parameters
    ----------
    held : list of (Pod or WatchEvent)
        Each pod, or the event that makes it. Both may lack the node.
    nodes : list of str
        The node of each pod.
    """

    def __init__(self, list held not None, list nodes not None):
        if len(held) != len(nodes):
            raise ValueError("each pod has one node")
        self.held, self.nodes = held, nodes

    def __len__(self):
        return len(self.held)

    def __getitem__(self, at):
        """Return the pod with an index, or the pods of a slice."""
        if isinstance(at, slice):
            return BoundPods(self.held[at], self.nodes[at])
        return bound(made(self.held[at]), self.nodes[at])

    def __eq__(self, other):
        return list(self) == list(other) if isinstance(other, (BoundPods, list, tuple)) else NotImplemented

    __hash__ = None

    def __repr__(self):
        return f"BoundPods({list(self)!r})"


def held_of(pods):
    """Return pods without making their objects.

    Parameters
    ----------
    pods : sequence of Pod

    Returns
    -------
    sequence of (Pod or WatchEvent)
        Each pod, or the event that makes it. Both may lack the node.
    """
    return (<BoundPods>pods).held if type(pods) is BoundPods else pods


def nodes_of(pods):
    """Return the name of the node of each pod.

    Parameters
    ----------
    pods : sequence of Pod

    Returns
    -------
    list of str
    """
    return (<BoundPods>pods).nodes if type(pods) is BoundPods else [pod.spec.node_name for pod in pods]


def selected(pods, selectors):
    """Return some of a sequence of pods.

    Parameters
    ----------
    pods : sequence of Pod
    selectors : sequence of bool
        Of each pod, whether it is wanted.

    Returns
    -------
    sequence of Pod
        `pods` itself, if all are.
    """
    if all(selectors):
        return pods
    wanted = [at for at, is_wanted in enumerate(selectors) if is_wanted]
    if type(pods) is not BoundPods:
        return [pods[at] for at in wanted]
    held, nodes = (<BoundPods>pods).held, (<BoundPods>pods).nodes
    return BoundPods([held[at] for at in wanted], [nodes[at] for at in wanted])


def not_terminating(pods):
    """Return those of a sequence of pods that are not being deleted.

    Parameters
    ----------
    pods : sequence of Pod

    Returns
    -------
    sequence of Pod
    """
    return selected(
        pods, [DELETION_TIMESTAMP.of(METADATA.of(_identity(held))) is None for held in held_of(pods)]
    )


cdef BoundPods pods_with_numbers(ClusterState state, list numbers):
    """The pods with some numbers."""
    cdef Ledger ledger
    cdef int32_t number
    if not numbers:
        return BoundPods([], [])
    ledger = state.ledger
    return BoundPods(
        [ledger.object_of(number) if ledger.record(number).origin else ledger.objects[number]
         for number in numbers],
        [state.table.row_name(ledger.row_of(number)) for number in numbers],
    )
