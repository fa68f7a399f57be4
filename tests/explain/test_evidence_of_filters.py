"""What each filter says of the facts that it compared, on clusters of people who asked why."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.explain.explain_world import document
from tests.explain.test_evidence import HOST, ZONE

from moorage import Scheduler
from moorage.answers.explain import Explanation
from moorage.kube import build_cluster, decode_object


def explained(text: str, key: str = "default/new", **settings: Any) -> Explanation:
    """The explanation of a pod in a cluster of YAML documents."""
    objects = [decode_object(item) for item in yaml.safe_load_all(text) if item]
    return Scheduler(build_cluster(objects), **settings).ask.explain(key)


def facts(text: str, key: str = "default/new") -> dict[str, list[str]]:
    """By first node of each group, the facts in words."""
    return {group.nodes[0]: [one.text for one in group.evidence] for group in explained(text, key).groups}


def node(name: str, labels: dict[str, str] | None = None, **more: Any) -> str:
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name} | (labels or {})},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"} | more.pop("allocatable", {})},
    }
    return yaml.safe_dump(made | more) + "---\n"


def pod(name: str, on: str = "", cpu: str = "", **more: Any) -> str:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    meta = {"name": name, "namespace": "default"} | more.pop("metadata", {})
    spec = {"containers": [container]} | ({"nodeName": on} if on else {}) | more.pop("spec", {})
    status = more.pop("status", {"phase": "Running"} if on else {})
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}
    return yaml.safe_dump(made) + "---\n"


def spread(key: str, skew: int = 1, **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "x"}}
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return constraint | {"labelSelector": selector} | more


APP = {"labels": {"app": "x"}}
TAINT = {"taints": [{"key": "control-plane", "effect": "NoSchedule"}]}


# ---- spreading ---------------------------------------------------------------------------------------------


def test_the_labels_by_which_spreading_tells_pods_apart() -> None:
    spec = {"topologySpreadConstraints": [spread(HOST, matchLabelKeys=["hash", "absent"])]}
    labels = {"labels": {"app": "x", "hash": "2"}}
    text = node("n1") + node("n2", spec={"unschedulable": True}) + pod("there", "n1", metadata=labels)
    text += pod("earlier", "n1", metadata={"labels": {"app": "x", "hash": "1"}})
    (fact,) = facts(text + pod("new", spec=spec, metadata=labels))["n1"]
    assert fact.startswith(f"domain {HOST}=n1: 2 with this pod, fewest 0 in n2")
    assert fact.endswith("maxSkew 1, of pods with hash=2 by matchLabelKeys")


def test_a_node_affinity_policy_that_leaves_domains_out_is_offered() -> None:
    """The pod is for zone a alone, and zone b counts."""
    spec = {
        "nodeSelector": {"zone": "a"},
        "topologySpreadConstraints": [spread("zone", nodeAffinityPolicy="Ignore")],
    }
    text = node("n1", {"zone": "a"}) + node("n2", {"zone": "b"}) + pod("there", "n1", metadata=APP)
    texts = [one.text for one in explained(text + pod("new", spec=spec, metadata=APP)).changes]
    assert "set nodeAffinityPolicy: Honor (now Ignore) in topology-spread zone (maxSkew 1)" in texts


def test_pods_on_nodes_that_a_policy_leaves_out_are_not_counted() -> None:
    text = node("a-x", {"pool": "x", "zone": "a"}) + node("a-y", {"pool": "other", "zone": "a"})
    text += node("b-x", {"pool": "x", "zone": "b"}, allocatable={"cpu": "100m"})
    text += "".join(pod(f"y{at}", "a-y", metadata=APP) for at in range(5)) + pod("x1", "a-x", metadata=APP)
    spec = {"nodeSelector": {"pool": "x"}, "topologySpreadConstraints": [spread("zone")]}
    seen = explained(text + pod("new", cpu="1", metadata=APP, spec=spec))
    (fact,) = next(group.evidence for group in seen.groups if group.nodes == ["a-x"])
    assert fact.text == "domain zone=a: 2 with this pod, fewest 0 in b, maxSkew 1"
    assert fact.facts() == {
        "topologyKey": "zone",
        "value": "a",
        "withPod": 2,
        "matchesItself": True,
        "nominated": 0,
        "fewest": 0,
        "fewestIn": "b",
        "fewestNodes": ["node b-x: 900m more cpu"],
        "otherFewest": 0,
        "terminating": 0,
        "domains": 2,
        "minDomains": 1,
        "maxSkew": 1,
        "matchLabelKeys": [],
        "isDefault": False,
    }


def test_default_constraints_are_named_as_those_of_the_profile() -> None:
    hard = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    arguments = {"defaultingType": "List", "defaultConstraints": [hard]}
    profile = {"pluginConfig": [{"name": "PodTopologySpread", "args": arguments}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}}
    text = yaml.safe_dump(service | {"spec": {"selector": {"app": "x"}}}) + "---\n" + node("none")
    text += "".join(node(zone, {"zone": zone}, allocatable={"cpu": size}) for zone, size in SIZES.items())
    text += pod("there", "a", metadata=APP) + pod("new", cpu="1", metadata=APP)
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    seen = explained(text, config=configuration | {"profiles": [profile]})
    told = {group.nodes[0]: [one.text for one in group.evidence] for group in seen.groups}
    fewest = "fewest 0 in b and 1 other domain"
    assert told["a"] == [
        f"domain zone=a: 2 with this pod, {fewest}, maxSkew 1 (defaultConstraints of the profile)"
    ]
    assert told["none"] == ["domain zone (the node lacks this label; defaultConstraints of the profile)"]


SIZES = {"a": "4", "b": "100m", "c": "100m"}


def test_a_pod_that_does_not_match_its_own_constraint() -> None:
    text = node("a", {"zone": "a"}) + node("b", {"zone": "b"}, spec=TAINT)
    text += "".join(pod(f"x{at}", "a", metadata=APP) for at in range(2))
    text += pod("new", spec={"topologySpreadConstraints": [spread("zone")]})
    assert facts(text)["a"][0].startswith("domain zone=a: 2 matching pods; this pod does not match, fewest 0")


# ---- room --------------------------------------------------------------------------------------------------


def test_a_nominated_pod_keeps_what_its_status_says_that_it_has() -> None:
    (status,) = RESIZE["containerStatuses"]
    held = status | {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}}
    nominated = {"nominatedNodeName": "n1", "containerStatuses": [held]}
    text = node("n1") + pod("preemptor", cpu="1", spec={"priority": 100}, status=nominated)
    assert facts(text + pod("new", cpu="2"))["n1"] == [
        "1 more cpu",
        "nominated pod default/preemptor (priority 100, nominated to n1, keeps 3 cpu)",
    ]


def test_a_pod_that_is_being_deleted_holds_one_of_the_pods_of_its_node() -> None:
    """A pod that stays holds one too, and nothing of it can be spared."""
    meta = {"deletionTimestamp": "2026-03-05T10:00:00Z", "finalizers": ["x/y"]}
    spec = {"initContainers": [{"name": "i", "image": "i"}]}
    text = node("n1", allocatable={"pods": "2"}) + pod("leaves", "n1", metadata=meta)
    text += pod("stays", "n1", spec=spec)
    assert facts(text + pod("new")) == {
        "n1": [
            "it has 2 of 2 pods",
            "terminating pod default/leaves (being deleted, deletionTimestamp 2026-03-05T10:00:00Z; "
            "holds 1 of the node's pods of n1)",
        ]
    }


def test_init_containers_that_ask_for_less_and_a_refused_resize_hold_nothing() -> None:
    init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    refused = RESIZE | {"conditions": [RESIZE["conditions"][0] | {"reason": "Infeasible"}]}
    text = node("n1") + pod("plain", "n1", "2", spec={"initContainers": [init]})
    text += pod("refused", "n1", "9", status=refused)
    assert facts(text + pod("new", cpu="2"))["n1"] == ["1 more cpu"]


RESIZE: dict[str, Any] = {
    "phase": "Running",
    "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    "containerStatuses": [
        {
            "name": "c",
            "image": "i",
            "imageID": "i",
            "ready": True,
            "restartCount": 0,
            "allocatedResources": {"cpu": "1"},
            "resources": {"requests": {"cpu": "1"}},
        }
    ],
}


def test_a_resize_to_less_counts_until_it_is_done() -> None:
    (status,) = RESIZE["containerStatuses"]
    held = status | {"allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}
    shrinking = {"phase": "Running", "containerStatuses": [held]}
    text = node("n1") + pod("shrinking", "n1", "1", status=shrinking) + pod("new", cpu="500m")
    assert facts(text)["n1"] == [
        "500m more cpu",
        "resizing pod default/shrinking (counts 4 cpu on n1 until its resize to 1 is done)",
    ]


def test_an_init_container_holds_only_what_is_beyond_the_containers() -> None:
    """2 of the 3 cpu stay, so the pod is not told where a new one needs 2 more."""
    init = {"name": "initialize", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    text = node("n1") + pod("first", "n1", "2", spec={"initContainers": [init]})
    assert facts(text + pod("new", cpu="3"))["n1"] == ["2 more cpu"]
    assert len(facts(text + pod("new", cpu="2"))["n1"]) == 2


def test_an_init_container_asks_beside_the_sidecars_before_it() -> None:
    def init(name: str, cpu: str, **more: str) -> dict[str, Any]:
        return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}} | more

    inits = [init("large", "3"), init("proxy", "2", restartPolicy="Always"), init("last", "2")]
    spec = {"initContainers": inits}
    text = node("n1") + pod("first", "n1", "1", spec=spec)
    (_, holder) = facts(text + pod("new", cpu="1"))["n1"]
    assert "(holds 4 cpu of n1 for init container last; its containers ask for 3)" in holder
    (_, own) = facts(text + pod("new", cpu="1", spec=spec))["n1"]
    assert own == "it asks for 4 cpu, set by init container last; its containers for 3"


def test_overhead_is_part_of_the_request() -> None:
    text = node("n1", allocatable={"cpu": "1"}) + pod("new", cpu="1", spec={"runtimeClassName": "vm"})
    text += """
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: vm}, handler: vm,
  overhead: {podFixed: {cpu: 250m}}}
