"""Calls of plugins: an exception, or an answer of a wrong type, becomes an Error status."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from moorage.errors import MoorageError, PluginError
from moorage.framework.plugin.interface import Plugin
from moorage.framework.plugin.status import Code, Status
from moorage.objects import Pod

logger = logging.getLogger("moorage.framework")

Kind = tuple[str, str]
"""Name of the plugin, and of the exception's type."""


class PluginErrors:
    """Logs and counts the exceptions of the plugins of a scheduler.

    Parameters
    ----------
    fail_fast : bool
        Raise an exception again, instead of failing the pod that the plugin was asked about.

    Attributes
    ----------
    counts : Counter
        How often, by plugin and type of the exception.
    """

    def __init__(self, fail_fast: bool = False) -> None:
        self.fail_fast = fail_fast
        self.counts: Counter[Kind] = Counter()
        self._silent: Counter[Kind] = Counter()

    def note(self, plugin: str, about: str, text: str, error: Exception) -> None:
        """Log the first exception of a plugin and type, with its traceback, and count the others.

        Parameters
        ----------
        plugin : str
        about : str
            What the call was about: ``pod default/p``.
        text : str
            The message to log.
        error : Exception
        """
        kind = plugin, type(error).__name__
        self.counts[kind] += 1
        if self.fail_fast:
            raise error
        if self.counts[kind] == 1:
            logger.error("%s: %s", about, text, exc_info=error)
        else:
            self._silent[kind] += 1

    def summarize(self) -> None:
        """Log the number of exceptions since the last summary that were only counted."""
        if not self._silent:
            return
        for (plugin, error), more in self._silent.items():
            logger.error('plugin "%s" raised %s %d more times', plugin, error, more)
        self._silent.clear()


class StatusError(MoorageError):
    """Carries the Error status that ends a cycle out of a search."""

    def __init__(self, status: Status) -> None:
        self.status = status
        super().__init__(status.message())


def ask(plugin: Plugin, pod: Pod, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a plugin.

    Parameters
    ----------
    plugin : Plugin
        The plugin to call.
    pod : Pod
        The pod that the call is about, for the log.
    function : callable
    *arguments : object

    Returns
    -------
    object
        What the function returns.

    Raises
    ------
    StatusError
        The function raised: ``plugin "X" raised ValueError: …``.
    Exception
        That exception itself, where the scheduler fails fast.
    """
    try:
        return function(*arguments)
    except Exception as error:  # a plugin may raise anything, and never ends the process
        raise StatusError(_raised(plugin, pod, error)) from error


def _raised(plugin: Plugin, pod: Pod, error: Exception) -> Status:
    raised = PluginError(note_exception(plugin, f"pod {pod.key}", error))
    raised.__cause__ = error
    return Status(Code.ERROR, err=raised)


def note_exception(plugin: Plugin, about: str, error: Exception) -> str:
    """Log and count an exception of a plugin.

    Parameters
    ----------
    plugin : Plugin
    about : str
        What the call was about: ``pod default/p``.
    error : Exception

    Returns
    -------
    str
        The text of the Error: ``plugin "X" raised ValueError: …``.
    """
    text = f'plugin "{plugin.name}" raised {type(error).__name__}: {error}'
    errors = PluginErrors() if plugin.handle is None else plugin.handle.plugin_errors
    errors.note(plugin.name, about, text, error)
    return text


def answer_of(plugin: Plugin, pod: Pod, function: Callable[..., Any], *arguments: Any) -> Any:
    """As `ask`; where the function raises, the Error status is the answer.

    Parameters
    ----------
    plugin : Plugin
    pod : Pod
    function : callable
    *arguments : object

    Returns
    -------
    object
    """
    try:
        return function(*arguments)
    except Exception as error:  # as in `ask`
        return _raised(plugin, pod, error)


def ask_status(plugin: Plugin, pod: Pod, function: Callable[..., Any], *arguments: Any) -> Status | None:
    """Call a method of a plugin that returns a status.

    Parameters
    ----------
    plugin : Plugin
        The plugin to call.
    pod : Pod
        The pod that the call is about, for the log.
    function : callable
    *arguments : object

    Returns
    -------
    Status or None
        An Error where the function raised, or returned anything else.
    """
    return to_status(plugin, answer_of(plugin, pod, function, *arguments))


def to_status(plugin: Plugin, answer: Any) -> Status | None:
    """The answer of a plugin if it is a Status or None, else an Error.

    Parameters
    ----------
    plugin : Plugin
    answer : object

    Returns
    -------
    Status or None
    """
    if answer is None or isinstance(answer, Status):
        return answer
    return wrong_answer(plugin, answer, "a Status")


def wrong_answer(plugin: Plugin, answer: Any, wanted: str) -> Status:
    """The Error about an answer of a wrong type; `wanted` is the text of the right one.

    Parameters
    ----------
    plugin : Plugin
    answer : object
    wanted : str

    Returns
    -------
    Status
    """
    text = f'plugin "{plugin.name}" answered {type(answer).__name__}, not {wanted}'
    return Status(Code.ERROR, err=PluginError(text))
