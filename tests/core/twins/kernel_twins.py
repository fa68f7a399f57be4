"""The row-local rules in plain Python, from integers, strings and sets: slow and obvious."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

CPU, MEMORY, EPHEMERAL_STORAGE = -1, -2, 0
MIB = 1024 * 1024
ANY_IP = "0.0.0.0"

Port = tuple[str, str, int]


@dataclass(frozen=True)
class Row:
    """A node: allocatable, requested and non-zero requested cpu and memory; the rest as it comes."""

    values: tuple[int, int, int, int, int, int] = (4000, 2**34, 0, 0, 0, 0)
    pods: int = 0
    pods_max: int = 110
    unschedulable: bool = False
    others: tuple[tuple[int, int], ...] = ()  # (allocatable, requested) of resource 0, 1, ...
    taint_set: int = 0
    name: str = "n"
    labels: dict[str, str] = field(default_factory=dict)
    ports: tuple[Port, ...] = ()
    images: tuple[tuple[int, int], ...] = ()  # (image, nodes that have it)


@dataclass(frozen=True)
class Requirement:
    """`key` is a label key, or "" for the node's name; `op` is spelt as in csrc/state.h."""

    key: str
    op: str
    values: tuple[str, ...] = ()
    number: int = 0


Term = tuple[Requirement, ...]


@dataclass(frozen=True)
class Shape:
    requests: tuple[int, int] = (100, 2**20)
    score_requests: tuple[int, int] = (100, 2**20)
    nonzero_requests: tuple[int, int] = (100, 2**20)
    others: tuple[tuple[int, int], ...] = ()  # (resource, value), no resource twice
    ports: tuple[Port, ...] = ()
    images: tuple[int, ...] = ()
    image_containers: int = 1
    taints: tuple[int, ...] = (
        0,
    )  # by taint set PreferNoSchedule taints not tolerated, -1 - n where rejected
    selector: Term = ()
    required: tuple[Term, ...] | None = None
    preferred: tuple[tuple[int, Term], ...] = ()
    tolerates_unschedulable: bool = False
    # Where a resize is in progress: what must be free, and what scores add of others, in place of the above.
    needs: tuple[int, int] | None = None
    other_needs: tuple[int, ...] | None = None
    other_scores: tuple[int, ...] | None = None

    def others_as(self, amounts: tuple[int, ...] | None) -> dict[int, int]:
        """Requests of other resources, with other amounts if there are any."""
        names = [resource for resource, _ in self.others]
        return dict(self.others) if amounts is None else dict(zip(names, amounts, strict=True))


def int64(value: int) -> int:
    """Go's int64 arithmetic: wraps."""
    return (value + 2**63) % 2**64 - 2**63