"""
    assert facts(text)["n1"] == [
        "250m more cpu",
        "it asks for 1.25 cpu, with 250m of overhead; its containers for 1",
    ]


# ---- volumes -----------------------------------------------------------------------------------------------

DRIVER = """
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: zfs}, spec: {storageCapacity: true}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: zfs
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Gi}}}
---
"""
CAPACITY = """
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: cap1, namespace: openebs}
storageClassName: fast
capacity: 3Gi
nodeTopology: {matchLabels: {kubernetes.io/hostname: n1}}
---
"""
USES = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_the_largest_capacity_of_a_node_and_the_size_of_the_claim() -> None:
    seen = explained(node("n1") + node("n2") + DRIVER + CAPACITY + pod("new", spec=USES))
    (group,) = seen.groups
    asks = "asks for 4Gi of class fast"
    assert [(one.text, one.nodes) for one in group.evidence] == [
        (f"claim default/data ({asks}; the largest CSIStorageCapacity here is 3Gi (openebs/cap1))", 1),
        (
            f"claim default/data ({asks}; driver zfs has published no CSIStorageCapacity for this class and "
            "node)",
            1,
        ),
    ]


def test_a_smaller_claim_leaves_room_for_the_other_claims() -> None:
    """The filter compares each claim alone; in a cluster one volume is made after the other."""
    other = DRIVER.split("---\n")[-2].replace("name: data", "name: other").replace("4Gi", "1Gi")
    uses = {"name": "w", "persistentVolumeClaim": {"claimName": "other"}}
    spec = {"volumes": [*USES["volumes"], uses]}
    seen = explained(node("n1") + DRIVER + other + "---\n" + CAPACITY + pod("new", spec=spec))
    assert [one.text for one in seen.changes] == ["lower the request of claim default/data from 4Gi to 2Gi"]


LIMIT = """
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1}, spec: {drivers: [
  {name: zfs, nodeID: n1, topologyKeys: [], allocatable: {count: 1}}]}}
