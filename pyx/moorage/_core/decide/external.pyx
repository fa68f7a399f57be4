"""Plugins in a plan that are no kernels of the core: functions that the search calls with arrays of rows."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy


cdef class External:
    """A plugin by its functions; see `mr_external` in csrc/state.h.

    Attributes
    ----------
    is_native : bool
        It needs no Python and follows what a run changes on rows.
    error : BaseException or None
        Why it failed; whoever sees the failure takes it away.
    """


cdef class PythonExternal(External):
    """Python functions as a plugin.

    Parameters
    ----------
    filter : callable, optional
        Rows (int32 array) to status codes (uint8 array): 0 passes, 2 and 3 reject. Called with blocks of rows
        that the filters before it have passed.
    score : callable, optional
        Rows to normalized scores (int64 array), called once per pod with the feasible rows.
    """

    def __init__(self, str name not None, filter=None, score=None):
        self.name = name
        self.filter = filter
        self.score = score
        self.c.context = <void*>self
        self.c.filter = _filter
        self.c.score = _score


cdef object _rows(const int32_t* rows, int32_t n):
    """A copy: a plugin may keep it."""
    cdef int32_t[::1] out = np.empty(n, dtype=np.int32)
    memcpy(&out[0], rows, n * sizeof(int32_t))
    return np.asarray(out)


cdef int _filter(void* context, void* view, const int32_t* rows, int32_t n, uint8_t* codes) noexcept with gil:
    return _ask(<PythonExternal>context, (<PythonExternal>context).filter, "codes", _rows(rows, n), codes)


cdef int _score(void* context, void* view, const int32_t* rows, int32_t n, int64_t* scores) noexcept with gil:
    return _ask(<PythonExternal>context, (<PythonExternal>context).score, "scores", _rows(rows, n), scores)


cdef int _ask(External plugin, function, str what, rows, void* out) noexcept:
    """Have a function answer for rows, in the memory for its codes or scores; 1 where it fails."""
    cdef const uint8_t[::1] memory
    try:
        answer = np.ascontiguousarray(function(rows), dtype=np.uint8 if what == "codes" else np.int64)
        if len(answer) != len(rows):
            raise ValueError(f"plugin {plugin.name} answered {len(answer)} {what} for {len(rows)} nodes")
        memory = answer.view(np.uint8)
        memcpy(out, &memory[0], memory.shape[0])
    except BaseException as error:
        plugin.error = error
        return 1
    return 0
