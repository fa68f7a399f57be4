"""A twin over the server of the wire format: each answer has the bytes of its command over a dump."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from tests.cli.make import node, pod
from tests.cli.options.test_cluster_options import run
from tests.cli.options.test_cluster_options import server as server
from tests.cli.served import served
from tests.conftest import NIGHTLY
from tests.doors.cli import AskedTwin, StandingAnswers
from tests.doors.live import FollowedCluster, Limits, Reply
from tests.house.source import ROOT
from tests.store.api.test_api_client import answers
from tests.store.api.wire_server import LIMIT, WireServer, eventually

from moorage.cli import main
from moorage.kube import decode_object
from moorage.live.client import connect

DUMP = "cluster.json"

FILE = str(ROOT / "examples/demo.yaml")
RELEASE = json.dumps(pod("new")).encode()
LABELS = {"app": "front"}
WORKLOAD = json.dumps(
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "front"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": pod("front")["spec"]},
        },
    }
).encode()
Query = list[tuple[str, str]]
QUESTIONS: list[tuple[str, Query, bytes]] = [
    ("check", [("drain", "a"), ("survive", "node")], b""),
    ("check", [("new-only", ""), ("output", "markdown")], RELEASE),
    ("check", [("taint", "a k=v:NoSchedule"), ("output", "html")], b""),
    ("explain", [("target", "p4")], b""),
    ("capacity", [("pod", "-"), ("gang", "2")], RELEASE),
    ("nodes", [("by", "zone"), ("output", "csv")], b""),
    ("plan/nodes", [("like", "a")], b""),
    ("plan/drain", [("names", "a")], b""),
    ("compare", [("alternatives", "as-is"), ("alternatives", "cordon a")], b""),
    ("compare", [("alternatives", "kubernetes 1.35"), ("alternatives", "kubernetes 1.37")], b""),
    ("simulate", [], RELEASE),
    ("check", [("output", "wide")], WORKLOAD),
    ("explain", [("target", "deploy/front")], WORKLOAD),
    ("explain", [("target", "node/a")], b""),
    ("simulate", [("output", "wide")], WORKLOAD),
    ("check", [("scale", "deploy/front=3"), ("drain", "a")], WORKLOAD + RELEASE),
]


@pytest.fixture
def cluster(server: WireServer, tmp_path: Path) -> Iterator[FollowedCluster]:
    with connect(str(tmp_path / "config")) as client:
        cluster = FollowedCluster(client)
        assert cluster.await_lists(Event())
        yield cluster


@pytest.fixture
def twin(cluster: FollowedCluster) -> AskedTwin:
    return AskedTwin(cluster, defaults=[("kubernetes-version", "1.36")])


def header(reply: Reply, name: str) -> str:
    return dict(reply.headers)[f"Moorage-{name}"]


def settle(server: WireServer, cluster: FollowedCluster) -> None:
    """Wait until the twin has seen the last write."""
    last = server.store.list("Pod")[1]
    while int(last) > max(int(at) for at in cluster.moment().versions.values() if at):
        cluster.client.arrivals.wait(cluster.client.arrivals.count, 0.05)
        cluster.apply_news()


def repeated(
    command: str, stdin: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> str:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin)))
    words = shlex.split(command)
    assert words[0] == "moorage"
    main(words[1:])
    return capsys.readouterr().out


def test_each_answer_has_the_bytes_of_its_command_over_a_dump(
    server: WireServer,
    cluster: FollowedCluster,
    twin: AskedTwin,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before and after each of several changes of the cluster."""
    monkeypatch.chdir(tmp_path)
    about = {"kind": "Node", "name": "a"}
    event = {"metadata": {"name": "a.1"}, "involvedObject": about, "reason": "SystemOOM", "message": "java"}
    server.raw["api/v1/events"] = {"kind": "EventList", "apiVersion": "v1", "items": [event]}
    cluster.list_events()
    store = server.store
    changes = [
        lambda: store.create(decode_object(pod("late", "other"))),
        lambda: store.bind(store.get("Pod", "p1", "default"), "b"),
        lambda: store.create(decode_object(node("c", "z1"))),
        lambda: store.delete("Node", "b"),
    ]
    versions, have_event = set(), list[bool]()
    for at, change in enumerate([lambda: None, *changes]):
        change()
        settle(server, cluster)
        assert run(capsys, "dump", "--kubeconfig", "config", "-o", DUMP)[0] == 0
        for path, query, body in QUESTIONS[at :: len(changes) + 1]:
            reply = twin.reply(path, query, body)
            assert reply.status == 200, (path, query, reply.body)
            assert reply.body.decode() == repeated(header(reply, "Repeat"), body, capsys, monkeypatch)
            assert len(reply.body) > 100
            have_event.append(b"SystemOOM" in reply.body)
            assert float(header(reply, "Staleness")) < 60
            versions.add(header(reply, "Resource-Versions"))
    assert len(versions) == len(changes) + 1
    assert sum(have_event) == 1