---
"""
OLD_VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: fast,
  csi: {driver: zfs, volumeHandle: h}, claimRef: {namespace: default, name: old, uid: u}}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: old, namespace: default, uid: u, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], volumeName: pv,
  resources: {requests: {storage: 1Gi}}}
status: {phase: Bound}
---
"""
OLD = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "old"}}]}
NO_CAPACITY = DRIVER.replace("storageCapacity: true", "storageCapacity: false")


def attachment(name: str, volume: str) -> str:
    spec = {"attacher": "zfs", "nodeName": "n1", "source": {"persistentVolumeName": volume}}
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name}}
    return yaml.safe_dump(made | {"spec": spec, "status": {"attached": True}}) + "---\n"


def test_attachments_whose_pod_is_gone_hold_volumes_too() -> None:
    """A pod that uses one of the volumes is not blamed for the other."""
    left = OLD_VOLUME.split("---")[0].replace("name: pv}", "name: pv-left}").replace("Handle: h", "Handle: g")
    text = node("n1") + NO_CAPACITY + LIMIT.replace("count: 1", "count: 2") + OLD_VOLUME + left + "---\n"
    text += attachment("att-left", "pv-left") + pod("new", spec=USES)
    gone = "by VolumeAttachment att-left of volume pv-left (no pod there uses it any more)"
    (group,) = explained(text + pod("user", "n1", spec=OLD)).groups
    (fact,) = group.evidence
    assert fact.detail == f"limit 2 on n1, 2 in use: 1 by default/user, 1 {gone}, 1 more wanted"
    held = {name: fact.facts()[name] for name in ("pods", "attachments", "attachedVolumes")}
    assert held == {"pods": ["default/user"], "attachments": ["att-left"], "attachedVolumes": ["pv-left"]}
    alone = facts(text.replace("count: 2", "count: 1"))["n1"]
    assert alone == [f"volume limit zfs (limit 1 on n1, 1 in use: 1 {gone}, 1 more wanted)"]


