"""What terms say of a node that pods would leave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core._kernels import ffi, lib
from tests.core.kernel_world import World

counted = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=3)  # pods that stay, and that go


@given(
    st.integers(0, 2),
    st.lists(st.integers(0, 2), max_size=2),
    st.integers(0, 2),
    counted,
    counted,
    st.booleans(),
)
def test_pods_that_are_removed_from_a_node_do_not_count(
    n_hard: int,
    near: list[int],
    gone: int,
    anti: list[tuple[int, int]],
    existing: list[tuple[int, int]],
    self_affine: bool,
) -> None:
    """As if the counters had never counted them. Pods that match all required terms have one count."""
    world = World()

    def verdict(are_counted: bool) -> int:
        terms = world.new("mr_terms *", {"n_hard": n_hard, "self_affine": self_affine})
        for kind, counts in (
            ("affinity", [(stay, gone) for stay in near]),
            ("anti", anti),
            ("existing", existing),
        ):
            items = world.new(f"mr_pod_term[{max(len(counts), 1)}]")
            for item, (stay, go) in zip(items, counts, strict=False):
                pods = stay + go * are_counted
                counter = {
                    "domain": world.array("int32_t", [2]),
                    "pods": world.array("int32_t", [pods, 0, pods]),
                }
                item.counter = world.new("mr_counter *", counter)
            setattr(terms, kind, items)
            setattr(terms, f"n_{kind}", len(counts))
        removed = [9] * n_hard + [gone] + [go for _, go in (*anti, *existing)]
        return int(lib.mr_inter_pod_filter(terms, 0, removed if are_counted else ffi.NULL))

    assert verdict(True) == verdict(False)
