"""Which images the nodes hold: per image the number of nodes and the size that the first of them reported.

kube-scheduler v1.36, cache.go addNodeImageStates: the size stays that of the first reporter for as long as
any node has the image. How many nodes have an image is summed up for a node when it is set (v1.13), and for
scheduling when its row is copied (v1.36, `View`).
"""


cdef class ImageStates:
    """Counts and sizes by image id. Ids are symbols of their own, from normalized image names."""

    def __cinit__(self, Journal journal not None):
        self.journal = journal
        self.names = Symbols()
        self.counts = Buffer(journal, sizeof(int32_t), 64)
        self.sizes = Buffer(journal, sizeof(int64_t), 64)
        self.held = IntLists(journal)
        self.then = IntLists(journal)

    cdef ImageStates clone(self, Journal journal):
        """An independent copy; ids are shared."""
        cdef ImageStates out = ImageStates(journal)
        out.names = self.names
        out.counts.copy_from(self.counts)
        out.sizes.copy_from(self.sizes)
        out.epoch = self.epoch
        out.held = self.held.clone(journal)
        out.then = self.then.clone(journal)
        return out

    cdef int sync(self) except -1:
        """Make room for the images that forks have named since."""
        self.counts.reserve(len(self.names))
        self.sizes.reserve(len(self.names))

    cpdef int32_t image(self, str name) except -1:
        """The id of an image name as it stands (a node's names are not normalized)."""
        cdef int32_t image = self.names.intern(name)
        self.sync()
        return image

    cdef int _count(self, int32_t image, int32_t change) except -1:
        self.counts.touch(image)
        (<int32_t*>self.counts.data)[image] += change
        self.epoch += 1

    cdef int set_row(self, int32_t row, object reported) except -1:
        """Take what a node reports (status.images; nothing if it is gone) in place of what it did before."""
        cdef int32_t image, at
        names = {}
        for entry in reported:
            for name in entry.names:
                names.setdefault(name, entry.size_bytes)
        self._reserve(row)
        for at in range(self.held.size(row)):
            self._count(self.held.items(row)[at], -1)
        self.held.assign(row, NULL, 0)
        self.then.assign(row, NULL, 0)
        for name, size in names.items():
            image = self.image(name)
            if self.nodes(image) == 0:
                self.sizes.touch(image)
                (<int64_t*>self.sizes.data)[image] = size
            self._count(image, 1)
            self.held.append(row, image)
            self.then.append(row, self.nodes(image))

    cdef int _reserve(self, int32_t row) except -1:
        self.held.reserve(row + 1)
        return self.then.reserve(row + 1)

    def state(self, str name not None):
        """(nodes, size in bytes) of an image, or None where no node has it."""
        cdef int32_t image = self.names.find(name)
        self.sync()
        if image == 0 or self.nodes(image) == 0:
            return None
        return self.nodes(image), self.size_of(image)

    def images_of(self, int32_t row):
        """Image name to (bytes, nodes that had it when the row was set) of what a row reports."""
        cdef int32_t at
        cdef int32_t* held
        out = {}
        if not 0 <= row < self.held.rows():
            return out
        self._reserve(row)
        held = self.held.items(row)
        for at in range(self.held.size(row)):
            out[self.names.names[held[at]]] = self.size_of(held[at]), self.then.items(row)[at]
        return out


def normalized_image_name(str name not None):
    """An image name with ":latest" where it has neither tag nor digest (image_locality.go)."""
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"
