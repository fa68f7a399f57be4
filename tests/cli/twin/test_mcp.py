"""`moorage mcp`, by the client of the official SDK: in this process, over streams, and over HTTP."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent
from tests.doors.cli import AskedTwin, McpServer, RemoteTwin, mcp_server
from tests.doors.live import TwinServer
from tests.house.source import ROOT
from tests.store.api.wire_server import LIMIT

from moorage.cli import main

SHOP = str(ROOT / "examples/shop/cluster.yaml")
RELEASE = (ROOT / "examples/shop/release/web.yaml").read_text()
CALLS: dict[str, dict[str, Any]] = {
    "check": {"changes": ["drain pool=old"], "new_only": True, "survive": "zone"},
    "explain": {"target": "deploy/shop/web", "manifests": RELEASE},
    "capacity": {"pod": ["deploy/shop/web"], "max_limit": 2},
    "nodes": {"by": "zone"},
    "compare": {"alternatives": ["as-is", "drain old-a"]},
    "plan_nodes": {"like": ["new-a"]},
    "plan_drain": {"names": ["old-a"]},
    "plan_defragment": {"nodes": 1},
    "plan_bound": {"pod": ["deploy/shop/web=40"]},
    "what_if": {"changes": ["scale deploy/shop/web=9", "cordon old-a"]},
}
"""A call of each tool."""
CLIENT = {"name": "a client", "version": "1"}


@pytest.fixture(scope="module")
def twin() -> AskedTwin:
    return AskedTwin(None, [SHOP])


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_the_client_lists_and_calls_each_tool(twin: AskedTwin) -> None:
    """It checks structured answers by their schemas, too."""

    async def use() -> None:
        async with Client(mcp_server(twin.reply)) as client:
            listed = (await client.list_tools()).tools
            assert {one.name for one in listed} >= CALLS.keys()
            for tool in listed:
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint
                for schema in (tool.input_schema, tool.output_schema):
                    Draft202012Validator.check_schema(schema)
                if tool.name not in CALLS:
                    continue
                arguments = CALLS[tool.name]
                Draft202012Validator(tool.input_schema).validate(arguments)
                short = await client.call_tool(tool.name, arguments)
                assert not short.is_error, text_of(short)
                assert short.structured_content is not None
                assert short.structured_content["repeat"].startswith("moorage ")
                assert short.structured_content["text"]
                assert len(text_of(short).splitlines()) < 70

    anyio.run(use)


def test_the_whole_document_comes_on_request(twin: AskedTwin) -> None:
    async def use() -> None:
        async with Client(mcp_server(twin.reply)) as client:
            await client.list_tools()
            for name in ("explain", "what_if"):
                full = await client.call_tool(name, CALLS[name] | {"detail": "full"})
                assert full.structured_content is not None, text_of(full)
                assert full.structured_content["document"]["apiVersion"].endswith(".moorage.dev/v1")

    anyio.run(use)


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("check", {"changes": ["drain nowhere"]}, 'there is no Node "nowhere"'),
        ("check", {"drain": "a"}, "check: Additional properties are not allowed ('drain' was unexpected)"),
        ("check", {"changes": 5}, "check: changes: 5 is not of type 'array'"),
        ("check", {"changes": "drain old-a"}, "changes: 'drain old-a' is not of type 'array'"),
        ("check", {"changes": ["output html"]}, "changes[0]: 'output html' is no change. One of: "),
        ("check", {"changes": ["drain old-a", "config X"]}, "changes[1]: 'config X' is no change."),
        ("check", {"changes": ["drainage"]}, "'drainage' is no change."),
        ("check", {"survive": ["zone"]}, "survive: ['zone'] is not"),
        ("check", {"new_only": "yes"}, "new_only: 'yes' is not of type 'boolean'"),
        ("check", {"manifests": 7}, "manifests: 7 is not of type 'string'"),
        ("check", {"detail": "wide"}, "detail: 'wide' is not one of ['short', 'full']"),
        ("capacity", {}, "'pod' is a required property"),
        (
            "capacity",
            {"pod": ["deploy/shop/web"], "max_limit": "1"},
            "max_limit: '1' is not of type 'integer'",
        ),
        ("capacity", {"pod": ["/etc/passwd"]}, "names a file"),
        ("simulate", {}, "there is no tool 'simulate'; known are check"),
    ],
)
def test_what_cannot_be_answered_is_an_error_in_words(
    twin: AskedTwin, tool: str, arguments: dict[str, Any], text: str
) -> None:
    async def use() -> CallToolResult:
        async with Client(mcp_server(twin.reply)) as client:
            return await client.call_tool(tool, arguments)

    result = anyio.run(use)
    assert (result.is_error, text in text_of(result)) == (True, True), text_of(result)


def asked(server: Any) -> CallToolResult:
    async def use() -> CallToolResult:
        async with Client(server) as client:
            return await client.call_tool("check", {"changes": ["drain old-a"]})

    result: CallToolResult = anyio.run(use)
    assert not result.is_error, text_of(result)
    return result


@pytest.mark.nightly
def test_tools_over_streams() -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "moorage", "mcp", "-f", SHOP])
    structured = asked(command).structured_content
    assert structured is not None
    assert structured["exitCode"] == 0


@pytest.fixture(scope="module")
def port(twin: AskedTwin) -> Iterator[int]:
    server = McpServer(("127.0.0.1", 0), twin.reply)
    yield server.port
    server.close()


def test_tools_over_http(port: int) -> None:
    assert asked(f"http://127.0.0.1:{port}/mcp").structured_content is not None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Origin": "http://127.0.0.1:3000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({}, 200),
    ],
)
def test_a_page_calls_no_tool(port: int, headers: dict[str, str], status: int) -> None:
    """Also none of another server of this machine."""
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT},
    }
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} | headers
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    client.request("POST", "/mcp", json.dumps(initialize), sent)
    assert client.getresponse().status == status
    client.close()


@pytest.fixture
def served(twin: AskedTwin) -> Iterator[TwinServer]:
    server = TwinServer(("127.0.0.1", 0), twin.reply, alive={}, ready={}, metrics=bytes)
    yield server
    server.close()


def test_tools_ask_a_twin_elsewhere(served: TwinServer, twin: AskedTwin) -> None:
    remote = RemoteTwin(f"http://127.0.0.1:{served.port}", None, None)
    assert (
        asked(mcp_server(remote.reply)).structured_content == asked(mcp_server(twin.reply)).structured_content
    )
    assert json.loads(remote.reply("replay", [], b"").body)["error"].startswith("there is no question")
    served.close()
    assert remote.reply("check", [], b"").status == 502


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--twin", "ftp://x"], "must be an address such as http://127.0.0.1:8899"),
        (["--twin", "http://["], "must be an address such as http://127.0.0.1:8899"),
        (["--twin", "http://a:99999"], "must be an address such as http://127.0.0.1:8899"),
        (["--twin", "http://a:1\r\nX: y"], "must be an address such as http://127.0.0.1:8899"),
        (["--twin", "http://x", "--token-file", "t"], "a token is sent over https only"),
        (["--twin", "http://x", "-f", SHOP], "--twin cannot be combined with -f"),
        (["--twin", "http://x", "--at-once", "2"], "--twin cannot be combined with --at-once"),
        (["--token-file", "t", "-f", SHOP], "need --twin"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", *arguments]) == 2
    assert text in capsys.readouterr().err
