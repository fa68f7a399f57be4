"""Plugins behind the public C ABI, python/moorage/include/moorage/plugin.h: reading their structs, and what
a search shows them.
"""

from libc.stdint cimport uintptr_t
from libc.string cimport memcpy, memset

import numpy as np
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid

from moorage._core.base cimport Journal, Symbols
from moorage._core.decide.plan import KERNELS
from moorage._core.state cimport Shape
from moorage.errors import InputError

ABI_MAJOR = MOORAGE_ABI_MAJOR
OWN_COLUMNS = ("cpu", "memory", "pods")
# In the order of the numbers in csrc/native.h.
FAILURES = ("", "filter", "code", "score", "normalize", "range")


def capsule_address(capsule, str source not None):
    """The address of the struct in a capsule named ``moorage_plugin``."""
    if not PyCapsule_IsValid(capsule, "moorage_plugin"):
        raise InputError('not a capsule named "moorage_plugin"', source=source)
    return <uintptr_t>PyCapsule_GetPointer(capsule, "moorage_plugin")


cdef class NativeExternal(External):
    """A plugin as a struct of C functions, which is copied.

    Parameters
    ----------
    address : int
        Of a ``struct moorage_plugin``. Nothing can tell a wrong one from a right one.
    source : str
        Where it is from, for errors.
    keep : object
        What must live as long as the functions: the library, the capsule.
    explain : callable
        (plugin name, what failed, text, node name, value) to the exception that a failure is to raise; what
        failed is one of `FAILURES`.

    Attributes
    ----------
    reason : str
        Why its filter rejects nodes.
    resources, labels, values : tuple of str
        What it declares to read.
    """

    def __cinit__(self, address, str source not None, keep, explain):
        self.keep = keep
        self.explain = explain
        cdef uintptr_t at = _checked_address(address, source)
        cdef const moorage_plugin* plugin = <const moorage_plugin*>at
        if plugin.abi_major != MOORAGE_ABI_MAJOR:
            raise InputError(
                f"plugin ABI {plugin.abi_major}, where this moorage has {MOORAGE_ABI_MAJOR}", source=source
            )
        if plugin.struct_size < MR_NATIVE_FIRST_SIZE:
            raise InputError(
                f"struct_size {plugin.struct_size} of the plugin is below {MR_NATIVE_FIRST_SIZE}",
                source=source,
            )
        memcpy(&self.table, plugin, min(plugin.struct_size, sizeof(moorage_plugin)))
        self._read(source)
        self._check(source)
        self.is_native = True
        self.c.context = &self.table
        self.c.filter = mr_native_filter
        self.c.score = mr_native_score
        self.is_loaded = True

    def _read(self, str source):
        self.name = _text(self.table.name, "name", source)
        self.reason = _text(self.table.reason, "reason", source)
        self.reason = self.reason or f"node(s) were rejected by plugin {self.name}"
        self.resources = _texts(<const char**>self.table.resources, "resources", source)
        self.labels = _texts(<const char**>self.table.labels, "labels", source)
        self.values = _texts(<const char**>self.table.values, "values", source)

    def _check(self, str source):
        wrong = ""
        if not self.name:
            raise InputError("the plugin has no name", source=source)
        if self.name in KERNELS:
            wrong = "has the name of a plugin of the core"
        elif self.table.filter == NULL and self.table.score == NULL:
            wrong = "has neither filter nor score"
        elif self.table.normalize != NULL and self.table.score == NULL:
            wrong = "has normalize, but no score"
        elif self.table.weight < 0:
            wrong = f"has weight {self.table.weight}"
        else:
            for name in self.resources:
                if name in OWN_COLUMNS:
                    wrong = f"declares the resource {name}, which every row has anyway"
        if wrong:
            raise InputError(f'plugin "{self.name}" {wrong}', source=source)

    def __del__(self):  # not __dealloc__: before that, `keep` may be gone if both are in one cycle
        if self.is_loaded and self.table.destroy != NULL:
            self.table.destroy(self.table.state)

    @property
    def filters(self):
        """True where it has a filter."""
        return self.table.filter != NULL

    @property
    def scores(self):
        """True where it has a score."""
        return self.table.score != NULL

    @property
    def weight(self):
        """Of its scores, where a profile gives none; 0 counts as 1."""
        return self.table.weight


cdef uintptr_t _checked_address(address, str source) except 0:
    if not isinstance(address, int) or not 0 < address <= <object><uintptr_t>-1:
        raise InputError(f"{address!r} is not the address of a plugin", source=source)
    if address % sizeof(void*):
        raise InputError(f"{address:#x} is not the address of a plugin: it is not aligned", source=source)
    return address


def _decoded(bytes raw, str field, str source):
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{field} of the plugin is not UTF-8", source=source) from error


cdef str _text(const char* text, str field, str source):
    return "" if text == NULL else _decoded(<bytes>text, field, source)


cdef tuple _texts(const char** texts, str field, str source):
    cdef Py_ssize_t n = 0
    out = []
    if texts != NULL:
        while texts[n] != NULL:
            out.append(_text(texts[n], field, source))
            n += 1
    return tuple(out)


cdef Buffer _memory(Py_ssize_t itemsize, items):
    return Buffer(Journal(), itemsize, len(items) + 1)


