"""A server of the wire format, and a client of it."""

from __future__ import annotations

from tests.store.api.conftest import client as client
from tests.store.api.conftest import server as server
from tests.store.api.conftest import slept as slept
from tests.store.api.conftest import store as store
