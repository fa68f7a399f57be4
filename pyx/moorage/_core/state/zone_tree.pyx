# cython: auto_pickle=False
"""NodeTree: the nodes by zone, which determine the order of the node list.

The rules are those of kube-scheduler v1.36, node_tree.go. A node is represented by the symbol of its name.
"""

from fastrlock.rlock cimport lock_fastrlock, unlock_fastrlock
from libc.string cimport memcpy, memmove, memset


cdef tuple ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
cdef tuple REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


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


cpdef str zone_key(dict labels):
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
    zone, region = _first_of(labels, ZONE_LABELS), _first_of(labels, REGION_LABELS)
    return f"{region}:\x00:{zone}" if zone or region else ""


cdef object _first_of(dict labels, tuple keys):
    """Return the value of the first key that there is; "" without one."""
    for key in keys:
        value = labels.get(key)
        if value is not None:
            return value
    return ""


cdef class NodeTree:
    """Zones in the order of their first node, each with its nodes in the order of addition.

    A zone keeps its number when its last node has been removed. A rollback restores the orders exactly.

    Parameters
    ----------
    journal : Journal
        Records the changes.

    Attributes
    ----------
    zones : list of str
        The keys of the zones that have nodes.
    num_nodes : int
        Number of nodes.
    """

    def __cinit__(self, Journal journal not None):
        self.journal = journal
        self.numbers = {}
        self.keys = []
        self.nodes = IntLists(journal)
        self.order = Buffer(journal, sizeof(int32_t))
        self.reached = Buffer(journal, sizeof(int32_t))
        self.totals = Buffer(journal, sizeof(TreeTotals), 1)

    cdef NodeTree clone(self, Journal journal):
        """Return an independent copy."""
        cdef NodeTree out = NodeTree(journal)
        out.numbers = self.numbers.copy()
        out.keys = self.keys.copy()
        out.nodes = self.nodes.clone(journal)
        out.order.copy_from(self.order)
        out.reached.copy_from(self.reached)
        out.totals.copy_from(self.totals)
        return out

    @property
    def num_nodes(self):
        """Return the number of nodes."""
        return self.size()

    @property
    def zones(self):
        """Return the keys of the zones that have nodes, in the order of their first node."""
        cdef int32_t at
        return [self.keys[self.order.int32()[at]] for at in range(_totals(self).zones)]

    cpdef int add(self, str zone, int32_t node) except -1:
        """Append a node that is not in the tree to its zone.

        Parameters
        ----------
        zone : str
            The zone key of the node.
        node : int
            The symbol of its name.
        """
        cdef int32_t number = _number(self, zone)
        cdef TreeTotals* totals = _totals(self)
        self.order.reserve(totals.zones + 1)
        self.nodes.append(number, node)
        self.totals.touch(0)
        if self.nodes.size(number) == 1:
            self.order.touch(totals.zones)
            self.order.int32()[totals.zones] = number
            totals.zones += 1
        totals.nodes += 1

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
        cdef int32_t number = self.numbers.get(zone, -1), at, size
        cdef TreeTotals* totals = _totals(self)
        size = 0 if number < 0 else self.nodes.size(number)
        if size == 0:
            raise KeyError(zone)
        at = _index_of(self, number, node)
        if at < 0:
            raise ValueError(f"zone {zone} has no node {node}")
        self.nodes.remove(number, at)
        self.totals.touch(0)
        totals.nodes -= 1
        if size == 1:
            _remove_zone(self, number)

    cpdef bint has(self, str zone, int32_t node) except -1:
        """Whether a zone has a node.

        Parameters
        ----------
        zone : str
        node : int
            The symbol of its name.

        Returns
        -------
        bool
        """
        cdef int32_t number = self.numbers.get(zone, -1)
        return number >= 0 and _index_of(self, number, node) >= 0

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
        cdef int32_t number = self.numbers.get(zone, -1), at
        cdef int32_t size = 0 if number < 0 else self.nodes.size(number)
        return [self.nodes.items(number)[at] for at in range(size)]

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
        cdef TreeTotals* totals = _totals(self)
        cdef int32_t* reached = self.reached.int32()
        cdef int32_t exhausted = 0, number
        self.totals.touch(0)
        while totals.zones:
            if totals.turn >= totals.zones:
                totals.turn = 0
            number = self.order.int32()[totals.turn]
            totals.turn += 1
            if reached[number] < self.nodes.size(number):
                self.reached.touch(number)
                reached[number] += 1
                return self.nodes.items(number)[reached[number] - 1]
            exhausted += 1
            if exhausted >= totals.zones:
                self.reset_exhausted()
        return 0

    cpdef int reset_exhausted(self) except -1:
        """Restart the stateful iteration at the first node of the first zone."""
        self.totals.touch(0)
        self.reached.touch_range(0, len(self.keys))
        if self.keys:
            memset(self.reached.data, 0, len(self.keys) * sizeof(int32_t))
        _totals(self).turn = 0

    cdef int write(self, int32_t* out) except -1:
        """Write the symbols of all nodes, one of each zone in turn (round robin; nodeTree.list)."""
        cdef int32_t left = _totals(self).zones, kept, at, index = 0, written = 0
        cdef Buffer turns = Buffer(Journal(), sizeof(int32_t), left)
        cdef int32_t* zone = turns.int32()
        if left:  # memory of no items may be NULL, which memcpy does not take
            memcpy(zone, self.order.data, left * sizeof(int32_t))
        while left:
            kept = 0
            for at in range(left):
                out[written] = self.nodes.items(zone[at])[index]
                written += 1
                if index + 1 < self.nodes.size(zone[at]):
                    zone[kept] = zone[at]
                    kept += 1
            left = kept
            index += 1

    cpdef list list(self):
        """Return all nodes, one of each zone in turn (round robin; nodeTree.list).

        Returns
        -------
        list of int
            The symbols of the nodes.
        """
        cdef int32_t at
        cdef Buffer nodes = Buffer(Journal(), sizeof(int32_t), self.size())
        self.write(nodes.int32())
        return [nodes.int32()[at] for at in range(self.size())]


