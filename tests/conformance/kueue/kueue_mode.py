"""Vectors of Kueue's scheduler: a cluster with workloads is played in rounds, and each round compared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from moorage.kube import decode_object
from moorage.queues import AdmittedPods, Cycle, Kueue, QueuedWorkload, Settings
from tests.conformance.compare import differences, short
from tests.doors.queues import milliseconds, text

Json = dict[str, Any]

_CONFIG = {"fairSharing", "featureGates", "requeuingTimestamp", "step", "releaseAfter"}
_QUIET_ROUNDS = 3
_CYCLES = 30


def is_kueue(vector: Json) -> bool:
    """Whether a line is one of these; Karpenter's have plays and variants, too, but no configuration."""
    return {"plays", "undetermined", "variants"} <= vector.keys() and "config" in vector["scenario"]


def check(vector: Json, most: int) -> Iterator[str]:
    """The first differences, but for what real Kueue does not always decide alike."""
    if vector.keys() != {"scenario", "result", "undetermined", "plays", "variants"}:
        return iter([f"malformed line: fields {', '.join(sorted(vector))}"])
    played, expected, left_open = play(vector["scenario"]), vector["result"], vector["undetermined"]
    if not left_open:
        return islice(differences(expected, played), most)
    return islice(_open_differences(parts(expected), parts(played), set(left_open)), most)


def _open_differences(expected: Json, played: Json, left_open: set[str]) -> Iterator[str]:
    for name in sorted({*expected, *played} - left_open, key=_place):
        yield from _part(expected, played, name)


def _part(expected: Json, got: Json, name: str) -> Iterator[str]:
    if name in expected and name in got:
        yield from differences(expected[name], got[name], name)
    else:
        yield f"{name}: expected {short(expected.get(name, '-'))}, got {short(got.get(name, '-'))}"


def _place(name: str) -> tuple[int, str]:
    first = name.split("/")[0]
    return int(first) if first.isdigit() else 10**6, name


def parts(result: Json) -> Json:
    """The parts of a result, by name; together they say all that it says."""
    found: Json = {"cycles": [each["cycle"] for each in result["cycles"]], "stable": result["stable"]}
    for cycle in result["cycles"]:
        rest = dict(cycle)
        at = rest.pop("cycle")
        admitted = rest.pop("admitted")
        found[f"{at}/attempts"] = cycle["attempts"]
        found[f"{at}/attempted"] = sorted(rest.pop("attempts"))
        found[f"{at}/admitted"] = sorted(each["workload"] for each in admitted)
        found[f"{at}/admittedOrder"] = [each["workload"] for each in admitted]
        flavors, topology = {}, {}
        for each in admitted:
            each, name = dict(each), each["workload"]
            if "considered" in each:
                found[f"{at}/considered/{name}"] = each.pop("considered")
            topology[name] = [(pods.get("topology"), pods.get("delayed")) for pods in each["podSets"]]
            each["podSets"] = [
                {key: value for key, value in pods.items() if key not in ("topology", "delayed")}
                for pods in each["podSets"]
            ]
            flavors[name] = each
        found[f"{at}/flavors"], found[f"{at}/topology"] = flavors, topology
        for name, why in rest.pop("waiting").items():
            found[f"{at}/waiting/{name}"] = why
        for name, queue in rest.pop("queues").items():
            found[f"{at}/queues/{name}"] = queue
        if "topology" in rest:
            found[f"{at}/topologyUsage"] = rest.pop("topology")
        found |= {f"{at}/{key}": value for key, value in rest.items()}
    for name, workload in result["workloads"].items():
        workload = dict(workload)
        if "message" in workload:
            found[f"final/{name}/message"] = workload.pop("message")
        found[f"final/{name}"] = workload
    unknown = result.keys() - {"cycles", "stable", "workloads"}
    return found | {key: result[key] for key in unknown}


def play(scenario: Json) -> Json:
    """What Kueue makes of a scenario."""
    game = _Game(scenario)
    kueue = game.kueue
    cycles: list[Json] = []
    quiet = 0
    last = max([0, *[event["cycle"] for event in scenario.get("events", ())]])
    stable = False
    for at in range(1, scenario.get("cycles", _CYCLES) + 1):
        before = game.state()
        finished = game.begin(at)
        cycle = kueue.cycle()
        game.count_lives(at)
        told = {"cycle": at, **_told(kueue, cycle, finished)}
        kueue.advance(scenario["config"].get("step", 1) * 1000)
        tried = bool(cycle.attempts or cycle.waiting)
        is_changed = before != game.state()
        is_coming = at < last or game.is_coming(at)
        quiet = quiet + 1 if tried and not is_changed else 0
        stable = not is_coming and not is_changed and (quiet == _QUIET_ROUNDS or not tried)
        if tried or not stable:
            cycles.append(told)
        if stable:
            break
    final = {name: _final(workload) for name, workload in kueue.workloads.items()}
    return {"cycles": cycles, "stable": stable, "workloads": final}


