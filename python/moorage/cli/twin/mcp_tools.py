"""The tools of `moorage mcp`: each is a command, its input schema made of the command's options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import click
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from moorage.errors import InputError, shorten
from moorage.live.twin import Reply

from ..options.change_options import OPTIONS, ChangingCommand
from ..options.option_groups import GROUPS
from .questions import OF_TERMINAL, long_name, named_questions

Ask = Callable[[str, Sequence[tuple[str, str]], bytes], Reply]
"""Answers a path, a query and a body: `AskedTwin.reply`, or that of a twin elsewhere."""
WHAT_IF = "what_if"
"""The tool of `simulate`."""
SHORT = 60
"""Lines of an answer, beyond which the rest is told on request."""
_KEPT = frozenset(("namespace", "version", "upgrade_from"))
_LEFT_OUT = (
    (
        {*GROUPS["Input"], *GROUPS["Output"], *GROUPS["Scheduler"], "pod_times", "compatible", "executor"}
        - _KEPT
    )
    | OF_TERMINAL
    | ChangingCommand.changes
)
"""Parameters that a tool does not have: those about the cluster, forms, the scheduler; changes are a list."""
_CHANGES = "; ".join(f"{one.name.removeprefix('--')} {one.metavar}".strip() for one in OPTIONS)
_CHANGE = {
    "type": "string",
    "pattern": rf"^\s*(--)?({'|'.join(one.name.removeprefix('--') for one in OPTIONS)})(\s|$)",
    "description": f"One of: {_CHANGES}",
}
_COMMON: dict[str, dict[str, Any]] = {
    "manifests": {
        "type": "string",
        "description": "Kubernetes manifests, as YAML or JSON, that are applied to the cluster first; where "
        "an option has the value -, what it reads.",
    },
    "detail": {
        "enum": ["short", "full"],
        "default": "short",
        "description": f"short: a text of {SHORT} lines at most. full: the whole document of -o json.",
    },
}


class Tool(NamedTuple):
    """A tool.

    Attributes
    ----------
    path : str
        Of its question.
    options : dict of str to str
        By property, the name of the option or argument without dashes.
    """

    name: str
    path: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    options: Mapping[str, str]


def tools() -> list[Tool]:
    """Return a tool for each question."""
    return [_tool(words, command) for words, command in named_questions()]


def _tool(words: tuple[str, ...], command: click.Command) -> Tool:
    properties, options = dict[str, dict[str, Any]](), dict[str, str]()
    required: list[str] = []
    for parameter in command.params:
        name = parameter.name or ""
        if name in _LEFT_OUT or (isinstance(parameter, click.Option) and parameter.hidden):
            continue
        option = long_name(parameter)
        title = option.replace("-", "_")
        properties[title], options[title] = _property(parameter), option
        if parameter.required:
            required.append(title)
    if isinstance(command, ChangingCommand):
        text = "What an operator does first, in this order."
        properties["changes"] = {"type": "array", "items": _CHANGE, "description": text}
    schema = {"type": "object", "properties": properties | _COMMON, "additionalProperties": False}
    name = WHAT_IF if words == ("simulate",) else "_".join(words)
    help_text = " ".join((command.help or "").partition("Exit codes:")[0].split())
    return Tool(
        name, "/".join(words), help_text, schema | {"required": required}, _output_schema(words[0]), options
    )


def _property(parameter: click.Parameter) -> dict[str, Any]:
    """Return the schema of an option or argument."""
    kind = parameter.type
    found: dict[str, Any] = {"type": "string"}
    if isinstance(parameter, click.Option) and parameter.is_flag:
        found = {"type": "boolean"}
    elif isinstance(kind, click.Choice):
        found = {"enum": list(kind.choices)}
    elif isinstance(kind, click.IntRange | click.FloatRange):
        bounds = {"minimum": kind.min, "maximum": kind.max}
        found = {"type": "integer" if isinstance(kind, click.IntRange) else "number"}
        found |= {name: bound for name, bound in bounds.items() if bound is not None}
    if parameter.multiple or parameter.nargs == -1:
        found = {"type": "array", "items": found}
    text = getattr(parameter, "help", None) or ""
    metavar = parameter.metavar or ""
    described = f"{metavar}: {text}" if metavar and text else text or metavar
    return found | ({"description": described} if described else {})


def _output_schema(command: str) -> dict[str, Any]:
    """Return the schema of an answer, whose document has that of the command's ``-o json``."""
    text = files("moorage.cli").joinpath(f"schemas/{command}.v1.json").read_text()
    document = json.loads(text)
    definitions = document.pop("$defs", {})
    for name in ("$schema", "$id"):
        document.pop(name, None)
    text_schema, number = {"type": "string"}, {"type": "number"}
    schema = {
        "type": "object",
        "properties": {
            "exitCode": {
                "type": "integer",
                "description": "Of the command: 1 where check or explain says no.",
            },
            "repeat": text_schema | {"description": "The command that repeats the answer over a dump."},
            "stalenessSeconds": number,
            "text": text_schema | {"description": "The answer in short."},
            "left": {"type": "integer", "description": "Lines of it that detail=full tells."},
            "document": document,
        },
        "required": ["exitCode", "repeat"],
    }
    return schema | ({"$defs": definitions} if definitions else {})


def called(tool: Tool, arguments: Mapping[str, Any], ask: Ask) -> dict[str, Any]:
    """Return the answer to a call of a tool.

    Raises
    ------
    InputError
        The arguments are not those of the schema, or the question is refused; the text says why.
    """
    if (error := best_match(Draft202012Validator(tool.input_schema).iter_errors(arguments))) is not None:
        is_change = error.validator == "pattern"
        text = f"{error.instance!r} is no change. {_CHANGE['description']}" if is_change else error.message
        raise InputError(shorten(text, 600), source=tool.name, path=error.json_path[1:].removeprefix("."))
    query = [*_query(tool, arguments)]
    is_full = arguments.get("detail") == "full"
    query.append(("output", "json" if is_full else "table"))
    body = arguments.get("manifests", "").encode()
    reply = ask(tool.path, query, body)
    if reply.status != 200:
        raise InputError(json.loads(reply.body)["error"])
    headers = {name.lower(): text for name, text in reply.headers}
    found: dict[str, Any] = {
        "exitCode": int(headers["moorage-exit-code"]),
        "repeat": headers["moorage-repeat"].encode("latin-1").decode(),
    }
    if (staleness := headers.get("moorage-staleness")) is not None:
        found["stalenessSeconds"] = float(staleness)
    if is_full:
        return found | {"document": json.loads(reply.body)}
    lines = reply.body.decode().rstrip().splitlines()
    rest = max(0, len(lines) - SHORT)
    return found | {"text": "\n".join(lines[:SHORT])} | ({"left": rest} if rest else {})


def _query(tool: Tool, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options of a call, the changes in their order."""
    for name, value in arguments.items():
        if name in _COMMON:
            continue
        if name == "changes":
            for change in value:
                option, _, words = change.strip().partition(" ")
                yield option.removeprefix("--"), words.strip()
        elif isinstance(value, list):
            yield from ((tool.options[name], str(one)) for one in value)
        elif isinstance(value, bool):
            yield tool.options[name], "true" if value else "false"
        else:
            yield tool.options[name], str(value)
