"""Every verb of a scheduler, over and over: what a turn has made is gone after some more turns."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from functools import _lru_cache_wrapper
from itertools import count, pairwise
from typing import Any, ClassVar

import pytest

from moorage import ClusterChanges, Scheduler
from moorage.kube import Pod, PodSpec
from moorage.store import Indexer, ObjectStore
from tests.doors.cluster import ResourceRequest
from tests.doors.engine import handle
from tests.doors.engine import scheduler_state as module
from tests.doors.kube import Workload
from tests.leaks.test_leaks import WARM_UP, blocks
from tests.make import make, node, pod, scheduler, template, workload

Verb = Callable[[Scheduler], object]
BOUND = 4
"""Of what is kept of the past."""
WINDOWS = 8
NIGHTLY = 200_000
"""Turns of each verb, in `make leaks`."""
NUMBERS = count()


def world() -> Scheduler:
    """Nodes in zones, and workloads of each kind that verbs are about."""
    job = template("job", {"cpu": "1m"}, restartPolicy="Never")
    of_web = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    selector, hourly = {"matchLabels": {"app": "web"}}, {"spec": {"template": job}}
    made = scheduler(
        *(node(f"n{at}", f"z{at % 2}", pods="110") for at in range(4)),
        workload("Deployment", "default/web", 2, {"cpu": "1m"}),
        workload("StatefulSet", "default/db", 1, {"cpu": "1m"}),
        workload("DaemonSet", "default/agent", None, {"cpu": "1m"}),
        workload("Job", "default/waiting", 1, {"cpu": "1m"}, suspend=True),
        make("CronJob", "default/tick", {"schedule": "* * * * *", "jobTemplate": hourly}),
        make("HorizontalPodAutoscaler", "default/web", {"maxReplicas": 3, "minReplicas": 2} | of_web),
        make("PodDisruptionBudget", "default/web", {"maxUnavailable": 1, "selector": selector}),
    )
    made.run()
    return made


def apply(made: Scheduler) -> None:
    number = next(NUMBERS)
    made.change.apply([pod(f"p{number}", requests={"cpu": "1m"}, labels={"number": f"{number}"})])
    made.run()
    made.change.delete(f"pod/p{number}")


def scale(made: Scheduler) -> None:
    for replicas in (3, 2):
        made.change.scale("deploy/web", replicas)
        made.run()


def autoscale_to(made: Scheduler) -> None:
    for bound in ("max", "min"):
        made.change.autoscale_to(bound)
        made.run()


def run_cron_jobs(made: Scheduler) -> None:
    (new,) = made.change.run_cron_jobs().created
    made.run()
    made.change.delete(new.replace("Job ", "job/"))


def set_requests(made: Scheduler) -> None:
    for cpu in ("2m", "1m"):
        made.change.set_requests([ResourceRequest("deploy/web", "c", {"cpu": cpu})])
        made.run()


def unsuspend(made: Scheduler) -> None:
    made.change.unsuspend()
    made.run()
    made.change.delete("job/waiting")
    made.change.apply([workload("Job", "default/waiting", 1, {"cpu": "1m"}, suspend=True)])


def label(made: Scheduler) -> None:
    made.change.label("node/n0", f"number={next(NUMBERS)}")
    made.change.label("node/n0", "number-")


def copies(made: Scheduler) -> str:
    (new,) = made.change.add_nodes(1, "n0").created
    return new.removeprefix("Node ")


def add_and_remove_nodes(made: Scheduler) -> None:
    new = copies(made)
    made.change.scale("deploy/web", 4)
    made.run()
    made.change.remove_nodes(new)
    made.change.scale("deploy/web", 2)
    made.run()


def upgrade_nodes(made: Scheduler) -> None:
    made.change.upgrade_nodes(copies(made))
    named = [one.name for one in made.client.list("Node")[0] if one.name not in ("n0", "n1", "n2", "n3")]
    made.change.remove_nodes(named)


def fail_zone(made: Scheduler) -> None:
    made.change.add_nodes(1, "n0", zone="lost")
    made.run()
    made.change.fail_zone("lost")
    made.run()


def drain(made: Scheduler) -> None:
    made.change.drain("n1")
    made.run()
    made.change.uncordon("n1")


def cordon(made: Scheduler) -> None:
    made.change.cordon("n1")
    made.change.uncordon("n1")


def evict(made: Scheduler) -> None:
    made.change.evict([one for one in made.client.list(Pod)[0] if one.metadata.labels["app"] == "db"])
    made.run()


def taint(made: Scheduler) -> None:
    made.change.taint("n2", "gone:NoExecute")
    made.run()
    made.change.taint("n2", "gone-")
    made.run()


def release(made: Scheduler) -> None:
    made.release(made.bind(made.schedule_pods([pod(f"p{next(NUMBERS)}", requests={"cpu": "1m"})])))


def fails(made: Scheduler) -> None:
    name = f"p{next(NUMBERS)}"
    made.change.apply([pod(name, requests={"cpu": "99"})])
    made.run()
    made.change.delete(f"pod/{name}")


def preempts(made: Scheduler) -> None:
    name = f"p{next(NUMBERS)}"
    made.change.apply([pod(name, requests={"cpu": "4"}, priority=9)])
    made.run()
    made.change.delete(f"pod/{name}")
    made.run()


def undo(made: Scheduler) -> None:
    with made.transaction():
        made.change.scale("deploy/web", 5)
        made.run()


def fork(made: Scheduler) -> None:
    other = made.fork()
    other.change.scale("deploy/web", 5)
    other.run()


VERBS: dict[str, Verb] = {
    "apply": apply,
    "scale": scale,
    "restart": lambda made: (made.change.restart("deploy/web"), made.run()),
    "restart_all": lambda made: made.change.restart_all(),
    "autoscale_to": autoscale_to,
    "run_cron_jobs": run_cron_jobs,
    "set_requests": set_requests,
    "unsuspend": unsuspend,
    "label": label,
    "add_nodes": add_and_remove_nodes,
    "upgrade_nodes": upgrade_nodes,
    "fail_zone": fail_zone,
    "drain": drain,
    "cordon": cordon,
    "evict": evict,
    "taint": taint,
    "release": release,
    "fails": fails,
    "preempts": preempts,
    "undo": undo,
    "fork": fork,
}

BY_ANOTHER_NAME = {"delete": "apply", "remove_nodes": "add_nodes", "uncordon": "cordon"}
"""Verbs, and where they are among the others."""


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept up to a bound is full at once: the history of a store, classes of pods, events."""
    monkeypatch.setitem(ObjectStore.__init__.__kwdefaults__, "history", BOUND)
    monkeypatch.setattr(module, "FEW_CLASSES", 1)
    monkeypatch.setattr(handle, "MOST_EVENTS", BOUND)


