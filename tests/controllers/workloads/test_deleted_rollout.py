"""A Deployment that is deleted while it is rolled out."""

from __future__ import annotations

import math
from typing import Any

import moorage as mo
from moorage.objects import build_cluster, decode_object


def deployment(image: str) -> Any:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "1"}}}]},
    }
    selector = {"matchLabels": {"app": "d"}}
    spec = {"replicas": 4, "minReadySeconds": 30, "selector": selector, "template": template}
    return decode_object({"kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})


def test_no_run_waits_for_it() -> None:
    node = {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
    }
    one = mo.Scheduler(build_cluster([decode_object(node), deployment("x")]))
    one.run()
    one.apply(deployment("y"))
    controllers = one.controllers
    assert controllers is not None
    assert controllers.next_time() < math.inf
    one.delete("deploy/d")
    assert not controllers.availability.waiting
    assert not one.run().placements
    assert controllers.next_time() == math.inf
