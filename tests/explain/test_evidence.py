"""The facts by which filters reject nodes, and pairs of changes that place a pod."""

from __future__ import annotations

from typing import Any

from tests.explain.test_explain_pod import scheduler
from tests.make import node, pod

from moorage import Scheduler
from moorage.kube import Node, Pod, Taint, build_cluster, decode_object

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def hosts(*names: str) -> list[Node]:
    return [node(name, labels={HOST: name, ZONE: f"z-{name}"}) for name in names]


def evidence(one: Scheduler, asked: Pod) -> list[list[str]]:
    return [[fact.text for fact in group.evidence] for group in one.ask.explain(asked).groups]


def claim(name: str, modes: str = "ReadWriteOnce", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": [modes], "resources": {"requests": {"storage": "1Gi"}}} | spec,
    }


def with_claim(name: str, **spec: Any) -> dict[str, Any]:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    spec |= {"containers": [{"name": "c"}], "volumes": [volume]}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


LOCAL = {
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def volume_for(claim_name: str, host: str, modes: str = "ReadWriteOnce") -> dict[str, Any]:
    on_host = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [host]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [modes],
        "storageClassName": "local",
        "local": {"path": "/d"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [on_host]}},
        "claimRef": {"name": claim_name, "namespace": "default", "uid": f"of-{claim_name}"},
    }
    meta = {"name": "pv"}
    return {"kind": "PersistentVolume", "metadata": meta, "spec": spec, "status": {"phase": "Bound"}}


def bound_claim(modes: str = "ReadWriteOnce") -> dict[str, Any]:
    made = claim("data", modes, storageClassName="local", volumeName="pv")
    made["metadata"] |= {"uid": "of-data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    return made | {"status": {"phase": "Bound"}}


def of_claims(*listed: dict[str, Any]) -> list[list[str]]:
    objects = [decode_object(item) for item in (*listed, LOCAL, with_claim("p"))]
    one = Scheduler(build_cluster([*hosts("a"), *objects]))
    return evidence(one, one.client.get(Pod, "p", "default"))


def test_claims_whose_volumes_are_elsewhere_or_missing() -> None:
    bound = f"claim default/data (bound to volume pv, for {HOST} In [b])"
    assert of_claims(volume_for("data", "b"), bound_claim()) == [[bound]]
    unbound = (
        "claim default/data (not bound, class local: none of its 1 volumes (0 free) fits 1Gi on this node "
        "(pv is Released: its claimRef still names claim default/else), "
        "and no driver makes any)"
    )
    free = claim("data", storageClassName="local")
    assert of_claims(volume_for("else", "a"), free) == [[unbound]]
    hint = "the input has no PersistentVolume; add `kubectl get pv -o yaml`"
    assert of_claims(bound_claim()) == [[f"claim default/data (bound to missing volume pv: {hint})"]]


def test_an_explanation_leaves_later_decisions_alone() -> None:
    """It works on a fork of the nodes; what plugins derive from the fork is not used afterwards."""
    disk = volume_for("data", "b")
    (wanted,) = disk["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    wanted["matchExpressions"][0]["key"] = "zone"
    others = map(decode_object, (disk, bound_claim(), LOCAL, with_claim("p")))
    one = Scheduler(build_cluster([node("n1", labels={"zone": "a"}), *others]))
    assert not one.ask.explain(one.client.get(Pod, "p", "default")).examination.feasible
    one.client.update(node("n1", labels={"zone": "b"}))
    one.sync()
    assert one.run().placements == {"default/p": "n1"}


def test_a_claim_that_one_pod_may_use() -> None:
    alone = "ReadWriteOncePod"
    user = with_claim("user", nodeName="a")
    found = of_claims(volume_for("data", "a", alone), bound_claim(alone), user)
    assert found == [["pod default/user (uses claim data)"]]


# ---- pairs of changes --------------------------------------------------------------------------------------


def pairs(one: Scheduler, asked: Pod) -> list[str]:
    seen = one.ask.explain(asked)
    assert not seen.changes
    return [pair.text for pair in seen.pairs]


def test_two_requests_are_lowered_no_further_than_needed() -> None:
    one = scheduler(node("a", cpu=2, memory="4Gi"))
    asked = pod("p", requests={"cpu": 3, "memory": "6Gi"})
    lowered = "lower the {} request of container c from {} to {}"
    both = [lowered.format("cpu", 3, 2), lowered.format("memory", "6Gi", "4Gi")]
    assert pairs(one, asked)[0] == ", and ".join(both)


def test_three_conflicts_have_no_pair() -> None:
    one = scheduler(node("a", cpu=1, memory="1Gi"))
    asked = pod("p", requests={"cpu": 3, "memory": "6Gi"}, node_selector={"disk": "ssd"})
    assert pairs(one, asked) == []


def test_a_taint_and_a_request_are_a_pair_without_a_drop_of_the_taint() -> None:
    one = scheduler(node("a", cpu=2, taints=[Taint(key="team", value="x", effect="NoSchedule")]))
    lowered = "lower the cpu request of container c from 3 to 2"
    assert pairs(one, pod("p", requests={"cpu": 3})) == [
        f"{lowered}, and remove the taint team=x:NoSchedule from node a",
        f"{lowered}, and tolerate team=x:NoSchedule",
    ]
