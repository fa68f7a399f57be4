"""Tasks of a planner on the page of a twin, in a real browser: `make test-report`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from moorage.cli import main
from moorage.kube import decode_object
from tests.cli.make import node, pod
from tests.cli.options.test_cluster_options import server
from tests.cli.twin.test_asked_twin import cluster
from tests.doors.cli import AskedTwin, page_files, totals
from tests.doors.live import DelegatedAuthorization, FollowedCluster, Reply, TwinServer
from tests.house.source import ROOT
from tests.serve.test_secure_server import connection, review
from tests.store.api.wire_server import WireServer

from .pages import EVIL
from .test_browser import Opened, browser
from .test_page import evil_page

__all__ = ["browser", "cluster", "server"]
pytestmark = [pytest.mark.report, pytest.mark.filterwarnings("default")]  # of selenium itself

TEAM = "tests/data/users/dump.json.gz"
AWS = "tests/data/archives/must-gather.tar.gz"
SHOP = "examples/shop/cluster.yaml"
READ = """
return document.querySelector("#findings").children.length > 0 && !document.querySelector("[aria-busy=true]")
"""
DROP = """
const data = new DataTransfer();
data.items.add(new File([arguments[0]], "release.yaml"));
dispatchEvent(new DragEvent("drop", {dataTransfer: data}));
"""


class Twin(Opened):
    """The page of a twin in the browser."""

    def __init__(self, browser: Any, address: str) -> None:
        super().__init__(browser)
        self.address = address

    def visit(self, fragment: str = "", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.browser.get("about:blank")
        self.browser.get(f"{self.address}/{fragment}")
        self.until(READ)

    def until(self, script: str, *arguments: object) -> None:
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.browser, 60, 0.05).until(
            lambda browser: browser.execute_script(script, *arguments), script
        )

    def answer(self) -> str:
        """Wait for an answer; return its headline."""
        self.until(READ)
        return str(self.one("#answer-title").text)

    def repeated(self, capsys: pytest.CaptureFixture[str]) -> str:
        """Return the first line of what the command beside the answer prints."""
        command = shlex.split(self.one("#answer .about code").get_attribute("textContent"))
        capsys.readouterr()
        main(command[1:])
        return capsys.readouterr().out.splitlines()[0]

    def pick(self, selector: str, value: str) -> None:
        from selenium.webdriver.support.select import Select

        Select(self.one(selector)).select_by_visible_text(value)

    def type(self, selector: str, text: str) -> None:
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def ask(self, change: str, question: str = "", **fields: str) -> str:
        """Build a change in the form, ask, and return the headline of the answer."""
        self.pick("#kind", change)
        if question:
            self.pick("#question", question)
        for name, text in fields.items():
            self.type(f":is(#fields, #of) [name={name}]", text)
        self.one("#change .main").click()
        return self.answer()

    def press(self, text: str, within: str = "#answer") -> None:
        """Click what is named so."""
        next(one for one in self.all(f"{within} button") if one.text == text).click()

    def keys(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def offline(self, is_offline: bool) -> None:
        speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.browser.execute_cdp_cmd("Network.enable", {})
        self.browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": is_offline} | speed)

    def rows(self, selector: str) -> list[list[str]]:
        cells = "return [...arguments[0].cells].map(cell => cell.textContent)"
        return [self.browser.execute_script(cells, row) for row in self.all(f"{selector} tbody tr")]

    def focused(self) -> str:
        return str(
            self.browser.execute_script(
                "return document.activeElement.textContent || document.activeElement.id"
            )
        )


@pytest.fixture
def serve(browser: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Twin]]:
    monkeypatch.chdir(ROOT)
    with ExitStack() as stack:

        def make(
            *files: str, answer: Any | None = None, cluster: FollowedCluster | None = None, **more: Any
        ) -> Twin:
            if answer is None:
                asked = AskedTwin(cluster, files)
                stack.callback(asked.end)
                answer = asked.reply
            options = {"alive": {}, "ready": {}, "metrics": bytes} | more
            server = TwinServer(("127.0.0.1", 0), answer, page=page_files(), **options)
            stack.callback(server.close)
            return Twin(browser, f"http://127.0.0.1:{server.port}")

        yield make
    told = [one["message"] for one in browser.get_log("browser")]
    assert [one for one in told if "Failed to load resource" not in one] == []  # as where the policy forbids


def test_which_pods_wait_and_why_and_what_would_help_one(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve("examples")
    twin.visit()
    about, why = next(row for row in twin.rows("#findings") if row[0].startswith("replicaset/gpu-rs-03"))
    assert "pai-gpu, 6 pods, unschedulable" in about
    assert why.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 2 Insufficient"
    )
    twin.press("gpu-rs-03-hc4qv", "#findings")
    assert "0 of 3 nodes" in twin.answer()
    assert twin.repeated(capsys) == (
        "pai-gpu/gpu-rs-03-hc4qv: fits 0 of 3 nodes, once 15 other pending pods have nodes"
    )
    assert "What would help" in twin.one("#answer").text


def test_a_node_shows_its_room_and_what_holds_it(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve(TEAM)
    twin.visit()
    name = "ip-10-0-1-28.eu-west-1.compute.internal"
    twin.pick("#resource", "memory")
    assert "memory" in twin.one(f"#map [data-name='{name}']").get_attribute("aria-label")
    shares = [float(row[3].removesuffix(" %")) for row in twin.rows("#as-table")]
    assert shares == sorted(shares, reverse=True) != sorted(shares)
    twin.one(f"#map [data-name='{name}']").click()
    headline = twin.answer()
    assert headline == twin.repeated(capsys)
    assert f"explain -f {ROOT / TEAM} node/{name}" in twin.one("#answer .about code").text
    assert ["payments", "deployment/svc-30", "1"] in [row[:3] for row in twin.rows("#answer")]
    twin.press("deployment/svc-30")
    twin.until("return document.querySelector('#answer-title').textContent !== arguments[0]", headline)
    assert "svc-30" in twin.answer()
    assert "svc-30" in twin.repeated(capsys)


def test_a_drain_says_which_pods_wait_and_shows_the_nodes_after_it(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve(TEAM)
    twin.visit()
    headline = twin.ask("drain nodes", nodes="topology.kubernetes.io/zone=eu-west-1a")
    assert (headline, headline.split(":")[0]) == (twin.repeated(capsys), "FAIL")
    assert "deployment/svc-30" in [row[1] for row in twin.rows("#answer")]
    assert "moorage explain" not in twin.one("#answer").text
    name = "ip-10-0-1-28.eu-west-1.compute.internal"
    assert twin.one(f"#map [data-name='{name}']").get_attribute("aria-label").endswith("after, cordoned")
    square = twin.one(f"#map [data-name='{name}']")
    square.click()
    assert name in twin.answer()
    assert "SchedulingDisabled" in twin.one("#answer").text
    assert "--drain" in twin.one("#answer .about code").text
    twin.one("[value=before]").click()
    assert "cordoned" not in twin.one(f"#map [data-name='{name}']").get_attribute("aria-label")


def test_the_loss_of_a_zone_leaves_pods_without_a_place(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve(AWS)
    twin.visit()
    headline = twin.ask("lose a zone", zone="us-east-1b")
    assert (headline, headline) == (twin.repeated(capsys), "FAIL: 4 pods have no node")
    assert len(twin.all("#map .gone")) == 4
    assert "deployment/router-default" in [row[1] for row in twin.rows("#answer")]


def test_a_workload_is_scaled_and_restarted(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve(SHOP)
    twin.visit()
    assert twin.ask("scale a workload", workload="deployment/shop/web", number="40") == twin.repeated(capsys)
    assert twin.one("#answer-title").text.startswith("FAIL")
    twin.press("take out", "#steps")
    assert twin.ask("restart a workload", workload="deployment/shop/web") == twin.repeated(capsys)
    assert "--restart=deployment/shop/web" in twin.one("#answer .about code").text
    assert "--scale" not in twin.one("#answer .about code").text


def test_a_manifest_that_is_dropped_fits_or_not_and_says_where(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve(SHOP)
    twin.visit()
    release = (ROOT / "examples/shop/release/web.yaml").read_text()
    twin.browser.execute_script(DROP, release)
    twin.until("return document.querySelector('#manifest').value === arguments[0]", release)
    twin.one("#change .main").click()
    assert twin.answer() == "FAIL: 1 pod has no node"
    twin.pick("#question", "Where do the pods go?")
    twin.one("#change .main").click()
    assert twin.answer().startswith("9 pods have found a node, 1 has none")
    (row,) = [row for row in twin.rows("#answer") if row[1:2] == ["deployment/web"]]
    assert "new-a (2)" in row[-1]
    assert "with the manifest as its standard input" in twin.one("#answer .about").text


def test_added_nodes_let_waiting_pods_run(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve(SHOP, "examples/shop/release/web.yaml")
    twin.visit()
    assert "1 pod waits" in twin.one("#headline").text
    headline = twin.ask("add nodes", node="new-a", number="1")
    assert (headline, headline.split(":")[0]) == (twin.repeated(capsys), "PASS")
    assert "7 nodes" in twin.one("#readout").text


def test_how_many_more_of_a_template_fit(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve(SHOP)
    twin.visit()
    twin.pick("#question", "How many more fit?")
    twin.one("#change .main").click()
    assert twin.one("#help").text == "Name a workload, or paste a manifest."
    twin.type("#of [name=pod]", "deploy/shop/web")
    twin.one("#change .main").click()
    assert (twin.answer(), twin.repeated(capsys)) == ("12 of shop/web fit",) * 2


def test_nodes_that_can_be_drained_are_named_or_counted(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve(SHOP)
    twin.visit()
    question = "Which nodes can be drained, in which order?"
    headline = twin.ask("none", question, nodes="old-a, old-b")
    assert headline == twin.repeated(capsys)
    twin.visit(twin.browser.execute_script("return location.hash"))
    assert (twin.answer(), twin.one("#of input").get_attribute("value")) == (headline, "old-a old-b")
    twin.type("#of [name=count]", "1")
    twin.one("#change .main").click()
    assert twin.one("#help").text == "Name nodes, or say how many of all."
    twin.one("#of [name=nodes]").clear()
    assert twin.ask("none", question, count="1") == twin.repeated(capsys) == "found: 1 node, 2 moves"
    assert twin.ask("drain nodes", "Do all pods find a node?", nodes="old-a old-b") == twin.repeated(capsys)
    assert [one.text for one in twin.all("#steps code")] == ["drain old-a", "drain old-b"]


def test_a_pod_is_asked_about_by_name_and_what_another_release_would_decide(
    serve: Callable[..., Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    twin = serve("examples/upgrade/cluster.yaml")
    twin.visit()
    twin.pick("#question", "What differs from now?")
    twin.one("#change .main").click()
    assert twin.one("#help").text == "This question needs a change."
    twin.pick("#question", "Would another release decide otherwise?")
    twin.type("#of [name=from]", "1.35")
    twin.one("#change .main").click()
    assert twin.answer() == twin.repeated(capsys)
    fragment = twin.browser.execute_script("return location.hash")
    twin.visit(fragment)
    twin.answer()
    assert [one.get_attribute("value") for one in twin.all("#question, #of input")] == [
        "release",
        "1.35",
        "1.37",
    ]
    headline = twin.ask(
        "cordon nodes", "Why does a pod get a node, or none?", nodes="node-b", target="database"
    )
    assert "1 of 2 nodes" in headline
    assert twin.repeated(capsys) == "default/database: fits 1 of 2 nodes"
    assert "--cordon=node-b" in twin.one("#answer .about code").text


def test_a_link_opens_the_same_answer(serve: Callable[..., Twin]) -> None:
    twin = serve(SHOP)
    twin.visit()
    twin.browser.execute_script(
        "document.querySelector('#manifest').value = arguments[0]",
        "# none\n" + json.dumps(pod("new ü & co"[:3])),
    )
    first = twin.ask("drain nodes", nodes="old-a")
    body, command = twin.one("#answer").text, twin.one("#answer .about code").text
    address = twin.one("#answer .about a").get_attribute("href")
    twin.visit(address.removeprefix(f"{twin.address}/"))
    assert (twin.answer(), twin.one("#answer").text) == (first, body)
    assert twin.one("#answer .about code").text == command
    assert twin.one("#steps code").text == "drain old-a"
    twin.browser.back()
    twin.until(
        "return document.querySelector('#answer') === null || document.querySelector('#answer').hidden"
    )


def test_the_keyboard_alone_drains_a_node(serve: Callable[..., Twin]) -> None:
    from selenium.webdriver.common.keys import Keys

    twin = serve(SHOP)
    twin.visit()
    for _ in range(20):
        twin.keys(Keys.TAB)
        if twin.browser.execute_script("return document.activeElement.matches('#map [data-name]')"):
            break
    name = "return document.activeElement.dataset.name"
    first = twin.browser.execute_script(name)
    twin.keys(Keys.ARROW_RIGHT)
    assert twin.browser.execute_script(name) != first
    twin.keys(Keys.END, Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert twin.browser.execute_script(name) == first
    twin.keys(Keys.ENTER)
    assert twin.answer() == twin.focused()
    assert first in twin.focused()
    for _ in range(20):
        twin.keys(Keys.TAB)
        if twin.focused() == "Drain it":
            break
    twin.keys(Keys.ENTER)
    twin.until("return /PASS|FAIL/.test(document.activeElement.textContent)")
    assert f"--drain={first}" in twin.one("#answer .about code").text
    twin.keys(Keys.ESCAPE)
    assert not twin.one("#answer").is_displayed()
    assert twin.browser.execute_script("return document.activeElement !== document.body")


def test_errors_are_told_and_the_page_stays_usable(serve: Callable[..., Twin]) -> None:
    twin = serve(SHOP)
    twin.visit()
    assert twin.ask("drain nodes", nodes="no-such-node") == "There is no answer"
    assert "no-such-node" in twin.one("#answer").text
    twin.browser.execute_script("document.querySelector('#manifest').value = ': ['")
    assert twin.ask("none") == "There is no answer"
    assert "the manifest:" in twin.one("#answer").text
    twin.browser.execute_script("document.querySelector('#clear').click()")
    twin.press("take out", "#steps")
    assert twin.ask("drain nodes", nodes="old-a").startswith("PASS")
    twin.press("Where do the pods go?")
    twin.until(
        "return document.querySelector('#answer .about code')?.textContent.includes('moorage simulate')"
    )
    assert twin.one("#question").get_attribute("value") == "simulate"
    twin.pick("#question", "Do all pods find a node?")
    twin.offline(True)
    twin.one("#change .main").click()
    try:
        assert (twin.answer(), len(twin.all("#map [data-name]"))) == ("There is no answer", 6)
        assert "the twin does not answer" in twin.one("#answer").text
    finally:
        twin.offline(False)
    twin.press("Ask again")
    assert twin.answer().startswith("PASS")


def test_it_says_how_old_the_state_is_and_what_cannot_be_read(serve: Callable[..., Twin]) -> None:
    busy = [Reply(503, b'{"error": "4 questions are being answered"}')]
    state = {"resourceVersions": {"Pod": "9"}, "stalenessSeconds": 100.0}
    state |= {"unreadable": {"Pod": "forbidden"}, "leftOut": ["Lease"]}
    state["overview"] = {"reading": 1, "readSeconds": 5.0, "isDue": False}
    documents = {"overview": overview([]), "state": state}

    def answer(path: str, query: list[tuple[str, str]], body: bytes) -> Reply:
        return busy.pop() if busy else Reply(200, json.dumps(documents[path]).encode())

    twin = serve(answer=answer)
    twin.visit()
    twin.until("return document.querySelector('#state').textContent !== ''")
    assert twin.one("#state").text == (
        "The twin heard of the cluster 100.0 s ago; this page shows it as it was 5 s ago. Pod cannot be "
        "read now: forbidden. May not be listed: Lease. Pod changed since; the page reads it again by itself."
    )


def test_a_cluster_that_changes_is_read_again_and_the_focus_stays(
    serve: Callable[..., Twin], server: WireServer, cluster: FollowedCluster
) -> None:
    twin = serve(cluster=cluster)
    twin.visit()
    twin.until(
        "return /^The twin heard of the cluster [0-9.]+ s ago; this page/.test(arguments[0].textContent)",
        twin.one("#state"),
    )
    assert "2 nodes" in twin.one("#headline").text
    twin.browser.execute_script("document.querySelector('#map [data-name=b]').focus()")
    server.store.create(decode_object(node("c", "z1")))
    twin.until("return document.querySelector('#state').textContent.includes('Node changed since')")
    twin.until("return document.querySelector('#headline').textContent.startsWith('3 nodes')")
    assert len(twin.all("#map [data-name]")) == 3
    assert twin.browser.execute_script("return document.activeElement.dataset.name") == "b"
    assert len(twin.all("#totals svg")) == len(twin.all("#totals li")) == 4


SCROLL = """
const [list] = document.querySelectorAll("#as-table .scroll");
if (arguments.length) list.scrollTop = arguments[0];
return list.scrollTop
"""
WIDTHS = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


def overview(
    items: list[dict[str, Any]], findings: Sequence[dict[str, Any]] = (), at: int = 1
) -> dict[str, Any]:
    """What a twin answers of nodes and findings, when it has read them several times."""
    nodes, waiting = {"items": items}, {"findings": [*findings], "placed": 0}
    history = [{"seconds": 60.0 * one, **totals(nodes, waiting)} for one in range(1, at + 1)]
    about = {"reading": at, "seconds": 3700.0, "command": "moorage check --output=json", "history": history}
    return {**about, "nodes": nodes, "check": waiting}


def test_of_many_nodes_all_groups_are_seen_with_the_fullest_node(serve: Callable[..., Twin]) -> None:
    rooms = [
        {"name": f"n{at}", "zone": "ab"[at % 2], "pool": "", "schedulable": 1, "taints": [], "holders": []}
        | {"allocatable": {"cpu": 1000, "pods": 9}, "requested": {"cpu": at % 900, "pods": 1}}
        | {"status": "NotReady" if at == 7 else "Ready", "version": "v1.37.2", "price": 0.1}
        for at in range(1500)
    ]
    state: dict[str, Any] = {"overview": {"reading": 1, "readSeconds": 5.0, "isDue": False}}
    read = 1

    def answer(path: str, *_: object) -> Reply:
        documents = {"overview": overview(rooms, at=read), "state": state}
        return Reply(200, json.dumps(documents[path]).encode(), headers=[("Moorage-Repeat", "moorage nodes")])

    twin = serve(answer=answer)
    twin.visit()
    shown = [each.text for each in twin.all("#map summary")]
    assert shown == [
        "zone a: 750 nodes; cpu 39 %; the worst, n898, 90 %",
        "zone b: 750 nodes; cpu 39 %; 1 in trouble; the worst, n7, 0.7 %, NotReady",
    ]
    rows = twin.rows("#as-table")
    assert [row[0] for row in rows][:3] == ["n7", "n899", "n898"]
    assert rows[0][1:] == ["NotReady", "0.7 %", "none", "1 of 9", "", "v1.37.2", "$73", "b", "", ""]
    twin.one("#map summary").click()
    assert twin.one("#map [data-name=n898]").is_displayed()
    twin.pick("#resource", "pods")
    assert twin.one("#map [data-name=n898]").is_displayed()
    names = ["cpu requested", "pods bound", "pods waiting", "a month"]
    totals_now = ["39 %", "1,500", "0", "$109,500"]
    assert twin.one("#totals").text.split("\n") == [
        text for pair in zip(totals_now, names, strict=True) for text in pair
    ]
    twin.browser.execute_script("document.querySelector('#as-table button').focus()")
    twin.browser.execute_script(SCROLL, 200)
    read, state["overview"]["reading"] = 2, 2
    twin.until("return document.querySelectorAll('#totals svg').length === 4")
    assert (twin.browser.execute_script(SCROLL), twin.focused()) == (200, "n7")
    assert "in the last 1 h" in twin.one("#totals li").get_attribute("title")
    for width in (375, 1280, 1920):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        twin.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        wide, room = twin.browser.execute_script(WIDTHS)
        assert wide <= room
    twin.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_token_is_asked_for_and_kept_in_the_tab(serve: Callable[..., Twin]) -> None:
    reviews = connection(review)
    twin = serve(SHOP, authorization=DelegatedAuthorization(reviews, reviews))
    twin.browser.get(f"{twin.address}/")
    twin.until("return !document.querySelector('#token').hidden")
    twin.type("#token input", "scraper-token")
    twin.one("#token button").click()
    twin.until(READ)
    assert "6 nodes" in twin.one("#headline").text
    assert twin.browser.execute_script("return [localStorage.length, sessionStorage.length]") == [0, 1]
    twin.browser.execute_script("sessionStorage.clear()")


def test_names_never_become_html(serve: Callable[..., Twin]) -> None:
    amounts = {kind: {"cpu": 1, EVIL: 1} for kind in ("allocatable", "requested")}
    holder = {"namespace": EVIL, "workload": EVIL, "pods": 1, "requested": {EVIL: 1}}
    room = {"name": EVIL, "zone": EVIL, "pool": EVIL, "schedulable": 1, "taints": [EVIL], "holders": [holder]}
    room |= {"status": EVIL, "version": EVIL}
    finding = {
        "namespace": EVIL,
        "workload": EVIL,
        "names": [EVIL],
        "status": EVIL,
        "reason": EVIL,
        "rejections": [],
    }
    state = {"overview": {"reading": 1, "readSeconds": 5.0, "isDue": False}}
    documents = {"overview": overview([room | amounts], [finding]), "state": state}
    page = evil_page().encode()

    def answer(path: str, query: list[tuple[str, str]], body: bytes) -> Reply:
        found = page if ("output", "html") in query else json.dumps(documents[path]).encode()
        return Reply(200, found, headers=[("Moorage-Repeat", EVIL), ("Moorage-Notes", json.dumps([EVIL]))])

    twin = serve(answer=answer)
    twin.visit("#explain?target=p")
    assert twin.answer().startswith(EVIL)
    assert EVIL in twin.one("#answer").text
    twin.one("#map [data-name]").click()
    assert twin.answer().startswith(EVIL)
    assert twin.all("img") == []
    assert twin.browser.title.endswith("Moorage twin")
    assert all(EVIL in twin.one(selector).text for selector in ("#map", "#findings", "#as-table"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_and_fits_a_phone(scheme: str, serve: Callable[..., Twin]) -> None:
    twin = serve("examples")
    metrics = {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    twin.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        twin.visit("#explain?target=pai-gpu/gpu-rs-03-hc4qv", scheme)
        assert twin.violations() == []
        width, room = twin.browser.execute_script(WIDTHS)
        assert width <= room
    finally:
        twin.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
