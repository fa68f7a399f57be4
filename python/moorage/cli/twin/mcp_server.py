"""The server of the Model Context Protocol, by the official SDK (extra ``mcp``)."""

from __future__ import annotations

import json
from typing import Any

import anyio
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
from moorage.errors import MoorageError
from moorage.live.serve.web_server import Request, WebServer, is_foreign
from moorage.live.twin import Reply
from moorage.live.twin.twin_server import MAX_BODY

from .mcp_tools import Ask, called, tools

INSTRUCTIONS = (
    "moorage decides as kube-scheduler does, and writes nothing. Ask check whether all pods find a node, "
    "explain why one does not, capacity how many more fit, what_if what a change does. Answers are short; "
    "detail=full has the whole document. Each names the command that repeats it."
)


def mcp_server(ask: Ask) -> Server[Any]:
    """Return a server whose tools ask a twin.

    Parameters
    ----------
    ask : callable
        Answers a path, a query and a body.
    """
    known = {one.name: one for one in tools()}
    reads = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                McpTool(
                    name=one.name,
                    description=one.description,
                    input_schema=one.input_schema,
                    output_schema=one.output_schema,
                    annotations=reads,
                )
                for one in known.values()
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

    async def refusal(self, request: Request) -> Reply | None:
        if is_foreign(request):
            return Reply(403, b"tools are called from this machine, and not from a page\n")
        type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and type != "application/json":  # others a page may send unasked
            return Reply(415, b"a call needs the content type application/json\n")
        return None

    async def respond(self, request: Request, scope: Any, receive: Any, send: Any) -> None:
        body = [{"type": "http.request", "body": request.body, "more_body": False}]

        async def received() -> Any:
            return body.pop() if body else await receive()

        await self._app(scope, received, send)
