"""Functions of a pod's fields: the key of its shape, whether an update only binds it, the nodes it names."""

import msgspec

from moorage._core.base.resources import is_infeasible

from moorage._core.base cimport (
    ANNOTATIONS, CONTAINER_STATUSES, INIT_CONTAINER_STATUSES, METADATA, NAMESPACE,
    NODE_NAME, RESOURCES, SPEC, STATUS, VOLUMES, Field, Fields,
)

NODE_NAME_FIELD = "metadata.name"
cdef tuple VOLUME_SOURCES = tuple([
    Field(name)
    for name in (
        "persistent_volume_claim", "ephemeral", "gce_persistent_disk", "aws_elastic_block_store",
        "azure_disk", "cinder", "portworx_volume", "azure_file", "vsphere_volume", "iscsi", "rbd", "csi",
    )
])

cdef Field SCHEDULING_GROUP = Field("scheduling_group")
cdef Field RESOURCE_CLAIMS = Field("resource_claims")
cdef Field CONDITIONS = Field("conditions")
cdef Field NODE_ALLOCATABLE_CLAIMS = Field("node_allocatable_resource_claim_statuses")
cdef Fields SPEC_FIELDS = Fields("node_name")
cdef tuple CLASS_METADATA = (NAMESPACE, Field("labels"), ANNOTATIONS, Field("owner_references"))

replace = msgspec.structs.replace
encode = msgspec.msgpack.Encoder().encode


cpdef tuple resized(object pod):
    """Return the part of the status that affects effective requests: resizes of resources, and what devices
    take of the node.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    tuple
        Empty for a pod without either; else (statuses of containers with resources or allocatedResources,
        status.resources, status.allocatedResources, whether a pending resize is infeasible,
        status.nodeAllocatableResourceClaimStatuses).
    """
    status = STATUS.of(pod)
    whole = RESOURCES.of(status) is not None
    containers, init_containers = CONTAINER_STATUSES.of(status), INIT_CONTAINER_STATUSES.of(status)
    claims, conditions = NODE_ALLOCATABLE_CLAIMS.of(status), CONDITIONS.of(status)
    if not (whole or containers or init_containers or claims or conditions):
        return ()
    statuses = (*containers, *init_containers)
    held = [s for s in statuses if s.resources is not None or s.allocated_resources]
    infeasible = is_infeasible(pod)
    if not (held or whole or claims or infeasible):
        return ()
    return held, status.resources, status.allocated_resources, infeasible, claims


def spec_key(pod, held=None):
    """Return a key that is equal only for pods whose shapes are equal but for their namespaces.

    Of the volumes, a shape contains only image volumes: pods that differ in their claims share a shape. So do
    pods of different groups.

    Parameters
    ----------
    pod : Pod
    held : tuple, optional
        `resized` of the pod, where it is known.

    Returns
    -------
    bytes
    """
    spec = SPEC.of(pod)
    if VOLUMES.of(spec):
        images = tuple([volume for volume in spec.volumes if volume.image is not None])
        spec = replace(spec, node_name="", scheduling_group=None, volumes=images)
    elif NODE_NAME.of(spec) or SCHEDULING_GROUP.of(spec) is not None:
        spec = replace(spec, node_name="", scheduling_group=None)
    return encode((spec, resized(pod) if held is None else held))


def bound(pod, str node_name not None):
    """Return a pod with spec.nodeName set.

    The ledger holds pods as they were before binding; this creates the bound object when it is read. The
    class that the pod object stores is copied, since it does not depend on the node.

    Parameters
    ----------
    pod : Pod
    node_name : str

    Returns
    -------
    Pod
    """
    if pod.spec.node_name == node_name:
        return pod
    out = replace(pod, spec=replace(pod.spec, node_name=node_name))
    known = getattr(pod, "interned", None)
    if known is not None:
        msgspec.structs.force_setattr(out, "interned", known)
    return out


cpdef bint is_only_bound(pod, reported) except -1:
    """Whether a later state of a pod differs from it in no field that its class depends on, except the node.

    Parameters
    ----------
    pod, reported : Pod
        The earlier and the later state.

    Returns
    -------
    bool
    """
    cdef Field field
    meta, now, before, spec = METADATA.of(pod), METADATA.of(reported), SPEC.of(pod), SPEC.of(reported)
    for field in CLASS_METADATA:
        if field.of(meta) is not field.of(now) and field.of(meta) != field.of(now):
            return False
    if not SPEC_FIELDS.are_same(before, spec) and replace(before, node_name=NODE_NAME.of(spec)) != spec:
        return False
    return STATUS.of(pod) is STATUS.of(reported) or resized(pod) == resized(reported)


def pinned_node(spec):
    """Return the node that required node affinity pins a pod to by matchFields, as for DaemonSet pods.

    Only the form that the DaemonSet controller writes counts: one term, whose only field requirement is
    metadata.name In [one name].

    Parameters
    ----------
    spec : PodSpec

    Returns
    -------
    str or None
        The name of the node.
    """
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or affinity.required is None or len(affinity.required.node_selector_terms) != 1:
        return None
    fields = affinity.required.node_selector_terms[0].match_fields
    if len(fields) != 1 or fields[0].key != NODE_NAME_FIELD or fields[0].operator != "In":
        return None
    return fields[0].values[0] if len(fields[0].values) == 1 else None


def required_node_names(spec):
    """Return the node names that required node affinity restricts the search to.

    They are known only if each term has a field requirement metadata.name In (kube-scheduler v1.36,
    node_affinity.go PreFilter).

    Parameters
    ----------
    spec : PodSpec

    Returns
    -------
    frozenset of str or None
        None for no restriction.
    """
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or affinity.required is None or not affinity.required.node_selector_terms:
        return None
    names = set()
    for term in affinity.required.node_selector_terms:
        fields = [set(f.values) for f in term.match_fields if f.key == NODE_NAME_FIELD and f.operator == "In"]
        if not fields:
            return None
        names |= set.intersection(*fields)
    return frozenset(names)


cpdef bint uses_volumes(object pod) except -1:
    """Whether a pod has a volume that a volume plugin reads (a claim, a disk or a CSI volume), or a resource
    claim.

    Config maps, secrets, emptyDir and the like do not count.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    bool
    """
    cdef object volume, source, spec = SPEC.of(pod)
    if RESOURCE_CLAIMS.of(spec):
        return True
    for volume in VOLUMES.of(spec):
        for source in VOLUME_SOURCES:
            if (<Field>source).of(volume) is not None:
                return True
    return False
