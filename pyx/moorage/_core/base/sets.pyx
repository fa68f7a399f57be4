"""Interned taint sets and host port sets.

A row of the node table holds the id of a set, so that a pod is compared with each distinct set once. Both
tables are append-only: forks share them, and a rollback restores only the ids in the rows. Adding a set takes
a lock, a lookup does not.
"""

import threading
from collections import namedtuple

from moorage._core.base.selectors import tolerates

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
    """Return (number of sets, verdicts), in a new buffer since a search may be reading the old one."""
    cdef Py_ssize_t at, known = 0, sets = len(known_sets.sets)
    cdef Buffer buffer = Buffer(Journal(), sizeof(int16_t), sets)
    if entry is not None:
        known = entry[0]
        buffer.copy_from(<Buffer>entry[1])
    for at in range(known, sets):
        (<int16_t*>buffer.data)[at] = _verdict(known_sets.sets[at], tolerations)
    return sets, buffer


def _verdict(tuple taints, tuple tolerations):
    """Return the verdict of TaintToleration on one taint set, see `TaintSets.verdicts_of`."""
    # Without the gate TaintTolerationComparisonOperators a shape has no tolerations with Lt or Gt.
    soft = [t for t in tolerations if t.effect in ("", "PreferNoSchedule")]
    hard = [t for t in taints if t.effect in ("NoSchedule", "NoExecute")]
    intolerable = sum([t.effect == "PreferNoSchedule" and not tolerates(soft, t, True) for t in taints])
    return intolerable if all([tolerates(tolerations, t, True) for t in hard]) else -1 - intolerable


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
        (<int32_t*>self.first.data)[at] = self.used
        (<int32_t*>self.count.data)[at] = <int32_t>len(ports)
        for item in sorted(ports):
            port = &(<mr_port*>self.ports.data)[self.used]
            port.ip, port.protocol, port.port = item
            self.used += 1
        self.sets.append(ports)
        self.ids[ports] = at

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
