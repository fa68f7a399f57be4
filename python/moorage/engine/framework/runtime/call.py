"""Calls of plugins: an exception or a result of a wrong type becomes an Error status."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from moorage.errors import MoorageError, PluginError
from moorage.kube import Pod

from ..plugin.interface import Plugin
from ..plugin.plugin_errors import PluginErrors
from ..plugin.status import Code, Status

logger = logging.getLogger("moorage.framework")


class StatusError(MoorageError):
    """Carries an Error status through a search, which it ends."""

    def __init__(self, status: Status) -> None:
        self.status = status
        super().__init__(status.message())


def ask(plugin: Plugin, pod: Pod | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a plugin; the pod is for the log.

    Raises
    ------
    StatusError
        The method raised: ``plugin "X" raised ValueError: …``.
    Exception
        The exception itself, where the scheduler fails fast.
    """
    handle = plugin.handle
    try:
        if handle is not None and handle.observer is not None:
            return handle.observer.call(plugin, function, arguments)
        return function(*arguments)
    except Exception as error:  # an exception of a plugin never ends the process
        raise StatusError(_raised(plugin, pod, error)) from error


def _raised(plugin: Plugin, pod: Pod | None, error: Exception) -> Status:
    raised = PluginError(note_exception(plugin, "" if pod is None else f"pod {pod.key}", error))
    raised.__cause__ = error
    return Status(Code.ERROR, err=raised)


def note_exception(plugin: Plugin, about: str, error: Exception) -> str:
    """Log and count an exception of a plugin in a call about something, for example ``pod default/p``; return
    the message of the Error: ``plugin "X" raised ValueError: …``."""
    text = f'plugin "{plugin.name}" raised {type(error).__name__}: {error}'
    errors = PluginErrors() if plugin.handle is None else plugin.handle.plugin_errors
    errors.note(plugin.name, about, text, error)
    return text


def answer_of(plugin: Plugin, pod: Pod | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a plugin as `ask` does, and return an Error status in place of an exception.

    The pod is None where only the core knows it (`PluginErrors.tell`).
    """
    try:
        return ask(plugin, pod, function, *arguments)
    except StatusError as failed:
        return failed.status


def ask_status(plugin: Plugin, pod: Pod, function: Callable[..., Any], *arguments: Any) -> Status | None:
    """Call a method of a plugin that returns a status.

    Parameters
    ----------
    pod : Pod
        The pod of the call, for the log.
    function : callable
        The bound method.
    *arguments : object
        Its arguments.

    Returns
    -------
    Status or None
        An Error where the method raised or returned another type.
    """
    return to_status(plugin, answer_of(plugin, pod, function, *arguments))


def to_status(plugin: Plugin, answer: Any) -> Status | None:
    """Return the result of a plugin if it is a Status or None, else an Error.

    Parameters
    ----------
    answer : object
        The result of a method of the plugin.
    """
    if answer is None or isinstance(answer, Status):
        return answer
    return wrong_answer(plugin, answer, "a Status")


def wrong_answer(plugin: Plugin, answer: Any, wanted: str) -> Status:
    """Return the Error for a plugin's result of a wrong type.

    Parameters
    ----------
    wanted : str
        Description of the expected type.
    """
    text = f'plugin "{plugin.name}" answered {type(answer).__name__}, not {wanted}'
    return Status(Code.ERROR, err=PluginError(text))
