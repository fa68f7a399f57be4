"""Output of ``moorage explain``; equal input gives equal bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, starmap
from typing import cast

from moorage.answers.explain.examine_preemption import PreemptionExamination
from moorage.answers.explain.explain_document import (
    ExplainedPods,
    Explanation,
    ExplanationList,
    PodsNotMade,
    document,
)
from moorage.answers.explain.explanation import (
    AFTER_RUN,
    IN_TURN,
    AlikeNodes,
    ExplainedGroup,
    NodeComparison,
    NodeExplanation,
    ScoredNode,
)
from moorage.answers.explain.pod_claims import STEP_TEXTS
from moorage.answers.explain.request_survey import RequestSurvey
from moorage.answers.explain.rules.spread import fewest_note
from moorage.answers.explain.targets import ExplainedTarget
from moorage.answers.runs.simulation import skip_reason
from moorage.answers.text_tables import PrintedTable
from moorage.cluster.helpful_changes import HelpfulChange
from moorage.engine.framework.evidence import Evidence
from moorage.engine.preemption.dry_run import CRITERION_TEXTS, Candidate, highest_priority
from moorage.engine.preemption.eviction_units import NO_VICTIMS, priority_of
from moorage.errors import examples, number_of
from moorage.grouped import grouped
from moorage.kube.model.about_input import AboutInput
from moorage.lazy import NamedTuple
from moorage.notes import DecidingLine

from ..messages import with_own_notes
from .printing import ignore_broken_pipe, print_lines, print_rows, rows_shown, write_page, write_value

STEP_COLUMNS = "DEVICES THAT", "LEFT", "PER NODE", "ENOUGH ON", "HELD BY"
LONG = 32
"""From how many characters on a text that stands in a row above is not repeated."""
FACTS, NAMES, ROWS = 3, 2, 3
"""Maximum number of facts shown per group of nodes, of the pods that one names, and of the groups."""


def write_explanations(
    form: str,
    explained: Sequence[ExplainedTarget],
    limit: int | None,
    nodes: Sequence[str],
    not_made: Sequence[PodsNotMade] | None,
    about: AboutInput,
) -> None:
    """Print explanations.

    Parameters
    ----------
    form : {"table", "json", "yaml", "html"}
        Format of the output.
    limit : int or None
        Number of feasible nodes to show; None for all.
    nodes : sequence of str
        Names of nodes to show in detail.
    not_made : sequence of PodsNotMade or None
        What else an ``ExplanationList`` has; None where the document is the explanation of one pod. Tables of
        a list say which pods an explanation is of.
    """
    blocks = [[*_blocks(entry, limit, nodes)] for entry in explained]
    with ignore_broken_pipe():
        if form == "table":
            heads = [cast("list[str]", block[0]) for block in blocks]
            if not_made is not None:
                for entry, head in zip(explained, heads, strict=True):
                    head[:1] = _heading(entry), DecidingLine(head[0])
            empty: list[list[Block]] = [[["every pod has a node or gets one"]]]
            first, *rest = chain.from_iterable(blocks or empty)
            texts = [*with_own_notes(cast("list[str]", first))]
            parts = [texts, *(each if isinstance(each, list) else each.printed() for each in rest)]
            shown = iter(rows_shown([part for part in parts if isinstance(part, PrintedTable)], form))
            for part in parts:
                if isinstance(part, PrintedTable):
                    print_rows(part, next(shown), form)
                else:
                    print_lines(part)
            return
        items = [_item(entry, limit, nodes) for entry in explained]
        listed = ExplanationList(items=items, not_made=[*(not_made or ())])
        if form == "html":
            from moorage.answers.answer_pages import explanation_page

            write_page(explanation_page(listed.items, blocks), [about.release], about.warnings)
        else:
            answer = listed.items[0].explanation if not_made is None else listed
            write_value(form, answer.to_dict() | about.to_dict())


class CaptionedTable(NamedTuple):
    """A table of an explanation, with a caption for its page."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str | int]]

    def printed(self) -> PrintedTable:
        """Return the table without its caption."""
        return PrintedTable(self.headings, [[*map(str, row)] for row in self.rows])


