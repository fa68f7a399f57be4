"""Assertions of the debug build (`make debug-test`); a release build compiles none of them."""


cdef extern from "debug.h" nogil:
    const bint MR_DEBUG_BUILD
    void debug_below "MR_DEBUG_BELOW"(long long value, long long limit, const char* what) noexcept
