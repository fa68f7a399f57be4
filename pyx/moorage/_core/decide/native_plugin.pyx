"""Native plugins of the public C ABI (python/moorage/include/moorage/plugin.h): structs and arguments."""

from libc.stdint cimport uintptr_t
from libc.string cimport memcpy, memset

import json

import numpy as np
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid

from moorage._core.base cimport Journal, Symbols
from moorage._core.decide.plan import KERNELS
from moorage._core.state cimport Shape
from moorage.errors import InputError, nearest

ABI_MAJOR = MOORAGE_ABI_MAJOR
OWN_COLUMNS = ("cpu", "memory", "pods")
# What failed, by the numbers of csrc/native.h.
FAILURES = ("", "filter", "code", "score", "normalize", "range")


def capsule_address(capsule, str source not None):
    """Return the address of the plugin's struct in a capsule.

    Parameters
    ----------
    capsule : PyCapsule
        Its name must be ``moorage_plugin``.
    source : str
        The origin of the plugin, for errors.

    Returns
    -------
    int

    Raises
    ------
    InputError
        It is not such a capsule.
    """
    if not PyCapsule_IsValid(capsule, "moorage_plugin"):
        raise InputError('not a capsule named "moorage_plugin"', source=source)
    return <uintptr_t>PyCapsule_GetPointer(capsule, "moorage_plugin")


cdef class NativeExternal(External):
    """A plugin of the public C ABI. Its struct is copied.

    Parameters
    ----------
    address : int
        The address of a ``struct moorage_plugin``. A wrong address cannot be detected.
    source : str
        The origin of the plugin, for errors.
    keep : object
        The owner of the functions' memory, such as the library or the capsule. It is kept alive.
    explain : callable
        Returns the exception for a failure, from the plugin's name, one of `FAILURES`, the plugin's text, the
        node's name ("" if there is none) and the invalid value.
    arguments : mapping of str to object
        The plugin's arguments in a configuration, as JSON values.

    Attributes
    ----------
    reason : str
        Why its filter rejects nodes.

    Raises
    ------
    InputError
        The address or the struct is invalid, or the plugin does not declare an argument.
    """

    def __cinit__(self, address, str source not None, keep, explain, arguments):
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
        declared = _texts(<const char**>self.table.arguments, "arguments", source)
        self._read_arguments(declared, arguments, source)
        self.is_native = True
        self.c.context = &self.table
        self.c.filter = mr_native_filter
        self.c.score = mr_native_score
        self.is_loaded = True

    def _read(self, str source):
        """Read the texts of the struct."""
        self.name = _text(self.table.name, "name", source)
        self.reason = _text(self.table.reason, "reason", source)
        self.reason = self.reason or f"node(s) were rejected by plugin {self.name}"
        self.resources = _texts(<const char**>self.table.resources, "resources", source)
        self.labels = _texts(<const char**>self.table.labels, "labels", source)
        self.values = _texts(<const char**>self.table.values, "values", source)

    def _check(self, str source):
        """InputError if the struct contradicts the rules of plugin.h."""
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

    def _read_arguments(self, tuple declared, dict given, str source):
        """Describe the arguments to the plugin, in the order that it declares."""
        cdef moorage_argument* out
        cdef bytes text
        for name, value in given.items():
            if name not in declared:
                raise InputError(f'plugin "{self.name}" has no such argument{nearest(name, declared)}',
                                 source=source, path=name)
            if isinstance(value, str) and "\0" in value:
                raise InputError("a plugin in C takes no text with a NUL", source=source, path=name)
        self.arguments, self.texts = _memory(sizeof(moorage_argument), declared), []
        for at, name in enumerate(declared):
            value = given.get(name)
            if value is None:
                continue
            text = (value if isinstance(value, str) else json.dumps(value)).encode()
            self.texts.append(text)
            out = <moorage_argument*>self.arguments.data + <Py_ssize_t>at
            out.text = text
            if isinstance(value, (bool, int, float)):
                out.number, out.is_number = value, True

    def __del__(self):  # when __dealloc__ runs, the garbage collector may have cleared `keep`
        if self.is_loaded and self.table.destroy != NULL:
            self.table.destroy(self.table.state)

    @property
    def filters(self):
        """Whether the plugin has a filter."""
        return self.table.filter != NULL

    @property
    def scores(self):
        """Whether the plugin has a score."""
        return self.table.score != NULL

    @property
    def weight(self):
        """The weight of its scores if a profile gives none. 0 counts as 1."""
        return self.table.weight


cdef uintptr_t _checked_address(address, str source) except 0:
    """An address as a pointer; InputError if it cannot be that of a struct."""
    if not isinstance(address, int) or not 0 < address <= <object><uintptr_t>-1:
        raise InputError(f"{address!r} is not the address of a plugin", source=source)
    if address % sizeof(void*):
        raise InputError(f"{address:#x} is not the address of a plugin: it is not aligned", source=source)
    return address