Block = list[str] | CaptionedTable
"""Lines, of which an empty one parts what is before it from a table; or a table."""


def _item(entry: ExplainedTarget, limit: int | None, nodes: Sequence[str]) -> ExplainedPods:
    workload, explanation = entry.target.workload, document(entry.explanation, limit, nodes)
    return ExplainedPods(workload.namespace, workload.text, entry.target.pods, entry.own, explanation)


def _heading(entry: ExplainedTarget) -> str:
    target, explanation = entry.target, entry.explanation
    workload, count = target.workload, len(target.pods)
    pods = number_of(count, "pod", "pods") if target.of <= count else f"{count} of {target.of} pods"
    outcome = "" if explanation.has_place or entry.runs else " without a node"
    if count == 1:
        return f"{workload.text} in namespace {workload.namespace}: {pods}{outcome}"
    if workload.kind != "Pod":
        return f"{workload.text} in namespace {workload.namespace}: {pods}{outcome}; one is shown"
    names = [key.rpartition("/")[2] for key in target.pods]
    names[FACTS:] = [f"and {count - FACTS} others"] if count > FACTS + 1 else names[FACTS:]
    return f"{pods} in namespace {workload.namespace}{outcome} ({', '.join(names)}); one is shown"


def _blocks(explained: ExplainedTarget, limit: int | None, nodes: Sequence[str]) -> Iterator[Block]:
    explanation = explained.explanation
    yield [*_head(explained), ""]
    for name in nodes:
        node = explanation.node(name)
        yield CaptionedTable(f"Verdicts of node {name}", (name, "VERDICT"), [*_details(node)])
        if node.comparison is not None:
            yield [node.comparison.text]
            yield CaptionedTable(f"Scores of node {name}", *_compared(node.comparison))
    if explanation.group is not None:
        yield from _of_group(explanation.group, limit)
        if explanation.feasible or explanation.groups:
            yield [f"one pod of the group, {explanation.pod.key}:"]
    yield from _of_preemption(explanation, limit)
    yield from _of_changes(explanation)
    if explanation.feasible:
        yield CaptionedTable("The best nodes", *_ranking(explanation, explanation.ranking(limit)))
    if explanation.groups:
        yield _groups("Nodes that reject it", "REJECTED BY", explanation.groups, limit)
    if not explanation.feasible:
        yield from _of_claims(explanation)
    if explained.own:
        own = [(pod, ", ".join(named)) for pod, named in explained.own.items()]
        yield CaptionedTable("Pods like it", ("POD", "ITS OWN"), own)


def _of_group(group: ExplainedGroup, limit: int | None) -> Iterator[Block]:
    """Yield how many pods of a group fit at once, what stops the next one, and changes."""
    yield [*_group_lines(group), ""]
    if group.nodes:
        caption = f"Nodes that reject {group.next} beside the others"
        yield _groups(caption, f"REJECTED BY, FOR {group.next}", group.nodes, limit)
    if group.changes:
        rows = [(change.text, change.placed) for change in group.changes]
        caption = "What would place the group, each tried on the engine"
        yield CaptionedTable(caption, ("CHANGE FOR THE GROUP", "PODS WITH A NODE"), rows)


def _group_lines(group: ExplainedGroup) -> Iterator[str]:
    yield group.headline()
    if group.tree:
        yield f"  it belongs to composite group {group.tree}, and is explained alone"
    if stop := group.stop():
        yield f"  {stop}"
    yield from (f"  {text}" for text in _fewest(group.nodes))
    if group.evictions is not None:
        yield f"  {group.evictions.text}"
    elif not group.changes and group.minimum and not group.reaches_minimum:
        yield "  no single change places the group"


def _of_claims(explanation: Explanation) -> Iterator[Block]:
    """Yield, for each request for devices, how many each rule leaves."""
    for claim in explanation.claims:
        for survey in claim.requests:
            yield [claim.request_text(survey)]
            caption = f"Devices of claim {claim.claim}, request {survey.request.full_name}"
            yield CaptionedTable(caption, STEP_COLUMNS, _steps(survey))


