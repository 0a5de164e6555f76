"""Runs the users' commands that make views of results, beside ingest: no event waits for them.

A command starts once the result is durable. It reads the call, the canonical result and what the model saw as JSON on
its standard input (`_request`); what it prints is the view, which is journaled as a `tool-update`. If it makes no view
(it fails, takes too long, prints too much), the result is shown as it is, and a notice says why. A command declines,
without a notice, by printing nothing or just what the model saw.

Each result gets one view or one notice, whenever the daemon is killed: the commit of the result marks its view as
pending (`StreamInfo.rewriting`), and the commit of the view or notice removes the mark. The next daemon runs the
commands of pending views, with input that it reads from the journal. A command that was running when the daemon was
killed is run again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from tooltap.daemon.journal.interface import NEWEST, CorruptError, Journal, JournalError, StreamInfo
from tooltap.daemon.system.commands import CommandError, UserCommands
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.daemon.views.results import Rewrite, is_rewritten, rewrite_of, with_display
from tooltap.daemon.views.rules import Rewriting, Rules
from tooltap.daemon.views.select import result_text, view_id, whole_event, without_meta
from tooltap.normalizers.core.items import Limits, Produced
from tooltap.normalizers.stream.normalizer import Output
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.events import Display, Notice, ToolCall, ToolResult, ToolUpdate, decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.model_view import model_text

Outcomes: TypeAlias = Mapping[str, Sequence[Output]]
"""Id of a result -> what is journaled about its view: the view, a notice, or nothing if the command declined."""

# -- which commands run ----------------------------------------------------------------------------------------------

UNUSABLE = "it cannot be used"
WAITING_BYTES = 16 * 1024 * 1024
"""Maximum bytes of results that wait for their command; further results are shown unchanged."""
WAITING_RESULTS = 1_000
"""Maximum results that wait for their command or are being rewritten; further results are shown unchanged."""
STREAMS_SEARCHED = 1_000
"""Maximum streams that are searched for missing views: those with the newest commits."""

_log = get_logger("rewriter")


class _NoViewError(CommandError):
    """The command declined to make a view."""


class Rewriter:
    """`settle` commits the outcomes of one stream's views. `bounds` may be replaced at any time."""

    def __init__(
        self,
        journal: Journal,
        bounds: Rewriting,
        limits: Limits,
        tasks: TaskGroup,
        settle: Callable[[str, Outcomes], Awaitable[None]],
    ) -> None:
        self._journal = journal
        self.bounds = bounds
        self._limits = limits
        self._tasks = tasks
        self._settle = settle
        self._commands = UserCommands()
        self._waiting: deque[Rewrite] = deque()
        self._waiting_bytes = 0
        self._working: set[str] = set()
        """Ids of the results that wait for their command or are being rewritten."""
        self._running = 0
        self._is_stopped = False
        self._shown = self._unshown = 0
        self._logged: set[tuple[tuple[str, ...], str]] = set()
        self._idle = anyio.Event()
        self._idle.set()

    def put(self, rewrites: Sequence[Rewrite]) -> None:
        """Start the commands, or queue them. Must not block."""
        refused: dict[str, list[Output]] = {}
        for one in rewrites:
            if self._waiting_bytes + one.size > WAITING_BYTES or len(self._working) >= WAITING_RESULTS:
                refused[one.result.id] = self._without_view(one, CommandError("too many results are waiting"))
                continue
            self._working.add(one.result.id)
            self._waiting.append(one)
            self._waiting_bytes += one.size
            if self._running < self.bounds.concurrency:
                self._running += 1
                if self._idle.is_set():
                    self._idle = anyio.Event()
                self._tasks.start_soon(self._work)
        if refused:
            self._tasks.start_soon(self._try_to_settle, rewrites[0].result.stream, refused)

    async def make_missing(self, rules: Rules, infos: Iterable[StreamInfo] = ()) -> None:
        """Start the commands of pending views that no running daemon makes: the daemon was killed, or the view could
        not be committed. To be called at startup and periodically, and with the `infos` of streams that are resumed.
        Raises `JournalError`."""
        others = await self._journal.daemons() - {self._journal.daemon}
        for info in infos or await self._journal.streams(limit=STREAMS_SEARCHED):
            missing = {result for result, daemon in info.rewriting.items() if daemon not in others} - self._working
            if not missing or self._is_stopped:
                continue
            try:
                await self._make_missing_of(info, missing, rules)
            except Exception as error:
                if isinstance(error, JournalError) and not isinstance(error, CorruptError):
                    raise
                faults.note("missing views of a stream are made later", place_of(error), error, stream=info.stream)

    async def finish(self) -> None:
        """Wait until no command is running or waiting."""
        await self._idle.wait()

    def stop(self) -> None:
        """Kill the running commands and drop the waiting ones: the next daemon runs them."""
        self._is_stopped = True
        self._waiting.clear()
        self._commands.stop()

    def statistics(self) -> dict[str, int]:
        return {
            "running": self._running,
            "waiting": len(self._waiting),
            "waitingBytes": self._waiting_bytes,
            "shown": self._shown,
            "unshown": self._unshown,
        }

    # -- inner workings -----------------------------------------------------------------------------------------

    async def _make_missing_of(self, info: StreamInfo, missing: set[str], rules: Rules) -> None:
        pending = await find_pending(self._journal, info.stream, missing, rules)
        # This daemon marks its own results before they are stored: one that is not found may still come.
        gone = {result for result in pending.gone if info.rewriting[result] != self._journal.daemon}
        outcomes: dict[str, Sequence[Output]] = dict.fromkeys(gone, ())
        for result in pending.without_rule:
            outcomes[result.id] = [self._notice(result, CommandError("no rule covers it any more"))]
        for result, error in pending.failed:
            faults.note("a view was not made", place_of(error), error, result=result.id)
            outcomes[result.id] = [self._notice(result, CommandError(UNUSABLE, str(error)))]
        if outcomes:
            await self._try_to_settle(info.stream, outcomes)
        self.put([one for one in pending.rewrites if one.result.id not in self._working])

    async def _work(self) -> None:
        try:
            while self._waiting and self._running <= self.bounds.concurrency:
                one = self._waiting.popleft()
                try:
                    outputs = await self._outcome(one)
                    if not self._is_stopped:
                        await self._try_to_settle(one.result.stream, {one.result.id: outputs})
                except Exception as error:
                    faults.note("a view will be made again", place_of(error), error, result=one.result.id)
                finally:
                    self._waiting_bytes -= one.size
                    self._working.discard(one.result.id)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _outcome(self, one: Rewrite) -> Sequence[Output]:
        """Return the view, or a notice that there is none; nothing if the command declined."""
        try:
            return await self._rewrite(one)
        except CommandError as error:
            return self._without_view(one, error)
        except JournalError:
            raise
        except Exception as error:
            faults.note("a view was not made", place_of(error), error, result=one.result.id)
            return self._without_view(one, CommandError(UNUSABLE, str(error)))

    async def _try_to_settle(self, stream: str, outcomes: Outcomes) -> None:
        """Commit the outcomes of views. If that fails, the commands are run again later."""
        failpoint("view-commit")
        try:
            await self._settle(stream, outcomes)
            failpoint("view-committed")
        except JournalError as error:
            _log.warning("a view could not be committed; it will be made again", stream=stream, reason=str(error))
        except Exception as error:
            faults.note("a view could not be committed; it will be made again", place_of(error), error, stream=stream)

    async def _rewrite(self, one: Rewrite) -> Sequence[Output]:
        """Return the view. Raises `CommandError` and `JournalError`."""
        failpoint("view-start")
        bounds = self.bounds
        whole = await whole_event(msgspec.to_builtins(one.result), self._journal, WHOLE_BYTES)
        seen = model_text(whole, lambda _: None)

        def run() -> bytes:
            with TemporaryDirectory(prefix="tooltap-view-", ignore_cleanup_errors=True) as folder:
                stdin = msgspec.json.encode(_request(one, whole, seen, Path(folder))) + b"\n"
                return self._commands.run(one.command, stdin, timeout=bounds.timeout, max_bytes=bounds.output_bytes)

        try:
            answer = await anyio.to_thread.run_sync(run, limiter=anyio.CapacityLimiter(1))
        finally:
            failpoint("view-end")
        try:
            text = answer.decode()
        except UnicodeDecodeError as error:
            raise CommandError("its answer is not UTF-8", str(error)) from None
        if text.strip() in ("", (result_text(whole["output"], None).text if seen is None else seen).strip()):
            raise _NoViewError("it answers only what the model saw")
        display = Display(origin="rewriter", text=text, mime_type=one.mime_type)
        self._shown += 1
        return with_display(_update(one.result), display, self._limits)

    def _without_view(self, one: Rewrite, error: CommandError) -> list[Output]:
        """Return a notice that there is no view; nothing if the command declined. Log each reason once for each
        command."""
        if self._is_stopped:
            return []
        self._unshown += 1
        known = (one.command, str(error))
        if known not in self._logged:
            self._logged.add(known)
            _log.warning(
                "a command made no view; the result is shown as it is",
                command=one.command,
                reason=str(error),
                detail=error.detail,
                result=one.result.id,
            )
        return [] if isinstance(error, _NoViewError) else [self._notice(one.result, error)]

    def _notice(self, result: ToolResult, error: CommandError) -> Output:
        """Return the notice that there is no view. It has the view's id, since only one of the two is journaled."""
        notice = Notice(
            **_envelope(result),
            level="warning",
            code="view-failed",
            text=f"the command for {result.name} made no view: {error}",
            call_id=result.call_id,
            data={"result": result.id, "reason": str(error), **({"detail": error.detail} if error.detail else {})},
        )
        return Produced.of(notice)