@pytest.fixture(autouse=True, scope="module")
def freeze() -> None:
    """What there is before is not looked at again, but for its caches."""
    gc.unfreeze()
    Stream.caches = [one for one in gc.get_objects() if isinstance(one, _lru_cache_wrapper)]
    gc.freeze()


class Stream:
    """One verb on one scheduler."""

    caches: ClassVar[list[_lru_cache_wrapper[Any]]]

    def __init__(self, verb: Verb) -> None:
        self.verb, add = verb, Indexer.add_index
        self.indexes = list[tuple[Indexer[Any], str]]()

        def noting(indexer: Indexer[Any], name: str, *rest: Any, **more: Any) -> None:
            self.indexes.append((indexer, name))
            add(indexer, name, *rest, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Indexer, "add_index", noting)
            self.made = world()

    def run(self, turns: int) -> None:
        """Take so many turns, and forget what is remembered of them up to a bound."""
        for _ in range(turns):
            self.verb(self.made)
        for one in (*self.caches, *gc.get_objects()):
            if type(one) is _lru_cache_wrapper:
                one.cache_clear()
        self.made.cache.state.number_classes_anew()
        for informer in self.made.context.informers._informers.values():
            informer.indexer.list_index_func_values("namespace")
        for indexer, name in self.indexes:  # one that nobody reads keeps up to 4,096 changes
            indexer.list_index_func_values(name)

    def stored(self) -> Counter[type]:
        """How many objects of each kind the store has: the collector does not list them."""
        client = self.made.client
        return Counter({kind: len(client.list(kind)[0]) for kind in client.changed_since(-1)})


def objects() -> Counter[type]:
    """How many objects of classes of moorage there are, but for what is remembered of 1,024 pods: specs, and
    workloads."""
    gc.collect()
    counts = Counter(map(type, gc.get_objects()))
    ours = {kind: count for kind, count in counts.items() if str(kind.__module__).startswith("moorage")}
    of_pods = {kind for kind in ours if kind.__module__ == PodSpec.__module__ and kind is not Pod}
    return Counter({kind: count for kind, count in ours.items() if kind not in of_pods | {Workload}})


def test_when_pods_were_ready_is_forgotten_with_them() -> None:
    stream = Stream(evict)
    stream.run(8)
    assert stream.made.controllers is not None
    ready = stream.made.controllers.availability._ready
    assert 0 < len(ready) <= len(stream.made.client.list(Pod)[0])


def test_each_verb_is_here() -> None:
    public = {name for name in vars(ClusterChanges) if not name.startswith("_")}
    assert public == {*BY_ANOTHER_NAME, *VERBS} - {"release", "fails", "preempts", "undo", "fork"}
    assert {*BY_ANOTHER_NAME.values()} <= {*VERBS}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_leaves_no_object(name: str) -> None:
    stream = Stream(VERBS[name])
    stream.run(3 * BOUND)
    counts = [objects() + stream.stored()]
    for _ in range(2):
        stream.run(2 * BOUND)
        counts.append(objects() + stream.stored())
    more = [after - before for before, after in pairwise(counts)]
    assert not {kind for kind in more[0] if min(each[kind] for each in more) > BOUND}


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_leaves_nothing_in_very_many_turns(name: str) -> None:
    stream, turns = Stream(VERBS[name]), NIGHTLY // WINDOWS
    stream.run(WARM_UP)
    sizes = list[int]()
    for _ in range(WINDOWS):
        stream.run(turns)
        sizes.append(blocks())
    assert max(sizes[WINDOWS // 2 :]) < max(sizes[: WINDOWS // 2]) + turns, sizes
