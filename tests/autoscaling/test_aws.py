"""Types of AWS for the pools of a cluster: where they come from, and what they rest on."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage import Quantity, Scheduler, load
from moorage.autoscalers import InstanceType
from moorage.errors import InputError
from moorage.kube import EC2NodeClass, Node, NodePool
from tests.cases.console import blocks
from tests.doors.autoscalers import types_of_objects

Json = dict[str, Any]


def pool(*zones: str) -> Json:
    wanted = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [*zones]}] if zones else []
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"template": {"spec": {"nodeClassRef": reference, "requirements": wanted}}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": spec}


def node(zone: str) -> Json:
    labels = {"karpenter.sh/nodepool": "p", "node.kubernetes.io/instance-type": "m5.large"}
    labels |= {"topology.kubernetes.io/zone": zone, "karpenter.sh/capacity-type": "on-demand"}
    status = {"capacity": {"cpu": "2", "memory": "7000Mi", "pods": "29"}}
    status["allocatable"] = {"cpu": "1900m", "memory": "6000Mi", "pods": "20"}
    metadata = {"name": f"node-{zone}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def node_class(**spec: Any) -> Json:
    meta = {"name": "default"}
    spec = {"amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "node", **spec}
    spec |= {"subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": meta, "spec": spec}


def types(*objects: Json, given: str | None = None) -> Any:
    client = Scheduler(load([*objects])).client
    nodes: list[Node] = client.list(Node)[0]
    return types_of_objects(given, nodes, [*client.list(NodePool)[0], *client.list(EC2NodeClass)[0]])


def named(found: Any, name: str) -> InstanceType:
    return next(one for one in found.by_pool["p"] if one.name == name)


@pytest.mark.parametrize(
    ("objects", "given", "zones", "told"),
    [
        ([node("eu-west-1b")], None, ["eu-west-1b"], "of nodes, volumes and pools: eu-west-1b"),
        ([], "aws:eu-west-1", ["eu-west-1a", "eu-west-1b", "eu-west-1c"], "assumed: eu-west-1a, eu-west-1b"),
        ([node("eu-west-1b")], "aws:eu-west-1c", ["eu-west-1c"], "given: eu-west-1c"),
    ],
)
def test_zones_without_a_status_are_told(
    objects: list[Json], given: str | None, zones: list[str], told: str
) -> None:
    found = types(pool(), node_class(), *objects, given=given)
    of_type = {one.zone for one in named(found, "m5.large").offerings if one.available}
    assert (sorted(of_type), told in found.source) == (zones, True)
    assert "prices of us-east-1" in found.source


@pytest.mark.parametrize(
    ("objects", "given", "message"),
    [
        (
            [node("us-east-1a"), node("us-west-2a")],
            None,
            "the region of its node class may be us-east-1, us-west-2",
        ),
        ([], "aws:us-east-1a,us-west-2a", '"aws:us-east-1a,us-west-2a" names no region'),
        ([node_class(kubelet={"maxPods": [1]}), node("us-east-1a")], None, "kubelet.maxPods"),
    ],
)
def test_a_region_that_is_not_known_is_asked_for(
    objects: list[Json], given: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        types(pool(), *objects, given=given)


def test_a_pool_names_the_region() -> None:
    assert types(pool("us-east-2b")).source.startswith("types: aws us-east-2, 2026-08; prices of us-east-1")
    earlier = pool("us-east-2b")
    earlier["spec"]["template"]["spec"]["requirements"][0]["key"] = "failure-domain.beta.kubernetes.io/zone"
    assert types(earlier).source.startswith("types: aws us-east-2, 2026-08; ")


def test_what_nodes_have_goes_before_the_estimate() -> None:
    found = types(pool(), node("us-east-1a"))
    seen, other = named(found, "m5.large"), named(found, "m5.xlarge")
    assert seen.capacity["memory"] == Quantity("7000Mi")
    assert (seen.capacity["pods"], other.capacity["pods"]) == (Quantity("29"), Quantity("58"))
    assert seen.shown is not None
    assert seen.shown[1]["pods"] == Quantity("20")
    assert other.shown is None


def test_without_a_pool_of_aws_there_are_no_types_of_it() -> None:
    of_kwok = pool()
    of_kwok["spec"]["template"]["spec"]["nodeClassRef"]["group"] = "karpenter.kwok.sh"
    with pytest.raises(InputError, match="no NodePool has an EC2NodeClass"):
        types(of_kwok, node("us-east-1a"), given="aws")


def test_a_node_class_with_another_hash_drifts() -> None:
    case = (Path(__file__).parents[1] / "cases/autoscalers/aws_drift.md").read_text()
    made_of, cluster = (one.body for one in blocks(case) if one.info[0] == "yaml")
    told = "  - {type: Drifted,"
    untold = "\n".join(line for line in cluster.splitlines() if not line.startswith(told))
    for texts, steps in (([untold, made_of], 1), ([untold], 0), ([cluster], 1)):
        found = Scheduler(load([one for text in texts for one in yaml.safe_load_all(text)])).ask.consolidate(
            once=True
        )
        assert [step.reason for step in found.steps] == ["Drifted"] * steps


def with_spot_prices(kind: InstanceType, draw: random.Random) -> InstanceType:
    """A type whose spot prices are known, and below those on demand."""
    share = draw.uniform(0.1, 1.0)
    return replace(
        kind,
        offerings=tuple(
            replace(each, price=each.price * share, is_bound=False) if each.is_bound else each
            for each in kind.offerings
        ),
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("kinds", [["spot"], ["on-demand", "spot"]])
@pytest.mark.parametrize("seed", range(2))
def test_no_spot_price_makes_a_node_cost_more_than_its_bound(kinds: list[str], seed: int) -> None:
    draw, asked = random.Random(seed), pool("us-east-1a")
    asked["spec"]["template"]["spec"]["requirements"] += [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": kinds},
        {
            "key": "karpenter.k8s.aws/instance-category",
            "operator": "In",
            "values": [*draw.choice(["cmr", "t"])],
        },
    ]
    requests = {"cpu": f"{draw.randint(1, 40) * 100}m", "memory": f"{draw.randint(1, 30)}Gi"}
    container = {"name": "c", "image": "c", "resources": {"requests": requests}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    unknown = types(asked, node_class(), given="aws:us-east-1a").by_pool["p"]
    known = [with_spot_prices(kind, draw) for kind in unknown]
    bound, found = (
        Scheduler(load([asked, node_class(), pod])).ask.provision(types=each).claims[0].launched
        for each in (unknown, known)
    )
    assert bound is not None
    assert found is not None
    assert found.offering.capacity_type == bound.offering.capacity_type == "spot"
    assert bound.cost.least == 0 < found.cost.least <= found.cost.most <= bound.cost.most
    assert 1 < found.choice.types <= bound.choice.types <= 60
