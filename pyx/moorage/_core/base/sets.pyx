"""Interned taint sets and host port sets.

A row of the node table holds the id of a set, so that a pod is compared with each distinct set once. Both
tables are append-only: forks share them, and a rollback restores only the ids in the rows. Adding a set takes
a lock, a lookup does not.
"""

import threading
from collections import namedtuple

from libc.stdint cimport uint8_t

from moorage._core.base.selectors import tolerates
from moorage._core.csrc cimport mr_ports_conflict

Taint = namedtuple("Taint", "key value effect", module=__name__)
Toleration = namedtuple("Toleration", "key operator value effect", module=__name__)


cdef class TaintSets:
    """Taint sets by id; id 0 is the empty set.

    Attributes
    ----------
    sets : list of tuple of Taint
        The taints of each id, in the order of the node.
    """

    def __cinit__(self):
        self.lock = threading.RLock()
        self.ids = {(): 0}
        self.sets = [()]
        self.verdicts = {}

    cpdef int32_t intern(self, tuple taints) except -1:
        """Return the id of a taint set, adding it if it is new.

        Parameters
        ----------
        taints : tuple of Taint

        Returns
        -------
        int
        """
        set_id = self.ids.get(taints)
        if set_id is not None:
            return set_id
        with self.lock:
            if taints not in self.ids:
                self.sets.append(taints)
                self.ids[taints] = len(self.sets) - 1
            return self.ids[taints]

    cdef Buffer verdicts_of(self, tuple tolerations):
        """Return the verdict of TaintToleration on each taint set, int16 by set id.

        With n the number of PreferNoSchedule taints that are not tolerated (by tolerations with no effect or
        with that one), the verdict is n, or -1 - n if a NoSchedule or NoExecute taint is not tolerated
        (kube-scheduler v1.36, taint_toleration.go).
        """
        entry = self.verdicts.get(tolerations)
        if entry is None or (<tuple>entry)[0] < len(self.sets):
            with self.lock:
                entry = self.verdicts[tolerations] = _grown(self, tolerations, entry)
        return (<tuple>entry)[1]


cdef tuple _grown(TaintSets known_sets, tuple tolerations, tuple entry):
    """Return (number of sets, verdicts)."""
    cdef Py_ssize_t at, sets = len(known_sets.sets)
    cdef Buffer buffer = _with_room(entry, sets, sizeof(int16_t))
    for at in range(0 if entry is None else entry[0], sets):
        (<int16_t*>buffer.data)[at] = _verdict(known_sets.sets[at], tolerations)
    return sets, buffer


cdef Buffer _with_room(tuple entry, Py_ssize_t sets, Py_ssize_t itemsize):
    """Return the verdicts of an entry with room for more sets. Where they move, the old buffer stays as it
    is, since a search may be reading it."""
    cdef Buffer before = None if entry is None else entry[1]
    cdef Buffer buffer
    if before is not None and before.capacity >= sets:
        return before
    buffer = Buffer(Journal(), itemsize, sets if before is None else 2 * sets)
    if before is not None:
        buffer.copy_from(before)
    return buffer


def _verdict(tuple taints, tuple tolerations):
    """Return the verdict of TaintToleration on one taint set, see `TaintSets.verdicts_of`."""
    # Without the gate TaintTolerationComparisonOperators a shape has no tolerations with Lt or Gt.
    soft = [t for t in tolerations if t.effect in ("", "PreferNoSchedule")]
    hard = [t for t in taints if t.effect in ("NoSchedule", "NoExecute")]
    intolerable = sum([t.effect == "PreferNoSchedule" and not tolerates(soft, t, True) for t in taints])
    return intolerable if all([tolerates(tolerations, t, True) for t in hard]) else -1 - intolerable


cdef enum:
    CONFLICTS_LIMIT = 256  # tuples of host ports whose conflicts are kept


