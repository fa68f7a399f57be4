"""Behaviours that are new in 1.38: for each, a vector fails as soon as it is as in 1.37."""

from __future__ import annotations

import json
from functools import cache

import pytest
from tests.conformance.runner import failures
from tests.conformance.test_vectors import DATA
from tests.conformance.vectors import lines

from moorage.kube.releases import RELEASES

TOLD_BY = {
    "scores_effective_requests": "new_fit_score-3810005",
    "quantities_saturate": "quantities-1006",
    "sums_saturate": "new_sums-3810007",
    "shares_are_exact": "new_sums-3810009",
    "hints_know_namespaces": "new_queue_namespaces-3810005",
    "shrunk_nodes_wake_nominated": "new_queue_nominated-3810006",
    "removed_plugins_are_refused_everywhere": "removed-in-generate",
    "unusable_pools_reject_nodes": "new_all_incomplete-3810003",
    "capacity_names_have_domains": "new_capacity_names-3810002",
    "storage_capacity_is_exact": "new_capacity_exact-3810004",
    "undeclared_names_are_short": "dra_cel-1001",
    "empty_selectors_spread": "new_spread_empty-3810007",
    "budgets_select_as_written": "new_budget_empty-3810003",
    "victims_tie_by_uid": "new_victim_ties-3810000",
    "plugins": "permit-groups",
    "empty_domains_are_none": "new_tas_domains-3810001",
    "group_without_victims_ends": "new_tas_domains-3810005",
    "groups_tell_ancestor": "new_composite-3810017",
    "groups_tell_threshold": "new_tas_domains-3810005",
    "hierarchies_are_validated": "new_composite-3810016",
    "lost_nodes_end_preemption": "gang_wap-3013",
    "members_are_pods": "gang_wap-3002",
    "nodes_are_ranked_by_victims": "gang_preempt-3020",
    "nominated_placement_is_first": "new_tas_nominated-3810010",
    "placements_are_sampled": "new_tas_percentage-3810000",
    "trees_have_conditions": "new_composite-3810014",
}
"""The name of a vector by behaviour. Others have tests of their own (preemption/test_dry_run.py,
scheduler/groups/test_groups_1_38.py, devices/allocation/test_rules_by_release.py,
devices/test_features.py)."""


@cache
def recorded() -> dict[str, bytes]:
    """The lines of vectors by name."""
    of_name = {}
    for file in ("v1.38", "gang_v1.38", "configurations_gates"):
        for line in lines(DATA / f"{file}.jsonl.gz"):
            vector = json.loads(line)
            of_name[vector.get("scenario", vector)["name"]] = line
    return of_name


@pytest.mark.parametrize("behaviour", TOLD_BY)
def test_a_vector_fails_where_a_behaviour_is_that_of_1_37(
    behaviour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, before, after = recorded()[TOLD_BY[behaviour]], RELEASES["1.37"], RELEASES["1.38"]
    assert failures(line) == []
    monkeypatch.setitem(RELEASES, "1.38", after._replace(**{behaviour: getattr(before, behaviour)}))
    assert failures(line) != []
