"""Growable, aligned arrays whose every change a journal can take back.

All hot state of the core lives in `Buffer` objects. A writer calls `touch` before it changes an item; while a
transaction is open that saves the item's bytes, and `Journal.rollback` copies them back, newest first. State
that lives in Python containers registers a function with `Journal.on_undo` instead.
"""

from functools import partial

import numpy as np
from libc.string cimport memcpy

from moorage._core.base.debug cimport debug_below

cdef enum:
    ALIGNMENT = 64
    ACTION = -1

cdef struct Header:
    int64_t offset
    int32_t nbytes
    int32_t buffer


cdef tuple aligned_memory(Py_ssize_t nbytes):
    """A zeroed byte array and the offset of its first 64-byte boundary."""
    array = np.zeros(nbytes + ALIGNMENT, dtype=np.uint8)
    cdef const unsigned char[::1] view = array
    cdef Py_ssize_t address = <Py_ssize_t>&view[0]
    return array, (ALIGNMENT - address % ALIGNMENT) % ALIGNMENT


cdef class Journal:
    """The undo record of one cluster: before-images of buffer items and undo functions, in order.

    Attributes
    ----------
    depth : int
        Open transactions.
    moves : int
        Grows whenever the memory of one of its buffers moves, or a buffer is new. Code that keeps an address
        over several calls compares it.
    undone : int
        Number of rollbacks.
    """

    def __cinit__(self):
        self.buffers = []
        self.actions = []

    cdef Buffer adopt(self, Buffer buffer):
        """Take over a buffer that was filled under another journal."""
        buffer.journal = self
        buffer.number = <int32_t>len(self.buffers)
        self.buffers.append(buffer)
        self.moves += 1
        return buffer

    def begin(self):
        """Start recording; transactions nest. Returns the mark to hand to `rollback` or `commit`."""
        self.depth += 1
        return self.used

    def commit(self, Py_ssize_t mark):
        """Keep the changes made since a mark; an enclosing transaction can still undo them.

        Parameters
        ----------
        mark : int
            From `begin`.

        Raises
        ------
        ValueError
            There is no such transaction.
        """
        self._check(mark)
        self.depth -= 1
        if self.depth == 0:
            self.used = 0
            self.actions.clear()

    cdef int _check(self, Py_ssize_t mark) except -1:
        """ValueError for what is no mark of a transaction that is open."""
        if self.depth < 1 or not 0 <= mark <= self.used:
            raise ValueError("there is no such transaction")

    def rollback(self, Py_ssize_t mark):
        """Undo every change made since a mark, newest first. Where an undo function raises, the others are
        still called, and the first exception is raised at the end.

        Parameters
        ----------
        mark : int
            From `begin`.

        Raises
        ------
        ValueError
            There is no such transaction.
        """
        cdef Header header
        cdef Buffer buffer
        cdef int depth = self.depth
        failure = None
        self._check(mark)
        self.depth = 0  # undoing is not recorded
        while self.used > mark:
            memcpy(&header, self.data + self.used - sizeof(Header), sizeof(Header))
            self.used -= sizeof(Header)
            if header.buffer == ACTION:
                action = self.actions.pop()
                try:
                    action()
                except BaseException as error:
                    if failure is None:
                        failure = error
            else:
                self.used -= header.nbytes
                buffer = self.buffers[header.buffer]
                debug_below(header.offset + header.nbytes, buffer.capacity * buffer.itemsize + 1,
                            b"end of the bytes that an undo restores")
                memcpy(buffer.data + header.offset, self.data + self.used, header.nbytes)
        self.depth = depth - 1
        self.undone += 1
        if failure is not None:
            raise failure

    cdef int save(self, int32_t buffer, int64_t offset, int32_t nbytes, const char* before) except -1:
        self.reserve(nbytes + sizeof(Header))
        self._put(buffer, offset, nbytes, before)

    cdef void _put(self, int32_t buffer, int64_t offset, int32_t nbytes, const char* before) noexcept nogil:
        cdef Py_ssize_t need = self.used + nbytes + sizeof(Header)
        cdef Header header
        debug_below(need, self.capacity + 1, b"bytes that the journal needs, of those reserved:")
        if nbytes:
            memcpy(self.data + self.used, before, nbytes)
        header.offset = offset
        header.nbytes = nbytes
        header.buffer = buffer
        memcpy(self.data + self.used + nbytes, &header, sizeof(Header))
        self.used = need

    cdef int reserve(self, Py_ssize_t nbytes) except -1:
        """Have the memory for so many more bytes, headers included."""
        cdef Py_ssize_t need = self.used + nbytes
        if need > self.capacity:
            array, skip = aligned_memory(max(2 * need, 1 << 16))
            self._move(array, skip)

    cdef void save_reserved(self, const ItemLocation* one, Py_ssize_t item) noexcept nogil:
        """Save an item of a buffer. The memory is there."""
        self._put(one.buffer, item * one.itemsize, one.itemsize, one.data + item * one.itemsize)

    def _move(self, array, Py_ssize_t skip):
        cdef unsigned char[::1] view = array
        if self.used:
            memcpy(&view[skip], self.data, self.used)
        self.memory = array
        self.data = <char*>&view[skip]
        self.capacity = view.shape[0] - ALIGNMENT

    cdef int on_undo(self, object action) except -1:
        """Register a function that takes one change of a Python container back."""
        if self.depth:
            self.save(ACTION, 0, 0, NULL)
            self.actions.append(action)

    cpdef int put(self, dict table, key, value) except -1:
        """``table[key] = value``, for a dictionary whose order does not matter."""
        if self.depth:
            undo = partial(table.__setitem__, key, table[key]) if key in table else partial(table.pop, key)
            self.on_undo(undo)
        table[key] = value

    cpdef int drop(self, dict table, key) except -1:
        """``del table[key]``, if it is there; for a dictionary whose order does not matter."""
        if key in table:
            if self.depth:
                self.on_undo(partial(table.__setitem__, key, table[key]))
            del table[key]


