"""Short lists of int32, one per row, in one arena.

A list occupies a block of 2**i items. Freed blocks of each size form a linked list and are used again.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memmove, memset

from moorage._core.csrc cimport popcount


cdef enum:
    SIZES = 31
    USED = SIZES  # state[i]: first free block of 2**i items, plus 1; state[31]: end of the arena


cdef class IntLists:
    """Lists of int32 by row, each in order of insertion.

    Parameters
    ----------
    journal : Journal
        Records the changes.
    """

    def __cinit__(self, Journal journal not None):
        self.arena = Buffer(journal, sizeof(int32_t), 64)
        self.first = Buffer(journal, sizeof(int32_t))
        self.count = Buffer(journal, sizeof(int32_t))
        self.room = Buffer(journal, sizeof(int32_t))
        self.state = Buffer(journal, sizeof(int32_t), SIZES + 1)

    cdef IntLists clone(self, Journal journal):
        """Return an independent copy."""
        cdef IntLists out = IntLists(journal)
        out.arena.copy_from(self.arena)
        out.first.copy_from(self.first)
        out.count.copy_from(self.count)
        out.room.copy_from(self.room)
        out.state.copy_from(self.state)
        return out

    cdef int touch_items(self, Py_ssize_t row) except -1:
        """Record the items of a row; must be called before they are changed in place."""
        return self.arena.touch_range(self.first.int32()[row], self.size(row))

    cdef Py_ssize_t nbytes(self) noexcept:
        """Return the used bytes of the arena, free blocks included."""
        return self.state.int32()[USED] * self.arena.itemsize

    cdef void touch_items_reserved(self, Py_ssize_t row) noexcept nogil:
        """Record the items of a row in an open transaction, in memory that has been reserved."""
        self.arena.touch_reserved(self.first.int32()[row], self.size(row))

    cdef int touch_item(self, Py_ssize_t row, Py_ssize_t at) except -1:
        """Record item `at` of a row; must be called before it is changed in place."""
        return self.arena.touch(self.first.int32()[row] + at)

    cdef int reserve(self, Py_ssize_t rows) except -1:
        """Make room for the lists of `rows` rows in all; new lists are empty."""
        self.first.reserve(rows)
        self.count.reserve(rows)
        self.room.reserve(rows)

    cdef int reserve_items(self, Py_ssize_t items) except -1:
        """Make room for one more list of `items` items."""
        cdef Py_ssize_t room = 1
        while room < items:
            room *= 2
        return self.arena.reserve(self.state.int32()[USED] + room)

    cdef int append(self, Py_ssize_t row, int32_t value) except -1:
        """Append a value to the list of a row."""
        cdef int32_t n = self.size(row)
        _fit(self, row, n + 1)
        self.arena.touch(self.first.int32()[row] + n)
        self.count.touch(row)
        self.items(row)[n] = value
        self.count.int32()[row] = n + 1

    cdef int remove(self, Py_ssize_t row, Py_ssize_t at) except -1:
        """Remove item `at` of the list of a row; the order of the others remains."""
        cdef Py_ssize_t after = self.size(row) - at - 1
        cdef int32_t* gone = self.items(row) + at
        self.arena.touch_range(self.first.int32()[row] + at, after + 1)
        self.count.touch(row)
        memmove(gone, gone + 1, after * sizeof(int32_t))
        self.count.int32()[row] -= 1

    cdef int flip_bit(self, Py_ssize_t row, int32_t bit) except -1:
        """Change a bit of a row whose list has 32 bits in each item; those beyond its end are 0."""
        cdef int32_t words = self.size(row), at = bit // 32
        if at >= words:
            self.resize(row, at + 1)
            memset(self.items(row) + words, 0, (at + 1 - words) * sizeof(int32_t))
        self.touch_item(row, at)
        self.items(row)[at] ^= <int32_t>(<uint32_t>1 << bit % 32)

    cdef int32_t count_bits(self, Py_ssize_t row, int32_t limit) noexcept:
        """Return the number of bits of a row, or some number above `limit` if there are more."""
        cdef int32_t at, count = 0
        for at in range(self.size(row)):
            if count > limit:
                break
            count += popcount(<uint32_t>self.items(row)[at])
        return count

    cdef int resize(self, Py_ssize_t row, int32_t items) except -1:
        """Set the length of the list of a row; the caller must write all items."""
        _fit(self, row, items)
        self.arena.touch_range(self.first.int32()[row], items)
        self.count.touch(row)
        self.count.int32()[row] = items

    cdef int assign(self, Py_ssize_t row, const int32_t* values, int32_t items) except -1:
        """Replace the list of a row by `items` values."""
        self.resize(row, items)
        if items:
            memcpy(self.items(row), values, items * sizeof(int32_t))


cdef int _fit(IntLists lists, Py_ssize_t row, int32_t items) except -1:
    """Ensure that the block of a row holds at least `items` items; move its items if it needs another."""
    cdef int32_t* room = lists.room.int32()
    cdef int32_t* first = lists.first.int32()
    cdef int32_t* state = lists.state.int32()
    cdef int32_t power = 0, old = 0, at
    if items <= room[row]:
        return 0
    while (1 << power) < items:
        power += 1
    lists.state.touch(power)
    if state[power]:
        at = state[power] - 1
        state[power] = lists.arena.int32()[at]
    else:
        at = state[USED]
        lists.arena.reserve(at + (<Py_ssize_t>1 << power))
        lists.state.touch(USED)
        state[USED] = at + (1 << power)
    lists.arena.touch_range(at, 1 << power)
    memcpy(lists.arena.int32() + at, lists.items(row), lists.size(row) * sizeof(int32_t))
    lists.first.touch(row)
    lists.room.touch(row)
    if room[row]:
        while (1 << old) < room[row]:
            old += 1
        lists.state.touch(old)
        lists.arena.touch(first[row])
        lists.arena.int32()[first[row]] = state[old]
        state[old] = first[row] + 1
    first[row] = at
    room[row] = 1 << power
