from libc.stdint cimport int32_t


cdef int32_t usable_threads(int32_t threads) noexcept