def test_a_capacity_that_is_not_allocatable_is_told_where_it_would_be_enough() -> None:
    def told(capacity: str) -> list[str]:
        mig = "nvidia.com/mig-1g.10gb"
        status = {"capacity": {mig: capacity}, "allocatable": {"pods": "110", mig: "1"}}
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {mig: "2"}}}]}
        return facts(node("n1", status=status) + pod("new", spec=spec))["n1"]

    assert told("7") == ["1 more nvidia.com/mig-1g.10gb", "capacity 7, allocatable 1"]
    assert told("1") == ["1 more nvidia.com/mig-1g.10gb"]


def test_how_many_pods_a_node_may_have() -> None:
    full = node("n1", allocatable={"pods": "2"}) + pod("x", "n1") + pod("y", "n1") + pod("new")
    assert facts(full)["n1"] == ["it has 2 of 2 pods"]
    assert facts(full + node("n2", allocatable={"pods": "0"})) == {
        "n1": ["as many pods as the nodes may have"]
    }
    none = node("n1", status={"allocatable": {"cpu": "4"}}) + pod("new")
    assert facts(none)["n1"] == ["the node's allocatable has no pods"]


def test_ports_of_the_host_network_are_told_apart() -> None:
    ports = [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]
    spec = {"hostNetwork": True, "containers": ports}
    text = node("n1") + pod("there", "n1", spec=spec) + pod("new", spec=spec)
    assert facts(text)["n1"] == ["host port 80/TCP (hostNetwork)", "pod default/there (host port 80/TCP)"]


CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default, uid: mine, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], volumeName: pv,
  resources: {requests: {storage: 1Gi}}}
---
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: fast,
  csi: {driver: zfs, volumeHandle: h}, claimRef: {namespace: default, name: data, uid: theirs}}
