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
        self.untold: list[tuple[str, str, Exception]] = []

    def note(self, plugin: str, about: str, text: str, error: Exception) -> None:
        """Log the first exception of each plugin and type with its traceback, and count the others.

        Parameters
        ----------
        about : str
            The object of the call, for example ``pod default/p``; "" for a pod that only the core knows: the
            exception is kept until `tell` names it.
        """
        if not about:
            self.untold.append((plugin, text, error))
            return
        kind = plugin, type(error).__name__
        self.counts[kind] += 1
        if self.fail_fast:
            raise error
        if self.counts[kind] == 1:
            logger.error("%s: %s", about, text, exc_info=error)
        else:
            self._silent[kind] += 1

    def tell(self, about: str) -> None:
        """Note the exceptions that were kept, now that their pod is known."""
        while self.untold:
            plugin, text, error = self.untold.pop(0)
            self.note(plugin, about, text, error)

    def summarize(self) -> None:
        """Log the number of exceptions since the last summary that were only counted."""
        if not self._silent:
            return
        for (plugin, error), more in self._silent.items():
            logger.error('plugin "%s" raised %s %d more times', plugin, error, more)
        self._silent.clear()