cdef class Buffer:
    """A zero-filled array of fixed-size items that grows by doubling. `array()` is stale after a growth."""

    def __cinit__(self, Journal journal not None, Py_ssize_t itemsize, Py_ssize_t items=16):
        self.itemsize = itemsize
        journal.adopt(self)
        self.reserve(items)

    cdef int reserve(self, Py_ssize_t items) except -1:
        cdef Py_ssize_t capacity
        cdef unsigned char[::1] view
        if items <= self.capacity:
            return 0
        capacity = max(items, 2 * self.capacity)
        array, skip = aligned_memory(capacity * self.itemsize)
        view = array
        if self.capacity:
            memcpy(&view[<Py_ssize_t>skip], self.data, self.capacity * self.itemsize)
        self.memory = array
        self.data = <char*>&view[<Py_ssize_t>skip]
        self.capacity = capacity
        self.journal.moves += 1

    cdef int copy_from(self, Buffer other) except -1:
        """Take over the contents of a buffer of the same item size."""
        self.reserve(other.capacity)
        memcpy(self.data, other.data, other.capacity * self.itemsize)

    cdef int touch(self, Py_ssize_t item) except -1:
        """Call before changing an item."""
        debug_below(item, self.capacity, b"item of a buffer")
        if self.journal.depth:
            self.journal.save(self.number, item * self.itemsize, <int32_t>self.itemsize,
                              self.data + item * self.itemsize)

    cdef ItemLocation location(self) noexcept:
        """For `Journal.save_reserved`, as long as the memory does not move."""
        cdef ItemLocation out
        out.data, out.itemsize, out.buffer = self.data, <int32_t>self.itemsize, self.number
        return out

    cdef void touch_reserved(self, Py_ssize_t first, Py_ssize_t items=1) noexcept nogil:
        """`touch_range` while a transaction is open, where the memory for it is there."""
        _check_range(self, first, items)
        self.journal._put(self.number, first * self.itemsize, <int32_t>(items * self.itemsize),
                          self.data + first * self.itemsize)

    cdef int touch_range(self, Py_ssize_t first, Py_ssize_t items) except -1:
        _check_range(self, first, items)
        if self.journal.depth and items:
            self.journal.save(self.number, first * self.itemsize, <int32_t>(items * self.itemsize),
                              self.data + first * self.itemsize)

    def array(self, dtype, Py_ssize_t items):
        """The first items as a read-only numpy array that shares this memory.

        Parameters
        ----------
        dtype : dtype
            Of `itemsize` bytes, or of a divisor of it.
        items : int

        Raises
        ------
        ValueError
            There are fewer items.
        """
        memory, address, have = self.memory, <Py_ssize_t>self.data, self.capacity  # which may move meanwhile
        if not 0 <= items <= have:
            raise ValueError(f"{items} items of a buffer of {have}")
        skip = address - <Py_ssize_t>memory.ctypes.data
        out = memory[skip:skip + items * self.itemsize].view(dtype)
        out.flags.writeable = False
        return out


cdef void _check_range(Buffer buffer, Py_ssize_t first, Py_ssize_t items) noexcept nogil:
    debug_below(first, buffer.capacity + 1, b"first item of a range of a buffer")
    debug_below(first + items, buffer.capacity + 1, b"end of a range of a buffer")


cdef void* allocate(list owner, Py_ssize_t itemsize, Py_ssize_t items) except? NULL:
    """Zeroed memory that lives as long as a list to which it is added; NULL for no items."""
    if items == 0:
        return NULL
    cdef Buffer buffer = Buffer(Journal(), itemsize, items)
    owner.append(buffer)
    return buffer.data
