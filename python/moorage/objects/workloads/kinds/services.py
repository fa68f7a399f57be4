"""Pods of operators of databases, queues, search and monitoring, with the requests that they default to."""

from __future__ import annotations

from typing import Any

from .kind_values import (
    CHOSEN,
    Group,
    Groups,
    Values,
    claimed,
    map_of,
    maps_of,
    name_of,
    number_of,
    picked,
    size_of,
)


def _same(**resources: str) -> Values:
    """Return resources with equal requests and limits."""
    return {"requests": resources, "limits": resources}


def _with_defaults(containers: Any, name: str, resources: Values) -> list[Values]:
    """Return containers with the main one, which has default resources if it names none."""
    found = maps_of(containers)
    main = next((one for one in found if one.get("name") == name), {"name": name})
    own = map_of(main, "resources")
    if not (own.get("requests") or own.get("limits")):
        main = main | {"resources": resources}
    return [{"image": name} | main, *(one for one in found if one.get("name") != name)]


# ---- prometheus-operator -----------------------------------------------------------------------------------

_RELOADER = _same(cpu="10m", memory="50Mi")


def prometheus_pods(obj: Values) -> Groups:
    """Return the pods of a Prometheus or PrometheusAgent: replicas of each shard (prometheus-operator
    v0.86)."""
    spec, base = map_of(obj, "spec"), "prometheus" if obj.get("kind") == "Prometheus" else "prom-agent"
    if spec.get("mode") == "DaemonSet":
        return
    for shard in range(number_of(spec.get("shards"), 1, "spec.shards")):
        name = f"{base}-{name_of(obj)}" + (f"-shard-{shard}" if shard else "")
        yield _monitoring(obj, name, "prometheus", map_of(spec, "resources"))


def alertmanager_pods(obj: Values) -> Groups:
    """Return the pods of an Alertmanager, which request 200Mi of memory by default."""
    own = map_of(obj, "spec", "resources")
    requests = {"memory": "200Mi"} | map_of(own, "requests")
    yield _monitoring(obj, f"alertmanager-{name_of(obj)}", "alertmanager", own | {"requests": requests})


def ruler_pods(obj: Values) -> Groups:
    """Return the pods of a ThanosRuler."""
    resources = map_of(obj, "spec", "resources")
    yield _monitoring(obj, f"thanos-ruler-{name_of(obj)}", "thanos-ruler", resources)


