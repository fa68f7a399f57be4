"""Plugins outside the core: functions that a search calls with arrays of rows."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

cdef extern from "state.h":
    const int MR_FAILED

cdef class External:
    """A plugin outside the core: the base class of Python and native plugins (`mr_external`, csrc/state.h).

    Attributes
    ----------
    name : str
        The name of the plugin.
    is_native : bool
        Whether it consists of C functions, which need no Python and see each placement of a run.
    """


cdef class PythonExternal(External):
    """A plugin outside the core that consists of Python functions.

    Parameters
    ----------
    name : str
    filter : callable, optional
        Returns status codes for rows: a (n,) uint8 array for a (n,) int32 array. 0: Success, 2:
        Unschedulable, 3: UnschedulableAndUnresolvable. Called with blocks of rows that the filters before it
        pass.
    score : callable, optional
        Returns normalized scores for rows: a (n,) int64 array for a (n,) int32 array. Called once for each
        pod with all feasible rows.
    begin : callable, optional
        Called with a class of pods before each search for a pod of it. It must not raise.
    follow : callable, optional
        Called after each pod that a run has placed, when it is in the ledger. It must not raise.
    examine : callable, optional
        Returns the scores of rows before and after normalization, for rows and optionally the known raw
        scores of the first of them; by default `score` is asked for both.

    Attributes
    ----------
    node_error : type or tuple of type
        What `filter` raises if the plugin fails for one of the rows; () at first. A search then asks about
        them one by one up to the one that fails. Other errors are of the plugin as a whole.
    """

    def __init__(self, str name not None, filter=None, score=None, begin=None, follow=None, examine=None):
        self.name = name
        self.node_error = ()
        self.filter = filter
        self.score = score
        self.begin = begin
        self.follow = follow
        self.examine = self._examine if examine is None else examine
        self.c.context = <void*>self
        self.c.filter = _filter
        self.c.score = _score

    def _examine(self, rows, known=()):
        scores = np.asarray(self.score(rows[len(known):]), dtype=np.int64)
        scores = np.concatenate([known, scores]) if len(known) else scores
        return scores, scores


cdef int64_t failures = 0  # of all plugins


cdef int note_failure(External plugin, object error) noexcept:
    """Note that a plugin has failed."""
    global failures
    failures += 1
    plugin.error, plugin.failures = error, failures
    return 0


cdef object _rows(const int32_t* rows, int32_t n):
    """Rows as an array of their own, which a plugin may keep."""
    cdef int32_t[::1] out = np.empty(n, dtype=np.int32)
    memcpy(&out[0], rows, n * sizeof(int32_t))
    return np.asarray(out)


cdef int _filter(void* context, void* view, const int32_t* rows, int32_t n, uint8_t* codes) noexcept with gil:
    """Call `PythonExternal.filter`, as the kernels call it. Returns another number than 0 if it fails."""
    return _ask(<PythonExternal>context, (<PythonExternal>context).filter, "codes", _rows(rows, n), codes)


cdef int _score(void* context, void* view, const int32_t* rows, int32_t n, int64_t* scores) noexcept with gil:
    """Call `PythonExternal.score`, as the kernels call it. Returns another number than 0 if it fails."""
    return _ask(<PythonExternal>context, (<PythonExternal>context).score, "scores", _rows(rows, n), scores)


cdef int _ask(PythonExternal plugin, function, str what, rows, void* out) noexcept:
    """Call a function with rows, and copy its codes or scores to `out`. Returns another number than 0 if it
    fails."""
    cdef const uint8_t[::1] memory
    try:
        answer = np.ascontiguousarray(function(rows), dtype=np.uint8 if what == "codes" else np.int64)
        if len(answer) != len(rows):
            raise ValueError(f"plugin {plugin.name} answered {len(answer)} {what} for {len(rows)} nodes")
        memory = answer.view(np.uint8)
        memcpy(out, &memory[0], memory.shape[0])
    except BaseException as error:
        note_failure(plugin, error)
        return MR_FAILED if isinstance(error, plugin.node_error) else MR_FAILED + 1
    return 0
