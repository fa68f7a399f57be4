"""The extender server, asked by our own extender client over plain HTTP and mutual TLS."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.doors.engine import HTTPExtender, build_extenders
from tests.doors.live import ExtenderServer, ExtenderService, ReceivedCounts
from tests.extenders.test_http_extender import configured
from tests.live.kit.certificates import Authority
from tests.make import node, pod
from tests.scheduler.make import scheduler_with
from tests.store.api.wire_server import LIMIT, eventually

from moorage import Scheduler
from moorage.cli import main
from moorage.engine.framework import Code, FilterPlugin, PreFilterPlugin, PreFilterResult, Status, Victims
from moorage.errors import ExtenderError
from moorage.kube import Cluster, Node, Pod, Taint, encode_object

VERBS = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")} | {"weight": 1}
FILTER = b"POST /scheduler/filter HTTP/1.1\r\nHost: localhost\r\n"
TAINTED = "node(s) had untolerated taint(s)"


def nodes() -> list[Node]:
    """Two that are free, one that is full, and one with a taint."""
    return [
        node("a"),
        node("b", cpu="1", memory="8Gi", pods="10"),
        node("c", taints=[Taint(key="k", effect="NoSchedule")]),
        node("d", cpu="32", memory="64Gi", pods="10"),
    ]


@pytest.fixture
def scheduler() -> Scheduler:
    full = pod("full", on="b", requests={"cpu": "1"})
    return Scheduler(Cluster(nodes=nodes(), pods=[full, waiting()]))


def waiting() -> Pod:
    return pod("waiting", requests={"cpu": "1"}, priority=10)


@contextmanager
def asking(
    server: ExtenderServer, scheduler: Scheduler, scheme: str = "http", **fields: Any
) -> Iterator[HTTPExtender]:
    url = f"{scheme}://127.0.0.1:{server.port}/scheduler"
    (config,) = build_extenders(configured({"urlPrefix": url} | VERBS | fields))
    one = HTTPExtender(config, scheduler.cache.node_info)
    yield one
    one.transport.close()


@pytest.fixture
def server(scheduler: Scheduler) -> Iterator[ExtenderServer]:
    answer = ExtenderService(scheduler).answer
    server = ExtenderServer(("127.0.0.1", 0), answer, prefix="scheduler", max_body=100_000, timeout=LIMIT)
    yield server
    server.close()


def ask(server: ExtenderServer, verb: str, body: Any, method: str = "POST") -> tuple[int, str]:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    client.request(
        method, f"/scheduler/{verb}", body if isinstance(body, bytes) else json.dumps(body).encode()
    )
    answer = client.getresponse()
    found = answer.status, answer.read().decode()
    client.close()
    return found


def document(one: Pod) -> Any:
    return json.loads(encode_object(one))


@pytest.mark.parametrize("names", [True, False])
def test_every_verb_is_answered(scheduler: Scheduler, server: ExtenderServer, names: bool) -> None:
    with asking(server, scheduler, nodeCacheCapable=names) as extender:
        passed, failed, unresolvable = extender.filter(waiting(), [*nodes(), node("z")])
        assert passed == ["a", "d"]
        assert failed == {"b": "Insufficient cpu"}
        assert list(unresolvable) == ["c", "z"]
        assert unresolvable["c"].startswith(TAINTED)
        assert unresolvable["z"] == "node is not known to the extender"
        assert extender.prioritize(waiting(), [nodes()[0], nodes()[3], node("z")]) == {
            "a": 0,
            "d": 10,
            "z": 0,
        }
        victims = {"b": Victims((pod("full", on="b"),), 1), "c": Victims((pod("gone", on="c"),))}
        left = extender.process_preemption(waiting(), {"b": victims["b"]})
        assert {name: ([one.name for one in v.pods], v.num_pdb_violations) for name, v in left.items()} == {
            "b": (["full"], 1)
        }
        assert extender.process_preemption(waiting(), {"c": victims["c"]}) == {}
        extender.bind(waiting(), "d")
        with pytest.raises(ExtenderError, match="already assigned to node"):
            extender.bind(waiting(), "a")
    assert scheduler.client.get(Pod, "waiting", "default").spec.node_name == "d"
    assert [one.name for one in scheduler.cache.node_info("d").pods] == ["waiting"]  # type: ignore[union-attr]


class News(ReceivedCounts):
    """News of a cluster that come while somebody waits for them, with the time that this takes.

    Parameters
    ----------
    come : callable
    """

    def __init__(self, come: Callable[[], object]) -> None:
        super().__init__()
        self.come, self.now, self.waited = come, 0.0, list[float | None]()

    def wait(self, seen: int, timeout: float | None) -> int:
        self.waited.append(timeout)
        self.now += 0.75
        self.come()
        return seen + 1


def nominated(to: str) -> bytes:
    """A request for a pod that is nominated to a node, which kube-scheduler finds free."""
    one = document(waiting()) | {"status": {"nominatedNodeName": to}}
    return json.dumps({"Pod": one, "NodeNames": ["b", "c"]}).encode()


def passed(answer: tuple[int, bytes]) -> list[str]:
    found: list[str] = json.loads(answer[1])["NodeNames"]
    return found


def test_a_filter_waits_for_the_end_of_victims_on_the_nominated_node(scheduler: Scheduler) -> None:
    """kube-scheduler has seen it already, or it would not ask for the node."""
    news = News(lambda: scheduler.client.delete(Pod, "full", "default"))
    service = ExtenderService(scheduler, news, lambda: news.now)
    assert passed(service.answer("filter", nominated("a"))) == []
    assert news.waited == []
    assert passed(service.answer("filter", nominated("b"))) == ["b"]
    assert news.waited == [1.0]


def test_a_filter_refuses_a_nominated_node_that_stays_full(scheduler: Scheduler) -> None:
    news = News(lambda: None)
    service = ExtenderService(scheduler, news, lambda: news.now)
    assert passed(service.answer("filter", nominated("b"))) == []
    assert news.waited == [1.0, 0.25]


def test_a_filter_refuses_at_once_a_nominated_node_that_no_end_of_pods_helps(scheduler: Scheduler) -> None:
    """Its taint stays, and kube-scheduler schedules no other pod meanwhile."""
    news = News(lambda: None)
    service = ExtenderService(scheduler, news, lambda: news.now)
    assert passed(service.answer("filter", nominated("c"))) == []
    assert news.waited == []


def test_nodes_are_sent_back_as_they_came(server: ExtenderServer) -> None:
    item = {"metadata": {"name": "a", "annotations": {"unknown": "é"}}, "spec": {"future": [1]}}
    args = {"Pod": document(waiting()), "Nodes": {"metadata": {}, "items": [item]}, "NodeNames": None}
    status, text = ask(server, "filter", args)
    assert status == 200
    assert json.loads(text)["Nodes"]["items"] == [item]


def test_errors_have_the_form_that_kube_scheduler_reads(server: ExtenderServer) -> None:
    def error(verb: str, body: Any) -> str:
        status, text = ask(server, verb, body)
        assert status == 200
        found: str = json.loads(text)["Error"]
        return found

    one = document(waiting())
    assert "the request is not valid ExtenderArgs: Input data was truncated" in error("filter", b"{")
    assert error("filter", {"NodeNames": ["a"]}) == "the request has no Pod"
    assert error("filter", {"Pod": one}) == "the request has neither NodeNames nor Nodes"
    assert error("filter", {"Pod": {"spec": 7}, "NodeNames": []}).startswith("Pod: ")
    named = b'{"NodeNames": [], "Pod": {"metadata": {"name": "\xff"}}}'
    assert re.match(r"Pod: .*(codec|UTF-8)", error("filter", named))  # by the version of msgspec
    nodes = b'{"Nodes": {"items": [{"metadata": {"name": "\xff"}}]}, "Pod": {}}'
    assert re.match(r"Nodes: .*(codec|UTF-8)", error("filter", nodes))
    unreadable = {"spec": {"overhead": {"cpu": "x"}}}
    assert error("filter", {"Pod": unreadable, "NodeNames": []}).startswith(
        'Pod: spec.overhead[cpu]: "x" is not'
    )
    assert error("bind", {"PodName": "waiting"}) == "ExtenderBindingArgs: Node is empty"
    binding = {"PodName": "waiting", "PodNamespace": "default", "PodUID": "waiting", "Node": "z"}
    assert error("bind", binding) == 'node "z" is not known to the extender'
    assert "has the UID waiting, not other" in error("bind", {**binding, "Node": "a", "PodUID": "other"})
    assert 'pods "none" not found' in error("bind", {**binding, "Node": "a", "PodName": "none"})
    status, text = ask(server, "prioritize", b"[]")
    assert status == 400
    assert text.startswith("the request is not valid ExtenderArgs")
    assert ask(server, "preempt", {"Pod": one})[0] == 400
    status, text = ask(server, "reserve", {})
    assert status == 404
    assert "there are filter, prioritize, preempt, bind" in text


def test_requests_that_are_refused_unread(server: ExtenderServer) -> None:
    status, text = ask(server, "filter", b"", "GET")
    assert status == 405
    assert "POST" in text
    assert ask(server, "filter", b" " * 100_001)[0] == 413
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as raw:
        raw.sendall(FILTER + b"Transfer-Encoding: chunked\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as raw:
        raw.sendall(FILTER + b"Content-Length: -1\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    client.request("POST", "/elsewhere/filter", b"{}")
    assert client.getresponse().status == 404
    client.close()


def test_a_body_that_does_not_come(scheduler: Scheduler) -> None:
    server = ExtenderServer(("127.0.0.1", 0), ExtenderService(scheduler).answer, timeout=0.01)
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as raw:
        raw.sendall(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        assert raw.recv(100).startswith(b"HTTP/1.1 408")
    server.close()


def test_bodies_that_are_promised_take_up_nothing(server: ExtenderServer) -> None:
    with ExitStack() as stack:
        for _ in range(50):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT))
            raw.sendall(FILTER + b"Content-Length: 100000\r\n\r\n")
        assert ask(server, "filter", b"{")[0] == 200


def test_a_request_beyond_the_share_of_its_client_is_refused(
    server: ExtenderServer, caplog: pytest.LogCaptureFixture
) -> None:
    """What the client has sent is counted no more afterwards. Nothing is waited for that has come already."""
    server.linger = 2 * LIMIT
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as raw:
        raw.sendall(FILTER + b"Content-Length: 100000\r\n\r\n")
        raw.sendall(b" " * 99_999)
        while (status := ask(server, "filter", b" " * 100_000)[0]) == 200:
            pass  # the server has not read what was sent first
        assert status == 503
        assert eventually(lambda: server.connections.free == 255)  # all but one
        raw.sendall(b" ")
        assert raw.recv(12) == b"HTTP/1.1 200"
    assert is_given_back(server)
    assert ask(server, "filter", b" " * 100_000)[0] == 200
    assert is_given_back(server)
    assert not caplog.records


def is_given_back(server: ExtenderServer) -> bool:
    """Whether all memory is free in the end: the server gives it back after it has sent an answer."""
    return eventually(lambda: server.memory.free == 200_000)


def test_one_connection_answers_many_requests(scheduler: Scheduler, server: ExtenderServer) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    body = json.dumps({"Pod": document(waiting()), "NodeNames": ["a"]})
    for _ in range(2):
        client.request("POST", "/scheduler/filter", body)
        assert json.loads(client.getresponse().read())["NodeNames"] == ["a"]
    client.close()


def test_nodes_that_come_and_go_are_followed(scheduler: Scheduler) -> None:
    service = ExtenderService(scheduler)
    body = json.dumps({"Pod": document(waiting()), "NodeNames": ["a", "e"]}).encode()
    assert json.loads(service.answer("filter", body)[1])["NodeNames"] == ["a"]
    scheduler.client.delete(Node, "a")
    scheduler.client.create(node("e"))
    assert json.loads(service.answer("filter", body)[1])["NodeNames"] == ["e"]


class NotD(FilterPlugin):
    """Rejects one node."""

    name = "NotD"

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("not d",)) if node_info.name == "d" else None


def test_plugins_in_python_answer() -> None:
    scheduler = scheduler_with(NotD(), nodes=nodes())
    body = json.dumps({"Pod": document(waiting()), "NodeNames": ["a", "d"]}).encode()
    found = json.loads(ExtenderService(scheduler).answer("filter", body)[1])
    assert (found["NodeNames"], found["FailedNodes"]) == (["a"], {"d": "not d"})


class OnlyA(PreFilterPlugin):
    """Allows one node."""

    name = "OnlyA"

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> Any:
        return PreFilterResult(frozenset({"a"}))


def test_preemption_is_for_the_nodes_that_pre_filter_allows() -> None:
    scheduler = scheduler_with(OnlyA(), nodes=nodes())
    victims = {name: {"Pods": [], "NumPDBViolations": 0} for name in "ad"}
    body = {"Pod": document(waiting()), "NodeNameToMetaVictims": victims}
    found = json.loads(ExtenderService(scheduler).answer("preempt", json.dumps(body).encode())[1])
    assert list(found["NodeNameToMetaVictims"]) == ["a"]


def test_a_node_of_which_only_pods_are_left(scheduler: Scheduler) -> None:
    scheduler.client.create(pod("left", on="gone"))
    scheduler.sync()
    args = {"PodName": "waiting", "PodNamespace": "default", "Node": "gone"}
    found = json.loads(ExtenderService(scheduler).answer("bind", json.dumps(args).encode())[1])
    assert found["Error"] == 'node "gone" is not known to the extender'


def test_a_pod_that_pre_filter_rejects(scheduler: Scheduler) -> None:
    claims = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}
    spec = {**document(waiting())["spec"], **claims}
    body = {"Pod": {**document(waiting()), "spec": spec}, "NodeNames": ["a", "z"]}
    _, answer = ExtenderService(scheduler).answer("filter", json.dumps(body).encode())
    found = json.loads(answer)["FailedAndUnresolvableNodes"]
    assert found == {
        "a": 'persistentvolumeclaim "none" not found',
        "z": "node is not known to the extender",
    }


def test_mutual_tls_refuses_a_client_without_a_certificate(scheduler: Scheduler, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("server", "localhost", serves=True)
    authority.issue("client", "kube-scheduler")
    file = {
        name: str(tmp_path / name)
        for name in ("ca.crt", "server.crt", "server.key", "client.crt", "client.key")
    }
    server = ExtenderServer(
        ("127.0.0.1", 0),
        ExtenderService(scheduler).answer,
        certificate=file["server.crt"],
        key=file["server.key"],
        client_authorities=file["ca.crt"],
        prefix="scheduler",
    )
    tls = {"caFile": file["ca.crt"], "certFile": file["client.crt"], "keyFile": file["client.key"]}
    with asking(
        server, scheduler, "https", nodeCacheCapable=True, enableHTTPS=True, tlsConfig=tls
    ) as extender:
        assert extender.filter(waiting(), nodes())[0] == ["a", "d"]
    anonymous = {"caFile": file["ca.crt"]}
    with (
        asking(server, scheduler, "https", enableHTTPS=True, tlsConfig=anonymous) as extender,
        pytest.raises(ExtenderError, match="code 403"),
    ):
        extender.filter(waiting(), nodes())
    trusting = ssl.create_default_context(cafile=file["ca.crt"])
    client = http.client.HTTPSConnection("localhost", server.port, timeout=LIMIT, context=trusting)
    client.request("GET", "/livez")
    assert client.getresponse().status == 200, "kubelet has no certificate"
    client.close()
    client.request("GET", "/metrics")
    assert client.getresponse().status == 200, "nor has Prometheus"
    client.close()
    client.request("GET", "/scheduler/filter")
    assert client.getresponse().status == 403
    client.close()
    server.close()


def test_health_answers_say_which_check_failed(scheduler: Scheduler) -> None:
    passes = {"watches": True}
    alive = {"watches": lambda: passes["watches"]}
    ready = {**alive, "kinds": lambda: True}
    answer, metrics = ExtenderService(scheduler).answer, lambda: b"some_metric 1.0\n"
    server = ExtenderServer(("127.0.0.1", 0), answer, health=alive, ready=ready, metrics=metrics)
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    told = []
    for method, path, passed in (
        ("GET", "/livez", True),
        ("GET", "/readyz", False),
        ("HEAD", "/healthz", False),
    ):
        passes["watches"] = passed
        client.request(method, path)
        answer = client.getresponse()
        told.append((answer.status, answer.read().decode().splitlines()[1:]))
    assert told == [
        (200, []),
        (500, ["[-]watches failed: reason withheld", "[+]kinds ok", "readyz check failed"]),
        (500, []),
    ]
    client.request("GET", "/metrics")
    assert client.getresponse().read() == b"some_metric 1.0\n"
    client.request("GET", "/filter")
    answer = client.getresponse()
    assert (answer.status, answer.headers["Allow"], answer.read()[:10]) == (405, "POST", b"method GET")
    client.close()
    server.close()


MANIFEST = Path(__file__).parents[2] / "examples" / "demo.yaml"


def test_the_command_serves_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[Any] = []
    made = ExtenderServer.__init__

    def init(self: ExtenderServer, *args: Any, **options: Any) -> None:
        made(self, *args, **options)

        def use() -> None:
            body = {"Pod": document(waiting()), "NodeNames": ["worker-1"]}
            answers.append(ask(self, "filter", body))
            os.kill(os.getpid(), signal.SIGTERM)

        Thread(target=use).start()

    monkeypatch.setattr(ExtenderServer, "__init__", init)
    assert main(["serve", "extender", "-f", str(MANIFEST), "--port", "0", "--path", "/scheduler"]) == 0
    assert "urlPrefix: http://127.0.0.1:" in capsys.readouterr().err
    assert json.loads(answers[0][1])["NodeNames"] == ["worker-1"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--client-ca-file", "x"], "--client-ca-file needs"),
        (["--tls-cert-file", "x"], "give both --tls-cert-file and --tls-private-key-file, or neither"),
        (["--kubeconfig", "x"], "-n cannot be combined with --kubeconfig"),
        (["--tls-cert-file", "none.crt", "--tls-private-key-file", "none.key"], "none.crt"),
    ],
)
def test_options_that_are_refused(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "extender", "-f", str(MANIFEST), *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_configuration_with_extenders_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(json.dumps({**head, "extenders": [{"urlPrefix": "http://x", "filterVerb": "f"}]}))
    assert main(["serve", "extender", "-f", str(MANIFEST), "--config", str(file)]) == 2
    assert "an extender calls no extenders" in capsys.readouterr().err