def _steps(survey: RequestSurvey) -> list[tuple[str | int, ...]]:
    """The rules of a request; those that leave all devices are omitted, unless a user wrote them."""
    rows: list[tuple[str | int, ...]] = []
    before = -1
    for step in survey.steps:
        if step.text or step.error or step.devices != before:
            text = ": ".join(part for part in (STEP_TEXTS[step.kind], step.text) if part)
            holders = [
                (", ".join(holder.users) or holder.claim)
                + (f" ({holder.devices})" if holder.devices > 1 else "")
                for holder in step.holders
            ]
            if len(holders) > FACTS + 1:
                holders[FACTS:] = [f"and {len(holders) - FACTS} others"]
            counts = step.devices, step.most, step.nodes
            rows.append((step.error or text, *counts, ", ".join(holders)))
        before = step.devices
    return rows


def _of_changes(explanation: Explanation) -> Iterator[Block]:
    """Yield the changes that place the pod, or what keeps it from being placed."""
    tried = "What would help, each tried on the engine"
    if explanation.changes:
        waiting = explanation.waiting
        placed, of = f"PLACED OF THE FIRST {waiting}", ""
        if not explanation.wait_more:
            placed, of = "PODS PLACED", f" of {waiting}"
        headings = ["CHANGE", "REDUCTION", "NODES ENABLED", *[placed] * (waiting > 1)]
        rows: list[list[str | int]] = [
            [*_change(change), *[f"{change.placed}{of}" if change.placed else ""] * (waiting > 1)]
            for change in explanation.changes
        ]
        yield CaptionedTable(tried, headings, rows)
    if explanation.pairs:
        pairs = [
            (_change(pair.first)[0], _change(pair.second)[0], pair.feasible_nodes)
            for pair in explanation.pairs
        ]
        yield CaptionedTable(tried, ("CHANGE", "AND CHANGE", "NODES ENABLED"), pairs)
    if explanation.conflicts:
        conflicts = [
            [" and ".join(f"{constraint.kind} {constraint.name}" for constraint in conflict)]
            for conflict in explanation.conflicts
        ]
        yield CaptionedTable("What no node satisfies", ["NO NODE SATISFIES"], conflicts)


def _head(explained: ExplainedTarget) -> Iterator[str]:
    explanation = explained.explanation
    fits, total = len(explanation.feasible), len(explanation.order)
    yield f"{explanation.pod.key}: fits {fits} of {total} nodes{_situation(explanation)}"
    if explained.outcomes:
        # A new node changes neither a volume's place nor a selector that just misses its pod.
        by_kind = {fact.kind: fact for group in explanation.groups for fact in group.evidence}
        missing, claim = by_kind.get("missing-pod"), by_kind.get("claim")
        yield from (DecidingLine(fact.text) for fact in (missing, claim) if fact is not None)
    yield from map(DecidingLine, explained.outcomes)
    if explanation.bound_to:
        yield f"bound to {explanation.bound_to}; explained without it"
    if explanation.skipped:
        yield f"not scheduled: {skip_reason(explanation.pod, explanation.skipped)}"
    yield from _of_run(explanation)
    if explanation.message:
        yield explanation.message
    notes, examination = explanation.notes, explanation.preemption
    yield from (note.text for note in notes)
    yield from (answer.text for answer in explanation.extenders)
    frees_no_device = any(note.kind == "held-devices" for note in notes)
    if examination is not None and examination.choice is None and not frees_no_device:
        yield _no_preemption(examination)
    if explanation.raised_priority is not None:
        yield explanation.raised_priority.text
    if not explained.outcomes and (text := explanation.nothing_places):
        yield text
    if explanation.blocked:
        why = "" if explanation.blocked == explanation.message else f": {explanation.blocked}"
        yield f"it fits no node even without its constraints{why}"
    yield from _fewest(explanation.groups)


