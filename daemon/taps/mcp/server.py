"""The MCP server of the display tools, on standard input and output.

It serves both generations of the protocol (SDK `mcp` 2.3). In the older one the server requests the client's roots when
a call needs them. In the newer one the server answers the call with that request, and the client repeats the call with
its roots.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from tooltap import __version__
from tooltap.daemon.taps.mcp.commands import Commands
from tooltap.daemon.taps.mcp.files import Roots, folder_of_uri
from tooltap.daemon.taps.mcp.keeper import become_subreaper
from tooltap.daemon.taps.mcp.stream import DisplayStream
from tooltap.daemon.taps.mcp.tools import COMMANDS, DisplayTool, DisplayTools

ROOTS = "roots"
ROOTS_TIMEOUT = 5.0
CALL_ID = "claudecode/toolUseId"
"""Key in `_meta` for the call's id in Claude Code."""
OUTPUT_ID = "tooltap/outputId"
"""Key in the `_meta` of our results, for clients that show the output: models do not see `_meta`."""


async def serve(folders: list[Path], stream: DisplayStream, commands: Commands | None, max_bytes: int) -> None:
    """Serve until the client leaves."""
    roots = Roots(folders)
    tools = DisplayTools(stream, roots, commands, max_bytes)
    stream.about["cwd"] = str(roots.folders[0])
    _end_at_signals()
    if commands is not None:
        become_subreaper()
    server = _server(tools, stream)
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        roots.close()
        await stream.close()


def _server(tools: DisplayTools, stream: DisplayStream) -> Server[Any]:
    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in tools.tools.values()])

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        folders = await _folders(context, params)
        if isinstance(folders, types.InputRequiredResult):
            return folders
        if (client := context.session.client_params) is not None:
            stream.about["client"] = {"name": client.client_info.name, "version": client.client_info.version}
        call_id = (params.meta or {}).get(CALL_ID)
        answer = await tools.call(
            params.name,
            params.arguments or {},
            call_id=call_id if isinstance(call_id, str) else None,
            folders=folders,
        )
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            is_error=answer.is_error,
            _meta=None if answer.output_id is None else {OUTPUT_ID: answer.output_id},
        )

    return Server("tooltap", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def _described(tool: type[DisplayTool]) -> types.Tool:
    _, schemas = msgspec.json.schema_components([tool])
    [schema] = schemas.values()
    reads = tool not in COMMANDS
    return types.Tool(
        name=tool.NAME,
        description=tool.DESCRIPTION,
        input_schema=schema,
        annotations=types.ToolAnnotations(read_only_hint=reads, open_world_hint=not reads),
    )


async def _folders(
    context: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> list[Path] | types.InputRequiredResult | None:
    """Return the client's roots; None if it has none."""
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.roots is None:
        return None
    answer: Any
    if context.session.can_send_request:
        try:
            answer = await context.session.send_request(
                types.ListRootsRequest(), types.ListRootsResult, request_read_timeout_seconds=ROOTS_TIMEOUT
            )
        except MCPError:  # it announced roots, but does not name them
            return []
    elif (answer := (params.input_responses or {}).get(ROOTS)) is None:
        return types.InputRequiredResult(input_requests={ROOTS: types.ListRootsRequest()})
    if not isinstance(answer, types.ListRootsResult):
        return []
    return [folder for root in answer.roots if (folder := folder_of_uri(str(root.uri))) is not None]


def _end_at_signals() -> None:
    """Reading standard input cannot be interrupted, so signals end this process as they would end any other. Commands
    end with it: their keepers notice."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
