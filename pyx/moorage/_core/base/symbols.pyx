"""Symbols: dense int32 ids of interned strings.

A symbol table is append-only: forks of a cluster share it, and a rollback leaves it as it is. Forks may be
used from several threads; adding a symbol takes a lock, a lookup does not.
"""

from cpython.unicode cimport PyUnicode_AsUTF8
from fastrlock.rlock cimport lock_fastrlock, unlock_fastrlock
from fastrlock.rlock import FastRLock

from moorage._core.base.buffers cimport Journal
from moorage._core.base.quantity cimport parse_int64


cdef class Symbols:
    """A symbol table. Symbol 0 means "absent" and belongs to no string.

    Attributes
    ----------
    names : list
        The string of each symbol; None for symbol 0.
    """

    def __cinit__(self):
        cdef Journal journal = Journal()
        self.lock = FastRLock()
        self.ids = StringIndex()
        self.names = [None]
        self.numbers = Buffer(journal, sizeof(int64_t), 1024)
        self.are_numbers = Buffer(journal, sizeof(uint8_t), 1024)
        self.texts = Buffer(journal, sizeof(char*))

    def __len__(self):
        return len(self.names)

    cpdef int32_t intern(self, str text) except -1:
        """Return the symbol of a string, adding it if it is new.

        Parameters
        ----------
        text : str

        Returns
        -------
        int
        """
        cdef int32_t symbol = self.ids.find(text, 0)
        if symbol:
            return symbol
        lock_fastrlock(self.lock, -1, True)  # a with statement costs more than all else
        try:
            symbol = self.ids.find(text, 0)  # another thread may have made it
            return symbol if symbol else self._make(text)
        finally:
            unlock_fastrlock(self.lock)

    cdef int32_t _make(self, str text) except -1:
        """Add a symbol, with the integer that a string is in Go's decimal syntax, if it is one; return it."""
        cdef int32_t symbol = <int32_t>len(self.names)
        self.numbers.reserve(symbol + 1)
        self.are_numbers.reserve(symbol + 1)
        number = parse_int64(text)
        if number is not None:
            self.numbers.int64()[symbol] = number
            self.are_numbers.uint8()[symbol] = 1
        self.ids.reserve(symbol)
        self.names.append(text)
        self.ids.put(text, symbol)
        return symbol

    cpdef int32_t find(self, str text) except -1:
        """Return the symbol of a string, or 0 if it has none.

        Parameters
        ----------
        text : str

        Returns
        -------
        int
        """
        return self.ids.find(text, 0)

    cdef int check(self, int32_t symbol) except -1:
        """Raise IndexError unless `symbol` is a symbol or 0."""
        if not 0 <= symbol < len(self.names):
            raise IndexError(f"there is no symbol {symbol} among {len(self.names)}")

    cdef int sync_texts(self) except -1:
        """Add the UTF-8 texts of new symbols to `texts`: pointers into the strings, NULL for invalid ones."""
        cdef Py_ssize_t at
        if self.n_texts == len(self.names):
            return 0
        with self.lock:
            self.texts.reserve(len(self.names))
            for at in range(max(self.n_texts, 1), len(self.names)):
                try:
                    (<const char**>self.texts.data)[at] = PyUnicode_AsUTF8(self.names[at])
                except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form
                    pass
            self.n_texts = len(self.names)
