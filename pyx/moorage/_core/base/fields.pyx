"""Attribute reads that cache the offset of a slot.

A loop over many pods reads the same attributes of each pod. For a type with ``__slots__`` the offset of an
attribute is a constant; caching it saves the lookup of the descriptor.
"""

from types import MemberDescriptorType

cdef extern from "structmember.h":  # CPython's
    ctypedef struct PyMemberDef:
        Py_ssize_t offset

cdef extern from "Python.h":
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member


cdef class Field:
    """A reader of one attribute, with its offset in the type of the object that was read last.

    Parameters
    ----------
    name : str
        The name of the attribute.
    """

    def __cinit__(self, str name not None):
        self.name = name

    cdef object _resolve(self, object holder):
        """Return the attribute of `holder` by ordinary lookup, and cache its offset if it is a slot."""
        kind = type(holder)
        descriptor = getattr(kind, self.name, None)
        # Only plain slots are cached; a property or a custom __getattribute__ runs at every read.
        if isinstance(descriptor, MemberDescriptorType) and kind.__getattribute__ is object.__getattribute__:
            self.kind = None
            self.offset = (<PyMemberDescrObject*>descriptor).d_member.offset
            self.kind = kind
        return getattr(holder, self.name)


METADATA, UID, DELETION_TIMESTAMP = Field("metadata"), Field("uid"), Field("deletion_timestamp")
SPEC, NODE_NAME = Field("spec"), Field("node_name")
NAMESPACE, ANNOTATIONS, STATUS = Field("namespace"), Field("annotations"), Field("status")
RESOURCES, ALLOCATED_RESOURCES = Field("resources"), Field("allocated_resources")
CONTAINER_STATUSES, INIT_CONTAINER_STATUSES = Field("container_statuses"), Field("init_container_statuses")
