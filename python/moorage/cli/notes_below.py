"""The notes of a command: they stand in its answer, or below it when it has ended."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moorage.errors import PluginError, place_of
from moorage.notes import WARNING

from .messages import BASIS, NOTES, QUIET, VERBOSE, CommandNote, note, print_message

_OF_PLUGINS = "moorage.framework"


class _PluginFailures(logging.Handler):
    """Makes a note of what is logged about the failures of plugins."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info and record.exc_info[1]
        note(WARNING, record.getMessage() + (place_of(error) if error else ""))


@contextmanager
def notes_below(meta: dict[str, Any]) -> Iterator[None]:
    """Print the notes of a command that its answer has not, after it has ended: on a terminal the number of
    those that are the same at every command.

    Parameters
    ----------
    meta : dict
        That of the context of the command.
    """
    notes: list[CommandNote] = []
    meta[NOTES] = notes
    logger, failures = logging.getLogger(_OF_PLUGINS), _PluginFailures()
    logger.addHandler(failures)
    logger.propagate = False
    try:
        yield
    except PluginError:  # it says what the notes would
        notes.clear()
        raise
    finally:
        logger.removeHandler(failures)
        logger.propagate = True
        del meta[NOTES]
        shows_all = meta.get(VERBOSE) or not sys.stderr.isatty()
        below = [] if meta.get(QUIET) else [message for message in notes if message.kind != BASIS]
        for message in below:
            if shows_all or not message.folds:
                print_message(*message)
        number = sum(message.folds and bool(message.kind) for message in below)
        if number and not shows_all:
            notes_are, pronoun = ("note is", "it") if number == 1 else ("notes are", "them")
            same = f"{number} {notes_are} the same at every command with this input"
            print(f"{same}; -v shows {pronoun}", file=sys.stderr)
