"""Pods of operators of databases, queues, search and monitoring."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.objects.workloads.kinds.test_expand_kinds import load, new_pods, obj, requests, running

from moorage.objects import PersistentVolumeClaim, Pod

MONITORING, ELASTIC = "monitoring.coreos.com/v1", "elasticsearch.k8s.elastic.co/v1"
TWO = "[{name: hot, count: 2}, {name: cold, count: 1}]"

MADE = {
    "Prometheus": (
        obj(MONITORING, "Prometheus", "{shards: 2, replicas: 2, resources: {requests: {memory: 400Mi}}}"),
        {
            "prometheus-x-0": 1,
            "prometheus-x-1": 1,
            "prometheus-x-shard-1-0": 1,
            "prometheus-x-shard-1-1": 1,
        },
        (10, 450),
    ),
    "Alertmanager": (obj(MONITORING, "Alertmanager", "{}"), {"alertmanager-x-0": 1}, (10, 250)),
    "ThanosRuler": (
        obj(MONITORING, "ThanosRuler", "{containers: [{name: side, resources: {requests: {cpu: 1}}}]}"),
        {"thanos-ruler-x-0": 1},
        (1010, 50),
    ),
    "RabbitmqCluster": (
        obj("rabbitmq.com/v1beta1", "RabbitmqCluster", "{replicas: 3}"),
        {"x-server-0": 1, "x-server-1": 1, "x-server-2": 1},
        (1000, 2048),
    ),
    "postgresql": (
        obj(
            "acid.zalan.do/v1",
            "postgresql",
            "{numberOfInstances: 1, volume: {size: 2Gi}, resources: {requests: {cpu: 10m}}}",
        ),
        {"x-0": 1},
        (10, 100),
    ),
    "Elasticsearch": (
        obj(ELASTIC, "Elasticsearch", f"{{nodeSets: {TWO}}}"),
        {"x-es-hot-0": 1, "x-es-hot-1": 1, "x-es-cold-0": 1},
        (100, 2048),
    ),
    "Kibana": (
        obj(
            "kibana.k8s.elastic.co/v1",
            "Kibana",
            "{count: 1, podTemplate: {spec: {containers: [{name: kibana, "
            "resources: {requests: {memory: 1Gi}}}]}}}",
        ),
        {"x-kb-": 1},
        (0, 1024),
    ),
    "Pooler": (
        obj("postgresql.cnpg.io/v1", "Pooler", "{instances: 2, pgbouncer: {}}"),
        {"x-": 2},
        (0, 0),
    ),
}


@pytest.mark.parametrize("case", MADE)
def test_pods_and_what_they_request(case: str, tmp_path: Path) -> None:
    text, pods, (cpu, mebibytes) = MADE[case]
    cluster = load(tmp_path, text)
    assert (new_pods(cluster), cluster.left_out) == (pods, [])
    for pod in cluster.pods:
        asked = requests(pod)
        assert (asked.get("cpu", 0), asked.get("memory", 0)) == (cpu, mebibytes << 20)


@pytest.mark.parametrize(
    ("replica", "poolers"),
    [("", {"x-pooler-": 1}), ("enableReplicaConnectionPooler: true,", {"x-pooler-": 1, "x-pooler-repl-": 1})],
)
def test_poolers_of_a_postgresql_have_pods_of_their_own(
    replica: str, poolers: dict[str, int], tmp_path: Path
) -> None:
    spec = f"{{numberOfInstances: 2, connectionPooler: {{numberOfInstances: 1}}, {replica} volume: {{}}}}"
    cluster = load(tmp_path, obj("acid.zalan.do/v1", "postgresql", spec))
    assert new_pods(cluster) == {"x-0": 1, "x-1": 1} | poolers


def test_a_postgresql_names_the_priority_class_of_its_pods(tmp_path: Path) -> None:
    spec = "{numberOfInstances: 1, podPriorityClassName: system-node-critical, volume: {}}"
    (pod,) = load(tmp_path, obj("acid.zalan.do/v1", "postgresql", spec)).pods
    assert pod.spec.priority_class_name == "system-node-critical"


@pytest.mark.parametrize(
    ("version", "kind", "spec", "claims"),
    [
        ("rabbitmq.com/v1beta1", "RabbitmqCluster", "{}", {"x-server-0-persistence": "10Gi"}),
        ("rabbitmq.com/v1beta1", "RabbitmqCluster", "{persistence: {storage: 0}}", {}),
        ("rabbitmq.com/v1beta1", "RabbitmqCluster", "{persistence: {storage: 0Mi}}", {}),
        (MONITORING, "Prometheus", "{}", {}),
        (
            MONITORING,
            "Prometheus",
            "{storage: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 9Gi}}}}}}",
            {"prometheus-x-0-db": "9Gi"},
        ),
    ],
)
def test_a_claim_for_each_pod_has_the_size_that_the_object_says(
    version: str, kind: str, spec: str, claims: dict[str, str], tmp_path: Path
) -> None:
    cluster = load(tmp_path, obj(version, kind, spec))
    found = [one for one in cluster.others if isinstance(one, PersistentVolumeClaim)]
    assert {one.name: str(one.spec.resources.requests["storage"]) for one in found} == claims


def test_nodes_of_elasticsearch_claim_what_their_templates_say(tmp_path: Path) -> None:
    claim = "{metadata: {name: elasticsearch-data}, spec: {resources: {requests: {storage: 5Gi}}}}"
    nodes = f"[{{name: a, count: 1, volumeClaimTemplates: [{claim}]}}, {{name: b, count: 1}}]"
    cluster = load(tmp_path, obj(ELASTIC, "Elasticsearch", f"{{nodeSets: {nodes}}}"))
    claims = [one for one in cluster.others if isinstance(one, PersistentVolumeClaim)]
    sizes = {one.name: str(one.spec.resources.requests["storage"]) for one in claims}
    assert sizes == {
        "x-es-a-0-elasticsearch-data": "5Gi",
        "x-es-b-0-elasticsearch-data": "1Gi",
    }


def test_a_rabbitmq_cluster_whose_stateful_set_is_overridden_is_left_out(tmp_path: Path) -> None:
    spec = "{replicas: 2, override: {statefulSet: {spec: {podManagementPolicy: Parallel}}}}"
    cluster = load(tmp_path, obj("rabbitmq.com/v1beta1", "RabbitmqCluster", spec))
    assert [(one.kind, one.replicas) for one in cluster.left_out] == [("RabbitmqCluster", 2)]


def test_pods_that_a_child_lacks_are_left_to_the_child(tmp_path: Path) -> None:
    """The StatefulSet of a Prometheus makes the pod that is missing, and its operator no other."""
    reference = f"[{{apiVersion: {MONITORING}, kind: Prometheus, name: x, uid: o, controller: true}}]"
    child = obj(
        "apps/v1",
        "StatefulSet",
        "{replicas: 2, serviceName: s, selector: {matchLabels: {a: b}}, "
        "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
        name="prometheus-x",
        meta=f", ownerReferences: {reference}",
    )
    listed = running("prometheus-x-0", "StatefulSet", "apps/v1", owner="prometheus-x")
    parent = obj(MONITORING, "Prometheus", "{replicas: 2}", meta=", uid: o")
    cluster = load(tmp_path, parent, child, listed)
    assert new_pods(cluster) == {"prometheus-x-1": 1}
    (made,) = [pod for pod in cluster.pods if isinstance(pod, Pod) and not pod.spec.node_name]
    owner = made.metadata.controller()
    assert owner is not None
    assert owner.kind == "StatefulSet"


def test_a_topic_of_kafka_makes_no_pods(tmp_path: Path) -> None:
    cluster = load(tmp_path, obj("kafka.strimzi.io/v1beta2", "KafkaTopic", "{replicas: 3, partitions: 9}"))
    assert (cluster.pods, cluster.left_out) == ([], [])


def test_a_ceph_cluster_elsewhere_has_no_daemons_here(tmp_path: Path) -> None:
    """A cluster of its own has daemons that are not simulated."""
    version, kind = "ceph.rook.io/v1", "CephCluster"
    cluster = load(tmp_path, obj(version, kind, "{external: {enable: true}}"))
    assert (cluster.pods, cluster.left_out) == ([], [])
    cluster = load(tmp_path, obj(version, kind, "{mon: {count: 3}, mgr: {count: 2}}"))
    assert [one.replicas for one in cluster.left_out] == [5]
