"""Parts of a pod spec that contradict each other: the one line that the pod is refused with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.objects.make import pod, workload
from tests.objects.refusal import refusal

from moorage.errors import InputError
from moorage.objects import validate

Fields = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def needs(requests: Fields, limits: Fields | None = None) -> Fields:
    return {"resources": {"requests": requests, "limits": limits or {}}}


def one(**fields: Any) -> Fields:
    return {"containers": [{"name": "c"} | fields]}


def init(**fields: Any) -> Fields:
    return {"initContainers": [{"name": "i"} | fields]}


def two(first: Fields, second: Fields) -> Fields:
    return {"containers": [{"name": "c"} | first, {"name": "d"} | second]}


def ports(*numbers: tuple[int, int], **fields: Any) -> Fields:
    return {"ports": [{"containerPort": inner, "hostPort": outer} | fields for inner, outer in numbers]}


def spread(*constraints: Fields) -> Fields:
    base = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [base | fields for fields in constraints]}


def tolerates(**fields: Any) -> Fields:
    return {"tolerations": [{"key": "a", "operator": "Exists"} | fields]}


def uses(*names: str, **fields: Any) -> Fields:
    return one(resources={"claims": [{"name": name} for name in names]}) | fields


SECONDS = "effect must be 'NoExecute' when `tolerationSeconds` is set"
NO_SELECTOR = "Forbidden: must not be specified when labelSelector is not set"
NO_LIMIT = "Required value: Limit must be set for non overcommitable resources"
CLAIM = {"name": "b", "resourceClaimName": "x"}
BAD: dict[str, tuple[Fields, str]] = {
    "request above the limit": (
        one(**needs({"memory": "2Gi", "cpu": 2}, {"memory": "2048Mi", "cpu": "1000m"})),
        'containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    "of an init container": (
        init(**needs({"memory": "2Gi"}, {"memory": "1024Mi"})),
        'initContainers[0].resources.requests: Invalid value: "2Gi": must be less than or equal to memory '
        "limit of 1Gi",
    ),
    "of the pod": (
        needs({"cpu": "2"}, {"cpu": "1"}),
        'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    "sum of what is rounded": (
        two(needs({"cpu": "500u"}), needs({"cpu": "500u"})) | needs({"cpu": "1m"}, {"cpu": "1"}),
        'resources.requests[cpu]: Invalid value: "1m": must be greater than or equal to aggregate container '
        "requests of 2m",
    ),
    "name of a resource": (
        one(**needs({"=1+1": "1"})),
        'containers[0].resources.requests[=1+1]: Invalid value: "=1+1": name part must consist of '
        "alphanumeric characters, '-', '_' or '.', and must start and end with a…or validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
    "name of a resource without a domain": (
        init(**needs({"gpu": "1"}, {"gpu": "1"})),
        'initContainers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for '
        "containers",
    ),
    "name of a quota": (
        {"overhead": {f"requests.{GPU}": "1"}},
        f'overhead.limits[requests.{GPU}]: Invalid value: "requests.{GPU}": '
        "doesn't follow extended resource name standard",
    ),
    "name that a quota could not have": (
        one(**needs({}, {"example.com/" + "x" * 64: "1"})),
        f'containers[0].resources.limits[example.com/{"x" * 64}]: Invalid value: "example.com/{"x" * 64}": '
        "name part must be no more than 63 bytes",
    ),
    "resource that pods do not share": (
        needs({GPU: "1"}),
        f'resources.requests[{GPU}]: Unsupported value: "{GPU}": supported values: "cpu", "hugepages-", '
        '"memory"',
    ),
    "name": ({"containers": [{"name": "c"}, {"name": "c"}]}, 'containers[1].name: Duplicate value: "c"'),
    "name of an init container": (init(name="c"), 'initContainers[0].name: Duplicate value: "c"'),
    "host port": (
        two(ports((80, 80)), ports((81, 80), protocol="TCP")),
        'containers[1].ports[0].hostPort: Duplicate value: "TCP//80"',
    ),
    "host port of an init container": (
        init(**ports((80, 80), (81, 80))),
        'initContainers[0].ports[1].hostPort: Duplicate value: "TCP//80"',
    ),
    "another host port in the network of the host": (
        one(**ports((80, 81))) | {"hostNetwork": True},
        "containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` "
        "is true",
    ),
    "seconds": (
        tolerates(effect="NoSchedule", tolerationSeconds=3),
        f'tolerations[0].effect: Invalid value: "NoSchedule": {SECONDS}',
    ),
    "seconds for all effects": (
        tolerates(tolerationSeconds=3),
        f'tolerations[0].effect: Invalid value: "": {SECONDS}',
    ),
    "Exists with a value": (
        tolerates(value="x"),
        "tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
    ),
    "two constraints of a key": (
        spread({}, {"whenUnsatisfiable": "ScheduleAnyway"}, {"maxSkew": 2}),
        "topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: "
        f'Duplicate value: "{{{ZONE}, DoNotSchedule}}"',
    ),
    "minDomains": (
        spread({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}),
        "topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if "
        "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
    ),
    "label keys without a selector": (
        spread({"matchLabelKeys": ["a"]}),
        f"topologySpreadConstraints[0].matchLabelKeys: {NO_SELECTOR}",
    ),
    "label keys of a term": (
        {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, "mismatchLabelKeys": ["a"]}]}}},
        f"affinity.podAffinity.{REQUIRED}[0].mismatchLabelKeys: {NO_SELECTOR}",
    ),
    "claim without a name": (
        {"resourceClaims": [{"name": "b"}]},
        "resourceClaims[0]: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
    ),
    "claim with two names": (
        {"resourceClaims": [CLAIM | {"resourceClaimTemplateName": "t"}]},
        "resourceClaims[0]: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be "
        "specified",
    ),
    "claim twice": (
        {"resourceClaims": [CLAIM, CLAIM]},
        'resourceClaims[1].name: Duplicate value: "b"',
    ),
    "use of no claim": (
        uses("z"),
        'containers[0].resources.claims[0]: Not found: "z": must be one of the names in '
        "pod.spec.resourceClaims which is empty",
    ),
    "use of an unknown claim": (
        uses("b", "z", resourceClaims=[CLAIM, CLAIM | {"name": "a"}]),
        'containers[0].resources.claims[1]: Not found: "z": must be one of the names in '
        "pod.spec.resourceClaims: a, b",
    ),
    "part of a device": (
        one(**needs({}, {GPU: "500m"})),
        f'containers[0].resources.limits[{GPU}]: Invalid value: "500m": must be an integer',
    ),
    "no limit": (one(**needs({GPU: 1})), f"containers[0].resources.limits: {NO_LIMIT}"),
    "no limit of huge pages": (one(**needs({HUGE: "2Mi"})), f"containers[0].resources.limits: {NO_LIMIT}"),
    "limit above the request": (
        one(**needs({GPU: 1}, {GPU: 2})),
        f'containers[0].resources.requests: Invalid value: "1": must be equal to {GPU} limit of 2',
    ),
    "less than the containers": (
        two(needs({"cpu": "2"}), needs({}, {"cpu": "1"})) | needs({"cpu": "1"}),
        'resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container '
        "requests of 3",
    ),
    "less than an init container": (
        init(**needs({"cpu": "2"})) | needs({"cpu": "1"}),
        'resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container '
        "requests of 2",
    ),
    "less huge pages than the containers": (
        two(needs({}, {HUGE: "2Mi"}), needs({}, {HUGE: "2Mi"})) | needs({"cpu": 1}, {HUGE: "2Mi"}),
        f'resources.requests[{HUGE}]: Invalid value: "2Mi": must be greater than or equal to aggregate '
        "container requests of 4Mi",
    ),
    "limit below the containers": (
        two(needs({"cpu": "2"}), needs({"cpu": "2"})) | needs({}, {"cpu": "3"}),
        'resources.requests: Invalid value: "4": must be less than or equal to cpu limit of 3',
    ),
    "limit below that of a container": (
        one(**needs({"cpu": "1"}, {"cpu": "3"})) | needs({}, {"cpu": "2"}),
        'resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits '
        "of 2",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_pod_is_refused_with_its_field(case: str, tmp_path: Path) -> None:
    spec, expected = BAD[case]
    document = {"kind": "Pod", "metadata": {"name": "p"}, "spec": one() | spec}
    (tmp_path / "f.json").write_text(json.dumps(document))
    assert refusal(tmp_path / "f.json") == f"f.json: Pod p: spec.{expected}"


def test_a_bad_template_is_refused_with_its_field() -> None:
    deployment = workload("Deployment", "w", {"template": {"spec": BAD["name"][0]}})
    with pytest.raises(InputError, match=r"^Deployment w: spec\.template\.spec\.containers\[1\]\.name: Dup"):
        validate(deployment)


GOOD: dict[str, Fields] = {
    "equal quantities": one(**needs({"cpu": 1, GPU: 1}, {"cpu": "1000m", GPU: "1"})),
    "requests of limits": one(**needs({}, {GPU: 1, HUGE: "2Mi", "cpu": 1})),
    "host ports of other addresses": two(ports((80, 80)), ports((81, 80), hostIP="10.0.0.1")),
    "host ports one after the other": one(**ports((80, 80))) | init(**ports((81, 80))),
    "default host ports": one(**ports((80, 0))) | {"hostNetwork": True},
    "seconds": tolerates(effect="NoExecute", tolerationSeconds=3),
    "constraints of two keys": spread({}, {"topologyKey": "a"}, {"whenUnsatisfiable": "ScheduleAnyway"}),
    "label keys with an empty selector": spread({"matchLabelKeys": ["a"], "labelSelector": {}}),
    "claims": uses("b", resourceClaims=[CLAIM]),
    "sums of containers": two(needs({"cpu": 1}), needs({}, {"cpu": 1})) | needs({"cpu": 2}, {"cpu": 3}),
    "quantities that round to the same": one(**needs({"cpu": "500u"}, {"cpu": "400u"})),
    "parts of a resource of nodes": one(**needs({"kubernetes.io/x": "1500m"})),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_good_pod_is_accepted(case: str) -> None:
    validate(pod("p", GOOD[case]))
