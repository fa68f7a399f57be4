"""An HTTP service that answers what a change would do: `python what_if_service.py cluster.yaml`."""

from __future__ import annotations

import sys
from threading import Event

from moorage.cli.asked_twin import AskedTwin
from moorage.live.twin_server import TwinServer


def server(*files: str, port: int = 8080) -> TwinServer:
    return TwinServer(("127.0.0.1", port), AskedTwin(None, files).reply, alive={}, ready={}, metrics=bytes)


if __name__ == "__main__":
    server(*sys.argv[1:])
    Event().wait()
