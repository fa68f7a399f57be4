"""Rows, shapes and plans as the C kernels take them, made from those of the twins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.core._kernels import ffi, lib
from tests.core.twins.kernel_twins import ANY_IP, CPU, MEMORY, Row, Shape, Term, is_integer

DEFAULT_FILTERS = (
    "MR_NODE_UNSCHEDULABLE",
    "MR_NODE_NAME",
    "MR_TAINT_TOLERATION",
    "MR_NODE_AFFINITY",
    "MR_NODE_PORTS",
    "MR_NODE_RESOURCES_FIT",
)
DEFAULT_SCORES = {
    "MR_TAINT_TOLERATION": 3,
    "MR_NODE_AFFINITY": 2,
    "MR_NODE_RESOURCES_FIT": 1,
    "MR_BALANCED_ALLOCATION": 1,
    "MR_IMAGE_LOCALITY": 1,
}
EXACT = 2**53
LABEL_KEYS = ("k", "l")  # one column each


class World:
    """Structs that live as long as this object, and the symbols that they share; symbol 0 is "absent"."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.symbols: dict[str, int] = {}

    def new(self, ctype: str, init: Any = None) -> Any:
        made = ffi.new(ctype, init)
        self.kept.append(made)
        return made

    def array(self, ctype: str, values: Iterable[Any]) -> Any:
        """A C array; at least one item long, so that it has an address."""
        items = list(values)
        return self.new(f"{ctype}[]", items) if items else self.new(f"{ctype}[1]")

    def symbol(self, text: str | None) -> int:
        return 0 if text is None else self.symbols.setdefault(text, len(self.symbols) + 1)

    # ---- rows

    def ledger(self, rows: Sequence[Row]) -> Any:
        resources = max((len(row.others) for row in rows), default=0)
        columns = [
            self.array("int64_t", [value for row in rows for value in row.others[resource]])
            for resource in range(resources)
        ]
        ledger = self.new("mr_ledger *")
        ledger.rows = self.array("mr_row", [{} for _ in rows])
        ledger.wide = self.new(f"int64_t[{len(rows) * lib.MR_FIELDS}]")
        ledger.others = self.array("int64_t *", columns)
        for at, row in enumerate(rows):
            record = ledger.rows[at]
            record.pods, record.pods_max = row.pods, row.pods_max
            record.flags = lib.MR_PRESENT | (lib.MR_UNSCHEDULABLE if row.unschedulable else 0)
            lib.mr_row_set(ledger, at, list(row.values))
        return ledger

    def cluster(self, rows: Sequence[Row], image_sizes: Sequence[int] = (), nodes: int = 1) -> Any:
        columns = [
            self.array("int32_t", [self.symbol(row.labels.get(key)) for row in rows]) for key in LABEL_KEYS
        ]
        cluster = self.new("mr_cluster *")
        cluster.ledger = self.ledger(rows)[0]
        cluster.name = self.array("int32_t", [self.symbol(row.name) for row in rows])
        cluster.taint_set = self.array("int32_t", [row.taint_set for row in rows])
        cluster.labels = self.array("int32_t *", columns)
        cluster.image_size = self.array("int64_t", image_sizes)
        cluster.nodes = nodes
        self._ports(cluster, rows)
        self._images(cluster, rows)
        return cluster

    def _ports(self, cluster: Any, rows: Sequence[Row]) -> None:
        cluster.any_ip = self.symbol(ANY_IP)
        ports = [self.port(port) for row in rows for port in row.ports]
        counts = [len(row.ports) for row in rows]
        cluster.ports = self.array("mr_port", ports)
        cluster.port_set = self.array("int32_t", range(len(rows)))
        cluster.port_first = self.array("int32_t", [sum(counts[:at]) for at in range(len(rows))])
        cluster.port_count = self.array("int32_t", counts)

    def _images(self, cluster: Any, rows: Sequence[Row]) -> None:
        pairs = [number for row in rows for pair in row.images for number in pair]
        counts = [2 * len(row.images) for row in rows]
        cluster.images = self.array("int32_t", pairs)
        cluster.image_first = self.array("int32_t", [sum(counts[:at]) for at in range(len(rows))])
        cluster.image_count = self.array("int32_t", counts)

    def number_symbols(self, cluster: Any) -> None:
        """Call when all symbols are known."""
        texts = list(self.symbols)
        numbers = [int(text) if is_integer(text) else 0 for text in texts]
        cluster.number = self.array("int64_t", [0, *numbers])
        cluster.is_number = self.array("uint8_t", [0, *map(is_integer, texts)])

    def port_conflicts(self, cluster: Any, shape: Any, rows: int) -> Any:
        """What `mr_pod.ports` is for a shape; each row has a port set of its own."""
        if not shape.n_ports:
            return ffi.NULL
        conflicts = [
            lib.mr_ports_conflict(
                shape.ports,
                shape.n_ports,
                cluster.ports + cluster.port_first[row],
                cluster.port_count[row],
                cluster.any_ip,
            )
            for row in range(rows)
        ]
        return self.array("uint8_t", conflicts)

    # ---- shapes

    def port(self, port: tuple[str, str, int]) -> dict[str, int]:
        return {"ip": self.symbol(port[0]), "protocol": self.symbol(port[1]), "port": port[2]}

    def shape(self, given: Shape) -> Any:
        shape = self.new("mr_shape *")
        shape.need_cpu, shape.need_memory = given.needs or given.requests
        shape.cpu, shape.memory = given.requests
        shape.score_cpu, shape.score_memory = given.score_requests
        shape.nonzero_cpu, shape.nonzero_memory = given.nonzero_requests
        needs, scores = given.others_as(given.other_needs), given.others_as(given.other_scores)
        shape.others = self.array(
            "mr_request",
            [{"resource": r, "value": v, "need": needs[r], "score": scores[r]} for r, v in given.others],
        )
        shape.ports = self.array("mr_port", map(self.port, given.ports))
        shape.images = self.array("int32_t", given.images)
        shape.n_others, shape.n_ports = len(given.others), len(given.ports)
        shape.n_images, shape.image_containers = len(given.images), given.image_containers
        self._selectors(shape, given)
        amounts = given.requests + given.score_requests + given.nonzero_requests
        shape.flags = (
            (lib.MR_SHAPE_WIDE if min(amounts) < 0 or max(amounts) > EXACT else 0)
            | (lib.MR_SHAPE_TOLERATES_UNSCHEDULABLE if given.tolerates_unschedulable else 0)
            | (lib.MR_SHAPE_REQUIRED if given.required is not None else 0)
        )
        return shape

    def _selectors(self, shape: Any, given: Shape) -> None:
        """Requirements of all terms one after the other; so are the values of all requirements."""
        required = given.required or ()
        terms: list[Term] = [given.selector, *required, *(term for _, term in given.preferred)]
        weights = [0] * (1 + len(required)) + [weight for weight, _ in given.preferred]
        requirements: list[dict[str, int]] = []
        values: list[int] = []
        spans: list[dict[str, int]] = []
        for weight, term in zip(weights, terms, strict=True):
            spans.append({"first": len(requirements), "count": len(term), "weight": weight})
            for r in term:
                column = LABEL_KEYS.index(r.key) if r.key else -1
                op, count = getattr(lib, r.op), len(r.values)
                requirements.append(
                    {"column": column, "op": op, "first": len(values), "count": count, "number": r.number}
                )
                values += map(self.symbol, r.values)
        spans_c = self.array("mr_term", spans)
        shape.requirements = self.array("mr_requirement", requirements)
        shape.values = self.array("int32_t", values)
        shape.selector = spans_c[0]
        shape.required, shape.n_required = spans_c + 1, len(required)
        shape.preferred, shape.n_preferred = spans_c + 1 + len(required), len(given.preferred)

    def pod(self, node_name: str | None = None, pinned: str | None = None) -> Any:
        return self.new("mr_pod *", {"node_name": self.symbol(node_name), "pinned_name": self.symbol(pinned)})

    # ---- plans

    def plan(  # noqa: PLR0913
        self,
        filters: Sequence[str] = DEFAULT_FILTERS,
        scores: dict[str, int] = DEFAULT_SCORES,
        fit: Sequence[tuple[int, int]] = ((CPU, 1), (MEMORY, 1)),
        balanced: Sequence[int] = (CPU, MEMORY),
        difference: bool = True,
        unresolvable: bool = True,
        strategy: str = "MR_LEAST_ALLOCATED",
        points: Sequence[tuple[int, int]] = (),
    ) -> Any:
        plan = self.new("mr_plan *")
        plan.n_filters, plan.n_scores = len(filters), len(scores)
        plan.n_fit, plan.n_balanced = len(fit), len(balanced)
        plan.filters[0 : len(filters)] = [getattr(lib, name) for name in filters]
        plan.scores[0 : len(scores)] = [getattr(lib, name) for name in scores]
        plan.weights[0 : len(scores)] = list(scores.values())
        plan.fit[0 : len(fit)] = [{"resource": r, "weight": w} for r, w in fit]
        plan.balanced[0 : len(balanced)] = [{"resource": r, "weight": 1} for r in balanced]
        plan.balanced_difference, plan.fit_unresolvable = difference, unresolvable
        plan.fit_strategy, plan.n_points = getattr(lib, strategy), len(points)
        plan.points = self.array("mr_point", [{"utilization": u, "score": s} for u, s in points])
        return plan
