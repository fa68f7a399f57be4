"""Compares a cluster state with its twin: all that is stored, against a recomputation from the objects."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.core.inside import (
    assert_labels_follow_nodes,
    chunk,
    deadlines,
    free_numbers,
    inside,
    numbers,
    numbers_of_row,
    pod_records,
    row_array,
    values,
)
from tests.core.twins.state_twin import NodeInfo, StateTwin
from tests.doors.engine import ClusterState

from moorage.kube import Node, Pod

EXACT = 2**53
BLOCK = 64  # positions
PRESENT, UNSCHEDULABLE, WIDE, SLOW = 1, 4, 8, 16
FEATURES = {"RestartAllContainersOnContainerExits": 32, "UserNamespacesHostNetworkSupport": 64}
ASSUMED, ADDED = 1, 2
KINDS = ("allocatable", "requested", "nonzero")
DEFAULTS = {"cpu": 100, "memory": 200 << 20}


def amount(resource: str, raw: Any) -> int:
    """A quantity of a test: an integer, or millicores as "250m", or Gi."""
    if isinstance(raw, str) and raw.endswith("m"):
        return int(raw[:-1])
    value = int(raw[:-2]) << 30 if isinstance(raw, str) and raw.endswith("Gi") else int(raw)
    return value * 1000 if resource == "cpu" else value


def requests(pod: Pod) -> dict[str, int]:
    """Requests of a pod with one container."""
    return {name: amount(name, raw) for name, raw in pod.spec.containers[0].resources.requests.items()}


def assert_equal(what: str, held: Any, expected: Any) -> None:
    assert held == expected, f"{what}: {held} instead of {expected}"


def check(state: ClusterState, twin: StateTwin) -> None:
    """All that does not depend on the view's last refresh, and what the view froze then."""
    names: list[str | None] = [None] * twin.rows.used
    nodes: list[Node | None] = [None] * twin.rows.used
    for name, info in twin.infos.items():
        names[info.row], nodes[info.row] = name, info.node
        assert_equal(f"row of {name}", state.table.find_row(name), info.row)
        assert_equal(f"node {name}", state.has_node(name), info.node is not None)
    assert_equal("names", state.table.names, names)
    assert_equal("free rows", inside(state.table)["free_rows"], twin.rows.free)
    assert_equal(
        "rows by name", [state.table.find_row(n) for n in twin.infos], [i.row for i in twin.infos.values()]
    )
    assert_equal("nodes", state.table.objects, nodes)
    assert_equal(
        "known nodes",
        list(map(state.has_node, twin.infos)),
        [i.node is not None for i in twin.infos.values()],
    )
    check_usage(state, twin)
    check_sets(state, twin)
    check_ledger(state, twin)
    check_images(state, twin)
    check_view(state, twin)
    assert_labels_follow_nodes(state)
    assert_equal("zones", state.tree.zones, list(twin.tree))
    assert_equal("tree", [state.symbols.names[symbol] for symbol in state.tree.list()], twin.listed())
    assert_equal("tree nodes", state.tree.num_nodes, len(twin.listed()))


def usage(twin: StateTwin, info: NodeInfo) -> dict[str, dict[str, int]]:
    """What a row must show, by kind and resource."""
    pods = [requests(twin.pods[uid].pod) for uid in info.pods]
    said = info.node.status.allocatable if info.node is not None else {}
    resources = {"cpu", "memory", "ephemeral-storage", *said, *(name for pod in pods for name in pod)} - {
        "pods"
    }
    requested = {name: sum(pod.get(name, 0) for pod in pods) for name in resources}
    return {
        "allocatable": {name: amount(name, said.get(name, 0)) for name in {*resources, "pods"}},
        "requested": requested | {"pods": len(pods)},
        "nonzero": {name: sum(pod.get(name, least) for pod in pods) for name, least in DEFAULTS.items()},
    }


def check_usage(state: ClusterState, twin: StateTwin) -> None:
    infos = {info.row: info for info in twin.infos.values()}
    for kind in KINDS:
        columns = {name: column.tolist() for name, column in getattr(state.table, kind).items()}
        for row in range(twin.rows.used):
            held = {name: column[row] for name, column in columns.items() if column[row]}
            expected = usage(twin, infos[row])[kind] if row in infos else {}
            assert_equal(f"{kind} of row {row}", held, {name: n for name, n in expected.items() if n})
    for row, info in infos.items():
        if info.node is not None:
            check_row(row_array(state)[row], usage(twin, info), flags_of(info.node))
    check_holders(state)


def check_holders(state: ClusterState) -> None:
    """The rows that have some of each resource besides cpu and memory, as bits."""
    holders = inside(state.table)["holders"]
    for at, name in enumerate(state.table.resources):
        having = np.flatnonzero(state.table.allocatable[name]).tolist()
        words = chunk(holders, at)
        rows = [32 * n + bit for n, word in enumerate(words) for bit in range(32) if word >> bit & 1]
        assert_equal(f"rows with {name}", rows, having)
        assert_equal(f"a row has {name}", state.table.has_allocatable(name), bool(having))


