"""Answers of an API server that cannot be read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.doors.live import collection, status_of

from moorage.kube import Node, Pod
from moorage.store import ServerError

NO_TEXT = b'{"metadata": {"name": "\xb1", "resourceVersion": "\xb1"}, "type": "\xb1"}'
UNREADABLE = [NO_TEXT, b"[" * 5000, b"{", b"5"]


@pytest.mark.parametrize("body", UNREADABLE)
def test_what_cannot_be_read_is_an_error_of_the_server(body: bytes) -> None:
    readers: list[Any] = [
        lambda: collection.decode_object_of(Pod, body),
        lambda: collection.decode_list(Node, body),
        lambda: collection.decode_event(body),
    ]
    for reader in readers:
        with pytest.raises(ServerError, match="of the API server cannot be read"):
            reader()
    assert status_of(body, 500).code == 500


def test_a_bookmark_without_metadata_is_an_error_of_the_server() -> None:
    event = collection.RawEvent("BOOKMARK", msgspec.Raw(b'{"metadata": 5}'))
    with pytest.raises(ServerError, match="a bookmark of the API server cannot be read"):
        collection.decode_bookmark(Pod, event)


def test_pods_of_one_template_share_what_they_have_in_common() -> None:
    spec = {"containers": [{"name": "main", "image": "web:1"}]}
    items = [
        {
            "metadata": {
                "name": name,
                "namespace": "n",
                "uid": name,
                "resourceVersion": "1",
                "labels": {"app": "web"},
            },
            "spec": {**spec, "nodeName": name},
        }
        for name in ("a", "b")
    ]
    body = msgspec.json.encode({"kind": "PodList", "metadata": {"resourceVersion": "2"}, "items": items})
    one, two = collection.decode_list(Pod, body).objects
    assert (one.spec.node_name, two.spec.node_name) == ("a", "b")
    assert one.spec.containers is two.spec.containers
    assert one.metadata.labels is two.metadata.labels
