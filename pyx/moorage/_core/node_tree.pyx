"""NodeTree: zones in first-seen order, each with its nodes in the order in which they came.

kube-scheduler v1.36, node_tree.go. Nodes are symbols of their names here.
"""

from functools import partial

from moorage._core.buffers cimport Journal

ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_key(dict labels):
    """Region and zone of a node's labels as one key, the old labels first; "" where it has neither."""
    zone = next((labels[key] for key in ZONE_LABELS if key in labels), "")
    region = next((labels[key] for key in REGION_LABELS if key in labels), "")
    return f"{region}:\x00:{zone}" if zone or region else ""


cdef class NodeTree:
    """Nodes by zone. Every change can be undone, places included."""

    def __cinit__(self, Journal journal):
        self.journal = journal
        self.tree = {}
        self.zones = []

    cdef NodeTree clone(self, Journal journal):
        """An independent copy."""
        cdef NodeTree out = NodeTree(journal)
        out.tree = {zone: nodes.copy() for zone, nodes in self.tree.items()}
        out.zones = self.zones.copy()
        out.num_nodes = self.num_nodes
        return out

    cdef int add(self, str zone, int32_t node) except -1:
        """Append a node that is not in the tree to its zone."""
        nodes = self.tree.get(zone)
        if nodes is None:
            nodes = self.tree[zone] = []
            self.zones.append(zone)
        nodes.append(node)
        self.num_nodes += 1
        if self.journal.depth:
            self.journal.on_undo(partial(self._undo_add, zone))
        return 0

    def _undo_add(self, str zone):
        self.tree[zone].pop()
        self.num_nodes -= 1
        if not self.tree[zone]:
            del self.tree[zone]
            self.zones.pop()

    cdef int remove(self, str zone, int32_t node) except -1:
        """Remove a node; the order of the others stays, and an empty zone goes."""
        nodes = self.tree[zone]
        place = nodes.index(node)
        zone_place = self.zones.index(zone)
        del nodes[place]
        self.num_nodes -= 1
        if not nodes:
            del self.tree[zone]
            del self.zones[zone_place]
        if self.journal.depth:
            self.journal.on_undo(partial(self._undo_remove, zone, zone_place, place, node))
        return 0

    def _undo_remove(self, str zone, zone_place, place, node):
        if zone not in self.tree:
            self.tree[zone] = []
            self.zones.insert(zone_place, zone)
        self.tree[zone].insert(place, node)
        self.num_nodes += 1

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
