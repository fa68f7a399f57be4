"""Status, the return value of plugins; None is Success (kube-scheduler v1.36, framework/interface.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage.errors import PluginError


class Code(IntEnum):
    """Status codes of kube-scheduler v1.36; ``str()`` gives upstream's name."""

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

    A value: methods that change a Status upstream return a new one here.

    Attributes
    ----------
    code : Code
    texts : tuple of str
        The reasons, without the text of the error.
    plugin : str
        Name of the plugin, which the runtime sets.
    err : Exception or None
        The error behind an Error.
    """

    code: Code
    texts: tuple[str, ...] = ()
    plugin: str = ""
    err: BaseException | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The text of the error, if there is one, then the other reasons."""
        return self.texts if self.err is None else (str(self.err), *self.texts)

    def message(self) -> str:
        """The reasons, joined as upstream joins them."""
        return ", ".join(self.reasons)

    __str__ = message

    @property
    def is_success(self) -> bool:
        return self.code == Code.SUCCESS

    @property
    def is_wait(self) -> bool:
        return self.code == Code.WAIT

    @property
    def is_skip(self) -> bool:
        return self.code == Code.SKIP

    @property
    def is_rejected(self) -> bool:
        """True for Unschedulable, UnschedulableAndUnresolvable and Pending."""
        return self.code in REJECTED

    def as_error(self) -> BaseException | None:
        """The error that this status stands for; None for Success, Wait and Skip."""
        if self.code in (Code.SUCCESS, Code.WAIT, Code.SKIP):
            return None
        return self.err or PluginError(self.message())

    def with_plugin(self, plugin: str) -> Status:
        """A copy with the name of the plugin that answered.

        Parameters
        ----------
        plugin : str

        Returns
        -------
        Status
        """
        return self if self.plugin == plugin else replace(self, plugin=plugin)

    def append_reason(self, reason: str) -> Status:
        """A copy with one more reason at the end.

        Parameters
        ----------
        reason : str

        Returns
        -------
        Status
        """
        return replace(self, texts=(*self.texts, reason))

    def __eq__(self, other: object) -> bool:
        """Equal codes, reasons in order, plugins and errors; one error may be the cause of the other."""
        if not isinstance(other, Status):
            return NotImplemented
        mine, theirs = (self.code, self.texts, self.plugin), (other.code, other.texts, other.plugin)
        return mine == theirs and (_wraps(self.err, other.err) or _wraps(other.err, self.err))

    def __hash__(self) -> int:
        return hash((self.code, self.texts, self.plugin))


SKIP = Status(Code.SKIP)


def _wraps(error: BaseException | None, target: BaseException | None) -> bool:
    """Go's ``errors.Is`` over the chain of causes."""
    if target is None:
        return error is None
    while error is not target and error is not None:
        error = error.__cause__
    return error is target


def as_status(err: BaseException | None) -> Status | None:
    """The Error status of an exception.

    Parameters
    ----------
    err : Exception or None

    Returns
    -------
    Status or None
        None for None.
    """
    return None if err is None else Status(Code.ERROR, err=err)


def error_status(text: str, status: Status, plugin: str = "") -> Status:
    """The Error ``text: …`` that wraps an unexpected status of a plugin.

    Parameters
    ----------
    text : str
    status : Status
        Of Wait and Skip, for which upstream prints ``%!w(<nil>)``, the text has the reasons, else the code.
    plugin : str, optional

    Returns
    -------
    Status
    """
    err = PluginError(f"{text}: {status.message() or status.code}")
    err.__cause__ = status.as_error()
    return Status(Code.ERROR, plugin=plugin, err=err)


def message_of(status: Status | None) -> str:
    """The message; "" for None.

    Parameters
    ----------
    status : Status or None

    Returns
    -------
    str
    """
    return "" if status is None else status.message()


class NodeToStatus(Mapping[str, Status]):
    """Node name to the status that rejects the pod there, in list order; computed at the first access
    (kube-scheduler v1.36, framework/types.go).

    Parameters
    ----------
    nodes : int
        The number of nodes.
    read : callable
        Computes the statuses. It must be called before the cluster changes.
    from_search : bool
        The statuses are verdicts of the core's last search for the nodes that it searched, and
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
        Per node the place of its status in `statuses`.
    statuses : sequence of Status or None
        None where the pod fits; a rejection; or anything else, which fails the cycle of the pod with an Error
        where some node has it.
    """

    numbers: npt.NDArray[np.integer[Any]]
    statuses: Sequence[Status | None]


def read_answers(
    name: str, answer: npt.ArrayLike | Answers, nodes: int, verdict: Callable[[int], Status | None]
) -> Answers:
    """Check and unify what `filter_all` of a plugin returned.

    Parameters
    ----------
    name : str
        The plugin's.
    answer : (nodes,) array of bool or int, or Answers
    nodes : int
    verdict : callable
        The status of a code; called where the plugin gave booleans or codes.

    Returns
    -------
    Answers

    Raises
    ------
    ValueError
        For another shape, or for other values.
    """
    values = np.asarray(answer.numbers if isinstance(answer, Answers) else answer)
    if values.shape != (nodes,):
        raise ValueError(f'filter_all of plugin "{name}" answered shape {values.shape} for {nodes} nodes')
    if isinstance(answer, Answers):
        known = values.dtype.kind in "iu" and int(values.max(initial=0)) < len(answer.statuses)
        if not known or (values.dtype.kind == "i" and values.min(initial=0) < 0):
            raise ValueError(f'filter_all of plugin "{name}" answered numbers of no status')
        return Answers(values, answer.statuses)
    if values.dtype == bool:
        rejections = () if values.all() else (verdict(Code.UNSCHEDULABLE),)
        return Answers((~values).view(np.uint8), (None, *rejections))
    if values.dtype.kind not in "iu" or not np.isin(values, FILTER_CODES).all():
        raise ValueError(f'filter_all of plugin "{name}" answered neither booleans nor codes of Filter')
    there = np.flatnonzero(np.bincount(values, minlength=1)).tolist()
    return Answers(np.searchsorted(there, values), [verdict(code) for code in there])


def fit_error(nodes: int, reasons: Mapping[str, int]) -> str:
    """The text of a FitError.

    Parameters
    ----------
    nodes : int
        How many nodes there are.
    reasons : mapping of str to int
        Number of nodes by reason.

    Returns
    -------
    str
        The reasons sorted as text with their numbers, so that "10 x" comes before "2 y".
    """
    return with_detail(nodes, ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items())))


def with_detail(nodes: int, detail: str) -> str:
    """The text of a FitError with one sentence for all nodes.

    Parameters
    ----------
    nodes : int
    detail : str
        "" for none.

    Returns
    -------
    str
    """
    head = f"0/{nodes} nodes are available:"
    return f"{head} {detail}." if detail else head
