"""One object of each compiled class: what a scheduler holds, and what comes and goes within a call."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from tests.autoscaling.test_domain_counts import CORE, HOST, SPREAD, ZONE, Group, Pass
from tests.devices.make import device, device_class, request, resource_slice
from tests.doors.engine import ClaimsOfBatch, Preemptor, VolumesInUse, groups_of
from tests.framework.runtime.compiled import compiled
from tests.make import node, pod
from tests.scheduler.placing.test_volume_engine import claimed
from tests.volume.make import uses, volume

import moorage._core
from moorage import Scheduler, load_native_plugin
from moorage.compat.binder_cache import BinderCache, CacheHandler
from moorage.engine.cache import Snapshot
from moorage.kube import (
    Cluster,
    LabelSelector,
    NodeSelector,
    PodAffinityTerm,
    PodResourceClaim,
    TopologySpreadConstraint,
    decode_object,
    parse_selector,
)


def modules() -> Iterator[ModuleType]:
    """The compiled modules, which are in the packages of the core."""
    for room in pkgutil.iter_modules(moorage._core.__path__, "moorage._core."):
        if room.ispkg:
            path = importlib.import_module(room.name).__path__
            for found in pkgutil.iter_modules(path, f"{room.name}."):
                yield importlib.import_module(found.name)


@cache
def kinds() -> dict[str, type]:
    """The compiled classes."""
    out = dict[str, type]()
    for module in modules():
        for name, kind in vars(module).items():
            if isinstance(kind, type) and kind.__module__ == module.__name__ and not name.startswith("_"):
                out[name] = kind
    return out


def plain_scheduler() -> Scheduler:
    """A scheduler with nodes, images, an extended resource, spread pods, and a pod that fits nowhere."""
    gpu = {"example.com/gpu": 2}
    nodes = [node(f"n{at}", zone=f"z{at % 2}", images=[(["i"], 5)], **gpu) for at in range(20)]
    selector = LabelSelector(match_labels={"app": "a"})
    constraint = TopologySpreadConstraint(1, "zone", "DoNotSchedule", selector)
    scheduler = Scheduler(Cluster(nodes=nodes, pods=[pod(f"there{at}", on="n0") for at in range(3)]))
    spread = pod("p", labels={"app": "a"}, topology_spread_constraints=(constraint,))
    scheduler.schedule_pods([spread, pod("q"), pod("r", requests={"cpu": 99})])
    scheduler.schedule_by_template(pod("t"), 5)
    scheduler.ask.explain(pod("e"))
    scheduler.queue.close()  # so that a pop waits for nothing
    return scheduler


def scheduler_with_claims() -> Scheduler:
    """A scheduler that has placed pods with a bound claim and with a device."""
    template = decode_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"devices": {"requests": [request()]}},
        }
    )
    slices = [resource_slice(name, [device(f"d{at}") for at in range(2)]) for name in "ab"]
    others = [*claimed("data", volume("data", ("driver", "h"))), device_class(), *slices, template]
    scheduler = Scheduler(Cluster(nodes=[node("a"), node("b")], others=others))
    asking = pod("d", resource_claims=(PodResourceClaim(name="c", resource_claim_name="one"),))
    scheduler.schedule_pods([pod("v", volumes=(uses(claim="data"),)), asking])
    return scheduler


def native_plugin() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return load_native_plugin(compiled(Path(folder), FILTER="by_pool")).external


def within_calls(held: dict[str, Any]) -> Iterator[Any]:
    """What no scheduler holds between two calls, made of what one holds."""
    of, state, one = kinds(), held["ClusterState"], pod("x")
    batch = of["PodBatch"](state, [one])
    yield from (batch, of["Placements"](state, 3, batch))
    yield of["Bracket"](threading.RLock(), SimpleNamespace(begin=list, end=bool))
    yield from (of["Sink"](), of["LedgerSink"](), of["BoundSink"]())
    info = of["QueuedPodInfo"](one, 0.0)
    group = of["QueuedGroupInfo"](("default", "g"), 0.0)
    rejection = of["Rejection"]("default-scheduler", frozenset(), frozenset(), "")
    yield from (info, group, rejection, of["RejectedPods"](rejection), of["KeyIndex"](()), of["Lane"](len))
    yield from (of["Place"]("active"), of["Strategy"](0))
    reader = of["Reader"](lambda key: None, of["IndexedObjects"]())
    asking = [SimpleNamespace(shape=SimpleNamespace(spec=None))]
    yield from (reader, of["RepeatedClaims"](one, asking, reader, {}, ClaimsOfBatch()), of["Mark"]())
    yield from (
        of["PartMemo"](len),
        of["SharedTexts"](len, 9),
        of["Notice"](None, one),
        of["Quantity"]("1"),
        of["FieldRules"](()),
        of["SpecRule"](len),
    )
    yield of["ArrowColumn"]("a", "l", 2, 0, (None, np.zeros(16, np.uint8)))
    yield from (of["BoundPods"]([one], ["n0"]), of["DryRun"](state, [0], [0], [0], [[]]))
    yield from (of["Evictions"](state, 2), of["Outcomes"]())
    yield of["PythonExternal"]("External", lambda rows: np.zeros(len(rows), np.int64))
    yield from (of["GpuShares"](), of["Gradients"](4), of["NominatedVerdicts"]())
    yield of["DomainCounts"](state, held["Counter"])
    yield of["ScoredNodes"](b"s", 0.0, np.zeros(2, np.int32), np.zeros(2, np.int64), False)
    yield from (of["TableColumns"](state.table, "requested"), of["VolumeDemand"](None, []))
    yield of["NodeNames"](held["NodeTree"], state.symbols, threading.RLock())
    yield of["NodeSelectorMatcher"](NodeSelector())
    yield of["PodTerm"](of["TermKind"](0), 1, "default", PodAffinityTerm(topology_key="zone"))
    yield from (of["Kind"](0), of["Route"](1), of["TermKind"](0), of["TieBreak"](0))
    yield from (of["Taint"]("k", "v", "NoSchedule"), of["Toleration"]("k", "Exists", "", ""))
    yield from (of["TermKey"](*range(6)), of["Requirement"](0, 0, (), 0))
    yield from (of[name]("x") for name in ("ClaimError", "ClaimWriteError", "SearchTimeoutError"))


def for_claims(held: dict[str, Any]) -> Iterator[Any]:
    """The same, of a scheduler that has placed pods with claims."""
    of = kinds()
    readers = (of["Reader"](lambda key: None, of["IndexedObjects"]()),) * 4
    yield of["DeviceSearch"](held["Wanted"], held["DeviceView"], held["DeviceViews"].features)
    yield of["BoundClaims"](readers, ("", "", ("",)), held["VolumeUsers"], ClaimsOfBatch(), True)


def for_provisioning() -> Iterator[Any]:
    """What a pass of Karpenter's holds."""
    of = kinds()
    vocabulary = of["Vocabulary"](CORE)
    key = vocabulary.key(ZONE)
    zone, host = vocabulary.set_of([key.one_of("a")]), vocabulary.of_labels({HOST: "h"})
    counts = of["TopologyCounts"](Group(SPREAD, 1, None, True, key, ZONE), key.mask(["a"]), [])
    topology = Pass(zone, own={"g": counts})
    yield from (
        vocabulary,
        key,
        zone,
        zone.get(ZONE),
        counts,
        of["Ties"](1),
        of["Host"]("h", (), zone, host, True),
    )
    yield of["TopologyError"](counts, zone.get(ZONE), zone.get(ZONE))
    yield of["ConstraintGroups"](topology, topology, [counts])
    yield from (
        of["Kinds"](),
        of["HostTable"](),
        of["Question"](),
        of["Asked"](),
        of["Thresholds"]([{"cpu": 1}]),
    )


