"""NodeTree: zones in first-seen order, each with its nodes in the order in which they came.

kube-scheduler v1.36, node_tree.go. Nodes are symbols of their names here.
"""

from functools import partial


ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_key_v113(dict labels not None):
    """Zone key of v1.13: the old labels only."""
    zone = labels.get(ZONE_LABELS[0], "")
    region = labels.get(REGION_LABELS[0], "")
    return f"{region}:\x00:{zone}" if zone or region else ""


def zone_key(dict labels not None):
    """Region and zone of a node's labels as one key, the old labels first; "" where it has neither."""
    zone = next((labels[key] for key in ZONE_LABELS if key in labels), "")
    region = next((labels[key] for key in REGION_LABELS if key in labels), "")
    return f"{region}:\x00:{zone}" if zone or region else ""


cdef class NodeTree:
    """Nodes by zone. Every change can be undone, places included."""

    def __cinit__(self, Journal journal not None):
        self.journal = journal
        self.tree = {}
        self.zones = []
        self.last_index = {}

    cdef NodeTree clone(self, Journal journal):
        """An independent copy."""
        cdef NodeTree out = NodeTree(journal)
        out.tree = {zone: nodes.copy() for zone, nodes in self.tree.items()}
        out.zones = self.zones.copy()
        out.num_nodes = self.num_nodes
        out.last_index = self.last_index.copy()
        out.zone_index = self.zone_index
        return out

    cpdef int add(self, str zone, int32_t node) except -1:
        """Append a node that is not in the tree to its zone."""
        nodes = self.tree.get(zone)
        if nodes is None:
            nodes = self.tree[zone] = []
            self.zones.append(zone)
        nodes.append(node)
        self.num_nodes += 1
        if self.journal.depth:
            self.journal.on_undo(partial(self._undo_add, zone))

    def _undo_add(self, str zone):
        self.tree[zone].pop()
        self.num_nodes -= 1
        if not self.tree[zone]:
            del self.tree[zone]
            self.zones.pop()

    cpdef int remove(self, str zone, int32_t node) except -1:
        """Remove a node; the order of the others stays, and an empty zone goes."""
        nodes = self.tree[zone]
        place = nodes.index(node)
        zone_place = self.zones.index(zone)
        del nodes[place]
        self.num_nodes -= 1
        reached = self.last_index.get(zone, 0)
        if not nodes:
            del self.tree[zone]
            del self.zones[zone_place]
            self.last_index.pop(zone, None)
        if self.journal.depth:
            self.journal.on_undo(partial(self._undo_remove, zone, zone_place, place, node, reached))

    def _undo_remove(self, str zone, zone_place, place, node, reached):
        if zone not in self.tree:
            self.tree[zone] = []
            self.last_index[zone] = reached
            self.zones.insert(zone_place, zone)
        self.tree[zone].insert(place, node)
        self.num_nodes += 1

    def nodes_in(self, str zone not None):
        """Symbols of the nodes of a zone, in order."""
        return [*self.tree.get(zone, ())]

    cpdef int32_t next(self) except -1:
        """The next node of the stateful iteration (v1.13, NodeTree.Next), or 0 in an empty tree.

        One zone after the other gives its next node; a zone that has run out is passed over, but asked again
        each time, so nodes that join it are still visited; when all have run out in one call, all start
        again. Additions and removals do not touch the places that the zones have reached.
        """
        cdef Py_ssize_t exhausted = 0, at
        _save_iteration(self)
        while self.zones:
            if self.zone_index >= len(self.zones):
                self.zone_index = 0
            zone = self.zones[self.zone_index]
            self.zone_index += 1
            at = self.last_index.get(zone, 0)
            if at < len(self.tree[zone]):
                self.last_index[zone] = at + 1
                return self.tree[zone][at]
            exhausted += 1
            if exhausted >= len(self.zones):
                _start_again(self)
        return 0

    def reset_exhausted(self):
        """Start the stateful iteration again from the first node of the first zone."""
        _save_iteration(self)
        _start_again(self)

    def _restore_iteration(self, last_index, zone_index):
        self.last_index = last_index
        self.zone_index = zone_index

    cpdef list list(self):
        """All nodes, one of each zone in turn; a zone that has run out is skipped."""
        zones = [self.tree[zone] for zone in self.zones]
        out = []
        cdef Py_ssize_t index = 0, shortest
        while zones:
            shortest = min(map(len, zones))
            while index < shortest:
                out += [nodes[index] for nodes in zones]
                index += 1
            zones = [nodes for nodes in zones if len(nodes) > index]
        return out


cdef void _start_again(NodeTree tree) noexcept:
    tree.last_index = {}
    tree.zone_index = 0


cdef int _save_iteration(NodeTree tree) except -1:
    if tree.journal.depth:
        tree.journal.on_undo(partial(tree._restore_iteration, tree.last_index.copy(), tree.zone_index))
