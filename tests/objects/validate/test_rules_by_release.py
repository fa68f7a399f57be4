"""Rules that hold in some releases, and with some feature gates."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import manifest_causes, newly_refused

import moorage as mo
from moorage.kube.releases import ALWAYS, RELEASES, Condition, FeatureGates, feature_gates, split_condition

SERVICE = {"metadata": {"name": "1st"}, "spec": {"ports": [{"port": 80}]}}
IMAGE: dict[str, Any] = {
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "image": {}}]},
        },
    }
}


def gates(version: str, **changes: bool) -> FeatureGates:
    return feature_gates(changes, RELEASES[version])


@pytest.mark.parametrize(
    ("row", "rest", "when"),
    [
        ("required", "required", ALWAYS),
        ("in a b; until 1.36", "in a b", Condition(until="1.36")),
        ("in a; on A; off B; since 1.35", "in a", Condition("1.35", on=("A",), off=("B",))),
        ("required a name; without /", "required a name; without /", ALWAYS),
        ("on A; required", "on A; required", ALWAYS),
    ],
)
def test_the_words_at_the_end_of_a_row_say_when_it_holds(row: str, rest: str, when: Condition) -> None:
    assert split_condition(row) == (rest, when)


@pytest.mark.parametrize(
    ("version", "holds"), [("1.34", False), ("1.35", True), ("1.36", True), ("1.37", False)]
)
def test_a_row_holds_from_its_first_to_its_last_release(version: str, holds: bool) -> None:
    assert Condition("1.35", "1.36").holds(gates(version)) is holds


def test_a_gate_that_a_release_lacks_is_off() -> None:
    assert Condition(off=("HPAScaleToZero", "NoSuchGate")).holds(gates("1.36"))
    assert not Condition(off=("HPAScaleToZero",)).holds(gates("1.37"))
    assert Condition(on=("HPAScaleToZero",)).holds(gates("1.36", HPAScaleToZero=True))


@pytest.mark.parametrize(
    ("version", "changes", "refused"),
    [
        ("1.35", {}, True),
        ("1.35", {"RelaxedServiceNameValidation": True}, False),
        ("1.36", {}, False),
        ("1.36", {"RelaxedServiceNameValidation": False}, True),
        ("1.38", {}, False),
    ],
)
def test_the_name_of_a_service_begins_with_a_digit(
    version: str, changes: dict[str, bool], refused: bool
) -> None:
    causes = manifest_causes(SERVICE, "Service", "v1", gates(version, **changes))
    assert [cause.field for cause in causes] == ["metadata.name"] * refused


def test_what_the_later_release_alone_refuses() -> None:
    found = newly_refused(IMAGE, "Deployment", "apps/v1", gates("1.36"), gates("1.37"))
    assert [cause.field for cause in found] == ["spec.template.spec.volumes[0].image.reference"]
    assert newly_refused(IMAGE, "Deployment", "apps/v1", gates("1.37"), gates("1.38")) == []
    assert newly_refused(IMAGE, "Widget", "a.b/v1", gates("1.36"), gates("1.37")) == []


def test_another_text_about_a_field_is_nothing_new() -> None:
    pod = {"spec": {"tolerations": [{"key": "a", "operator": "In"}]}}
    assert newly_refused(pod, "Pod", "v1", gates("1.34"), gates("1.35")) == []


@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_tolerations_that_compare_stay_once_a_server_has_them(kind: str) -> None:
    above = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "tolerations": [above]}
    if kind == "Job":
        spec = {"template": {"spec": spec | {"restartPolicy": "Never"}}}
    obj = {"apiVersion": "v1" if kind == "Pod" else "batch/v1", "kind": kind, "spec": spec}
    off = {"TaintTolerationComparisonOperators": False}
    change = mo.Scheduler(mo.Cluster(), feature_gates=off).change
    with pytest.raises(mo.InputError, match=r'tolerations\[0\]\.operator: Unsupported value: "Gt"'):
        change.apply(obj | {"metadata": {"name": "a"}})
    assert change.apply(obj | {"metadata": {"name": "a", "uid": "u"}}).created
