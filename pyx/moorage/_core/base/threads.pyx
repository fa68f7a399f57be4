"""How many threads may look at nodes.

Those of OpenMP do not survive a fork of the process: a child that asked for them would wait for ever.
"""

import os


cdef bint is_forked = False


cdef int32_t usable_threads(int32_t threads) noexcept:
    """As many as are wanted, or one."""
    return 1 if is_forked else threads


def _after_fork():
    global is_forked
    is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
