"""The exceptions of plugins: logged once per plugin and type, and counted."""

from __future__ import annotations

import logging
from collections import Counter

logger = logging.getLogger("moorage.framework")

Kind = tuple[str, str]
"""Name of the plugin, and name of the exception type."""


class PluginErrors:
    """Logs and counts the exceptions that plugins of a scheduler raise.

    Parameters
    ----------
    fail_fast : bool
        Re-raise an exception instead of failing the pod in question.

    Attributes
    ----------
    counts : Counter
        Number of exceptions by plugin and exception type.
    """

    def __init__(self, fail_fast: bool = False) -> None:
        self.fail_fast = fail_fast
        self.counts: Counter[Kind] = Counter()
        self._silent: Counter[Kind] = Counter()

    def note(self, plugin: str, about: str, text: str, error: Exception) -> None:
        """Log the first exception of each plugin and type with its traceback, and count the others.

        Parameters
        ----------
        plugin : str
            Name of the plugin.
        about : str
            The object of the call, for example ``pod default/p``.
        text : str
            The message to log.
        error : Exception
            The exception.
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
