"""CycleState: the data of plugins for one scheduling cycle (kube-scheduler v1.36, cycle_state.go)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moorage._core.decide.terms import Terms
from moorage._core.state.pod_class import Shape
from moorage.errors import MoorageError
from moorage.objects import Pod


class NotFoundError(MoorageError):
    """Nothing was written under that key."""


NOT_FOUND = NotFoundError("not found")


@dataclass(slots=True, eq=False)
class CycleState:
    """A store of one cycle, by key. Threads may share it: every operation is one operation of a dict.

    Attributes
    ----------
    shape : Shape
        What the pod of this cycle asks for, as the core has it; set by the engine.
    terms : Terms
        The spread constraints and affinity terms that the pod is judged by; set by the engine.
    target : (int, int, int)
        The pod's class, and the symbols of the node it names and of the one it is pinned to.
    skip_filter_plugins, skip_score_plugins, skip_pre_bind_plugins : set of str
        Plugins that answered Skip in PreFilter, PreScore or PreBindPreFlight.
    parallel_pre_bind_plugins : set of str
        Plugins whose PreBind may run beside others.
    skip_all_post_filter_plugins : bool
        A plugin may set this before PostFilter.
    reserved : bool
        Reserve has run, and no plugin failed there.
    removed_pods : dict of str to Pod
        By UID, pods that a dry run has removed from other nodes than the one being filtered, for native
        plugins; other plugins are informed by their PreFilter extensions.
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
    _data: dict[str, Any] = field(default_factory=dict, init=False)

    def read(self, key: str) -> Any:
        """Parameters
        ----------
        key : str

        Returns
        -------
        object
            What was written under `key`.

        Raises
        ------
        NotFoundError
            `NOT_FOUND`, where nothing was written.
        """
        try:
            return self._data[key]
        except KeyError:
            raise NOT_FOUND.with_traceback(None) from None

    def write(self, key: str, value: Any) -> None:
        """Store a value, replacing an earlier one.

        Parameters
        ----------
        key : str
        value : object
        """
        self._data[key] = value

    def delete(self, key: str) -> None:
        """Remove a key, if it is there.

        Parameters
        ----------
        key : str
        """
        self._data.pop(key, None)

    def clone(self) -> CycleState:
        """A copy with a clone of each value that has a method `clone`; the skip sets are shared."""
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