def _monitoring(obj: Values, name: str, container: str, resources: Values) -> Group:
    """Return pods with a container beside the main one that reloads its configuration."""
    spec = map_of(obj, "spec")
    count = number_of(spec.get("replicas"), 1, "spec.replicas")
    reloader = {"name": "config-reloader", "image": "config-reloader", "resources": _RELOADER}
    changes = maps_of(spec.get("containers"))
    made = picked(spec, *CHOSEN)
    made["containers"] = [
        _changed(one, changes)
        for one in ({"name": container, "image": container, "resources": resources}, reloader)
    ]
    known = {container, "config-reloader"}
    made["containers"] += [one for one in changes if one.get("name") not in known]
    made["initContainers"] = [
        reloader | {"name": "init-config-reloader"},
        *(one for one in maps_of(spec.get("initContainers")) if one.get("name") != "init-config-reloader"),
    ]
    labels = {
        "app.kubernetes.io/name": container,
        "app.kubernetes.io/instance": name_of(obj),
        "app.kubernetes.io/managed-by": "prometheus-operator",
        container: name_of(obj),
    }
    claim = map_of(spec, "storage", "volumeClaimTemplate", "spec")
    if claim:
        made["volumes"] = [{"name": "db", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    metadata = {"labels": map_of(spec, "podMetadata", "labels") | labels}
    return Group(f"{name}-{{index}}", count, {"metadata": metadata, "spec": made})


def _changed(container: Values, changes: list[Values]) -> Values:
    """Return a container with the fields of the one of its name."""
    return container | next((one for one in changes if one.get("name") == container["name"]), {})


# ---- Elastic Cloud on Kubernetes ---------------------------------------------------------------------------

_CLUSTER = "elasticsearch.k8s.elastic.co/cluster-name"


def elastic_nodes(obj: Values) -> Groups:
    """Return the nodes of an Elasticsearch cluster, with their claims (ECK 3.2).

    By default a node requests 2Gi of memory, claims 1Gi, and prefers to be away from the others.
    """
    name = name_of(obj)
    filesystem: Values = {"name": "elastic-internal-init-filesystem", "image": "elasticsearch"}
    filesystem |= {"resources": _same(cpu="100m", memory="50Mi")}
    for at, nodes in enumerate(maps_of(map_of(obj, "spec").get("nodeSets"))):
        path = f"spec.nodeSets[{at}]"
        template = map_of(nodes, "podTemplate")
        own = map_of(template, "spec")
        made: Values = {"affinity": _apart({_CLUSTER: name})} | own
        defaults = map_of(nodes, "resources") or _same(memory="2Gi")
        made["containers"] = _with_defaults(own.get("containers"), "elasticsearch", defaults)
        made["initContainers"] = [filesystem, *maps_of(own.get("initContainers"))]
        made["volumes"] = _with_claims(own.get("volumes"), nodes.get("volumeClaimTemplates"))
        metadata = map_of(template, "metadata")
        metadata = metadata | {"labels": map_of(metadata, "labels") | {_CLUSTER: name}}
        count = number_of(nodes.get("count"), 0, f"{path}.count")
        pods = f"{name}-es-{nodes.get('name')}-{{index}}"
        yield Group(pods, count, {"metadata": metadata, "spec": made}, f"{path}.podTemplate")


def _apart(labels: dict[str, str]) -> Values:
    """Return the affinity of pods that prefer to be on different nodes."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _with_claims(volumes: Any, templates: Any) -> list[Values]:
    """Return volumes with those of claims, one for data at least."""
    found = maps_of(volumes)
    claims = [
        {
            "name": map_of(one, "metadata").get("name"),
            "ephemeral": {"volumeClaimTemplate": {"spec": map_of(one, "spec")}},
        }
        for one in maps_of(templates)
    ]
    data = "elasticsearch-data"
    if not any(one.get("name") == data for one in (*found, *claims)):
        claims.append(claimed(data, None, None))
    return [*(one for one in found if one.get("name") not in {claim["name"] for claim in claims}), *claims]


def elastic_pods(container: str, suffix: str, memory: str) -> Any:
    """Return a function that makes the pods of a Kibana and others of its kind.

    Parameters
    ----------
    container : str
        Name of their container.
    suffix : str
        What follows the name of the object in the names of pods.
    memory : str
        Request and limit that they have by default.
    """

    def groups(obj: Values) -> Groups:
        spec = map_of(obj, "spec")
        template = map_of(spec, "podTemplate")
        own, defaults = map_of(template, "spec"), map_of(spec, "resources") or _same(memory=memory)
        made = own | {"containers": _with_defaults(own.get("containers"), container, defaults)}
        count = number_of(spec.get("count"), 0, "spec.count")
        pods = f"{name_of(obj)}-{suffix}-"
        yield Group(pods, count, template | {"spec": made}, "spec.podTemplate")

    return groups


# ---- databases and queues ----------------------------------------------------------------------------------


def rabbitmq_pods(obj: Values) -> Groups | None:
    """Return the nodes of a RabbitmqCluster with their claims (cluster operator v2.16); None if its
    StatefulSet is overridden.
    """
    if map_of(obj, "spec", "override", "statefulSet"):
        return None
    spec, name = map_of(obj, "spec"), name_of(obj)
    defaults = {
        "requests": {"cpu": "1000m", "memory": "2Gi"},
        "limits": {"cpu": "2000m", "memory": "2Gi"},
    }
    labels = {"app.kubernetes.io/name": name}
    made = picked(spec, "affinity", "tolerations")
    made["containers"] = [
        {"name": "rabbitmq", "image": "rabbitmq", "resources": map_of(spec, "resources") or defaults}
    ]
    setup = {"name": "setup-container", "image": "rabbitmq", "resources": _same(cpu="20m", memory="64Mi")}
    made["initContainers"] = [setup]
    made["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
    ]
    disk = map_of(spec, "persistence")
    size = "10Gi" if disk.get("storage") is None else str(disk["storage"])
    if size_of(size, "spec.persistence.storage"):
        made["volumes"] = [claimed("persistence", size, disk.get("storageClassName"))]
    count = number_of(spec.get("replicas"), 1, "spec.replicas")
    group = Group(f"{name}-server-{{index}}", count, {"metadata": {"labels": labels}, "spec": made})
    return iter([group])


def zalando_pods(obj: Values) -> Groups:
    """Return the instances of a postgresql of Zalando's operator, and its connection poolers, with the
    requests of the operator's own configuration (v1.15).
    """
    spec, name = map_of(obj, "spec"), name_of(obj)
    own, disk = map_of(spec, "resources"), map_of(spec, "volume")
    resources = {
        "requests": {"cpu": "100m", "memory": "100Mi"} | map_of(own, "requests"),
        "limits": {"cpu": "1", "memory": "500Mi"} | map_of(own, "limits"),
    }
    made = picked(spec, "tolerations", "topologySpreadConstraints", "schedulerName", "initContainers")
    made |= {"affinity": {"nodeAffinity": spec["nodeAffinity"]}} if spec.get("nodeAffinity") else {}
    if spec.get("podPriorityClassName"):
        made["priorityClassName"] = spec["podPriorityClassName"]
    made["containers"] = [
        {"name": "postgres", "image": "spilo", "resources": resources},
        *(
            {"name": one.get("name"), "image": "sidecar", "resources": map_of(one, "resources")}
            for one in maps_of(spec.get("sidecars"))
        ),
    ]
    made["volumes"] = [claimed("pgdata", disk.get("size"), disk.get("storageClass"))]
    labels = {"application": "spilo", "cluster-name": name}
    count = number_of(spec.get("numberOfInstances"), 0, "spec.numberOfInstances")
    yield Group(f"{name}-{{index}}", count, {"metadata": {"labels": labels}, "spec": made})
    if spec.get("enableConnectionPooler", "connectionPooler" in spec):
        yield _pooler(spec, f"{name}-pooler-")
    if spec.get("enableReplicaConnectionPooler"):
        yield _pooler(spec, f"{name}-pooler-repl-")


def _pooler(spec: Values, name: str) -> Group:
    pooler = map_of(spec, "connectionPooler")
    own = map_of(pooler, "resources")
    resources = {
        "requests": {"cpu": "500m", "memory": "100Mi"} | map_of(own, "requests"),
        "limits": {"cpu": "1", "memory": "100Mi"} | map_of(own, "limits"),
    }
    container = {"name": "connection-pooler", "image": "pgbouncer", "resources": resources}
    count = number_of(pooler.get("numberOfInstances"), 2, "spec.connectionPooler.numberOfInstances")
    made = picked(spec, "tolerations") | {"containers": [container]}
    return Group(name, count, {"metadata": {}, "spec": made}, "spec.connectionPooler")
