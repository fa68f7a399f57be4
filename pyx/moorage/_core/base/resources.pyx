"""Names of resources that are accounted for, and the effective requests of a pod.

The rules are those of kube-scheduler v1.36: component-helpers resource.PodRequests, NodeInfo
calculateResource, resource_allocation.go. Sums are exact quantities, rounded once at the end.
"""

from collections import namedtuple

from moorage._core.base.quantity import Quantity

from moorage._core.base.quantity cimport compared, parse

PodGates = namedtuple(
    "PodGates",
    "pod_level_resources pod_level_resizing comparison_operators match_label_keys node_allocatable_claims "
    "resizes_by_sums image_volumes namespaces_by_value scores_effective_requests "
    "empty_selectors_spread budgets_select_as_written victims_tie_by_uid quantities_saturate sums_saturate",
    defaults=(True, True, False, True, False, False, "size", True, *[False] * 6), module=__name__,
)

DEFAULT_GATES = PodGates()
CONTAINERS_ALONE = PodGates(pod_level_resources=False)

DEFAULT_MILLI_CPU = Quantity("100m")
DEFAULT_MEMORY = Quantity("200Mi")
ZERO = Quantity("0")
NON_ZERO = {"cpu": DEFAULT_MILLI_CPU, "memory": DEFAULT_MEMORY}

cdef enum:
    DESIRED    # the requests of the spec
    ALLOCATED  # those that the kubelet has admitted
    ACTUATED   # those that the containers run with
    MAXIMUM    # the maximum of the three, container by container


def is_counted(str name not None):
    """Whether a resource other than cpu, memory and pods is accounted for.

    These are ephemeral-storage, extended resources, huge pages, attachable volumes and the resources with a
    kubernetes.io/ prefix (kube-scheduler v1.36, Resource.Add and util.IsScalarResourceName).

    Parameters
    ----------
    name : str
        The name of a resource.

    Returns
    -------
    bool
    """
    if name == "ephemeral-storage":
        return True
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.")


cdef dict _parsed(resources):
    """Return the quantities of a resource list, by resource name."""
    return {name: parse(raw) for name, raw in resources.items()}


cdef int _add(dict total, dict more) except -1:
    """Add the quantities of `more` to `total`, in place."""
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


cdef int _maximum(dict total, dict other) except -1:
    """Raise each quantity of `total` to that of `other` where this is larger, in place."""
    for name, quantity in other.items():
        if name not in total:
            total[name] = quantity
        elif quantity > total[name]:
            total[name] = compared(quantity, total[name])


def is_infeasible(pod):
    """Whether the kubelet has rejected the pending resize of a pod as infeasible.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    bool
    """
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


cdef dict _resized(pod, dict requests, dict actuated, dict allocated):
    """Return the maximum of actuated, allocated and, unless the resize is infeasible, desired requests."""
    held = _parsed(actuated)
    _maximum(held, _parsed(allocated))
    if not is_infeasible(pod):
        _maximum(held, requests)
    return held


cdef dict _container_requests(pod, container, status, int counted):
    """Return the requests of a container. With MAXIMUM a resize in progress counts at its maximum."""
    if counted == DESIRED or (counted == MAXIMUM and status is None):
        return _parsed(container.resources.requests)
    if counted == MAXIMUM:
        requests = _parsed(container.resources.requests)
        if status.resources is None:
            return requests
        return _resized(pod, requests, status.resources.requests, status.allocated_resources)
    if status is not None:
        if counted == ACTUATED and status.resources is not None and status.resources.requests:
            return _parsed(status.resources.requests)
        if status.allocated_resources:
            return _parsed(status.allocated_resources)
    return {} if is_infeasible(pod) else _parsed(container.resources.requests)


cdef dict _sum_of_containers(pod, dict missing, dict statuses, int counted, bint sidecars_alone):
    """Return the maximum of the sum over containers and sidecars and of what each init container needs
    together with the sidecars started before it. `sidecars_alone`: statuses of other init containers do not
    count."""
    total, sidecars, init = {}, {}, {}
    for container in pod.spec.containers:
        requests = _container_requests(pod, container, statuses.get(container.name), counted)
        _default(requests, missing)
        _add(total, requests)
    for container in pod.spec.init_containers:
        is_sidecar = container.restart_policy == "Always"
        status = statuses.get(container.name) if is_sidecar or not sidecars_alone else None
        requests = _container_requests(pod, container, status, counted)
        _default(requests, missing)
        if is_sidecar:
            _add(total, requests)
            _add(sidecars, requests)
            requests = sidecars
        else:
            _add(requests, sidecars)
        _maximum(init, requests)
    _maximum(total, init)
    return total


cdef int _default(dict requests, dict missing) except -1:
    """Add the requests that a container does not set, in place."""
    for name, quantity in missing.items():
        requests.setdefault(name, quantity)


cdef dict _claims_of(pod):
    """Return what devices take of the node, by the status."""
    total = {}
    for status in pod.status.node_allocatable_resource_claim_statuses:
        _add(total, _parsed(status.resources))
    return total


