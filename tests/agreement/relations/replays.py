"""A replay of one moment = `simulate`."""

from __future__ import annotations

import csv
import json
from collections import Counter

from tests.agreement.asking import Asking
from tests.agreement.objects import pod_name
from tests.agreement.relation import THERE, relation


@relation(lambda cluster: cluster.nodes and not cluster.grows)
def replayed_moment(asking: Asking) -> None:
    """Each pod is on the same node."""
    spec = {"cluster": [asking.base], "events": [{"time": 0, "measure": "now"}]}
    scenario = {"apiVersion": "replay.moorage.dev/v1", "kind": "Scenario", "spec": spec}
    file = asking.write_text("scenario.yaml", json.dumps(scenario))
    replayed = asking.run("moorage", "replay", file, "--show", "pods", "-o", "csv")
    simulated = asking.ask("simulate", "--bound", form="csv")
    there = set(map(pod_name, asking.cluster.pods))
    ended = {
        pod_name(pod)
        for pod in asking.cluster.pods
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    }
    here = Counter(
        (_name(f"{row['namespace']}/{row['pod']}", there), row["node"])
        for row in csv.DictReader(simulated.out.splitlines())
        if row["status"] in ("bound", "placed", "not-started", *THERE)
    )
    then = Counter(
        (_name(row["pod"], there), row["node"])
        for row in csv.DictReader(replayed.out.splitlines())
        if not row["ended"] and row["pod"] not in ended
    )
    told = (simulated, sorted((here - then).elements())), (replayed, sorted((then - here).elements()))
    asking.expect(here == then, "places", *told)


def _name(pod: str, there: set[str]) -> str:
    """The name of a pod of the dump; of one that a controller makes, the part that is not drawn."""
    return pod if pod in there else pod.rpartition("-")[0]