def flags_of(node: Node) -> int:
    """What a row says of its node besides amounts."""
    declared = [flag for name, flag in FEATURES.items() if name in node.status.declared_features]
    return PRESENT | UNSCHEDULABLE * node.spec.unschedulable | sum(declared)


def check_row(record: Any, used: dict[str, dict[str, int]], flags: int) -> None:
    """What a row derives from its values."""
    exact = [
        used[kind][name] for kind in ("allocatable", "requested", "nonzero") for name in ("cpu", "memory")
    ]
    wide = not all(0 <= value <= EXACT for value in exact)
    slow = wide or any(not 0 < value <= 2**42 for value in exact[:2])
    assert_equal("flags", int(record["flags"]), flags | WIDE * wide | SLOW * slow)
    assert_equal("doubles", list(record.tolist()[:6]), [float(value) for value in exact])
    assert_equal("balanced", int(record["balanced"]), balanced(*exact[:4]))


def balanced(alloc_cpu: float, alloc_memory: float, cpu: float, memory: float) -> int:
    if not alloc_cpu or not alloc_memory:
        return 100
    used = min(1.0, float(cpu) / float(alloc_cpu)) - min(1.0, float(memory) / float(alloc_memory))
    return int((1.0 - abs(used) / 2.0) * 100.0)


def check_sets(state: ClusterState, twin: StateTwin) -> None:
    table = inside(state.table)
    taint_ids, port_ids = (values(table[name], "i4", twin.rows.used) for name in ("taint_set", "port_set"))
    infos = {info.row: info for info in twin.infos.values()}
    for row in range(twin.rows.used):
        info = infos.get(row)
        taints = info.node.spec.taints if info is not None and info.node is not None else ()
        held = state.table.taint_sets.sets[taint_ids[row]]
        assert_equal(f"taints of row {row}", list(held), [(t.key, t.value, t.effect) for t in taints])
        ports = {
            (state.symbols.names[ip], state.symbols.names[protocol], port)
            for ip, protocol, port in state.table.port_sets.sets[port_ids[row]]
        }
        assert_equal(f"ports of row {row}", ports, info.ports if info is not None else set())


def check_ledger(state: ClusterState, twin: StateTwin) -> None:
    ledger, records = inside(state.ledger), pod_records(state)
    assert_equal("numbers of pods", numbers(state), {uid: one.number for uid, one in twin.pods.items()})
    assert_equal("free numbers", free_numbers(state), twin.numbers.free)
    assert_equal("pods", (len(state.ledger), len(records)), (len(twin.pods), twin.numbers.used))
    for uid, one in twin.pods.items():
        info, at = twin.infos[one.on], one.number
        record = records[at]
        assert_equal(f"pod {uid}", state.get_pod(one.pod), one.pod)
        assert_equal(f"object of {uid}", ledger["objects"][at], None if record["origin"] else one.pod)
        assert_equal(f"row of {uid}", record["row"], info.row)
        assert_equal(f"state of {uid}", record["state"], ASSUMED if one.is_assumed else ADDED)
        assert_equal(f"class of {uid}", record["pod_class"], state.classes.intern(one.pod))
        assert_equal(
            f"terminating {uid}", record["terminating"], one.pod.metadata.deletion_timestamp is not None
        )
    for number in twin.numbers.free:
        assert_equal(
            f"free number {number}", (records["state"][number], ledger["objects"][number]), (0, None)
        )
    check_templates(state, twin)
    pods = {info.row: info.pods for info in twin.infos.values()}
    for row in range(twin.rows.used):
        on = [twin.pods[uid].number for uid in pods.get(row, [])]
        assert_equal(f"pods on row {row}", numbers_of_row(state, row), on)
        held = [pod.metadata.uid for pod in state.ledger.pods_of(row)]
        assert_equal(f"pod objects on row {row}", held, pods.get(row, []))
    late = sorted((one.deadline, one.number) for one in twin.pods.values() if one.deadline is not None)
    assert_equal("deadlines", deadlines(state), late)
    assumed = sorted(uid for uid, one in twin.pods.items() if one.is_assumed)
    assert_equal("assumed", state.assumed_pods(), assumed)


def check_templates(state: ClusterState, twin: StateTwin) -> None:
    """Replicas live as long as one of their pods has no object of its own."""
    templates = inside(inside(state.ledger)["templates"])
    listed = [entry for entries in templates["by_prefix"].values() for entry in entries]
    assert_equal(
        "free replicas",
        sorted(templates["free"]),
        [i for i, e in enumerate(templates["entries"]) if e is None],
    )
    assert_equal(
        "replicas", {e.id for e in listed}, {i for i, e in enumerate(templates["entries"]) if e is not None}
    )
    origins = pod_records(state)["origin"][[one.number for one in twin.pods.values()]].tolist()
    for prefix, entries in templates["by_prefix"].items():
        assert_equal(f"order of {prefix}", [e.first for e in entries], sorted(e.first for e in entries))
        for entry in entries:
            living = origins.count(entry.id + 1)
            assert living == values(templates["living"], "i4", entry.id + 1)[entry.id] > 0


