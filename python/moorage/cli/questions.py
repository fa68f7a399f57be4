"""What a request asks, as the command that gives the same answer.

There is one way from a question to an answer: the command itself. Its options are those of a question, so
whatever a command learns, a twin can be asked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import click

from moorage.errors import InputError, nearest, shorten
from moorage.kube.read.files import STDIN
from moorage.lazy import NamedTuple

from .app import app

ASKED = ("check", "explain", "capacity", "nodes", "lint", "plan", "compare", "simulate")
"""The commands whose questions are answered; of a group its commands."""
OF_INPUT = frozenset(("files", "recursive", "kubeconfig", "context", "in_cluster", "synthetic"))
"""Parameters that say which cluster is asked about. Of a twin it is always its own."""
PLUGINS = "plugins"
"""The parameter that runs a file, which only who starts the server may name."""
OF_TERMINAL = frozenset(("quiet", "notes"))
TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "junit": "application/xml",
    "png": "image/png",
    "svg": "image/svg+xml",
}
"""The media type of a form of ``-o``; of the others that of a text."""
TEXT = "text/plain; charset=utf-8"
_BETWEEN_WORDS = re.compile(r"[\s=,;:]+")
_YES, _NO = ("", "true", "1"), ("false", "0")


class TwinQuestion(NamedTuple):
    """A command that answers a request.

    Attributes
    ----------
    words : tuple of str
        Its name: ``check``, or ``plan`` and ``drain``.
    options : tuple of str
        All arguments but those about the cluster.
    form : str
        Of ``-o``.
    """

    words: tuple[str, ...]
    options: tuple[str, ...]
    stdin: bytes
    form: str

    @property
    def type(self) -> str:
        """The media type of the answer."""
        return TYPES.get(self.form, TEXT)

    def arguments(self, cluster: Sequence[str]) -> list[str]:
        """Return the arguments of the command.

        Parameters
        ----------
        cluster : sequence of str
            The options that name the cluster, such as ``-f cluster.json``.
        """
        named = [word.partition("=")[2] if word.startswith("--") else word for word in self.options]
        reads = ["-f", STDIN] if self.stdin and STDIN not in named else []
        return [*self.words, *cluster, *reads, *self.options]

    def command(self, cluster: Sequence[str]) -> str:
        """Return the command as a shell takes it."""
        return shlex.join(["moorage", *self.arguments(cluster)])


def named_questions() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the names of the commands that answer questions, and the commands."""
    context = click.Context(app)
    for name in ASKED:
        command = app.get_command(context, name)
        if isinstance(command, click.Group):
            for part in command.list_commands(context):
                if (of_group := command.get_command(context, part)) is not None:
                    yield (name, part), of_group
        elif command is not None:
            yield (name,), command


def command_of(path: str) -> tuple[tuple[str, ...], click.Command]:
    """Return the command that a path such as ``plan/drain`` names.

    Raises
    ------
    LookupError
        There is none; the text names those that there are.
    """
    known = {"/".join(words): (words, command) for words, command in named_questions()}
    named = known.get(path.strip("/"))
    if named is None:
        text = (
            f"there is no question {shorten(path, 40)!r}{nearest(path, known)}; known are {', '.join(known)}"
        )
        raise LookupError(text)
    return named


def question_of(
    path: str,
    query: Sequence[tuple[str, str]],
    body: bytes = b"",
    defaults: Sequence[tuple[str, str]] = (),
) -> TwinQuestion:
    """Return the command that answers a request.

    Parameters
    ----------
    path : str
        Such as ``check``, or ``plan/drain``.
    query : sequence of (str, str)
        Options without dashes, or names of arguments, with their values, in the order given. A flag needs no
        value. An option with several arguments has them in one value, as in a shell.
    body : bytes, optional
        What the command reads from standard input: manifests, or what an option with the value ``-`` names.
    defaults : sequence of (str, str), optional
        Options that hold where the query does not give them, for the commands that have them.

    Raises
    ------
    LookupError
        See `command_of`.
    InputError
        An option is not known, or names a file or another cluster.
    """
    words, command = command_of(path)
    parameters = parameters_of(command)
    given = {parameters[name].name or "" for name, _ in query if name in parameters}
    whole = [
        *(
            (name, text)
            for name, text in defaults
            if name in parameters and (parameters[name].name or "") not in given
        ),
        *query,
    ]
    if "output" in parameters and "output" not in given:
        whole.append(("output", "json"))
    options, positional = list[str](), list[str]()
    for name, value in whole:
        parameter = parameters.get(name)
        if parameter is None:
            raise InputError(
                f"there is no such option{nearest(name, parameters)}",
                source="/".join(words),
                obj=repr(shorten(name, 40)),
            )
        if (name, value) not in defaults:
            if parameter.name == PLUGINS:
                raise InputError("a question names no plugins; give them to serve twin", source=f"--{name}")
            _refuse_files(name, value)
        if isinstance(parameter, click.Argument):
            positional.append(value)
        else:
            options += _written(parameter, name, value)
    marks = ["--"] if any(word.startswith("-") for word in positional) else []
    form = next((value for name, value in reversed(whole) if name in ("output", "o")), "")
    return TwinQuestion(words, (*options, *marks, *positional), body, form)


def parameters_of(command: click.Command) -> dict[str, click.Parameter]:
    """Return the parameters that a question may give, by each of their names without dashes."""
    return {
        name.lstrip("-"): parameter
        for parameter in command.params
        if parameter.name not in OF_INPUT | OF_TERMINAL
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def long_name(parameter: click.Parameter) -> str:
    """Return the name of a parameter, as its help shows it first, without dashes."""
    return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0]).lstrip("-")


def _written(parameter: click.Parameter, name: str, value: str) -> list[str]:
    """Return an option as a command line has it."""
    assert isinstance(parameter, click.Option)
    option = f"--{long_name(parameter)}"
    if f"--{name}" in parameter.secondary_opts:
        option = f"--{name}"
    if parameter.is_flag or parameter.count:
        if value not in (*_YES, *_NO):
            raise InputError(f"a flag is true or false, not {shorten(value, 40)!r}", source=option)
        return [option] if value in _YES else []
    if parameter.nargs == 1:
        return [f"{option}={value}"]
    try:
        parts = shlex.split(value)
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", source=option, obj=shorten(value, 40)) from None
    return [option, *parts]


def _refuse_files(name: str, value: str) -> None:
    """Refuse a value with the name of a file elsewhere, or an address: a question reads neither, and a name
    alone leads nowhere (see `twin_server`). Also one of several lines, as the command that repeats the answer
    is one."""
    if not value.isprintable():
        raise InputError("must be text in one line", source=f"--{name}", obj=repr(shorten(value, 40)))
    words = _BETWEEN_WORDS.split(value)
    if "://" in value or any(map(_is_path, words)):
        hint = "names a file; send its content as the body, and give - in its place"
        raise InputError(hint, source=f"--{name}", obj=repr(shorten(value, 40)))


def _is_path(word: str) -> bool:
    return word.startswith(("/", "~")) or not {".", ".."}.isdisjoint(word.split("/"))
