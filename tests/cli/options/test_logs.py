"""Logs of ``moorage scheduler`` and ``serve extender``, starts that are refused, and an end without Lease."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.cli.options.test_cluster_options import CONFIGURATION, run
from tests.cli.options.test_cluster_options import server as server
from tests.cli.served import served
from tests.doors.live import ExtenderService, LiveScheduler, LostLeaseError
from tests.live.kit.certificates import Authority
from tests.store.api.test_api_client import answers
from tests.store.api.wire_server import LIMIT, WireServer, eventually

from moorage.store import UnreachableError

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def refused_nodes() -> list[Any]:
    """Faults of the first list of nodes: as a stream, and by pages."""
    refuse = answers(403, "Forbidden", "not yet")
    return [lambda handler: handler.path.startswith("/api/v1/nodes") and refuse(handler)] * 2


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is repeated is repeated soon, and what fails is told soon."""
    for name in (
        "cli.options.serving.FOLLOW",
        "live.health.UNREADABLE_LIMIT",
        "live.live_scheduler.RETRY",
        "live.client.reflector.INITIAL_BACKOFF",
    ):
        monkeypatch.setattr(f"moorage.{name}", 0.0)


def replace_work(monkeypatch: pytest.MonkeyPatch, work: Callable[[LiveScheduler, Event], None]) -> None:
    """A scheduler that is made does this, and nothing else."""
    monkeypatch.setattr(LiveScheduler, "work", work)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIGURATION.format(f"kubeconfig: {tmp_path}/config"))
    return ["scheduler", "--config", str(config)]


@pytest.mark.usefixtures("without_pauses")
def test_the_start_survives_refusals(server: WireServer, command: list[str]) -> None:
    version = answers(410, "Expired", "no version"), answers(403, "Forbidden", "its version is a secret")
    server.faults += [*version, *refused_nodes()]
    logger = logging.getLogger("moorage")
    before = list(logger.handlers), logger.level
    code, err, _ = served(command, " INFO cluster listed", str)
    assert code == 0
    assert (logger.handlers, logger.level) == before  # threads that still end write to no closed stream
    lines = err.splitlines()
    assert lines.pop(0).endswith('error="no version"')
    assert re.fullmatch(rf"{STAMP} INFO release: version=1.36 reason=\".*\"", lines.pop(0))
    assert re.fullmatch(rf"{STAMP} INFO starting: version=\S+ profiles=default-scheduler", lines.pop(0))
    assert re.fullmatch(rf"{STAMP} WARNING kind cannot be read: kind=Node error=\"not yet\"", lines.pop(0))
    assert sum(" INFO cluster listed: leader_election=false" in line for line in lines) == 1


@pytest.mark.parametrize(
    "case",
    [
        ("v1.37.2", [], "1.37"),
        ("v1.35.1+k3s1", [], "1.35"),
        ("v1.37.2", ["--kubernetes-version", "1.35"], "1.35"),
        ("v1.37.2", ["--kubeconfig", "{}/config", "--feature-gates", "GenericWorkload=true"], "1.37"),
    ],
)
def test_a_live_scheduler_decides_as_the_release_of_its_server(
    server: WireServer,
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, list[str], str],
) -> None:
    """Also where its gates are only known in that release."""
    server.version, arguments, release = case
    works: list[LiveScheduler] = []
    replace_work(monkeypatch, lambda live, stop: works.append(live))
    code, _, err = run(capsys, *command, *[one.format(Path(command[-1]).parent) for one in arguments])
    assert (code, len(works)) == (0, 1), err
    assert works[0].scheduler.handle.release.version == release
    assert f" INFO release: version={release} " in err


