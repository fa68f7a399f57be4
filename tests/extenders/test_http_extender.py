"""HTTPExtender: what it sends, what it makes of the answers, and of those that are none."""

from __future__ import annotations

import gc
import itertools
import json
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.doors.engine import (
    HTTPExtender,
    build_extenders,
    http_extender,
    make_extenders,
    read_configuration,
)
from tests.doors.engine import extender_wire as wire
from tests.extenders.extender_server import Answer, ExtenderServer, HangUp, Silence
from tests.locks import guard, is_held
from tests.make import configuration, node, pod, written

from moorage.errors import ExtenderError

NODES = [node("a", labels={"disk": "ssd"}), node("b")]
VERBS = {
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "bindVerb": "bind",
    "preemptVerb": "preempt",
    "weight": 1,
}
P = pod("p", requests={"cpu": 1})


def configured(*extenders: dict[str, Any]) -> Any:
    return read_configuration(configuration(extenders=list(extenders)))


def nothing(name: str) -> None:
    return None


def extender(url: str, lookup: Callable[[str], Any] = nothing, **fields: Any) -> HTTPExtender:
    (config,) = build_extenders(configured({"urlPrefix": url} | VERBS | fields))
    return HTTPExtender(config, lookup)


def failure(ask: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(ExtenderError) as caught:
        ask(*arguments)
    return str(caught.value)


# ---- what is sent


def test_an_extender_says_what_it_is_asked_for() -> None:
    one: Any = extender("http://x/", weight=5, ignorable=True)
    assert (one.name, one.weight, one.is_ignorable) == ("http://x/", 5, True)
    assert (one.is_filter, one.is_prioritizer, one.is_binder, one.supports_preemption) == (True,) * 4
    (config,) = build_extenders(configured({"urlPrefix": "http://x"}))
    bare = HTTPExtender(config, nothing)
    assert (bare.is_filter, bare.is_prioritizer, bare.is_binder, bare.supports_preemption) == (False,) * 4
    assert bare.transport.timeout == 5.0
    assert bare.filter(P, NODES) == (["a", "b"], {}, {})
    assert bare.prioritize(P, NODES) == {"a": 0, "b": 0}
    assert failure(bare.bind, P, "a") == "unexpected empty bindVerb in extender"
    text = "preempt verb is not defined for extender http://x but run into ProcessPreemption"
    assert failure(bare.process_preemption, P, {}) == text


POD = written(
    "v1/Pod",
    {"name": "p", "namespace": "default", "uid": "p"},
    {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}]},
)
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def test_nodes_as_they_are() -> None:
    with ExtenderServer(filter={"Nodes": {"items": [{"metadata": {"name": "b"}}]}}) as server:
        assert extender(server.url + "/").filter(P, NODES) == (["b"], {}, {})
    (request,) = server.requests
    assert (request.verb, request.headers["Content-Type"]) == ("filter", "application/json")
    meta = {"name": "a", "labels": {"disk": "ssd"}}
    items = [
        {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": ALLOCATABLE}},
        written("v1/Node", "b", status={"allocatable": ALLOCATABLE}),
    ]
    assert request.message == {"Pod": POD, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}


def test_nodes_by_name() -> None:
    with ExtenderServer(filter={"NodeNames": ["b"]}, prioritize=[{"Host": "a", "Score": 3}]) as server:
        one = extender(server.url, nodeCacheCapable=True)
        assert one.filter(P, NODES) == (["b"], {}, {})
        assert one.prioritize(P, NODES) == {"a": 3}
    message = {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}
    assert [request.message for request in server.requests] == [message, message]


def test_a_changed_node_is_sent_anew() -> None:
    with ExtenderServer(filter={}) as server:
        one = extender(server.url)
        one.filter(P, NODES[:1])
        one.filter(P, [node("a")])
    labels = [request.message["Nodes"]["items"][0]["metadata"].get("labels") for request in server.requests]
    assert labels == [{"disk": "ssd"}, None]


def test_a_binding_names_pod_and_node() -> None:
    with ExtenderServer(bind={}) as server:
        extender(server.url).bind(P, "b")
    expected = {"PodName": "p", "PodNamespace": "default", "PodUID": "p", "Node": "b"}
    assert server.requests[0].message == expected


def test_connections_are_kept() -> None:
    with ExtenderServer(bind={}, filter=Answer(b"[", 500), prioritize=Answer(b"[]", chunked=True)) as server:
        one = extender(server.url)
        one.bind(P, "a")
        one.prioritize(P, NODES)
        one.bind(P, "b")
        assert len({request.client for request in server.requests}) == 1
        failure(one.filter, P, NODES)
        one.bind(P, "a")
        server.hang_up()
        one.bind(P, "b")
    assert len({request.client for request in server.requests}) == 3


def test_user_and_password_of_the_prefix() -> None:
    with ExtenderServer(bind={}) as server:
        extender(server.url.replace("//", "//me:s%3Acret@")).bind(P, "a")
    assert server.requests[0].headers["Authorization"] == "Basic bWU6czpjcmV0"


def test_verbs_are_paths() -> None:
    with ExtenderServer(**{"x/predicates/always true": {}}) as server:
        one = extender(server.url + "/x//", filterVerb="predicates/always true")
        text = f"failed predicates/always true with extender at URL {server.url}/x/predicates/always true"
        assert failure(one.filter, P, NODES) == f"{text}, code 404"
    assert server.verbs == ["x/predicates/always%20true"]


# ---- interest


@pytest.mark.parametrize(
    ("containers", "init", "interested"),
    [
        ([], [], False),
        ([{"requests": {"example.com/gpu": 1}}], [], True),
        ([{"limits": {"example.com/gpu": 1}}], [], True),
        ([{"requests": {"cpu": 1}}], [{"limits": {"example.com/gpu": 0}}], True),
        ([{"requests": {"example.com/nic": 1}}], [], False),
    ],
)
def test_an_extender_is_asked_about_pods_with_its_resources(
    containers: list[Any], init: list[Any], interested: bool
) -> None:
    made, first = (
        [{"name": f"{name}{at}", "resources": each} for at, each in enumerate(resources)]
        for name, resources in (("c", containers), ("i", init))
    )
    one = extender("http://x", managedResources=[{"name": "example.com/gpu"}, {"name": "example.com/tpu"}])
    asking = pod("p", containers=made, init_containers=first)
    assert one.is_interested(asking) == interested
    assert extender("http://x").is_interested(asking)


# ---- what comes back


@pytest.mark.parametrize(
    ("capable", "result", "passed"),
    [
        (True, {"NodeNames": ["b", "a"]}, ["b", "a"]),
        (True, {"nodenames": ["a"], "NODES": None}, ["a"]),
        (True, {"Nodes": {"items": [{"metadata": {"name": "a"}}]}}, ["a"]),
        (True, {"NodeNames": []}, []),
        (True, {}, []),
        (True, None, []),
        (False, {"NodeNames": ["a"]}, []),
        (False, {"Nodes": {"Items": [{"metadata": {"name": "b", "labels": {}}, "spec": {}}]}}, ["b"]),
        (False, {"Nodes": {"items": None}, "NodeNames": ["a"]}, []),
        (False, {"Unknown": 1, "Nodes": {}}, []),
    ],
)
def test_nodes_that_pass(capable: bool, result: Any, passed: list[str]) -> None:
    with ExtenderServer(filter=Answer(json.dumps(result).encode())) as server:
        assert extender(server.url, nodeCacheCapable=capable).filter(P, NODES) == (passed, {}, {})


def test_nodes_that_do_not_pass() -> None:
    result = {"FailedNodes": {"a": "full"}, "FailedAndUnresolvableNodes": {"b": "wrong"}, "Error": ""}
    with ExtenderServer(filter=result) as server:
        assert extender(server.url).filter(P, NODES) == ([], {"a": "full"}, {"b": "wrong"})


def test_reasons_can_be_shown() -> None:
    result = {"FailedNodes": {"a": "\x1b[31mfull\n"}, "FailedAndUnresolvableNodes": {"b": "\x7f"}}
    with ExtenderServer(filter=result) as server:
        assert extender(server.url).filter(P, NODES)[1:] == ({"a": r"\x1b[31mfull\n"}, {"b": r"\x7f"})


def test_the_first_value_of_an_answer_counts() -> None:
    with ExtenderServer(bind=Answer(b' \n{"error": ""} <!-- -->')) as server:
        extender(server.url).bind(P, "a")


def test_scores_of_a_node_that_is_named_twice_are_added() -> None:
    scores = [{"Host": "a", "Score": 2}, {"host": "x"}, {"Host": "a", "score": -5}]
    with ExtenderServer(prioritize=scores) as server:
        assert extender(server.url).prioritize(P, NODES) == {"a": -3, "x": 0}
        server.replies["prioritize"] = Answer(b"null")
        assert extender(server.url).prioritize(P, NODES) == {}


# ---- faults


def chunked(size: bytes) -> Answer:
    """An answer whose one chunk claims a size."""
    return Answer(size + b"\r\n{}\r\n0\r\n\r\n", headers=(("Transfer-Encoding", "chunked"),))


FAILED = "failed filter with extender at URL {url}/filter, code"
NOT_READ, FIELD = "json: cannot unmarshal", "into Go struct field ExtenderFilterResult"
BROKEN = 'Post "{url}/filter": net/http: HTTP/1.x transport connection broken:'
FAULTS: list[tuple[Any, str]] = [
    ({"Error": "out of order"}, "out of order"),
    (Answer(b"{}", 500), f"{FAILED} 500"),
    (Answer(status=302, headers=(("Location", "/bind"),)), f"{FAILED} 302"),
    (Answer(status=204), f"{FAILED} 204"),
    (Answer(), "EOF"),
    (Answer(b"<html>"), "invalid character '<' looking for beginning of value"),
    (Answer(b'{"Error": nil}'), "invalid character 'n' looking for beginning of value"),
    (Answer(b'{"Error": NaN}'), "invalid character 'N' looking for beginning of value"),
    (Answer(b'{"Error": "x'), "unexpected EOF"),
    (Answer(b'{"Error": ""}', cut=2), "unexpected EOF"),
    (Answer(b'{"Error": ""}', cut=2, chunked=True), "unexpected EOF"),
    (Answer(b"[" * 60_000), "exceeded max depth"),
    (
        Answer(b"[" * 100_000),
        f"{NOT_READ} into v1.ExtenderFilterResult: Expected `object | null`, got `array`",
    ),
    ([], f"{NOT_READ} array into Go value of type v1.ExtenderFilterResult"),
    ({"nodeNames": "a"}, f"{NOT_READ} string {FIELD}.NodeNames of type []string"),
    ({"FailedNodes": {"a": 1}}, f"{NOT_READ} number {FIELD}.FailedNodes of type string"),
    (
        {"NodeNames": ["a", "z"]},
        'extender "{url}" claims a filtered node "z" which is not found in the input node list',
    ),
    (Answer(b'{"Error": "a\\nb\\u001b[31m\\u0000\\u009b"}'), r"a\nb\x1b[31m\x00\x9b"),
    (Answer(b'{"Error": "\\ud800x"}'), "\ufffdx"),
    (Answer(b'{"Error": "\xff"}'), "\ufffd"),
    (chunked(b"-5"), "invalid byte in chunk length"),
    (chunked(b"zz"), "unexpected EOF"),
    (HangUp(), 'Post "{url}/filter": EOF'),
    (Answer(headers=(("X", "y" * 70_000),)), f"{BROKEN} got more than 65536 bytes when reading header line"),
]


@pytest.mark.parametrize(("reply", "text"), FAULTS)
def test_a_broken_answer_is_an_error_and_the_next_request_is_fresh(reply: Any, text: str) -> None:
    with ExtenderServer(filter=reply, bind={}) as server:
        one = extender(server.url, nodeCacheCapable=True)
        assert failure(one.filter, P, NODES) == text.replace("{url}", server.url)
        one.bind(P, "a")  # the next request is a fresh start
    assert server.verbs == ["filter", "bind"]


@pytest.mark.share(2)
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("verb", "nodes"), [("bind", 0), ("filter", 2)])
def test_an_answer_as_large_as_may_be(verb: str, nodes: int, chunked: bool) -> None:
    """So much, more for each node that was sent, and twice as much as was sent."""
    with ExtenderServer(**{verb: {}}) as server:
        one = extender(server.url, httpTimeout="1m")

        def ask() -> None:
            one.filter(P, NODES) if verb == "filter" else one.bind(P, "a")

        ask()
        most = (1 << 20) + nodes * 1024 + 2 * int(server.requests[0].headers["Content-Length"])
        server.replies[verb] = Answer(b"{" + b" " * (most - 2) + b"}", chunked=chunked)
        ask()
        server.replies[verb] = Answer(b"{" + b" " * (most - 1) + b"}", chunked=chunked)
        assert failure(ask) == f"the answer of {server.url}/{verb} has more than {most} bytes"


