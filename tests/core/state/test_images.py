"""Image states: counts over the nodes, and the size that the first reporter gave."""

from __future__ import annotations

import pytest
from tests.core.make import node
from tests.doors.engine import ClusterState, normalized_image_name


def holding(**images: list[tuple[list[str], int]]) -> ClusterState:
    """A state with these nodes and the images that they report."""
    one = ClusterState()
    for name, reported in images.items():
        one.set_node(node(name, images=reported))
    return one


def test_every_name_of_an_image_counts() -> None:
    one = holding(a=[(["i:1", "i@sha256:0"], 5)], b=[(["i:1"], 5)])
    assert (one.images.state("i:1"), one.images.state("i@sha256:0")) == ((2, 5), (1, 5))
    assert one.images.state("none") is None


def test_the_first_reporter_gives_the_size() -> None:
    one = holding(a=[(["i"], 5)], b=[(["i"], 9)])
    assert one.images.state("i") == (2, 5)
    one.remove_node("a")
    assert one.images.state("i") == (1, 5)
    one.set_node(node("a", images=[(["i"], 4)]))
    assert one.images.state("i") == (2, 5)


def test_an_image_that_no_node_has_is_forgotten() -> None:
    one = holding(a=[(["i"], 5)])
    one.remove_node("a")
    assert one.images.state("i") is None
    one.set_node(node("b", images=[(["i"], 9)]))
    assert one.images.state("i") == (1, 9)


def test_an_only_reporter_that_changes_its_mind() -> None:
    one = holding(a=[(["i"], 5)])
    one.set_node(node("a", images=[(["i"], 6)]))
    assert one.images.state("i") == (1, 6)
    one.set_node(node("a"))
    assert one.images.state("i") is None


def test_a_name_reported_twice_by_one_node_counts_once() -> None:
    one = holding(a=[(["i", "i"], 5), (["i"], 9)])
    assert one.images.state("i") == (1, 5)
    one.set_node(node("a", images=[(["i"], 9)]))
    assert one.images.state("i") == (1, 9)


def test_names_of_nodes_are_taken_as_they_stand() -> None:
    one = holding(a=[(["i"], 5)])
    assert one.images.state("i:latest") is None


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.2", "nginx:1.2"),
        ("example.com:5000/nginx", "example.com:5000/nginx:latest"),
        ("example.com:5000/nginx:1", "example.com:5000/nginx:1"),
        ("nginx@sha256:00", "nginx@sha256:00"),
    ],
)
def test_the_name_of_an_image_is_normalized_as_upstream_does(name: str, normalized: str) -> None:
    assert normalized_image_name(name) == normalized
