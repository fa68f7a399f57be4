"""Pods between the begin of PreBind and their binding (kube-scheduler v1.36, pods_in_prebind_map.go)."""

from __future__ import annotations

import threading


class PodInPreBind:
    """A pod in PreBind, which may be cancelled until it is marked as done with it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finished = False
        self._cause: str | None = None

    @property
    def cause(self) -> str:
        """Why the pod was cancelled; "" where it was not."""
        return self._cause or ""

    def cancel_pod(self, message: str) -> bool:
        """Cancel the pod's binding; False where that comes too late. The first message is the cause."""
        with self._lock:
            if self._finished:
                return False
            if self._cause is None:
                self._cause = message
            return True

    def mark_prebound(self) -> bool:
        """PreBind is over; False where the pod was cancelled before."""
        with self._lock:
            self._finished = self._cause is None
            return self._finished


class PodsInPreBind:
    """The pods in PreBind by UID. Thread-safe: every operation is one operation of a dict."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBind] = {}

    def add(self, uid: str) -> PodInPreBind:
        """A pod begins PreBind."""
        one = self._pods[uid] = PodInPreBind()
        return one

    def get(self, uid: str) -> PodInPreBind | None:
        """The pod of a UID, or None where it is not in PreBind."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """A pod's binding cycle has ended."""
        self._pods.pop(uid, None)