def test_names_of_very_many_nodes_are_few_enough() -> None:
    """Names as long as they may be, and what is said of each, are within the limit."""
    name = "n" * 253
    said = len(f'"{name}":"{"r" * 500}",')
    assert said < 1024 + 2 * len(f'"{name}",')


def test_long_answers_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an object for each value that is of no use: what Go's decoder does value by value is for short
    ones. Names of the outermost fields may be spelt as they like, unknown ones are passed over."""
    monkeypatch.setattr(wire, "_as_go_reads", None)
    padding = b" " * wire.MAX_LENIENT_BYTES
    for text in (b'{"Error": "x"}', b'{"ERROR": "x"}', b'{"error": "x", "Other": [{"a": 1}, null]}'):
        assert wire.decode(text + padding, wire.FILTER_RESULT).error == "x"
    for text in (b'[{"Host": "a", "Score": 2}, {}]', b'[{"host": "a", "score": 2, "b": 1}, {}]'):
        found = wire.decode(text + padding, wire.HOST_PRIORITIES)
        assert [(one.host, one.score) for one in found] == [("a", 2), ("", 0)]
    assert wire.decode(b"null" + padding, wire.HOST_PRIORITIES) is None
    assert wire.decode(b"null" + padding, wire.BINDING_RESULT).error == ""
    for text in (b'{"error": 1}', b"[{}]", b'{"error": "\xff"}', b'{"error": "\\ud800"}', b"{} x", b"{"):
        with pytest.raises(ExtenderError, match=r"^json: cannot unmarshal into v1\.ExtenderFilterResult: "):
            wire.decode(text + padding, wire.FILTER_RESULT)


@pytest.mark.parametrize(
    ("reply", "limit", "text"),
    [
        (
            Silence(),
            "20ms",
            'Post "{url}/bind": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
        ),
        (
            Silence(head=True),
            "1s",  # time for the headers, on a busy machine too
            "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
        ),
    ],
)
def test_an_answer_beyond_the_time_limit_is_an_error(reply: Silence, limit: str, text: str) -> None:
    with ExtenderServer(bind=reply) as server:
        one = extender(server.url, httpTimeout=limit)
        assert failure(one.bind, P, "a") == text.replace("{url}", server.url)


def test_all_of_a_request_has_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of the answer comes in time; by a clock that goes on with each look, the whole does not."""
    ticks = itertools.count()
    monkeypatch.setattr(http_extender, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    with ExtenderServer(bind=Answer(b" " * 50_000 + b"{}", chunked=True)) as server:
        extender(server.url, httpTimeout="100000s").bind(P, "a")
        text = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        assert failure(extender(server.url, httpTimeout="7s").bind, P, "a") == text


LONG = "a" * 64 + ".com"


REFUSED = "dial tcp 127.0.0.1:1: connect: connection refused"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://x", 'unsupported protocol scheme "ftp"'),
        ("x", 'unsupported protocol scheme ""'),
        ("http:///x", "http: no Host in request URL"),
        (f"http://{LONG}", f"dial tcp: lookup {LONG}: no such host"),
        ("http://127.0.0.1:1", REFUSED),
        ("http://me:secret@127.0.0.1:1", REFUSED),
    ],
)
def test_a_server_that_cannot_be_reached_is_an_error(url: str, why: str) -> None:
    shown = url.replace("secret", "***")
    assert failure(extender(url).bind, P, "a") == f'Post "{shown}/bind": {why}'
    text = "parse \"http://127.0.0.1:x/bind\": Port could not be cast to integer value as 'x'"
    assert failure(extender("http://127.0.0.1:x").bind, P, "a") == text


