"""Asks relations of clusters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import tests.agreement.relations as relations
from tests.agreement.asking import Asking, Difference, OutOfTimeError
from tests.agreement.clusters import Cluster
from tests.agreement.relation import RELATIONS

assert relations


@dataclass
class Verdict:
    """What was compared, by relation, and what differed."""

    comparisons: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    clusters: dict[str, Cluster] = field(default_factory=dict)

    @property
    def wrong(self) -> list[Difference]:
        """The differences that the docs do not state."""
        return [one for one in self.differences if not one.known]


def judge(
    clusters: Iterable[Cluster],
    folder: Path,
    names: Iterable[str] = tuple(RELATIONS),
    has_time: Callable[[], bool] = lambda: True,
) -> Verdict:
    """Ask the relations of these names of clusters, while there is time.

    Parameters
    ----------
    folder : Path
        Of the files that the questions are about.
    """
    verdict = Verdict()
    asked = [RELATIONS[name] for name in names]
    for cluster in clusters:
        asking = Asking(cluster, folder / cluster.name, has_time)
        verdict.clusters[cluster.name] = cluster
        for relation in asked:
            if not relation.suits(cluster):
                continue
            asking.relation, began, before = relation.name, time.process_time(), asking.comparisons
            with suppress(OutOfTimeError):
                relation.ask(asking)
            verdict.comparisons[relation.name] += asking.comparisons - before
            verdict.seconds[relation.name] += time.process_time() - began
        verdict.differences += asking.differences
        if not has_time():
            break
    return verdict