cdef class PortSets:
    """Host port sets by id; id 0 is the empty set. A port is (IP symbol, protocol symbol, port number).

    As in upstream's HostPortInfo these are sets, not multisets: removing one of two equal ports removes the
    port.

    Parameters
    ----------
    symbols : Symbols
        The symbols of IPs and protocols.

    Attributes
    ----------
    sets : list of frozenset
        The ports of each id.
    any_ip : int
        The symbol of 0.0.0.0.
    """

    def __cinit__(self, Symbols symbols not None):
        cdef Journal journal = Journal()
        self.lock = threading.RLock()
        self.symbols = symbols
        self.ids = {}
        self.moves = {}
        self.conflicts = {}
        self.sets = []
        self.ports = Buffer(journal, sizeof(mr_port))
        self.first = Buffer(journal, sizeof(int32_t))
        self.count = Buffer(journal, sizeof(int32_t))
        self.any_ip = symbols.intern("0.0.0.0")
        self.intern(frozenset())

    cpdef int32_t intern(self, frozenset ports) except -1:
        """Return the id of a port set, adding it if it is new.

        Parameters
        ----------
        ports : frozenset of (int, int, int)

        Returns
        -------
        int
        """
        set_id = self.ids.get(ports)
        if set_id is not None:
            return set_id
        with self.lock:
            if ports not in self.ids:  # another thread may have made it
                self._make(ports)
            return self.ids[ports]

    cdef int _make(self, frozenset ports) except -1:
        """Add a port set, with its ports in sorted order."""
        cdef int32_t at = <int32_t>len(self.sets)
        cdef mr_port* port
        self.first.reserve(at + 1)
        self.count.reserve(at + 1)
        self.ports.reserve(self.used + len(ports))
        self.first.int32()[at] = self.used
        self.count.int32()[at] = <int32_t>len(ports)
        for item in sorted(ports):
            port = &(<mr_port*>self.ports.data)[self.used]
            port.ip, port.protocol, port.port = item
            self.used += 1
        self.sets.append(ports)
        self.ids[ports] = at

    cdef Buffer conflicts_of(self, tuple ports, const mr_port* wanted):
        """Return for each port set whether one of some host ports conflicts with it, uint8 by set id.

        They are kept for `CONFLICTS_LIMIT` tuples of ports; beyond that the one that is kept longest is
        dropped.

        Parameters
        ----------
        ports : tuple of (int, int, int)
        wanted : pointer to mr_port
            The same ports.
        """
        entry = self.conflicts.get(ports)
        if entry is None or (<tuple>entry)[0] < len(self.sets):
            with self.lock:
                if entry is None and len(self.conflicts) >= CONFLICTS_LIMIT:
                    self.conflicts.pop(next(iter(self.conflicts)), None)
                entry = self.conflicts[ports] = _compared(self, <int32_t>len(ports), wanted, entry)
        return (<tuple>entry)[1]

    cdef bint holds(self, int32_t set_id, tuple ports) except -1:
        """Whether a set has all of some ports. If so, it is the same after they are removed and added."""
        return not ports or self.moved(set_id, ports, True) == set_id

    cdef int32_t moved(self, int32_t set_id, tuple ports, bint adding) except -1:
        """Return the id of a set after some ports have been added (`adding`) or removed."""
        key = (set_id, ports, adding)
        moved_id = self.moves.get(key)
        if moved_id is None:
            before = self.sets[set_id]
            moved_id = self.moves[key] = self.intern(before | set(ports) if adding else before - set(ports))
        return moved_id

    cdef int32_t without(self, int32_t set_id, set ports) except -1:
        """Return the id of a set after many ports have been removed."""
        return self.intern(<frozenset>self.sets[set_id] - ports)


cdef tuple _compared(PortSets port_sets, int32_t n, const mr_port* wanted, tuple entry):
    """Return (number of sets, whether ports conflict with each), see `PortSets.conflicts_of`."""
    cdef Py_ssize_t at, sets = len(port_sets.sets)
    cdef Buffer buffer = _with_room(entry, sets, sizeof(uint8_t))
    cdef const mr_port* ports = <mr_port*>port_sets.ports.data
    cdef const int32_t* first = port_sets.first.int32()
    cdef const int32_t* count = port_sets.count.int32()
    for at in range(0 if entry is None else entry[0], sets):
        buffer.uint8()[at] = mr_ports_conflict(wanted, n, ports + first[at], count[at], port_sets.any_ip)
    return sets, buffer
