"""Status: the result of plugins, where None is Success (kube-scheduler v1.36, framework/interface.go).
CycleState: what plugins store for one scheduling cycle (cycle_state.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage._core.decide.terms import Terms
from moorage._core.state.pod_class import Shape
from moorage.errors import MoorageError, PluginError
from moorage.kube import Pod


class Code(IntEnum):
    """Status codes of kube-scheduler v1.36; ``str()`` returns upstream's name."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True, eq=False)
class Status:
    """The outcome of a plugin's call; ``None`` in its place is Success.

    Statuses are immutable: methods that change a Status upstream return a new one.

    Attributes
    ----------
    code : Code
        The status code.
    texts : tuple of str
        The reasons, without the message of the error.
    plugin : str
        Name of the plugin, set by the runtime.
    err : Exception or None
        The exception behind an Error.

    Raises
    ------
    TypeError
        The code is no Code, or the texts are no tuple of str.
    """

    code: Code
    texts: tuple[str, ...] = ()
    plugin: str = ""
    err: BaseException | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.code, Code):
            raise TypeError(f"the code of a Status is a Code, as Code.UNSCHEDULABLE, not {self.code!r}")
        texts = self.texts
        if texts != () and not (isinstance(texts, tuple) and all(isinstance(text, str) for text in texts)):
            raise TypeError(f'the texts of a Status are a tuple of str, as in ("text",), not {texts!r}')

    @property
    def reasons(self) -> tuple[str, ...]:
        """The message of the error, if there is one, followed by the other reasons."""
        return self.texts if self.err is None else (str(self.err), *self.texts)

    def message(self) -> str:
        """Return the reasons, joined as upstream joins them."""
        return ", ".join(self.reasons)

    __str__ = message

    @property
    def is_success(self) -> bool:
        """Whether the plugin accepts."""
        return self.code == Code.SUCCESS

    @property
    def is_wait(self) -> bool:
        """Whether a Permit plugin lets the pod wait."""
        return self.code == Code.WAIT

    @property
    def is_skip(self) -> bool:
        """Whether the plugin has nothing to do for this pod."""
        return self.code == Code.SKIP

    @property
    def is_rejected(self) -> bool:
        """Whether the code is Unschedulable, UnschedulableAndUnresolvable or Pending."""
        return self.code in REJECTED

    def as_error(self) -> BaseException | None:
        """Return the error of this status; None for Success, Wait and Skip."""
        if self.code in (Code.SUCCESS, Code.WAIT, Code.SKIP):
            return None
        return self.err or PluginError(self.message())

    def with_plugin(self, plugin: str) -> Status:
        """Return a copy with the name of a plugin.

        Parameters
        ----------
        plugin : str
            Name of the plugin that returned the status.
        """
        return self if self.plugin == plugin else replace(self, plugin=plugin)

    def append_reason(self, reason: str) -> Status:
        """Return a copy with one more reason at the end."""
        return replace(self, texts=(*self.texts, reason))

    def __eq__(self, other: object) -> bool:
        """Compare codes, reasons in order, plugins and errors; an error may be the cause of the other."""
        if not isinstance(other, Status):
            return NotImplemented
        mine, theirs = (self.code, self.texts, self.plugin), (other.code, other.texts, other.plugin)
        return mine == theirs and (_wraps(self.err, other.err) or _wraps(other.err, self.err))

    def __hash__(self) -> int:
        return hash((self.code, self.texts, self.plugin))


SKIP = Status(Code.SKIP)


def _wraps(error: BaseException | None, target: BaseException | None) -> bool:
    """Whether an error is or has the cause `target` (Go's ``errors.Is``)."""
    if target is None:
        return error is None
    while error is not target and error is not None:
        error = error.__cause__
    return error is target


def as_status(err: BaseException | None) -> Status | None:
    """Return the Error status of an exception.

    Parameters
    ----------
    err : Exception or None
        The exception.

    Returns
    -------
    Status or None
        None for None.
    """
    return None if err is None else Status(Code.ERROR, err=err)


def error_status(text: str, status: Status, plugin: str = "") -> Status:
    """Return the Error ``text: …`` that wraps an unexpected status of a plugin.

    Parameters
    ----------
    status : Status
        The unexpected status. Of Wait and Skip, for which upstream prints ``%!w(<nil>)``, the message has the
        reasons, or the code if there are none.
    """
    err = PluginError(f"{text}: {status.message() or status.code}")
    err.__cause__ = status.as_error()
    return Status(Code.ERROR, plugin=plugin, err=err)


