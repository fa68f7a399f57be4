"""The metrics of ``moorage scheduler`` and of kube-scheduler, beside each other."""

from __future__ import annotations

import ssl
import time
import urllib.request
from collections.abc import Callable
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.live.kit.cluster_workload import create, node, pod
from tests.live.kit.control_plane import SCHEDULER, ControlPlane, await_all
from tests.live.kit.live_process import CONFIGURATION, Process, await_bound

from moorage.kube import Pod
from moorage.live.client import connect

pytestmark = pytest.mark.live

EQUAL = (
    "schedule_attempts",
    "preemption_attempts",
    "queue_incoming_pods",
    "pending_pods",
    "unschedulable_pods",
)
"""Metrics whose values are equal as well, where nothing depends on time."""
SOMETIMES = {"inflight_events", "plugin_execution_duration_seconds"}
"""Metrics that kube-scheduler may not have yet: it draws the cycles whose plugins it times."""


class Family(NamedTuple):
    """A metric without ``scheduler_``: type, names of labels, bounds of buckets, and values by labels."""

    type: str
    labels: set[str]
    bounds: set[float]
    values: dict[tuple[str, ...], float]


def families(port: int) -> dict[str, Family]:
    """The metrics that a scheduler serves."""
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/metrics", headers={"Authorization": "Bearer admin-token"}
    )
    with urllib.request.urlopen(request, timeout=30, context=ssl._create_unverified_context()) as answer:
        text = answer.read().decode()
    found = {}
    for one in text_string_to_metric_families(text):
        samples = [sample for sample in one.samples if not sample.name.endswith("_created")]
        if one.name.startswith("scheduler_") and samples:
            labels = {name for sample in samples for name in sample.labels}
            bounds = {float(sample.labels["le"]) for sample in samples if "le" in sample.labels}
            values = {tuple(sorted(sample.labels.values())): sample.value for sample in samples}
            found[one.name.removeprefix("scheduler_")] = Family(one.type, labels, bounds, values)
    return found


def test_metrics_are_those_of_kube_scheduler(planes: Callable[[], ControlPlane]) -> None:
    """Pods that fit, one that fits nowhere, and a gated one."""
    found = []
    for is_ours in (False, True):
        plane = planes()
        folder, port, kubeconfig = plane.folder, plane.scheduler_port, plane.kubeconfig(SCHEDULER)
        serving = [
            *("--secure-port", str(port), "--bind-address", "127.0.0.1"),
            *("--tls-cert-file", f"{folder}/server.crt", "--tls-private-key-file", f"{folder}/server.key"),
            *("--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig),
        ]
        with connect(plane.kubeconfig()) as admin:
            create(admin, [node("n0"), node("n1")])
            create(admin, [pod(f"p{at}") for at in range(5)])
            create(admin, [pod("large", "64"), pod("gated", schedulingGates=[{"name": "example.com/g"}])])
            process = Process(plane, "ours", CONFIGURATION, *serving) if is_ours else None
            if process is None:
                plane.start_scheduler()

            def has_failed() -> bool:
                return any(
                    one.reason == "Unschedulable"
                    for one in admin.get(Pod, "large", "default").status.conditions
                )

            await_bound(admin, 5)
            await_all([has_failed], lambda: time.sleep(0.1))
            found.append(families(port))
            if process is not None:
                assert process.end() == 0, process.log.read_text()
        plane.stop()
    theirs, ours = found
    own = theirs.keys() & ours.keys()
    assert {name: ours[name][:3] for name in own} == {name: theirs[name][:3] for name in own}
    assert ours.keys() - own <= SOMETIMES
    assert {name: ours[name].values for name in EQUAL} == {name: theirs[name].values for name in EQUAL}
