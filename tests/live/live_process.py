"""``moorage scheduler`` in a process, and what the API server says of its pods."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress

from tests.live.control_plane import LIMIT, SCHEDULER, ControlPlane

from moorage.objects import Pod
from moorage.store import ApiError, Informer
from moorage.store.api import ApiClient

CONFIGURATION = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
"""


def bound(found: dict[str, str]) -> dict[str, str]:
    return {name: node for name, node in found.items() if node}


def await_bound(client: ApiClient, count: int, limit: float = LIMIT) -> dict[str, str]:
    """Wait until so many pods are bound; return where all are. A watch tells, as lists would cost the server
    more than the scheduler does."""
    informer, until = Informer(client, Pod), time.monotonic() + limit
    while True:
        with suppress(ApiError):
            informer.run_once()
        found = {one.name: one.spec.node_name for one in informer.indexer.values()}
        if len(bound(found)) >= count:
            return found
        assert time.monotonic() < until, len(bound(found))
        time.sleep(0.2)


class Process:
    """``moorage scheduler`` in a process."""

    def __init__(
        self, plane: ControlPlane, name: str = "ours", configuration: str = CONFIGURATION, *options: str
    ) -> None:
        config = plane.folder / f"{name}.yaml"
        config.write_text(configuration)
        self.log = plane.folder / f"{name}.log"
        command = [sys.executable, "-X", "faulthandler", "-m", "moorage", "scheduler"]
        command += ["--kubeconfig", plane.kubeconfig(SCHEDULER), "--config", str(config), *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
