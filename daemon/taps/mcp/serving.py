"""Serves the tools of `tooltap mcp`. What runs them is imported at the first call: most agents never call one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec

from tooltap.daemon.taps.mcp.files import Roots
from tooltap.daemon.taps.mcp.keeper import become_subreaper
from tooltap.daemon.taps.mcp.offered import (
    COMMANDS,
    FILES,
    HISTORY,
    DisplayTool,
    HistoryTool,
    RunAndDisplay,
    Settings,
    event_uri,
)
from tooltap.daemon.taps.mcp.server import Call, McpServer, Resources, Tool, said

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from tooltap.daemon.taps.mcp.history import History
    from tooltap.daemon.taps.mcp.tools import DisplayTools

CALL_ID = "claudecode/toolUseId"
"""Key in `_meta` for the call's id in Claude Code."""
OUTPUT_ID = "tooltap/outputId"
"""Key in the `_meta` of results, for clients that show the output: models do not see `_meta`."""


def serve(settings: Settings) -> None:
    """Serve until the client disconnects."""
    if settings.command_timeout is not None:
        become_subreaper()
    display = _Display(settings)
    tools, resources = display.tools(), None
    if settings.history:
        history = _History(settings)
        tools |= history.tools()
        resources = Resources([EVENTS], history.read)
    server = McpServer(tools, resources)
    if (lines := server.greet()) is not None:
        import anyio  # it takes as long as all else

        anyio.run(_serve, server, display, lines)


async def _serve(server: McpServer, display: _Display, lines: Iterator[bytes | None]) -> None:
    import anyio

    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_end_at_signals, display)
            await server.run(lines)
            tasks.cancel_scope.cancel()
    finally:
        await display.close()


class _Display:
    """The display tools, whose stream begins with the first call."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._roots = Roots(settings.folders)
        self._running: DisplayTools | None = None

    def tools(self) -> dict[str, Tool]:
        offered = FILES if self._settings.command_timeout is None else FILES + COMMANDS
        return {tool.NAME: Tool(_described(tool), partial(self._call, tool)) for tool in offered}

    async def close(self, by_signal: str | None = None) -> None:
        """`by_signal`: the name of the signal that ends the process."""
        if self._running is not None:
            await self._running.close(by_signal)

    async def _call(self, tool: type[DisplayTool], call: Call) -> dict[str, Any]:
        from tooltap.daemon.taps.mcp.tools import DisplayTools

        folders = await call.roots()
        if self._running is None:
            self._running = DisplayTools(self._settings, self._roots)
        call_id = call.meta.get(CALL_ID)
        answer = await self._running.call(
            tool, call.arguments, call.client.info, call_id if isinstance(call_id, str) else None, folders
        )
        result = said(answer.text, is_error=answer.is_error)
        return result if answer.output_id is None else result | {"_meta": {OUTPUT_ID: answer.output_id}}


class _History:
    """The history tools, and the events as resources."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def tools(self) -> dict[str, Tool]:
        return {tool.NAME: Tool(_described(tool), partial(self._call, tool)) for tool in HISTORY}

    async def read(self, uri: str) -> list[dict[str, Any]]:
        return await self._history.read(uri)

    @cached_property
    def _history(self) -> History:
        from tooltap.daemon.taps.mcp.history import History

        return History(self._settings.socket, self._settings.projects)

    async def _call(self, tool: type[HistoryTool], call: Call) -> dict[str, Any]:
        return await self._history.call(tool, call.arguments)


EVENTS = {
    "uriTemplate": event_uri("{seq}"),
    "name": "event",
    "description": "An event of a session: a message, a call, or the output of one.",
    "mimeType": "text/plain",
}


def _described(tool: type[DisplayTool | HistoryTool]) -> dict[str, Any]:
    _, schemas = msgspec.json.schema_components([tool])
    [schema] = schemas.values()
    reads = tool is not RunAndDisplay
    return {
        "name": tool.NAME,
        "description": tool.DESCRIPTION,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": reads, "openWorldHint": not reads},
    }


async def _end_at_signals(display: _Display, *, task_status: TaskStatus[None]) -> None:
    """End the stream and the process at a signal: reading standard input cannot be interrupted. Commands end with it,
    as their keepers notice."""
    import anyio

    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            await display.close(number.name)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