class NodeToStatus(Mapping[str, Status]):
    """Rejecting status by node, in list order, computed at the first access.

    Source: kube-scheduler v1.36, framework/types.go.

    Parameters
    ----------
    read : callable
        Computes the statuses; it must be called before the cluster changes.
    from_search : bool
        Whether the statuses are verdicts of the core's last search for the nodes that it searched, and
        UnschedulableAndUnresolvable for all others.
    """

    def __init__(self, nodes: int, read: Callable[[], dict[str, Status]], from_search: bool = False) -> None:
        self._nodes = nodes
        self._read = read
        self.from_search = from_search

    @cached_property
    def _statuses(self) -> dict[str, Status]:
        return self._read()

    def __getitem__(self, name: str) -> Status:
        return self._statuses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statuses)

    def __len__(self) -> int:
        return self._nodes


FILTER_CODES = (Code.SUCCESS, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """One of a few statuses for each node.

    Attributes
    ----------
    numbers : (nodes,) array of integers
        Index in `statuses` by node.
    statuses : sequence of Status or None
        None where the pod fits; a rejection; any other status fails the cycle if a node has it.
    """

    numbers: npt.NDArray[np.integer[Any]]
    statuses: Sequence[Status | None]


def read_answers(
    name: str, answer: npt.ArrayLike | Answers, nodes: int, verdict: Callable[[int], Status | None]
) -> Answers:
    """Check and normalize the result of `filter_all`.

    Parameters
    ----------
    answer : (nodes,) array of bool or int, or Answers
        The result of the plugin.
    verdict : callable
        Returns the status of a code; called if the plugin returned booleans or codes.

    Raises
    ------
    PluginError
        The result has a wrong shape or invalid values.
    """
    if isinstance(answer, Answers):
        values = _one_each("filter_all", name, answer.numbers, nodes)
        known = values.dtype.kind in "iu" and int(values.max(initial=0)) < len(answer.statuses)
        if not known or (values.dtype.kind == "i" and values.min(initial=0) < 0):
            raise PluginError(f'filter_all of plugin "{name}" answered numbers of no status')
        return Answers(values, answer.statuses)
    values = _one_each("filter_all", name, answer, nodes)
    if values.dtype == bool:
        rejections = () if values.all() else (verdict(Code.UNSCHEDULABLE),)
        return Answers((~values).view(np.uint8), (None, *rejections))
    values = filter_codes("filter_all", name, values, nodes)
    there = np.flatnonzero(np.bincount(values, minlength=1)).tolist()
    return Answers(np.searchsorted(there, values), [verdict(code) for code in there])


def filter_codes(method: str, name: str, answer: npt.ArrayLike, nodes: int) -> npt.NDArray[np.uint8]:
    """Return the codes that a method of a plugin has answered, as booleans or as codes.

    Raises
    ------
    PluginError
        See `read_answers`.
    """
    values = _one_each(method, name, answer, nodes)
    if values.dtype == bool:
        return np.where(values, np.uint8(Code.SUCCESS), np.uint8(Code.UNSCHEDULABLE))
    if values.dtype.kind not in "iu" or not np.isin(values, FILTER_CODES).all():
        raise PluginError(f'{method} of plugin "{name}" answered neither booleans nor codes of Filter')
    return values.astype(np.uint8)


def _one_each(method: str, name: str, answer: npt.ArrayLike, nodes: int) -> npt.NDArray[Any]:
    """Return an answer that has one value for each node."""
    values = np.asarray(answer)
    if values.shape != (nodes,):
        raise PluginError(f'{method} of plugin "{name}" answered shape {values.shape} for {nodes} nodes')
    return values


def fit_error(nodes: int, reasons: Mapping[str, int]) -> str:
    """Return the message of a FitError.

    Parameters
    ----------
    reasons : mapping of str to int
        Number of nodes by reason.

    Returns
    -------
    str
        The reasons with their numbers, sorted as text, so that "10 x" comes before "2 y".
    """
    return with_detail(nodes, ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items())))


def with_detail(nodes: int, detail: str) -> str:
    """Return the message of a FitError with one sentence about all nodes.

    Parameters
    ----------
    detail : str
        The sentence; "" for none.
    """
    head = f"0/{nodes} nodes are available:"
    return f"{head} {detail}." if detail else head


# ---- cycle state -------------------------------------------------------------------------------------------


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
