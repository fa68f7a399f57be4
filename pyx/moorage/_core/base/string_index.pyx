"""A hash table from strings to numbers, in one array: most look-ups read one cache line."""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcpy

from moorage._core.base.buffers cimport aligned, zeroed_memory

cdef extern from "Python.h":
    ctypedef struct PyASCIIObject:
        Py_hash_t hash

cdef extern from *:
    void _prefetch "__builtin_prefetch"(const void* address) noexcept nogil

cdef enum:
    SMALLEST = 16


cdef class StringIndex:
    """Numbers by string, with linear probing; at most half of the slots are in use.

    Its changes are not recorded in a journal: who makes one inside of a transaction registers the reverse.
    The table never shrinks, so putting back what was removed takes no memory.
    """

    def __cinit__(self):
        self._grow(SMALLEST)

    def __dealloc__(self):
        cdef Py_ssize_t at
        for at in range(self.capacity):
            if self.slots[at].key != NULL:
                Py_DECREF(<object>self.slots[at].key)

    def __len__(self):
        return self.used

    def items(self):
        """Return all strings with their numbers, in no particular order.

        Returns
        -------
        list of (str, int)
        """
        cdef Py_ssize_t at
        return [(<object>self.slots[at].key, self.slots[at].value) for at in range(self.capacity)
                if self.slots[at].key != NULL]

    cpdef StringIndex clone(self):
        """Return an independent copy.

        Returns
        -------
        StringIndex
        """
        cdef StringIndex out = StringIndex()
        cdef Py_ssize_t at
        out.reserve(self.capacity // 2)
        memcpy(out.slots, self.slots, self.capacity * sizeof(IndexSlot))
        out.used = self.used
        for at in range(out.capacity):
            if out.slots[at].key != NULL:
                Py_INCREF(<object>out.slots[at].key)
        return out

    cpdef int reserve(self, Py_ssize_t keys) except -1:
        """Make room for more keys.

        Parameters
        ----------
        keys : int
            Their number in all.
        """
        cdef Py_ssize_t capacity = self.capacity
        while capacity < 2 * keys:
            capacity *= 2
        if capacity > self.capacity:
            self._grow(capacity)

    cdef int _grow(self, Py_ssize_t capacity) except -1:
        """Move all keys to a larger array."""
        cdef bytes memory = zeroed_memory(capacity * sizeof(IndexSlot)), old = self.memory
        cdef IndexSlot* before = self.slots
        cdef Py_ssize_t at, size = self.capacity
        self.memory, self.slots, self.capacity = memory, <IndexSlot*>aligned(memory), capacity
        for at in range(size):
            if before[at].key != NULL:
                _free_slot(self, before[at].hash)[0] = before[at]
        del old  # `before` points into it

    cpdef int32_t find(self, str key, int32_t absent) noexcept:
        """Return the number of a string.

        Parameters
        ----------
        key : str
        absent : int
            What is returned for a string that has none.

        Returns
        -------
        int
        """
        cdef IndexSlot* slot = _slot_of(self, key)
        return absent if slot.key == NULL else slot.value

    cdef void prefetch(self, PyObject* key) noexcept:
        """Prefetch where the number of a string is, if its hash is known; of any other object or NULL nothing
        is prefetched."""
        if key != NULL and type(<object>key) is str:
            _prefetch(self.slots + ((<PyASCIIObject*>key).hash & (self.capacity - 1)))

    cdef IndexSlot* slot_for(self, str key) except NULL:
        """Return the slot of a string, with number -1 if it is new; valid until the table changes again."""
        cdef IndexSlot* slot = _slot_of(self, key)
        if slot.key != NULL:
            return slot
        if 2 * (self.used + 1) > self.capacity:
            self._grow(2 * self.capacity)
            slot = _slot_of(self, key)
        Py_INCREF(key)
        slot.key, slot.value, slot.hash = <PyObject*>key, -1, _hash(key)
        self.used += 1
        return slot

    cpdef bint claim(self, str key, int32_t value) except -1:
        """Set the number of a string that has none.

        Parameters
        ----------
        key : str
        value : int

        Returns
        -------
        bool
            Whether it had none.
        """
        cdef Py_ssize_t used = self.used
        cdef IndexSlot* slot = self.slot_for(key)
        if self.used == used:
            return False
        slot.value = value
        return True

    cpdef int put(self, str key, int32_t value) except -1:
        """Set the number of a string.

        Parameters
        ----------
        key : str
        value : int
        """
        self.slot_for(key).value = value

    cpdef void remove(self, str key) noexcept:
        """Remove a string, if it is there.

        Parameters
        ----------
        key : str
        """
        cdef IndexSlot* slot = _slot_of(self, key)
        cdef PyObject* held = slot.key
        cdef Py_ssize_t mask = self.capacity - 1, gap = slot - self.slots, at = gap
        if held == NULL:
            return
        while True:  # keys behind the gap move into it, unless their place is behind it too
            at = (at + 1) & mask
            if self.slots[at].key == NULL:
                break
            if ((at - <Py_ssize_t>self.slots[at].hash) & mask) >= ((at - gap) & mask):
                self.slots[gap] = self.slots[at]
                gap = at
        self.slots[gap].key = NULL
        self.used -= 1
        Py_DECREF(<object>held)


cdef inline uint32_t _hash(str key) noexcept:
    """The lower bits of the hash of a string, or of None, which is a key like others."""
    cdef Py_hash_t known = -1 if key is None else (<PyASCIIObject*><PyObject*>key).hash
    return <uint32_t>(hash(key) if known == -1 else known)


cdef inline IndexSlot* _free_slot(StringIndex index, uint32_t hashed) noexcept:
    """The first free slot for a hash."""
    cdef Py_ssize_t mask = index.capacity - 1, at = hashed & mask
    while index.slots[at].key != NULL:
        at = (at + 1) & mask
    return index.slots + at


cdef IndexSlot* _slot_of(StringIndex index, str key) noexcept:
    """The slot of a string, or the free one where it would be."""
    cdef uint32_t hashed = _hash(key)
    cdef Py_ssize_t mask = index.capacity - 1, at = hashed & mask
    cdef IndexSlot* slot
    while True:
        slot = index.slots + at
        if slot.key == NULL or slot.key == <PyObject*>key:
            return slot
        if slot.hash == hashed and <str>slot.key == key:
            return slot
        at = (at + 1) & mask
