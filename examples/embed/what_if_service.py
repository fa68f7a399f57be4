"""An HTTP service that answers what a change would do to a cluster.

    python what_if_service.py cluster.yaml
    curl -d '{"remove_nodes": ["node-1"]}' localhost:8080/what-if

A request is a JSON object, whose keys are all optional: `apply` (manifests), `delete` (such as
``deploy/web``), `remove_nodes` (names), and `add_nodes` (the name of a node, and how many more like it). The
answer has the pods that would be placed, those that would stay without a node, and why. The cluster of the
service stays as it is: each request works on a fork of its own. There is no authentication: put it behind a
server that has one.
"""

from __future__ import annotations

import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

import moorage as mo

_MOST_BYTES = 16 << 20
_KEYS = ("apply", "delete", "remove_nodes", "add_nodes")


class WhatIf:
    """Answers questions about one cluster. Thread-safe."""

    def __init__(self, cluster: mo.Cluster) -> None:
        self._scheduler = mo.Scheduler(cluster)
        self._lock = Lock()
        with self._lock:
            self._scheduler.run()  # what is pending now is no consequence of a change

    def answer(self, change: dict[str, Any]) -> dict[str, Any]:
        """Return what a change does.

        Raises
        ------
        InputError
            The change is no object of the known keys, or the engine refuses it.
        """
        if not isinstance(change, dict) or any(key not in _KEYS for key in change):
            raise mo.InputError(f"an object with these keys is wanted: {', '.join(_KEYS)}")
        with self._lock:
            fork = self._scheduler.fork()
        if manifests := change.get("apply"):
            fork.apply(manifests)
        if references := change.get("delete"):
            fork.delete(*references)
        for name, number in change.get("add_nodes", {}).items():
            fork.add_nodes(number, like=name)
        if nodes := change.get("remove_nodes"):
            fork.remove_nodes(nodes)
        result = fork.run()
        return {
            "placed": dict(sorted(result.placements.items())),
            "unschedulable": {key: one.message for key, one in sorted(result.unschedulable.items())},
        }


def server(what_if: WhatIf, port: int = 8080) -> ThreadingHTTPServer:
    """Return a server on the loopback interface, which `serve_forever` starts."""

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # the body does not wait until the head is acknowledged

        def do_POST(self) -> None:
            if self.path != "/what-if":
                self._send(HTTPStatus.NOT_FOUND, {"error": "the path is /what-if"})
                return
            length = int(self.headers.get("Content-Length") or 0)
            if length > _MOST_BYTES:
                self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"more than {_MOST_BYTES} bytes"})
                return
            try:
                self._send(HTTPStatus.OK, what_if.answer(json.loads(self.rfile.read(length))))
            except (ValueError, TypeError, AttributeError, mo.MoorageError) as error:
                self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})

        def _send(self, status: HTTPStatus, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server(WhatIf(mo.load(*sys.argv[1:]))).serve_forever()
