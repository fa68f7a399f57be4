"""The command line, ``moorage …``, which requires the extra ``[cli]``."""

from __future__ import annotations

import gc
import os
import sys
from importlib.util import find_spec

from moorage.errors import missing

MANY_OBJECTS = 300_000, 10, 10
"""Thresholds of the garbage collector. With those of Python it looks for cycles at every 700th object, which
takes a tenth of a short command."""


def main(arguments: list[str] | None = None, as_plugin: bool = False) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        Arguments of the command; by default those of the process.
    as_plugin : bool, optional
        Whether kubectl runs it: commands then read the cluster of the current context before other input.

    Returns
    -------
    int
        Exit code: 0 done; 1 ``check`` and ``explain`` answer no; 2 bad input; 130 interrupted.
    """
    gc.set_threshold(*MANY_OBJECTS)  # before imports, which make most objects of a short command
    if arguments is None and sys.stdout is sys.__stdout__:
        keep_stdout()
    if find_spec("click") is None:
        print(f"error: {missing('click', 'cli')}", file=sys.stderr)
        return 2
    from .app import run

    return run(arguments, as_plugin)


def keep_stdout() -> None:
    """Keep the standard output for the answer: what libraries write on its descriptor goes to stderr.

    For the program of a process, before it imports libraries: all of the process shares the descriptor.
    """
    encoding, errors = (None, None) if sys.stdout is None else (sys.stdout.encoding, sys.stdout.errors)
    try:
        if sys.stdout is None:  # it is closed: to write there fails, as on a disk that is full
            answer = os.open(os.devnull, os.O_RDONLY)
        else:
            answer = os.dup(1)
            os.dup2(2, 1)
    except OSError:  # stderr is closed
        return
    sys.stdout = sys.__stdout__ = open(  # type: ignore[misc]  # noqa: SIM115  it stays open
        answer, "w", encoding=encoding, errors=errors, closefd=False
    )


def plugin() -> int:
    """Run the command line as a plugin of kubectl."""
    return main(as_plugin=True)


def complete() -> int:
    """Offer kubectl what completes ``kubectl moorage …``: values with their help, then what the shell does.

    kubectl calls ``kubectl_complete-moorage`` with the words so far, the begun one last. The number in the
    last line is a ``ShellCompDirective`` of cobra: 0 has the shell offer files, 4 forbids it.
    """
    from click.shell_completion import ShellComplete

    from .app import app

    *words, begun = sys.argv[1:] or [""]
    offers = ShellComplete(app, {}, "moorage", "").get_completions(words, begun)
    named = [offer for offer in offers if offer.type == "plain"]
    for offer in named:
        print(f"{offer.value}\t{offer.help}" if offer.help else offer.value)
    print(f":{0 if len(named) < len(offers) else 4}")
    return 0
