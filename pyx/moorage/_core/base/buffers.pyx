"""Growable, aligned arrays, and the journal that undoes their changes.

All hot state of the core lives in `Buffer` objects. A writer calls `touch` before it changes an item. While a
transaction is open, `touch` saves the bytes of the item; `Journal.rollback` copies them back, newest first.
A change of a Python container registers an undo function with `Journal.on_undo` instead.
"""

import numpy as np
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcpy, memset

from moorage._core.base.debug cimport debug_below

cdef object ABSENT = object()

cdef enum:
    ACTION = -1

cdef struct Header:
    int64_t offset
    int32_t nbytes
    int32_t buffer


zeros = bytes  # a name of the module, so that tests can have allocations fail


cdef bytes zeroed_memory(Py_ssize_t nbytes):
    """Return an object that owns zeroed memory for `nbytes` bytes from its first 64-byte boundary on; of much
    memory, only pages that are used are taken."""
    return zeros(nbytes + ALIGNMENT)


cdef class Journal:
    """The undo log of one cluster: before-images of buffer items and undo functions, in order of the changes.

    Attributes
    ----------
    depth : int
        Number of open transactions.
    undone : int
        Number of rollbacks.
    """

    def __cinit__(self):
        self.buffers = []
        self.actions = []

    cdef Buffer adopt(self, Buffer buffer):
        """Record the changes of a buffer in this journal from now on; return the buffer."""
        buffer.journal = self
        buffer.number = <int32_t>len(self.buffers)
        self.buffers.append(buffer)
        self.moves += 1
        return buffer

    def begin(self):
        """Open a transaction; transactions nest.

        Returns
        -------
        int
            The mark to pass to `rollback` or `commit`.
        """
        self.depth += 1
        return self.used

    def commit(self, Py_ssize_t mark):
        """Close a transaction and keep its changes; an enclosing transaction can still undo them.

        Parameters
        ----------
        mark : int
            The result of `begin`.

        Raises
        ------
        ValueError
            If no open transaction has this mark.
        """
        self._check(mark)
        self.depth -= 1
        if self.depth == 0:
            self.used = 0
            self.actions.clear()

    cdef int _check(self, Py_ssize_t mark) except -1:
        """Raise ValueError unless `mark` can belong to an open transaction."""
        if self.depth < 1 or not 0 <= mark <= self.used:
            raise ValueError("there is no such transaction")

    def rollback(self, Py_ssize_t mark):
        """Close a transaction and undo its changes, newest first.

        If an undo function raises, the remaining ones are still called; the first exception is raised at the
        end.

        Parameters
        ----------
        mark : int
            The result of `begin`.

        Raises
        ------
        ValueError
            If no open transaction has this mark.
        """
        cdef Header header
        cdef Buffer buffer
        cdef int depth = self.depth
        cdef Py_ssize_t left = len(self.actions)
        failure = None
        self._check(mark)
        self.depth = 0  # undoing is not recorded
        while self.used > mark:
            memcpy(&header, self.data + self.used - sizeof(Header), sizeof(Header))
            self.used -= sizeof(Header)
            if header.buffer == ACTION:
                left -= 1
                action = self.actions[left]  # not popped: a list that shrinks can run out of memory
                try:
                    if type(action) is tuple:
                        _put_back(<tuple>action)
                    else:
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
        if left:
            del self.actions[left:]
        else:
            self.actions.clear()
        if failure is not None:
            raise failure

    cdef int save(self, int32_t buffer, int64_t offset, int32_t nbytes, const char* before) except -1:
        """Append a before-image: the `nbytes` bytes at `offset` of a buffer, or an action without bytes."""
        self.reserve(nbytes + sizeof(Header))
        self._put(buffer, offset, nbytes, before)

    cdef void _put(self, int32_t buffer, int64_t offset, int32_t nbytes, const char* before) noexcept nogil:
        """Append a before-image to memory that has been reserved."""
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
        """Make room for `nbytes` more bytes, headers included."""
        cdef Py_ssize_t need = self.used + nbytes
        cdef bytes memory
        cdef char* data
        if need > self.capacity:
            memory = zeroed_memory(max(2 * need, 1 << 16))
            data = aligned(memory)
            if self.used:
                memcpy(data, self.data, self.used)
            self.memory, self.data = memory, data
            self.capacity = len(memory) - ALIGNMENT

    cdef void save_reserved(self, const ItemLocation* items, Py_ssize_t item) noexcept nogil:
        """Save one item of a buffer, in memory that has been reserved."""
        self._put(items.buffer, item * items.itemsize, items.itemsize, items.data + item * items.itemsize)

    cdef int on_undo(self, object action) except -1:
        """Register what undoes one change of a Python container: a function without arguments, or the
        container, a key and its value before."""
        if self.depth:
            self.reserve(sizeof(Header))  # so that nothing fails between the action and its entry
            self.actions.append(action)
            self._put(ACTION, 0, 0, NULL)

    cpdef int put(self, table, key, value) except -1:
        """Set ``table[key] = value``, undoably. The order of a dictionary is not restored.

        Parameters
        ----------
        table : dict or list
            A list has an item at `key`.
        key, value : object
        """
        if self.depth:
            before = (<dict>table).get(key, ABSENT) if type(table) is dict else table[key]
            self.on_undo((table, key, before))
        table[key] = value

    cpdef int drop(self, dict table, key) except -1:
        """Delete `key` from a dictionary if it has it, undoably. The order of the dictionary is not restored.

        Parameters
        ----------
        table : dict
        key : object
        """
        if key in table:
            if self.depth:
                self.on_undo((table, key, table[key]))
            del table[key]