cdef dict _by_sums(pod, dict missing, dict statuses, bint pod_resizes):
    """Return the maximum of the sums of desired, allocated and actuated requests; desired ones do not count
    if the resize is infeasible. Values of the pod's own status replace the sums."""
    status = pod.status
    if pod_resizes and status.allocated_resources and status.resources is not None \
            and status.resources.requests:
        total = _parsed(status.resources.requests)
        _maximum(total, _parsed(status.allocated_resources))
    else:
        total = _sum_of_containers(pod, missing, statuses, ACTUATED, False)
        _maximum(total, _sum_of_containers(pod, missing, statuses, ALLOCATED, False))
    if not is_infeasible(pod):
        _maximum(total, _sum_of_containers(pod, missing, statuses, DESIRED, False))
    return total


def pod_requests(pod, gates=None, dict missing=None, bint resizes=True, bint claims=False):
    """Return the effective requests of a pod.

    For each resource: the maximum of the sum over containers and sidecars and of what each init container
    needs together with the sidecars started before it; a pod-level request replaces this maximum; the
    overhead is added (component-helpers v0.36, resource.PodRequests).

    Parameters
    ----------
    pod : Pod
    gates : PodGates, optional
        Of them `pod_level_resources` says whether spec.resources counts, `pod_level_resizing` whether resizes
        of it do, and `resizes_by_sums` whether a resize in progress counts by the sums over the containers
        (component-helpers v0.37) and not container by container (v0.36).
    missing : dict of str to Quantity, optional
        Requests of a container that does not set the resource.
    resizes : bool, default True
        Whether the resizes in progress that the status reports count. They do not when the scheduler computes
        what a pending pod needs (fit.go, computePodResourceRequest).
    claims : bool, default False
        Whether what devices take of the node, by the status, is added to the containers' (the feature gate
        DRANodeAllocatableResources).

    Returns
    -------
    dict of str to Quantity
        By resource name.
    """
    gates, missing = gates or DEFAULT_GATES, missing or {}
    statuses = {}
    if resizes:
        statuses = {s.name: s for s in pod.status.init_container_statuses}
        statuses.update({s.name: s for s in pod.status.container_statuses})
    if gates.resizes_by_sums and resizes:
        total = _by_sums(pod, missing, statuses, gates.pod_level_resizing)
    else:
        total = _sum_of_containers(pod, missing, statuses, MAXIMUM, True)
    if claims:
        _add(total, _claims_of(pod))
    if gates.pod_level_resources:
        resized = resizes and gates.pod_level_resizing
        total.update(pod_level_requests(pod, resized, gates.resizes_by_sums))
    _add(total, _parsed(pod.spec.overhead))
    return total


cdef bint _is_pod_level(str name) noexcept:
    """Whether spec.resources of a pod may have a resource."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def pod_level_requests(pod, bint resizes=False, bint by_sums=False):
    """Return the requests of spec.resources for cpu, memory and huge pages.

    Parameters
    ----------
    pod : Pod
    resizes : bool, default False
        Whether a resize in progress counts, at the maximum of desired, allocated and actuated requests. It
        does where status.resources is set, for the resources that spec.resources requests.
    by_sums : bool, default False
        Whether resources of the status count that spec.resources does not request, as since v1.37.

    Returns
    -------
    dict of str to Quantity
        By resource name; empty for a pod without pod-level requests.
    """
    if pod.spec.resources is None:
        return {}
    requests = {
        name: amount for name, amount in _parsed(pod.spec.resources.requests).items()
        if _is_pod_level(name)
    }
    resources = pod.status.resources
    if not resizes or resources is None:
        return requests
    held = _resized(pod, requests, resources.requests, pod.status.allocated_resources)
    if by_sums:
        return {name: held[name] for name in held if _is_pod_level(name)} if requests else {}
    return {name: held.get(name, ZERO) for name in requests}


def nonzero_requests(pod, dict requests not None, gates=None):
    """Return what a placed pod adds to NonZeroRequested of its node.

    A container without a request counts as requesting 100m of cpu and 200Mi of memory. In a pod with
    pod-level requests this applies only to a resource that the effective requests of the pod lack
    (kube-scheduler v1.36, NodeInfo calculateResource).

    Parameters
    ----------
    pod : Pod
    requests : dict of str to Quantity
        The effective requests of the pod, from `pod_requests`.
    gates : PodGates, optional
        As for `pod_requests`; what devices take counts with `node_allocatable_claims`.

    Returns
    -------
    dict of str to Quantity
        By resource name.
    """
    gates, missing = gates or DEFAULT_GATES, NON_ZERO
    if gates.pod_level_resources and pod_level_requests(pod):
        missing = {name: quantity for name, quantity in NON_ZERO.items() if name not in requests}
    if not missing:
        return requests
    return pod_requests(pod, gates, missing, claims=gates.node_allocatable_claims)
