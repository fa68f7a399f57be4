"""What can be sent to another process, and what says what to send in its place."""

from __future__ import annotations

import copy
import pickle

import pytest

import moorage as mo


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy, lambda value: value.__reduce__()])
def test_what_cannot_be_sent_says_what_can(send: object) -> None:
    assert callable(send)
    scheduler = mo.Scheduler(mo.synthetic(nodes=2, pods=4))
    sentences = {
        "send its Cluster, and make a Scheduler of it there": scheduler,
        "send to_arrow()": scheduler.run(),
        "send its objects, as list() returns them": scheduler.client,
    }
    for sentence, value in sentences.items():
        with pytest.raises(TypeError, match="cannot be pickled") as caught:
            send(value)
        assert sentence in str(caught.value)


def test_clusters_and_tables_can_be_sent() -> None:
    cluster = mo.synthetic(nodes=2, pods=4)
    result = mo.Scheduler(pickle.loads(pickle.dumps(cluster))).run()
    table = result.to_arrow()
    table.__arrow_c_stream__()
    sent = pickle.loads(pickle.dumps(table))
    assert [list(column) for column in sent.columns.values()] == [list(one) for one in table.columns.values()]