WHOLE_BYTES = 67_108_864
"""Maximum bytes of cut texts of one result that are read for a command."""
INLINE_BYTES = 1_048_576
"""Maximum bytes of a text, or of the output, in a request. A longer text is in a file."""
BEGINNING = 65_536
"""Code points of such a text that are in the request, too."""


def _request(one: Rewrite, whole: dict[str, Any], seen: str | None, folder: Path) -> dict[str, Any]:
    """Return the request for a command:

        {"tool", "input", "output", "text", "modelText"?, "status", "provider", "session"}

    `text` is the text of `output`, `modelText` what the model saw, byte for byte; it is absent where the stream does
    not state that, with `assistantView` `unknown`. A text of more than `INLINE_BYTES` is in the file `textFile` or
    `modelTextFile`, which is deleted when the command ends, and the request has its beginning. `outputs` names the
    output bodies with what is cut in `output`. `incomplete` is set if a part of the result no longer exists, or is more
    than `WHOLE_BYTES`.

    `whole`: the result with its cut texts in their places; `seen`: what the model saw; `folder`: for the files.
    """
    result = one.result
    output = without_meta(whole["output"])
    texts = {"text": result_text(output, None).text, **({} if seen is None else {"modelText": seen})}
    outputs = whole["outputs"]
    if len(msgspec.json.encode(output)) > INLINE_BYTES:
        output, outputs = without_meta(result.output), result.outputs
    for name, text in list(texts.items()):
        if len(data := text.encode()) > INLINE_BYTES:
            path = folder / name
            path.write_bytes(data)
            texts |= {name: text[:BEGINNING], f"{name}File": str(path)}
    return {
        "tool": result.name,
        "input": one.input,
        "output": output,
        **texts,
        "status": result.status,
        "provider": result.provider,
        "session": result.session,
        **({"outputs": outputs} if outputs else {}),
        **({"incomplete": True} if any(_is_of_result(pointer) for pointer in whole["outputs"]) else {}),
        **({"assistantView": "unknown"} if result.assistant_view == "unknown" else {}),
    }


