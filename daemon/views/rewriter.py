"""Runs the users' commands that make views of results, beside ingest: no event waits for them.

A command is started once the result is durable, and at most once for each: it is told the call and the assistant view
as JSON, and what it prints is the view, a journaled `tool-update`. Where there is none (it fails, takes too long,
answers too much, or nothing but what the model saw) the assistant view is shown. A daemon that is killed forgets those
that ran or waited: their results are in the journal, and shown as the model saw them.
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
    """`show` commits a view of a stream's result. `bounds` may be replaced at any time."""

    def __init__(
        self,
        bounds: Rewriting,
        limits: Limits,
        tasks: TaskGroup,
        show: Callable[[str, Sequence[Output]], Awaitable[None]],
        clock: Clock = wall_clock,
    ) -> None:
        self.bounds = bounds
        self._limits = limits
        self._tasks = tasks
        self._show = show
        self._clock = clock
        self._processes = RewriteProcesses()
        self._waiting: deque[Rewrite] = deque()
        self._waiting_bytes = 0
        self._running = 0
        self._shown = self._unshown = 0
        self._told: set[tuple[tuple[str, ...], str]] = set()
        self._idle = anyio.Event()
        self._idle.set()

    def put(self, rewrites: Sequence[Rewrite]) -> None:
        """Start these, or let them wait for their turn. Returns at once."""
        for one in rewrites:
            if self._waiting_bytes + len(one.stdin) > self.bounds.waiting_bytes:
                self._without_view(one, RewriteError("too much waits for it"))
                continue
            self._waiting.append(one)
            self._waiting_bytes += len(one.stdin)
            if self._running < self.bounds.concurrency:
                self._running += 1
                if self._idle.is_set():
                    self._idle = anyio.Event()
                self._tasks.start_soon(self._work)

    async def finish(self) -> None:
        """Returns when nothing runs or waits any more."""
        await self._idle.wait()

    def stop(self) -> None:
        """End what runs, forget what waits."""
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
            raise RewriteError("it answers nothing else than what the model saw")
        display = Display(origin="rewriter", text=text, mime_type=one.mime_type)
        await self._show(one.result.stream, with_display(_update(one.result, self._clock()), display, self._limits))
        self._shown += 1

    def _without_view(self, one: Rewrite, error: RewriteError) -> None:
        """The assistant view is shown. Said once for each command and reason."""
        self._unshown += 1
        known = (one.command, str(error))
        if known not in self._told:
            self._told.add(known)
            _log.warning(
                "a result is shown as the model saw it: its command made no view",
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
