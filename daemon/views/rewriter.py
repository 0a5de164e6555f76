"""Runs the users' commands that make views of results, beside ingest: no event waits for them.

A command starts once the result is durable, and at most once per result. It reads the call and the assistant view as
JSON; what it prints is the view, which is journaled as a `tool-update`. If it makes no view (it fails, takes too long,
prints too much, or only what the model saw), the assistant view is shown. A killed daemon forgets the commands that
were running or waiting: their results are in the journal, and are shown as the model saw them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.views.results import Rewrite, view_id, with_display
from tooltap.daemon.views.rewrite_process import RewriteError, RewriteProcesses
from tooltap.daemon.views.rules import Rewriting
from tooltap.normalizers.core.items import Limits
from tooltap.normalizers.stream.normalizer import Output
from tooltap.protocol.events import Display, ToolResult, ToolUpdate

__all__ = ["Rewriter"]

_log = get_logger("rewriter")


class Rewriter:
    """`add_view` commits a view of one of a stream's results. `bounds` may be replaced at any time."""

    def __init__(
        self,
        bounds: Rewriting,
        limits: Limits,
        tasks: TaskGroup,
        add_view: Callable[[str, Sequence[Output]], Awaitable[None]],
        clock: Clock = wall_clock,
    ) -> None:
        self.bounds = bounds
        self._limits = limits
        self._tasks = tasks
        self._add_view = add_view
        self._clock = clock
        self._processes = RewriteProcesses()
        self._waiting: deque[Rewrite] = deque()
        self._waiting_bytes = 0
        self._running = 0
        self._shown = self._unshown = 0
        self._logged: set[tuple[tuple[str, ...], str]] = set()
        self._idle = anyio.Event()
        self._idle.set()

    def put(self, rewrites: Sequence[Rewrite]) -> None:
        """Start the commands, or queue them. Must not block."""
        for one in rewrites:
            if self._waiting_bytes + len(one.stdin) > self.bounds.waiting_bytes:
                self._without_view(one, RewriteError("too many results are waiting"))
                continue
            self._waiting.append(one)
            self._waiting_bytes += len(one.stdin)
            if self._running < self.bounds.concurrency:
                self._running += 1
                if self._idle.is_set():
                    self._idle = anyio.Event()
                self._tasks.start_soon(self._work)

    async def finish(self) -> None:
        """Wait until no command is running or waiting."""
        await self._idle.wait()

    def stop(self) -> None:
        """Kill the running commands and drop the waiting ones."""
        self._waiting.clear()
        self._processes.stop()

    def statistics(self) -> dict[str, int]:
        return {
            "running": self._running,
            "waiting": len(self._waiting),
            "waitingBytes": self._waiting_bytes,
            "shown": self._shown,
            "unshown": self._unshown,
        }

    # -- inner workings -----------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            while self._waiting and self._running <= self.bounds.concurrency:
                one = self._waiting.popleft()
                try:
                    await self._rewrite(one)
                except RewriteError as error:
                    self._without_view(one, error)
                except Exception:
                    _log.exception("a view was lost", result=one.result.id)
                finally:
                    self._waiting_bytes -= len(one.stdin)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _rewrite(self, one: Rewrite) -> None:
        bounds = self.bounds

        def run() -> bytes:
            return self._processes.run(one.command, one.stdin, timeout=bounds.timeout, max_bytes=bounds.output_bytes)

        answer = await anyio.to_thread.run_sync(run, limiter=anyio.CapacityLimiter(1))
        try:
            text = answer.decode()
        except UnicodeDecodeError as error:
            raise RewriteError("its answer is not UTF-8", str(error)) from None
        if text.strip() in ("", one.text.strip()):
            raise RewriteError("it answers only what the model saw")
        display = Display(origin="rewriter", text=text, mime_type=one.mime_type)
        await self._add_view(one.result.stream, with_display(_update(one.result, self._clock()), display, self._limits))
        self._shown += 1

    def _without_view(self, one: Rewrite, error: RewriteError) -> None:
        """Leave the assistant view. Logged once for each command and reason."""
        self._unshown += 1
        known = (one.command, str(error))
        if known not in self._logged:
            self._logged.add(known)
            _log.warning(
                "a command made no view; the result is shown as the model saw it",
                command=one.command,
                reason=str(error),
                detail=error.detail,
                result=one.result.id,
            )


def _update(result: ToolResult, now: int) -> ToolUpdate:
    return ToolUpdate(
        v=result.v,
        id=view_id(result.id),
        stream=result.stream,
        line=result.line,
        ts=now,
        session=result.session,
        agent=result.agent,
        parent=result.parent,
        turn=result.turn,
        protocol=result.protocol,
        provider=result.provider,
        dialect=result.dialect,
        call_id=result.call_id,
        name=result.name,
    )
