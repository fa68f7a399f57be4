"""New pods of a workload differ from its template as its running pods do."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage import expanded
from moorage.kube import Cluster, Pod, load

Spec = dict[str, Any]
RANGED = "kubernetes.io/limit-ranger"
SIDECAR = {"name": "proxy", "resources": {"requests": {"cpu": "500m"}}}
APP = {"name": "m", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}}


def meta(name: str, owner: tuple[str, str] | None = None, **rest: Any) -> dict[str, Any]:
    if owner is not None:
        kind, of = owner
        rest["ownerReferences"] = [{"kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}]
    return {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"} | rest


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [APP]} | spec}


def obj(kind: str, name: str, spec: Spec, owner: tuple[str, str] | None = None, **metadata: Any) -> Spec:
    return {"kind": kind, "metadata": meta(name, owner, **metadata), "spec": spec}


def of_pods(replicas: int, labels: Spec, given: Spec) -> Spec:
    """The spec of a workload whose pods have these labels."""
    its = {"metadata": {"labels": labels}, "spec": given["spec"]}
    return {"replicas": replicas, "selector": {"matchLabels": labels}, "template": its}


APP_LABELS = {"app": "web"}
HASHED = {"app": "web", "pod-template-hash": "abc"}


def deployment(replicas: int = 2, **spec: Any) -> list[Spec]:
    """A Deployment, and its ReplicaSet web-abc."""
    given, owner = template(**spec), ("Deployment", "web")
    return [
        obj("Deployment", "web", of_pods(replicas, APP_LABELS, given)),
        obj("ReplicaSet", "web-abc", of_pods(replicas, HASHED, given), owner, labels=HASHED),
    ]


def limit_range(**bounds: Any) -> Spec:
    return obj("LimitRange", "l", {"limits": [{"type": "Container"} | bounds]})


def running(name: str, containers: list[Spec], labels: Spec | None = None, **rest: Any) -> Spec:
    """A pod of web-abc."""
    own = HASHED | (labels or {})
    of = rest.pop("metadata", {})
    return {
        "kind": "Pod",
        "metadata": meta(name, ("ReplicaSet", "web-abc"), labels=own, **of),
        "spec": {"nodeName": "n1", "containers": containers} | rest.pop("spec", {}),
        "status": {"phase": "Running"} | rest,
    }


def made(*objects: Any, **options: Any) -> tuple[Pod, Cluster]:
    """The only new pod."""
    cluster = expanded(load(list(objects), **options))
    (pod,) = [pod for pod in cluster.pods if not pod.spec.node_name]
    return pod, cluster


def documents(cluster: Cluster) -> list[dict[str, Any]]:
    return [new.to_dict() for new in cluster.siblings.documents()]


def requests(pod: Pod) -> dict[str, Any]:
    return {one.name: one.resources.requests for one in pod.spec.containers}


def test_a_new_pod_gets_the_containers_and_fields_that_running_pods_have_and_the_template_lacks() -> None:
    more = {
        "nodeSelector": {"pool": "shop"},
        "tolerations": [{"key": "shop", "operator": "Exists"}],
        "schedulerName": "other",
        "initContainers": [{"name": "first", "restartPolicy": "Always"}],
        "volumes": [{"name": "kube-api-access-x", "projected": {}}, {"name": "v", "emptyDir": {}}],
    }
    pod, cluster = made(*deployment(), running("a", [APP, SIDECAR], {"mesh": "on"}, spec=more))
    assert requests(pod) == {"m": {"cpu": "100m"}, "proxy": {"cpu": "500m"}}
    assert (pod.spec.node_selector, pod.spec.scheduler_name) == ({"pool": "shop"}, "other")
    assert "shop" in [one.key for one in pod.spec.tolerations]
    assert [one.name for one in pod.spec.init_containers] == ["first"]
    assert [one.name for one in pod.spec.volumes] == ["v"]
    assert pod.metadata.labels["mesh"] == "on"
    (told,) = cluster.siblings.sentences()
    assert "deployment/web in default" in told
    (document,) = documents(cluster)
    fields = [one["field"] for one in document["changes"]]
    assert {"spec.containers[proxy]", "metadata.labels.mesh"} < set(fields)
    assert (document["like"], document["others"]) == ("a", 0)


def test_nothing_is_told_and_changed_where_pods_equal_their_template_or_by_option() -> None:
    pod, cluster = made(*deployment(), running("a", [APP]))
    assert (requests(pod), cluster.siblings.sentences()) == ({"m": {"cpu": "100m"}}, [])
    assert documents(cluster) == []
    objects = *deployment(), running("a", [APP, SIDECAR])
    pod, cluster = made(*objects, like_siblings=False)
    assert (requests(pod), documents(cluster)) == ({"m": {"cpu": "100m"}}, [])


def test_pods_of_a_changed_template_get_the_difference_but_keep_their_image() -> None:
    first = [*deployment(1), running("a", [APP | {"image": "mirror/i:1"}, SIDECAR])]
    changed = {"name": "m", "image": "i:2", "resources": {"requests": {"memory": "1Gi"}}}
    later = deployment(1, containers=[changed])[:1]
    later[0]["metadata"] = {"name": "web"}
    cluster = expanded(load(first, later))
    (pod,) = [pod for pod in cluster.pods if not pod.spec.node_name]
    assert [one.image for one in pod.spec.containers] == ["i:2", ""]
    assert requests(pod)["proxy"] == {"cpu": "500m"}
    assert "memory" in requests(pod)["m"]


def test_only_what_a_new_pod_has_got_is_told() -> None:
    """A changed template may have a container already, with its own requests."""
    first = [*deployment(1), running("a", [APP, SIDECAR], {"mesh": "on"})]
    own = SIDECAR | {"resources": {"requests": {"cpu": "200m"}}}
    later = deployment(1, containers=[APP, own])[:1]
    later[0]["metadata"] = {"name": "web"}
    cluster = expanded(load(first, later))
    (pod,) = [pod for pod in cluster.pods if not pod.spec.node_name]
    assert requests(pod)["proxy"] == {"cpu": "200m"}
    (document,) = documents(cluster)
    assert [one["field"] for one in document["changes"]] == ["metadata.labels.mesh"]
    later[0]["spec"]["template"]["metadata"] = {"labels": {"app": "web", "mesh": "on"}}
    assert documents(expanded(load(first, later))) == []


def test_each_revision_that_gets_new_pods_is_told() -> None:
    """In the middle of a rollout, both make pods, and their running pods differ."""
    web, current = deployment(4)
    web["spec"]["paused"], current["spec"]["replicas"] = True, 2
    labels = HASHED | {"pod-template-hash": "old"}
    old = of_pods(2, labels, template(containers=[APP | {"image": "i:0"}]))
    previous = obj("ReplicaSet", "web-old", old, ("Deployment", "web"), labels=labels)
    big = SIDECAR | {"resources": {"requests": {"cpu": "700m"}}}
    last = running("b", [APP | {"image": "i:0"}, big]) | {
        "metadata": meta("b", ("ReplicaSet", "web-old"), labels=labels)
    }
    cluster = expanded(load([web, current, previous, running("a", [APP, SIDECAR]), last]))
    assert [one["like"] for one in documents(cluster)] == ["a", "b"]
    (told,) = cluster.siblings.sentences()
    assert "in default, as a (" in told
    assert "in default, as b (" in told


def test_the_newest_of_pods_that_differ_is_the_model() -> None:
    old = running("a", [APP, SIDECAR], metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    big = SIDECAR | {"resources": {"requests": {"cpu": "700m"}}}
    new = running("b", [APP, big], {"role": "main"}, metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    pod, cluster = made(*deployment(3), old, new)
    assert requests(pod)["proxy"] == {"cpu": "700m"}
    assert "role" not in pod.metadata.labels  # not all of them have it
    assert "as b, the newest of them" in cluster.siblings.sentences()[0]
    assert documents(cluster)[0]["others"] == 1


@pytest.mark.parametrize(
    "resized",
    [
        {"metadata": {"generation": 2}},
        {"conditions": [{"type": "PodResizePending", "status": "True"}]},
        {"containerStatuses": [{"name": "m", "allocatedResources": {"cpu": "200m"}}]},
    ],
)
def test_resizes_in_place_are_not_copied(resized: Spec) -> None:
    big = APP | {"resources": {"requests": {"cpu": "900m"}}}
    pod, cluster = made(*deployment(), running("a", [big], **resized))
    assert (requests(pod), cluster.siblings.sentences()) == ({"m": {"cpu": "100m"}}, [])


def test_what_a_limit_range_or_a_class_explains_comes_from_them_anew() -> None:
    bare = {"name": "m"}
    first_range, later_range = (limit_range(defaultRequest={"cpu": cpu}) for cpu in ("300m", "400m"))
    priority = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    full = [{"name": name, "resources": {"requests": {"cpu": "300m"}}} for name in ("m", "proxy")]
    more = {"priorityClassName": "high", "priority": 7}
    told = {RANGED: "LimitRanger plugin set: cpu request for container m; cpu request for container proxy"}
    pods = [running("a", full, spec=more, metadata={"annotations": told})]
    first = [*deployment(containers=[bare]), first_range, priority, *pods]
    cluster = expanded(
        load(
            first, [later_range, {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 3}}]
        )
    )
    before, pod = (pod for pod in cluster.pods if not pod.spec.node_name)
    assert requests(before) == {"m": {"cpu": "300m"}, "proxy": {"cpu": "300m"}}
    assert requests(pod) == {"m": {"cpu": "400m"}, "proxy": {"cpu": "400m"}}
    assert (pod.spec.priority_class_name, pod.spec.priority) == ("high", 7)


@pytest.mark.parametrize("now", ["700m", "100m", None])
def test_what_a_limit_range_of_the_past_gave_is_not_copied(now: str | None) -> None:
    """It was changed, or deleted, after the pods had been made; what a webhook has set is copied."""
    given = {"limits": {"cpu": "600m", "memory": "1Gi"}, "requests": {"cpu": "300m", "memory": "512Mi"}}
    bare, full = [[{"name": name} | of for name in ("first", "m")] for of in ({}, {"resources": given})]
    told = (
        "LimitRanger plugin set: cpu request for container m; cpu, memory limit for container m; "
        "cpu request for init container first; cpu limit for init container first"
    )
    pods = [
        running("a", full[1:], spec={"initContainers": full[:1]}, metadata={"annotations": {RANGED: told}})
    ]
    ranges = [limit_range(default={"cpu": now}, defaultRequest={"cpu": now})] if now else []
    pod, _ = made(*deployment(containers=bare[1:], initContainers=bare[:1]), *ranges, *pods)
    cpu = {"cpu": now} if now else {}
    (first,), (main,) = pod.spec.init_containers, pod.spec.containers
    assert (main.resources.limits, main.resources.requests) == (cpu, cpu | {"memory": "512Mi"})
    assert first.resources.limits == cpu | {"memory": "1Gi"}
    assert first.resources.requests == cpu | {"memory": "512Mi"}


def test_the_node_of_a_daemon_pod_and_the_claims_of_an_ordinal_are_not_copied() -> None:
    nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2")]
    daemon = obj("DaemonSet", "d", {"selector": {"matchLabels": APP_LABELS}, "template": template()})
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}
    pod = running("x", [APP, SIDECAR], spec={"affinity": {"nodeAffinity": required}})
    pod["metadata"] = meta("x", ("DaemonSet", "d"), labels={"app": "web"})
    new, cluster = made(*nodes, daemon, pod)
    assert "'n2'" in str(new.spec.affinity)
    assert "'n1'" not in str(new.spec.affinity)
    assert set(requests(new)) == {"m", "proxy"}
    changes = documents(cluster)[0]["changes"]
    assert [one["field"] for one in changes] == ["spec.containers[proxy]"]

    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    spec = daemon["spec"] | {"replicas": 2, "volumeClaimTemplates": [claim]}
    stateful = obj("StatefulSet", "s", spec)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-0"}}
    pod = running("s-0", [APP, SIDECAR], spec={"volumes": [volume]})
    pod["metadata"] = meta("s-0", ("StatefulSet", "s"), labels={"app": "web"})
    new, cluster = made(stateful, pod)
    (one,) = new.spec.volumes
    assert one.persistent_volume_claim is not None
    assert one.persistent_volume_claim.claim_name == "data-s-1"
    changes = documents(cluster)[0]["changes"]
    assert [each["field"] for each in changes] == ["spec.containers[proxy]"]


def test_the_next_job_of_a_cron_job_is_like_the_last() -> None:
    its = {"template": template(restartPolicy="Never")}
    cron = obj("CronJob", "c", {"schedule": "0 0 * * *", "jobTemplate": {"spec": its}})
    status = {"completionTime": "2026-01-01T00:00:00Z", "succeeded": 1}
    job = obj("Job", "c-28000000", its, ("CronJob", "c")) | {"status": status}
    pod = running("p", [APP, SIDECAR], spec={"restartPolicy": "Never"})
    pod["metadata"] = meta("p", ("Job", "c-28000000"), labels={"app": "web"})
    pod["status"] = {"phase": "Succeeded"}
    scheduler = mo.Scheduler(load([cron, job, pod]))
    scheduler.change.run_cron_jobs()
    (new,) = scheduler.pods.pending.values()
    assert set(requests(new)) == {"m", "proxy"}


def vpa(mode: str = "Recreate", policy: Spec | None = None, target: Spec | None = None) -> Spec:
    spec = {
        "targetRef": {"kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": mode},
        "resourcePolicy": {"containerPolicies": [policy] if policy else []},
    }
    recommended = [{"containerName": "m", "target": target or {"cpu": "300m"}}]
    status = {"recommendation": {"containerRecommendations": recommended}}
    head = {"apiVersion": "autoscaling.k8s.io/v1", "status": status}
    return obj("VerticalPodAutoscaler", "v", spec) | head


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (vpa(), ("300m", "600m")),
        (vpa("Auto"), ("300m", "600m")),
        (vpa("Initial"), ("300m", "600m")),
        (vpa("InPlaceOrRecreate"), ("300m", "600m")),
        (vpa("Off"), ("100m", "200m")),
        (vpa(policy={"containerName": "m", "mode": "Off"}), ("100m", "200m")),
        (vpa(policy={"containerName": "*", "controlledResources": ["memory"]}), ("100m", "200m")),
        (vpa(policy={"containerName": "*", "controlledValues": "RequestsOnly"}), ("200m", "200m")),
        (vpa(policy={"containerName": "m", "minAllowed": {"cpu": "1"}}), ("1", "2000m")),
        (vpa(policy={"containerName": "*", "maxAllowed": {"cpu": "50m"}}), ("50m", "100m")),
    ],
)
def test_a_vertical_pod_autoscaler_sets_requests_of_new_pods(given: Spec, expected: tuple[str, str]) -> None:
    app = APP | {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}}
    pod, cluster = made(*deployment(1, containers=[app]), given)
    resources = pod.spec.containers[0].resources
    assert (resources.requests["cpu"], resources.limits["cpu"]) == expected
    acts = expected != ("100m", "200m")
    assert len(cluster.siblings.sentences()) == acts
    assert documents(cluster) == [
        {"namespace": "default", "workload": "deployment/web", "verticalPodAutoscaler": "v"}
    ] * (acts)


def test_an_earlier_recommendation_is_not_copied_from_running_pods() -> None:
    big = APP | {"resources": {"requests": {"cpu": "900m"}}}
    pod, cluster = made(*deployment(), running("a", [big]), vpa())
    assert requests(pod) == {"m": {"cpu": "300m"}}
    assert "like" not in documents(cluster)[0]


def test_bounds_of_the_namespace_hold_for_requests_and_limits_of_a_recommendation() -> None:
    ranges = limit_range(min={"memory": "64Mi"}, max={"cpu": "500m"})
    app = APP | {"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "200m"}}}
    target = {"cpu": "2", "memory": "1Mi"}
    pod, _ = made(*deployment(1, containers=[app]), vpa(target=target), ranges)
    resources = pod.spec.containers[0].resources
    assert (resources.requests["cpu"], resources.limits["cpu"]) == ("250m", "500m")
    assert resources.requests["memory"] == "64Mi"
