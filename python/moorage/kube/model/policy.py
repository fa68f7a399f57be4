"""What restricts pods: limit ranges, quotas, runtime classes, disruption budgets, admission plugins."""

from .meta import Int32, LabelSelector, Object, Resources, Struct
from .pod import Toleration

# ---- disruption budgets ------------------------------------------------------------------------------------

ALWAYS_ALLOW = "AlwaysAllow"


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """Spec of a disruption budget."""

    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """Status of a disruption budget.

    `disrupted_pods` are pods that are being evicted and no longer count, by name, with the time of their
    eviction.
    """

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    disrupted_pods: dict[str, str] = {}


NO_STATUS = PodDisruptionBudgetStatus()
"""Identifies (by ``is``) a status that was omitted: all zero, which allows no disruption."""


class PodDisruptionBudget(Object, frozen=True):
    """A pod disruption budget."""

    kind: str = "PodDisruptionBudget"
    api_version: str = "policy/v1"
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = NO_STATUS


KINDS = (PodDisruptionBudget,)
"""The kinds of this module that files are decoded to."""


# ---- admission policies ------------------------------------------------------------------------------------
#
# The kinds that admission reads.


class LimitRangeItem(Struct, frozen=True):
    """Limits and defaults of one type of objects: Container, Pod or PersistentVolumeClaim."""

    type: str = ""
    max: Resources = {}
    min: Resources = {}
    default: Resources = {}
    default_request: Resources = {}
    max_limit_request_ratio: Resources = {}


class LimitRangeSpec(Struct, frozen=True):
    """Spec of a limit range."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object, frozen=True):
    """Limits and defaults of the resources of a namespace's pods."""

    kind: str = "LimitRange"
    api_version: str = "v1"
    spec: LimitRangeSpec = LimitRangeSpec()


class ScopedResourceSelectorRequirement(Struct, frozen=True):
    """A requirement on the scope of a pod."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct, frozen=True):
    """Requirements on the scope of a pod, of which it must meet all."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True):
    """Spec of a resource quota."""

    hard: Resources = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct, frozen=True):
    """Status of a resource quota: what is used of it."""

    used: Resources = {}


class ResourceQuota(Object, frozen=True):
    """The sum of resources that the objects of a namespace may have."""

    kind: str = "ResourceQuota"
    api_version: str = "v1"
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class Overhead(Struct, frozen=True):
    """Resources that a pod of a runtime class takes beside those of its containers."""

    pod_fixed: Resources = {}


class RuntimeClassScheduling(Struct, frozen=True):
    """The nodes on which a runtime class runs."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Object, frozen=True):
    """A container runtime."""

    kind: str = "RuntimeClass"
    api_version: str = "node.k8s.io/v1"
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: RuntimeClassScheduling | None = None


class SchedulerSpec(Struct, frozen=True):
    """The part of OpenShift's configuration of its scheduler that admission reads."""

    default_node_selector: str = ""


class Scheduler(Object, frozen=True):
    """OpenShift's configuration of its scheduler, with the node selector of projects that have none."""

    kind: str = "Scheduler"
    api_version: str = "config.openshift.io/v1"
    spec: SchedulerSpec = SchedulerSpec()


class AdmissionPlugins(Object, frozen=True):
    """Admission plugins of the API server that are on besides the default ones, or off, the namespaces and
    runtime classes that PodSecurity does not look at, and who makes a change; "" is an administrator.

    Attributes
    ----------
    pod : str
        The pod of kube-apiserver whose options these are; others count in their place.
    config_file : str
        The option ``--admission-control-config-file`` of this pod.
    unknown : tuple of str
        Further plugins that it names.
    """

    kind: str = "AdmissionPlugins"
    api_version: str = "admission.moorage.dev/v1"
    plugins: tuple[str, ...] = ()
    disabled_plugins: tuple[str, ...] = ()
    exempt_namespaces: tuple[str, ...] = ()
    exempt_runtime_classes: tuple[str, ...] = ()
    user: str = ""
    groups: tuple[str, ...] = ()
    pod: str = ""
    config_file: str = ""
    unknown: tuple[str, ...] = ()


ADMISSION_KINDS = (LimitRange, ResourceQuota, RuntimeClass, Scheduler, AdmissionPlugins)
"""The kinds of this module that files are decoded to."""
