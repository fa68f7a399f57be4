"""What vectors and cases do not show of admission policies: patches, merges, other versions, costs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.doors.kube import (
    applied,
    atomic_parts,
)

import moorage as mo
from moorage.store import ServerError

Json = dict[str, Any]


def test_lists_are_merged_by_their_keys_and_others_are_atomic() -> None:
    containers = [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
    ports = [{"containerPort": 80, "protocol": "TCP"}]
    pod = {"spec": {"containers": [containers[0] | {"ports": ports}, containers[1]]}}
    patch = {"spec": {"containers": [{"name": "b", "tty": True}, {"name": "c"}]}}
    merged = applied(pod, patch, "Pod", "v1")["spec"]["containers"]
    assert merged == [containers[0] | {"ports": ports}, containers[1] | {"tty": True}, {"name": "c"}]
    more = {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}]}}
    merged = applied(pod, more, "Pod", "v1")["spec"]["containers"]
    assert merged[0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "web"}]
    assert applied({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": ["b"]}}, "Pod", "v1") == {
        "metadata": {"finalizers": ["a", "b"]}
    }
    atomic = {
        "spec": {"tolerations": [], "nodeSelector": {"a": "b"}, "containers": [{"name": "a", "args": []}]}
    }
    assert atomic_parts(atomic, "Pod", "v1") == [
        ".spec.tolerations",
        ".spec.nodeSelector",
        ".spec.containers[0].args",
    ]


def _policies(expression: str, rule: Json, **spec: Any) -> list[mo.kube.Object]:
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "p"}}
    constraints = {"resourceRules": [{"apiVersions": ["v1"], "operations": ["*"]} | rule]}
    validations = [{"expression": expression}]
    policy = {"matchConstraints": constraints, "validations": validations} | spec
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    return [
        mo.read_object(head | {"kind": "ValidatingAdmissionPolicy", "spec": policy}),
        mo.read_object(head | {"kind": "ValidatingAdmissionPolicyBinding", "spec": binding}),
    ]


def _denied(objects: list[mo.kube.Object], value: Json) -> list[str]:
    return [refused.message for refused in mo.admit(objects, value).refused]


SCALER = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
OF_WEB = {"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
OF_V1 = {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]}


def _metric(name: str) -> Json:
    target = {"type": "Utilization", "averageUtilization": 70}
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def test_a_policy_sees_the_version_that_its_rule_names() -> None:
    objects = _policies("object.spec.targetCPUUtilizationPercentage < 50", OF_V1)
    given = SCALER | {"spec": OF_WEB | {"metrics": [_metric("cpu")]}}
    (text,) = _denied(objects, given)
    assert text.endswith("failed expression: object.spec.targetCPUUtilizationPercentage < 50")
    lacking = mo.load(objects, [SCALER | {"spec": OF_WEB | {"metrics": [_metric("memory")]}}])
    assert "how metrics and behavior of an autoscaler look in autoscaling/v1" in str(lacking.warnings)


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {}}}
POD["spec"] = {"containers": [{"name": "c", "image": "i"}]}
OF_PODS = {"apiGroups": [""], "resources": ["pods"]}
CHECK = "!authorizer.requestResource.check('get').errored()"  # costs 350,000


def test_a_namespace_that_objects_imply_is_not_asked_about() -> None:
    policies = _policies("false", {"apiGroups": [""], "resources": ["pods", "namespaces"]})
    pod = POD | {"metadata": {"name": "a", "namespace": "team"}}
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    assert [text.split(" is ")[0] for text in _denied(policies, pod)] == ['pods "a"']
    assert len(mo.admit(policies, team, pod).refused) == 2


def test_a_policy_that_could_not_be_judged_is_a_note() -> None:
    answer = mo.admit(_policies("authorizer.path('/x').check('get').allowed()", OF_PODS), POD)
    assert str(answer).endswith("note: " + answer.notes[0])
    assert "is not asked, because the input does not tell the rights of users" in answer.notes[0]


def test_expressions_that_cost_too_much_are_errors() -> None:
    costly = " && ".join([CHECK] * 3)
    (text,) = _denied(_policies(costly, OF_PODS), POD)
    assert text.endswith("operation cancelled: actual cost limit exceeded")
    assert _denied(_policies(costly, OF_PODS, failurePolicy="Ignore"), POD) == []
    validations = [{"expression": f"{CHECK} && {CHECK}"}] * 15
    (text,) = _denied(_policies("true", OF_PODS, validations=validations), POD)
    assert "validation failed due to running out of cost budget" in text


def test_a_scope_and_names_choose_requests() -> None:
    both = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods", "priorityclasses"]}
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "n"}}
    for scope, denied in (("*", 2), ("Cluster", 1), ("Namespaced", 1)):
        objects = _policies("false", both | {"scope": scope})
        assert len(_denied(objects, priority | {"value": 1}) + _denied(objects, POD)) == denied
    assert _denied(_policies("false", OF_PODS | {"resourceNames": ["b"]}), POD) == []
    assert _denied(_policies("false", OF_PODS | {"resources": ["pods/resize"]}), POD) == []


def test_a_variable_is_there_before_it_is_read() -> None:
    variables = [{"name": "x", "expression": "object.metadata.name"}]
    for expression in ("has(variables.x)", "variables.?x.orValue('') == object.metadata.name"):
        assert _denied(_policies(expression, OF_PODS, variables=variables), POD) == []


def test_the_policies_of_the_moment_decide_about_each_request() -> None:
    api = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    constraints = {"resourceRules": [rule]}
    validations = [{"expression": "object.target.name != 'a'", "message": "not a"}]
    spec = {"containers": [{"name": "c"}]}
    objects: list[Json] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec} for name in ("p", "q")
    ]
    policy: Json = {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "v"}}
    policy["spec"] = {"matchConstraints": constraints, "validations": validations}
    bound: Json = {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}}
    bound["spec"] = {"policyName": "v", "validationActions": ["Deny"]}
    client = mo.Scheduler(mo.load([*objects, policy, bound])).client
    p, q = client.list(mo.Pod)[0]
    for _ in range(2):
        with pytest.raises(ServerError, match="denied request: not a"):
            client.bind(p, "a")
    client.bind(p, "b")
    client.delete("ValidatingAdmissionPolicyBinding", "b")
    client.bind(q, "a")


def test_without_policies_nobody_is_asked() -> None:
    def pod(name: str, priority: int, **spec: Any) -> Json:
        containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
        spec |= {"priority": priority, "containers": containers}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    node["status"] = {"allocatable": {"cpu": "1", "pods": "9"}}
    one = mo.Scheduler(mo.load([node, pod("low", 0, nodeName="a"), pod("high", 1)]))
    called = set[str]()
    sys.setprofile(lambda frame, *_: called.add(frame.f_code.co_qualname))
    try:
        one.run()
    finally:
        sys.setprofile(None)
    assert [pod.name for pod in one.client.list(mo.Pod)[0]] == ["high"]
    assert {"ApiServer.admit_bindings", "ApiServer.admit_victims"} <= called
    assert "ApiServer.admit" not in called