def _decoded(bytes raw, str field, str source):
    """A text of the struct; InputError if it is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{field} of the plugin is not UTF-8", source=source) from error


cdef str _text(const char* text, str field, str source):
    """A text of the struct; "" for NULL."""
    return "" if text == NULL else _decoded(<bytes>text, field, source)


cdef tuple _texts(const char** texts, str field, str source):
    """A NULL-terminated list of texts of the struct."""
    cdef Py_ssize_t n = 0
    out = []
    if texts != NULL:
        while texts[n] != NULL:
            out.append(_text(texts[n], field, source))
            n += 1
    return tuple(out)


cdef Buffer _memory(Py_ssize_t itemsize, items):
    """Memory for one value of each item."""
    return Buffer(Journal(), itemsize, len(items) + 1)


cdef class NativeView:
    """The arguments of one plugin's functions for one search.

    `set_pod` must be called before `bind_cluster`, since it may add symbols.

    Parameters
    ----------
    plugin : NativeExternal
    state : ClusterState
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
            self.values.int32()[<Py_ssize_t>at] = symbols.intern(text)
        self.requests, self.other_requests = [_memory(sizeof(int64_t), plugin.resources) for _ in range(2)]
        self.pod_labels, self.other_labels = [_memory(sizeof(int32_t), plugin.labels) for _ in range(2)]
        self.pod_class = -1
        self.c.context.struct_size = sizeof(moorage_context)
        self.c.context.state = plugin.table.state
        self.c.context.resources = <const int64_t**>self.resources.data
        self.c.context.labels = <const int32_t**>self.labels.data
        self.c.context.values = self.values.int32()
        self.c.context.error = self.c.error
        self.c.context.arguments = <const moorage_argument*>plugin.arguments.data

    cdef int set_pod(self, int32_t pod_class) except -1:
        """Set the class of the pod to schedule."""
        self.c.failure = 0  # a failure of an earlier run may not have been raised
        if pod_class != self.pod_class or self.generation != self.state.classes.number:
            self.containers = _containers(self.state, pod_class, &self.c.pod)
            _describe(self, pod_class, &self.c.pod, self.requests, self.pod_labels)
            self.pod_class, self.generation = pod_class, self.state.classes.number

    cdef int bind_cluster(self, const mr_cluster* cluster) except -1:
        """Refresh the pointers to the arrays of the cluster."""
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
        out.numbers = symbols.numbers.int64()
        out.are_numbers = symbols.are_numbers.uint8()
        # Another thread may reallocate them through a fork.
        self.held = symbols.texts.memory, symbols.numbers.memory, symbols.are_numbers.memory

    cdef int set_other_pod(self, int32_t pod_class) except -1:
        """Set the class of the pod that the next `notify_pod_change` adds or removes."""
        self.other_containers = _containers(self.state, pod_class, &self.other)
        return _describe(self, pod_class, &self.other, self.other_requests, self.other_labels)

    cdef int notify_pod_change(self, int32_t row, bint adds) except -1:
        """Notify the plugin that the other pod is added to a row or removed from it, for a what-if query."""
        change = self.plugin.table.add_pod if adds else self.plugin.table.remove_pod
        if change != NULL:
            with nogil:
                change(&self.c.context, &self.c.pod, &self.other, row)

    cdef tuple scores(self, const int32_t[::1] rows):
        """The raw and normalized scores of rows; None if the plugin fails."""
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
        """Return the exception for the plugin's failure, and clear the failure; None if there is none."""
        if self.c.failure == 0:
            return None
        what, self.c.failure = FAILURES[self.c.failure], 0
        text = (<bytes>self.c.error).decode(errors="replace")
        node = self.state.table.row_name(self.c.row) if self.c.row >= 0 else ""
        return self.plugin.explain(self.plugin.name, what, text, node, self.c.value)


cdef Buffer _containers(ClusterState state, int32_t pod_class, moorage_class* out):
    """Describe the containers of a class of pods to the plugin; return their memory."""
    cdef tuple containers = state.classes.shape(pod_class).containers
    cdef Buffer memory = _memory(sizeof(moorage_container), containers)
    cdef moorage_container* container = <moorage_container*>memory.data
    for amounts in containers:
        container.cpu_request, container.cpu_limit, container.memory_request, container.memory_limit = amounts
        container += 1
    out.containers, out.n_containers = <moorage_container*>memory.data, <int32_t>len(containers)
    return memory


cdef int _describe(NativeView view, int32_t pod_class, moorage_class* out, Buffer requests,
                   Buffer labels) except -1:
    """Describe a class of pods to the plugin: requests and labels in the order that it declares."""
    cdef Shape shape = view.state.classes.shape(pod_class)
    cdef int32_t at
    cdef Py_ssize_t place
    out.struct_size = sizeof(moorage_class)
    out.name_space = view.state.symbols.intern(shape.namespace)
    out.cpu, out.memory = shape.c.cpu, shape.c.memory
    out.nonzero_cpu, out.nonzero_memory = shape.c.nonzero_cpu, shape.c.nonzero_memory
    out.requests = requests.int64()
    out.labels = labels.int32()
    memset(requests.data, 0, requests.capacity * requests.itemsize)
    for at in range(shape.c.n_others):
        for place in range(len(view.resource_ids)):
            if view.resource_ids[place] == shape.c.others[at].resource:
                requests.int64()[place] = shape.c.others[at].value
    own = view.state.classes.labels(pod_class)
    for place in range(len(view.label_columns)):
        value = own.get(view.plugin.labels[place])
        labels.int32()[place] = 0 if value is None else view.state.symbols.intern(value)
