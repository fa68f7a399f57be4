"""CycleState: data that plugins store for one scheduling cycle (kube-scheduler v1.36, cycle_state.go)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moorage._core.decide.terms import Terms
from moorage._core.state.pod_class import Shape
from moorage.errors import MoorageError
from moorage.kube import Pod


class NotFoundError(MoorageError):
    """No value was written under a key."""


NOT_FOUND = NotFoundError("not found")


@dataclass(slots=True, eq=False)
class CycleState:
    """A key-value store for one scheduling cycle.

    Threads may share it: every operation is a single operation on a dict.

    Attributes
    ----------
    shape : Shape
        Requests and constraints of the pod in the core; set by the engine.
    terms : Terms
        Spread constraints and affinity terms of the cycle; set by the engine.
    target : (int, int, int)
        The pod's class, and the symbols of the node that the pod names and of the node to which it is pinned.
        The class is void once the pod is assumed: classes may be numbered anew meanwhile.
    asks_volume_plugins : bool
        Whether the plugins about volumes and claims are called.
    skip_filter_plugins, skip_score_plugins, skip_pre_bind_plugins : set of str
        Plugins that returned Skip in PreFilter, PreScore or PreBindPreFlight.
    parallel_pre_bind_plugins : set of str
        Plugins whose PreBind may run at the same time as others.
    skip_all_post_filter_plugins : bool
        Skips PostFilter; a plugin may set it.
    reserved : bool
        Whether Reserve has run without a failure.
    removed_pods : dict of str to Pod
        Pods by UID that a dry run has removed from nodes other than the one being filtered, for native
        plugins; other plugins are notified through their PreFilter extensions.
    """

    skip_filter_plugins: set[str] = field(default_factory=set)
    skip_score_plugins: set[str] = field(default_factory=set)
    skip_pre_bind_plugins: set[str] = field(default_factory=set)
    parallel_pre_bind_plugins: set[str] = field(default_factory=set)
    skip_all_post_filter_plugins: bool = False
    reserved: bool = False
    removed_pods: dict[str, Pod] = field(default_factory=dict)
    shape: Shape = field(init=False)
    terms: Terms = field(init=False)
    target: tuple[int, int, int] = field(init=False)
    asks_volume_plugins: bool = field(init=False)
    _data: dict[str, Any] = field(default_factory=dict, init=False)

    def read(self, key: str) -> Any:
        """Return the value of a key.

        Returns
        -------
        object
            The value written under `key`.

        Raises
        ------
        NotFoundError
            No value was written (`NOT_FOUND`).
        """
        try:
            return self._data[key]
        except KeyError:
            raise NOT_FOUND.with_traceback(None) from None

    def find(self, key: str) -> Any:
        """Return the value of a key, or None where no value was written."""
        return self._data.get(key)

    def write(self, key: str, value: Any) -> None:
        """Store a value, in place of an earlier one.

        Parameters
        ----------
        value : object
            The value; it is cloned with the state if it has a method `clone`.
        """
        self._data[key] = value

    def delete(self, key: str) -> None:
        """Remove a key if it exists."""
        self._data.pop(key, None)

    def clone(self) -> CycleState:
        """Return a copy in which values with a method `clone` are cloned; the skip sets are shared."""
        out = CycleState()
        for name in self.__slots__:
            if hasattr(self, name):
                setattr(out, name, getattr(self, name))
        out.removed_pods = self.removed_pods.copy()
        out._data = {
            key: value.clone() if hasattr(value, "clone") else value
            for key, value in self._data.copy().items()
        }
        return out