def test_while_the_cluster_changes_answers_are_as_old_as_they_may_be(
    server: WireServer, cluster: FollowedCluster
) -> None:
    twin = AskedTwin(cluster, max_age=20.0)
    start, passed = cluster.client.connection.clock(), [0.0]
    cluster.client.connection.clock = lambda: start + passed[0]

    def pods(*ages: str) -> tuple[int, float]:
        reply = twin.reply("check", [("max-age", age) for age in ages], b"")
        answer = json.loads(reply.body)
        return answer["placed"] + answer["failed"], float(header(reply, "Staleness")) // 5.0

    first, _ = pods()
    server.store.create(decode_object(pod("late")))
    settle(server, cluster)
    passed[0] = 15.0
    assert pods() == (first, 3.0)
    assert pods("0")[0] == first + 1
    server.store.create(decode_object(pod("later")))
    settle(server, cluster)
    passed[0] = 36.0
    assert pods()[0] == first + 2
    assert twin.reply("check", [("max-age", "-1")], b"").status == 400
    twin.end()


@pytest.fixture(scope="module")
def of_files(tmp_path_factory: pytest.TempPathFactory) -> AskedTwin:
    file = tmp_path_factory.mktemp("files") / "own.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("a", "z1"), pod("p")]}))
    return AskedTwin(None, [str(file)])


def test_a_twin_of_files_answers_as_the_commands(
    of_files: AskedTwin, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = of_files.reply("check", [("output", "table")], b"")
    assert (reply.status, reply.type) == (200, "text/plain; charset=utf-8")
    assert reply.body.decode() == repeated(header(reply, "Repeat"), b"", capsys, monkeypatch)
    assert json.loads(of_files.reply("state", [], b"").body) == {
        "answering": 0,
        "waiting": 0,
        "overview": {"isDue": True},
    }


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    """By time and size: another text with the same is not read."""
    file, twin = tmp_path / "own.json", AskedTwin(None, [str(tmp_path)])
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("a", "z1"), pod("p")]})
    large = text.replace('"requests": {"cpu": "1"', '"requests": {"cpu": "9"')
    assert large != text

    def placed(text: str, moment: int) -> int:
        file.write_text(text)
        os.utime(file, ns=(moment, moment))
        answer: int = json.loads(twin.reply("check", [], b"").body)["placed"]
        return answer

    assert [placed(text, 1), placed(large, 1), placed(large, 2)] == [1, 1, 0]
    twin.end()


