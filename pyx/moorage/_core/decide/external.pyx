"""Plugins in a plan that are no kernels of the core: functions that the search calls with arrays of rows."""

import numpy as np

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from moorage._core.base.buffers cimport Journal


cdef class ExternalView:
    """What one search shows to a plugin in C, and what it hears; `data` goes to the plugin's functions.

    The search first has it learn the pod's class, which may make symbols, and then shows it the memory.
    """

    cdef int set_pod(self, int32_t pod_class) except -1:
        """The next questions are about a pod of this class."""
        return 0

    cdef int bind_cluster(self, const mr_cluster* cluster) except -1:
        """The arrays are here now."""
        return 0

    cdef int set_other_pod(self, int32_t pod_class) except -1:
        """The next `notify_pod_change` is about a pod of this class."""
        return 0

    cdef int notify_pod_change(self, int32_t row, bint adds) except -1:
        """A pod is supposed on a row now, or off it."""
        return 0

    cdef tuple scores(self, const int32_t[::1] rows):
        """Raw and normalized scores; None where the plugin fails."""
        return None

    cdef object take_failure(self):
        """Why the plugin failed, once; None where it did not."""
        return None


cdef class External:
    """A plugin by its functions; see `mr_external` in csrc/state.h.

    Attributes
    ----------
    is_native : bool
        It needs no Python and follows what a run changes on rows.
    error : BaseException or None
        Why it failed; whoever sees the failure takes it away.
    """

    cdef ExternalView view(self, ClusterState state):
        """What a search over `state` shows to it; None where it needs nothing."""
        return None


cdef class Views:
    """What one search shows to the plugins of a plan that are no kernels; `pointers` are in its order."""

    def __cinit__(self, list externals not None, ClusterState state not None):
        cdef External plugin
        cdef ExternalView view
        self.views = []
        self.names = []
        self.pointers = Buffer(Journal(), sizeof(void*), len(externals) + 1)
        for at, plugin in enumerate(externals):
            view = plugin.view(state)
            if view is not None:
                self.views.append(view)
                self.names.append(plugin.name)
                (<void**>self.pointers.data)[<Py_ssize_t>at] = view.data

    cdef int set_pod(self, int32_t pod_class) except -1:
        for view in self.views:
            (<ExternalView>view).take_failure()  # of a run, which has not raised it
            (<ExternalView>view).set_pod(pod_class)

    cdef int bind_cluster(self, const mr_cluster* cluster) except -1:
        for view in self.views:
            (<ExternalView>view).bind_cluster(cluster)

    cdef bint set_other_pod(self, int32_t pod_class, int32_t other) except -1:
        """`notify_pod_change` will be about a pod of the `other` class. False where there is no plugin."""
        for view in self.views:
            (<ExternalView>view).set_pod(pod_class)
            (<ExternalView>view).set_other_pod(other)
        return len(self.views) > 0

    cdef int notify_pod_change(self, int32_t row, bint adds) except -1:
        for view in self.views:
            (<ExternalView>view).notify_pod_change(row, adds)

    cdef tuple scores(self, str plugin, const int32_t[::1] rows):
        return (<ExternalView>self.views[self.names.index(plugin)]).scores(rows)

    def raise_failure(self):
        """Raise what one of them has failed with, if any has."""
        for view in self.views:
            error = (<ExternalView>view).take_failure()
            if error is not None:
                raise error


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
    cdef External plugin = <External>context
    cdef const uint8_t[::1] answer
    try:
        answer = np.ascontiguousarray((<PythonExternal>plugin).filter(_rows(rows, n)), dtype=np.uint8)
        if answer.shape[0] != n:
            raise ValueError(f"plugin {plugin.name} answered {answer.shape[0]} codes for {n} nodes")
        memcpy(codes, &answer[0], n)
    except BaseException as error:
        plugin.error = error
        return 1
    return 0


cdef int _score(void* context, void* view, const int32_t* rows, int32_t n, int64_t* scores) noexcept with gil:
    cdef External plugin = <External>context
    cdef const int64_t[::1] answer
    try:
        answer = np.ascontiguousarray((<PythonExternal>plugin).score(_rows(rows, n)), dtype=np.int64)
        if answer.shape[0] != n:
            raise ValueError(f"plugin {plugin.name} answered {answer.shape[0]} scores for {n} nodes")
        memcpy(scores, &answer[0], n * sizeof(int64_t))
    except BaseException as error:
        plugin.error = error
        return 1
    return 0
