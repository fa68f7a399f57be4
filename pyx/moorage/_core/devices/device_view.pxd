from libc.stdint cimport int32_t, int64_t, uint8_t


cdef extern from "devices.h":
    ctypedef long long mr_amount  # 128 bits


cdef enum DeviceFlag:
    SEVERAL = 1  # it can be allocated several times
    COUNTING = 2  # it consumes shared counters
    WAITING = 4  # it has binding conditions
    HERE = 8  # its own node selection includes the nodes of the view


cdef enum:
    ABSENT = -1  # an attribute that a device does not have
    LISTED = -2  # one with a list, which equals nothing
    UNREADABLE = -4


cdef struct Consumption:
    int32_t slot
    mr_amount amount


cdef class DeviceView:
    cdef readonly list pools
    cdef int32_t n  # number of devices that can be allocated, which come first
    cdef int32_t members  # number of all devices
    cdef bint is_order_free, keeps_shared
    cdef object features
    cdef readonly int64_t version  # grows whenever the state changes
    cdef readonly DeviceView like  # has the columns; None for an own set
    cdef dict place_of       # by driver and name, the index of a pool
    cdef dict index          # by the index of a pool and the name of a device, its members
    cdef dict slot_of, values_of, names
    cdef list memory, keys, capacities
    cdef list device_names   # [member]
    cdef list all_devices    # [member], once all were asked for
    cdef int32_t n_slots, n_pools, n_names, n_dirty, n_touched
    cdef int32_t* pool       # [member]
    cdef uint8_t* flags      # [member] bits of DeviceFlag
    cdef int32_t* first      # [pool] its first usable device; one more at the end
    cdef int32_t* elsewhere  # [pool] its first device elsewhere; one more at the end
    cdef int32_t* name       # [pool] number of the owner of its counters
    cdef int32_t* counters   # [member] its first consumption; one more at the end
    cdef Consumption* consumptions
    cdef int32_t* shared     # [pool] its first shared counter; one more at the end
    cdef Consumption* available
    cdef int32_t* capacity   # [member] its first capacity; one more at the end
    cdef mr_amount* whole    # [capacity]
    # state: what allocations use
    cdef uint8_t* used       # [member]
    cdef uint8_t* is_shared  # [member] 1 if a share of it is allocated
    cdef uint8_t* is_charged  # [member] 1 if a further share of it does not take its counters again
    cdef mr_amount* in_use   # [capacity]
    cdef uint8_t* open       # [usable device] 0 if it cannot be taken now, whoever asks without admin access
    cdef uint8_t* is_dirty   # [pool]
    cdef int32_t* dirty
    cdef uint8_t* is_ready   # [name] 1 if `limit` is set for the pools of the owner
    cdef uint8_t* is_short   # [name] 1 if a counter is overdrawn
    cdef uint8_t* is_limited  # [slot]
    cdef mr_amount* limit    # [slot]
    # state of a search
    cdef int32_t* taken      # [usable device] number of claims that have taken it
    cdef mr_amount* consumed  # [slot]
    cdef mr_amount* share    # [capacity]
    cdef uint8_t* has_share  # [usable device] 1 if a share of it was taken
    cdef uint8_t* is_touched  # [usable device]
    cdef int32_t* touched

    cpdef device(self, int32_t member)
    cpdef tuple id_of(self, int32_t member)
    cdef list names_in(self, tuple pool)
    cdef list members_of(self, tuple device)
    cdef int free_others(self, allocated) except -1
    cpdef int set_state(self, tuple device, bint used, dict shares) except -1
    cdef int set_used(self, int32_t member, bint used) except -1
    cdef bint is_in_use(self, int32_t device) noexcept
    cdef int set_shares(self, int32_t member, dict amounts) except -1
    cdef int refresh(self) except -1
    cdef int make_ready(self, int32_t pool, dict cycle) except -1
    cdef int32_t* attribute_values(self, str attribute, bint is_typed) except NULL
    cdef void forget_search(self) noexcept
    cdef void touch(self, int32_t device) noexcept nogil


cdef mr_amount amount_of(nanos) except? -1
cdef object nanos(quantity)