def _situation(explanation: Explanation) -> str:
    """Return which other pending pods have nodes of a run, in words that end a line; "" for none."""
    situation = explanation.situation
    if not situation.placed:
        return ""
    number = number_of(situation.placed, "other pending pod has a node", "other pending pods have nodes")
    return f", once {number}" + (", as after simulate" if situation.kind == AFTER_RUN else "")


def _of_run(explanation: Explanation) -> Iterator[str]:
    """Lines about the result of a run for the pod."""
    situation = explanation.situation
    if situation.node and situation.kind == IN_TURN:
        yield f"simulate places it on {situation.node}"
        if explanation.sampling:
            yield explanation.sampling
    elif situation.message and explanation.feasible:
        yield f"simulate leaves it without a node: {situation.message}"


def _of_preemption(explanation: Explanation, limit: int | None) -> Iterator[Block]:
    """Yield whom the pod would evict, and the candidates."""
    examination, budgets = explanation.preemption, explanation.violated_budgets
    if examination is None or examination.choice is None:
        return
    choice, preemption = examination.choice, examination.dry_run
    where = f"{len(preemption.candidates)} of {len(preemption.potential)} nodes that may help"
    yield [
        f"preemption: would evict pods on {choice.candidate.name}, chosen among {where}",
        f"  decided by: {CRITERION_TEXTS[choice.criterion]}",
        *([f"  in vain: {examination.refusal}"] if examination.refusal else []),
        *(f"  on {nodes}: {reason}" for reason, nodes in examination.rejections().items()),
    ]
    headings = ("CANDIDATE", "VICTIMS", "PDB VIOLATIONS", "HIGHEST PRIORITY")
    cells = [_candidate(node, budgets) for node in examination.listed(limit)]
    yield CaptionedTable("Candidates", headings, cells)


def _no_preemption(examination: PreemptionExamination) -> str:
    """Return why preemption evicts nobody."""
    why = [
        f"{reason} on {nodes}"
        for reason, nodes in examination.rejections().items()
        if reason not in NO_VICTIMS.reasons
    ]
    rejections = "; ".join(why).rstrip(".")
    return f"preemption: {examination.dry_run.message or 'no node where it helps'}" + (
        f" ({rejections})" if rejections else ""
    )


def _candidate(candidate: Candidate, budgets: Mapping[str, Sequence[str]]) -> tuple[str | int, ...]:
    victims = candidate.victims
    names = [f"{pod.key} ({priority_of(pod)})" for pod in victims.pods]
    violated = str(victims.num_pdb_violations)
    if candidate.name in budgets:
        violated += f" ({', '.join(budgets[candidate.name])})"
    return candidate.name, ", ".join(names), violated, highest_priority(victims)


def _ranking(explanation: Explanation, ranked: list[ScoredNode]) -> tuple[list[str], list[list[str | int]]]:
    """Headings and rows of normalized scores by plugin, with the raw score if it differs.

    Plugins with only zeros are omitted.
    """
    columns = explanation.examination.normalized
    plugins = [plugin for plugin, column in columns.items() if column.any()]
    headings = [f"{plugin} x{explanation.weights[plugin]}" for plugin in plugins]
    rows = [
        [node.rank, node.node, node.total, *(_score(node, plugin) for plugin in plugins)] for node in ranked
    ]
    return ["RANK", "NODE", "TOTAL", *headings], rows


def _score(node: ScoredNode, plugin: str) -> str | int:
    raw, normalized = node.raw[plugin], node.normalized[plugin]
    return normalized if raw == normalized else f"{normalized} (raw {raw})"


def _groups(caption: str, heading: str, groups: Sequence[AlikeNodes], limit: int | None) -> CaptionedTable:
    """Return what rejects nodes, a row for those of which it says the same. What a row above says is not said
    again."""
    nodes = grouped((tuple(_reasons(group)), name) for group in groups for name in group.nodes)
    names = "EXAMPLE" if limit else "NAMES"
    rows, said = list[tuple[int, str, str]](), dict[str, dict[str, str]]()
    for reasons, alike in nodes.items():
        texts = []
        for plugin, why in reasons:
            by_why = said.setdefault(plugin, {})
            first = by_why.setdefault(why, alike[0])
            again = "as above" if len(by_why) == 1 else f"as on {first}"
            texts.append(f"{plugin}: {why if first == alike[0] or len(why) < LONG else again}")
        rows.append((len(alike), ", ".join(alike[: 1 if limit else None]), "; ".join(texts)))
    if limit and (others := rows[ROWS:]):
        ways = number_of(len(others), "other way", "other ways")
        rows[ROWS:] = [(sum(count for count, *_ in others), "", f"in {ways}, which --nodes all shows")]
    return CaptionedTable(caption, ("NODES", names, heading), rows)


