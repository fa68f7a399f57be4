"""The server of the Model Context Protocol, by the official SDK (extra ``mcp``): each tool is a command."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from itertools import filterfalse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit

import anyio
import click
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool

from moorage._version import __version__
from moorage.cluster.verbs import BY_NAME, VERBS
from moorage.errors import InputError, MoorageError, located, shorten
from moorage.lazy import NamedTuple
from moorage.live.twin_server import JSON, MAX_BODY, QUESTIONS, refusal
from moorage.live.web_server import HttpRequest, Reply, WebServer

from .options.change_options import ChangingCommand
from .options.option_types import CHANGES, INPUT, OUTPUT, SCHEDULER, heading_of
from .questions import long_name, named_questions

Ask = Callable[[str, Sequence[tuple[str, str]], bytes], Reply]
"""Answers a path, a query and a body: `AskedTwin.reply`, or that of a twin elsewhere."""
WHAT_IF = "what_if"
"""The tool of `simulate`."""
SHORT = 60
"""Lines of an answer, beyond which the rest is told on request."""
_KEPT = frozenset(("namespace", "version"))
_OF_TABLES = frozenset(("all_namespaces", "selector", "summary_only", "verbose"))
_CHANGES = "; ".join(f"{verb.name} {verb.metavar}".strip() for verb in VERBS)
_CHANGE = {
    "type": "string",
    "pattern": rf"^\s*(--)?({'|'.join(BY_NAME)})(\s|$)",
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
    for parameter in filterfalse(_is_left_out, command.params):
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


def _is_left_out(parameter: click.Parameter) -> bool:
    """Whether a tool has no such parameter: it is about the cluster, the scheduler, or the form of an answer;
    changes are a list."""
    is_about = heading_of(parameter) in (CHANGES, INPUT, SCHEDULER, OUTPUT) and parameter.name not in _KEPT
    return is_about or parameter.name in _OF_TABLES


def _property(parameter: click.Parameter) -> dict[str, Any]:
    """Return the schema of an option or argument."""
    kind = parameter.type
    schema: dict[str, Any] = {"type": "string"}
    if isinstance(parameter, click.Option) and parameter.is_flag:
        schema = {"type": "boolean"}
    elif isinstance(kind, click.Choice):
        schema = {"enum": list(kind.choices)}
    elif isinstance(kind, click.IntRange | click.FloatRange):
        bounds = {"minimum": kind.min, "maximum": kind.max}
        schema = {"type": "integer" if isinstance(kind, click.IntRange) else "number"}
        schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    if parameter.multiple or parameter.nargs == -1:
        schema = {"type": "array", "items": schema}
    text = getattr(parameter, "help", None) or ""
    metavar = parameter.metavar or ""
    described = f"{metavar}: {text}" if metavar and text else text or metavar
    return schema | ({"description": described} if described else {})


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
    answer: dict[str, Any] = {
        "exitCode": int(headers["moorage-exit-code"]),
        "repeat": headers["moorage-repeat"].encode("latin-1").decode(),
    }
    if (staleness := headers.get("moorage-staleness")) is not None:
        answer["stalenessSeconds"] = float(staleness)
    if is_full:
        return answer | {"document": json.loads(reply.body)}
    lines = reply.body.decode().rstrip().splitlines()
    rest = max(0, len(lines) - SHORT)
    return answer | {"text": "\n".join(lines[:SHORT])} | ({"left": rest} if rest else {})


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
            yield from ((tool.options[name], str(item)) for item in value)
        elif isinstance(value, bool):
            yield tool.options[name], "true" if value else "false"
        else:
            yield tool.options[name], str(value)


# ---- mcp server --------------------------------------------------------------------------------------------
#
# The server of the Model Context Protocol, by the official SDK (extra ``mcp``).

INSTRUCTIONS = (
    "moorage decides as kube-scheduler does, and writes nothing. Ask check whether all pods find a node, "
    "lint what is wrong, explain why one does not, capacity how many more fit, what_if what a change does. "
    "Answers are short; detail=full has the whole document. Each names the command that repeats it."
)


def mcp_server(ask: Ask) -> Server[Any]:
    """Return a server whose tools ask a twin.

    Parameters
    ----------
    ask : callable
        Answers a path, a query and a body.
    """
    known = {tool.name: tool for tool in tools()}
    reads = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                McpTool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=tool.input_schema,
                    output_schema=tool.output_schema,
                    annotations=reads,
                )
                for tool in known.values()
            ]
        )

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        tool = known.get(params.name)
        try:
            if tool is None:
                raise MoorageError(f"there is no tool {params.name!r}; known are {', '.join(known)}")
            answer = await anyio.to_thread.run_sync(called, tool, params.arguments or {}, ask)
        except MoorageError as error:
            return CallToolResult(content=[TextContent(text=f"error: {error}")], is_error=True)
        text = answer.get("text") or json.dumps(answer.get("document"))
        said = f"{text}\n\nexit code {answer['exitCode']}; repeat: {answer['repeat']}"
        if rest := answer.get("left"):
            said = f"{text}\n… {rest} more lines (detail=full)\n\nrepeat: {answer['repeat']}"
        return CallToolResult(content=[TextContent(text=said)], structured_content=answer)

    return Server(
        "moorage",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve_streams(ask: Ask) -> None:
    """Serve on standard input and output until the input ends."""

    async def work() -> None:
        server = mcp_server(ask)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(work)


class McpServer(WebServer):
    """Serves streamable HTTP at ``/mcp``, on loopback, until it is closed.

    Parameters
    ----------
    address : (str, int)
        See `WebServer`.
    ask : callable
        See `mcp_server`.
    """

    has_lifespan = True

    def __init__(self, address: tuple[str, int], ask: Ask) -> None:
        self._app = mcp_server(ask).streamable_http_app(host=address[0])
        super().__init__(address, max_body=MAX_BODY)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Begin and end the sessions of the SDK."""
        await self._app(scope, receive, send)

    async def refusal(self, request: HttpRequest) -> Reply | None:
        type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and type != "application/json":  # others a page may send unasked
            return Reply(415, b"a call needs the content type application/json\n")
        return None

    async def respond(self, request: HttpRequest, scope: Any, receive: Any, send: Any) -> None:
        body = [{"type": "http.request", "body": request.body, "more_body": False}]

        async def received() -> Any:
            return body.pop() if body else await receive()

        await self._app(scope, received, send)


