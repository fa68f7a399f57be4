"""Checks vectors of Karpenter, of each mode."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tests.conformance.compare import differences
from tests.conformance.vectors import MalformedError
from tests.doors.autoscalers import Catalogue

from . import karpenter_disruption, karpenter_loop, karpenter_mode
from .karpenter_mode import karpenter_options

Json = dict[str, Any]

FIELDS = {"scenario", "result", "undetermined", "plays", "variants", "seeded"}
MODES = {
    "schedule": karpenter_mode.played,
    "disrupt": karpenter_disruption.played,
    "loop": karpenter_loop.played,
}


def is_karpenter(vector: Json) -> bool:
    """Whether a line is a vector of Karpenter."""
    return "plays" in vector and "variants" in vector


def check(vector: Json, shown: int) -> Iterator[str]:
    """What is wrong with a vector: of the canonical play, then of those with other ties."""
    if unknown := vector.keys() - FIELDS:
        raise MalformedError(f"malformed line: fields {', '.join(sorted(unknown))}")
    scenario = vector["scenario"]
    expected = {0: vector["result"]} | {int(seed): one for seed, one in vector.get("seeded", {}).items()}
    if bool(vector["undetermined"]) != ("seeded" in vector):
        raise MalformedError("malformed line: seeded goes with undetermined")
    catalogue = Catalogue(karpenter_options(scenario, 0))
    for seed, result in expected.items():
        produced = played(scenario, seed, catalogue)
        if found := list(islice(differences(result, produced), shown)):
            yield from (f"ties {seed}: {one}" if seed else one for one in found)
            return


def played(scenario: Json, seed: int, catalogue: Catalogue | None = None) -> Json:
    """The result of a scenario; plays may share what they know of the types."""
    mode = scenario.get("mode")
    if mode not in MODES:
        raise MalformedError(f"unknown mode {mode!r}")
    return MODES[mode](scenario, seed, catalogue)