@pytest.mark.parametrize("seconds", ["inf", "1e300", "nan", "0"])
def test_an_extender_with_a_time_limit_that_no_socket_has_is_refused(
    capsys: pytest.CaptureFixture[str], seconds: str
) -> None:
    code, _, err = run(capsys, "serve", "extender", "--timeout", seconds)
    text = f"error: Invalid value for '--timeout': must be a number above 0 and up to 3600, not '{seconds}'."
    assert (code, text in err) == (2, True), err  # a thread of a closed server may write after it


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        (["--bind-address", "0.0.0.0"], True),
        (["--bind-address", "127.0.0.1"], False),
        (
            [
                *("--bind-address", "0.0.0.0", "--client-ca-file", "ca.crt"),
                *("--tls-cert-file", "server.crt", "--tls-private-key-file", "server.key"),
            ],
            False,
        ),
    ],
)
def test_an_extender_that_everybody_may_ask_is_told(
    server: WireServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    is_told: bool,
) -> None:
    """Before it listens, here in vain."""
    Authority(tmp_path).issue("server", "localhost", serves=True)
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, _, err = run(capsys, "serve", "extender", "--kubeconfig", "config", "--port", port, *options)
    assert (code, "Address already in use" in err) == (2, True), err
    assert (f"--client-ca-file prevents it: address={options[1]} port={port}" in err) == is_told


@pytest.mark.usefixtures("without_pauses")
def test_an_extender_starts_after_refusals_and_follows_the_cluster_without_requests(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = list[ExtenderService]()
    follow = ExtenderService.follow

    def note(service: ExtenderService) -> None:
        followed.append(service)
        if len(followed) == 1:
            raise UnreachableError("away")
        follow(service)
        if len(followed) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ExtenderService, "follow", note)
    server.faults += [
        answers(403, "Forbidden", "its version is a secret"),
        *refused_nodes(),
    ]
    code, _, err = run(capsys, "serve", "extender", "--kubeconfig", tmp_path / "config", "--port", 0)
    told = [line.rpartition("error=")[2] for line in err.splitlines() if " WARNING " in line]
    assert (code, told) == (0, ['"not yet"', "away"])
    assert len(followed) >= 2


@pytest.mark.usefixtures("without_pauses")
def test_an_extender_answers_by_its_copy_of_a_kind_that_cannot_be_read_and_says_so(
    server: WireServer, tmp_path: Path
) -> None:
    refuse = answers(500, "InternalError", "unable to decrypt")

    def unreadable(metrics: str) -> bool:
        lines = [line for line in metrics.splitlines() if 'unreadable_kind_seconds{kind="CSINode"' in line]
        return any(not line.endswith(" 0.0") for line in lines)

    def use(match: re.Match[str]) -> dict[str, tuple[int, str]]:
        def ask(method: str, path: str, body: str | None = None) -> tuple[int, str]:
            client = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=LIMIT)
            client.request(method, path, body)
            answer = client.getresponse()
            asked = answer.status, answer.read().decode()
            client.close()
            return asked

        server.outage = lambda handler: "/csinodes" in handler.path and refuse(handler)
        server.cut("/csinodes")
        assert eventually(lambda: unreadable(ask("GET", "/metrics")[1]))
        verb = ask("POST", "/filter", '{"Pod": {}, "NodeNames": []}')
        return {"filter": verb} | {path: ask("GET", path) for path in ("/livez", "/readyz", "/metrics")}

    command = ["serve", "extender", "--kubeconfig", tmp_path / "config", "--port", 0]
    code, _, told = served(command, r"urlPrefix: http://127\.0\.0\.1:(\d+)", use)
    assert code == 0
    assert json.loads(told["filter"][1])["Error"] == ""
    assert told["/livez"][0] == 200, "a new process would have no copy"
    assert "[-]kinds failed" in told["/readyz"][1]
    assert unreadable(told["/metrics"][1])


def test_the_process_ends_at_once_without_the_lease(
    server: WireServer,
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ended(BaseException):
        pass

    def exit_process(code: int) -> Any:
        raise Ended(code)

    def lose(live: LiveScheduler, stop: Any) -> None:
        with pytest.raises(Ended):
            live.on_lost()
        raise LostLeaseError("leaderelection lost")

    monkeypatch.setattr("os._exit", exit_process)
    replace_work(monkeypatch, lose)
    with pytest.raises(Ended, match="1"):
        run(capsys, *command)
    told = [line for line in capsys.readouterr().err.splitlines() if " INFO " not in line]
    assert told == ["error: leaderelection lost"] * 2
