"""The patch that schedulers write, held against the general strategic merge."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from moorage.objects.model.meta import Condition, ObjectMeta
from moorage.objects.model.pod import Pod, PodStatus
from moorage.store import ApiError
from moorage.store.patches import patch as patches
from moorage.store.patches.pod_status import patched_pod

texts = st.sampled_from(["", "A", "B", "é", "\ud800"])
types = st.sampled_from(["Ready", "PodScheduled", "DisruptionTarget"])
conditions = st.builds(
    Condition, types, texts.filter(str.isascii), last_transition_time=st.sampled_from([None, "t"])
)
statuses = st.builds(
    PodStatus,
    phase=st.just("Running"),
    nominated_node_name=st.sampled_from(["", "n"]),
    conditions=st.lists(conditions, max_size=3).map(tuple),
)
items = st.fixed_dictionaries(
    {
        "type": types | st.sampled_from([None, "", 1]),
        "status": texts,
        "reason": texts,
        "message": texts | st.none(),
        "lastTransitionTime": st.sampled_from([None, "t", 1]),
    },
    optional={"$patch": st.just("delete")},
)
written = st.fixed_dictionaries(
    {
        "metadata": st.sampled_from([{"uid": "u"}, {"uid": ""}, {"uid": "other"}, {"uid": None}, {}]),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "nominatedNodeName": st.sampled_from(["", "n", "m", None, 1]),
                "conditions": st.lists(items, max_size=2),
                "phase": st.just("Failed"),
            },
        ),
    }
)


def result(current: Pod, given: Any) -> Any:
    try:
        return patches.apply_patch(current, given, "strategic", "status")
    except ApiError as error:
        return type(error), str(error)


@given(statuses, written)
def test_it_is_the_strategic_merge(status: PodStatus, given: Any) -> None:
    current = Pod(metadata=ObjectMeta(name="a", namespace="default", uid="u"), status=status)
    ours = result(current, given)
    with patch.object(patches, "patched_pod", lambda *given: None):
        assert ours == result(current, given)


def test_it_is_taken_for_what_schedulers_write() -> None:
    condition = {"type": "T", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": None}
    changes = {"nominatedNodeName": "n", "conditions": [condition]}
    found = patched_pod(Pod(), {"metadata": {"uid": "u"}, "status": changes})
    assert found is not None
    assert found.status == PodStatus(nominated_node_name="n", conditions=(Condition("T", "True", "R", "m"),))