def instances() -> dict[str, Any]:
    """By name of a compiled class, an object of it."""
    scheduler = plain_scheduler()
    binder, snapshot = BinderCache(CacheHandler()), Snapshot()
    binder.add_node(node("n0"))
    binder.add_pod(pod("b", on="n0"))
    scheduler.cache.update_snapshot(snapshot)
    preemptor = Preemptor(scheduler.placer.decider)
    held = reachable([scheduler, binder, snapshot, preemptor, parse_selector("a=b")])
    with_claims = scheduler_with_claims()
    claims = reachable([with_claims, with_claims.handle.derived(VolumesInUse.of)])
    external = native_plugin()
    view = kinds()["NativeView"](external, held["ClusterState"])
    units = kinds()["LowerUnits"](held["ClusterState"], 9, groups_of(scheduler.handle))
    made = reachable([*within_calls(held), *for_claims(claims), *for_provisioning(), external, view, units])
    return made | claims | held


def reachable(roots: list[Any]) -> dict[str, Any]:
    """By name of a compiled class, the first object of it that others lead to."""
    found, todo, seen = dict[str, Any](), roots, set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        for kind in type(one).__mro__:
            if kind.__module__.startswith("moorage._core."):
                found.setdefault(kind.__name__, one)
        if type(one).__module__.startswith("moorage") or isinstance(one, list | tuple | dict | set):
            todo += gc.get_referents(one)
    return found
