"""Image states: counts over the nodes, and the size that the first reporter gave."""

from __future__ import annotations

import pytest
from tests.doors.engine import normalized_image_name


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
