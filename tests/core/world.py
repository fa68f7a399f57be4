"""A cache with all that decides over it, and operations on it whose answers are free of ids and symbols."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.inside import free_numbers, inside, numbers
from tests.core.make import pinned, replica
from tests.core.placing import enter, place_run
from tests.doors.engine import Placer, TieBreak
from tests.make import node, pod, port

from moorage import default_profile
from moorage.compat import NodeTree
from moorage.engine.cache import NodeInfo, SchedulerCache, Snapshot
from moorage.errors import CacheError
from moorage.kube import Pod

Step = tuple[Any, ...]

NODE_NAMES = [f"n{number}" for number in range(6)]
POD_NAMES = [f"p{number}" for number in range(8)]
GPU, FPGA = "example.com/gpu", "example.com/fpga"
IMAGES = ["i:1", "i:2", "j:1"]


def nodes(names: list[str], labels: list[str], images: list[str], resource: str, zones: list[str]) -> Any:
    """Nodes of a small world, so that operations meet."""
    image = st.tuples(st.lists(st.sampled_from(images), min_size=1, max_size=2), st.integers(1, 9))
    return st.builds(
        node,
        st.sampled_from(names),
        zone=st.sampled_from(zones),
        labels=st.dictionaries(st.sampled_from(labels), st.sampled_from(["x", "y"])),
        images=st.lists(image, max_size=3),
        cpu=st.sampled_from([1, 4, 8]),
        memory=st.sampled_from(["1Gi", "8Gi"]),
        pods=st.integers(1, 6),
        **{resource: st.sampled_from([0, 2])},
    )


def pods(names: list[str], labels: list[str], images: list[str], resource: str) -> Any:
    """Pods that are on a node; one that is to be placed ignores which."""
    container = {"image": st.sampled_from(["", *images])}
    return st.builds(
        lambda image, **rest: with_image(pod(**rest), image),
        container["image"],
        name=st.sampled_from(names),
        on=st.sampled_from(NODE_NAMES),
        requests=st.dictionaries(st.sampled_from(["cpu", "memory", resource]), st.sampled_from([1, 2])),
        ports=st.lists(st.builds(port, st.sampled_from([80, 81])), max_size=1),
        node_selector=st.dictionaries(st.sampled_from(labels), st.just("x"), max_size=1),
        affinity=st.sampled_from([None, None, None, pinned("n1")]),
    )


def with_image(one: Pod, image: str) -> Pod:
    containers = tuple(replace(each, image=image) for each in one.spec.containers)
    return replace(one, spec=replace(one.spec, containers=containers))


def on(one: Pod, name: str) -> Pod:
    return replace(one, spec=replace(one.spec, node_name=name))


def steps(known: bool = True) -> Any:
    """Operations; those not `known` name nodes, labels, images, resources and zones of their own."""
    more = [] if known else ["new"]
    resource = GPU if known else FPGA
    some_nodes = nodes(
        [*NODE_NAMES, *more], ["disk", "arch", *more], [*IMAGES, *more], resource, ["", "z1", "z2", *more]
    )
    some_pods = pods([*POD_NAMES, *more], ["disk", "arch", *more], [*IMAGES, *more], resource)
    # A few pods of one template: they meet those of `place_template`, by object.
    replicas = st.builds(lambda one, at: replica(template_of(one), at), some_pods, st.integers(0, 6))
    by_object = some_pods | replicas
    writes = ["assume_pod", "add_pod", "update_pod", "remove_pod", "forget_pod", "finish_binding"]
    return st.one_of(
        st.tuples(st.just("set_node"), some_nodes),
        st.tuples(st.just("remove_node"), st.sampled_from(NODE_NAMES)),
        st.tuples(st.sampled_from(writes), by_object),
        st.tuples(
            st.sampled_from(["assume_pods", "forget_pods", "add_pods"]), st.lists(by_object, max_size=3)
        ),
        st.tuples(st.just("cleanup"), st.integers(0, 9)),
        st.tuples(st.just("decide"), some_pods),
        st.tuples(st.just("place"), some_pods, st.integers(0, 3)),
        st.tuples(
            st.sampled_from(["place_template", "finish_template", "forget_template", "confirm_template"]),
            some_pods.map(template_of),
            st.integers(0, 4),
            st.integers(1, 3),
        ),
        st.tuples(st.sampled_from(["refresh", "next", "reset", "take_snapshot"])),
    )


class World:
    """A cache, a placer over it, and a snapshot of it."""

    def __init__(self, tie_break: TieBreak = TieBreak.RANDOM, cache: SchedulerCache | None = None) -> None:
        self.now = 0.0
        self.cache = cache or SchedulerCache(ttl=3.0, clock=lambda: self.now)
        self.state = self.cache.state
        plan = default_profile().compile(self.state)
        self.placer = Placer(self.state, plan, tie_break, 100, 7)
        self.snapshot = Snapshot()

    def fork(self) -> World:
        out = World(cache=self.cache.fork())
        out.now = self.now
        out.cache.clock = lambda: out.now
        out.placer = self.placer.clone(out.state)
        return out

    def carry_out(self, steps: list[Step]) -> list[Any]:
        """What the operations answered, or how they failed."""
        return [self.answer(*step) for step in steps]

    def answer(self, operation: str, *arguments: Any) -> Any:
        try:
            return getattr(self, operation, getattr(self.cache, operation, None))(*arguments)
        except CacheError as error:
            return str(error)

    # ---- operations that the cache does not have under this name, or that need what is held

    def set_node(self, one: Any) -> None:
        self.cache.update_node(one, one)

    def remove_node(self, name: str) -> None:
        self.cache.remove_node(node(name))

    def update_pod(self, one: Pod) -> None:
        held = self.cache.get_pod(one)
        self.cache.update_pod(held, on(one, held.spec.node_name))

    def remove_pod(self, one: Pod) -> None:
        self.cache.remove_pod(self.cache.get_pod(one))

    def forget_pod(self, one: Pod) -> None:
        self.cache.forget_pod(self.cache.get_pod(one))

    def cleanup(self, seconds: int) -> list[Pod]:
        self.now += seconds
        return self.cache.cleanup_assumed_pods(self.now)

    def refresh(self) -> None:
        self.state.view.refresh()

    def take_snapshot(self) -> None:
        self.cache.update_snapshot(self.snapshot)

    def next(self) -> str:
        return NodeTree.of_cache(self.cache).next()

    def reset(self) -> None:
        NodeTree.of_cache(self.cache).reset_exhausted()

    def decide(self, one: Pod) -> Any:
        row, start, evaluated, positions, totals = self.placer.decider.decide(*self.target(one))
        totals = None if totals is None else totals.tolist()
        return row, start, evaluated, positions.tolist(), totals, self.placer.decider.start

    def place(self, one: Pod, copies: int) -> list[str]:
        named = [f"{one.name}-{at}" for at in range(copies)]
        waiting = [copy for name in named if not self.state.has_pod(copy := renamed(one, name))]
        target = self.target(one)
        rows = place_run(self.placer, target[0], len(waiting), *target[1:])
        chosen = [self.state.table.row_name(row) for row in rows.tolist()]
        bound = [on(copy, name) for copy, name in zip(waiting, chosen, strict=False)]
        enter(self.state, bound, rows)
        return chosen

    def place_template(self, template: Pod, first: int, copies: int) -> list[str]:
        self.state.check_template(template, first, copies)
        target = self.target(template)
        rows = place_run(self.placer, target[0], copies, *target[1:])
        self.state.assume_template(target[0], on(template, ""), first, rows)
        return [self.state.table.row_name(row) for row in rows.tolist()]

    def target(self, one: Pod) -> tuple[int, int, int]:
        pod_class = self.state.classes.intern(on(one, ""))
        return pod_class, 0, self.state.classes.pinned_symbol(pod_class, one)

    # ---- what can be seen

    def snapshot_seen(self) -> dict[str, Any]:
        """What the snapshot shows; it is brought up to date by `update_snapshot`."""
        return {info.name: told(info) for info in self.snapshot.node_info_list}

    def visible(self) -> dict[str, Any]:
        """All that users and later decisions can see, but for generations."""
        self.refresh()
        self.cache.update_snapshot(self.snapshot)
        dump = self.cache.snapshot()
        fresh = Snapshot()
        self.cache.update_snapshot(fresh)
        names = [image for image in self.state.images.names.names if image]
        counts = {name: self.state.images.state(name) for name in names}
        return {
            "rows": self.state.table.names,
            "free rows": inside(self.state.table)["free_rows"],
            "numbers": numbers(self.state),
            "free numbers": free_numbers(self.state),
            "assumed": dump.assumed_pods,
            "nodes": {name: told(info) for name, info in dump.nodes.items()},
            "order": self.state.view.node_names(),
            "snapshot order": self.snapshot.names(),
            "snapshot": self.snapshot_seen(),
            "fresh": {info.name: told(info) for info in fresh.node_info_list},
            "tree": NodeTree.of_cache(self.cache).list(),
            "zones": self.state.tree.zones,
            "images": {name: seen for name, seen in counts.items() if seen},
            "rotation": self.placer.decider.start,
        }


def template_of(one: Pod) -> Pod:
    """A pod as one of two templates."""
    return renamed(one, f"t{int(one.name[-1], 36) % 2}")


def renamed(one: Pod, name: str) -> Pod:
    return replace(one, metadata=replace(one.metadata, name=name, uid=name))


def told(info: NodeInfo) -> dict[str, Any]:
    """What a NodeInfo tells, but for its generation."""
    copy = vars(info.clone())
    return {key: value for key, value in copy.items() if key not in ("generation", "classes")}
