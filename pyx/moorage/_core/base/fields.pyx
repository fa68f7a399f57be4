"""Reading attributes of struct-like objects at their offset, where the type has them in slots.

What an operation on many pods reads of each one costs less than looking up the descriptor again and again.
"""

from types import MemberDescriptorType

cdef extern from "structmember.h":  # of Python
    ctypedef struct PyMemberDef:
        Py_ssize_t offset

cdef extern from "Python.h":
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member


cdef class Field:
    """One attribute, of the type that was seen last."""

    def __cinit__(self, str name not None):
        self.name = name

    cdef object _resolve(self, object holder):
        kind = type(holder)
        found = getattr(kind, self.name, None)
        # Slots hold objects; what else a descriptor or the type may do, it is asked for each time.
        if isinstance(found, MemberDescriptorType) and kind.__getattribute__ is object.__getattribute__:
            self.kind = None
            self.offset = (<PyMemberDescrObject*>found).d_member.offset
            self.kind = kind
        return getattr(holder, self.name)


METADATA, UID, DELETION_TIMESTAMP = Field("metadata"), Field("uid"), Field("deletion_timestamp")
SPEC, NODE_NAME = Field("spec"), Field("node_name")
NAMESPACE, ANNOTATIONS, STATUS = Field("namespace"), Field("annotations"), Field("status")
RESOURCES, ALLOCATED_RESOURCES = Field("resources"), Field("allocated_resources")
CONTAINER_STATUSES, INIT_CONTAINER_STATUSES = Field("container_statuses"), Field("init_container_statuses")
