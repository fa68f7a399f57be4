# cython: auto_pickle=False
"""Bracket: what is done before and after a block under a lock, whatever interrupts it."""

cdef int ATTEMPTS = 5


cdef class Bracket:
    """A context manager that holds a lock, calls `begin` of its work, and `end` after the block.

    A signal is handled between two steps of Python, and its handler may raise. This class is compiled, so
    that `end` is certainly called, and if something breaks it off, called again. Without another reference
    to the bracket, its block ends as by an exception.

    Parameters
    ----------
    lock : re-entrant lock
    work : object
        `begin()` returns the value of the ``with`` statement. `end(failed)` can be repeated from any of its
        lines on; `failed` says whether an exception ended the block.
    """

    def __init__(self, lock not None, work not None):
        self.lock, self.work = lock, work

    def __class_getitem__(cls, item):
        return cls

    def __enter__(self):
        self.lock.acquire()
        self.holds = True
        try:
            return self.work.begin()
        except BaseException:
            self._end(True)
            raise

    def __exit__(self, kind, error, trace):
        self._end(kind is not None)

    def __del__(self):
        self._end(True)

    def release(self):
        """Release the lock, as the work has ended already."""
        if self.holds:
            self.holds = False
            self.lock.release()

    cdef int _end(self, bint failed) except -1:
        """End the work and release the lock. Raises what first broke off the end."""
        cdef int _attempt
        failure = None
        if not self.holds:
            return 0
        for _attempt in range(ATTEMPTS):
            try:
                self.work.end(failed)
                break
            except BaseException as error:
                if failure is None:
                    failure = error
        self.release()
        if failure is not None:
            raise failure
