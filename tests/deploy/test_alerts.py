"""While pods wait and nothing moves, health checks, metrics and alerts say so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import inf, nan
from threading import Event

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.test_manifests import expressions
from tests.doors.live import LiveScheduler
from tests.serve.test_live_scheduler import Clock, Hang, asking, full_nodes, machine, until
from tests.store.api.conftest import client as client
from tests.store.api.conftest import server as server
from tests.store.api.conftest import slept as slept
from tests.store.api.conftest import store as store
from tests.store.api.test_api_client import answers
from tests.store.api.wire_server import LIMIT, WireServer

from moorage.live.client import ApiClient
from moorage.store import ObjectStore, ServerError

Labels = tuple[tuple[str, str], ...]
SELECTOR = r"(\w+)\{([^}]*)\}"
QUANTILE = rf"histogram_quantile\(([\d.]+), sum by \(le\) \(rate\( ?{SELECTOR}\[\w+\] ?\)\)\)"
TERM = rf"(sum|max)(?: by \(\w+\) )?\((?:(rate)\({SELECTOR}\[\w+\]\)|{SELECTOR})\)"
NUMBERS = {"nan": nan, "inf": inf}


class Prometheus:
    """Evaluates the alerts over two scrapes."""

    def __init__(self, metrics: Callable[[], bytes], *, is_extender: bool = False) -> None:
        self.metrics, self.is_extender = metrics, is_extender
        self.before = self.scrape()

    def scrape(self) -> dict[tuple[str, Labels], float]:
        families = text_string_to_metric_families(self.metrics().decode())
        samples = [one for family in families for one in family.samples]
        return {(one.name, tuple(sorted(one.labels.items()))): one.value for one in samples}

    def firing(self) -> set[str]:
        """The alerts that fire, but for those about the target and about the speed of this machine."""
        self.now = self.scrape()
        alerts = {name: texts[0] for name, texts in expressions().items() if name.startswith("Moorage")}
        del alerts["MoorageSchedulerDown"], alerts["MoorageSchedulerSlow"]
        alerts = {name: text for name, text in alerts.items() if self.is_extender == ("Extender" in name)}
        return {name for name, text in alerts.items() if self.fires(text)}

    def fires(self, text: str) -> bool:
        """Comparisons of an absent value are false, as those of NaN."""
        text = re.sub(QUANTILE, lambda found: str(self.quantile(*found.groups())), " ".join(text.split()))
        text = re.sub(TERM, lambda found: str(self.number(*found.groups())), text)
        waits, _, moves = text.partition(" unless ")
        return bool(eval(waits, NUMBERS)) and not (moves and eval(moves, NUMBERS))

    def chosen(self, name: str, selector: str, is_rate: bool) -> dict[Labels, float]:
        wanted = dict(re.findall(r'(\w+)=~?"([^"]*)"', selector))
        texts = {label: text for label, text in wanted.items() if label not in ("container", "pod")}
        chosen = {}
        for (found, labels), value in self.now.items():
            of = dict(labels)
            if found == name and all(re.fullmatch(text, of[label]) for label, text in texts.items()):
                chosen[labels] = value - self.before.get((found, labels), 0.0) if is_rate else value
        return chosen

    def number(self, how: str, rate: str | None, *of: str | None) -> float:
        name, selector = (one for one in of if one is not None)
        values = self.chosen(name, selector, rate is not None).values()
        return (sum if how == "sum" else max)(values) if values else nan

    def quantile(self, share: str, name: str, selector: str) -> float:
        """The bound of the bucket that a quantile is in."""
        sums = dict[float, float]()
        for labels, value in self.chosen(name, selector, True).items():
            bound = float(dict(labels)["le"])
            sums[bound] = sums.get(bound, 0.0) + value
        return next((le for le, value in sorted(sums.items()) if value >= float(share) * sums[inf] > 0), nan)


@pytest.fixture
def clock(client: ApiClient) -> Clock:
    clock = Clock()
    client.connection.clock = clock
    return clock


@pytest.fixture
def live(client: ApiClient, store: ObjectStore, clock: Clock) -> Iterator[LiveScheduler]:
    store.create_many([machine("n0"), machine("n1")])
    live = LiveScheduler(client, client.connection, clock=clock)
    live.await_cluster(Event())
    yield live
    live.run.finish(LIMIT)
    live.recorder.close()


def failing(live: LiveScheduler) -> set[str]:
    """The checks of readiness that fail; those of liveness in capitals."""
    failed = {name for name, passes in live.ready.items() if not passes()}
    return {name.upper() if name in live.health else name for name in failed}


def unreadable(live: LiveScheduler) -> set[str]:
    return {one.kind for one in live.client.reflectors if one.unreadable_since is not None}


def test_nothing_fires_while_pods_are_scheduled(live: LiveScheduler, store: ObjectStore) -> None:
    prometheus = Prometheus(live.run.metrics.text)
    store.create_many([asking("a"), asking("big", "99")])
    until(live, lambda: live.run.bound == 1 and not live.run.writer)
    assert prometheus.firing() == set()
    assert failing(live) == set()


def test_a_kind_that_cannot_be_read(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock
) -> None:
    """Pods are scheduled and counted. A restart would not help."""
    prometheus = Prometheus(live.run.metrics.text)
    refuse = answers(500, "InternalError", "unable to decrypt")
    server.outage = lambda handler: "/csinodes" in handler.path and refuse(handler)
    server.cut("/csinodes")
    until(live, lambda: "CSINode" in unreadable(live))
    assert unreadable(live) == {"CSINode"}
    store.create_many([asking("a"), asking("big", "99")])
    until(live, lambda: live.run.bound == 1 and not live.run.writer)
    live.recorder.writer.flush()
    clock.now += 61.0
    live.metrics.has_stepped()
    assert prometheus.firing() == {"MoorageKindUnreadable"}
    assert failing(live) == {"kinds"}
    text = live.run.metrics.text().decode()
    assert 'moorage_unreadable_kind_seconds{kind="CSINode"} 61.0' in text
    assert 'moorage_unreadable_kind_seconds{kind="Pod"} 0.0' in text
    assert sum(prometheus.chosen("scheduler_pending_pods", "", False).values()) == 1.0


@pytest.mark.parametrize(
    ("part", "what"), [("/binding", "pod_binding"), ("DELETE ", "pod_eviction"), ("/events", "event")]
)
def test_writes_that_hang(
    live: LiveScheduler, store: ObjectStore, server: WireServer, clock: Clock, part: str, what: str
) -> None:
    prometheus, hang = Prometheus(live.run.metrics.text), Hang(server, live.client, part)
    if what == "pod_eviction":
        full_nodes(store)
    else:
        store.create_many([asking("a")])
    until(live, hang.begun.is_set)
    clock.now += 61.0
    live.metrics.has_stepped()
    stands_still = {"MoorageSchedulerStandsStill"} if what == "pod_binding" else set()
    assert prometheus.firing() == {"MoorageWritesHang"} | stands_still
    assert failing(live) == (set() if what == "event" else {"writes"})
    text = live.run.metrics.text().decode()
    assert f'moorage_writes_in_flight{{call_type="{what}"}} 1.0' in text
    assert f'moorage_oldest_write_seconds{{call_type="{what}"}} 61.0' in text
    assert not hang.was_awaited
    hang.gate.set()
    until(live, lambda: not live.run.writer)
    live.recorder.writer.flush()
    assert "MoorageWritesHang" in prometheus.firing()  # it has ended, after a long time
    assert failing(live) == set()


def test_steps_that_fail(
    live: LiveScheduler, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prometheus, stop = Prometheus(live.run.metrics.text), Event()
    stop.set()

    def fail() -> bool:
        raise ServerError("no")

    monkeypatch.setattr(live.run, "step", fail)
    live.step(stop)
    assert prometheus.firing() == {"MoorageSchedulerStepsFail"}
    assert failing(live) == set()
    clock.now += 301.0
    assert "STEPS" in failing(live)
    assert "step has failed, and is repeated: seconds=1.0 error=no" in caplog.text


def test_a_step_that_hangs(live: LiveScheduler, store: ObjectStore, clock: Clock) -> None:
    prometheus = Prometheus(live.run.metrics.text)
    clock.now += 61.0
    store.create_many([asking("a")])
    while not live.scheduler.queue.pending_pods().active:
        live.scheduler.sync()
    assert prometheus.firing() == {"MoorageSchedulerStepsFail", "MoorageSchedulerStandsStill"}
    assert failing(live) == set()
    clock.now += 240.0
    assert "STEPS" in failing(live)