cdef int32_t _number(NodeTree tree, str zone) except -1:
    """Return the number of a zone, giving one to a new zone."""
    cdef int32_t number = tree.numbers.get(zone, -1)
    if number < 0:
        number = <int32_t>len(tree.keys)
        tree.nodes.reserve(number + 1)
        tree.reached.reserve(number + 1)
        tree.keys.append(zone)
        tree.numbers[zone] = number
    return number


cdef int32_t _index_of(NodeTree tree, int32_t zone, int32_t node) noexcept:
    """The index of a node in its zone, by their numbers; -1 if it is not there."""
    cdef const int32_t* nodes = tree.nodes.items(zone)
    cdef int32_t at
    for at in range(tree.nodes.size(zone)):
        if nodes[at] == node:
            return at
    return -1


cdef int _remove_zone(NodeTree tree, int32_t number) except -1:
    """Remove a zone without nodes from the order, and forget how far it has been iterated."""
    cdef TreeTotals* totals = _totals(tree)
    cdef int32_t* order = tree.order.int32()
    cdef int32_t at = 0
    while order[at] != number:
        at += 1
    tree.order.touch_range(at, totals.zones - at)
    memmove(order + at, order + at + 1, (totals.zones - at - 1) * sizeof(int32_t))
    totals.zones -= 1
    tree.reached.touch(number)
    tree.reached.int32()[number] = 0


cdef inline TreeTotals* _totals(NodeTree tree) noexcept:
    """Return the totals of a tree."""
    return <TreeTotals*>tree.totals.data


cdef class NodeNames:
    """The names of the nodes of a tree, as a list and in the stateful iteration of v1.13. Thread-safe.

    Parameters
    ----------
    tree : NodeTree
    symbols : Symbols
        The symbols of the node names.
    lock : fastrlock.rlock.FastRLock
        The lock of the tree.
    """

    def __init__(self, NodeTree tree not None, Symbols symbols not None, lock):
        self._core, self._symbols, self._lock = tree, symbols, lock

    def list(self):
        """Return all node names, one of each zone in turn (kube-scheduler v1.36, node_tree.go)."""
        cdef Buffer nodes
        cdef int32_t at
        cdef list names
        with self._lock:
            names = self._symbols.names
            nodes = Buffer(Journal(), sizeof(int32_t), self._core.size())
            self._core.write(nodes.int32())
            return [names[nodes.int32()[at]] for at in range(self._core.size())]

    def next(self):
        """Return the next node of the stateful iteration of v1.13 (NodeTree.Next); "" in an empty tree."""
        cdef int32_t node
        lock_fastrlock(self._lock, -1, True)  # a with statement costs as much as all else
        try:
            node = self._core.next()
            return self._symbols.names[node] if node else ""
        finally:
            unlock_fastrlock(self._lock)
