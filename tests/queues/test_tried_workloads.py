"""A cycle that looks up what it found for workloads alike decides as one that tries each anew."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moorage.kube import Object, decode_object
from moorage.queues import Cycle, Kueue, Settings

Json = dict[str, Any]
QUEUES, FLAVORS = ("a", "b"), ("f0", "f1")


def of_kueue(kind: str, name: str, spec: Json, namespace: str = "", at: int = 0) -> Object:
    meta = {"name": name, "namespace": namespace, "creationTimestamp": f"2026-01-01T00:00:{at % 60:02}Z"}
    meta["uid"] = f"u-{name}"
    return decode_object(
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}
    )


POLICIES = st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
OF_QUEUES = st.fixed_dictionaries(
    {
        "queueingStrategy": st.sampled_from(["BestEffortFIFO", "StrictFIFO"]),
        "preemption": st.fixed_dictionaries(
            {
                "withinClusterQueue": POLICIES,
                "reclaimWithinCohort": st.sampled_from(["Never", "LowerPriority", "Any"]),
            }
        ),
        "flavorFungibility": st.fixed_dictionaries(
            {
                "whenCanBorrow": st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
                "whenCanPreempt": st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
            }
        ),
    }
)
SUBMITTED = st.tuples(
    st.sampled_from(QUEUES),
    st.sampled_from([4, 1, 3]),  # pods
    st.integers(0, 2),  # by how many fewer it starts
    st.integers(0, 2),  # priority
)
CHANGED = st.tuples(
    st.sampled_from(["finish", "prioritize", "neither"]), st.integers(0, 20), st.integers(0, 2)
)
ROUNDS = st.lists(st.tuples(st.lists(SUBMITTED, min_size=4, max_size=9), CHANGED), min_size=2, max_size=4)
"""In each, workloads come, one changes, and cycles run."""
CYCLES = 7
Rounds = list[tuple[list[tuple[str, int, int, int]], tuple[str, int, int]]]


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Two queues of a cohort, each with two flavors."""
    objects = [of_kueue("ResourceFlavor", name, {}) for name in FLAVORS]
    for queue in QUEUES:
        flavors = [
            {"name": name, "resources": [{"name": "cpu", "nominalQuota": draw(st.integers(0, 5))}]}
            for name in FLAVORS
        ]
        spec = draw(OF_QUEUES) | {
            "cohortName": "all",
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        }
        objects.append(of_kueue("ClusterQueue", queue, spec))
        objects.append(of_kueue("LocalQueue", queue, {"clusterQueue": queue}, "default"))
    return objects


def workload(at: int, queue: str, pods: int, fewer: int, priority: int) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    if 0 < fewer < pods:
        pod_set["minCount"] = pods - fewer
    spec = {"queueName": queue, "priority": priority, "podSets": [pod_set]}
    return of_kueue("Workload", f"w{at}", spec, "default", at)


def decided(kueue: Kueue, rounds: Rounds, looks_up: bool) -> tuple[list[Cycle], list[object]]:
    """Return what cycles decide, and how all workloads stand in the end."""
    cycles: list[Cycle] = []
    for submitted, (what, which, priority) in rounds:
        for values in submitted:
            at = len(kueue.workloads)
            kueue.apply(workload(at, *values), at)
        key = f"default/w{which % len(kueue.workloads)}"
        if what == "finish":
            kueue.finish(key)
        elif what == "prioritize":
            kueue.prioritize(key, priority)
        for _ in range(CYCLES):
            for queue in kueue.snapshot.queues.values() if not looks_up else ():
                queue.changed()
            cycles.append(kueue.cycle())
    stands: list[object] = [(key, each.status, each.last) for key, each in kueue.workloads.items()]
    return cycles, [*stands, *(kueue.waiting(queue) for queue in QUEUES)]


@given(clusters(), st.booleans(), ROUNDS)
def test_what_is_looked_up_decides_as_what_is_tried_anew(
    objects: list[Object], is_fair: bool, rounds: Rounds
) -> None:
    settings = Settings(fair_sharing=() if is_fair else None)
    looked_up, tried = (decided(Kueue(objects, settings), rounds, each) for each in (True, False))
    assert looked_up == tried
