from cpython.number cimport PyNumber_Index
from libc.stdint cimport int64_t


cdef inline int64_t within(str name, object value, int64_t least, int64_t most) except? -1:
    """The value that somebody gives to an attribute; ValueError where it is out of range."""
    number = PyNumber_Index(value)
    if not least <= number <= most:
        raise ValueError(f"{name} {number}: {least} to {most}")
    return number
