"""Questions and changes stand under their names, and an error says where."""

from __future__ import annotations

import pytest

import moorage as mo
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


def test_questions_and_changes_name_the_nearest() -> None:
    one = Scheduler(Cluster())
    with pytest.raises(AttributeError, match=r"^Questions has no attribute 'explan'; nearest: explain,"):
        _ = one.ask.explan  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^ClusterChanges has no attribute 'drian'; nearest: drain$"):
        _ = one.change.drian  # type: ignore[attr-defined]


def test_what_a_user_holds_is_printed_in_a_line() -> None:
    one = Scheduler(mo.load("examples"))
    pod = next(iter(one.pods.pending.values()))
    with one.transaction() as transaction:
        preemption = one.preempt_pods([])
        held = [one, one.table, one.handle, pod, transaction, preemption, one.cache, one.profile]
        held += [one.ask, one.change, *one.profile.plugins]
        held += [one.schedule_one(pod), *one.run().unschedulable.values()]
        assert [repr(each) for each in held if len(repr(each)) > 200 or "\n" in repr(each)] == []
        assert repr(pod) == f"<Pod {pod.key}>"
        assert [repr(each) for each in held if " object at 0x" in repr(each)] == []
        preemption.undo()
