"""``moorage scheduler`` in a process, and what the API server says of its pods."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

from tests.doors.controllers import PersistentVolumeController
from tests.live.kit.control_plane import LIMIT, SCHEDULER, ControlPlane

from moorage.compat import ControllerParameters
from moorage.kube import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.live.client import ApiClient
from moorage.store import ApiError, Informer, InformerFactory

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


def elected(seconds: float = 6.0, qps: int = 5000) -> str:
    """A configuration with a Lease that lasts so long, and is renewed in time."""
    times = f"{{leaseDuration: {seconds}s, renewDeadline: {seconds / 1.5}s, retryPeriod: {seconds / 6}s}}"
    slow = CONFIGURATION.replace("qps: 5000, burst: 5000", f"qps: {qps}, burst: {qps}")
    return slow.replace("{leaderElect: false}", times)


class Command:
    """A command of moorage in a process, which ends with a control plane at the latest; what it prints goes
    to a file.

    Parameters
    ----------
    plane : ControlPlane
    name : str
        Of the file.
    *command : str
        Module and arguments.
    """

    def __init__(self, plane: ControlPlane, name: str, *command: str) -> None:
        self.log = plane.folder / f"{name}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", *command], stdout=output, stderr=output
            )
        plane.commands.append(self.process)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class Process(Command):
    """``moorage scheduler`` in a process.

    Parameters
    ----------
    plane : ControlPlane
    name : str, optional
        Of its files.
    configuration : str, optional
    *options : str
    killed_at : sequence of str, optional
        Arguments of `tests.live.kit.killed_scheduler`.
    port : int, optional
        Of a proxy of the API server.
    kubeconfig : str, optional
        In place of that of the scheduler's user.
    """

    def __init__(
        self,
        plane: ControlPlane,
        name: str = "ours",
        configuration: str = CONFIGURATION,
        *options: str,
        killed_at: Sequence[str] = (),
        port: int = 0,
        kubeconfig: str = "",
    ) -> None:
        config = plane.folder / f"{name}.yaml"
        config.write_text(configuration)
        module = ["tests.live.kit.killed_scheduler", *killed_at] if killed_at else ["moorage"]
        kubeconfig = kubeconfig or plane.kubeconfig(SCHEDULER, port=port)
        command = [*module, "scheduler", "--kubeconfig", kubeconfig]
        super().__init__(plane, name, *command, "--config", str(config), *options)


@contextmanager
def volume_controller(client: ApiClient) -> Iterator[None]:
    """The controller that binds claims, in threads."""
    factory, stop = InformerFactory(client), Event()
    informer = factory.informer
    parameters = ControllerParameters(
        kube_client=client,
        volume_informer=informer(PersistentVolume),
        claim_informer=informer(PersistentVolumeClaim),
        class_informer=informer(StorageClass),
        pod_informer=informer(Pod),
        node_informer=informer(Node),
    )
    controller = PersistentVolumeController(parameters)
    kinds = (PersistentVolume, PersistentVolumeClaim, StorageClass, Pod, Node)
    threads = [informer(kind).run(stop) for kind in kinds]
    threads.append(Thread(target=controller.run, args=(stop,), daemon=True))
    threads[-1].start()
    yield
    stop.set()
    client.arrivals.wake()
    for thread in threads:
        thread.join(10)