---
"""


def test_a_claim_whose_uid_does_not_match_its_volume() -> None:
    text = node("n1") + CLAIM + "status: {phase: Lost}\n---\n" + VOLUME + pod("new", spec=USES)
    text = text.replace("1Gi}}}\n---\nstatus", "1Gi}}}\nstatus")
    told = "volume pv is bound to a claim with UID theirs, and this one has UID mine"
    assert facts(text) == {"n1": [f"claim default/data ({told})"]}


IN_ZONE_B = (
    "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: "
    "[{key: zone, operator: In, values: [b]}]}]}}"
)
BOUND = CLAIM.replace("uid: mine", "uid: theirs")
ZFS = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: zfs"
IN_TREE = VOLUME.replace("csi: {driver: zfs, volumeHandle: h}", "awsElasticBlockStore: {volumeID: vol-1}")
MIGRATED = """
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1, annotations: {storage.alpha.kubernetes.io/migrated-plugins: kubernetes.io/aws-ebs}}
spec: {drivers: []}
---
"""
SMALL = VOLUME.replace(", claimRef: {namespace: default, name: data, uid: theirs}", "")
SMALL += VOLUME.replace("name: pv", "name: pv-old").replace("uid: theirs", "uid: old")
LATE = DRIVER.split("---\n")[-2] + "---\n" + ZFS + ", volumeBindingMode: WaitForFirstConsumer"


LOCAL = f"{LATE}}}\n---\n{SMALL}".replace("provisioner: zfs", "provisioner: kubernetes.io/no-provisioner")
LOCAL = LOCAL.replace(
    "name: data, namespace: default}\nspec", "name: data, namespace: default, uid: new}\nspec"
)


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        (
            VOLUME + BOUND.replace("uid: theirs", 'uid: theirs, deletionTimestamp: "2026-03-05T10:00:00Z"'),
            "being deleted since 2026-03-05T10:00:00Z",
        ),
        (
            VOLUME.replace("claimRef", f"{IN_ZONE_B}, claimRef") + BOUND,
            "bound to volume pv, for zone In [b]",
        ),
        (
            IN_TREE.replace("claimRef", f"{IN_ZONE_B.replace('zone', ZONE)}, claimRef") + BOUND + MIGRATED,
            "bound to volume pv, for topology.ebs.csi.aws.com/zone In [b], as translated for its CSI driver",
        ),
        (
            LOCAL,
            "not bound, class fast: none of its 2 volumes (1 free) fits 4Gi on this node (pv has 1Gi; pv-old "
            "is Released: its claimRef still names claim default/data with UID old, and this one has UID "
            "new), and no driver makes any",
        ),
        (
            LATE.replace("name: data", "name: data, annotations: {volume.kubernetes.io/selected-node: n2}")
            + "}\n---\n",
            "being provisioned for node n2, and there is no such node",
        ),
        (
            LATE + ", allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [b, c]}]}]}\n---\n",
            "not bound; class fast makes volumes for zone in [b, c]",
        ),
    ],
)
def test_what_keeps_a_claim_from_a_node(objects: str, told: str) -> None:
    assert facts(node("n1") + objects + pod("new", spec=USES)) == {"n1": [f"claim default/data ({told})"]}


@pytest.mark.parametrize(
    ("claim_class", "told"),
    [
        (
            "",
            "not bound, class (none): the input has no StorageClass; add `kubectl get storageclass -o yaml`",
        ),
        (
            "storageClassName: fast, ",
            "not bound, class fast: the input has no StorageClass; add `kubectl get storageclass -o yaml`",
        ),
    ],
)
def test_an_input_without_storage_classes_is_told(claim_class: str, told: str) -> None:
    claim = DRIVER.split("---\n")[-2].replace("storageClassName: fast, ", claim_class)
    found = facts(node("n1") + claim + "---\n" + pod("new", spec=USES))
    assert found == {"n1": [f"claim default/data ({told})"]}


OTHERS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: slow}
provisioner: zfs
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: other, namespace: default}
spec: {storageClassName: slow, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
"""


def test_what_is_named_and_not_in_the_input_has_the_command_that_adds_it() -> None:
    claim = DRIVER.split("---\n")[-2]
    hint = "if the cluster has it, add `kubectl get storageclass fast -o yaml`"
    assert facts(OTHERS + node("n1") + claim + "---\n" + pod("new", spec=USES)) == {
        "n1": [f"claim default/data (not bound, class fast: the input has no StorageClass fast; {hint})"]
    }
    hint = "if the cluster has it, add `kubectl get pvc -n default data -o yaml`"
    assert facts(OTHERS + node("n1") + pod("new", spec=USES)) == {
        "n1": [
            "claim default/data (there is no such claim: "
            f"the input has no PersistentVolumeClaim default/data; {hint})"
        ]
    }


def test_a_claim_that_is_not_in_the_input() -> None:
    hint = "the input has no PersistentVolumeClaim; add `kubectl get pvc -A -o yaml`"
    assert facts(node("n1") + pod("new", spec=USES)) == {
        "n1": [f"claim default/data (there is no such claim: {hint})"]
    }


# ---- affinity ----------------------------------------------------------------------------------------------


def wants(**term: Any) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}} | term
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("term", "namespaces"),
    [
        ({}, "in default"),
        ({"namespaces": ["c"]}, "in c (by namespaces)"),
        (
            {"namespaceSelector": {"matchLabels": {"team": "z"}}},
            "in no namespace (by namespaceSelector team=z)",
        ),
        (
            {"namespaceSelector": {"matchLabels": {"team": "y"}}, "namespaces": ["c"]},
            "in b, c (by namespaceSelector team=y and namespaces)",
        ),
    ],
)
def test_the_namespaces_of_a_term_and_the_pod_that_is_in_another(
    term: dict[str, Any], namespaces: str
) -> None:
    spaces = "".join(
        f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{team: {team}}}}}}}\n---\n"
        for name, team in ("ax", "by", "cc", ("default", "d"))
    )
    text = spaces + node("n1") + pod("there", "n1", metadata=APP | {"namespace": "a"})
    told = f"affinity, in {HOST}=n1; pod a/there is there, but namespace a is not meant"
    assert facts(text + pod("new", spec=wants(**term))) == {
        "n1": [f"no pod with app in (x) {namespaces} ({told})"]
    }


