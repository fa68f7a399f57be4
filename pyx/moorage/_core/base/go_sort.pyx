"""Sorting as Go's sort.Slice does, which leaves equal items in an order of its own.

The algorithm is pattern-defeating quicksort (Orson Peters, 2021), with the constants and the order of steps
that Go's standard library documents. Up to 12 items it is an insertion sort, hence stable; beyond that the
order of equal items follows from the order before and nothing else. tests/autoscaling/sort_twin.py has its
twin in Python.
"""

from libc.stdint cimport int32_t, uint64_t

cdef enum:
    INSERTION = 12  # so many items are sorted by insertion
    NINTHER = 50
    MOST_SWAPS = 12
    STEPS = 5
    SHORTEST_SHIFT = 50


cdef struct Sorting:
    const double* keys
    int32_t* order


cdef inline bint less(Sorting s, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    return s.keys[s.order[a]] < s.keys[s.order[b]]


cdef inline void swap(Sorting s, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    s.order[a], s.order[b] = s.order[b], s.order[a]


cdef int bit_length(Py_ssize_t number) noexcept nogil:
    cdef int bits = 0
    while number:
        number >>= 1
        bits += 1
    return bits


def sort_order(const double[::1] keys not None, int32_t[::1] order not None, Py_ssize_t changed=-1):
    """Sort places of keys by their keys, in place.

    Parameters
    ----------
    keys : float64 array
        No nan.
    order : int32 array
        Places in `keys`, in the order before.
    changed : int
        Where the only place stands whose key has changed since the order was sorted; -1 if more may have.
    """
    cdef Sorting s
    cdef Py_ssize_t length = order.shape[0], at
    cdef bint is_inside = True
    for at in range(length):
        is_inside &= 0 <= order[at] < keys.shape[0]
    if not is_inside:
        raise IndexError("order has a place that keys lacks")
    if length < 2:
        return
    s.keys, s.order = &keys[0], &order[0]
    with nogil:
        if not 0 <= changed < length or not shifted(s, length, changed):
            sort(s, 0, length, bit_length(length))


cdef bint shifted(Sorting s, Py_ssize_t length, Py_ssize_t at) noexcept nogil:
    """Move the only item that may be out of order, if `almost_sorted` would do that and no more."""
    cdef int swaps = 0
    if length < SHORTEST_SHIFT:
        return False
    choose_pivot(s, 0, length, &swaps)
    if swaps:
        return False
    while at + 1 < length and less(s, at + 1, at):
        swap(s, at, at + 1)
        at += 1
    while at > 0 and less(s, at, at - 1):
        swap(s, at, at - 1)
        at -= 1
    return True


cdef void sort(Sorting s, Py_ssize_t a, Py_ssize_t b, int limit) noexcept nogil:
    cdef bint balanced = True, partitioned = True
    cdef Py_ssize_t pivot, middle, left, right, length, at
    cdef int swaps
    while b - a > INSERTION:
        length = b - a
        if limit == 0:
            heap_sort(s, a, b)
            return
        if not balanced:
            break_patterns(s, a, b)
            limit -= 1
        swaps = 0
        pivot = choose_pivot(s, a, b, &swaps)
        if swaps == MOST_SWAPS:
            for at in range(length // 2):
                swap(s, a + at, b - 1 - at)
            pivot, swaps = b - 1 - (pivot - a), 0
        if balanced and partitioned and swaps == 0 and almost_sorted(s, a, b):
            return
        if a > 0 and not less(s, a - 1, pivot):
            a = partition_equal(s, a, b, pivot)
            continue
        middle = partition(s, a, b, pivot, &partitioned)
        left, right = middle - a, b - middle
        balanced = min(left, right) >= length // 8
        if left < right:
            sort(s, a, middle, limit)
            a = middle + 1
        else:
            sort(s, middle + 1, b, limit)
            b = middle
    for at in range(a + 1, b):
        middle = at
        while middle > a and less(s, middle, middle - 1):
            swap(s, middle, middle - 1)
            middle -= 1


cdef void heap_sort(Sorting s, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    cdef Py_ssize_t size = b - a, at
    for at in range((size - 1) // 2, -1, -1):
        sift_down(s, at, size, a)
    for at in range(size - 1, -1, -1):
        swap(s, a, a + at)
        sift_down(s, 0, at, a)


cdef void sift_down(Sorting s, Py_ssize_t root, Py_ssize_t size, Py_ssize_t first) noexcept nogil:
    cdef Py_ssize_t child = 2 * root + 1
    while child < size:
        if child + 1 < size and less(s, first + child, first + child + 1):
            child += 1
        if not less(s, first + root, first + child):
            return
        swap(s, first + root, first + child)
        root = child
        child = 2 * root + 1


cdef void break_patterns(Sorting s, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    """Scatter three items around the middle, by an xorshift that begins with the length."""
    cdef Py_ssize_t length = b - a, middle = a + length // 4 * 2, other
    cdef uint64_t random = <uint64_t>length, modulus = <uint64_t>1 << bit_length(length)
    cdef int at
    for at in range(3):
        random ^= random << 13
        random ^= random >> 7
        random ^= random << 17
        other = <Py_ssize_t>(random & (modulus - 1))
        if other >= length:
            other -= length
        swap(s, middle - 1 + at, a + other)


cdef Py_ssize_t median(Sorting s, Py_ssize_t x, Py_ssize_t y, Py_ssize_t z, int* swaps) noexcept nogil:
    """The place of the middle one of three; `swaps` counts pairs that are out of order."""
    if less(s, y, x):
        x, y = y, x
        swaps[0] += 1
    if less(s, z, y):
        y, z = z, y
        swaps[0] += 1
    if less(s, y, x):
        x, y = y, x
        swaps[0] += 1
    return y


cdef Py_ssize_t choose_pivot(Sorting s, Py_ssize_t a, Py_ssize_t b, int* swaps) noexcept nogil:
    """The pivot; no pair of the sample out of order hints at an ascending run."""
    cdef Py_ssize_t quarter = (b - a) // 4
    cdef Py_ssize_t i = a + quarter, j = a + quarter * 2, k = a + quarter * 3
    if b - a >= NINTHER:
        i = median(s, i - 1, i, i + 1, swaps)
        j = median(s, j - 1, j, j + 1, swaps)
        k = median(s, k - 1, k, k + 1, swaps)
    return median(s, i, j, k, swaps)


cdef bint almost_sorted(Sorting s, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    """Whether a few shifts sort the range; they are made either way."""
    cdef Py_ssize_t i = a + 1, j
    cdef int _step
    for _step in range(STEPS):
        while i < b and not less(s, i, i - 1):
            i += 1
        if i == b:
            return True
        if b - a < SHORTEST_SHIFT:
            return False
        swap(s, i, i - 1)
        if i - a >= 2:
            j = i - 1
            while j >= 1 and less(s, j, j - 1):
                swap(s, j, j - 1)
                j -= 1
        if b - i >= 2:
            j = i + 1
            while j < b and less(s, j, j - 1):
                swap(s, j, j - 1)
                j += 1
    return False


cdef Py_ssize_t partition_equal(Sorting s, Py_ssize_t a, Py_ssize_t b, Py_ssize_t pivot) noexcept nogil:
    """Gather the items that equal the pivot in front; none is smaller. Where the others begin."""
    cdef Py_ssize_t i = a + 1, j = b - 1
    swap(s, a, pivot)
    while True:
        while i <= j and not less(s, a, i):
            i += 1
        while i <= j and less(s, a, j):
            j -= 1
        if i > j:
            return i
        swap(s, i, j)
        i += 1
        j -= 1


cdef Py_ssize_t partition(
    Sorting s, Py_ssize_t a, Py_ssize_t b, Py_ssize_t pivot, bint* partitioned
) noexcept nogil:
    """Gather smaller items in front of the pivot; where it is. `partitioned`: nothing had to be moved."""
    cdef Py_ssize_t i = a + 1, j = b - 1
    partitioned[0] = True
    swap(s, a, pivot)
    while True:
        while i <= j and less(s, i, a):
            i += 1
        while i <= j and not less(s, j, a):
            j -= 1
        if i > j:
            break
        swap(s, i, j)
        i += 1
        j -= 1
        partitioned[0] = False
    swap(s, j, a)
    return j
