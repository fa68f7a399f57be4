"""Which pods use volumes that scheduling reads."""

from moorage._core.base.fields cimport SPEC, Field

cdef Field VOLUMES = Field("volumes")
cdef tuple SOURCES = tuple([
    Field(name)
    for name in (
        "persistent_volume_claim", "ephemeral", "gce_persistent_disk", "aws_elastic_block_store",
        "azure_disk", "cinder", "iscsi", "rbd", "csi",
    )
])


cpdef bint uses_volumes(object pod) except -1:
    """Whether a pod has a volume that a plugin about volumes reads: a claim or a disk. Config maps, secrets
    and the like are none."""
    cdef object volume, source
    for volume in VOLUMES.of(SPEC.of(pod)):
        for source in SOURCES:
            if (<Field>source).of(volume) is not None:
                return True
    return False
