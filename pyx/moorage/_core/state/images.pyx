"""Images of the nodes: for each image the number of nodes that have it, and its size.

The size is the one that the first node reported, for as long as any node has the image (kube-scheduler v1.36,
cache.go addNodeImageStates). v1.13 records the number of nodes of an image when a node is set (`held`); v1.36
records it when the row of a node is copied to the snapshot (`View`).
"""


cdef class ImageStates:
    """Numbers of nodes and sizes by image id.

    Parameters
    ----------
    journal : Journal
        Records the changes.

    Attributes
    ----------
    names : Symbols
        The image names; their symbols are the image ids.
    """

    def __cinit__(self, Journal journal not None):
        self.journal = journal
        self.names = Symbols()
        self.counts = Buffer(journal, sizeof(int32_t), 64)
        self.sizes = Buffer(journal, sizeof(int64_t), 64)
        self.held = IntLists(journal)

    cdef ImageStates clone(self, Journal journal):
        """Return an independent copy that shares the image ids."""
        cdef ImageStates out = ImageStates(journal)
        out.names = self.names
        out.counts.copy_from(self.counts)
        out.sizes.copy_from(self.sizes)
        out.epoch = self.epoch
        out.held = self.held.clone(journal)
        return out

    cdef int sync(self) except -1:
        """Make room for images that forks have added to the shared ids."""
        self.counts.reserve(len(self.names.names))
        self.sizes.reserve(len(self.names.names))

    cpdef int32_t image(self, str name) except -1:
        """Return the id of an image name, adding it if it is new.

        Parameters
        ----------
        name : str
            Used as it is; names that nodes report are not normalized.

        Returns
        -------
        int
        """
        cdef int32_t image = self.names.intern(name)
        self.sync()
        return image

    cdef int set_row(self, int32_t row, object reported) except -1:
        """Replace the images of a row by those of status.images (empty for a node that was removed)."""
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
                self.sizes.int64()[image] = size
            _count(self, image, 1)
            self.held.append(row, image)
            self.held.append(row, self.nodes(image))

    def state(self, str name not None):
        """Return the number of nodes that have an image, and its size.

        Parameters
        ----------
        name : str

        Returns
        -------
        tuple of (int, int) or None
            (nodes, size in bytes); None if no node has the image.
        """
        cdef int32_t image = self.names.find(name)
        self.sync()
        if image == 0 or self.nodes(image) == 0:
            return None
        return self.nodes(image), self.sizes.int64()[image]

    cdef dict read(self, IntLists lists, int32_t row, const int64_t* sizes):
        """Return image name to (bytes from `sizes`, number of nodes) for a row of lists like `held`."""
        cdef int32_t at
        cdef int32_t* pairs
        out = {}
        lists.reserve(row + 1)
        pairs = lists.items(row)
        for at in range(0, lists.size(row), 2):
            out[self.names.names[pairs[at]]] = sizes[pairs[at]], pairs[at + 1]
        return out


cdef int _count(ImageStates images, int32_t image, int32_t change) except -1:
    """Add `change` to the number of nodes that have an image."""
    images.counts.touch(image)
    images.counts.int32()[image] += change
    images.epoch += 1


def normalized_image_name(str name not None):
    """Return an image name with ":latest" appended if it has neither tag nor digest.

    The rule is that of kube-scheduler v1.36, image_locality.go normalizedImageName.

    Parameters
    ----------
    name : str

    Returns
    -------
    str
    """
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"
