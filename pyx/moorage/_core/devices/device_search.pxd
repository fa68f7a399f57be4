from libc.stdint cimport int32_t, int64_t, uint8_t

from moorage._core.devices.device_view cimport DeviceView, mr_amount


cdef struct Alternative:  # a request, or one of its alternatives
    int64_t count
    int32_t claim, request, choice
    int32_t base  # number of the name of the request in its claim
    bint wants_all, has_admin_access, is_choice


cdef struct Constraint:
    int32_t claim
    bint is_distinct
    # while a search runs
    int32_t devices, first


cdef class Wanted:
    cdef list claims, alternatives, constraints
    cdef object rules
    cdef readonly bint has_choices
    cdef list memory, errors, constraint_errors
    cdef list matching       # [alternative] whether devices match, by their properties
    cdef list amounting      # [alternative] what it takes of the capacity of devices, by their properties
    cdef int32_t n_claims, n_requests, n_alternatives, n_constraints
    cdef int32_t* requests   # [claim] its first request; one more at the end
    cdef int32_t* choices    # [request] its first alternative; one more at the end
    cdef int32_t* constrained  # [claim] its first constraint; one more at the end
    cdef Alternative* each
    cdef uint8_t* applies    # [constraint][alternative]


cdef class DeviceSearch:
    cdef Wanted wanted
    cdef DeviceView view
    cdef list memory
    cdef bint counts_shares, allows_counters, checks_taints, allows_waiting
    cdef bint all_goes_on_as_first, includes_full, limits_requests, is_distinct_from_all  # see `Release`
    cdef int64_t steps, most_steps
    cdef dict cycle
    cdef uint8_t* matches    # [alternative][device] 0 unknown, 1 matches, 2 does not
    cdef uint8_t* tolerates  # [alternative][device] 0 unknown, 1 tolerated, 2 not
    cdef uint8_t* amounts_of  # [alternative][device] what `amounts` has: see `_amounts`
    cdef mr_amount* amounts  # [alternative][capacity]
    cdef bint* is_settled    # [alternative] whether all of `matches` is known
    cdef int32_t** every     # [alternative] the devices that mode All asks for
    cdef int64_t* counts     # [alternative]
    cdef Constraint* constraints
    cdef int32_t* last       # [constraint][name of a request] value of a distinct attribute, or NONE
    cdef int32_t* seen       # [constraint][MAX_RESULTS] the values of a distinct attribute
    cdef int32_t** values    # [constraint] [device]
    cdef int32_t* found      # [claim][MAX_RESULTS] devices
    cdef int32_t* found_for  # [claim][MAX_RESULTS] alternatives
    cdef int32_t* n_found    # [claim]
    cdef uint8_t* is_counted  # [claim][MAX_RESULTS]: counters were taken
    cdef uint8_t* had_share  # [claim][MAX_RESULTS]: the device had a share before
    cdef int32_t* chosen     # [request]
    cdef list taken_by       # (device, claim) with requests for admin access
    cdef bint has_admin_access

    cpdef find(self)
    cdef list _results(self)
    cdef int _prepare(self) except -1
    cdef int64_t _collect(self, int32_t alternative) except -1
    cdef int _step(self) except -1
    cdef int _claim(self, int32_t claim) except -1
    cdef int _request(self, int32_t claim, int32_t request) except -1
    cdef int _devices(self, int32_t alternative, int64_t have, int32_t start) except -1
    cdef int32_t _next(self, int32_t alternative, int32_t start) noexcept
    cdef int _go_on(self, int32_t alternative, int64_t have, int32_t device, int32_t start) except -1
    cdef bint _is_in_use(self, int32_t alternative, int32_t device) except -1
    cdef bint _is_selectable(self, int32_t alternative, int32_t device) except -1
    cdef bint _matches(self, int32_t alternative, published) except -1
    cdef bint _is_tolerated(self, int32_t alternative, int32_t device) except -1
    cdef int _amounts(self, int32_t alternative, int32_t device) except -1
    cdef mr_amount _amount(self, int32_t alternative, int32_t device, int32_t capacity) noexcept
    cdef bint _has_capacity(self, int32_t alternative, int32_t device, bint is_empty=*) except -1
    cdef bint _take(self, int32_t alternative, int32_t device, bint must) except -1
    cdef int _give_back(self, int32_t alternative, int32_t device) except -1
    cdef bint _counters_suffice(self, int32_t device) except -1
    cdef int _release(self, int32_t alternative, int32_t device, bint is_counted) except -1
    cdef void _release_counters(self, int32_t device, bint is_counted) noexcept
    cdef bint _constraints_allow(self, int32_t alternative, int32_t device) except -1
    cdef bint _add(self, int32_t number, int32_t alternative, int32_t device) except -1
    cdef void _remove(self, int32_t number, int32_t alternative) noexcept
