from libc.stdint cimport int32_t, int64_t, uint8_t

from moorage._core.decide.terms cimport NodeDevices
from moorage._core.devices.device_search cimport DeviceSearch, Wanted
from moorage._core.devices.device_view cimport DeviceView
from moorage._core.state cimport ClusterState


cdef class DeviceViews:
    cdef readonly list views, rows_of, changed, taken
    cdef dict of_pool    # by driver and name of a pool, the indices of views
    cdef dict of_device  # the same for a pool of several views, by name of the device
    cdef readonly object features
    cdef ClusterState state
    cdef list memory
    cdef int32_t rows
    cdef int64_t epoch  # the number of times that `changed` was emptied
    cdef int32_t* view_of  # [row] index of the view; -1 for none

    cdef int note(self, list views) except -1
    cdef list views_with(self, tuple device)


cdef class SharedDevices(NodeDevices):
    cdef readonly dict leaders
    cdef DeviceViews views
    cdef list memory
    cdef tuple latest  # of what the views have taken; None for nothing
    cdef int32_t row   # that fits; -1 for none

    cdef int32_t _row_of(self, tuple latest) except -2


cdef class DeviceDemand(NodeDevices):
    cdef readonly DeviceViews views
    cdef readonly Wanted wanted
    cdef list memory, answers
    cdef dict searches      # by the view with the columns
    cdef dict unused        # by the view with the columns, what is found while no device ever was in use
    cdef int64_t most_steps
    cdef int64_t* versions  # [view] the version of the view that the answer is for, plus 1; 0 for no answer
    cdef int32_t* scores    # [view] its score; -1 without a solution
    cdef uint8_t* failed    # [view] 1 if its search fails with an error
    cdef int32_t n_failed   # the number of views with `failed`
    cdef Py_ssize_t cursor  # in `changed` of the views, in the epoch; -1 at first
    cdef int64_t epoch

    cdef int _answer(self, int32_t at) except -1
    cdef tuple _found_unused(self, DeviceView view)
    cdef tuple _found_in(self, DeviceView view)
    cdef DeviceSearch _search_of(self, DeviceView view)
