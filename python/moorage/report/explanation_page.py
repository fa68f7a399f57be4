"""The page of ``moorage explain``: a view of its documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .page import Block, Cell, Fact, Facts, Grid, Heading, Lines, Page, amount, shortened

Json = Mapping[str, Any]
SITUATIONS = {
    "in-turn": "As at its turn in a run: {placed:,} other pods placed before it, {pending:,} not.",
    "alone": "Alone: {pending:,} other pending pods ignored.",
    "after-run": "After a run: {placed:,} other pods placed, {pending:,} not.",
}
FACTS = 4


def explanation_page(items: Sequence[Json]) -> Page:
    """Return the page of explanations.

    Parameters
    ----------
    items : sequence of mapping
        Items of an ``ExplanationList`` of ``explain.moorage.dev/v1``: namespace, workload, pods, explanation.
    """
    failed = [one for one in items if not one["explanation"]["fits"]]
    page = Page("Explanation", _headline(items, failed))
    if len(items) != 1:
        rows: list[list[Cell]] = [_row(one) for one in items]
        headings = ("workload", "pod", "pods", "fits on nodes", "what would help")
        page.add(
            "Summary", shortened("Explained pods", headings, rows) if rows else Lines(["Nothing to explain."])
        )
    for one in items:
        page.add(one["explanation"]["pod"], *_blocks(one))
    return page


def _headline(items: Sequence[Json], failed: Sequence[Json]) -> str:
    if not items:
        return "Every pod has a node or gets one."
    if len(items) == 1:
        nodes = items[0]["explanation"]["nodes"]
        pod = items[0]["explanation"]["pod"]
        return f"{pod} fits {amount(nodes['feasible'])} of {amount(nodes['total'])} nodes."
    pods = sum(len(one["pods"]) for one in failed)
    helped = sum(bool(one["explanation"]["changes"]) for one in failed)
    return (
        f"{amount(pods)} pods of {amount(len(failed))} kinds fit no node; "
        f"a single change would help {amount(helped)} of the kinds."
    )


def _row(item: Json) -> list[Cell]:
    seen = item["explanation"]
    first = seen["changes"][0]["text"] if seen["changes"] else ""
    workload = f"{item['namespace']}/{item['workload']}"
    return [workload, seen["pod"], len(item["pods"]), seen["nodes"]["feasible"], first]


def _blocks(item: Json) -> list[Block | None]:
    seen = item["explanation"]
    nodes = seen["nodes"]
    facts = [
        Fact("nodes that fit", amount(nodes["feasible"]), "" if seen["fits"] else "warn"),
        Fact("nodes", amount(nodes["total"])),
        Fact("pods like it", amount(len(item["pods"]))),
    ]
    return [
        Facts(facts),
        Lines(_lines(seen)),
        *_group_blocks(seen["group"]),
        *_changes(seen),
        _groups(seen["groups"]),
        _ranking(seen),
        *_preemption(seen),
        *_claims(seen),
        *(_details(one) for one in seen["details"]),
    ]


def _lines(seen: Json) -> list[str]:
    situation = seen["situation"]
    found = [f"Bound to {seen['boundTo']}; explained without it."] if seen["boundTo"] else []
    found += [f"Not scheduled: {seen['skipped']}"] if seen["skipped"] else []
    if situation["kind"] in SITUATIONS:
        found.append(SITUATIONS[situation["kind"]].format(**situation))
    found += [f"A run places it on {situation['node']}."] if situation["node"] else []
    found += [seen[name] for name in ("sampling", "message") if seen[name]]
    found += [note["text"] for note in (*seen["notes"], *seen["extenders"])]
    if seen["blocked"]:
        found.append(f"It fits no node even without its constraints: {seen['blocked']}")
    return found


def _group_blocks(group: Json | None) -> list[Block | None]:
    """Return what is found of the group of a pod."""
    if group is None:
        return []
    others = group["pods"] - group["scheduled"]
    where = f" in {group['domain']}" if group["domain"] else ""
    lines = [
        f"Of group {group['group']}, {amount(group['fit'])} of {amount(others)} pods fit at once{where}; "
        f"{amount(group['scheduled'])} more have a node, and {amount(group['minCount'])} are needed."
        if group["minCount"]
        else f"There is no PodGroup {group['group']}.",
    ]
    lines += (
        [f"It belongs to composite group {group['tree']}, and is explained alone."] if group["tree"] else []
    )
    if group["message"]:
        lines.append(f"Next {group['next']}: {group['message']}" if group["next"] else group["message"])
    rows: list[list[Cell]] = [[one["text"], one["placed"]] for one in group["changes"]]
    headings = ("change", "pods of the group with a node then")
    caption = "What would place the group, each tried on the engine"
    rejected = _groups(group["nodes"], f"Nodes that reject {group['next']} beside the others")
    return [Lines(lines), shortened(caption, headings, rows) if rows else None, rejected]


def _changes(seen: Json) -> list[Block | None]:
    rows: list[list[Cell]] = [
        [
            one["text"],
            f"{100 * one['reduction']:.1f} %" if one.get("reduction") else "",
            one["feasibleNodes"],
        ]
        for one in seen["changes"]
    ]
    pairs: list[list[Cell]] = [
        [" and ".join(change["text"] for change in pair["changes"]), "", pair["feasibleNodes"]]
        for pair in seen["changePairs"]
    ]
    headings = ("change", "reduction", "nodes that fit then")
    found: list[Block | None] = []
    if rows or pairs:
        found.append(shortened("What would help, each tried on the engine", headings, [*rows, *pairs]))
    elif not seen["fits"]:
        found.append(Lines(["No change of one or two things places it."]))
    conflicts: list[list[Cell]] = [
        [", ".join(f"{one['kind']} {one['name']}".strip() for one in conflict)]
        for conflict in seen["conflicts"]
    ]
    found.append(shortened("No node satisfies all of", ("constraints",), conflicts) if conflicts else None)
    return found


def _groups(groups: Sequence[Json], caption: str = "Nodes that reject it") -> Grid | None:
    rows: list[list[Cell]] = []
    for one in groups:
        verdicts = "; ".join(
            f"{status['plugin']}: {', '.join(status['reasons'])}" for status in one["verdicts"]
        )
        facts = [fact["text"] for fact in (*one["needs"], *one["blockers"])]
        more = len(facts) - FACTS + one["otherNeeds"] + one["otherBlockers"]
        text = "; ".join(facts[:FACTS]) + (f"; and {more:,} more" if more > 0 else "")
        rows.append([one["nodes"], ", ".join(one["names"][:3]), verdicts, text])
    headings = ("nodes", "examples", "rejected by", "missing or blocked by")
    return shortened(caption, headings, rows) if rows else None


def _ranking(seen: Json) -> Grid | None:
    plugins = [
        name for name in seen["weights"] if any(one["normalized"].get(name) for one in seen["ranking"])
    ]
    rows: list[list[Cell]] = [
        [one["rank"], one["node"], one["total"], *(one["normalized"].get(name) for name in plugins)]
        for one in seen["ranking"]
    ]
    headings = ["rank", "node", "total", *(f"{name} x{seen['weights'][name]}" for name in plugins)]
    return shortened("The best nodes", headings, rows) if rows else None


def _preemption(seen: Json) -> list[Block | None]:
    found = seen["preemption"]
    if found is None:
        return []
    text = found["message"] or ("Preemption helps on no node." if not found["candidates"] else "")
    if found["chosen"]:
        text = f"Pods would be evicted on {found['chosen']}."
    rows: list[list[Cell]] = [
        [
            one["node"],
            ", ".join(f"{pod['pod']} ({pod['priority']})" for pod in one["victims"]),
            " ".join([str(one["pdbViolations"]), *one["violatedBudgets"]]),
        ]
        for one in found["candidates"]
    ]
    headings = ("node", "victims (priority)", "disruption budgets violated")
    lines = [text] if text else []
    if found["raisedPriority"] is not None:
        lines.append(found["raisedPriority"]["text"])
    return [Heading("Preemption"), Lines(lines), shortened("Candidates", headings, rows) if rows else None]


def _claims(seen: Json) -> list[Block | None]:
    found: list[Block | None] = []
    for claim in seen["claims"]:
        for request in claim.get("requests", []):
            rows: list[list[Cell]] = [
                [
                    one["error"] or " ".join(filter(None, (one["kind"], one["text"]))),
                    one["devices"],
                    one["mostOnANode"],
                    one["nodesWithEnough"],
                ]
                for one in request["steps"]
            ]
            headings = ("rule", "devices left", "most on a node", "nodes with enough")
            found.append(
                shortened(f"Devices of claim {claim['claim']}, request {request['name']}", headings, rows)
            )
    return found


def _details(node: Json) -> Grid:
    rows: list[list[Cell]] = [
        [plugin, ", ".join(status["reasons"]) if status else "passes"]
        for plugin, status in node["verdicts"].items()
    ]
    if node["comparison"] is not None:
        rows.append(["compared", node["comparison"]["text"]])
    rows += [["because", fact["text"]] for fact in (*node["needs"], *node["blockers"])]
    return shortened(f"Verdicts of node {node['node']}", ("plugin", "verdict"), rows)
