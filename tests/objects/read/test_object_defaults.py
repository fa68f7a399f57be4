"""What the API server fills in."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import with_version_defaults
from tests.make import make
from tests.objects.make import CONTAINERS, node, pod, workload

from moorage.errors import InputError
from moorage.kube import Quantity, Toleration, decode_object, defaults, object_to_dict


def fill(obj: Any, *others: Any) -> Any:
    return defaults([obj, *others])[0]


def test_uids_follow_from_the_object_and_differ() -> None:
    objects = [pod("a"), pod("b"), pod("a", metadata={"namespace": "x"}), make("Service", "a"), node("a")]
    uids = [obj.metadata.uid for obj in defaults(objects)]
    assert len(set(uids)) == len(uids)
    assert uids == [obj.metadata.uid for obj in defaults(objects)]
    assert fill(pod("a", metadata={"uid": "mine"})).metadata.uid == "mine"


def test_generated_names_are_new_and_repeatable() -> None:
    objects = [pod("", metadata={"generateName": "web-"}) for _ in range(50)]
    first = [obj.name for obj in defaults(objects)]
    assert len(set(first)) == 50
    assert all(name.startswith("web-") and len(name) == 9 for name in first)
    assert first == [obj.name for obj in defaults(objects)]
    taken = defaults([*objects[:1], pod(first[0])])
    assert [obj.name for obj in taken] == [first[1], first[0]]


def test_what_is_there_stays() -> None:
    spec = {"schedulerName": "s", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "priority": 5}
    meta = {"uid": "u", "namespace": "x"}
    complete = pod("p", spec | {"nodeName": "n"}, metadata=meta, status={"phase": "Running"})
    assert fill(complete) is complete


SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


@pytest.mark.parametrize(
    ("name", "priority", "policy"),
    [*((name, value, None) for name, value in SYSTEM.items()), ("batch", -5, "Never"), ("", 0, None)],
)
def test_priority_and_policy_come_from_the_priority_class(
    name: str, priority: int, policy: str | None
) -> None:
    batch = make("PriorityClass", "batch", value=-5, preemptionPolicy="Never")
    spec = fill(pod("p", {"priorityClassName": name}), batch).spec
    assert (spec.priority, spec.preemption_policy, spec.priority_class_name) == (priority, policy, name)


def test_global_default_class_is_the_lowest() -> None:
    classes = [
        make("PriorityClass", "high", value=9, globalDefault=True),
        make("PriorityClass", "low", value=3, globalDefault=True, preemptionPolicy="Never"),
        make("PriorityClass", "other", value=1),
    ]
    spec, other = fill(pod("p"), *classes).spec, fill(pod("q", {"priority": 8}), *classes).spec
    assert (spec.priority, spec.priority_class_name, spec.preemption_policy) == (3, "low", "Never")
    assert (other.priority, other.priority_class_name) == (8, "")


def test_an_unknown_priority_class_is_refused_unless_there_is_a_priority() -> None:
    with pytest.raises(InputError) as caught:
        fill(pod("p", {"priorityClassName": "vip"}))
    assert str(caught.value) == 'Pod default/p: spec.priorityClassName: there is no PriorityClass "vip"'
    assert fill(pod("p", {"priorityClassName": "vip", "priority": 3})).spec.priority == 3


NOT_READY, UNREACHABLE = (f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable"))
TOLERATED = [
    Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=300)
    for key in (NOT_READY, UNREACHABLE)
]


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        ({"operator": "Exists"}, []),
        ({"operator": "Exists", "effect": "NoSchedule"}, TOLERATED),
        ({"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}, TOLERATED[1:]),
        ({"key": UNREACHABLE, "operator": "Exists"}, TOLERATED[:1]),
    ],
)
def test_tolerations_of_unhealthy_nodes(toleration: dict[str, str], added: list[Toleration]) -> None:
    assert list(fill(pod("p", {"tolerations": [toleration]})).spec.tolerations[1:]) == added
    assert list(fill(pod("p")).spec.tolerations) == TOLERATED


def requests(*values: dict[str, str], **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"c{i}", "resources": {"requests": value}, **fields} for i, value in enumerate(values)]


SIDECAR = requests({"cpu": "2"}, restartPolicy="Always") + requests({"cpu": "4"})


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        (CONTAINERS, [], {}),
        (requests({"cpu": "1"}, {"cpu": "500m", "memory": "1Gi"}), [], {"cpu": "1500m", "memory": "1Gi"}),
        (requests({"cpu": "1"}), requests({"cpu": "3"}, {"memory": "2Gi"}), {"cpu": "3", "memory": "2Gi"}),
        (requests({"cpu": "1"}), SIDECAR, {"cpu": "6"}),
        (requests({"cpu": "5"}), SIDECAR, {"cpu": "7"}),
    ],
)
def test_pod_level_requests(containers: list[Any], init: list[Any], expected: dict[str, str]) -> None:
    """They are those of the containers, else the limits, of resources that pods share."""
    limits = {"cpu": "8", "memory": "8Gi", "hugepages-2Mi": "4Mi"}
    own = {"limits": limits | {"example.com/gpu": "1"}}
    filled = fill(pod("p", {"containers": containers, "initContainers": init, "resources": own}))
    found = {name: Quantity(raw) for name, raw in filled.spec.resources.requests.items()}
    assert found == {name: Quantity(raw) for name, raw in (limits | expected).items()}


@pytest.mark.parametrize("limits", [{"limits": {"cpu": "8"}}, {}])
def test_pod_level_requests_that_are_there_stay(limits: dict[str, Any]) -> None:
    resources = limits | {"requests": {"cpu": "2"}}
    filled = fill(pod("p", {"containers": requests({"cpu": "1"}), "resources": resources}))
    assert filled.spec.resources.requests == {"cpu": "2"}


def test_allocatable_defaults_to_capacity() -> None:
    capacity, allocatable = {"capacity": {"cpu": "4"}}, {"allocatable": {"cpu": "3"}}
    assert fill(node("n", status=capacity)).status.allocatable == {"cpu": "4"}
    assert fill(node("n", status=capacity | allocatable)).status.allocatable == {"cpu": "3"}


def test_daemon_set_template_gets_no_admission_tolerations() -> None:
    filled = fill(workload("DaemonSet", "w"))
    assert filled.spec.template.spec.tolerations == ()
    assert filled.spec.template.spec.priority == 0
    assert filled.spec.selector.match_labels == {"app": "w"}


JOBS: list[dict[str, Any]] = [{}, {"parallelism": 3}, {"completions": 3}, {"parallelism": 0}]
LISTED = [
    ("v1/PersistentVolume", {"capacity": {"storage": "1u"}}),
    ("v1/ResourceQuota", {"hard": {"cpu": "1u"}}),
    ("v1/LimitRange", {"limits": [{"type": "Pod", "max": {"cpu": "1u"}}]}),
    (
        "resource.k8s.io/v1/ResourceClaim",
        {"devices": {"requests": [{"name": "r", "exactly": {"tolerations": [{"key": "a"}]}}]}},
    ),
    (
        "resource.k8s.io/v1/ResourceClaimTemplate",
        {
            "spec": {
                "devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "s"}, {"name": "t"}]}]}
            }
        },
    ),
    (
        "v1/Pod",
        {
            "containers": [
                {"name": "c", "ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": "1u"}}}
            ],
            "volumes": [{"name": "v", "rbd": {"image": "i", "monitors": ["m"]}}],
        },
    ),
    (
        "v1/Pod",
        {
            "hostNetwork": True,
            "containers": [{"name": "c", "ports": [{"containerPort": 81, "hostPort": 8081}]}],
            "initContainers": [{"name": "i", "ports": [{"containerPort": 80}]}],
        },
    ),
    *(("batch/v1/Job", {"template": {"spec": {"containers": []}}} | each) for each in JOBS),
]


@pytest.mark.parametrize(("kind", "spec"), LISTED, ids=str)
def test_a_struct_has_the_defaults_of_its_manifest(kind: str, spec: dict[str, Any]) -> None:
    version, _, short = kind.rpartition("/")
    value = {"apiVersion": version, "kind": short, "metadata": {"name": "x"}, "spec": spec}
    whole = decode_object(with_version_defaults(value, short, version))
    assert fill(decode_object(value)).spec == fill(whole).spec
    assert fill(decode_object(value)).spec != decode_object(value).spec


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_defaults_of_a_struct_hide_none_of_its_manifest(kind: str) -> None:
    value = object_to_dict(workload(kind, "w"))
    filled = object_to_dict(fill(decode_object(value)))
    strategies = [
        {
            name: item
            for name, item in with_version_defaults(each, kind, "apps/v1")["spec"].items()
            if "trategy" in name
        }
        for each in (value, filled)
    ]
    assert strategies[0] == strategies[1]


def test_a_storage_class_has_the_defaults_of_its_manifest() -> None:
    filled = fill(make("StorageClass", "s", provisioner="p"))
    assert (filled.reclaim_policy, filled.volume_binding_mode) == ("Delete", "Immediate")
