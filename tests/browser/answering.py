"""A daemon in this process whose questions can be answered, and what it is asked to tell the agent.

Whether an answer reaches an agent, and that the first one wins, is the daemon's part, which is replaced here where it
handles requests; the tests of `daemon/ingest` are about that."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.serving import arrived
from tests.daemon.events import commit, event
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tooltap.daemon.server.requests import Requests
from tooltap.protocol.events import Event, Message, Notice, PermissionRequest, PermissionResponse, SessionEvent
from tooltap.protocol.frames import AnswerRequest, FrameError, InterruptRequest, Request, SendRequest, WaitingRequest
from tooltap.protocol.replies import AnswerResult, SendResult

__all__ = ["OPTIONS", "Answering", "answering"]

OPTIONS = [
    {"id": "once", "name": "Yes", "kind": "allow_once"},
    {"id": "always", "name": "Always", "kind": "allow_always", "remembers": "commands that begin with `git push`"},
    {"id": "no", "name": "No", "kind": "reject_once"},
]


class Answering:
    """`told` has each answer, prompt and interrupt that the daemon was asked for. The daemon refuses the next one with
    `refusal`, if that is set."""

    def __init__(self, daemon: Running, browser: Browser) -> None:
        self.daemon = daemon
        self.browser = browser
        self.url = browser.url
        self.told: SimpleQueue[AnswerRequest | SendRequest | InterruptRequest] = SimpleQueue()
        self.refusal: FrameError | None = None
        self.why_not: str | None = None
        self._lines: dict[str, int] = {}

    def open(self, page: Page, target: str) -> None:
        """Open a page; a new browser logs in."""
        page.goto(f"{self.url}{target}#{self.browser.link().partition('#')[2]}")
        arrived(page)
        page.locator('#connection[data-state="live"]').wait_for()

    def begin(self, session: str, title: str, cwd: str = "/home/you/ledger") -> None:
        self._commit(session, SessionEvent, state="started", title=title, cwd=cwd)

    def ask(self, session: str, permission: str = "p", **fields: Any) -> None:
        """Let the agent of a session ask. `fields`: of the request; a command by default."""
        given = {"type": "permission", "name": "Bash", "options": OPTIONS, "input": {"command": "git push"}, **fields}
        self._commit(session, PermissionRequest, permission_id=permission, **given)

    def note(self, session: str, code: str, text: str = "", **data: Any) -> None:
        """Journal what became of an answer."""
        self._commit(session, Notice, level="info", code=code, text=text, data={"permissionId": "p", **data})

    def settle(self, session: str, outcome: str = "allowed", permission: str = "p") -> None:
        """Let the agent go on."""
        self._commit(session, PermissionResponse, permission_id=permission, outcome=outcome, by="user")

    def say(self, session: str, text: str) -> None:
        self._commit(session, Message, role="assistant", text=text)

    def _commit(self, session: str, kind: type[Event], **fields: Any) -> None:
        base = self._lines.get(session, 0)
        self._lines[session] = base + 1
        about = {"session": session, "provider": "claude", "ts": int(time.time() * 1_000)}
        made = event(kind, session, base + 1, **{**about, **fields})
        self.daemon.commit(commit(made, stream=session, base=base, takes_answers=True))


@contextmanager
def answering(directory: Path) -> Iterator[Answering]:
    handled = Requests._result

    async def told(requests: Requests, request: Request) -> Any:
        if isinstance(request, WaitingRequest):
            result = await handled(requests, request)
            for one in result.waiting:
                one.answerable, one.why_not = one.certain and site.why_not is None, site.why_not
            return result
        if not isinstance(request, AnswerRequest | SendRequest | InterruptRequest):
            return await handled(requests, request)
        site.told.put(request)
        if site.refusal is not None:
            raise site.refusal
        if not isinstance(request, AnswerRequest):
            return SendResult(session=request.session, stream=request.session, id="1", delivered=True)
        return AnswerResult(
            session="",
            stream=request.stream or "",
            seq=1,
            permission_id=request.permission_id,
            outcome=request.outcome,
            by=request.by or "",
            ts=0,
            delivered=True,
        )

    with pytest.MonkeyPatch.context() as patch, browsed(directory) as served:
        site = Answering(*served)
        patch.setattr(Requests, "_result", told)
        yield site