def check_images(state: ClusterState, twin: StateTwin) -> None:
    names = [name for name in state.images.names.names if name]
    expected = {name: (len(image.nodes), image.size) for name, image in twin.image_states.items()}
    held = {name: state.images.state(name) for name in names}
    assert_equal("images", {name: one for name, one in held.items() if one}, expected)
    for info in twin.infos.values():
        on = [state.images.names.names[image] for image in chunk(inside(state.images)["held"], info.row)[::2]]
        assert_equal("images of a row", on, list(info.images) if info.node is not None else [])


def check_view(state: ClusterState, twin: StateTwin) -> None:
    """The list, and what is frozen of rows that the next refresh will not copy again anyway: a run freezes
    the counts of its last row ahead of time, since mostly nothing changes before the next one."""
    assert_equal("view", state.view.node_names(), twin.snapshot.order)
    rows = state.view.rows().tolist()
    for name, row in zip(twin.snapshot.order, rows, strict=True):
        pairs = chunk(inside(state.view)["seen"], row)
        seen = {state.images.names.names[image]: n for image, n in zip(pairs[::2], pairs[1::2], strict=True)}
        info = twin.infos.get(name)
        if info is not None and info.generation != twin.snapshot.generations[name]:
            continue
        assert_equal(f"frozen counts of {name}", seen, twin.snapshot.images[name])


def check_shares(row: Any, is_slow: bool, shares: list[Any], free: list[Any]) -> None:
    """Percentages of allocatable in single precision; free millicores and KiB, rounded down and saturated.

    The least number of millicores says that no slot is free.
    """
    cpu, memory = (0.0 if is_slow else 100.0 / float(row[f"alloc_{of}"]) for of in ("cpu", "memory"))
    expected = [cpu * row["nonzero_cpu"], memory * row["nonzero_memory"]]
    expected += [cpu * row["req_cpu"] / 2, memory * row["req_memory"] / 2, cpu, memory]
    assert_equal("shares", shares, [np.float32(share) for share in expected])
    amounts = row["alloc_cpu"] - row["req_cpu"], (row["alloc_memory"] - row["req_memory"]) // 1024
    wanted = [min(max(int(amount), 1 - 2**31), 2**31 - 1) for amount in amounts]
    if row["pods"] >= row["pods_max"]:
        wanted[0] = -(2**31)
    assert_equal("free", free, wanted)


def check_columns(state: ClusterState) -> None:
    """The scan columns, right after a refresh and a scan, say what the rows say."""
    state.view.follow_usage()
    view, order = inside(state.view), state.view.rows().tolist()
    memory, size = view["columns_memory"], len(order)
    doubles = [values(buffer, "f8", size) for buffer in memory[:10]]
    integers = [values(buffer, "i4", size) for buffer in memory[10:13]]
    shares = [values(buffer, "f4", size) for buffer in memory[13:19]]
    free = [values(buffer, "i4", size) for buffer in memory[19:21]]
    slow = values(memory[21], "u1", size)
    taints = values(inside(state.table)["taint_set"], "i4", state.table.used)
    if order:
        behind = values(memory[19], "i4", size + BLOCK)[size:]
        assert_equal("free behind the list", set(behind), {-(2**31)})
    for at, row in enumerate(order):
        r = row_array(state)[row]
        is_slow = bool(r["flags"] & SLOW)
        cpu, memory_ = float(r["alloc_cpu"]), float(r["alloc_memory"])
        expected = [1.0, 1.0] if is_slow else [cpu, memory_]
        expected += [cpu - r["req_cpu"], memory_ - r["req_memory"]]
        expected += [0.0, 0.0] if is_slow else [r["req_cpu"], r["req_memory"]]
        expected += [cpu - r["nonzero_cpu"], memory_ - r["nonzero_memory"]]
        expected += [0.0, 0.0] if is_slow else [100.0 / cpu, 100.0 / memory_]
        assert_equal(f"columns of row {row}", [column[at] for column in doubles], expected)
        fixed = taints[row] * 2 + bool(r["flags"] & UNSCHEDULABLE)
        slots = max(0, int(r["pods_max"]) - int(r["pods"]))
        held = [*(column[at] for column in integers), slow[at]]
        assert_equal(f"columns of row {row}", held, [int(r["balanced"]), slots, fixed, is_slow])
        check_shares(r, is_slow, [column[at] for column in shares], [column[at] for column in free])
    places = [
        row
        for row, place in sorted(
            enumerate(values(view["position"], "i4", state.table.used)), key=lambda p: p[1]
        )
        if place
    ]
    assert_equal("positions", places, order)
