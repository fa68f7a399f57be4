"""GPUs that pods share, by row of the node table, and the scores of policies that look at single GPUs."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from moorage._core.csrc cimport (
    MR_FRAGMENT_CLASSES,
    MR_GPU_WHOLE,
    MR_GPUS,
    MR_NO_GPU,
    mr_gpu_choose,
    mr_gpu_clustering,
    mr_gpu_demand,
    mr_gpu_fits,
    mr_gpu_fragment_classes,
    mr_gpu_fragmentation,
    mr_gpu_gradient,
    mr_gpu_node,
    mr_gpu_packing,
    mr_gpu_shape,
)

BEST_FIT, WORST_FIT, RANDOM = range(3)
MAX_GPUS = MR_GPUS
WHOLE = MR_GPU_WHOLE
MAX_MODELS = 64


cdef class Gradients:
    """The scores of one demand by row, and the GPU of each, as of a version of the row."""

    cdef int64_t[::1] versions
    cdef int32_t[::1] scores, gpus

    def __cinit__(self, Py_ssize_t rows):
        self.versions = np.full(rows, -1, dtype=np.int64)
        self.scores = np.zeros(rows, dtype=np.int32)
        self.gpus = np.zeros(rows, dtype=np.int32)


cdef class GpuShares:
    """The free part of each GPU, by row.

    Parameters
    ----------
    typical_pods : sequence of (cpu, milli, count, models, share)
        The pods by which fragmentation is measured: requests as in `demand`, and their share of all pods.
    """

    cdef object memory, shape_memory
    cdef dict models, gradients
    cdef mr_gpu_node* nodes
    cdef mr_gpu_shape* shapes
    cdef Py_ssize_t rows
    cdef int32_t n_shapes
    cdef double[::1] fragment
    cdef int64_t[::1] fragment_version, version
    cdef mr_gpu_demand asked

    def __init__(self, typical_pods=()):
        self.models = {}
        self.gradients = {}
        self.n_shapes = len(typical_pods)
        self.shape_memory = np.zeros(max(1, self.n_shapes) * sizeof(mr_gpu_shape), dtype=np.uint8)
        cdef uint8_t[::1] view = self.shape_memory
        self.shapes = <mr_gpu_shape*>&view[0]
        for at, (cpu, milli, count, models, share) in enumerate(typical_pods):
            self.shapes[at].demand = self._demand(cpu, milli, count, models)
            self.shapes[at].share = share
        self.rows = 0
        self._grow(64)

    cdef int _grow(self, Py_ssize_t rows) except -1:
        """Make room for rows; what was known of gradients is lost."""
        cdef object memory = np.zeros(rows * sizeof(mr_gpu_node), dtype=np.uint8)
        if self.rows:
            memory[: len(self.memory)] = self.memory
        cdef uint8_t[::1] view = memory
        self.memory = memory
        self.nodes = <mr_gpu_node*>&view[0]
        self.fragment = np.zeros(rows)
        self.fragment_version = np.full(rows, -1, dtype=np.int64)
        cdef int64_t[::1] version = np.zeros(rows, dtype=np.int64)
        if self.rows:
            version[: self.rows] = self.version
        self.version = version
        self.rows = rows
        self.gradients.clear()
        return 0

    cdef mr_gpu_demand _demand(self, int64_t cpu, int32_t milli, int32_t count, models) except *:
        cdef mr_gpu_demand out
        memset(&out, 0, sizeof(out))
        out.cpu, out.milli, out.count = cpu, milli, count
        for model in models:
            out.models |= self._bit(model)
        return out

    cdef uint64_t _bit(self, str model) except 0:
        """The bit of a GPU model."""
        cdef int number = self.models.setdefault(model, len(self.models))
        if number >= MAX_MODELS:
            raise OverflowError(f"more than {MAX_MODELS} GPU models")
        return <uint64_t>1 << number

    cdef mr_gpu_node* _node(self, Py_ssize_t row) except NULL:
        if not 0 <= row < self.rows:
            raise IndexError(f"no row {row}")
        return &self.nodes[row]

    def set_node(self, Py_ssize_t row, Py_ssize_t gpus, str model not None, int64_t cpu):
        """Set a node without GPU pods.

        Parameters
        ----------
        row : int
        gpus : int
            Number of GPUs, at most `MAX_GPUS`.
        model : str
            GPU model; "" if it is not known.
        cpu : int
            Free millicores.
        """
        if not 0 <= gpus <= MR_GPUS:
            raise OverflowError(f"{gpus} GPUs on a node, where {MR_GPUS} are possible")
        if row >= self.rows:
            self._grow(max(row + 1, 2 * self.rows))
        cdef mr_gpu_node* node = self._node(row)
        memset(node, 0, sizeof(mr_gpu_node))
        node.n, node.cpu, node.model = gpus, cpu, self._bit(model)
        for at in range(gpus):
            node.free[at] = MR_GPU_WHOLE
        self.version[row] += 1

    def take(self, Py_ssize_t row, int32_t milli, tuple gpus not None, int64_t cpu=0):
        """Take thousandths of GPUs, and cpu.

        Parameters
        ----------
        row : int
        milli : int
            Thousandths of each of the GPUs.
        gpus : tuple of int
            Indices of the GPUs.
        cpu : int, optional
            Millicores.

        Raises
        ------
        IndexError
            The node has no such GPU.
        """
        cdef mr_gpu_node* node = self._node(row)
        for gpu in gpus:
            if not 0 <= gpu < node.n:
                raise IndexError(f"no GPU {gpu}")
        for gpu in gpus:
            node.free[<int>gpu] -= milli
        node.cpu -= cpu
        if gpus:
            node.kinds |= 1 << (0 if milli < MR_GPU_WHOLE else len(gpus))
        self.version[row] += 1

    def ask(self, int64_t cpu, int32_t milli, int32_t count, models=()):
        """Set the demand about which the other methods answer.

        Parameters
        ----------
        cpu : int
            Millicores.
        milli : int
            Thousandths of each GPU: 1000, or less with a count of 1; 0 without GPUs.
        count : int
            Number of GPUs.
        models : iterable of str
            GPU models that are allowed; none: any.
        """
        self.asked = self._demand(cpu, milli, count, models)

    def fits(self, const int32_t[::1] rows not None):
        """Return whether the GPUs of nodes suffice.

        Parameters
        ----------
        rows : (n,) int32 array

        Returns
        -------
        (n,) bool array
        """
        cdef object out = np.zeros(rows.shape[0], dtype=np.bool_)
        cdef uint8_t[::1] answers = out.view(np.uint8)
        cdef Py_ssize_t at
        self._check(rows)
        with nogil:
            for at in range(rows.shape[0]):
                answers[at] = mr_gpu_fits(&self.nodes[rows[at]], &self.asked)
        return out

    cdef int _check(self, const int32_t[::1] rows) except -1:
        cdef Py_ssize_t at
        for at in range(rows.shape[0]):
            if not 0 <= rows[at] < self.rows:
                raise IndexError(f"no row {rows[at]}")
        return 0

    def choose(self, Py_ssize_t row, int rule, uint64_t draw=0):
        """Return the GPUs for the demand on a node that it fits.

        Parameters
        ----------
        row : int
        rule : {BEST_FIT, WORST_FIT, RANDOM}
            Of GPUs to share: the one with the least or with the most free thousandths, or any that suffices.
        draw : int
            A random number, for RANDOM.

        Returns
        -------
        tuple of int
        """
        cdef uint32_t gpus = mr_gpu_choose(self._node(row), &self.asked, rule, draw)
        return tuple([at for at in range(MR_GPUS) if gpus & (<uint32_t>1 << at)])

    def free(self, Py_ssize_t row):
        """Return the free thousandths of each GPU of a row, as a list."""
        cdef mr_gpu_node* node = self._node(row)
        return [node.free[at] for at in range(node.n)]

    def packing(self, const int32_t[::1] rows not None):
        """Return the scores of packing, as an (n,) int64 array (`mr_gpu_packing`)."""
        cdef int64_t[::1] scores = np.empty(rows.shape[0], dtype=np.int64)
        cdef Py_ssize_t at
        self._check(rows)
        with nogil:
            for at in range(rows.shape[0]):
                scores[at] = mr_gpu_packing(&self.nodes[rows[at]], &self.asked)
        return np.asarray(scores)

    def clustering(self, const int32_t[::1] rows not None, int64_t most):
        """Return the scores of clustering (`mr_gpu_clustering`), as an (n,) int64 array.

        `most` is the number of thousandths of the largest node, at least 1; ValueError if it is less.
        """
        if most < 1:
            raise ValueError(f"most {most}: at least 1")
        cdef int64_t[::1] scores = np.empty(rows.shape[0], dtype=np.int64)
        cdef Py_ssize_t at
        self._check(rows)
        with nogil:
            for at in range(rows.shape[0]):
                scores[at] = mr_gpu_clustering(&self.nodes[rows[at]], &self.asked, most)
        return np.asarray(scores)

    cdef double _fragmentation(self, Py_ssize_t row) noexcept nogil:
        if self.fragment_version[row] != self.version[row]:
            self.fragment[row] = mr_gpu_fragmentation(&self.nodes[row], self.shapes, self.n_shapes)
            self.fragment_version[row] = self.version[row]
        return self.fragment[row]

    def fragmentation(self, const int32_t[::1] rows not None):
        """Return the fragmentation in thousandths (`mr_gpu_fragmentation`), as an (n,) float64 array."""
        cdef double[::1] out = np.empty(rows.shape[0])
        cdef Py_ssize_t at
        self._check(rows)
        for at in range(rows.shape[0]):
            out[at] = self._fragmentation(rows[at])
        return np.asarray(out)

    def fragment_classes(self, Py_ssize_t row):
        """Return the fragmentation of a row by class (`mr_gpu_fragment_classes`), as a list."""
        cdef double[MR_FRAGMENT_CLASSES] sums
        mr_gpu_fragment_classes(self._node(row), self.shapes, self.n_shapes, sums)
        return [sums[at] for at in range(MR_FRAGMENT_CLASSES)]

    cdef Gradients _gradients(self):
        """What is known of the demand."""
        key = self.asked.cpu, self.asked.milli, self.asked.count, self.asked.models
        found = self.gradients.get(key)
        if found is None:
            found = self.gradients[key] = Gradients(self.rows)
        return found

    cdef void _learn(self, Gradients known, Py_ssize_t row) noexcept nogil:
        """Evaluate the demand on a row that has changed since."""
        if known.versions[row] != self.version[row]:
            known.scores[row] = mr_gpu_gradient(
                &self.nodes[row], self._fragmentation(row), &self.asked, self.shapes, self.n_shapes,
                &known.gpus[row],
            )
            known.versions[row] = self.version[row]

    def gradient(self, const int32_t[::1] rows not None):
        """Return the scores of gradient descent (`mr_gpu_gradient`), as an (n,) int64 array."""
        cdef int64_t[::1] scores = np.empty(rows.shape[0], dtype=np.int64)
        cdef Gradients known = self._gradients()
        cdef Py_ssize_t at
        self._check(rows)
        with nogil:
            for at in range(rows.shape[0]):
                self._learn(known, rows[at])
                scores[at] = known.scores[rows[at]]
        return np.asarray(scores)

    def gradient_gpu(self, Py_ssize_t row):
        """Return the GPUs that gradient descent takes on a node that the demand fits, as indices."""
        cdef Gradients known = self._gradients()
        self._node(row)
        self._learn(known, row)
        cdef int32_t gpu = known.gpus[row]
        return self.choose(row, BEST_FIT) if gpu == MR_NO_GPU else (gpu,)