class _Game:
    """A scenario that is played."""

    def __init__(self, scenario: Json) -> None:
        config = scenario["config"]
        if unknown := config.keys() - _CONFIG:
            raise ValueError(f"unknown config {min(unknown)}")
        sharing = config.get("fairSharing")
        strategies = None if sharing is None else tuple(sharing.get("preemptionStrategies", ()))
        settings = Settings(
            strategies, config.get("requeuingTimestamp", "Eviction"), config.get("featureGates", {})
        )
        objects = [decode_object(value) for value in scenario["objects"]]
        first = [each for each in objects if each.kind != "Workload"]
        now, after = milliseconds(scenario["now"]), config.get("releaseAfter", 0)
        self.kueue = Kueue(first, settings, now, after)
        for each in objects:
            if each.kind == "Workload":
                self.kueue.apply(each)
        self.kueue.settle()
        self._scenario = scenario
        self._ends: dict[str, int] = {}

    def state(self) -> Any:
        kueue = self.kueue
        workloads = [(key, workload.status, workload.holds) for key, workload in kueue.workloads.items()]
        return workloads, {name: kueue.waiting(name) for name in kueue.snapshot.queues}

    def is_coming(self, at: int) -> bool:
        return any(end > at for end in self._ends.values()) or self.kueue.is_leaving()

    def begin(self, at: int) -> list[str]:
        """Let events happen and workloads finish; return the latter."""
        before = {key: workload.status for key, workload in self.kueue.workloads.items()}
        for event in self._scenario.get("events", ()):
            if event["cycle"] == at:
                self._happen(event)
                self.kueue.settle()
        for key, end in list(self._ends.items()):
            if end <= at:
                del self._ends[key]
                self.kueue.finish(key)
        return sorted(
            key
            for key, workload in self.kueue.workloads.items()
            if workload.status == "finished" and before.get(key) != "finished"
        )

    def count_lives(self, at: int) -> None:
        """Say when workloads will finish that were admitted."""
        lifetimes = self._scenario.get("lifetimes", {})
        for key, workload in self.kueue.workloads.items():
            life = lifetimes.get(key, self._scenario.get("lifetime"))
            if workload.status != "admitted":
                self._ends.pop(key, None)
            elif life is not None and key not in self._ends:
                self._ends[key] = at + life

    def _happen(self, event: Json) -> None:
        kueue = self.kueue
        for kind, what in event.items():
            if kind == "advance":
                kueue.advance(what * 1000)
            elif kind == "finish":
                for key in what:
                    kueue.finish(key)
            elif kind == "delete":
                for key in what:
                    kueue.delete("Workload", key)
            elif kind in ("update", "create"):
                for value in what:
                    kueue.apply(decode_object(value))
            elif kind == "active":
                for key, active in what.items():
                    kueue.activate(key, active)
            elif kind == "priority":
                for key, priority in what.items():
                    kueue.prioritize(key, priority)
            elif kind == "reclaimable":
                for key, counts in what.items():
                    kueue.reclaim(key, counts)
            elif kind == "checks":
                for each in what:
                    kueue.set_check(each["workload"], each["check"], each["state"], each.get("message", ""))
            elif kind != "cycle":
                raise ValueError(f"unknown event {kind}")


def _told(kueue: Kueue, cycle: Cycle, finished: list[str]) -> Json:
    """A round in the form of the vectors."""
    snapshot = kueue.snapshot
    queues: dict[str, Json] = {}
    usage, shares = {}, {}
    for name, queue in snapshot.queues.items():
        active, inadmissible = kueue.waiting(name)
        queues[name] = {"active": active, "inadmissible": inadmissible}
        if queue.inactive:
            queues[name]["inactive"] = queue.inactive
            continue
        usage[name] = _usage(queue)
        shares[name] = _share(queue.share().weighted())
    told: Json = {
        "attempts": list(cycle.attempts),
        "admitted": [
            {
                "workload": each.workload,
                "clusterQueue": each.cluster_queue,
                "podSets": [_pods(pods) for pods in each.pods],
                **({"reservedOnly": True} if each.is_reserved_only else {}),
                **({"considered": each.considered} if each.considered else {}),
            }
            for each in cycle.admitted
        ],
        "preempted": [
            {"workload": each.workload, "by": each.by, "reason": each.reason, "message": each.message}
            for each in cycle.preempted
        ],
        "waiting": dict(cycle.waiting),
        "queues": queues,
        "usage": usage,
    }
    cohorts = {name: _usage(cohort) for name, cohort in snapshot.cohorts.items()}
    if kueue.settings.fair_sharing is not None:
        shares |= {
            f"cohort {name}": _share(each.share().weighted()) for name, each in snapshot.cohorts.items()
        }
        told["shares"] = shares
    topology = {
        flavor: {
            domain: {key: text(key, value) for key, value in used.items() if value}
            for domain, used in each.usage_by_domain().items()
        }
        for flavor, each in snapshot.topologies.items()
    }
    optional = {
        "cohorts": cohorts,
        "topology": topology,
        "evicted": dict(cycle.evicted),
        "finished": finished,
    }
    return told | {key: value for key, value in optional.items() if value}


def _usage(node: Any) -> Json:
    """What a queue or cohort uses, without what is 0."""
    cells = sorted(node.cells.items())
    return {f"{flavor}/{resource}": cell.usage for (flavor, resource), cell in cells if cell.usage}


def _share(value: float) -> str:
    return "+Inf" if value == float("inf") else f"{value:.6f}"


def _pods(pods: AdmittedPods) -> Json:
    told: Json = {"name": pods.name, "count": pods.pods, "flavors": dict(pods.flavors)}
    if pods.domains:
        told["topology"] = [{"values": list(each.values), "count": each.pods} for each in pods.domains]
    if pods.is_delayed:
        told["delayed"] = "Pending"
    return told


def _final(workload: QueuedWorkload) -> Json:
    told: Json = {"status": workload.status}
    if workload.holds is not None:
        told["clusterQueue"] = workload.cluster_queue
        told["podSets"] = [_pods(pods) for pods in workload.holds]
    reserved = workload.conditions.get("QuotaReserved")
    if reserved is not None and not reserved.is_true:
        told["reason"], told["message"] = reserved.reason, reserved.message
    if requeued := workload.conditions.get("Requeued"):
        told["requeued"] = f"{requeued.is_true}/{requeued.reason}"
    if workload.checks:
        told["checks"] = [f"{name}={check.state}" for name, check in workload.checks.items()]
    return told
