"""Which images the nodes hold: per image the number of nodes and the size that the first of them reported.

kube-scheduler v1.36, cache.go addNodeImageStates: the size stays that of the first reporter for as long as
any node has the image.
"""

from moorage._core.buffers cimport Buffer, Journal
from moorage._core.chunks cimport Chunks
from moorage._core.symbols cimport Symbols


cdef class ImageStates:
    """Counts and sizes by image id. Ids are symbols of their own, from normalized image names."""

    def __cinit__(self, Journal journal):
        self.journal = journal
        self.names = Symbols()
        self.counts = Buffer(journal, sizeof(int32_t), 64)
        self.sizes = Buffer(journal, sizeof(int64_t), 64)
        self.scalars = Buffer(journal, sizeof(int64_t), 1)
        self.held = Chunks(journal)

    cpdef int32_t image(self, str name) except -1:
        """The id of an image name as it stands (a node's names are not normalized)."""
        cdef int32_t image = self.names.intern(name)
        self.counts.reserve(image + 1)
        self.sizes.reserve(image + 1)
        return image

    cdef int _count(self, int32_t image, int32_t change) except -1:
        self.counts.touch(image)
        self.scalars.touch(0)
        (<int32_t*>self.counts.data)[image] += change
        (<int64_t*>self.scalars.data)[0] += 1
        return 0

    cdef int make_room(self, Py_ssize_t rows, object reported) except -1:
        """Have the memory for a row that reports so many images: `set_row` cannot fail then."""
        cdef Py_ssize_t images = 0
        for entry in reported:
            for name in entry.names:
                self.image(name)
                images += 1
        self.held.reserve(rows)
        return self.held.make_room(images)

    cdef int set_row(self, int32_t row, object reported) except -1:
        """Take what a node reports (status.images; nothing if it is gone) in place of what it did before.
        The caller has made room."""
        cdef int32_t image, at
        names = {}
        for entry in reported:
            for name in entry.names:
                names.setdefault(name, entry.size_bytes)
        for at in range(self.held.size(row)):
            self._count(self.held.items(row)[at], -1)
        self.held.assign(row, NULL, 0)
        for name, size in names.items():
            image = self.image(name)
            if self.nodes(image) == 0:
                self.sizes.touch(image)
                (<int64_t*>self.sizes.data)[image] = size
            self._count(image, 1)
            self.held.append(row, image)
        return 0

    def state(self, str name):
        """(nodes, size in bytes) of an image, or None where no node has it."""
        cdef int32_t image = self.names.find(name)
        if image == 0 or self.nodes(image) == 0:
            return None
        return self.nodes(image), (<int64_t*>self.sizes.data)[image]


def normalized_image_name(str name):
    """An image name with ":latest" where it has neither tag nor digest (image_locality.go)."""
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"
