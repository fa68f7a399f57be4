"""What volume plugins are answered by their host, the controller."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.controllers.persistent_volume.controller_kit import parameters
from tests.doors.controllers import InMemoryProvisioner

from moorage.compat import VolumeHost
from moorage.engine.framework import EventRecorder
from moorage.engine.volume import VolumeError
from moorage.kube import PersistentVolume, Pod
from moorage.store import InformerFactory, ObjectStore

STORE, RECORDER = ObjectStore(), EventRecorder()


def host_of(*plugins: InMemoryProvisioner) -> VolumeHost:
    informers = InformerFactory(STORE)
    return VolumeHost(parameters(STORE, informers, volume_plugins=plugins, event_recorder=RECORDER))


@pytest.fixture
def host() -> VolumeHost:
    return host_of()


@pytest.mark.parametrize(
    ("method", "arguments", "answer"),
    [
        ("get_plugin_dir", ("p",), ""),
        ("get_volume_device_plugin_dir", ("p",), ""),
        ("get_pods_dir", (), ""),
        ("get_pod_volume_dir", ("u", "p", "v"), ""),
        ("get_pod_plugin_dir", ("u", "p"), ""),
        ("get_pod_volume_device_dir", ("u", "p"), ""),
        ("get_host_name", (), ""),
        ("get_node_name", (), ""),
        ("get_mounter", ("p",), None),
        ("get_subpather", (), None),
        ("get_node_allocatable", (), {}),
    ],
)
def test_a_host_answers_plugins(host: VolumeHost, method: str, arguments: Any, answer: Any) -> None:
    assert getattr(host, method)(*arguments) == answer


NO_MOUNTER = "PersistentVolumeController.NewWrapperMounter is not implemented"


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda host: host.get_host_ip(), "PersistentVolumeController.GetHostIP() is not implemented"),
        (lambda host: host.get_node_labels(), "GetNodeLabels() unsupported in PersistentVolumeController"),
        (lambda host: host.new_wrapper_mounter("v", PersistentVolume(), Pod()), NO_MOUNTER),
        (lambda host: host.new_wrapper_unmounter("v", PersistentVolume(), "u"), NO_MOUNTER),
        (
            lambda host: host.get_secret_func()("n", "s"),
            "GetSecret unsupported in PersistentVolumeController",
        ),
        (
            lambda host: host.get_config_map_func()("n", "c"),
            "GetConfigMap unsupported in PersistentVolumeController",
        ),
        (
            lambda host: host.get_service_account_token_func()("n", "a", None),
            "GetServiceAccountToken unsupported in PersistentVolumeController",
        ),
    ],
)
def test_what_a_host_refuses_has_the_text_of_upstream(
    host: VolumeHost, ask: Callable[[VolumeHost], object], text: str
) -> None:
    with pytest.raises(VolumeError) as raised:
        ask(host)
    assert str(raised.value) == text


def test_deleting_a_token_only_logs(host: VolumeHost, caplog: pytest.LogCaptureFixture) -> None:
    host.delete_service_account_token_func()("uid")
    assert caplog.messages == ["DeleteServiceAccountToken unsupported in PersistentVolumeController"]


def test_the_controller_s_own(host: VolumeHost) -> None:
    assert (host.get_kube_client(), host.get_event_recorder()) == (STORE, RECORDER)


def test_exec_runs_a_program_and_returns_its_output(host: VolumeHost) -> None:
    run = host.get_exec("p").run
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    assert run(sys.executable, "-c", code) == b"out\nerr\n"
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run(sys.executable, "-c", "print('why'); raise SystemExit(3)")
    assert (raised.value.returncode, raised.value.output) == (3, b"why\n")


def test_plugins_are_handed_the_host() -> None:
    hosts = []

    class Plugin(InMemoryProvisioner):
        def init(self, host: Any) -> None:
            hosts.append(host)

    host = host_of(Plugin("kubernetes.io/mock-volume"))
    assert hosts == [host]