def divide(a: int, b: int) -> int:
    """Go's integer division: towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def fit_reasons(row: Row, shape: Shape, ignored: Container[int] = ()) -> tuple[list[str], bool]:
    """Reasons of NodeResourcesFit, and whether a request is above allocatable; `ignored` resources fit."""
    reasons = ["pods"] if row.pods + 1 > row.pods_max else []
    allocatable = dict(zip(("cpu", "memory"), row.values[:2], strict=True))
    requested = dict(zip(("cpu", "memory"), row.values[2:4], strict=True))
    wanted: dict[str, int] = dict(zip(("cpu", "memory"), shape.needs or shape.requests, strict=True))
    for resource, value in shape.others_as(shape.other_needs).items():
        if resource in ignored:
            continue
        allocatable[str(resource)], requested[str(resource)] = row.others[resource]
        wanted[str(resource)] = value
    above = False
    for name, value in wanted.items():
        if value > 0 and value > allocatable[name] - requested[name]:
            reasons.append(name)
            above |= value > allocatable[name]
    return reasons, above


def scored(row: Row, shape: Shape, resource: int, nonzero: bool) -> tuple[int, int, int] | None:
    """(capacity, used, request) of a resource that a strategy weighs; None where it does not take part."""
    if resource in (CPU, MEMORY):
        at = (CPU, MEMORY).index(resource)
        capacity, used = row.values[at], row.values[(4 if nonzero else 2) + at]
        request = (shape.score_requests if nonzero else shape.requests)[at]
    else:
        requests = shape.others_as(shape.other_scores) if nonzero else dict(shape.others)
        (capacity, used), request = row.others[resource], requests.get(resource, 0)
        if resource != EPHEMERAL_STORAGE and request == 0:
            return None
    return (capacity, used, request) if capacity else None


Points = Sequence[tuple[int, int]]


def ratio(points: Points, utilization: int) -> int:
    """The broken line through the points at a whole percentage."""
    before = points[0]
    for at, point in enumerate(points):
        if utilization <= point[0]:
            if at == 0:
                return point[1]
            rise, run = point[1] - before[1], point[0] - before[0]
            return before[1] + divide(rise * (utilization - before[0]), run)
        before = point
    return before[1]


def resource_score(strategy: str, points: Points, requested: int, capacity: int) -> int:
    if strategy == "MR_MOST_ALLOCATED":
        return divide(int64(min(requested, capacity) * 100), capacity)
    if strategy == "MR_REQUESTED_TO_CAPACITY_RATIO":
        return ratio(points, 100 if requested > capacity else divide(int64(requested * 100), capacity))
    return 0 if requested > capacity else divide(int64((capacity - requested) * 100), capacity)


def fit_score(
    row: Row, shape: Shape, resources: list[tuple[int, int]], strategy: str, points: Points = ()
) -> int:
    total = weights = 0
    rounds = strategy == "MR_REQUESTED_TO_CAPACITY_RATIO"
    for resource, weight in resources:
        taken = scored(row, shape, resource, nonzero=True)
        if taken is None:
            continue
        capacity, used, request = taken
        score = resource_score(strategy, points, used + request, capacity)
        if rounds and score <= 0:
            continue
        total += score * weight
        weights += weight
    if not weights:
        return 0
    return math.floor(total / weights + 0.5) if rounds else divide(total, weights)


def balance(row: Row, shape: Shape, resources: list[int], with_pod: bool) -> int:
    """(1 - standard deviation of the fractions in use) * 100, in doubles as upstream."""
    fractions = []
    for resource in resources:
        taken = scored(row, shape, resource, nonzero=False)
        if taken is not None:
            capacity, used, request = taken
            fractions.append(min(1.0, float(used + request if with_pod else used) / float(capacity)))
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2.0)
    elif len(fractions) > 2:
        mean = sum_in_order(fractions) / float(len(fractions))
        squares = sum_in_order([(fraction - mean) * (fraction - mean) for fraction in fractions])
        deviation = math.sqrt(squares / float(len(fractions)))
    return int((1.0 - deviation) * 100.0)


def sum_in_order(values: list[float]) -> float:
    """One rounding per addition; `sum` compensates from Python 3.12 on."""
    total = 0.0
    for value in values:
        total += value
    return total


def balanced_allocation(row: Row, shape: Shape, resources: list[int], difference: bool) -> int:
    with_pod = balance(row, shape, resources, with_pod=True)
    if not difference:
        return with_pod
    return 50 + divide(50 + with_pod - balance(row, shape, resources, with_pod=False), 2)


def image_locality(row: Row, shape: Shape, sizes: list[int], nodes: int) -> int:
    total = 0
    for image in shape.images:
        if image in dict(row.images):
            total += int(float(sizes[image]) * (float(dict(row.images)[image]) / float(nodes)))
    low, high = 23 * MIB, 1000 * MIB * shape.image_containers
    total = min(max(total, low), high)
    return 100 * (total - low) // (high - low)


def is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit() and -(2**63) <= int(text) < 2**63


def requirement_matches(row: Row, requirement: Requirement, pinned: str) -> bool:
    value = row.labels.get(requirement.key)
    number = int(value) if value is not None and is_integer(value) else None
    outcomes = {
        "MR_IN": value is not None and value in requirement.values,
        "MR_NOT_IN": value is None or value not in requirement.values,
        "MR_EXISTS": value is not None,
        "MR_DOES_NOT_EXIST": value is None,
        "MR_GT": number is not None and number > requirement.number,
        "MR_LT": number is not None and number < requirement.number,
        "MR_NAME_IN": row.name in requirement.values,
        "MR_NAME_NOT_IN": row.name not in requirement.values,
        "MR_NAME_PARAMETER": row.name == pinned,
    }
    return outcomes[requirement.op]


def term_matches(row: Row, term: Term, pinned: str) -> bool:
    return bool(term) and all(requirement_matches(row, requirement, pinned) for requirement in term)


def node_affinity_matches(row: Row, shape: Shape, pinned: str) -> bool:
    if shape.selector and not term_matches(row, shape.selector, pinned):
        return False
    return shape.required is None or any(term_matches(row, term, pinned) for term in shape.required)


def node_affinity_score(row: Row, shape: Shape, pinned: str) -> int:
    return sum(weight for weight, term in shape.preferred if term_matches(row, term, pinned))


def ports_conflict(row: Row, shape: Shape) -> bool:
    return any(
        want[1:] == used[1:] and (want[0] == used[0] or ANY_IP in (want[0], used[0]))
        for want in shape.ports
        for used in row.ports
    )


def heap_winner(totals: list[int]) -> int:
    """What Go's heap.Init leaves on top of nodes compared by total alone."""
    heap = list(range(len(totals)))
    for root in range(len(heap) // 2 - 1, -1, -1):
        at = root
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and totals[heap[child + 1]] > totals[heap[child]]:
                child += 1
            if not totals[heap[child]] > totals[heap[at]]:
                break
            heap[at], heap[child] = heap[child], heap[at]
            at = child
    return heap[0]
