"""The tools by the protocol: on standard input and output of this process, or by HTTP on this machine."""

from __future__ import annotations

import functools

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from mcp_server.tools import INSTRUCTIONS, tools
from sizing.errors import SizingError
from sizing.version import __version__

MIN_PROGRESS = 0.01
"""Fraction by which the work must have gone on before a client hears of it again."""

_Context = ServerRequestContext[dict[str, object]]


def new_server() -> Server[dict[str, object]]:
    """Make a server of all tools, which any transport can run."""
    return Server(
        "checkpoint-sizing",
        version=__version__,
        title="Checkpoint storage sizing",
        instructions=INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


async def _list_tools(_context: _Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=await anyio.to_thread.run_sync(_describe_tools))


@functools.cache
def _describe_tools() -> list[types.Tool]:
    """Describe every tool. The schemas take a second, and stay the same."""
    annotations = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.schema(),
            annotations=annotations,
        )
        for tool in tools().values()
    ]


async def _call_tool(context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Answer by a tool, in a thread; what breaks a rule is told as sentences that the program can act upon."""
    tool = tools().get(params.name)
    if tool is None:
        return _refused(f"The tool must be one of {', '.join(tools())}, got {params.name}.")
    told = 0.0

    def tell(fraction: float) -> None:
        nonlocal told
        if fraction - told >= MIN_PROGRESS:
            told = fraction
            anyio.from_thread.run(context.session.report_progress, fraction, 1.0)

    try:
        result = await anyio.to_thread.run_sync(tool.call, params.arguments or {}, tell)
    except SizingError as error:
        return _refused(str(error))
    return types.CallToolResult(content=[types.TextContent(text=result.text)], structured_content=result.document)


def _refused(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


async def serve_standard_streams() -> None:
    """Answer one client on standard input and output until it closes them."""
    server = new_server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def serve_http(host: str, port: int) -> None:
    """Answer clients by HTTP at `/mcp` until the process is told to end. Requests for other hosts are refused."""
    app = new_server().streamable_http_app(host=host, stateless_http=True)
    uvicorn.run(app, host=host, port=port, log_level="warning")
