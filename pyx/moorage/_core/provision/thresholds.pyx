# cython: auto_pickle=False, nonecheck=True
# So None, and a copy without its fields, are exceptions: Python hands objects to nearly each call.
"""Amounts of resources of many, sorted: a mask of those that have enough, without a loop over them."""

from bisect import bisect_left


def summed(dict amounts not None, dict more not None):
    """Return the sum by resource; neither is changed, and without more the first is returned."""
    if not more:
        return amounts
    cdef dict both = amounts.copy()
    for name, amount in more.items():
        before = both.get(name)
        both[name] = amount if before is None else before + amount
    return both


cdef class Thresholds:
    """For each resource the masks of those that have at least, or at most, an amount.

    Parameters
    ----------
    amounts : list of dict of str to int
        What each has.
    """

    cdef dict columns, largest_of
    cdef object every

    def __cinit__(self, list amounts not None):
        cdef dict by_resource = {}
        self.every = (1 << <object>len(amounts)) - 1
        bit = 1
        for have in amounts:
            for name, amount in have.items():
                by_resource.setdefault(name, []).append((amount, bit))
            bit <<= 1
        self.columns, self.largest_of = {}, {}
        for name, pairs in by_resource.items():
            pairs.sort()
            mask, masks = 0, [0]
            for _amount, bit in reversed(pairs):
                mask |= bit
                masks.append(mask)
            self.columns[name] = [amount for amount, _bit in pairs], masks[::-1]

    cpdef with_all(self, dict amounts, among):
        """Return those of a mask that have at least each amount."""
        cdef tuple column
        for name, amount in amounts.items():
            if amount > 0:
                column = self.columns.get(name)
                if column is None:
                    return 0
                among &= (<list>column[1])[place(column[0], amount)]
        return among

    def at_most(self, str name not None, amount not None):
        """Return those that have no more than an amount; those without the resource have nothing of it."""
        return self.every & ~self.with_all({name: amount + 1}, self.every) if amount >= 0 else 0

    def largest(self, str name not None, among not None):
        """Return the largest amount of those in a mask."""
        largest = self.largest_of.get((name, among))
        if largest is None:
            amounts, masks = self.columns.get(name, ([], [0]))
            place = bisect_left(masks, 1, key=lambda mask: not mask & among)
            largest = self.largest_of[name, among] = amounts[place - 1] if place else 0
        return largest


cdef Py_ssize_t place(list amounts, amount) except -1:
    """The first place whose amount is not smaller."""
    cdef Py_ssize_t low = 0, high = len(amounts), middle
    while low < high:
        middle = (low + high) // 2
        if amounts[middle] < amount:
            low = middle + 1
        else:
            high = middle
    return low
