"""Symbols: dense int32 ids of interned strings. Append-only, so forks share them and nothing is undone.

Forks may be used from several threads: making an id takes a lock, finding one does not.
"""

import threading

from moorage._core.buffers cimport Buffer, Journal
from moorage._core.quantity cimport parse_int64


cdef class Symbols:
    """Interned strings; id 0 stands for "absent" and belongs to no string."""

    def __cinit__(self):
        cdef Journal journal = Journal()
        self.lock = threading.RLock()
        self.ids = {}
        self.names = [None]
        self.numbers = Buffer(journal, sizeof(int64_t), 1024)
        self.are_numbers = Buffer(journal, sizeof(uint8_t), 1024)

    def __len__(self):
        return len(self.names)

    cpdef int32_t intern(self, str text) except -1:
        """The symbol of `text`, made if it is new."""
        found = self.ids.get(text)
        if found is not None:
            return found
        with self.lock:
            return self._make(text)

    cdef int32_t _make(self, str text) except -1:
        cdef int32_t symbol = <int32_t>len(self.names)
        found = self.ids.get(text)  # another thread may have made it
        if found is not None:
            return found
        self.numbers.reserve(symbol + 1)
        self.are_numbers.reserve(symbol + 1)
        number = parse_int64(text)
        if number is not None:
            (<int64_t*>self.numbers.data)[symbol] = number
            (<uint8_t*>self.are_numbers.data)[symbol] = 1
        self.names.append(text)
        self.ids[text] = symbol
        return symbol

    cpdef int32_t find(self, str text) except -1:
        """The symbol of `text`, or 0."""
        return self.ids.get(text, 0)