cdef class NativeView:
    """What one search shows to one plugin: `c` goes to the plugin's functions.

    `set_pod` comes first, since it may make symbols; then `bind_cluster`.
    """

    def __cinit__(self, NativeExternal plugin not None, ClusterState state not None):
        cdef Symbols symbols = state.symbols
        self.plugin = plugin
        self.state = state
        self.resource_ids = [state.table.resource_names.intern(name) - 1 for name in plugin.resources]
        self.label_columns = [state.table.label_keys.intern(key) - 1 for key in plugin.labels]
        self.resources = _memory(sizeof(void*), plugin.resources)
        self.labels = _memory(sizeof(void*), plugin.labels)
        self.values = _memory(sizeof(int32_t), plugin.values)
        for at, text in enumerate(plugin.values):
            (<int32_t*>self.values.data)[<Py_ssize_t>at] = symbols.intern(text)
        self.requests, self.other_requests = [_memory(sizeof(int64_t), plugin.resources) for _ in range(2)]
        self.pod_labels, self.other_labels = [_memory(sizeof(int32_t), plugin.labels) for _ in range(2)]
        self.pod_class = -1
        self.c.context.struct_size = sizeof(moorage_context)
        self.c.context.state = plugin.table.state
        self.c.context.resources = <const int64_t**>self.resources.data
        self.c.context.labels = <const int32_t**>self.labels.data
        self.c.context.values = <const int32_t*>self.values.data
        self.c.context.error = self.c.error

    cdef int set_pod(self, int32_t pod_class) except -1:
        """The next questions are about a pod of this class."""
        self.c.failure = 0  # of a run, which has not raised it
        if pod_class != self.pod_class:
            _describe(self, pod_class, &self.c.pod, self.requests, self.pod_labels)
            self.pod_class = pod_class

    cdef int bind_cluster(self, const mr_cluster* cluster) except -1:
        """The arrays are here now."""
        cdef Symbols symbols = self.state.symbols
        cdef Py_ssize_t at
        cdef moorage_context* out = &self.c.context
        symbols.sync_texts()
        out.nodes = cluster.nodes
        out.rows = <const moorage_row*>cluster.ledger.rows
        out.wide = cluster.ledger.wide
        for at in range(len(self.resource_ids)):
            (<const int64_t**>self.resources.data)[at] = cluster.ledger.others[<int32_t>self.resource_ids[at]]
        for at in range(len(self.label_columns)):
            (<const int32_t**>self.labels.data)[at] = cluster.labels[<int32_t>self.label_columns[at]]
        out.names = cluster.name
        out.texts = <const char**>symbols.texts.data
        out.numbers = <const int64_t*>symbols.numbers.data
        out.are_numbers = <const uint8_t*>symbols.are_numbers.data
        # Another thread, with a fork, may make them grow.
        self.held = symbols.texts.memory, symbols.numbers.memory, symbols.are_numbers.memory

    cdef int set_other_pod(self, int32_t pod_class) except -1:
        """The next `notify_pod_change` is about a pod of this class."""
        return _describe(self, pod_class, &self.other, self.other_requests, self.other_labels)

    cdef int notify_pod_change(self, int32_t row, bint adds) except -1:
        """The other pod is supposed on a row now, or off it."""
        change = self.plugin.table.add_pod if adds else self.plugin.table.remove_pod
        if change != NULL:
            with nogil:
                change(&self.c.context, &self.c.pod, &self.other, row)

    cdef tuple scores(self, const int32_t[::1] rows):
        """Raw and normalized scores; None where the plugin fails."""
        cdef int32_t n = <int32_t>rows.shape[0]
        cdef int64_t[::1] raw = np.empty(n, dtype=np.int64)
        cdef int64_t[::1] normalized
        if mr_native_raw(&self.plugin.table, &self.c, &rows[0], n, &raw[0]):
            return None
        normalized = np.array(raw)
        if mr_native_normalize(&self.plugin.table, &self.c, &rows[0], n, &normalized[0]):
            return None
        return np.asarray(raw), np.asarray(normalized)

    cdef object take_failure(self):
        """Why the plugin failed, once; None where it did not."""
        if self.c.failure == 0:
            return None
        what, self.c.failure = FAILURES[self.c.failure], 0
        text = (<bytes>self.c.error).decode(errors="replace")
        node = self.state.table.row_name(self.c.row) if self.c.row >= 0 else ""
        return self.plugin.explain(self.plugin.name, what, text, node, self.c.value)


cdef int _describe(NativeView view, int32_t pod_class, moorage_class* out, Buffer requests,
                   Buffer labels) except -1:
    cdef Shape shape = view.state.classes.shape(pod_class)
    cdef int32_t at
    cdef Py_ssize_t place
    out.struct_size = sizeof(moorage_class)
    out.name_space = view.state.symbols.intern(shape.namespace)
    out.cpu, out.memory = shape.c.cpu, shape.c.memory
    out.nonzero_cpu, out.nonzero_memory = shape.c.nonzero_cpu, shape.c.nonzero_memory
    out.requests = <const int64_t*>requests.data
    out.labels = <const int32_t*>labels.data
    memset(requests.data, 0, requests.capacity * requests.itemsize)
    for at in range(shape.c.n_others):
        for place in range(len(view.resource_ids)):
            if view.resource_ids[place] == shape.c.others[at].resource:
                (<int64_t*>requests.data)[place] = shape.c.others[at].value
    own = view.state.classes.labels(pod_class)
    for place in range(len(view.label_columns)):
        value = own.get(view.plugin.labels[place])
        (<int32_t*>labels.data)[place] = 0 if value is None else view.state.symbols.intern(value)
