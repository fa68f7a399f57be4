"""NodeTree: the nodes by zone, which determine the order of the node list.

The rules are those of kube-scheduler v1.36, node_tree.go. A node is represented by the symbol of its name.
"""

from functools import partial


ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_key_v113(dict labels not None):
    """Return the zone key of a node by the rule of v1.13, which knows only the beta labels.

    Parameters
    ----------
    labels : dict of str to str
        The labels of the node.

    Returns
    -------
    str
        "" for a node with neither a zone nor a region.
    """
    zone = labels.get(ZONE_LABELS[0], "")
    region = labels.get(REGION_LABELS[0], "")
    return f"{region}:\x00:{zone}" if zone or region else ""


def zone_key(dict labels not None):
    """Return the zone key of a node, composed of its region and zone (v1.36, component-helpers GetZoneKey).

    Parameters
    ----------
    labels : dict of str to str
        The labels of the node; the beta labels take precedence.

    Returns
    -------
    str
        "" for a node with neither a zone nor a region.
    """
    zone = next((labels[key] for key in ZONE_LABELS if key in labels), "")
    region = next((labels[key] for key in REGION_LABELS if key in labels), "")
    return f"{region}:\x00:{zone}" if zone or region else ""


cdef class NodeTree:
    """Zones in the order of their first node, each with its nodes in the order of addition.

    A rollback restores these orders exactly.

    Parameters
    ----------
    journal : Journal
        Records the changes.

    Attributes
    ----------
    zones : list of str
        The zone keys.
    num_nodes : int
        Number of nodes.
    """

    def __cinit__(self, Journal journal not None):
        self.journal = journal
        self.tree = {}
        self.zones = []
        self.last_index = {}

    cdef NodeTree clone(self, Journal journal):
        """Return an independent copy."""
        cdef NodeTree out = NodeTree(journal)
        out.tree = {zone: nodes.copy() for zone, nodes in self.tree.items()}
        out.zones = self.zones.copy()
        out.num_nodes = self.num_nodes
        out.last_index = self.last_index.copy()
        out.zone_index = self.zone_index
        return out

    cpdef int add(self, str zone, int32_t node) except -1:
        """Append a node that is not in the tree to its zone.

        Parameters
        ----------
        zone : str
            The zone key of the node.
        node : int
            The symbol of its name.
        """
        nodes = self.tree.get(zone)
        if nodes is None:
            nodes = self.tree[zone] = []
            self.zones.append(zone)
        nodes.append(node)
        self.num_nodes += 1
        if self.journal.depth:
            self.journal.on_undo(partial(self._undo_add, zone))

    def _undo_add(self, str zone):
        """Undo the last addition, to this zone."""
        self.tree[zone].pop()
        self.num_nodes -= 1
        if not self.tree[zone]:
            del self.tree[zone]
            self.zones.pop()

    cpdef int remove(self, str zone, int32_t node) except -1:
        """Remove a node, and its zone if that becomes empty; the order of the other nodes remains.

        Parameters
        ----------
        zone : str
            The zone key of the node.
        node : int
            The symbol of its name.

        Raises
        ------
        KeyError
            If there is no such zone.
        ValueError
            If the zone has no such node.
        """
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
        """Undo a removal: insert the node and, if it was removed too, the zone at their old places."""
        if zone not in self.tree:
            self.tree[zone] = []
            self.last_index[zone] = reached
            self.zones.insert(zone_place, zone)
        self.tree[zone].insert(place, node)
        self.num_nodes += 1

    def nodes_in(self, str zone not None):
        """Return the symbols of the nodes of a zone, in order.

        Parameters
        ----------
        zone : str

        Returns
        -------
        list of int
            Empty for an unknown zone.
        """
        return [*self.tree.get(zone, ())]

    cpdef int32_t next(self) except -1:
        """Return the next node of the stateful iteration of v1.13 (NodeTree.Next).

        The zones take turns in yielding their next node. An exhausted zone is skipped, but checked again in
        each turn, so that nodes added to it are visited. When a call finds all zones exhausted, all start
        again. Additions and removals do not change how far a zone has been iterated.

        Returns
        -------
        int
            The symbol of the node; 0 in an empty tree.
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
        """Restart the stateful iteration at the first node of the first zone."""
        _save_iteration(self)
        _start_again(self)

    def _restore_iteration(self, last_index, zone_index):
        """Undo a step of the stateful iteration."""
        self.last_index = last_index
        self.zone_index = zone_index

    cpdef list list(self):
        """Return all nodes, one of each zone in turn (round robin; nodeTree.list).

        Returns
        -------
        list of int
            The symbols of the nodes.
        """
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
    """Reset the state of the iteration."""
    tree.last_index = {}
    tree.zone_index = 0


cdef int _save_iteration(NodeTree tree) except -1:
    """Record the state of the iteration, before it changes."""
    if tree.journal.depth:
        tree.journal.on_undo(partial(tree._restore_iteration, tree.last_index.copy(), tree.zone_index))
