"""Observer: how long extension points and plugins take, and how often plugins are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..plugin.status import Code, Status
from .filtering import PreFilterRun

if TYPE_CHECKING:
    from ..plugin.interface import Plugin
    from .runtime import Framework

SAMPLED = 10
"""Plugins are timed in one of so many cycles (kube-scheduler v1.36, pluginMetricsSamplePercent)."""
_RUNS = {
    "run_pre_filter_plugins": "PreFilter",
    "run_post_filter_plugins": "PostFilter",
    "run_pre_score_plugins": "PreScore",
    "run_score_plugins": "Score",
    "run_reserve_plugins_reserve": "Reserve",
    "run_reserve_plugins_unreserve": "Unreserve",
    "run_permit_plugins": "Permit",
    "run_pre_bind_pre_flights": "PreBindPreFlight",
    "pre_bind_steps": "PreBind",
    "run_bind_plugins": "Bind",
    "run_post_bind_plugins": "PostBind",
}
"""Method of a framework to the extension point that it runs."""
_CALLS = {
    "pre_filter": "PreFilter",
    "add_pod": "PreFilterExtensionAddPod",
    "remove_pod": "PreFilterExtensionRemovePod",
    "filter": "Filter",
    "filter_all": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "score_all": "Score",
    "normalize_score": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind_pre_flight": "PreBindPreFlight",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}
"""Method of a plugin to its extension point."""
EVALUATED = frozenset({"PreFilter", "Filter", "PreScore", "Score"})
"""The extension points whose calls are counted."""


class Observer(ABC):
    """Is told of the runs of extension points and the calls of plugins of a scheduler.

    It is that of a handle (`FrameworkHandle.observer`). What the core decides by itself is no call.
    """

    def __init__(self) -> None:
        self._cycles = 0

    @abstractmethod
    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Note a run of an extension point.

        Parameters
        ----------
        point, status, profile : str
            Names of the extension point, of the code of its result, and of the profile.
        """

    @abstractmethod
    def evaluated(self, plugin: str, point: str, profile: str, count: int) -> None:
        """Note calls of a plugin at one of `EVALUATED`.

        Parameters
        ----------
        count : int
            The number of nodes at Filter and Score, else 1.
        """

    @abstractmethod
    def executed(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Note the duration of a call of a plugin, in a cycle whose plugins are timed."""

    @abstractmethod
    def algorithm(self, seconds: float) -> None:
        """Note the search for a node for one pod, with PostFilter."""

    @abstractmethod
    def waited(self, status: str, seconds: float) -> None:
        """Note the end of a pod's wait on Permit.

        Parameters
        ----------
        status : str
            Name of the code with which it ended.
        """

    def follow(self, framework: Framework) -> None:
        """Note the runs of the extension points of a framework from now on."""
        for method, point in _RUNS.items():
            timed = self._stepwise if method == "pre_bind_steps" else self._timed
            setattr(framework, method, timed(framework, point, getattr(framework, method)))

    def _timed(self, framework: Framework, point: str, run: Callable[..., Any]) -> Callable[..., Any]:
        profile, begins = framework.profile.scheduler_name, point == "PreFilter"

        def timed(*arguments: Any, **options: Any) -> Any:
            if begins:
                self._cycles += 1
            began = perf_counter()
            answer = run(*arguments, **options)
            self.point(point, _code(answer), profile, perf_counter() - began)
            return answer

        return timed

    def _stepwise(self, framework: Framework, point: str, run: Callable[..., Any]) -> Callable[..., Any]:
        profile = framework.profile.scheduler_name

        def timed(*arguments: Any, **options: Any) -> Generator[Any, None, Any]:
            began = perf_counter()
            answer = yield from run(*arguments, **options)
            self.point(point, _code(answer), profile, perf_counter() - began)
            return answer

        return timed

    def call(self, plugin: Plugin, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a method of a plugin.

        Parameters
        ----------
        plugin : Plugin
            With a handle.
        function : callable
            The bound method.

        Returns
        -------
        object
            The result of the method.
        """
        name = function.__name__
        point = _CALLS.get(name)
        if point is None:
            return function(*arguments)
        if point in EVALUATED:
            count = len(arguments[-1]) if name.endswith("_all") else 1
            framework = plugin.handle.framework if plugin.handle is not None else None
            profile = "" if framework is None else framework.profile.scheduler_name
            self.evaluated(plugin.name, point, profile, count)
        if self._cycles % SAMPLED != 1:
            return function(*arguments)
        began, status = perf_counter(), str(Code.ERROR)
        try:
            answer = function(*arguments)
            status = _code(answer)
            return answer
        finally:
            self.executed(plugin.name, point, status, perf_counter() - began)


def _code(answer: object) -> str:
    """Return the name of the code of a run or a call."""
    if isinstance(answer, PreFilterRun):
        answer = answer.rejection
    parts = answer if isinstance(answer, tuple) else (answer,)
    status = next((part for part in parts if isinstance(part, Status)), None)
    return str(Code.SUCCESS if status is None else status.code)