def test_each_operator_of_an_affinity_term_is_named() -> None:
    asked = [("app", "In", ["y"]), ("app", "NotIn", ["z"]), ("team", "Exists", [])]
    listed = [{"key": key, "operator": operator, "values": values} for key, operator, values in asked]
    spec = wants(labelSelector={"matchExpressions": listed})
    (fact,) = facts(node("n1") + pod("new", spec=spec))["n1"]
    assert fact.startswith("no pod with app in (y), app NotIn [z], team Exists in default (affinity")


def test_labels_that_affinity_must_not_match() -> None:
    listed = {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]}
    spec = wants(labelSelector=listed, mismatchLabelKeys=["tenant"])
    new = pod("new", spec=spec, metadata={"labels": {"tenant": "t"}})
    (fact,) = facts(node("n1") + new)["n1"]
    assert fact.startswith("no pod with tenant Exists, tenant NotIn [t] by mismatchLabelKeys in default")


# ---- DaemonSets --------------------------------------------------------------------------------------------


def test_facts_are_in_the_document() -> None:
    text = node("n1", allocatable={"cpu": "2"})
    text += pod("preemptor", cpu="2", spec={"priority": 100}, status={"nominatedNodeName": "n1"})
    (group,) = document(explained(text + pod("new", cpu="500m", spec={"priority": 0})))["groups"]
    (blocker,) = group["blockers"]
    assert blocker == {
        "kind": "nominated-pod",
        "name": "default/preemptor",
        "detail": "priority 100, nominated to n1, keeps 2 cpu",
        "nodes": 1,
        "text": "nominated pod default/preemptor (priority 100, nominated to n1, keeps 2 cpu)",
        "node": "n1",
        "resource": "cpu",
        "amount": "2",
        "priority": 100,
    }


# ---- changes -----------------------------------------------------------------------------------------------


def changes(text: str) -> list[str]:
    return [change.text for change in explained(text).changes]


def test_what_helps_a_pod_that_a_tainted_node_keeps_from_spreading() -> None:
    text = node("cp", spec=TAINT) + node("worker") + pod("x", "worker", metadata=APP)
    text += pod("new", metadata=APP, spec={"topologySpreadConstraints": [spread(HOST)]})
    why = "node cp: untolerated taint control-plane:NoSchedule, counted by nodeTaintsPolicy Ignore"
    assert facts(text)["worker"] == [f"domain {HOST}=worker: 2 with this pod, fewest 0 in cp, maxSkew 1"]
    (group,) = (group for group in explained(text).groups if group.nodes == ["worker"])
    assert group.evidence[0].facts()["fewestNodes"] == [why]
    of = f"topology-spread {HOST} (maxSkew 1)"
    assert changes(text) == [
        "tolerate control-plane:NoSchedule",
        "remove the taint control-plane:NoSchedule from node cp",
        f"set nodeTaintsPolicy: Honor (now Ignore) in {of}",
        f"set maxSkew: 2 (now 1) in {of}",
        "add a node like worker (4 cpu, 8Gi memory)",
        f"drop {of}",
    ]


def test_a_lower_min_domains_is_offered_and_documented() -> None:
    text = node("a1", {"zone": "a"}) + node("a2", {"zone": "a"}) + pod("x", "a1", metadata=APP)
    text += pod("new", metadata=APP, spec={"topologySpreadConstraints": [spread("zone", minDomains=2)]})
    (found,) = [one for one in document(explained(text))["changes"] if one.get("field") == "minDomains"]
    assert found == {
        "kind": "change-spread",
        "text": "set minDomains: 1 (now 2) in topology-spread zone (maxSkew 1)",
        "feasibleNodes": 2,
        "constraint": {"kind": "topology-spread", "name": "zone (maxSkew 1)"},
        "field": "minDomains",
        "from": "2",
        "to": "1",
    }


