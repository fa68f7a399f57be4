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

    cdef ImageStates clone(self, Journal journal):
        """An independent copy; ids are shared."""
        cdef ImageStates out = ImageStates(journal)
        out.names = self.names
        out.counts.copy_from(self.counts)
        out.sizes.copy_from(self.sizes)
        out.epoch = self.epoch
        out.held = self.held.clone(journal)
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

    cdef int set_row(self, int32_t row, object reported) except -1:
        """Take what a node reports (status.images; nothing if it is gone) in place of what it did before."""
        cdef int32_t image, at
        names = {}
        for entry in reported:
            for name in entry.names:
                names.setdefault(name, entry.size_bytes)
        self.held.reserve(row + 1)
        for at in range(0, self.held.size(row), 2):
            _count(self, self.held.items(row)[at], -1)
        self.held.assign(row, NULL, 0)
        for name, size in names.items():
            image = self.image(name)
            if self.nodes(image) == 0:
                self.sizes.touch(image)
                (<int64_t*>self.sizes.data)[image] = size
            _count(self, image, 1)
            self.held.append(row, image)
            self.held.append(row, self.nodes(image))

    def state(self, str name not None):
        """(nodes, size in bytes) of an image, or None where no node has it."""
        cdef int32_t image = self.names.find(name)
        self.sync()
        if image == 0 or self.nodes(image) == 0:
            return None
        return self.nodes(image), (<int64_t*>self.sizes.data)[image]

    cdef dict read(self, IntLists lists, int32_t row, const int64_t* sizes):
        """Image name to (bytes by `sizes`, nodes), of a row of lists like `held`."""
        cdef int32_t at
        cdef int32_t* pairs
        out = {}
        lists.reserve(row + 1)
        pairs = lists.items(row)
        for at in range(0, lists.size(row), 2):
            out[self.names.names[pairs[at]]] = sizes[pairs[at]], pairs[at + 1]
        return out


cdef int _count(ImageStates images, int32_t image, int32_t change) except -1:
    images.counts.touch(image)
    (<int32_t*>images.counts.data)[image] += change
    images.epoch += 1


def normalized_image_name(str name not None):
    """An image name with ":latest" where it has neither tag nor digest (image_locality.go)."""
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"
