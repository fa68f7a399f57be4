"""The page for operators, followed as it stands from an empty API server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.house.source import ROOT
from tests.live.kit.control_plane import LIMIT, ControlPlane
from tests.live.kit.followed_page import Shell, agrees, steps
from tests.live.kit.process_kubelet import ProcessKubelet

from moorage.live.client import connect

NAMESPACE, IMAGE = "moorage-system", "registry.example.com/moorage:0.1.0"
SECONDS = 4 * LIMIT
"""For the whole page: five starts of processes, a Lease that runs out, mounts that follow a Secret."""
DOCKER = '#!/bin/sh\necho "$*" >> {log}\n'


def environment(plane: ControlPlane, binaries: Path) -> dict[str, str]:
    """That of the operator's shell. A command in docker's place builds and pushes nothing, and notes its
    arguments; `ProcessKubelet` runs containers without images."""
    tools = plane.folder / "tools"
    tools.mkdir()
    docker = tools / "docker"
    docker.write_text(DOCKER.format(log=plane.folder / "docker.log"))
    docker.chmod(0o755)
    shutil.copy(binaries / "kubectl", tools / "kubectl")
    path = f"{tools}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(plane.folder), "KUBECONFIG": plane.kubeconfig()}


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        (["a"], ["a"], True),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["NAME  AGE", "web-…  …s"], ["NAME     AGE", "web-x1   10s"], True),
        (["NAME  AGE", "web-…  …s"], ["NAME     AGE", "web-x1   10m"], False),
        (["…", "done"], ["1 of 2", "2 of 2", "done"], True),
        (["…", "done"], ["done"], True),
        (["…", "done"], ["failed"], False),
        (["a.c"], ["abc"], False),
    ],
)
def test_a_page_shows_each_line_that_is_printed(shown: list[str], printed: list[str], agree: bool) -> None:
    assert agrees(printed, shown) == agree


def test_output_on_a_page_belongs_to_the_commands_before_it() -> None:
    page = "\n".join(["```sh", "one", "two", "```", "and", "```sh", "three", "```", "```text", "3", "```"])
    assert steps(page) == [("one\ntwo\n", None), ("three\n", ["3"])]


@pytest.mark.live
def test_the_page_leads_to_a_scheduler_that_outlives_its_leader_and_its_certificate(
    binaries: Path, planes: Callable[[], ControlPlane]
) -> None:
    plane = planes()
    plane.start_controllers()
    plane.start_scheduler()
    checkout = plane.folder / "checkout"
    shutil.copytree(ROOT / "deploy", checkout / "deploy")
    found = steps((ROOT / "docs/live.md").read_text())
    with connect(plane.kubeconfig()) as admin:
        kubelet = ProcessKubelet(plane, admin, NAMESPACE, ["worker-1", "worker-2"])
        try:
            printed = Shell(plane.folder, checkout, environment(plane, binaries)).run(found, SECONDS)
            images = {one.status["containerStatuses"][0]["image"] for one in kubelet.containers.values()}
        finally:
            kubelet.close()
    assert images == {IMAGE}
    assert (plane.folder / "docker.log").read_text().splitlines()[-1] == f"push {IMAGE}"
    for step, output in zip(found, printed, strict=True):
        assert agrees(output.splitlines(), step.shown or []), f"{step.commands}\nprints\n{output}"


@pytest.mark.live
@pytest.mark.parametrize("overlay", ["in-place", "extender"])
def test_the_server_accepts_the_other_overlays(binaries: Path, cluster: ControlPlane, overlay: str) -> None:
    """kustomize and the server read them as they are; `kube-system` is there."""
    command = ["apply", "-k", str(ROOT / "deploy/overlays" / overlay), "--dry-run=server"]
    kubectl = [str(binaries / "kubectl"), "--kubeconfig", cluster.kubeconfig()]
    done = subprocess.run([*kubectl, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    made = [line.removesuffix(" (server dry run)") for line in done.stdout.splitlines()]
    assert any(line.startswith("deployment.apps/moorage-") for line in made)
    assert all(line.endswith(" created") for line in made)
