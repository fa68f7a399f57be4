# cython: auto_pickle=False
"""Columns as capsules of the Arrow C data interface, which pyarrow, polars, pandas and DuckDB read.

Source: https://arrow.apache.org/docs/format/CDataInterface.html, CStreamInterface.html and
CDataInterface/PyCapsuleInterface.html.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

cdef enum:
    NULLABLE = 2  # ARROW_FLAG_NULLABLE

cdef const char* SCHEMA = "arrow_schema"
cdef const char* ARRAY = "arrow_array"
cdef const char* STREAM = "arrow_array_stream"


cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept
    void* private_data


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept
    void* private_data


cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept
    int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept
    const char* (*get_last_error)(ArrowArrayStream*) noexcept
    void (*release)(ArrowArrayStream*) noexcept
    void* private_data


cdef class ArrowColumn:
    """A column of a table, in the physical layout of Arrow.

    Parameters
    ----------
    name : str
    format : str
        Format string of the type: ``l`` int64, ``g`` float64, ``b`` bool, ``U`` large string.
    length : int
    nulls : int
        Number of null values.
    buffers : tuple of (uint8 array or None)
        As the layout of the type asks for, validity first; None for a validity buffer without null values.
    """

    cdef bytes name, format
    cdef int64_t length, nulls
    cdef tuple buffers

    def __init__(self, str name not None, str format not None, int64_t length, int64_t nulls,
                 tuple buffers not None):
        cdef const uint8_t[::1] _checked
        for buffer in buffers:
            _checked = buffer
        self.name, self.format = name.encode(), format.encode()
        self.length, self.nulls, self.buffers = length, nulls, buffers


# ---- the owner of a struct: one reference, and the memory of its children ----------------------------------


cdef void* _held(object owner) noexcept:
    Py_INCREF(owner)
    return <void*>owner


cdef void* _room(size_t count, size_t size) except NULL:
    cdef void* memory = calloc(count + 1, size)  # never empty
    if memory == NULL:
        raise MemoryError
    return memory


cdef void _release_schema(ArrowSchema* schema) noexcept with gil:
    cdef int64_t at
    for at in range(schema.n_children):
        if schema.children[at].release != NULL:
            schema.children[at].release(schema.children[at])
        free(schema.children[at])
    free(schema.children)
    schema.release = NULL
    if schema.private_data != NULL:
        Py_DECREF(<object>schema.private_data)


cdef void _release_array(ArrowArray* array) noexcept with gil:
    cdef int64_t at
    for at in range(array.n_children):
        if array.children[at].release != NULL:
            array.children[at].release(array.children[at])
        free(array.children[at])
    free(array.children)
    free(array.buffers)
    array.release = NULL
    if array.private_data != NULL:
        Py_DECREF(<object>array.private_data)


# ---- a table as a struct array with one child for each column ----------------------------------------------


cdef int _fill_schema(ArrowSchema* out, tuple columns) except -1:
    cdef ArrowColumn column
    cdef ArrowSchema* child
    out.format, out.name, out.release, out.private_data = b"+s", b"", _release_schema, NULL
    out.metadata, out.flags, out.dictionary, out.n_children = NULL, 0, NULL, 0
    out.children = <ArrowSchema**>_room(len(columns), sizeof(ArrowSchema*))
    for column in columns:
        child = <ArrowSchema*>_room(1, sizeof(ArrowSchema))
        child.format, child.name, child.flags = column.format, column.name, NULLABLE
        child.release, child.private_data = _release_schema, _held(column)
        out.children[out.n_children] = child
        out.n_children += 1
    return 0


cdef int _fill_column(ArrowArray* out, ArrowColumn column) except -1:
    cdef const uint8_t[::1] buffer
    cdef Py_ssize_t at
    out.length, out.null_count = column.length, column.nulls
    out.release, out.private_data = _release_array, _held(column)
    out.buffers = <const void**>_room(len(column.buffers), sizeof(void*))
    out.n_buffers = len(column.buffers)
    for at in range(len(column.buffers)):
        if column.buffers[at] is not None:
            buffer = column.buffers[at]
            # For no bytes any address will do.
            out.buffers[at] = <const void*>&buffer[0] if buffer.shape[0] else <const void*>out.buffers
    return 0


cdef int _fill_array(ArrowArray* out, tuple columns) except -1:
    cdef ArrowColumn column
    cdef ArrowArray* child
    out.length = (<ArrowColumn>columns[0]).length if columns else 0
    out.null_count, out.offset, out.n_children, out.n_buffers = 0, 0, 0, 1
    out.dictionary, out.private_data, out.release = NULL, NULL, _release_array
    out.children, out.buffers = NULL, NULL
    out.buffers = <const void**>_room(1, sizeof(void*))  # the validity of the struct: no null values
    out.children = <ArrowArray**>_room(len(columns), sizeof(ArrowArray*))
    for column in columns:
        child = <ArrowArray*>_room(1, sizeof(ArrowArray))
        out.children[out.n_children] = child
        out.n_children += 1
        _fill_column(child, column)
    return 0


# ---- capsules ----------------------------------------------------------------------------------------------


cdef void _drop_schema(object capsule) noexcept:
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, SCHEMA)
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void _drop_array(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsule, ARRAY)
    if array.release != NULL:
        array.release(array)
    free(array)


cdef void _drop_stream(object capsule) noexcept:
    cdef ArrowArrayStream* stream = <ArrowArrayStream*>PyCapsule_GetPointer(capsule, STREAM)
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


cdef int _check_columns(tuple columns) except -1:
    """Check that all are columns, None included; loops over a type let it pass."""
    for column in columns:
        if type(column) is not ArrowColumn:
            raise TypeError(f"{column!r} is no column")
    return 0


def schema_capsule(tuple columns not None):
    """Return the schema of a table, as a capsule ``arrow_schema``.

    Parameters
    ----------
    columns : tuple of ArrowColumn

    Returns
    -------
    capsule
    """
    cdef ArrowSchema* schema
    _check_columns(columns)
    schema = <ArrowSchema*>_room(1, sizeof(ArrowSchema))
    capsule = PyCapsule_New(schema, SCHEMA, _drop_schema)
    _fill_schema(schema, columns)
    return capsule


def array_capsule(tuple columns not None):
    """Return the rows of a table, as a capsule ``arrow_array``.

    Parameters
    ----------
    columns : tuple of ArrowColumn
        All of one length.

    Returns
    -------
    capsule
    """
    cdef ArrowArray* array
    _check_columns(columns)
    array = <ArrowArray*>_room(1, sizeof(ArrowArray))
    capsule = PyCapsule_New(array, ARRAY, _drop_array)
    _fill_array(array, columns)
    return capsule


cdef class _Batches:
    """The one batch of a stream, until it has been read."""

    cdef tuple columns
    cdef bint is_read


cdef int _stream_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept with gil:
    cdef _Batches batches = <_Batches>stream.private_data
    out.release = NULL
    try:
        _fill_schema(out, batches.columns)
    except MemoryError:
        if out.release != NULL:
            out.release(out)
        return ENOMEM
    return 0


cdef int _stream_next(ArrowArrayStream* stream, ArrowArray* out) noexcept with gil:
    cdef _Batches batches = <_Batches>stream.private_data
    out.release = NULL
    if batches.is_read:
        return 0
    try:
        _fill_array(out, batches.columns)
    except MemoryError:
        if out.release != NULL:
            out.release(out)
        return ENOMEM
    batches.is_read = True
    return 0


cdef const char* _stream_error(ArrowArrayStream* stream) noexcept:
    return NULL


cdef void _release_stream(ArrowArrayStream* stream) noexcept with gil:
    stream.release = NULL
    Py_DECREF(<object>stream.private_data)


def stream_capsule(tuple columns not None):
    """Return a table as a stream of one batch, as a capsule ``arrow_array_stream``.

    Parameters
    ----------
    columns : tuple of ArrowColumn
        All of one length.

    Returns
    -------
    capsule
    """
    cdef _Batches batches = _Batches()
    cdef ArrowArrayStream* stream
    _check_columns(columns)
    stream = <ArrowArrayStream*>_room(1, sizeof(ArrowArrayStream))
    batches.columns, batches.is_read = columns, False
    stream.get_schema, stream.get_next = _stream_schema, _stream_next
    stream.get_last_error, stream.release = _stream_error, _release_stream
    stream.private_data = _held(batches)
    return PyCapsule_New(stream, STREAM, _drop_stream)
