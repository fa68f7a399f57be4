"""Questions and changes stand under their names, and an error says where."""

from __future__ import annotations

import pytest

from moorage import Cluster, Scheduler


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("drain", ": it is change.drain"),
        ("explain", ": it is ask.explain"),
        ("schedule_pod", "; nearest: schedule_pods"),
        ("something", ""),
    ],
)
def test_an_unknown_name_says_where_it_stands(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(Scheduler(Cluster()), name)
    assert str(raised.value).startswith(f"a Scheduler has no attribute '{name}'{hint}")
