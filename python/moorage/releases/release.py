"""What a Kubernetes release is for decisions: a record of data and named behaviours.

Code reads a behaviour where it matters; no other module compares versions. `RELEASES` has a whole record for
each release, and docs/releases.md is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT = "1.36"
"""The release that decides where none is named, and nothing else tells one."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of kube-scheduler.

    The docstring of each behaviour is its row in docs/releases.md.

    Attributes
    ----------
    version : str
        Minor version, for example "1.36".
    patch : str
        The patch release that is followed, for example "v1.36.3".
    tie_break : str
        Choice among nodes of equal score: by the seed, or as the heap of batching has it.
    plugins : tuple of str
        Classes of the in-tree plugins, in the default MultiPoint order.
    extension_points : tuple of str
        Extension points of a configuration that not all releases have.
    refused_gates : frozenset of str
        Gates that can only keep their default here.
    scheme : str
        Where upstream's errors say that kinds of configurations are registered.
    balance_by_change : bool
        NodeResourcesBalancedAllocation scores how the pod changes the balance of a node, not the balance with
        the pod.
    image_volumes : str
        ImageLocality and image volumes: "" (not scored), "size" (their size counts), or "count" (they count
        as containers do).
    resizes_by_sums : bool
        A resize in progress counts by the maximum of the sums of desired, allocated and actuated requests,
        not by the sum of the maxima container by container.
    claims_without_help_are_told : bool
        PostFilter of DynamicResources tells every pod that fits nowhere "no new claims to deallocate" or
        "still not schedulable".
    taints_wake_for_new_nodes : bool
        A change of a node's taints wakes pods that plugins rejected which registered new nodes alone.
    empty_nominations_are_kept : bool
        A nomination that was withdrawn is kept as one to no node.
    gated_pods_are_nominated : bool
        Pods that PreEnqueue gates count on the node that their status nominates.
    any_anti_affinity_term_wakes : bool
        A pod that goes, or changes its labels, wakes those whose anti-affinity it matched in one of the
        terms, not only in all.
    affinity_wakes_both_ways : bool
        A change of its own labels, the deletion of a pod whose anti-affinity it matches, and pods that are
        only nominated wake a pod that InterPodAffinity rejected.
    all_drivers_are_needed : bool
        With VolumeLimitScaling, volumes of each CSIDriver need nodes that have it, not only those of drivers
        with preventPodSchedulingIfMissing.
    bindings_end_nominations : bool
        The binding of a pod whose status nominates a node wakes pods of at most its priority.
    assumed_pods_end_with_termination : bool
        A pod that is not bound yet gives its place back when its deletion begins, not when it is gone.
    gated_pods_time_out : bool
        Pods that PreEnqueue gates are asked again after five minutes, and then wait as long again. Before,
        they stay, and their timeout is an event each time that the queue is looked at.
    budgets_stop_at_violation : bool
        A pod counts against no PodDisruptionBudget after the first that its eviction violates, in the order
        of the list; before, against all of its budgets.
    preemptors_are_told : bool
        The message of a pod that evicts others says from which node and how many: "found a potential
        placement for pod on node n1, preempting 1 victims".
    pod_events_name_target : bool
        Events of pods without a node are those of an UnscheduledPod, updates of the waiting pod itself those
        of a TargetPod, and a higher request has an event of its own; before, all are those of an
        UnschedulablePod. Plugins can register them.
    counts_entities : bool
        The metric `scheduler_queued_entities` counts queued pods and pod groups.
    namespaces_by_value : bool
        A namespaceSelector of the pod's own affinity terms that no labels satisfy (NotIn, DoesNotExist alone)
        selects every namespace.
    replaced_nodes_lose_claims : bool
        Claims of pods on a node that is replaced between two attempts are not in use, so that
        ReadWriteOncePod lets another pod have them, until the next time that nodes come or go.
    devices_are_exact : bool
        Devices are allocated as in this release. If not, they are as in the next one, whose allocator takes
        none of incomplete or invalid pools.
    slices_are_sorted : bool
        Pools and slices of devices are tried by their names where the gates DRAConsumableCapacity or
        DRADeviceBindingConditions are on; else in the order of the list.
    claims_score_together : bool
        DynamicResources cannot score the nodes of a pod if some of its claims have devices and others not:
        its attempt ends with an error if several nodes fit.
    configures_once : bool
        The allocation of a claim has each of the claim's configurations once, and not once for each request
        that it names; a configuration for all requests names none.
    counters_by_driver : bool
        Shared counters belong to a pool of a driver, and not to all pools of one name.
    counters_are_everywhere : bool
        Slices with shared counters count for every node, so that their pools do, if these are incomplete or
        invalid, for nodes without devices of them.
    distinct_from_all : bool
        distinctAttribute compares a device with all devices before it, not with the last of each request.
    all_includes_full_devices : bool
        A request for all devices fails where one of them has too little capacity left; else that one does not
        count.
    checks_amounts : bool
        A capacity request that cannot be rounded exactly, or is negative, is an error. What is taken is
        written with the suffix of the step.
    shares_without_amounts_count : bool
        A device with shares that take none of its capacity does not take its shared counters again.
    errors_name_devices : bool
        Errors of selectors name the device and may hint at optional chaining; that of a claim with too many
        devices names the request.
    attributes_are_dynamic : bool
        Expressions see attributes of devices that are lists, whatever the gate DRAListTypeAttributes, and the
        types of attributes are found when expressions run.
    last_node_is_rescored : bool
        OpportunisticBatching scores the node chosen last again where the next equal pod fits too, and keeps
        the list; pods with a nominated node do not use it.
    claim_deletion_wakes : bool
        The deletion of a claim that has devices wakes pods that DynamicResources rejected.
    in_flight_until_bound : bool
        An allocation is in flight until PreBind has succeeded, and not only until it is written; it is not if
        the claim has got one meanwhile.
    taint_rules_have_a_gate : bool
        DeviceTaintRules need the gate DRADeviceTaintRules, and not DRADeviceTaints alone.
    taint_rules_taint_all : bool
        A DeviceTaintRule without a selector taints all devices, and not none.
    """

    version: str
    patch: str
    tie_break: str
    plugins: tuple[str, ...]
    extension_points: tuple[str, ...]
    refused_gates: frozenset[str]
    scheme: str
    balance_by_change: bool
    image_volumes: str
    resizes_by_sums: bool
    claims_without_help_are_told: bool
    taints_wake_for_new_nodes: bool
    empty_nominations_are_kept: bool
    gated_pods_are_nominated: bool
    any_anti_affinity_term_wakes: bool
    affinity_wakes_both_ways: bool
    all_drivers_are_needed: bool
    bindings_end_nominations: bool
    assumed_pods_end_with_termination: bool
    gated_pods_time_out: bool
    budgets_stop_at_violation: bool
    preemptors_are_told: bool
    pod_events_name_target: bool
    counts_entities: bool
    namespaces_by_value: bool
    replaced_nodes_lose_claims: bool
    devices_are_exact: bool
    slices_are_sorted: bool
    claims_score_together: bool
    configures_once: bool
    counters_by_driver: bool
    counters_are_everywhere: bool
    distinct_from_all: bool
    all_includes_full_devices: bool
    checks_amounts: bool
    shares_without_amounts_count: bool
    errors_name_devices: bool
    attributes_are_dynamic: bool
    last_node_is_rescored: bool
    claim_deletion_wakes: bool
    in_flight_until_bound: bool
    taint_rules_have_a_gate: bool
    taint_rules_taint_all: bool


_PLUGINS_136 = (
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
    "NodeDeclaredFeatures",
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
)
_PLUGINS_134 = tuple("DynamicResourcesNoScore" if one == "DynamicResources" else one for one in _PLUGINS_136)
_PLUGINS_137 = (
    *_PLUGINS_136[:2],
    "NodeNamePreFilter",
    "NodeUnschedulablePreFilter",
    "TaintTolerationPreFilter",
    *_PLUGINS_136[5:],
)
_GROUPS = frozenset(
    {"GangScheduling", "GenericWorkload", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"}
)
_ALPHA_137 = frozenset({"DRAListTypeAttributes", "DRANodeAllocatableResources"})

RELEASES = {
    release.version: release
    for release in (
        Release(
            version="1.34",
            patch="v1.34.4",
            tie_break="random",
            plugins=_PLUGINS_134,
            extension_points=(),
            refused_gates=_GROUPS,
            scheme="pkg/runtime/scheme.go:110",
            balance_by_change=False,
            image_volumes="",
            resizes_by_sums=False,
            claims_without_help_are_told=True,
            taints_wake_for_new_nodes=True,
            empty_nominations_are_kept=True,
            gated_pods_are_nominated=False,
            any_anti_affinity_term_wakes=False,
            affinity_wakes_both_ways=False,
            all_drivers_are_needed=False,
            bindings_end_nominations=True,
            assumed_pods_end_with_termination=False,
            gated_pods_time_out=False,
            budgets_stop_at_violation=False,
            preemptors_are_told=False,
            pod_events_name_target=False,
            counts_entities=False,
            namespaces_by_value=True,
            replaced_nodes_lose_claims=False,
            devices_are_exact=False,
            slices_are_sorted=False,
            claims_score_together=False,
            configures_once=False,
            counters_by_driver=False,
            counters_are_everywhere=True,
            distinct_from_all=False,
            all_includes_full_devices=False,
            checks_amounts=False,
            shares_without_amounts_count=False,
            errors_name_devices=False,
            attributes_are_dynamic=False,
            last_node_is_rescored=False,
            claim_deletion_wakes=False,
            in_flight_until_bound=False,
            taint_rules_have_a_gate=False,
            taint_rules_taint_all=True,
        ),
        Release(
            version="1.35",
            patch="v1.35.4",
            tie_break="go-heap",
            plugins=_PLUGINS_136,
            extension_points=(),
            refused_gates=_GROUPS,
            scheme="pkg/runtime/scheme.go:111",
            balance_by_change=False,
            image_volumes="",
            resizes_by_sums=False,
            claims_without_help_are_told=True,
            taints_wake_for_new_nodes=True,
            empty_nominations_are_kept=True,
            gated_pods_are_nominated=False,
            any_anti_affinity_term_wakes=False,
            affinity_wakes_both_ways=False,
            all_drivers_are_needed=True,
            bindings_end_nominations=False,
            assumed_pods_end_with_termination=True,
            gated_pods_time_out=False,
            budgets_stop_at_violation=False,
            preemptors_are_told=False,
            pod_events_name_target=False,
            counts_entities=False,
            namespaces_by_value=True,
            replaced_nodes_lose_claims=False,
            devices_are_exact=True,
            slices_are_sorted=False,
            claims_score_together=True,
            configures_once=False,
            counters_by_driver=False,
            counters_are_everywhere=True,
            distinct_from_all=False,
            all_includes_full_devices=False,
            checks_amounts=False,
            shares_without_amounts_count=False,
            errors_name_devices=False,
            attributes_are_dynamic=False,
            last_node_is_rescored=False,
            claim_deletion_wakes=False,
            in_flight_until_bound=False,
            taint_rules_have_a_gate=True,
            taint_rules_taint_all=True,
        ),
        Release(
            version="1.36",
            patch="v1.36.3",
            tie_break="go-heap",
            plugins=_PLUGINS_136,
            extension_points=("placementGenerate", "placementScore"),
            refused_gates=_GROUPS | {"DRAWorkloadResourceClaims"},
            scheme="k8s.io/kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:29",
            balance_by_change=True,
            image_volumes="size",
            resizes_by_sums=False,
            claims_without_help_are_told=True,
            taints_wake_for_new_nodes=True,
            empty_nominations_are_kept=True,
            gated_pods_are_nominated=False,
            any_anti_affinity_term_wakes=False,
            affinity_wakes_both_ways=True,
            all_drivers_are_needed=False,
            bindings_end_nominations=False,
            assumed_pods_end_with_termination=True,
            gated_pods_time_out=False,
            budgets_stop_at_violation=False,
            preemptors_are_told=False,
            pod_events_name_target=False,
            counts_entities=False,
            namespaces_by_value=True,
            replaced_nodes_lose_claims=False,
            devices_are_exact=True,
            slices_are_sorted=True,
            claims_score_together=False,
            configures_once=False,
            counters_by_driver=False,
            counters_are_everywhere=True,
            distinct_from_all=False,
            all_includes_full_devices=False,
            checks_amounts=False,
            shares_without_amounts_count=False,
            errors_name_devices=False,
            attributes_are_dynamic=False,
            last_node_is_rescored=False,
            claim_deletion_wakes=False,
            in_flight_until_bound=False,
            taint_rules_have_a_gate=True,
            taint_rules_taint_all=True,
        ),
        Release(
            version="1.37",
            patch="v1.37.2",
            tie_break="go-heap",
            plugins=_PLUGINS_137,
            extension_points=("placementGenerate", "placementScore", "podGroupPostFilter"),
            refused_gates=_ALPHA_137,
            scheme="pkg/runtime/scheme.go:111",
            balance_by_change=True,
            image_volumes="count",
            resizes_by_sums=True,
            claims_without_help_are_told=False,
            taints_wake_for_new_nodes=False,
            empty_nominations_are_kept=False,
            gated_pods_are_nominated=True,
            any_anti_affinity_term_wakes=True,
            affinity_wakes_both_ways=True,
            all_drivers_are_needed=False,
            bindings_end_nominations=False,
            assumed_pods_end_with_termination=True,
            gated_pods_time_out=True,
            budgets_stop_at_violation=True,
            preemptors_are_told=True,
            pod_events_name_target=True,
            counts_entities=True,
            namespaces_by_value=False,
            replaced_nodes_lose_claims=True,
            devices_are_exact=True,
            slices_are_sorted=True,
            claims_score_together=False,
            configures_once=True,
            counters_by_driver=True,
            counters_are_everywhere=False,
            distinct_from_all=True,
            all_includes_full_devices=True,
            checks_amounts=True,
            shares_without_amounts_count=True,
            errors_name_devices=True,
            attributes_are_dynamic=True,
            last_node_is_rescored=True,
            claim_deletion_wakes=True,
            in_flight_until_bound=True,
            taint_rules_have_a_gate=True,
            taint_rules_taint_all=False,
        ),
    )
}
"""Releases by their minor version, the earliest first."""
