"""Interned taint sets and host port sets: a row holds an id, and what a pod thinks of a set is computed once.

Both are append-only, so undo and forks only restore ids; making an id takes a lock, finding one does not.
"""

import threading
from collections import namedtuple

from moorage._core.base.selectors import tolerates

Taint = namedtuple("Taint", "key value effect", module=__name__)
Toleration = namedtuple("Toleration", "key operator value effect", module=__name__)


cdef class TaintSets:
    """Taint sets by id; 0 is the empty set. A set is a tuple of `Taint` in the node's order."""

    def __cinit__(self):
        self.lock = threading.RLock()
        self.ids = {(): 0}
        self.sets = [()]
        self.verdicts = {}

    cpdef int32_t intern(self, tuple taints) except -1:
        found = self.ids.get(taints)
        if found is not None:
            return found
        with self.lock:
            if taints not in self.ids:
                self.sets.append(taints)
                self.ids[taints] = len(self.sets) - 1
            return self.ids[taints]

    cdef Buffer verdicts_of(self, tuple tolerations):
        """Per taint set the number of PreferNoSchedule taints that no toleration with an empty or that effect
        covers, as -1 - number where a NoSchedule or NoExecute taint is not tolerated (kube-scheduler v1.36,
        taint_toleration.go). int16 by set id, of the sets known now."""
        entry = self.verdicts.get(tolerations)
        if entry is None or (<tuple>entry)[0] < len(self.sets):
            with self.lock:
                entry = self.verdicts[tolerations] = _grown(self, tolerations, entry)
        return (<tuple>entry)[1]


cdef tuple _grown(TaintSets known_sets, tuple tolerations, tuple entry):
    """(sets judged, verdicts), in a buffer of its own: a search may be reading the old one."""
    cdef Py_ssize_t at, known = 0, sets = len(known_sets.sets)
    cdef Buffer buffer = Buffer(Journal(), sizeof(int16_t), sets)
    if entry is not None:
        known = entry[0]
        buffer.copy_from(<Buffer>entry[1])
    for at in range(known, sets):
        (<int16_t*>buffer.data)[at] = _verdict(known_sets.sets[at], tolerations)
    return sets, buffer


def _verdict(tuple taints, tuple tolerations):
    # Tolerations of shapes compare values only where the gate is on: else the reader has left those out.
    soft = [t for t in tolerations if t.effect in ("", "PreferNoSchedule")]
    hard = [t for t in taints if t.effect in ("NoSchedule", "NoExecute")]
    intolerable = sum([t.effect == "PreferNoSchedule" and not tolerates(soft, t, True) for t in taints])
    return intolerable if all([tolerates(tolerations, t, True) for t in hard]) else -1 - intolerable


cdef class PortSets:
    """Host port sets by id; 0 is the empty set. A port is (ip symbol, protocol symbol, port).

    As in upstream's HostPortInfo these are sets: taking away one of two equal ports takes the port away.
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
        found = self.ids.get(ports)
        if found is not None:
            return found
        with self.lock:
            if ports not in self.ids:  # another thread may have made it
                self._make(ports)
            return self.ids[ports]

    cdef int _make(self, frozenset ports) except -1:
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

    cdef int32_t moved(self, int32_t set_id, tuple ports, bint adding) except -1:
        """The set after a pod with these ports came or went."""
        key = (set_id, ports, adding)
        found = self.moves.get(key)
        if found is None:
            before = self.sets[set_id]
            found = self.moves[key] = self.intern(before | set(ports) if adding else before - set(ports))
        return found
