"""PluginErrors: the exceptions that plugins raised, each reported once and then counted."""

from __future__ import annotations

import logging
from collections import Counter

logger = logging.getLogger("moorage.framework")

Kind = tuple[str, str]
"""Name of the plugin, and of the exception's type."""


class PluginErrors:
    """What the plugins of a scheduler have raised.

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
        self._summarized: Counter[Kind] = Counter()

    def note(self, plugin: str, about: str, text: str, error: Exception) -> None:
        """A plugin raised: log the first exception of its kind with its traceback, and count the others.

        Parameters
        ----------
        about, text : str
            What the plugin was asked about, as ``pod default/p``, and what the log says.
        """
        kind = plugin, type(error).__name__
        self.counts[kind] += 1
        if self.fail_fast or self.counts[kind] == 1:
            self._summarized[kind] += 1
        if self.fail_fast:
            raise error
        if self.counts[kind] == 1:
            logger.error("%s: %s", about, text, exc_info=error)

    def summarize(self) -> None:
        """Log how many exceptions there were since the last summary that were not logged one by one."""
        if self.counts == self._summarized:
            return
        for (plugin, error), more in (self.counts - self._summarized).items():
            logger.error('plugin "%s" raised %s %d more times', plugin, error, more)
        self._summarized = self.counts.copy()
