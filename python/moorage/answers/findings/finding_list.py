"""All findings about a cluster, as a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

from moorage.cluster.lacking_pods import with_objects
from moorage.document import Count, Document
from moorage.errors import number_of
from moorage.grouped import grouped
from moorage.kube import Node

from ..runs.simulation import Simulation
from ..text_tables import PrintedTable
from . import idle_queues, placements, risks, selections
from .finding import Ground, LintFinding
from .lint_rules import LEVELS, RULES
from .told_findings import told_findings

_RANKS = [*RULES]
_LISTED = (
    risks.blocking_budgets,
    risks.budgets_of_fewer_replicas,
    risks.held_claims,
    risks.in_one_domain,
    risks.missing_devices,
    risks.released_volumes,
    risks.single_replicas,
    risks.without_budget,
    risks.without_controller,
    risks.without_requests,
    selections.daemons_without_nodes,
)
"""About objects; answers do not tell them."""


def all_findings(done: Simulation) -> list[LintFinding]:
    """Return all findings, the worst first, and of those of one rule those of most pods."""
    loaded, client = done.setup.loaded, done.scheduler.client
    ground, facts = Ground(loaded.completed), loaded.facts
    if done.setup.changes:
        ground = Ground(replace(with_objects(loaded.completed, client), nodes=client.list(Node)[0]))
        facts = told_findings(ground)
    findings = [
        *facts,
        *chain.from_iterable(function(ground) for function in _LISTED),
        *placements.waiting_pods(done),
        *placements.not_scheduled(done),
        *placements.on_wrong_system(done, [*done.outcomes, *done.bound]),
        *placements.tainted_devices(done),
        *placements.broken_spreads(done),
        *placements.stopped_rollouts(done),
        *idle_queues.idle_queues(done),
        *idle_queues.jobs_without_workload(done),
        *idle_queues.uncounted_workloads(done),
    ]
    return sorted(dict.fromkeys(findings), key=lambda each: (_RANKS.index(each.rule), -each.pods, each.obj))


class ListedFinding(Document, frozen=True):
    """Something that is wrong with one object."""

    level: Literal["error", "warning", "info"]
    """error: it does not work now; warning: it will not at the next drain, rollout or failure; info: a hint,
    as it may be meant."""
    rule: str
    namespace: str
    object: str
    """As kubectl names it, such as ``deployment/web``."""
    text: str
    pods: Count
    """How many pods it is about; 0 where that is not counted."""
    command: str
    """What shows more."""


class FindingsDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage lint``."""

    api_version: Literal["lint.moorage.dev/v1"] = "lint.moorage.dev/v1"
    kind: Literal["Lint"] = "Lint"
    counts: dict[str, Count]
    """By level."""
    items: Sequence[ListedFinding]


def as_listed(finding: LintFinding, command: str) -> ListedFinding:
    """Return a finding as documents have it."""
    of = finding.obj.namespace, finding.name, str(finding.text), finding.pods
    level: Any = RULES[finding.rule].level
    return ListedFinding(level, finding.rule, *of, command)


def counted(findings: Collection[LintFinding]) -> dict[str, int]:
    """Return the number of findings by level."""
    numbers = Counter(RULES[each.rule].level for each in findings)
    return {level: numbers[level] for level in LEVELS}


def headline(findings: Collection[LintFinding], is_about_pods: bool) -> str:
    """Return how many findings there are."""
    if not findings:
        return "nothing is wrong, as far as the input tells" if is_about_pods else "the input has no pod"
    names = ("error", "errors"), ("warning", "warnings"), ("hint", "hints")
    parts = [
        number_of(number, *name)
        for number, name in zip(counted(findings).values(), names, strict=True)
        if number
    ]
    return ", ".join(parts)


def finding_table(findings: Sequence[LintFinding], folds: bool) -> PrintedTable:
    """Return a row for each finding, or for those of one rule with one text.

    Parameters
    ----------
    folds : bool
        Whether findings alike share a row.
    """
    keys = [(each.rule, str(each.text), "" if folds else f"{at}") for at, each in enumerate(findings)]
    rows = []
    for (rule, text, _), alike in grouped(zip(keys, findings, strict=True)).items():
        first, more = alike[0], f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        name = "/".join(filter(None, (first.obj.namespace, first.name)))
        rows.append((RULES[rule].level, f"{name}{more}", f"{text} ({rule})"))
    return PrintedTable(("LEVEL", "OBJECT", "WHAT"), rows)
