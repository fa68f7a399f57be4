"""A real API server answers as the store in memory does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.store.test_contract import *  # noqa: F403
from tests.store.test_contract import OTHER, Pages

from moorage.kube import Pod
from moorage.live.client import ApiClient
from moorage.store import ObjectClient

pytestmark = pytest.mark.live


@pytest.fixture(params=["streams", "pages"])
def client(request: pytest.FixtureRequest, connected: Callable[..., ApiClient]) -> Iterator[ObjectClient]:
    client = connected()
    yield ApiClient(Pages(client.connection)) if request.param == "pages" else client
    for pod in client.list(Pod)[0]:
        if pod.metadata.finalizers:
            client.patch(Pod, pod.name, pod.namespace, {"metadata": {"finalizers": None}})
    for pod in client.list(Pod, OTHER)[0]:
        client.delete(Pod, pod.name, OTHER)
