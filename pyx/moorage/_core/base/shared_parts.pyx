"""What many objects share: values that are decoded once per text, and what is made of a part once."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcmp

cdef extern from "string.h" nogil:
    void* memmem(const void* text, size_t length, const void* part, size_t size)

cdef enum:
    MOST_PARTS = 1 << 10  # as each object may have a part of its own
    MOST_RANDOM = 16  # letters and digits after the prefix of the name of a token's volume

cdef bytes NODE = b'"nodeName"', HOST = b'"hostname"', TOKEN = b'"kube-api-access-'
# No characters of JSON, so that no text has them.
cdef bytes NODE_MARK = b"\1", HOST_MARK = b"\2", TOKEN_MARK = b'"\3"'


cdef class SharedTexts:
    """Decoded values of one type by their JSON text.

    Parameters
    ----------
    decode : callable
        Makes a value of a text.
    most : int
        Size in bytes of the texts that are remembered.
    """

    cdef object decode
    cdef dict values
    cdef Py_ssize_t most, room
    cdef bytes latest_text  # most objects have the parts of the previous one
    cdef object latest

    def __cinit__(self, decode, Py_ssize_t most):
        self.decode, self.values, self.most, self.room = decode, {}, most, most

    def __getitem__(self, text):
        """Return the value of a text, which is decoded if it is new.

        Parameters
        ----------
        text : bytes or Raw
        """
        cdef Py_buffer view
        cdef bytes key = self.latest_text
        PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
        try:
            if key is not None and len(key) == view.len and not memcmp(<char*>key, view.buf, view.len):
                return self.latest
            key = PyBytes_FromStringAndSize(<char*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        value = self.values.get(key)
        if value is None:
            value = self.decode(key)
            self.put(key, value)
        self.latest_text, self.latest = key, value
        return value

    cpdef object get(self, bytes text):
        """Return the value of a text, None if there is none."""
        return self.values.get(text)

    cpdef int put(self, bytes text, value) except -1:
        """Remember the value of a text; it is not None."""
        self.room -= len(text)
        if self.room < 0:
            self.values.clear()
            self.room = self.most - len(text)
        self.values[text] = value


def cut(bytes text not None):
    """Replace the strings of a pod's spec that an API server changes from pod to pod by marks: the first
    ``nodeName`` and ``hostname``, and the name of the volume ``kube-api-access-…``.

    Parameters
    ----------
    text : bytes
        The spec as JSON text. Only strings without escapes are replaced, which are the text that they stand
        for.

    Returns
    -------
    key : bytes
        The spec with marks.
    varying : tuple of bytes
        Node name, host name, and the name of the volume in quotes; empty where there is none.
    """
    cdef list varying = []
    text = _cut_value(text, NODE, NODE_MARK, varying)
    text = _cut_value(text, HOST, HOST_MARK, varying)
    cdef const char* start = text
    cdef const char* end = start + len(text)
    cdef const char* at = <const char*>memmem(start, len(text), <char*>TOKEN, len(TOKEN))
    cdef const char* first
    cdef bytes token = b""
    if at != NULL:
        first = at + len(TOKEN)
        while first < end and (c"a" <= first[0] <= c"z" or c"0" <= first[0] <= c"9"):
            first += 1
        if 0 < first - at - len(TOKEN) <= MOST_RANDOM and first < end and first[0] == c'"':
            token = at[: first + 1 - at]
            text = text.replace(token, TOKEN_MARK)
    varying.append(token)
    return text, tuple(varying)


cdef bytes _cut_value(bytes text, bytes name, bytes mark, list varying):
    """Replace the value of the first field of a name by a mark, and append it to `varying`."""
    cdef const char* start = text
    cdef const char* end = start + len(text)
    cdef const char* at = <const char*>memmem(start, len(text), <char*>name, len(name))
    cdef const char* last
    if at != NULL:
        at = _after_spaces(at + len(name), end)
        if at < end and at[0] == c":":
            at = _after_spaces(at + 1, end)
            if at < end and at[0] == c'"':
                at += 1
                last = at
                while last < end and c" " <= last[0] <= c"~" and last[0] != c'"' and last[0] != c"\\":
                    last += 1
                if last > at and last < end and last[0] == c'"':
                    varying.append(at[: last - at])
                    return text[: at - start] + mark + text[last - start :]
    varying.append(b"")
    return text


cdef inline const char* _after_spaces(const char* at, const char* end) noexcept nogil:
    """The first character that is no white space."""
    while at < end and (at[0] == c" " or c"\t" <= at[0] <= c"\r"):
        at += 1
    return at


def insert(bytes key, tuple varying):
    """Return the text of which `cut` makes a key and varying strings."""
    for mark, value in zip((NODE_MARK, HOST_MARK, TOKEN_MARK), varying, strict=True):
        key = key.replace(mark, value)
    return key


cdef class PartMemo:
    """Remembers what a function makes of a part that many objects share, such as the labels of a template,
    and of texts. A part is known by its address, which it keeps while it is remembered.

    Parameters
    ----------
    make : callable
        Called with a part and texts.
    """

    cdef object make
    cdef dict known
    cdef object part, value  # of the latest call, as most objects have the parts of the previous one
    cdef tuple texts

    def __cinit__(self, make):
        self.make, self.known = make, {}

    def __call__(self, part, *texts):
        """Return what the function makes of a part and texts."""
        if part is self.part and self.texts == texts:
            return self.value
        key = (<size_t><void*>part, texts)
        known = self.known.get(key)
        if known is None:
            if len(self.known) >= MOST_PARTS:
                self.known.clear()
            known = self.known[key] = part, self.make(part, *texts)
        self.part, self.texts, self.value = part, texts, known[1]
        return self.value
