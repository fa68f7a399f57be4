"""What objects ask for whose pods are counted and not made: of kinds in the table, and of unknown ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.objects import Cluster, load

CPU = "{requests: {cpu: 100}}"
POD = f"{{containers: [{{name: c, image: i, resources: {CPU}}}]}}"
TEMPLATE = f"{{metadata: {{labels: {{a: b}}}}, spec: {POD}}}"
WHOLE = f"{{apiVersion: apps/v1, kind: Deployment, spec: {{replicas: 3, template: {TEMPLATE}}}}}"
NODES = """
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {pool: a}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {pool: b}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n3}, spec: {taints: [{key: own, effect: NoSchedule}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n4},
  spec: {taints: [{key: nvidia.com/gpu, effect: NoExecute}]},
  status: {capacity: {nvidia.com/gpu: 1}}}
---
"""


def read(tmp_path: Path, text: str) -> Cluster:
    file = tmp_path / "f.yaml"
    file.write_text(NODES + text)
    return load(file)


def obj(version: str, kind: str, spec: str, meta: str = "") -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x{meta}}}\nspec: {spec}\n"


def numbers(cluster: Cluster) -> list[int]:
    return [one.replicas for one in cluster.left_out]


UNKNOWN = {
    "replicas alone": ("{replicas: 3}", 3),
    "a template": (f"{{server: {{podTemplate: {TEMPLATE}}}}}", 1),
    "the numbers around a template": (
        f"{{parts: [{{replicas: 2, job: {{parallelism: 3, template: {TEMPLATE}}}}}]}}",
        6,
    ),
    "a pod that is no template": (f"{{worker: {{replicas: 4, spec: {POD}}}, scheduler: {{spec: {POD}}}}}", 5),
    "cliques": (f"{{replicas: 1, template: {{cliques: [{{spec: {{replicas: 4, podSpec: {POD}}}}}]}}}}", 4),
    "instances": (f"{{instances: 3, resources: {CPU}}}", 3),
    "size": (f"{{size: 2, pod: {{resources: {CPU}}}}}", 2),
    "servers of pools": (
        f"{{pools: [{{servers: 4, resources: {CPU}}}, {{servers: 2, resources: {CPU}}}]}}",
        6,
    ),
    "resources beside the numbers": (f"{{cluster: {{size: 2}}, pod: {{resources: {CPU}}}}}", 2),
    "a size of what has no resources": (f"{{db: {{replicas: 2, resources: {CPU}}}, disk: {{size: 99}}}}", 2),
    "requests without resources": ("{fe: {replicas: 3, requests: {cpu: 1}}}", 3),
    "one object": (f"{{manifest: {WHOLE}}}", 3),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_may_make_pods_is_counted_and_told(case: str, tmp_path: Path) -> None:
    spec, number = UNKNOWN[case]
    cluster = read(tmp_path, obj("x.io/v1", "Thing", spec))
    why = "but moorage does not know whether Thing.x.io makes pods"
    assert [one[:6] for one in cluster.left_out] == [("x.io", "Thing", "default", "x", number, why)]
    replicas = f"{number} {'replica' if number == 1 else 'replicas'}"
    assert cluster.warnings == [
        "Left out, as moorage does not know whether these kinds make pods: "
        f"Thing.x.io default/x ({replicas})."
    ]


def test_a_kind_without_namespaces_has_none(tmp_path: Path) -> None:
    cluster = read(tmp_path, obj("x.io/v1", "Config", "{replicas: 2}", ", uid: u"))
    assert [one.key for one in cluster.left_out] == ["x"]


NO_PODS = {
    "a size without resources": obj("x.io/v1", "Thing", "{disk: {size: 3}}"),
    "resources without a number": obj("x.io/v1", "Thing", f"{{resources: {CPU}}}"),
    "a list of resources": obj("x.io/v1", "Thing", "{size: 3, resources: [{name: cpu}]}"),
    "whole objects in a list": obj("x.io/v1", "Thing", f"{{items: [{WHOLE}]}}"),
    "whole objects further below": obj("x.io/v1", "Thing", f"{{items: [{{id: a, template: {WHOLE}}}]}}"),
    "profiles of containers": obj("x.io/v1", "Thing", "{containers: [{name: c, execs: []}]}"),
    "a kind of templates": obj("x.io/v1", "SomeTemplate", f"{{template: {TEMPLATE}}}"),
    "a kind of definitions": obj("x.io/v1", "SomeDefinition", f"{{template: {TEMPLATE}}}"),
    "a kind of bindings": obj("x.io/v1", "SomeBinding", f"{{replicas: 3, resources: {CPU}}}"),
    "a composition": obj("apiextensions.crossplane.io/v1", "Composition", f"{{base: {WHOLE}}}"),
    "work for another cluster": obj("work.karmada.io/v1alpha2", "Work", f"{{one: {WHOLE}}}"),
    "a buffer": obj("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "{replicas: 3}"),
    "a runtime": obj("serving.kserve.io/v1alpha1", "ServingRuntime", POD),
    "a size of zero": obj("x.io/v1", "Thing", f"{{size: 0, resources: {CPU}}}"),
    "an object of other form": obj("x.io/v1", "Thing", f"[{{size: 3, resources: {CPU}}}]"),
}


@pytest.mark.parametrize("case", NO_PODS)
def test_what_makes_no_pods_is_not_counted(case: str, tmp_path: Path) -> None:
    cluster = read(tmp_path, NO_PODS[case])
    assert (cluster.left_out, cluster.pods) == ([], [])


COUNTED = {
    "DaemonSet of OpenTelemetry": (
        "opentelemetry.io/v1beta1",
        "OpenTelemetryCollector",
        "{mode: daemonset}",
        2,
    ),
    "its selector": (
        *("opentelemetry.io/v1beta1", "OpenTelemetryCollector"),
        *("{mode: daemonset, nodeSelector: {pool: a}}", 1),
    ),
    "its toleration": (
        *("opentelemetry.io/v1beta1", "OpenTelemetryCollector"),
        *("{mode: daemonset, tolerations: [{operator: Exists}]}", 4),
    ),
    "its selector of another form": (
        *("opentelemetry.io/v1beta1", "OpenTelemetryCollector", "{mode: daemonset, nodeSelector: [a]}", 2),
    ),
    "Deployment of OpenTelemetry": ("opentelemetry.io/v1beta1", "OpenTelemetryCollector", "{replicas: 3}", 3),
    "Alloy": ("collectors.grafana.com/v1alpha1", "Alloy", "{controller: {nodeSelector: {pool: b}}}", 1),
    "Alloy as a StatefulSet": (
        *("collectors.grafana.com/v1alpha1", "Alloy", "{controller: {type: statefulset, replicas: 3}}", 3),
    ),
    "Beat": ("beat.k8s.elastic.co/v1beta1", "Beat", f"{{daemonSet: {{podTemplate: {TEMPLATE}}}}}", 2),
    "Beat as a Deployment": ("beat.k8s.elastic.co/v1beta1", "Beat", "{deployment: {replicas: 4}}", 4),
    "Datadog": ("datadoghq.com/v2alpha1", "DatadogAgent", "{override: {clusterAgent: {replicas: 2}}}", 4),
    "drivers of GPUs": ("nvidia.com/v1", "ClusterPolicy", "{driver: {enabled: true}}", 1),
    "runners": (
        "actions.github.com/v1alpha1",
        "AutoscalingRunnerSet",
        f"{{minRunners: 10, template: {TEMPLATE}}}",
        10,
    ),
    "shards": (
        *("clickhouse.altinity.com/v1", "ClickHouseInstallation"),
        *("{configuration: {clusters: [{layout: {shardsCount: 4, replicasCount: 2}}]}}", 8),
    ),
    "groups of roles": (
        *("trino.stackable.tech/v1alpha1", "TrinoCluster"),
        *(
            "{servers: {roleGroups: {a: {replicas: 1}}}, workers: {roleGroups: {a: {replicas: 3}, b: {}}}}",
            5,
        ),
    ),
    "part that is off": (
        "pxc.percona.com/v1",
        "PerconaXtraDBCluster",
        "{pxc: {size: 3}, haproxy: {enabled: false}}",
        3,
    ),
    "instances of CloudNativePG": ("postgresql.cnpg.io/v1", "Cluster", "{instances: 2}", 2),
    "its poolers": ("postgresql.cnpg.io/v1", "Pooler", "{instances: 3}", 3),
    "postgresql with a pooler": (
        *("acid.zalan.do/v1", "postgresql", "{numberOfInstances: 2, connectionPooler: {}}", 4),
    ),
    "RabbitMQ": ("rabbitmq.com/v1beta1", "RabbitmqCluster", "{}", 1),
    "a pool of Kafka": ("kafka.strimzi.io/v1", "KafkaNodePool", "{replicas: 3}", 3),
    "Kafka": (
        *("kafka.strimzi.io/v1beta2", "Kafka"),
        *("{kafka: {replicas: 3}, zookeeper: {replicas: 2}, entityOperator: {}, cruiseControl: {}}", 7),
    ),
    "Elasticsearch": (
        *("elasticsearch.k8s.elastic.co/v1", "Elasticsearch"),
        *("{nodeSets: [{name: hot, count: 2}, {name: cold, count: 1}]}", 3),
    ),
    "Kibana": ("kibana.k8s.elastic.co/v1", "Kibana", "{count: 2}", 2),
    "shards of Prometheus": ("monitoring.coreos.com/v1", "Prometheus", "{shards: 2, replicas: 3}", 6),
    "Prometheus on each node": (
        *(
            "monitoring.coreos.com/v1alpha1",
            "PrometheusAgent",
            "{mode: DaemonSet, nodeSelector: {pool: a}}",
            1,
        ),
    ),
    "Alertmanager": ("monitoring.coreos.com/v1", "Alertmanager", "{}", 1),
    "a machine that runs": ("kubevirt.io/v1", "VirtualMachine", "{running: true}", 1),
    "one by its strategy": ("kubevirt.io/v1", "VirtualMachine", "{runStrategy: Always}", 1),
    "an instance": ("kubevirt.io/v1", "VirtualMachineInstance", "{domain: {}}", 1),
    "Spark": ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "{executor: {instances: 4}}", 5),
    "Spark whose driver is elsewhere": (
        *("sparkoperator.k8s.io/v1beta2", "SparkApplication", "{mode: client}", 2),
    ),
    "Ceph": ("ceph.rook.io/v1", "CephCluster", "{mon: {count: 3}, mgr: {count: 2}}", 5),
}


@pytest.mark.parametrize("case", COUNTED)
def test_what_a_kind_asks_for_is_counted(case: str, tmp_path: Path) -> None:
    version, kind, spec, number = COUNTED[case]
    assert numbers(read(tmp_path, obj(version, kind, spec))) == [number]


NONE_NOW = {
    "Ceph elsewhere": ("ceph.rook.io/v1", "CephCluster", "{external: {enable: true}, mon: {count: 3}}", ""),
    "a halted machine": ("kubevirt.io/v1", "VirtualMachine", "{runStrategy: Halted}", ""),
    "hibernation": (
        *("postgresql.cnpg.io/v1", "Cluster", "{instances: 2}"),
        ", annotations: {cnpg.io/hibernation: 'on'}",
    ),
    "brokers in pools": (
        *("kafka.strimzi.io/v1beta2", "Kafka", "{kafka: {replicas: 3}}"),
        ", annotations: {strimzi.io/node-pools: enabled}",
    ),
}


@pytest.mark.parametrize("case", NONE_NOW)
def test_what_asks_for_no_pods_now_is_told(case: str, tmp_path: Path) -> None:
    version, kind, spec, meta = NONE_NOW[case]
    cluster = read(tmp_path, obj(version, kind, spec, meta))
    (warning,) = cluster.warnings
    assert (cluster.left_out, "because they ask for no pods here (1)" in warning) == ([], True)


def test_what_an_operator_composes_names_the_operator(tmp_path: Path) -> None:
    spec = "{runStrategy: Always, template: {spec: {domain: {}}}}"
    (left_out,) = read(tmp_path, obj("kubevirt.io/v1", "VirtualMachine", spec)).left_out
    assert left_out.why == "whose pods depend on the version and settings of KubeVirt"


def test_agents_without_a_node_are_told(tmp_path: Path) -> None:
    spec = "{mode: daemonset, nodeSelector: {pool: none}}"
    cluster = read(tmp_path, obj("opentelemetry.io/v1beta1", "OpenTelemetryCollector", spec))
    assert cluster.left_out == []
    (warning,) = cluster.warnings
    assert warning == (
        "Not counted, because they ask for no pods here (1): "
        "OpenTelemetryCollector.opentelemetry.io default/x."
    )


RENDERED = {
    "HelmRelease": ("helm.toolkit.fluxcd.io/v2", "flux build or helm template"),
    "Application": ("argoproj.io/v1alpha1", "argocd app manifests"),
}


@pytest.mark.parametrize("kind", RENDERED)
def test_what_delivers_manifests_is_named_with_what_renders_them(kind: str, tmp_path: Path) -> None:
    """What a server has, has been delivered."""
    version, by = RENDERED[kind]
    values = f"{{values: {{replicas: 3, resources: {CPU}}}}}"
    (left_out,) = read(tmp_path, obj(version, kind, values)).left_out
    assert (left_out.replicas, left_out.why) == (1, f"which {by} renders")
    served = read(tmp_path, obj(version, kind, values, ", namespace: a, uid: u"))
    assert served.left_out == []
    assert f"Not counted, because {by} renders what they deliver (1): {kind}." in served.warnings[0]


def owned(kind: str, rest: str = "") -> str:
    reference = "{apiVersion: x.io/v1, kind: Thing, name: x, uid: o, controller: true}"
    group = {"Pod": "v1", "ConfigMap": "v1", "Boat": "x.io/v1"}.get(kind, "apps/v1")
    meta = f"{{name: b, namespace: default, uid: b, ownerReferences: [{reference}]}}"
    return f"---\napiVersion: {group}\nkind: {kind}\nmetadata: {meta}\n{rest}"


OWNED = {
    "a pod": (owned("Pod", f"spec: {POD}"), True),
    "a workload": (
        owned(
            "StatefulSet", f"spec: {{replicas: 0, selector: {{matchLabels: {{a: b}}}}, template: {TEMPLATE}}}"
        ),
        True,
    ),
    "a pod of what it owns": (
        owned("Boat") + owned("Pod", f"spec: {POD}").replace("kind: Thing, name: x", "kind: Boat, name: b"),
        True,
    ),
    "no pod": (owned("ConfigMap"), False),
    "nothing": ("", False),
}


@pytest.mark.parametrize("case", OWNED)
def test_pods_that_it_owns_show_that_they_are_in_the_input(case: str, tmp_path: Path) -> None:
    others, are_listed = OWNED[case]
    thing = obj("x.io/v1", "Thing", f"{{size: 3, resources: {CPU}}}", ", namespace: default, uid: o")
    assert numbers(read(tmp_path, thing + others)) == ([] if are_listed else [3])
