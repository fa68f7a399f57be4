"""Questions about one cluster agree: a drain and its plan, capacity and scale, a loss and a removal."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import moorage as mo
from moorage.kube import Deployment, Pod

REQUESTS = st.sampled_from(("100m", "300m", "700m"))


def meta(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"} | rest


def owned(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]


@st.composite
def clusters(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Nodes, and a Deployment whose pods all or in part have a sidecar, other requests and a selector."""
    count = draw(st.integers(2, 4))
    objects: list[dict[str, Any]] = [
        {
            "kind": "Node",
            "metadata": meta(f"n{at}", labels={"kubernetes.io/hostname": f"n{at}", **pool}),
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"}},
        }
        for at in range(count)
        for cpu, pool in [draw(st.tuples(st.sampled_from("12"), st.sampled_from(({}, {"pool": "a"}))))]
    ]
    size, replicas = draw(REQUESTS), draw(st.integers(1, 4))
    app = {"name": "m", "resources": {"requests": {"cpu": size}}}
    labels = {"app": "web"}
    hashed = labels | {"pod-template-hash": "abc"}
    spec = {"containers": [app]}
    objects += [
        {
            "kind": kind,
            "metadata": meta(name, **rest),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": own},
                "template": {"metadata": {"labels": own}, "spec": spec},
            },
        }
        for kind, name, own, rest in (
            ("Deployment", "web", labels, {}),
            (
                "ReplicaSet",
                "web-abc",
                hashed,
                {"labels": hashed, "ownerReferences": owned("Deployment", "web")},
            ),
        )
    ]
    sidecars, sizes = st.sampled_from((None, "200m", "600m")), st.sampled_from((size, "50m", "500m"))
    selector = draw(st.sampled_from(({}, {"pool": "a"})))
    for at in range(replicas):
        sidecar, own_size = draw(sidecars), draw(sizes)
        containers = [{"name": "m", "resources": {"requests": {"cpu": own_size}}}]
        if sidecar is not None:
            containers.append({"name": "proxy", "resources": {"requests": {"cpu": sidecar}}})
        created = f"2026-01-0{at + 1}T00:00:00Z"
        of = owned("ReplicaSet", "web-abc")
        objects.append(
            {
                "kind": "Pod",
                "metadata": meta(
                    f"web-abc-{at}", labels=hashed, ownerReferences=of, creationTimestamp=created
                ),
                "spec": {
                    "nodeName": f"n{draw(st.integers(0, count - 1))}",
                    "containers": containers,
                    "nodeSelector": selector,
                },
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
    return objects


def pending(scheduler: mo.Scheduler) -> int:
    """The number of pods that find no node."""
    return len(scheduler.run().unschedulable)


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(clusters())
def test_questions_agree(objects: list[dict[str, Any]]) -> None:
    def fresh() -> mo.Scheduler:
        return mo.Scheduler(mo.load(objects))

    # All pods are alike, and nothing evicts: whatever order is taken, the same number finds room.
    for node in ("n0", "n1"):
        drained, lost = fresh(), fresh()
        drained.change.drain(node)
        lost.change.remove_nodes([node])
        plan = fresh().ask.drain_plan(node)
        missing = pending(drained)
        assert (plan.status == "found") == (missing == 0)
        assert pending(lost) == missing
        losses = {loss.domains: len(loss.lost) for loss in fresh().ask.survive("node").losses}
        assert losses.get((node,), 0) == missing

    (template,) = {one.spec.template.metadata.labels["app"] for one in fresh().client.list(Deployment)[0]}
    room = fresh().ask.capacity("deploy/web").count
    replicas = sum(one["kind"] == "Pod" for one in objects)
    for more, expected in ((room, 0), (room + 1, 1)):
        scaled = fresh()
        scaled.change.scale(f"deploy/{template}", replicas + more)
        assert pending(scaled) == expected

    restarted = fresh()
    restarted.change.restart(f"deploy/{template}")
    restarted.run()
    stored = restarted.client.list(Pod)[0]
    new = {str(pod.spec.containers) for pod in stored if not pod.name.startswith("web-abc-")}
    newest = max((one for one in objects if one["kind"] == "Pod"), key=lambda one: one["metadata"]["name"])
    expected_names = [one["name"] for one in newest["spec"]["containers"]]
    assert len(new) <= 1
    for pod in stored:
        if not pod.name.startswith("web-abc-"):
            assert [one.name for one in pod.spec.containers] == expected_names
