"""The node tree: zones in first-seen order, round robin, and the zone key."""

from __future__ import annotations

import pytest
from tests.doors.engine import zone_key

OLD, NEW = "failure-domain.beta.kubernetes.io/", "topology.kubernetes.io/"


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({}, ""),
        ({"zone": "z"}, ""),
        ({NEW + "zone": "z"}, ":\x00:z"),
        ({NEW + "region": "r"}, "r:\x00:"),
        ({NEW + "region": "r", NEW + "zone": "z"}, "r:\x00:z"),
        ({OLD + "zone": "old", NEW + "zone": "new", NEW + "region": "r"}, "r:\x00:old"),
        ({OLD + "region": "old", NEW + "region": "new", NEW + "zone": "z"}, "old:\x00:z"),
        ({NEW + "zone": "", NEW + "region": ""}, ""),
    ],
)
def test_the_zone_key_of_a_node_is_made_of_its_region_and_zone(labels: dict[str, str], key: str) -> None:
    assert zone_key(labels) == key
