"""Output of ``moorage explain``; equal input gives equal bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moorage.errors import printable
from moorage.framework.plugin.status import Status
from moorage.preemption.eviction_units import priority_of
from moorage.preemption.pick import CRITERION_TEXTS, Candidate, highest_priority
from moorage.scheduler.cycle.examine_preemption import PreemptionExamination
from moorage.scheduler.explain.changes import LOWER, Change
from moorage.scheduler.explain.explain_document import EXAMPLES, document
from moorage.scheduler.explain.explanation import (
    AFTER_RUN,
    ALONE,
    IN_TURN,
    NOW,
    Explanation,
    NodeGroup,
    ScoredNode,
)
from moorage.scheduler.explain.shortfalls import Shortfall, shortfall_text

from .output import ignore_broken_pipe, print_table, write_value

SITUATION_TEXTS = {
    NOW: "",
    IN_TURN: "in its turn; other pending pods: {placed} placed before it, {pending} not placed",
    ALONE: "alone; other pending pods: {pending} ignored",
    AFTER_RUN: "after simulate; other pending pods: {placed} placed, {pending} not placed",
}
SHORTFALLS = 3
"""Maximum number of shortfalls shown per group of nodes."""


def write(form: str, explanation: Explanation, limit: int | None, nodes: Sequence[str]) -> None:
    """Print an explanation.

    Parameters
    ----------
    form : {"table", "json", "yaml"}
        Format of the output.
    explanation : Explanation
        The explanation.
    limit : int or None
        Number of feasible nodes to show; None for all.
    nodes : sequence of str
        Names of nodes to show in detail.
    """
    with ignore_broken_pipe():
        if form != "table":
            write_value(form, document(explanation, limit, nodes))
            return
        for line in _head(explanation):
            print(printable(line))
        print()
        if explanation.feasible:
            print_table(*_ranking(explanation, explanation.ranking(limit)))
        if explanation.groups:
            rows = [_group(group, limit) for group in explanation.groups]
            names = "NAMES" if limit is None else "EXAMPLES"
            print_table(("NODES", names, "REJECTED BY", "SHORTFALL"), rows)
        if explanation.preemption is not None:
            for line in _of_preemption(explanation.preemption):
                print(printable(line))
            cells = [_candidate(node) for node in explanation.preemption.listed(limit)]
            if cells:
                print_table(("CANDIDATE", "VICTIMS", "PDB VIOLATIONS", "HIGHEST PRIORITY"), cells)
            else:
                print()
        if explanation.changes:
            changes = [_change(change) for change in explanation.changes]
            print_table(("CHANGE", "REDUCTION", "FEASIBLE NODES"), changes)
        for number, conflict in enumerate(explanation.conflicts, 1):
            cells = [(constraint.kind, constraint.name) for constraint in conflict]
            print_table((f"CONFLICT {number}", ""), cells)
        for name in nodes:
            print_table(*_details(explanation, name))


def _head(explanation: Explanation) -> Iterable[str]:
    fits, total = len(explanation.feasible), len(explanation.order)
    yield f"{explanation.pod.key}: fits {fits} of {total} nodes"
    if explanation.bound_to:
        yield f"explained as if it were not on {explanation.bound_to}"
    if explanation.skipped:
        yield f"not scheduled: {explanation.skipped}"
    yield from _of_situation(explanation)
    if explanation.message:
        yield explanation.message
    if explanation.message and not explanation.examination.error and not explanation.changes:
        yield "no single change places it"
    if explanation.blocked:
        yield f"not even without its constraints: {explanation.blocked}"


def _of_situation(explanation: Explanation) -> Iterable[str]:
    """Lines about other pending pods, and about the result of a run for the pod."""
    situation = explanation.situation
    text = SITUATION_TEXTS[situation.kind].format(placed=situation.placed, pending=situation.pending)
    if text and situation.placed + situation.pending:
        yield f"situation: {text}"
    if situation.node and situation.kind == IN_TURN:
        yield f"simulate places it on {situation.node}"
    elif situation.message and explanation.feasible:
        yield f"simulate leaves it without a node: {situation.message}"


def _of_preemption(examination: PreemptionExamination) -> Iterable[str]:
    """Lines about preemption: the chosen node and criterion, or why there is no preemption."""
    preemption, choice = examination.found, examination.choice
    if choice is None:
        yield f"preemption: {preemption.message or 'no node where it helps'}"
    else:
        where = f"{len(preemption.candidates)} of {len(preemption.potential)} nodes that may help"
        yield f"preemption: would evict pods on {choice.candidate.name}, chosen among {where}"
        yield f"  decided by: {CRITERION_TEXTS[choice.criterion]}"
    for reason, nodes in examination.rejections().items():
        yield f"  on {nodes}: {reason}"


def _candidate(candidate: Candidate) -> tuple[str, ...]:
    victims = candidate.victims
    names = [f"{pod.key} ({priority_of(pod)})" for pod in victims.pods]
    return candidate.name, ", ".join(names), str(victims.num_pdb_violations), str(highest_priority(victims))


def _ranking(explanation: Explanation, ranked: list[ScoredNode]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of normalized scores by plugin, with the raw score if it differs.

    Plugins with only zeros are omitted.
    """
    columns = explanation.examination.normalized
    plugins = [plugin for plugin, column in columns.items() if column.any()]
    headings = [f"{plugin} x{explanation.weights[plugin]}" for plugin in plugins]
    rows = [
        [str(node.rank), node.node, str(node.total), *(_score(node, plugin) for plugin in plugins)]
        for node in ranked
    ]
    return ["RANK", "NODE", "TOTAL", *headings], rows


def _score(node: ScoredNode, plugin: str) -> str:
    raw, normalized = node.raw[plugin], node.normalized[plugin]
    return str(normalized) if raw == normalized else f"{normalized} (raw {raw})"


def _group(group: NodeGroup, limit: int | None) -> tuple[str, ...]:
    names = group.nodes if limit is None else group.nodes[:EXAMPLES]
    texts = [_shortfall(shortfall, group) for shortfall in group.shortfalls[:SHORTFALLS]]
    if len(group.shortfalls) > SHORTFALLS:
        texts.append(f"{len(group.shortfalls) - SHORTFALLS} more")
    verdicts = "; ".join(_verdict(status) for status in group.verdicts)
    return str(len(group.nodes)), ", ".join(names), verdicts, "; ".join(texts)


def _shortfall(shortfall: Shortfall, group: NodeGroup) -> str:
    text = shortfall_text(shortfall)
    return text if shortfall.nodes == len(group.nodes) else f"{text} (on {shortfall.nodes})"


def _verdict(status: Status) -> str:
    return f"{status.plugin}: {', '.join(status.reasons)}"


def _change(change: Change) -> tuple[str, str, str]:
    less = f"{100 * change.amount:.1f}%" if change.kind == LOWER else ""
    others = f", or one of {change.eligible_nodes - 1} others" if change.eligible_nodes > 1 else ""
    return change.text + others, less, str(change.feasible_nodes)


def _details(explanation: Explanation, name: str) -> tuple[tuple[str, str], list[tuple[str, str]]]:
    node = explanation.node(name)
    cells = [
        (plugin, ", ".join(status.reasons) if status else "passes")
        for plugin, status in node.verdicts.items()
    ]
    cells += [("shortfall", shortfall_text(shortfall)) for shortfall in node.shortfalls]
    if node.score is not None:
        cells.append(("rank", f"{node.score.rank}, total {node.score.total}"))
    return (name, "VERDICT"), cells
