"""Nodes that come: `plan nodes` beside what `check` makes, and what they cost in each command."""

from __future__ import annotations

from tests.agreement.asking import Answer, Asking
from tests.agreement.objects import key_of, name_of
from tests.agreement.relation import relation, verdict

CENT = 1e-6
MOST = 20


@relation(lambda cluster: cluster.grows)
def planned_nodes(asking: Asking) -> None:
    """A plan is no dearer than what autoscalers make, and its bound no higher."""
    made, plan = asking.ask("check"), asking.ask("plan nodes")
    new = made.get("newNodes") or {}
    nodes, price = new.get("nodes", []), new.get("pricePerHour")
    if not made.get("passed") or not nodes or not plan.is_answer:
        return
    total = sum(one["pricePerHour"] or 0 for one in nodes)
    asking.expect(price is None or abs(total - price) < CENT, "sum of prices", (made, (total, price)))
    counts = {name: number for name, number in plan["counts"].items() if number}
    told = (
        (made, f"{len(nodes)} nodes, {price} $/h"),
        (plan, (plan["status"], counts, _prices(plan), plan["lowerBound"])),
    )
    asking.expect(plan["status"] == "found", "check passes, and no plan is found", *told)
    if plan["status"] == "found":
        asking.expect((plan["lowerBound"] or 0) <= len(nodes), "bound", *told)
        asking.expect(not price or min(_prices(plan), default=0) <= price + CENT, "price", *told)


def _prices(plan: Answer) -> list[float]:
    """What the plan with the fewest nodes costs, and the cheapest."""
    return [one for one in (plan.get("pricePerHour"), plan.get("cheapestPerHour")) if one is not None]


@relation(lambda cluster: not cluster.is_settled and not cluster.grows and cluster.nodes)
def counted_nodes(asking: Asking) -> None:
    """With as many nodes as a plan counts all pods have one; with fewer than its bound they have not, unless
    some are evicted."""
    like = name_of(asking.one("like", asking.cluster.nodes, key_of))
    plan = asking.ask("plan nodes", "--like", like)
    if plan.get("status") != "found" or not 0 < plan["nodes"] <= MOST:
        return
    fewer = plan["lowerBound"] - 1
    for number, passes in ((plan["nodes"], True), (fewer, False)) if fewer >= 0 else ((plan["nodes"], True),):
        added = asking.ask("check", *(("--add-nodes", f"{like}={number}") if number else ()))
        evicted = added.get("evictions", [])
        said = f"{plan['nodes']} nodes, at least {plan['lowerBound']} by {plan['boundBy']}"
        told = (plan, said), (added, f"{verdict(added)}, evicts {len(evicted)}")
        holds = added.get("passed") == passes or bool(not passes and evicted)
        asking.expect(holds, "enough" if passes else "bound", *told)


@relation(lambda cluster: cluster.grows and cluster.nodes)
def price_of_a_node(asking: Asking) -> None:
    """One price in each command that tells it."""
    nodes = asking.ask("nodes")
    if not nodes.is_answer:
        return
    own: dict[str, float | None] = {one["name"]: one.get("price") for one in nodes["items"]}
    total = sum(price or 0 for price in own.values())
    made = asking.ask("check")
    _equal(
        asking,
        "check",
        (nodes, total),
        (made, ((made.get("newNodes") or {}).get("prices") or {}).get("before")),
    )
    if asking.cluster.of("NodePool"):
        plan = asking.ask("plan consolidate", "--once")
        _equal(asking, "plan consolidate", (nodes, total), (plan, plan.get("before", {}).get("price")))
    for name in asking.some("node", own, 2):
        explained, drained = asking.ask(f"explain node/{name}"), asking.ask(f"plan drain {name}")
        _equal(
            asking, "explain node", (nodes, own[name]), (explained, explained.get("room", {}).get("price"))
        )
        if drained.get("status") == "found":
            _equal(asking, "plan drain", (nodes, own[name]), (drained, drained.get("price")))


def _equal(
    asking: Asking, about: str, one: tuple[Answer, float | None], other: tuple[Answer, float | None]
) -> None:
    """Compare prices where both are told."""
    if one[1] is not None and other[1] is not None:
        asking.expect(abs(one[1] - other[1]) < CENT, about, one, other)


@relation(lambda cluster: cluster.of("NodePool") and cluster.nodes)
def consolidated_nodes(asking: Asking) -> None:
    """Nodes that Karpenter deletes without another in their place can be removed: all pods find a node."""
    plan = asking.ask("plan consolidate", "--once")
    for step in plan.get("steps", ()):
        if step["decision"] == "delete" and not step["replacements"] and asking.ask("check").get("passed"):
            words = [word for name in step["nodes"] for word in ("--remove-nodes", name)]
            removed = asking.ask("check", *words)
            made = len((removed.get("newNodes") or {}).get("nodes", ()))
            told = (
                (plan, (step["nodes"], step["waiting"])),
                (removed, (verdict(removed), f"{made} new nodes")),
            )
            holds = bool(removed.get("passed")) and not made
            asking.expect(holds == (not step["waiting"] and not step["lost"]), "delete", *told)
