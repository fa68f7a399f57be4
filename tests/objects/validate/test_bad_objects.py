"""Bad objects: the text of a file, and the one line that it is refused with."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.objects.refusal import refusal


def pod(spec: str = "", metadata: str = "name: p") -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{containers: [{{name: c}}]"
        f"{', ' if spec else ''}{spec}}}\n"
    )


def container(fields: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, {fields}}}]}}\n"
    )


def spread(fields: str) -> str:
    return pod(f"topologySpreadConstraints: [{{{fields}}}]")


def node_affinity(terms: str) -> str:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return pod(f"affinity: {{nodeAffinity: {{{required}: {{nodeSelectorTerms: [{terms}]}}}}}}")


def workload(kind: str, spec: str) -> str:
    return (
        f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: w}}\nspec: {{{spec}, template: "
        "{metadata: {labels: {app: w}}, spec: {containers: [{name: c}]}}}\n"
    )


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
POD = "f.yaml: Pod p: "
CONTAINER = f"{POD}spec.containers[0]"
QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
LABEL_VALUE = "at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends"
LONG_X = "x" * 40 + "…" + "x" * 20
LONG_K = "k" * 40 + "…" + "k" * 20

OBJECTS = {
    "no name": (pod(metadata=""), "f.yaml: Pod (document 1): metadata.name: required"),
    "bad name": (pod(metadata="name: A_b"), 'f.yaml: Pod A_b: metadata.name: "A_b" is not a DNS subdomain'),
    "long name": (
        pod(metadata=f"name: {'a' * 254}"),
        f"f.yaml: Pod {'a' * 116}…{'a' * 60}: metadata.name: must not be longer than 253 characters",
    ),
    "bad generateName": (
        pod(metadata="generateName: A-"),
        'f.yaml: Pod (document 1): metadata.generateName: "A" is not a DNS subdomain',
    ),
    "bad namespace": (
        pod(metadata="name: p, namespace: a.b"),
        'f.yaml: Pod a.b/p: metadata.namespace: "a.b" is not a DNS label',
    ),
    "bad namespace name": (
        "kind: Namespace\nmetadata: {name: a.b}\n",
        'f.yaml: Namespace a.b: metadata.name: "a.b" is not a DNS label',
    ),
    "bad time": (
        pod(metadata="name: p, creationTimestamp: yesterday"),
        f'{POD}metadata.creationTimestamp: "yesterday" is not a timestamp like 2006-01-02T15:04:05Z',
    ),
    "no such day": (
        pod(metadata="name: p, deletionTimestamp: 2021-02-30T00:00:00Z"),
        f'{POD}metadata.deletionTimestamp: "2021-02-30T00:00:00Z" is not a timestamp like '
        "2006-01-02T15:04:05Z",
    ),
    "duplicate pod": (
        pod() + "---\n" + pod(metadata="name: p, namespace: default, labels: {a: b}"),
        "f.yaml: Pod default/p: listed twice, and different in f.yaml, document 1",
    ),
    "duplicate node": (
        "kind: List\nitems:\n- {kind: Node, metadata: {name: node}}\n"
        "- {kind: Node, metadata: {name: node}, spec: {unschedulable: true}}\n",
        "f.yaml: Node node: listed twice, and different in f.yaml, items[0]",
    ),
    "duplicate UID": (
        pod(metadata="name: p, uid: u") + "---\n" + pod(metadata="name: q, uid: u"),
        "f.yaml: Pod q: metadata.uid: another object has the same UID",
    ),
    "no containers": (
        "kind: Pod\nmetadata: {name: p}\n",
        f"{POD}spec.containers: a pod needs at least one container",
    ),
    "string for int": (pod("priority: high"), f"{POD}spec.priority: expected integer, got string"),
    "fraction for int": (pod("priority: 1.5"), f"{POD}spec.priority: expected integer, got number"),
    "boolean for string": (pod("nodeName: yes"), f"{POD}spec.nodeName: expected string, got boolean"),
    "list for map": (pod(metadata="name: p, labels: [a]"), f"{POD}metadata.labels: expected map, got list"),
    "map for list": (pod("tolerations: {}"), f"{POD}spec.tolerations: expected list, got map"),
    "number as label": (
        pod(metadata="name: p, labels: {ok: x, version: 1.10}"),
        f"{POD}metadata.labels[version]: expected string, got number",
    ),
    "null in a list": (
        "kind: Pod\nmetadata: {name: p}\nspec: {containers: [~]}\n",
        f"{POD}spec.containers[0]: expected map, got null",
    ),
    "priority beyond int32": (
        pod("priority: 2147483648"),
        f"{POD}spec.priority: expected integer <= 2147483647",
    ),
    "seconds beyond int64": (
        pod("terminationGracePeriodSeconds: 9223372036854775808"),
        f"{POD}spec.terminationGracePeriodSeconds: expected integer <= 9223372036854775807",
    ),
    "replicas beyond int32": (
        workload("Deployment", "replicas: 3000000000"),
        "f.yaml: Deployment w: spec.replicas: expected integer <= 2147483647",
    ),
    "negative replicas": (
        workload("StatefulSet", "replicas: -1"),
        "f.yaml: StatefulSet w: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    ),
    "too many replicas": (
        workload("ReplicaSet", "replicas: 2000001"),
        "f.yaml: ReplicaSet w: spec.replicas: "
        "Invalid value: 2000001: must be between 0 and 2000000, inclusive",
    ),
    "selector of other pods": (
        workload("Deployment", "selector: {matchLabels: {app: v}}"),
        'f.yaml: Deployment w: spec.template.metadata.labels: Invalid value: {"app":"w"}: '
        "`selector` does not match template `labels`",
    ),
    "template without containers": (
        "kind: Job\nmetadata: {name: j}\n",
        "f.yaml: Job j: spec.template.spec.containers: a pod needs at least one container",
    ),
    "controller without template": (
        "kind: ReplicationController\nmetadata: {name: r}\n",
        "f.yaml: ReplicationController r: spec.template: required",
    ),
    "port 0": (
        container("ports: [{containerPort: 80}, {hostPort: 80}]"),
        f"{CONTAINER}.ports[1].containerPort: Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    "port 70000": (
        container("ports: [{containerPort: 70000}]"),
        f"{CONTAINER}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    "negative host port": (
        container("ports: [{containerPort: 1, hostPort: -1}]"),
        f"{CONTAINER}.ports[0].hostPort: Invalid value: -1: must be greater than or equal to 0",
    ),
    "protocol": (
        container("ports: [{containerPort: 1, protocol: tcp}]"),
        f'{CONTAINER}.ports[0].protocol: must be one of TCP, UDP, SCTP, not "tcp"',
    ),
    "unknown quantity": (
        container("resources: {requests: {cpu: lots}}"),
        f'{CONTAINER}.resources.requests[cpu]: "lots" is not a quantity: {QUANTITY}',
    ),
    "malformed quantity": (
        container("resources: {limits: {memory: 1K}}"),
        f'{CONTAINER}.resources.limits[memory]: "1K" is not a quantity: unable to parse quantity\'s suffix',
    ),
    "negative quantity": (
        container("resources: {requests: {cpu: -1m}}"),
        f'{CONTAINER}.resources.requests[cpu]: Invalid value: "-1m": must be greater than or equal to 0',
    ),
    "negative number": (
        container("resources: {requests: {cpu: -0.5}}"),
        f'{CONTAINER}.resources.requests[cpu]: Invalid value: "-500m": must be greater than or equal to 0',
    ),
    "boolean quantity": (
        container("resources: {requests: {memory: 1, cpu: true}}"),
        f"{CONTAINER}.resources.requests[cpu]: expected number or string, got boolean",
    ),
    "init container": (
        pod("initContainers: [{name: i, resources: {requests: {cpu: -1}}}]"),
        f"{POD}spec.initContainers[0].resources.requests[cpu]: "
        'Invalid value: "-1": must be greater than or equal to 0',
    ),
    "overhead": (
        pod("overhead: {cpu: -1}"),
        f'{POD}spec.overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "pod-level resources": (
        pod("resources: {limits: {cpu: -1}}"),
        f'{POD}spec.resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "node capacity": (
        "kind: Node\nmetadata: {name: node}\nstatus: {capacity: {cpu: -4}}\n",
        'f.yaml: Node node: status.capacity[cpu]: Invalid value: "-4": must be greater than or equal to 0',
    ),
    "toleration operator": (
        pod("tolerations: [{key: a, operator: In}]"),
        f'{POD}spec.tolerations[0].operator: must be one of Equal, Exists, Lt, Gt, not "In"',
    ),
    "toleration effect": (
        pod("tolerations: [{key: a, effect: Never}]"),
        f"{POD}spec.tolerations[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, "
        'not "Never"',
    ),
    "toleration that compares with a text": (
        pod("tolerations: [{key: a, operator: Gt, value: '007'}]"),
        f"{POD}spec.tolerations[0].value: must be a valid decimal integer in canonical form",
    ),
    "toleration without key": (
        pod("tolerations: [{operator: Equal}]"),
        f"{POD}spec.tolerations[0].operator: must be Exists when the key is empty",
    ),
    "taint effect": (
        "kind: Node\nmetadata: {name: node}\nspec: {taints: [{key: a}]}\n",
        "f.yaml: Node node: spec.taints[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, "
        'not ""',
    ),
    "taint key": (
        "kind: Node\nmetadata: {name: node}\nspec: {taints: [{effect: NoExecute}]}\n",
        "f.yaml: Node node: spec.taints[0].key: required",
    ),
    "whenUnsatisfiable": (
        spread("maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Maybe"),
        f"{POD}spec.topologySpreadConstraints[0].whenUnsatisfiable: must be one of DoNotSchedule, "
        'ScheduleAnyway, not "Maybe"',
    ),
    "maxSkew": (
        spread("topologyKey: zone, whenUnsatisfiable: DoNotSchedule"),
        f"{POD}spec.topologySpreadConstraints[0].maxSkew: "
        "Invalid value: 0: must be greater than or equal to 1",
    ),
    "spread without topologyKey": (
        spread("maxSkew: 1, whenUnsatisfiable: DoNotSchedule"),
        f"{POD}spec.topologySpreadConstraints[0].topologyKey: required",
    ),
    "minDomains": (
        spread("maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0"),
        f"{POD}spec.topologySpreadConstraints[0].minDomains: "
        "Invalid value: 0: must be greater than or equal to 1",
    ),
    "inclusion policy": (
        spread(
            "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: No thanks"
        ),
        f"{POD}spec.topologySpreadConstraints[0].nodeTaintsPolicy: must be one of Honor, Ignore, "
        'not "No thanks"',
    ),
    "term without topologyKey": (
        pod(f"affinity: {{podAntiAffinity: {{{REQUIRED}: [{{}}]}}}}"),
        f"{POD}spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey: required",
    ),
    "pod affinity weight": (
        pod(f"affinity: {{podAffinity: {{{PREFERRED}: [{{weight: 101}}]}}}}"),
        f"{POD}spec.affinity.podAffinity.{PREFERRED}[0].weight: "
        "Invalid value: 101: must be between 1 and 100, inclusive",
    ),
    "node affinity weight": (
        pod(f"affinity: {{nodeAffinity: {{{PREFERRED}: [{{preference: {{}}}}]}}}}"),
        f"{POD}spec.affinity.nodeAffinity.{PREFERRED}[0].weight: "
        "Invalid value: 0: must be between 1 and 100, inclusive",
    ),
    "no terms": (
        node_affinity(""),
        f"{POD}spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: at least one term is required",
    ),
    "node selector operator": (
        node_affinity("{matchExpressions: [{key: a, operator: Equals, values: [b]}]}"),
        f"{POD}spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]: "
        'operator: Unsupported value: "Equals": supported values: "In", "NotIn", '
        '"Exists", "DoesNotExist", "Gt", "Lt"',
    ),
    "node field": (
        node_affinity("{matchFields: [{key: spec.x, operator: In, values: [b]}]}"),
        f"{POD}spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0]: "
        'key: Invalid value: "spec.x": not a valid field selector key',
    ),
    "label selector operator": (
        spread(
            "maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, "
            "labelSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}"
        ),
        f"{POD}spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0]: "
        '"Gt" is not a valid label selector operator',
    ),
    "selector without values": (
        workload("Deployment", "selector: {matchExpressions: [{key: a, operator: In}]}"),
        "f.yaml: Deployment w: spec.selector.matchExpressions[0]: values: "
        "Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
    ),
    "label value": (
        pod(metadata="name: p, labels: {a: '-'}"),
        f'{POD}metadata.labels[a]: "-" is not a label value: {LABEL_VALUE}',
    ),
    "node selector value": (
        pod("nodeSelector: {a: b c}"),
        f'{POD}spec.nodeSelector[a]: "b c" is not a label value: {LABEL_VALUE}',
    ),
    "long label": (
        pod(metadata=f"name: p, labels: {{a: {'x' * 100_000}}}"),
        f'{POD}metadata.labels[a]: "{LONG_X}" is not a label value: {LABEL_VALUE}',
    ),
    "long label key": (
        pod(metadata="name: p, labels: {? " + "k" * 100_000 + " : v}"),
        f'{POD}metadata.labels[{"k" * 104}…{"k" * 59}]: "{LONG_K}" is not a label key',
    ),
    "restart policy": (
        pod("restartPolicy: Sometimes"),
        f'{POD}spec.restartPolicy: must be one of Always, OnFailure, Never, not "Sometimes"',
    ),
    "preemption policy": (
        pod("preemptionPolicy: always"),
        f'{POD}spec.preemptionPolicy: must be one of PreemptLowerPriority, Never, not "always"',
    ),
    "phase": (
        pod() + "status: {phase: Done}\n",
        f'{POD}status.phase: must be one of Pending, Running, Succeeded, Failed, Unknown, not "Done"',
    ),
    "start time": (
        pod() + "status: {startTime: now}\n",
        f'{POD}status.startTime: "now" is not a timestamp like 2006-01-02T15:04:05Z',
    ),
    "allocated resources of a container": (
        pod() + "status: {containerStatuses: [{name: c, allocatedResources: {cpu: -1}}]}\n",
        f"{POD}status.containerStatuses[0].allocatedResources[cpu]: "
        'Invalid value: "-1": must be greater than or equal to 0',
    ),
    "actual resources of an init container": (
        pod() + "status: {initContainerStatuses: [{name: c, resources: {requests: {cpu: -1}}}]}\n",
        f"{POD}status.initContainerStatuses[0].resources.requests[cpu]: "
        'Invalid value: "-1": must be greater than or equal to 0',
    ),
    "allocated resources": (
        pod() + "status: {allocatedResources: {cpu: -1}}\n",
        f'{POD}status.allocatedResources[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "actual resources": (
        pod() + "status: {resources: {requests: {cpu: -1}}}\n",
        f'{POD}status.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "node allocatable": (
        "kind: Node\nmetadata: {name: node}\nstatus: {allocatable: {cpu: many}}\n",
        f'f.yaml: Node node: status.allocatable[cpu]: "many" is not a quantity: {QUANTITY}',
    ),
    "taint value": (
        "kind: Node\nmetadata: {name: node}\nspec: {taints: [{key: a, value: b c, effect: NoExecute}]}\n",
        f'f.yaml: Node node: spec.taints[0][a]: "b c" is not a label value: {LABEL_VALUE}',
    ),
    "topology key": (
        spread("maxSkew: 1, topologyKey: a/b/c, whenUnsatisfiable: DoNotSchedule"),
        f'{POD}spec.topologySpreadConstraints[0].topologyKey: "a/b/c" is not a label key',
    ),
    "namespace selector": (
        pod(
            f"affinity: {{podAffinity: {{{REQUIRED}: [{{topologyKey: a, "
            "namespaceSelector: {matchLabels: {a: b c}}}]}}"
        ),
        f"{POD}spec.affinity.podAffinity.{REQUIRED}[0].namespaceSelector.matchLabels[a]: "
        f'"b c" is not a label value: {LABEL_VALUE}',
    ),
    "container restart policy": (
        container("restartPolicy: Twice"),
        f'{CONTAINER}.restartPolicy: must be one of Always, OnFailure, Never, not "Twice"',
    ),
    "selector of a controller": (
        workload("ReplicationController", "selector: {a: b c}").replace("apps/v1", "v1"),
        f'f.yaml: ReplicationController w: spec.selector[a]: "b c" is not a label value: {LABEL_VALUE}',
    ),
    "template labels": (
        workload("DaemonSet", "minReadySeconds: 1").replace("{app: w}", "{app: w w}"),
        f'f.yaml: DaemonSet w: spec.template.metadata.labels[app]: "w w" is not a label value: {LABEL_VALUE}',
    ),
    "parallelism": (
        workload("Job", "parallelism: -1").replace("apps", "batch"),
        "f.yaml: Job w: spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
    ),
    "preemption policy of a class": (
        "kind: PriorityClass\nmetadata: {name: vip}\npreemptionPolicy: Sometimes\n",
        "f.yaml: PriorityClass vip: preemptionPolicy: must be one of PreemptLowerPriority, Never, "
        'not "Sometimes"',
    ),
    "priority above those of users": (
        "kind: PriorityClass\nmetadata: {name: vip}\nvalue: 1000000001\n",
        "f.yaml: PriorityClass vip: value: Forbidden: maximum allowed value of a user defined priority is "
        "1000000000",
    ),
    "completion mode": (
        workload("Job", "completionMode: Sorted").replace("apps", "batch"),
        'f.yaml: Job w: spec.completionMode: must be one of NonIndexed, Indexed, not "Sorted"',
    ),
    "indexed without completions": (
        workload("Job", "completionMode: Indexed, parallelism: 2").replace("apps", "batch"),
        "f.yaml: Job w: spec.completions: Required value: when completion mode is Indexed",
    ),
    "completed indexes": (
        workload("Job", "completions: 3").replace("apps", "batch") + "status: {completedIndexes: 1-}\n",
        'f.yaml: Job w: status.completedIndexes: "1-" is not a list of indexes like 1,3-5',
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_bad_object_is_refused_with_its_field(name: str, tmp_path: Path) -> None:
    text, expected = OBJECTS[name]
    file = tmp_path / "f.yaml"
    file.write_text(text)
    assert refusal(file) == expected