def test_a_host_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_host(*_: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)
    text = 'Post "http://nowhere/bind": dial tcp: lookup nowhere: no such host'
    assert failure(extender("http://nowhere").bind, P, "a") == text


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with ExtenderServer(bind={}) as server:
        extender(server.url).bind(P, "a")


def test_a_connection_is_closed_with_its_extender() -> None:
    """In whichever order the parts of a cycle are found to be garbage."""
    with ExtenderServer(bind={}) as server:
        one = extender(server.url)
        one.bind(P, "a")
        connection = one.transport.connection
        assert connection is not None
        cycle: list[Any] = [one]
        cycle.append(cycle)
        del one, cycle
        gc.collect()
        assert connection.sock.fileno() == -1


def test_a_binding_that_is_refused_is_an_error() -> None:
    with ExtenderServer(bind={"Error": "taken"}) as server:
        assert failure(extender(server.url).bind, P, "a") == "taken"


# ---- of a configuration


def test_ignorable_extenders_come_last() -> None:
    one = configured(*({"urlPrefix": f"http://{n}", "ignorable": n in "ac"} for n in "abcd"))
    assert [each.name for each in make_extenders(one, nothing)] == [f"http://{n}" for n in "bdac"]
    assert make_extenders(None, nothing) == []


def test_one_request_at_a_time_has_the_connection() -> None:
    with ExtenderServer() as server:
        transport = extender(server.url).transport
        touched = guard(transport, transport.lock, "connection")
        server.replies["filter"] = {}
        transport.post("filter", b"{}", 1000)
        assert touched == {"connection"}
        assert not is_held(transport.lock)