cdef int _put_back(tuple change) except -1:
    """Undo a change of an item of a container."""
    table, key, before = change
    if before is ABSENT:
        del table[key]
    else:
        table[key] = before
    return 0


cdef class Buffer:
    """A zero-filled array of fixed-size items, 64-byte aligned, that grows by doubling.

    Parameters
    ----------
    journal : Journal
        Records the changes.
    itemsize : int
        Bytes per item.
    items : int, default 16
        Initial capacity in items.

    Attributes
    ----------
    itemsize : int
        Bytes per item.
    capacity : int
        Number of items that there is memory for.
    """

    def __cinit__(self, Journal journal not None, Py_ssize_t itemsize, Py_ssize_t items=16):
        self.itemsize = itemsize
        self.journal = journal
        self.reserve(items)
        journal.adopt(self)  # with its memory

    cdef int reserve(self, Py_ssize_t items) except -1:
        """Make room for `items` items in all."""
        cdef Py_ssize_t capacity
        cdef bytes memory
        cdef char* data
        if items <= self.capacity:
            return 0
        capacity = max(items, 2 * self.capacity)
        memory = zeroed_memory(capacity * self.itemsize)
        data = aligned(memory)
        if self.capacity:
            memcpy(data, self.data, self.capacity * self.itemsize)
        self.memory, self.data, self.capacity = memory, data, capacity
        self.journal.moves += 1

    cdef char* reserved(self, Py_ssize_t items) except NULL:
        """Make room for `items` items in all; return their address."""
        self.reserve(items)
        return self.data

    cdef int copy_from(self, Buffer other) except -1:
        """Copy the contents of a buffer of the same item size; not recorded."""
        self.reserve(other.capacity)
        memcpy(self.data, other.data, other.capacity * self.itemsize)

    cdef int touch(self, Py_ssize_t item) except -1:
        """Record an item; must be called before the item is changed."""
        debug_below(item, self.capacity, b"item of a buffer")
        if self.journal.depth:
            self.journal.save(self.number, item * self.itemsize, <int32_t>self.itemsize,
                              self.data + item * self.itemsize)

    cdef ItemLocation location(self) noexcept:
        """Return the address of the items for `Journal.save_reserved`, valid until the memory moves."""
        cdef ItemLocation out
        out.data, out.itemsize, out.buffer = self.data, <int32_t>self.itemsize, self.number
        return out

    cdef void touch_reserved(self, Py_ssize_t first, Py_ssize_t items=1) noexcept nogil:
        """Record a range of items in an open transaction, in memory that has been reserved."""
        _check_range(self, first, items)
        self.journal._put(self.number, first * self.itemsize, <int32_t>(items * self.itemsize),
                          self.data + first * self.itemsize)

    cdef int touch_range(self, Py_ssize_t first, Py_ssize_t items) except -1:
        """Record a range of items; must be called before one of them is changed."""
        _check_range(self, first, items)
        if self.journal.depth and items:
            self.journal.save(self.number, first * self.itemsize, <int32_t>(items * self.itemsize),
                              self.data + first * self.itemsize)

    def array(self, dtype, Py_ssize_t items):
        """Return the first items as a read-only array that shares the memory of the buffer.

        The array does not follow the buffer when that grows.

        Parameters
        ----------
        dtype : numpy.dtype
            Its item size is `itemsize` or a divisor of it.
        items : int
            Number of items.

        Returns
        -------
        numpy.ndarray
            Shape (items * itemsize / dtype.itemsize,).

        Raises
        ------
        ValueError
            If `items` is negative or exceeds the capacity.
        """
        # Read at once: another thread may make the buffer grow.
        cdef bytes memory = self.memory
        cdef Py_ssize_t skip = self.data - <char*>memory, have = self.capacity
        if not 0 <= items <= have:
            raise ValueError(f"{items} items of a buffer of {have}")
        return np.frombuffer(memory, np.uint8, items * self.itemsize, skip).view(dtype)


cdef void _check_range(Buffer buffer, Py_ssize_t first, Py_ssize_t items) noexcept nogil:
    debug_below(first, buffer.capacity + 1, b"first item of a range of a buffer")
    debug_below(first + items, buffer.capacity + 1, b"end of a range of a buffer")


cdef void* allocate(list owner, Py_ssize_t itemsize, Py_ssize_t items) except? NULL:
    """Return zeroed memory for `items` items, owned by an object appended to `owner`; NULL for no items."""
    cdef bytes memory
    if items == 0:
        return NULL
    memory = PyBytes_FromStringAndSize(NULL, itemsize * items)
    memset(<char*>memory, 0, itemsize * items)
    owner.append(memory)
    return <char*>memory