def _is_of_result(pointer: str) -> bool:
    return not pointer.startswith(("/output/_raw", "/display"))


def _update(result: ToolResult) -> ToolUpdate:
    return ToolUpdate(**_envelope(result), call_id=result.call_id, name=result.name)


def _envelope(result: ToolResult) -> dict[str, Any]:
    """The envelope of an event about a result. It has the result's time, however late the view is made."""
    return {
        "v": result.v,
        "id": view_id(result.id),
        "stream": result.stream,
        "line": result.line,
        "ts": result.ts,
        "session": result.session,
        "agent": result.agent,
        "parent": result.parent,
        "turn": result.turn,
        "protocol": result.protocol,
        "provider": result.provider,
        "dialect": result.dialect,
    }


# -- pending views ----------------------------------------------------------------------------------------------------

READ = 500
"""Maximum events read at once."""


class PendingViews(NamedTuple):
    """Results whose views are pending, by the next step."""

    rewrites: list[Rewrite]
    without_rule: list[ToolResult]
    """Results that no rule rewrites any more."""
    gone: set[str]
    """Ids of results that are not in the journal."""
    failed: list[tuple[ToolResult, Exception]]
    """Results for which the command's request cannot be made, and why."""


async def find_pending(journal: Journal, stream: str, ids: Iterable[str], rules: Rules) -> PendingViews:
    """Read from the journal the results whose views are pending, and the input for their commands. `ids`: of the
    results. Raises `JournalError`."""
    gone = set(ids)
    results: list[ToolResult] = []
    calls: set[str] = set()
    inputs: dict[str, dict[str, Any]] = {}
    wanted = Filter(stream=(stream,), kind=("tool-result", "tool-call", "tool-update"))
    before = NEWEST
    while before > journal.oldest and (gone or calls - inputs.keys()):
        stored, before = await journal.read_back(before, wanted, limit=READ)
        for event in (decode(one.body) for one in stored):
            if isinstance(event, ToolResult) and event.id in gone:
                gone.discard(event.id)
                results.append(event)
                calls.add(event.call_id)
            elif isinstance(event, ToolCall | ToolUpdate) and event.input is not None and event.call_id in calls:
                inputs.setdefault(event.call_id, without_meta(event.input))
    pending = PendingViews([], [], gone, [])
    for result in reversed(results):
        try:
            rule = rules.of(str(result.name))
            if rule is not None and is_rewritten(rule):
                pending.rewrites.append(rewrite_of(rule, result, inputs.get(result.call_id, {})))
            else:
                pending.without_rule.append(result)
        except Exception as error:  # the other results are not to wait for this one
            pending.failed.append((result, error))
    return pending
