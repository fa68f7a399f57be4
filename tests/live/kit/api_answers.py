"""Asks an API server, and answers as vectors of admission have it (`tests/conformance/admission`)."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import quote

from tests.doors.kube import CLUSTER_SCOPED, plural_of

Json = dict[str, Any]
_METHODS = {
    "create": ("POST", "application/json"),
    "update": ("PUT", "application/json"),
    "apply-server-side": ("PATCH", "application/apply-patch+yaml"),
}


class ApiAnswers:
    """Asks an API server over one connection.

    Parameters
    ----------
    port : int
        On loopback.
    token : str
        Of the administrator.
    """

    def __init__(self, port: int, token: str = "admin-token") -> None:
        self._port, self._token = port, token
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._connection: http.client.HTTPSConnection | None = None

    def answer(self, request: Json, *, is_dry: bool = True) -> Json:
        """Return the answer to the request of a vector; code 0 if the server closed the connection."""
        obj = request.get("raw", request["object"])
        method, type_ = _METHODS[request["verb"]]
        path = path_of(request["object"]) if method != "POST" else collection_of(request["object"])
        if part := request.get("subresource"):
            path += f"/{part}"
        query = [f"fieldValidation={request.get('fieldValidation', 'Strict')}", *["dryRun=All"] * is_dry]
        if method == "PATCH":
            query += ["fieldManager=other", f"force={str(request.get('force', False)).lower()}"]
        code, warnings, body = self.send(method, f"{path}?{'&'.join(query)}", obj, type_)
        answer = json.loads(body) if body.startswith(b"{") else {"message": body.decode(errors="replace")}
        if 0 < code < 400:
            return {"code": code, "warnings": warnings, "object": answer}
        result = {"code": code, "reason": answer.get("reason", "NotFound" * (code == 404))}
        causes = (answer.get("details") or {}).get("causes") or []
        return result | {"message": answer.get("message", ""), "causes": causes, "warnings": warnings}

    def send(
        self, method: str, path: str, body: Json | str | None = None, type_: str = "application/json"
    ) -> tuple[int, list[str], bytes]:
        """Send a request; return code, warnings and body, code 0 without an answer."""
        text = json.dumps(body) if isinstance(body, dict) else body
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": type_}
        try:
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(
                    "127.0.0.1", self._port, timeout=60, context=self._context
                )
            self._connection.request(method, path, text, headers)
            response = self._connection.getresponse()
            listed = [value for name, value in response.getheaders() if name.lower() == "warning"]
            warnings = [json.loads(value.split(" ", 2)[2]) for value in listed]
            return response.status, warnings, response.read()
        except (http.client.HTTPException, OSError):
            self._connection = None
            return 0, [], b""


def collection_of(obj: Json) -> str:
    """Return the path under which objects like this one are made."""
    group, _, version = obj["apiVersion"].rpartition("/")
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    meta = obj.get("metadata") if isinstance(obj.get("metadata"), dict) else {}
    if obj["kind"] not in CLUSTER_SCOPED:
        path += f"/namespaces/{_in_path(meta.get('namespace'))}"
    return f"{path}/{plural_of(obj['kind'])}"


def path_of(obj: Json) -> str:
    """Return the path of an object."""
    return f"{collection_of(obj)}/{obj['metadata']['name']}"


def _in_path(namespace: Any) -> str:
    """Return a namespace for a path, the default one where there is none."""
    return quote(namespace, safe="") if namespace and isinstance(namespace, str) else "default"
