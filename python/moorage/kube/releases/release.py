"""What a Kubernetes release is for decisions: a record of data and named behaviours.

Code reads a behaviour where it matters; no other module compares versions. Each record in `RELEASES`
says what has changed since the one before it; docs/releases.md is made of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from moorage.lazy import NamedTuple

DEFAULT = "1.36"
"""The release that decides where none is named, and nothing else tells one."""
EXTENDED_RESOURCE_TOLERATION = "ExtendedResourceToleration"
ALWAYS_PULL_IMAGES, ANTI_AFFINITY_TOPOLOGY = "AlwaysPullImages", "LimitPodHardAntiAffinityTopology"
OPTIONAL_PLUGINS = (EXTENDED_RESOURCE_TOLERATION, ALWAYS_PULL_IMAGES, ANTI_AFFINITY_TOPOLOGY)
"""Admission plugins of kube-apiserver that are off by default in each release, and that run here if they are
named."""
RESOURCE_QUOTA, DEFAULT_TOLERATIONS = "ResourceQuota", "DefaultTolerationSeconds"
WEBHOOK_PLUGINS = {
    "MutatingWebhookConfiguration": "MutatingAdmissionWebhook",
    "ValidatingWebhookConfiguration": "ValidatingAdmissionWebhook",
}
"""The plugin that asks the webhooks of a kind of configuration."""
NOT_EVALUATED = ("AlwaysDeny", "DenyServiceExternalIPs", "ImagePolicyWebhook", "NamespaceAutoProvision")
"""Plugins that are off by default, and that would change an answer."""
ADMISSION_PLUGINS = (
    *OPTIONAL_PLUGINS,
    *("NamespaceLifecycle", "LimitRanger", "ServiceAccount", "PodSecurity", "Priority", "RuntimeClass"),
    *("DefaultStorageClass", "PersistentVolumeClaimResize", RESOURCE_QUOTA, DEFAULT_TOLERATIONS),
    *("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy", *WEBHOOK_PLUGINS.values()),
    *("PodNodeSelector", "PodTolerationRestriction", *NOT_EVALUATED),
    # about users, nodes, certificates and other objects that scheduling does not read:
    *("AlwaysAdmit", "CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction"),
    *("ClusterTrustBundleAttest", "DefaultIngressClass", "EventRateLimit", "JobValidation"),
    *("NamespaceExists", "NodeDeclaredFeatureValidator", "NodeRestriction"),
    *("OwnerReferencesPermissionEnforcement", "PodGroupProtection", "PodGroupWorkloadExists"),
    *("PodResizeValidator", "PodTopologyLabels", "StorageObjectInUseProtection", "TaintNodesByCondition"),
)
"""The admission plugins of kube-apiserver v1.34 to v1.38, by the names that its options take."""


class Release(NamedTuple):
    """A release of kube-scheduler.

    The docstring of each behaviour is its row in docs/releases.md. The defaults are the first release.

    Attributes
    ----------
    version : str
        Minor version, for example "1.36".
    patch : str
        The patch release that is followed, for example "v1.36.3", or the beta before the first one.
    plugins : tuple of str
        Classes of the in-tree plugins, in the default MultiPoint order.
    tie_break : str
        How one of several nodes of equal score is chosen: at random by the seed, or in the order of
        the heap that batching uses.
    extension_points : tuple of str
        Extension points of a configuration that not every release has.
    refused_gates : frozenset of str
        Gates that can only keep their default here.
    scheme : str
        The place in upstream's code that its errors about unknown kinds of configurations name.
    balance_by_change : bool
        NodeResourcesBalancedAllocation scores how much the pod changes the balance of a node. Without
        it, the score is the balance with the pod.
    image_volumes : str
        How ImageLocality scores image volumes: not at all (""), by their size ("size"), or like the
        images of containers ("count").
    resizes_by_sums : bool
        A pod that is being resized counts with the maximum of three sums: desired, allocated and
        actuated requests. Without it, the maximum is taken for each container, and then summed.
    claims_without_help_are_told : bool
        PostFilter of DynamicResources adds "no new claims to deallocate" or "still not schedulable"
        to the message of every pod that fits nowhere.
    taints_wake_for_new_nodes : bool
        A change of taints wakes pods that were rejected by plugins which only registered for new
        nodes.
    empty_nominations_are_kept : bool
        A nomination that was withdrawn stays in the list, as one without a node.
    gated_pods_are_nominated : bool
        A pod that PreEnqueue holds back counts on the node that its status nominates.
    any_anti_affinity_term_wakes : bool
        A pod that is deleted or changes its labels wakes the pods whose anti-affinity it matched in
        any term. Without it, it must have matched all terms.
    affinity_wakes_both_ways : bool
        A pod that InterPodAffinity rejected also wakes when its own labels change, when a pod with
        anti-affinity against it is deleted, and for pods that are only nominated.
    all_drivers_are_needed : bool
        With VolumeLimitScaling, a node needs every CSI driver of the volumes. Without it, only those
        with preventPodSchedulingIfMissing.
    bindings_end_nominations : bool
        When a pod with a nominated node is bound, pods of its priority or less wake.
    assumed_pods_end_with_termination : bool
        An assumed pod frees its place when its deletion begins. Without it, when it is gone.
    gated_pods_time_out : bool
        Pods that PreEnqueue holds back are tried again every five minutes. Without it they stay, and
        their timeout is an event each time that the queue looks at them.
    budgets_stop_at_violation : bool
        After the first PodDisruptionBudget that an eviction violates, the pod counts against no
        further one, in the order of the list. Without it, it counts against all of them.
    preemptors_are_told : bool
        The message of a pod that preempts others names the node and the number of victims: "found a
        potential placement for pod on node n1, preempting 1 victims".
    pod_events_name_target : bool
        Plugins can register for events of the kinds UnscheduledPod and TargetPod (the waiting pod
        itself), and for raised requests. Without it, all of these are events of an UnschedulablePod.
    counts_flushed : bool
        The metric `scheduler_pod_scheduled_after_flush_total` counts pods that a timer had moved.
    counts_entities : bool
        The metric `scheduler_queued_entities` counts queued pods and pod groups, and
        `scheduler_pending_pods` the pods that wait for a group that does not exist.
    group_without_victims_ends : bool
        Where a group could evict no pod, the plugins after DefaultPreemption are not asked, and the message
        has its reason alone.
    lost_nodes_end_preemption : bool
        A pod of a group that is evicted as a whole, on a node that is gone, ends every preemption for a
        group with an error. Without it, only one that could evict this pod.
    groups_tell_threshold : bool
        The message of a group says how many of its pods are scheduled, unschedulable, and not evaluated;
        so does that of a member that had found a node.
    hierarchies_are_validated : bool
        All groups of a tree must be of one workload and have the priority of the root, and so must their
        pods; a gang has no basic groups, and a group that is evicted as a whole none that is not. A group
        can have a preemption policy, which is that of its pods. Conditions say PodGroupError. Without it,
        the pods of a group have its priority and one policy, and conditions say SchedulerError.
    trees_have_conditions : bool
        Composite groups have a condition, too.
    members_are_pods : bool
        A pod of a group that is evicted by itself is a victim like any other pod, with its own priority.
        Without it, it has the priority of the group at the top, and goes before other pods of that
        priority.
    nodes_are_ranked_by_victims : bool
        When pods are evicted for a group, each of its pods goes to one of the nodes whose victims cost
        least: nodes without further victims first, then by violated budgets, priorities and numbers of
        pods. Without it, nodes are scored as if they were empty of victims.
    empty_domains_are_none : bool
        Nodes with an empty value of a topology key belong to no domain, and a pod of the group on such a
        node is an error.
    nominated_placement_is_first : bool
        If pods of a group are nominated to nodes of one placement alone, the group is tried there first,
        and stays there if it fits. Not in trees.
    groups_end_nominations : bool
        A group for which pods are evicted ends the nominations of pods of lower priority to its nodes.
    placements_are_sampled : bool
        A group is not tried in further placements once it fits percentageOfPlacementsToScore of them: by
        default fewer the more nodes there are, and one without plugins that score them. Without it, it is
        tried in all.
    groups_tell_ancestor : bool
        The message of a group that did not fail by itself names the composite group above it that did.
        Without it, it is the message of that group.
    namespaces_by_value : bool
        A namespaceSelector in a pod's own affinity that asks for no label (only NotIn or
        DoesNotExist) selects every namespace.
    replaced_nodes_lose_claims : bool
        When a node is replaced between two attempts, the claims of its pods no longer count as used,
        so another pod can get a ReadWriteOncePod volume. This lasts until a node is added or removed, or
        until one of these pods goes; then the nodes are listed anew, maybe in another order.
    devices_are_exact : bool
        Devices are allocated as in this release. Without it, as in the next one, whose allocator
        skips incomplete and invalid pools.
    slices_are_sorted : bool
        With the gates DRAConsumableCapacity or DRADeviceBindingConditions, pools and slices of
        devices are tried in the order of their names. Without it, in the order of the list.
    claims_score_together : bool
        If some claims of a pod have devices and others do not, DynamicResources fails to score nodes:
        where several nodes fit, the attempt ends with an error.
    all_goes_on_as_first : bool
        If an alternative of firstAvailable asks for all devices, it gets one of them, and further ones as
        the first alternative asks for them.
    configures_once : bool
        An allocation has each configuration of its claim once. Without it, once for each request that
        the configuration names.
    counters_by_driver : bool
        Shared counters belong to one pool of one driver. Without it, to all pools of that name.
    counters_are_everywhere : bool
        Slices with shared counters concern every node. If their pool is incomplete or invalid, this
        matters on nodes without its devices too.
    distinct_from_all : bool
        distinctAttribute compares a device with all devices chosen before. Without it, only with the
        last one of each request.
    all_includes_full_devices : bool
        A request for all devices fails if one of them has too little capacity left. Without it, that
        device is passed over.
    checks_amounts : bool
        A capacity request that is negative, or cannot be rounded exactly, is an error. The consumed
        capacity is written with the suffix of the step.
    shares_without_amounts_count : bool
        Another share of a device does not take its shared counters again, even if no share takes any
        capacity.
    errors_name_devices : bool
        Errors of selectors name the device, and may suggest optional chaining. The error about too
        many devices in a claim names the request.
    attributes_are_dynamic : bool
        Expressions see attributes that are lists even without the gate DRAListTypeAttributes. Types
        of attributes are checked when an expression runs.
    claim_errors_spell_pod : bool
        The error about a claim of another owner says "Pod" in place of "pod".
    lists_have_includes : bool
        Expressions about devices know the function ``includes`` of lists.
    last_node_is_rescored : bool
        Opportunistic batching keeps its list when the next equal pod fits on the last node again, and
        scores that node anew. Pods with a nominated node do not use the list.
    claim_deletion_wakes : bool
        The deletion of an allocated claim wakes pods that DynamicResources rejected.
    in_flight_until_bound : bool
        An allocation is in flight until PreBind has succeeded. Without it, until it is written. A
        claim that got devices in the meantime is not in flight.
    taint_rules_have_a_gate : bool
        DeviceTaintRules need the gate DRADeviceTaintRules. Without it, DRADeviceTaints is enough.
    taint_rules_taint_all : bool
        A DeviceTaintRule without a selector taints all devices. Without it, none.
    scores_effective_requests : bool
        NodeResourcesFit scores a pod with its effective requests, as
        NodeResourcesBalancedAllocation does: pod-level resources count, and a resize in progress.
        Without it, only the requests of its containers count.
    quantities_saturate : bool
        An amount beyond 64 bits is the largest or smallest number of 64 bits, and negative ones
        round away from zero; the old and the new requests of a pod are compared exactly. Without
        it, such an amount is 0 or what is left after wrapping, and changes of requests are seen
        from a thousandth on.
    sums_saturate : bool
        What the pods of a node request stops at the largest number of 64 bits, as does its sum
        with the request of the pod that is scored. When a pod goes where a sum stands there, all
        sums are counted anew. Without it, sums wrap.
    shares_are_exact : bool
        NodeResourcesFit scores shares without overflow, and between 0 and 100. Without it, a
        product beyond 64 bits wraps, and the score may be an error.
    hints_know_namespaces : bool
        Changes of other pods wake pods by terms with a namespaceSelector, too; in a namespace
        that is not known, they wake all. Without it, hints match these terms with no labels of
        the namespace.
    shrunk_nodes_wake_nominated : bool
        A pod that is nominated to a node wakes when the node becomes too small for it in cpu,
        memory or ephemeral storage, so that it can preempt elsewhere.
    removed_plugins_are_refused_everywhere : bool
        A configuration may not name a removed plugin at placementGenerate, placementScore and
        placementFeasible either.
    unusable_pools_reject_nodes : bool
        A request for all devices rejects a node where a pool is incomplete or invalid, and other
        nodes are tried. Without it, the attempt ends with an error.
    attributes_are_typed : bool
        matchAttribute compares versions of devices as versions: build metadata does not count. An
        attribute that cannot be read is an error. Without it, versions are compared as texts, and
        what cannot be read equals nothing.
    shared_devices_are_kept : bool
        A device that may no longer be shared is in use as long as a share of it is. Without it,
        another request can get it, as far as its capacity suffices.
    negative_capacity_fails : bool
        A negative request of capacity is an error even where it would be rounded up, and so is an
        allocation that has consumed a negative capacity: no pod gets devices then.
    capacity_names_have_domains : bool
        Names of capacities without a domain have that of the driver, so that a request finds a
        capacity by either spelling. Without it, names are compared as they are written.
    storage_capacity_is_exact : bool
        The sizes of claims and CSIStorageCapacities are compared exactly: 1500m is less than 2,
        and no size is too large. Without it, both are rounded up to bytes, and wrap beyond 64
        bits.
    undeclared_names_are_short : bool
        Errors about undeclared names in expressions do not name the container, and may suggest a
        name.
    empty_selectors_spread : bool
        An empty `labelSelector` of a spread constraint counts all pods of the namespace. Without
        it, none.
    budgets_select_as_written : bool
        A PodDisruptionBudget protects the pods that its selector matches: an empty one all of its
        namespace, and pods without labels as others. Without it, an empty selector matches none,
        and a pod without labels is matched by none.
    victims_tie_by_uid : bool
        Of victims that are equal in priority, number of pods and start, that with the lesser UID
        is the more important one. Without it, they are in the order in which Go's sort leaves
        them.
    needless_evictions_reject : bool
        A node where the pod fits with all its victims put back is rejected with "No preemption
        victims found for incoming pod". Without it, this is an error of the dry run.
    extenders_see_fitting_nodes : bool
        Extenders that preempt for the pod are offered such a node, too, without victims: they may
        add some, or leave the node out. After the last one, nodes without victims are dropped.
        Without it, they are not offered it.
    unavailable_pods_go_first : bool
        A StatefulSet that manages its pods in parallel, with the gate MaxUnavailableStatefulSet, first
        replaces all old pods that are not available, whatever maxUnavailable is. Without it, they count
        against it, so that a rollout may wait for them for ever.
    partition_bounds_unavailability : bool
        Of a StatefulSet, only pods from the partition on count against maxUnavailable, and a percentage is
        one of these. Without it, of all replicas.
    condemned_pods_go_first : bool
        A StatefulSet that manages its pods in parallel deletes those beyond its replicas before it creates
        others. Without it, a quota that refuses the new ones keeps the old ones, too.
    every_update_completes : bool
        A StatefulSet with OnDelete or Recreate, too, has its newest revision as the current one, once all
        its pods are of it. Without it, one with RollingUpdate alone.
    volumes_wait_for_detach : bool
        The event of a pod whose volume is attached to another node says "Waiting for detach". Without it,
        "Multi-Attach error".
    gone_nodes_free_volumes : bool
        The volumes of a node that is deleted can be attached elsewhere at once. Without it, after 6
        minutes.
    limits_are_exact : bool
        LimitRanger compares amounts, and limits with requests times a ratio, exactly. Without it, rounded
        up to thousandths, or to integers where these would be too large.
    kept_requests_pass : bool
        LimitRanger does not check a request that an update of a claim leaves as it is.
    empty_runtime_classes_are_none : bool
        A pod with an empty runtimeClassName has no RuntimeClass. Without it, one of this name is looked
        for, and the pod is refused.
    """

    version: str
    patch: str
    plugins: tuple[str, ...]
    tie_break: str = "random"
    extension_points: tuple[str, ...] = ()
    refused_gates: frozenset[str] = frozenset()
    scheme: str = "pkg/runtime/scheme.go:110"
    balance_by_change: bool = False
    image_volumes: str = ""
    resizes_by_sums: bool = False
    claims_without_help_are_told: bool = True
    taints_wake_for_new_nodes: bool = True
    empty_nominations_are_kept: bool = True
    gated_pods_are_nominated: bool = False
    any_anti_affinity_term_wakes: bool = False
    affinity_wakes_both_ways: bool = False
    all_drivers_are_needed: bool = False
    bindings_end_nominations: bool = True
    assumed_pods_end_with_termination: bool = False
    gated_pods_time_out: bool = False
    budgets_stop_at_violation: bool = False
    preemptors_are_told: bool = False
    pod_events_name_target: bool = False
    counts_flushed: bool = False
    counts_entities: bool = False
    group_without_victims_ends: bool = True
    lost_nodes_end_preemption: bool = True
    groups_tell_threshold: bool = False
    hierarchies_are_validated: bool = False
    trees_have_conditions: bool = False
    members_are_pods: bool = False
    nodes_are_ranked_by_victims: bool = False
    empty_domains_are_none: bool = False
    nominated_placement_is_first: bool = False
    groups_end_nominations: bool = False
    placements_are_sampled: bool = False
    groups_tell_ancestor: bool = False
    namespaces_by_value: bool = True
    replaced_nodes_lose_claims: bool = False
    devices_are_exact: bool = False
    slices_are_sorted: bool = False
    claims_score_together: bool = False
    all_goes_on_as_first: bool = True
    configures_once: bool = False
    counters_by_driver: bool = False
    counters_are_everywhere: bool = True
    distinct_from_all: bool = False
    all_includes_full_devices: bool = False
    checks_amounts: bool = False
    shares_without_amounts_count: bool = False
    errors_name_devices: bool = False
    attributes_are_dynamic: bool = False
    claim_errors_spell_pod: bool = False
    lists_have_includes: bool = False
    last_node_is_rescored: bool = False
    claim_deletion_wakes: bool = False
    in_flight_until_bound: bool = False
    taint_rules_have_a_gate: bool = False
    taint_rules_taint_all: bool = True
    scores_effective_requests: bool = False
    quantities_saturate: bool = False
    sums_saturate: bool = False
    shares_are_exact: bool = False
    hints_know_namespaces: bool = False
    shrunk_nodes_wake_nominated: bool = False
    removed_plugins_are_refused_everywhere: bool = False
    unusable_pools_reject_nodes: bool = False
    attributes_are_typed: bool = False
    shared_devices_are_kept: bool = False
    negative_capacity_fails: bool = False
    capacity_names_have_domains: bool = False
    storage_capacity_is_exact: bool = False
    undeclared_names_are_short: bool = False
    empty_selectors_spread: bool = False
    budgets_select_as_written: bool = False
    victims_tie_by_uid: bool = False
    needless_evictions_reject: bool = False
    extenders_see_fitting_nodes: bool = False
    unavailable_pods_go_first: bool = False
    partition_bounds_unavailability: bool = False
    condemned_pods_go_first: bool = False
    every_update_completes: bool = False
    volumes_wait_for_detach: bool = False
    gone_nodes_free_volumes: bool = False
    limits_are_exact: bool = False
    kept_requests_pass: bool = False
    empty_runtime_classes_are_none: bool = False

    def __repr__(self) -> str:
        return f"<Release {self.version}>"

    @property
    def is_preview(self) -> bool:
        """Whether it follows a beta, as the release itself is not out yet."""
        return "-" in self.patch


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
_PLUGINS_134 = tuple(
    "DynamicResourcesNoScore" if plugin == "DynamicResources" else plugin for plugin in _PLUGINS_136
)
_PLUGINS_137 = (
    *_PLUGINS_136[:2],
    "NodeNamePreFilter",
    "NodeUnschedulablePreFilter",
    "TaintTolerationPreFilter",
    *_PLUGINS_136[5:],
)
_SUCCESSORS_138 = {
    "DefaultPreemption": "DefaultPreemptionReserve",
    "GangScheduling": "GangSchedulingFeasible",
}
_PLUGINS_138 = tuple(_SUCCESSORS_138.get(plugin, plugin) for plugin in _PLUGINS_137)
_GROUPS_136 = frozenset({"DRAWorkloadResourceClaims", "GenericWorkload", "TopologyAwareWorkloadScheduling"})
_ALPHA_137 = frozenset({"DRAListTypeAttributes", "DRANodeAllocatableResources"})

# The first release is the defaults; each one after it says what has changed since the one before it.
_V134 = Release(version="1.34", patch="v1.34.4", plugins=_PLUGINS_134)
_V135 = _V134._replace(
    version="1.35",
    patch="v1.35.4",
    tie_break="go-heap",
    plugins=_PLUGINS_136,
    refused_gates=frozenset({"GenericWorkload"}),
    scheme="pkg/runtime/scheme.go:111",
    all_drivers_are_needed=True,
    bindings_end_nominations=False,
    assumed_pods_end_with_termination=True,
    devices_are_exact=True,
    claims_score_together=True,
    taint_rules_have_a_gate=True,
)
_V136 = _V135._replace(
    version="1.36",
    patch="v1.36.3",
    extension_points=("placementGenerate", "placementScore"),
    refused_gates=_GROUPS_136,
    scheme="k8s.io/kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:29",
    balance_by_change=True,
    image_volumes="size",
    affinity_wakes_both_ways=True,
    all_drivers_are_needed=False,
    counts_flushed=True,
    slices_are_sorted=True,
    claims_score_together=False,
    all_goes_on_as_first=False,
    claim_errors_spell_pod=True,
    lists_have_includes=True,
)
_V137 = _V136._replace(
    version="1.37",
    patch="v1.37.2",
    plugins=_PLUGINS_137,
    extension_points=("placementGenerate", "placementScore", "podGroupPostFilter"),
    refused_gates=_ALPHA_137,
    scheme="pkg/runtime/scheme.go:111",
    image_volumes="count",
    resizes_by_sums=True,
    claims_without_help_are_told=False,
    taints_wake_for_new_nodes=False,
    empty_nominations_are_kept=False,
    gated_pods_are_nominated=True,
    any_anti_affinity_term_wakes=True,
    gated_pods_time_out=True,
    budgets_stop_at_violation=True,
    preemptors_are_told=True,
    pod_events_name_target=True,
    counts_entities=True,
    namespaces_by_value=False,
    replaced_nodes_lose_claims=True,
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
    taint_rules_taint_all=False,
    unavailable_pods_go_first=True,
    every_update_completes=True,
    volumes_wait_for_detach=True,
)
_V138 = _V137._replace(
    version="1.38",
    patch="v1.38.0-beta.0",
    plugins=_PLUGINS_138,
    extension_points=("placementGenerate", "placementScore", "podGroupPostFilter", "placementFeasible"),
    scheme="pkg/runtime/scheme.go:110",
    group_without_victims_ends=False,
    lost_nodes_end_preemption=False,
    hierarchies_are_validated=True,
    trees_have_conditions=True,
    members_are_pods=True,
    nodes_are_ranked_by_victims=True,
    empty_domains_are_none=True,
    nominated_placement_is_first=True,
    groups_end_nominations=True,
    placements_are_sampled=True,
    groups_tell_ancestor=True,
    groups_tell_threshold=True,
    scores_effective_requests=True,
    quantities_saturate=True,
    sums_saturate=True,
    shares_are_exact=True,
    hints_know_namespaces=True,
    shrunk_nodes_wake_nominated=True,
    removed_plugins_are_refused_everywhere=True,
    unusable_pools_reject_nodes=True,
    attributes_are_typed=True,
    shared_devices_are_kept=True,
    negative_capacity_fails=True,
    capacity_names_have_domains=True,
    storage_capacity_is_exact=True,
    undeclared_names_are_short=True,
    empty_selectors_spread=True,
    budgets_select_as_written=True,
    victims_tie_by_uid=True,
    needless_evictions_reject=True,
    extenders_see_fitting_nodes=True,
    partition_bounds_unavailability=True,
    condemned_pods_go_first=True,
    gone_nodes_free_volumes=True,
    limits_are_exact=True,
    kept_requests_pass=True,
    empty_runtime_classes_are_none=True,
)
RELEASES = {release.version: release for release in (_V134, _V135, _V136, _V137, _V138)}
"""Releases by their minor version, the earliest first."""


# ---- versions ----------------------------------------------------------------------------------------------
#
# Versions of Kubernetes as clusters tell them, and the release that decides for each.

_FORM = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")
_WHOLE = re.compile(_FORM.pattern + r"([-+]\S*)?")


class Version(NamedTuple):
    """A version, in the order of versions."""

    major: int
    minor: int
    patch: int


def parse_version(text: str) -> Version | None:
    """Return the version at the beginning of a text; None if there is none.

    Parameters
    ----------
    text : str
        For example "v1.36.2", "v1.31.2+k3s1" or "1.37".
    """
    match = _FORM.match(text)
    return None if match is None else Version(int(match[1]), int(match[2]), int(match[3] or 0))


def nearest_release(version: Version) -> tuple[Release, bool]:
    """Return the release that decides for a version.

    Returns
    -------
    release : Release
        That of the minor version, or the nearest one.
    is_its_own : bool
        Whether the release is that of the version.
    """
    by_minor = {(int(major), int(minor)): name for name in RELEASES for major, minor in [name.split(".")]}
    wanted = (version.major, version.minor)
    nearest = min(max(wanted, min(by_minor)), max(by_minor))
    return RELEASES[by_minor[nearest]], nearest == wanted


def release_named(text: str, name: str = "kubernetes_version") -> Release:
    """Return the release of a version that a user names. A release is a minor version: patches and what
    distributions add do not matter.

    Parameters
    ----------
    text : str
        For example "1.36", "v1.36", "1.36.2" or "v1.36.2-eks-1-1".
    name : str
        What an error calls it.

    Raises
    ------
    TypeError
        It is no text, but for example the number 1.36.
    ValueError
        It is not one of `RELEASES`.
    """
    from moorage.arguments import argument  # which helps of commands do not need

    argument(name, text, "str")
    version = parse_version(text) if _WHOLE.fullmatch(text) else None
    release = None if version is None else RELEASES.get(f"{version.major}.{version.minor}")
    if release is None:
        raise ValueError(f"{name} must be one of {', '.join(RELEASES)}, not {text!r}")
    return release


# ---- ended versions ----------------------------------------------------------------------------------------
#
# Versions of APIs that a release of Kubernetes has ended, and what to write instead.
#
# ``ended_versions.txt`` has them.


_OFF = ("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "storage.k8s.io/v1beta1")


class EndedVersion(NamedTuple):
    """A version of a kind that is not served any more.

    Attributes
    ----------
    release : str
        The first release without it, for example "1.25".
    instead : str
        The version to write; "" where the kind has ended.
    """

    kind: str
    api_version: str
    release: str
    instead: str

    def is_served(self, release: str) -> bool:
        """Whether a release serves it still."""
        last, first = parse_version(release), parse_version(self.release)
        return last is not None and first is not None and last < first

    @property
    def is_off_by_default(self) -> bool:
        """Whether an API server that has the version serves it only if its ``--runtime-config`` says so."""
        return self.api_version in _OFF

    @property
    def depends_on_release(self) -> bool:
        """Whether any release that moorage has serves it."""
        return any(map(self.is_served, RELEASES))

    @property
    def text(self) -> str:
        """The text of kubectl, and what to write instead."""
        instead = f"write {self.instead}" if self.instead else f"{self.kind} has ended with this version"
        return f'no matches for kind "{self.kind}" in version "{self.api_version}"; {instead}'


def ended_version(kind: str, api_version: str) -> EndedVersion | None:
    """Return when a version of a kind ended; None for one that has not."""
    return _table().get((kind, api_version))


@cache
def _table() -> Mapping[tuple[str, str], EndedVersion]:
    versions = {}
    for line in Path(__file__).with_name("ended_versions.txt").read_text().splitlines():
        if not line.startswith("#"):
            release, version, instead, *kinds = line.split()
            for kind in kinds:
                ended = EndedVersion(kind, version, release, "" if instead == "-" else instead)
                versions[kind, version] = ended
    return versions
