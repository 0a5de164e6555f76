"""Calls a person for what `watch.py` finds: runs a command, or sends a webhook.

The sessions are looked at once a second, and only if the configuration has rules, so that ingest never waits for a
call. A rule is called once for each question, end of a turn, silence, and session, day or quota over its limit, and
never for what happened before the daemon was started, or had its first rule. What is sent is masked, as exports are.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from email.header import Header
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from tooltap import __version__
from tooltap.daemon.export.redaction import masked_event, masked_title
from tooltap.daemon.journal.interface import Journal, JournalError
from tooltap.daemon.notifications.rules import PLACE, NotifyRule
from tooltap.daemon.notifications.spending import Spending
from tooltap.daemon.notifications.watch import Call, Watch, silent_sessions, text_of, title_of
from tooltap.daemon.sessions.listing import RUNNING, SessionFilter, folder_of, status_of
from tooltap.daemon.sessions.waiting import find_waiting
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.system.commands import CommandError, UserCommands
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.daemon.system.sanitize import one_line
from tooltap.normalizers.stream.reset import place_of
from tooltap.normalizers.tools.registry import PREVIEW_LENGTH
from tooltap.protocol.events import ToolCall
from tooltap.protocol.replies import Waiting
from tooltap.traces.recording.secrets import mask_secrets

NOTHING_OPEN: dict[str, list[dict[str, Any]]] = {"calls": [], "permissions": []}
LOOK_PERIOD = 1.0
"""Seconds between two looks at the sessions."""
MOST_LOOKED_AT = 1_000
MOST_QUEUED = 100
"""Calls that wait to be made; further ones are dropped."""
WORKERS = 4
"""Calls that are made at the same time: a slow one does not delay the others."""
WEBHOOK_PAUSES = (1.0, 5.0, 30.0)
"""Seconds before a webhook that failed is sent again."""
MOST_PRINTED = 65_536
"""Bytes that a command may print; nobody reads them."""
TEXT = 500
"""Code points of a text that is sent."""
MOST_MASKED = 10_000
"""Code points of a text in which secrets are looked for, before it is cut to `TEXT`."""

_log = get_logger("notify")


_Queued: TypeAlias = tuple[NotifyRule, bytes]
"""A rule, and the message as JSON."""


class Notifier:
    """Makes the calls. `link` returns the address of a path of the page; None if there is no page."""

    def __init__(self, journal: Journal, rules: Sequence[NotifyRule], link: Callable[[str], str | None]) -> None:
        self._has_rules = anyio.Event()
        self.rules = tuple(rules)
        self._journal = journal
        self._link = link
        self._seen = 0
        """The newest event that was looked at."""
        self._calls: dict[tuple[str, str | None], int] = {}
        """Stream and id of each open call -> the `seq` of its event."""
        self._commands = UserCommands()
        self.has_looked = False
        """What waited before is known, and nobody is called for it."""
        self._sent = self._failed = self._dropped = 0
        self._problem = ""

    @property
    def rules(self) -> tuple[NotifyRule, ...]:
        return self._rules

    @rules.setter
    def rules(self, rules: tuple[NotifyRule, ...]) -> None:
        """Replace the rules. The first ones call for nothing that happened before."""
        self._rules = rules
        if rules:
            self._has_rules.set()
        elif self._has_rules.is_set():
            self._has_rules = anyio.Event()

    def statistics(self) -> dict[str, int]:
        return {"rules": len(self._rules), "sent": self._sent, "failed": self._failed, "dropped": self._dropped}

    def stop(self) -> None:
        """Kill the running commands."""
        self._commands.stop()

    async def run(self) -> None:
        queue, queued = anyio.create_memory_object_stream[_Queued](MOST_QUEUED)
        async with queue, queued, anyio.create_task_group() as tasks:
            for _ in range(WORKERS):
                tasks.start_soon(self._work, queued)
            while True:
                await self._has_rules.wait()
                watch: Watch[NotifyRule] | None = None
                while self._rules:
                    try:
                        watch = watch or await self._begin()
                        await self._look(watch)
                        for rule, call in watch.due(self._rules, time.monotonic()):
                            self._put(queue, rule, await self._without_secrets(call))
                    except JournalError as error:
                        self._report(f"the sessions cannot be read: {error}")
                    except Exception as error:
                        faults.note("nobody was called", place_of(error), error)
                    await anyio.sleep(LOOK_PERIOD)

    async def _begin(self) -> Watch[NotifyRule]:
        """Return a watch that calls for what happens from now on. Raises `JournalError`."""
        self._started = wall_clock()
        watch: Watch[NotifyRule] = Watch(self._started)
        self._spending = Spending(self._journal)
        sessions = await self._journal.sessions(limit=MOST_LOOKED_AT)
        watch.skip((await self._journal.open_calls())["permissions"])
        self._seen = self._journal.latest
        now = time.monotonic()
        watch.look((), (), now, self._started, await self._spending.look(self._rules, sessions, now))
        watch.due(self._rules, now)  # nobody is called for what was over a limit before
        self.has_looked = True
        return watch

    async def _look(self, watch: Watch[NotifyRule]) -> None:
        latest = self._journal.latest
        wanted = SessionFilter(changed_after=self._seen)
        changed = await self._journal.sessions(limit=MOST_LOOKED_AT, wanted=wanted)
        running = await self._journal.sessions(limit=MOST_LOOKED_AT, wanted=SessionFilter(status=RUNNING))
        is_asked = any("idle" in rule.on for rule in self._rules) or any(status_of(row) == "waiting" for row in running)
        opened = await self._journal.open_calls() if running and is_asked else NOTHING_OPEN
        self._calls = {(one["stream"], one["callId"]): one["seq"] for one in opened["calls"]}
        waiting = find_waiting(running, opened, {}, before=0, now=0)
        rows = {row["session"]: row for row in (*changed, *running)}.values()
        now, wall = time.monotonic(), wall_clock()
        more = [
            *silent_sessions(running, opened["calls"], self._started, now, wall),
            *await self._spending.look(self._rules, rows, now),
        ]
        watch.look(rows, waiting, now, wall, more)
        self._seen = max(self._seen, latest)

    async def _without_secrets(self, call: Call) -> Call:
        """Mask what may have been cut within a secret, which could not be recognized afterwards."""
        session, question = dict(call.session), call.question
        if title := session.get("title"):
            session["title"] = _masked_short(title)
        if question is not None:
            preview = question.preview and await self._masked_preview(question, question.preview)
            title = question.call_title and _masked_short(question.call_title)
            question = msgspec.structs.replace(question, preview=preview, call_title=title)
        return call._replace(session=session, question=question)

    async def _masked_preview(self, asked: Waiting, preview: str) -> str:
        """Derive the preview again from the masked input of the call if there is a secret in it."""
        if len(preview) < PREVIEW_LENGTH - 1:  # it is whole
            return _masked_short(preview)
        try:
            stored = await self._journal.event(self._calls.get((asked.stream, asked.call_id), asked.seq))
        except JournalError:
            stored = None
        if stored is not None:
            event = await anyio.to_thread.run_sync(masked_event, stored.body, mask_secrets)
            if isinstance(event, ToolCall) and event.preview:
                return event.preview
        return _masked_short(f"{preview}…")

    def _put(self, queue: MemoryObjectSendStream[_Queued], rule: NotifyRule, call: Call) -> None:
        try:
            queue.send_nowait((rule, _masked(self._message(rule, call))))
        except anyio.WouldBlock:
            self._dropped += 1
            self._report("calls are made too slowly; some were dropped")

    def _message(self, rule: NotifyRule, call: Call) -> dict[str, Any]:
        session, question = call.session, call.question
        name = session.get("session")
        path = "/usage" if name is None else f"/sessions/{quote(name, safe='')}"
        known = {
            "reason": call.reason,
            "title": title_of(rule, call),
            "text": text_of(rule, call)[:MOST_MASKED],
            "session": name,
            "sessionTitle": session.get("title"),
            "provider": session.get("provider"),
            "project": folder_of(session) or None,
            "ts": session.get("lastTs") if question is None else question.since,
            "seq": session.get("lastSeq") if question is None else question.seq,
            "permissionId": None if question is None else question.permission_id,
            "link": self._link(path if question is None else f"{path}?at={question.seq}"),
        }
        return {key: value for key, value in known.items() if value is not None}

    async def _work(self, queued: MemoryObjectReceiveStream[_Queued]) -> None:
        async for rule, message in queued:
            try:
                await self._send(rule, message)
                self._sent += 1
            except (CommandError, _WebhookError) as error:
                self._failed += 1
                detail = f" ({error.detail})" if isinstance(error, CommandError) and error.detail else ""
                self._report(f"{rule.command[0] if rule.command else rule.url}: {error}{detail}")
            except Exception as error:
                self._failed += 1
                faults.note("nobody was called", place_of(error), error)

    async def _send(self, rule: NotifyRule, message: bytes) -> None:
        """Run the command, or send the webhook, again if it fails. Raises `CommandError` and `_WebhookError`."""
        if rule.command:
            words = _words(rule.command, msgspec.json.decode(message))
            run = partial(self._commands.run, words, message + b"\n", timeout=rule.timeout, max_bytes=MOST_PRINTED)
            await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
            return
        for pause in (*WEBHOOK_PAUSES, None):
            try:
                await anyio.to_thread.run_sync(_post, rule, message, abandon_on_cancel=True)
                return
            except _WebhookError:
                if pause is None:
                    raise
            await anyio.sleep(pause)

    def _report(self, problem: str) -> None:
        """Log a problem, once as long as it is the same."""
        if problem != self._problem:
            self._problem = problem
            _log.warning("nobody was called", reason=problem)


def _masked_short(text: str) -> str:
    return masked_title(text if len(text) <= MOST_MASKED else f"{text[:MOST_MASKED]}…", mask_secrets)


def _masked(message: dict[str, Any]) -> bytes:
    """Encode a message without secrets; its text is cut afterwards."""
    text = _masked_short(message["text"])
    return mask_secrets(msgspec.json.encode({**message, "text": text[:TEXT]}))


class _WebhookError(Exception):
    """The webhook was not accepted; the message says why."""


def _words(command: Sequence[str], message: Mapping[str, Any]) -> list[str]:
    """Fill the words of a command in. A text from outside is never taken for an option."""

    def filled(word: str) -> str:
        value = PLACE.sub(lambda found: one_line(str(message.get(found[1], ""))), word)
        return f" {value}" if value.startswith("-") and not word.startswith("-") else value

    return [command[0], *map(filled, command[1:])]


def _post(rule: NotifyRule, message: bytes) -> None:
    """Send a webhook once. Raises `_WebhookError`."""
    from tooltap.daemon.system.post import post

    assert rule.url is not None
    body, headers = _FORMATS[rule.format](message)
    headers["User-Agent"] = f"tooltap/{__version__}"
    if rule.secret is not None:
        headers["X-Tooltap-Signature"] = f"sha256={hmac.new(rule.secret.encode(), body, hashlib.sha256).hexdigest()}"
    if (problem := post(rule.url, body, headers, rule.timeout).problem) is not None:
        raise _WebhookError(problem)


def _json(message: bytes) -> tuple[bytes, dict[str, str]]:
    return message, {"Content-Type": "application/json"}


def _ntfy(message: bytes) -> tuple[bytes, dict[str, str]]:
    """The text is the body, and the rest is in headers, as https://docs.ntfy.sh/publish has it."""
    said = msgspec.json.decode(message)
    headers = {"Title": Header(one_line(said["title"]), maxlinelen=1_000).encode()}
    if "link" in said:
        headers["Click"] = said["link"]
    if said["reason"] == "waiting":
        headers["Priority"] = "high"
    return one_line(said["text"], TEXT).encode(), headers


_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def _slack(message: bytes) -> tuple[bytes, dict[str, str]]:
    """As https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks has it."""
    said = msgspec.json.decode(message)
    title, text = (one_line(said[key], TEXT).translate(_ESCAPED) for key in ("title", "text"))
    lines = [f"*{title}*", text, f"<{said['link'].translate(_ESCAPED)}>" if "link" in said else ""]
    body = {"text": "\n".join(line for line in lines if line)}
    return msgspec.json.encode(body), {"Content-Type": "application/json"}


_FORMATS: dict[str, Callable[[bytes], tuple[bytes, dict[str, str]]]] = {"json": _json, "ntfy": _ntfy, "slack": _slack}