# ---- remote twin -------------------------------------------------------------------------------------------
#
# RemoteTwin: asks a twin that runs elsewhere.

TIMEOUT = 3600.0
"""Seconds that an answer may take at most; the twin has a limit of its own."""


class RemoteTwin:
    """Asks over HTTP.

    Parameters
    ----------
    address : str
        Such as ``https://twin.example.com:8899``.
    token : str or None
        A file with a bearer token, which is read for each question.
    authority : str or None
        A file with the authority of the twin's certificate, in PEM.

    Raises
    ------
    InputError
        The address is none, or a file cannot be read.
    """

    def __init__(self, address: str, token: str | None, authority: str | None) -> None:
        wrong = InputError("must be an address such as http://127.0.0.1:8899", source="--twin", obj=address)
        try:
            url = urlsplit(address)
            host, _ = url.hostname, url.port
        except ValueError:  # brackets that are not closed, or a port that is none
            raise wrong from None
        if (
            url.scheme not in ("http", "https")
            or not host
            or not url.netloc.isprintable()
            or " " in url.netloc
        ):
            raise wrong
        if token is not None and url.scheme == "http":
            raise InputError("a token is sent over https only", source="--token-file")
        self._base, self._token = f"{url.scheme}://{url.netloc}{QUESTIONS}", token
        with located(OSError, source=authority or ""):
            self._context = ssl.create_default_context(cafile=authority) if url.scheme == "https" else None

    def reply(self, path: str, query: Sequence[tuple[str, str]], body: bytes) -> Reply:
        """Return the answer to a question, or why there is none."""
        headers = {}
        if self._token is not None:
            with located(OSError, source=self._token):
                token = Path(self._token).read_text().strip()
            if not (token.isascii() and token.isprintable()):
                return refusal(500, f"{self._token}: not one line of printable ASCII")
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(
            f"{self._base}{path}?{urlencode(query)}", body, headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=self._context) as answer:
                return Reply(answer.status, answer.read(), JSON, answer.headers.items())
        except HTTPError as error:
            text = error.read().decode(errors="replace").strip()
            with suppress(ValueError, LookupError, TypeError):
                text = json.loads(text)["error"]
            return refusal(error.code, text or str(error))
        except URLError as error:
            return refusal(502, f"the twin does not answer: {error.reason}")