def test_files_of_options_are_read_again_when_they_change(cluster: FollowedCluster, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    twin, head = AskedTwin(cluster, defaults=[("config", str(config))]), "kubescheduler.config.k8s.io"
    for version, status in (("v1", 200), ("v0", 400)):
        config.write_text(
            f"apiVersion: {head}/{version}\nkind: KubeSchedulerConfiguration\n# {version * 9}\n"
        )
        os.utime(config, (status, status))
        assert [twin.reply("check", [], b"").status for _ in range(2)] == [status] * 2
    twin.end()


def test_the_configuration_of_a_question_names_no_policy(of_files: AskedTwin) -> None:
    score = {"enabled": [{"name": "BestFit", "weight": 1}]}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"score": score}}],
    }
    reply = of_files.reply("simulate", [("config", "-")], json.dumps(document).encode())
    assert reply.status == 400
    assert 'plugin \\"BestFit\\": a question names no policies or plugins' in reply.body.decode()
    del document["profiles"]
    assert of_files.reply("simulate", [("config", "-")], json.dumps(document).encode()).status == 200


@pytest.mark.parametrize(
    ("path", "query", "status", "text"),
    [
        ("replay", [], 404, "there is no question 'replay'"),
        ("check", [("drian", "a")], 400, "there is no such option; nearest: drain"),
        ("check", [("file", "x.yaml")], 400, "there is no such option"),
        ("check", [("kubeconfig", "x")], 400, "there is no such option"),
        ("check", [("config", "/etc/passwd")], 400, "names a file; send its content as the body"),
        ("compare", [("alternatives", "as-is"), ("alternatives", "../x")], 400, "names a file"),
        ("compare", [("alternatives", "as-is"), ("alternatives", "drain /etc/passwd")], 400, "names a file"),
        ("capacity", [("pod", "deploy/a=/etc/passwd")], 400, "names a file"),
        ("check", [("config", "https://example.com/x")], 400, "names a file"),
        ("check", [("config", "README.md")], 400, "cannot be read"),
        ("check", [("plugins", "plugins.py")], 400, "a question names no plugins; give them to serve twin"),
        ("check", [("plugins", "-")], 400, "a question names no plugins; give them to serve twin"),
        ("check", [("drain", "a\nb")], 400, "must be text in one line"),
        ("check", [("new-only", "perhaps")], 400, "a flag is true or false"),
        ("check", [("taint", "a 'b")], 400, "No closing quotation"),
        ("check", [("drain", "nowhere")], 400, 'there is no Node "nowhere"'),
        ("capacity", [], 400, "Missing option '--pod'"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    of_files: AskedTwin, path: str, query: Query, status: int, text: str
) -> None:
    reply = of_files.reply(path, query, b"")
    assert (reply.status, text in json.loads(reply.body)["error"]) == (status, True), reply.body


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("check", [("config", "NAME")]),
        ("check", [("instance-types", "NAME")]),
        ("check", [("node-groups", "NAME")]),
        ("check", [("set-requests", "NAME")]),
        ("capacity", [("pod", "NAME")]),
        ("plan/nodes", [("like", "NAME")]),
        ("compare", [("alternatives", "as-is"), ("alternatives", "NAME")]),
    ],
)
def test_a_question_reads_no_file_that_it_names(
    path: str, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is the same whether there is one, whatever it is; by day, a file."""
    monkeypatch.chdir(tmp_path)
    twin = AskedTwin(None, [FILE])

    def told() -> list[bytes]:
        names = ("pod.yaml", "folder", "code.py", ".", "folder/pod.yaml")
        replies = [
            twin.reply(path, [(key, text.replace("NAME", name)) for key, text in query], b"")
            for name in (names if NIGHTLY else names[:1])
        ]
        assert {reply.status for reply in replies} == {400}
        return [reply.body for reply in replies]

    without = told()
    (tmp_path / "folder").mkdir()
    for name in ("code.py", "pod.yaml", "folder/pod.yaml"):
        (tmp_path / name).write_bytes(RELEASE)
    assert told() == without
    twin.end()


def test_a_body_that_is_no_manifest_is_refused_as_on_the_command_line(of_files: AskedTwin) -> None:
    reply = of_files.reply("check", [], b"kind: [")
    assert (reply.status, "stdin" in json.loads(reply.body)["error"]) == (400, True)


def test_answers_have_limits() -> None:
    for limits, status, text in (
        (Limits(seconds=0.001), 504, "the answer took longer than 0.001 s"),
        (Limits(output=100), 507, "the answer has more than"),
    ):
        reply = AskedTwin(None, [FILE], limits=limits).reply("check", [], b"")
        assert (reply.status, text in json.loads(reply.body)["error"]) == (status, True), reply
    one = AskedTwin(None, [FILE], limits=Limits(seconds=0.001, at_once=1))
    with one.forks.turn():
        reply = one.reply("check", [], b"")
    assert (reply.status, reply.headers) == (503, [("Retry-After", "1")])


def test_a_twin_of_a_server_that_fails_answers_and_tells_how_old_it_is(
    server: WireServer, cluster: FollowedCluster, twin: AskedTwin
) -> None:
    alive, ready = cluster.checks()
    assert all(check() for check in ready.values())
    clock = cluster.client.connection.clock
    now = [clock()]
    cluster.client.connection.clock = lambda: now[0]
    cluster.client.connection.wait = lambda event, seconds: event.wait()  # nobody tries again
    server.outage = answers(403, "Forbidden", "expired rights")
    followed = len({handler.path.partition("?")[0] for handler in server.open})
    server.cut()
    assert eventually(lambda: len(cluster.moment().unreadable) >= followed)
    now[0] += 100.0
    assert [name for name, check in ready.items() if not check()] == ["kinds"]
    now[0] += 400.0
    cluster.apply_news()
    assert {name for name, check in ready.items() if not check()} == {"kinds", "watches"}
    assert all(check() for check in alive.values())  # a new process could not answer
    for one in cluster.client.reflectors:
        one.heard = now[0]  # a refusal
    reply = twin.reply("nodes", [], b"")
    assert reply.status == 200
    assert float(header(reply, "Staleness")) >= 500.0
    assert header(reply, "Unreadable")
    state = json.loads(twin.reply("state", [], b"").body)
    assert state["stalenessSeconds"] >= 500.0


# ---- the command -------------------------------------------------------------------------------------------


def fetch(url: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, Any]:
    try:
        with urlopen(Request(url, body, headers), timeout=LIMIT) as answer:
            return answer.status, answer.read(), answer.headers
    except HTTPError as error:
        return error.code, error.read(), error.headers


def asked_at(use: Callable[[str], Any], *arguments: str) -> Any:
    """What a function returns for the address at which the command serves."""
    address = r"(http://127\.0\.0\.1:\d+)/ \(questions: \1/v1/\)"
    code, err, answer = served(
        ["serve", "twin", "--port", 0, *arguments], address, lambda match: use(match[1])
    )
    assert code == 0, err
    return answer


def test_the_command_follows_a_cluster_until_it_is_stopped(server: WireServer, tmp_path: Path) -> None:
    server.version = "v1.37.1"

    def use(url: str) -> list[Any]:
        query = urlencode([("like", "a"), ("output", "json")])
        return [
            fetch(f"{url}/v1/plan/nodes?{query}"),
            fetch(f"{url}/v1/check", RELEASE),
            fetch(f"{url}/readyz"),
            fetch(f"{url}/metrics"),
            fetch(f"{url}/v1/differences"),
            fetch(f"{url}/"),
            *(
                fetch(url + path)
                for path in re.findall(r'(?:href|src)="(/.*?)"', fetch(f"{url}/")[1].decode())
            ),
            fetch(f"{url}/v1/state", Origin=url),
            fetch(f"{url}/v1/check", Host="twin.example.com"),
            fetch(f"{url}/v1/check", Origin="http://localhost"),
            fetch(f"{url}/v1/check", **{"Sec-Fetch-Site": "cross-site"}),
            fetch(f"{url}/v2"),
        ]

    plan, check, ready, metrics, differences, page, *others = asked_at(
        use, "--kubeconfig", str(tmp_path / "config"), "--seed", "3"
    )
    assert (plan[0], json.loads(plan[1])["kind"]) == (200, "NodesNeeded")
    options = "--seed=3 --kubernetes-version=1.37"
    assert plan[2]["Moorage-Repeat"] == f"moorage plan nodes -f {DUMP} {options} --like=a --output=json"
    assert json.loads(check[1])["release"]["version"] == "1.37"
    assert (ready[0], b"moorage_unreadable_kind_seconds" in metrics[1]) == (200, True)
    assert json.loads(differences[1]) == {"differences": []}
    assert b'moorage_predicted_bindings_total{match="other"} 0.0' in metrics[1]
    assert [one[0] for one in (page, *others)] == [200] * 5 + [403, 403, 403, 404]
    assert page[2]["Content-Security-Policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self';"
    )
    written = [method for method, *_ in server.requests if method != "GET"]
    assert written == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--bind-address", "0.0.0.0"], "needs --tls-cert-file and --tls-private-key-file"),
        (
            ["--bind-address", "0.0.0.0", "--tls-cert-file", "c", "--tls-private-key-file", "k"],
            "needs --authorization-kubeconfig: an API server decides who may ask",
        ),
        (["--authorization-kubeconfig", "c"], "no token is reviewed"),
        (["--predict"], "--predict needs a cluster that is followed"),
        (["--max-age", "5"], "--max-age needs a cluster that is followed"),
        (["--tls-cert-file", "c"], "give both --tls-cert-file and --tls-private-key-file, or neither"),
    ],
)
def test_beyond_loopback_it_needs_tls_and_reviews_tokens(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "twin", "-f", FILE, *arguments]) == 2
    assert text in capsys.readouterr().err


def test_options_of_the_command_hold_for_every_question() -> None:
    """Flags that are off, too, and options several times."""
    options = [
        *("--hooks", "--no-autoscale", "--no-ignore-dra-requests", "--preference-policy=Ignore"),
        *("--unavailable=spot", "--unavailable=m5.large"),
    ]

    def use(url: str) -> Any:
        return fetch(f"{url}/v1/explain?target=p4")[2]["Moorage-Repeat"]

    command = asked_at(use, "-f", FILE, "--at-once", "2", *options)
    assert {*options} <= {*shlex.split(command)}
    assert "--at-once" not in command


def test_the_command_says_whether_its_threads_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = tmp_path / "questions.yaml"
    questions.write_text("survive: [node]")
    ended = Event()

    def ends(answers: StandingAnswers, stop: Event) -> None:
        ended.wait()

    def use(url: str) -> tuple[bytes, tuple[int, bytes]]:
        ready = fetch(f"{url}/readyz?verbose")[1]
        ended.set()
        while (alive := fetch(f"{url}/livez"))[0] == 200:
            pass
        return ready, alive[:2]

    monkeypatch.setattr(StandingAnswers, "keep_asking", ends)
    ready, alive = asked_at(use, "-f", FILE, "--questions", str(questions))
    assert b"[+]questions ok: no round has ended yet\n" in ready
    assert (alive[0], b"[-]questions failed" in alive[1]) == (500, True)


def test_a_twin_whose_follower_has_ended_is_not_alive(
    cluster: FollowedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect does not end it."""
    alive, ready = cluster.checks()
    stop, failed = Event(), Event()

    def apply_news() -> None:
        if not failed.is_set():
            failed.set()
            raise TypeError("a defect")
        stop.set()

    cluster.apply_news = apply_news  # type: ignore[method-assign]
    assert alive["follower"]()
    thread = cluster.start(stop)
    cluster.client.arrivals.wake()
    thread.join()
    assert stop.is_set()
    assert "the cluster is not followed now: error=a defect" in caplog.text
    assert not alive["follower"]()
    assert not ready["follower"]()
