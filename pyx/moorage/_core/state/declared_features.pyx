"""Declared features: what nodes list in status.declaredFeatures, and what pods need of them.

Only the features that kube-scheduler v1.36 infers for scheduling count (component-helpers,
nodedeclaredfeatures/features). Others are about updates of running pods, which the API server checks.
"""

from moorage._core.base cimport SPEC, STATUS, Field
from moorage._core.csrc cimport (
    MR_PRESENT, MR_RESTARTS_ALL_CONTAINERS, MR_UNSCHEDULABLE, MR_USERS_IN_HOST_NETWORK,
)

cdef Field UNSCHEDULABLE = Field("unschedulable"), DECLARED_FEATURES = Field("declared_features")

RESTART_ALL = "RestartAllContainersOnContainerExits"
USERS_IN_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
cdef dict FLAGS = {
    RESTART_ALL: MR_RESTARTS_ALL_CONTAINERS,
    USERS_IN_HOST_NETWORK: MR_USERS_IN_HOST_NETWORK,
}


cpdef tuple required_features(spec):
    """Return the declared features that a pod needs of its node.

    Parameters
    ----------
    spec : PodSpec

    Returns
    -------
    tuple of str
        Sorted.
    """
    needs = []
    for container in (*spec.containers, *spec.init_containers):
        if RESTART_ALL not in needs and container.restart_policy_rules:
            if any([rule.action == "RestartAllContainers" for rule in container.restart_policy_rules]):
                needs.append(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        needs.append(USERS_IN_HOST_NETWORK)
    return tuple(needs)


cdef uint32_t feature_flags(object names) except? 1:
    """The flags of features by name (csrc/state.h, MR_FEATURES). Unknown features have none."""
    cdef uint32_t flags = 0
    for name in names:
        flags |= <uint32_t>FLAGS.get(name, 0)
    return flags


cdef uint32_t node_flags(object node) except? 1:
    """The flags of a row that has a node."""
    cdef uint32_t unschedulable = MR_UNSCHEDULABLE if UNSCHEDULABLE.of(SPEC.of(node)) else 0
    return MR_PRESENT | unschedulable | feature_flags(DECLARED_FEATURES.of(STATUS.of(node)))