def _fewest(groups: Sequence[AlikeNodes]) -> list[str]:
    """Return what keeps a pod off the domains with the fewest pods."""
    return sorted({*filter(None, (fewest_note(fact.facts()) for group in groups for fact in group.evidence))})


def _reasons(group: AlikeNodes) -> Iterator[tuple[str, str]]:
    """Yield each filter and what it compared, or its reasons where that is not known. Facts of two filters
    are told of the first."""
    of_others = list[list[Evidence]]()
    for status in group.verdicts:
        its = {*status.plugin.split()}
        facts = [fact for fact in group.evidence if not its.isdisjoint(fact.plugin.split())]
        if facts and facts in of_others:
            continue
        of_others.append(facts)
        alike = grouped((_tail(fact) or id(fact), fact) for fact in facts)
        parts = [*starmap(partial(_facts, len(group.nodes)), alike.values())] or [*status.reasons]
        if len(parts) > FACTS + 1:
            parts[FACTS:] = [f"and {len(parts) - FACTS} others"]
        yield status.plugin, "; ".join(parts)


def _tail(fact: Evidence) -> str:
    """Return what facts about several objects have in common; "" for those that stand alone."""
    if fact.kind == "domain" and "withPod" in fact.facts():
        return fact.detail.partition(" ")[2]
    return fact.detail if fact.kind == "pod" else ""


def _facts(nodes: int, first: Evidence, *others: Evidence) -> str:
    """Return the text of a fact about some of so many nodes, or of objects that keep a pod off in one way."""
    facts = first, *others
    number, text = sum(fact.nodes for fact in facts), first.text
    if others and first.kind == "domain":
        counted = [f"{each['value']} ({each['withPod']})" for each in (fact.facts() for fact in facts)]
        text = f"domains {first.facts()['topologyKey']}={examples(counted, NAMES)} {_tail(first)}"
    elif others:
        text = f"pods {examples([fact.name for fact in facts], NAMES)} ({first.detail})"
    return text + (f" (on {number})" if number < nodes else "")


def _change(change: HelpfulChange) -> tuple[str, str, str | int]:
    less = f"{100 * change.amount:.1f}%" if change.amount else ""
    eligible = change.values.get("eligibleNodes", 1)
    others = (
        "" if eligible == 1 else ", or another" if eligible == 2 else f", or one of {eligible - 1} others"
    )
    return change.text + others, less, change.feasible_nodes or ""


def _compared(comparison: NodeComparison) -> tuple[tuple[str, ...], list[tuple[str | int, ...]]]:
    """Headings and rows of the scores of two nodes by plugin."""
    rows: list[tuple[str | int, ...]] = [
        (
            f"{difference.plugin} x{difference.weight}",
            difference.chosen,
            difference.other,
            f"{difference.weighted:+d}",
        )
        for difference in comparison.differences
    ]
    return ("PLUGIN", comparison.chosen, comparison.other, "OF THE TOTAL"), rows


def _details(node: NodeExplanation) -> Iterator[tuple[str, str]]:
    """Rows of the filters that reject a node, of those that it passes, and of its rank."""
    passed = [plugin for plugin, status in node.verdicts.items() if status is None]
    for plugin, status in node.verdicts.items():
        if status is not None:
            facts = [fact.text for fact in node.evidence if plugin in fact.plugin.split()]
            yield plugin, "; ".join(facts or status.reasons)
    if passed:
        yield "passes", ", ".join(passed)
    if node.score is not None:
        yield "rank", f"{node.score.rank}, total {node.score.total}"