def test_the_term_that_a_daemonset_controller_wrote_is_not_dropped() -> None:
    owner = {"kind": "DaemonSet", "name": "agent", "uid": "u", "apiVersion": "apps/v1", "controller": True}
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}
    spec = {"affinity": {"nodeAffinity": required}}
    text = node("n1") + node("n2") + pod("new", cpu="9", metadata={"ownerReferences": [owner]}, spec=spec)
    assert changes(text) == ["lower the cpu request of container c from 9 to 4"]
    plain = node("n1") + node("n2", allocatable={"cpu": "9"}) + pod("new", cpu="9", spec=spec)
    assert "drop node-affinity metadata.name In [n1]" in changes(plain)


# ---- priorities --------------------------------------------------------------------------------------------

CLASSES = """
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 5}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: timid}, value: 10,
  preemptionPolicy: Never}
---
"""


def test_the_smallest_priority_that_evicts_others_and_a_class_that_has_it() -> None:
    text = CLASSES + node("n1", allocatable={"cpu": "2"}) + pod("f1", "n1", "2", spec={"priority": 7})
    seen = explained(text + pod("new", cpu="2"))
    raised = seen.raised_priority
    assert raised is not None
    assert raised.text == "with priority 8 (PriorityClass high has 1000) it would evict default/f1 (7) on n1"
    assert document(seen)["preemption"]["raisedPriority"] == {
        "text": raised.text,
        "priority": 8,
        "priorityClass": "high",
        "node": "n1",
        "victims": [{"pod": "default/f1", "priority": 7, "startTime": None}],
        "violatedBudgets": [],
    }
    assert explained(text + pod("new", cpu="2", spec={"priorityClassName": "timid"})).raised_priority is None
    assert explained(text + pod("new", cpu="3")).raised_priority is None, "the node is too small"


def test_more_priority_may_help_less_and_the_smallest_that_helps_is_named() -> None:
    """With the priority of the class, the pod would evict the one that it has to be near."""
    near = {"labelSelector": {"matchLabels": APP["labels"]}, "topologyKey": HOST}
    terms = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    text = CLASSES + node("n1", allocatable={"cpu": "3"}) + pod("filler", "n1", "2", spec={"priority": 5})
    text += pod("db", "n1", "1", spec={"priority": 7}, metadata=APP)
    raised = explained(text + pod("new", cpu="2", spec={"affinity": terms})).raised_priority
    assert raised is not None
    assert raised.text == "with priority 6 it would evict default/filler (5) on n1"


def test_only_a_nominated_pod_is_in_the_way_of_a_higher_priority() -> None:
    text = node("n1", allocatable={"cpu": "2"})
    text += pod("preemptor", cpu="2", spec={"priority": 100}, status={"nominatedNodeName": "n1"})
    raised = explained(text + pod("new", cpu="500m", spec={"priority": 0})).raised_priority
    assert raised is not None
    assert (raised.text, raised.victims) == ("with priority 101 it would fit n1", ())


BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep, namespace: default}
spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}
---
"""


def test_the_budgets_that_evictions_violate_are_named() -> None:
    text = BUDGET + node("n1", allocatable={"cpu": "2"}) + pod("f1", "n1", "2", metadata=APP)
    seen = explained(text + pod("new", cpu="2", spec={"priority": 9}))
    assert seen.violated_budgets == {"n1": ("default/keep",)}
    (candidate,) = document(seen)["preemption"]["candidates"]
    assert (candidate["pdbViolations"], candidate["violatedBudgets"]) == (1, ["default/keep"])
    raised = explained(text + pod("new", cpu="2")).raised_priority
    assert raised is not None
    assert raised.text == "with priority 1 it would evict default/f1 (0) on n1; violates default/keep"


def test_a_claim_that_asks_for_no_more_than_there_is() -> None:
    text = node("n1") + DRIVER + CAPACITY + pod("new", spec=USES)
    one = Scheduler(build_cluster([decode_object(item) for item in yaml.safe_load_all(text) if item]))
    seen = one.ask.explain("default/new")
    (change,) = document(seen)["changes"]
    assert change == {
        "kind": "smaller-claim",
        "text": "lower the request of claim default/data from 4Gi to 3Gi",
        "feasibleNodes": 1,
        "claim": "default/data",
        "request": "",
        "from": "4Gi",
        "to": "3Gi",
    }
    assert one.ask.explain("default/new").feasible == [], "the claim is as it was"
    assert explained(text.replace("4Gi", "3Gi")).feasible == ["n1"]
    assert explained(text.replace("4Gi", "3073Mi")).feasible == []
