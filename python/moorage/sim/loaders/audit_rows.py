"""Requests of audit logs, out of what clouds wrap them in; and pods whose names a log does not have."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.kube import Pod
from moorage.kube.read.decode import UNREADABLE
from moorage.kube.read.files import read_file

from .trace_rows import json_rows, list_of, map_of

_LISTS = ("records", "events", "logEvents")
_INNER = ("jsonPayload", "properties", "log", "message", "@message")
"""Fields in which Azure, CloudWatch, Google and collectors of logs have requests."""
_METHOD = re.compile(r"io\.k8s\.core\.v1\.([a-z]+)(?:\.([a-z]+))?\.([a-z]+)")
_NAME = re.compile(r"core/v1/(?:namespaces/([^/]+)/)?([a-z]+)(?:/([^/]+))?")


def audit_rows(paths: Sequence[str | Path], note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Iterate over the requests of audit logs: JSON lines, or one JSON list.

    Parameters
    ----------
    note : callable
        Gets what is left out.

    Yields
    ------
    dict
        Events of audit.k8s.io.
    """
    for path in paths:
        for row in _rows(path):
            found = list(_unwrapped(row))
            if not found:
                note("lines left out: not an event of an audit log")
            yield from found


def _rows(path: str | Path) -> Iterator[Any]:
    rows = (row for _, row in json_rows(path))
    for first in rows:
        if first is None:  # the beginning of a document of several lines, such as that of gcloud and aws
            with suppress(*UNREADABLE):
                yield msgspec.json.decode(read_file(str(path)))
                return
        yield first
        break
    yield from rows


def _unwrapped(row: Any) -> Iterator[dict[str, Any]]:
    """Iterate over the requests in a value of any depth."""
    pending = [row]
    while pending:
        value = pending.pop()
        if isinstance(value, str) and "{" in value:
            try:
                value = msgspec.json.decode(value[value.index("{") :])
            except UNREADABLE:
                continue
        if isinstance(value, list):
            pending += value[::-1]
        if not isinstance(value, dict):
            continue
        if "protoPayload" in value:
            if (event := _of_google(value)) is not None:
                yield event
        elif "objectRef" in value or "auditID" in value or "stage" in value:
            yield value
        else:
            inner = [value[name] for name in _INNER if name in value]
            pending += inner[::-1] + [part for name in _LISTS for part in list_of(value.get(name))][::-1]


def _of_google(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return the request of an entry of Cloud Logging; None for one that is not about the core group."""
    payload = map_of(entry["protoPayload"])
    method = _METHOD.fullmatch(str(payload.get("methodName")))
    named = _NAME.match(str(payload.get("resourceName")))
    if method is None or named is None:
        return None
    resource, part, verb = method.groups()
    failed = map_of(payload.get("status")).get("code")
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": {
            "resource": resource,
            "namespace": named[1],
            "name": named[3],
            "subresource": part,
        },
        "responseStatus": {"code": 500 if failed else 200},
        "stageTimestamp": entry.get("timestamp"),
        "requestObject": payload.get("request"),
        "responseObject": payload.get("response"),
    }


class UnnamedPods:
    """Pods whose names the server has made, and which a log of level Request does not have."""

    def __init__(self) -> None:
        self._waiting: defaultdict[tuple[str, str], list[tuple[float, Pod]]] = defaultdict(list)
        self._known: set[tuple[str, str]] = set()

    def add(self, time: float, pod: Pod, namespace: str) -> None:
        """Keep a pod until a request has its name.

        Parameters
        ----------
        pod : Pod
            With ``generateName``.
        """
        self._waiting[namespace, pod.metadata.generate_name].append((time, pod))

    def named(self, about: dict[str, Any], name: Any) -> tuple[float, Pod] | None:
        """Return the oldest pod that may have the name which a request is about; it is kept no longer.

        Parameters
        ----------
        about : dict
            The reference of the request.

        Returns
        -------
        (float, Pod) or None
            Time and pod, with its name.
        """
        namespace = str(about.get("namespace") or "default")
        if about.get("resource") != "pods" or not isinstance(name, str) or (namespace, name) in self._known:
            return None
        waiting = self._waiting.get((namespace, f"{name.rpartition('-')[0]}-"))
        if not waiting:
            return None
        self._known.add((namespace, name))
        time, pod = waiting.pop(0)
        return time, replace(pod, metadata=replace(pod.metadata, name=name, namespace=namespace))

    def rest(self) -> Iterator[tuple[float, Pod]]:
        """Iterate over the pods that no request has named; they get names of their own."""
        for (namespace, base), waiting in self._waiting.items():
            for number, (time, pod) in enumerate(waiting):
                yield (
                    time,
                    replace(
                        pod,
                        metadata=replace(pod.metadata, name=f"{base}unknown-{number}", namespace=namespace),
                    ),
                )
