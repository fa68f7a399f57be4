"""Records what an API server answers to the requests of vectors.

``MOORAGE_SERVERS=… python -m tests.live.record_admission FILE…`` starts etcd and kube-apiserver, makes the
objects of each vector's setup, asks its request as a dry run, and writes the vectors with these answers. A
vector needs no ``result`` before: a new one is its setup and its request. Namespaces stay, so each vector has
its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from .kit.api_answers import ApiAnswers, path_of
from .kit.control_plane import ControlPlane

Json = dict[str, Any]
MADE_UP_TIME = "2026-11-01T00:00:00Z"
POLICIES_SETTLE = 2.5
"""Seconds until the server has read policies that were written."""
_OF_SERVER = ("managedFields", "uid", "creationTimestamp", "resourceVersion", "generation")
_ALLOCATED = ("clusterIP", "clusterIPs")


def record(server: ApiAnswers, vector: Json) -> Json:
    """Return a vector with the answer of a server, beside the objects of its setup."""
    setup = [_make(server, obj) for obj in vector["setup"]]
    if any("admissionregistration" in obj["apiVersion"] for obj in setup):
        time.sleep(POLICIES_SETTLE)
    request = vector["request"]
    result = server.answer(_with_version(server, request))
    for obj in reversed(setup):
        _remove(server, obj)
    if "object" in result:
        result["object"] = _shown(result["object"])
    return vector | {"setup": [_existing(obj) for obj in setup], "result": result}


def _make(server: ApiAnswers, obj: Json) -> Json:
    """Make an object with its status, and return it as it is stored."""
    obj = {**obj, "metadata": {key: item for key, item in obj["metadata"].items() if key not in _OF_SERVER}}
    result = server.answer({"verb": "create", "object": obj}, is_dry=False)
    if result["code"] == 409 and obj["kind"] == "Namespace":
        return _get(server, obj)
    if "object" not in result:
        raise ValueError(f"{obj['kind']} {obj['metadata']['name']}: {result}")
    stored: Json = result["object"]
    if obj["kind"] == "Namespace":  # a controller would make it
        meta = {"name": "default", "namespace": obj["metadata"]["name"]}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
        server.answer({"verb": "create", "object": account}, is_dry=False)
    if obj.get("status"):
        path, body = f"{path_of(obj)}/status", {"status": obj["status"]}
        code, _, answer = server.send("PATCH", path, body, "application/merge-patch+json")
        assert code == 200, answer
        stored = json.loads(answer)
    return stored


def _get(server: ApiAnswers, obj: Json) -> Json:
    stored: Json = json.loads(server.send("GET", path_of(obj))[2])
    return stored


def _with_version(server: ApiAnswers, request: Json) -> Json:
    """Return a request whose update has the version that is stored."""
    if request["verb"] != "update":
        return request
    stored = _get(server, request["object"])["metadata"]
    own = {name: stored[name] for name in ("uid", "resourceVersion", "creationTimestamp")}
    return request | {"object": request["object"] | {"metadata": request["object"]["metadata"] | own}}


def _remove(server: ApiAnswers, obj: Json) -> None:
    """Delete an object at once; namespaces stay, since no controller empties them."""
    if obj["kind"] == "Namespace":
        return
    if obj["metadata"].get("finalizers"):
        gone = {"metadata": {"finalizers": None}}
        server.send("PATCH", path_of(obj), gone, "application/merge-patch+json")
    server.send(
        "DELETE", path_of(obj), {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    )


def _existing(obj: Json) -> Json:
    """Return an object of a setup, with what a server chooses made up."""
    meta = {key: item for key, item in obj["metadata"].items() if key not in _OF_SERVER}
    named = f"{obj['kind']}/{meta.get('namespace', '')}/{meta['name']}"
    made_up = {"uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, named)), "resourceVersion": "1"}
    return obj | {"metadata": meta | made_up | {"creationTimestamp": MADE_UP_TIME}}


def _shown(obj: Json) -> Json:
    """Return an object of an answer with words for what is random."""
    meta = obj["metadata"]
    text = json.dumps(obj | {"metadata": {key: item for key, item in meta.items() if key not in _OF_SERVER}})
    if uid := meta.get("uid"):
        text = text.replace(uid, "UID")
    text = re.sub(r"kube-api-access-[a-z0-9]{5}", "kube-api-access-00000", text)
    if prefix := meta.get("generateName"):
        text = text.replace(meta["name"], f"{prefix}GENERATED")
    shown: Json = json.loads(text)
    for name in _ALLOCATED:
        if shown["kind"] == "Service" and shown["spec"].get(name) not in (None, "None", ["None"]):
            shown["spec"][name] = ["ALLOCATED"] if name.endswith("s") else "ALLOCATED"
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="gzipped lines, which are written anew")
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as scratch:
        plane = ControlPlane(Path(os.environ["MOORAGE_SERVERS"]), Path(scratch))
        try:
            plane.start_etcd()
            plane.start_apiserver(disabled="", authorization="AlwaysAllow")
            server = ApiAnswers(plane.port)
            for path in files:
                with gzip.open(path, "rt") as lines:
                    vectors = [*map(json.loads, lines)]
                recorded = [record(server, vector) for vector in vectors]
                text = "".join(json.dumps(vector) + "\n" for vector in recorded)
                path.write_bytes(gzip.compress(text.encode(), mtime=0))
                print(f"{path}: {len(recorded)} vectors", flush=True)
        finally:
            plane.stop()


if __name__ == "__main__":
    main()
