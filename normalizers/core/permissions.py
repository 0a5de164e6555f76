"""Permission requests and questions: asked, answered, or expired when their turn ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tooltap.normalizers.core.answers import CannotWriteError, NotOfferedError
from tooltap.normalizers.core.calls import AWAITING, Calls
from tooltap.normalizers.core.state import PendingPermission, PermissionsState
from tooltap.normalizers.core.writer import Writer
from tooltap.protocol.events import PermissionRequest, PermissionResponse

_ALLOW = "allow"
"""Prefix of the kinds of options that allow: ACP has `allow_once` and `allow_always`, and agents add their own."""

REPLY_BYTES = 1_048_576
"""Maximum size of what is kept of all pending requests to answer them, in bytes."""

_pack = msgspec.msgpack.Encoder().encode

_PEOPLE = ("user", None)
"""Who answers a request for which a call waits; a policy and a hook answer at once, or compute."""


class Permissions:
    def __init__(self, writer: Writer, calls: Calls, state: PermissionsState) -> None:
        self._writer = writer
        self._calls = calls
        self._state = state

    def is_pending(self, permission_id: str) -> bool:
        return permission_id in self._state.pending

    def call_of(self, permission_id: str) -> str | None:
        pending = self._state.pending.get(permission_id)
        return pending.call_id if pending else None

    def ask(
        self,
        permission_id: str,
        *,
        call_id: str | None = None,
        type: str = "permission",  # noqa: A002 -- the schema's word
        options: list[dict[str, Any]] | None = None,
        title: str | None = None,
        questions: list[dict[str, Any]] | None = None,
        input: dict[str, Any] | None = None,  # noqa: A002 -- the schema's word
        name: str | None = None,
        reply_to: dict[str, Any] | None = None,
    ) -> None:
        """Emit the request. If its type is `permission`, its open call waits from here on (status
        `awaiting-permission`). `reply_to`: what the dialect needs to word an answer, for dialects that can."""
        writer = self._writer
        call_id = writer.id_of_call(call_id) if call_id is not None else None
        while len(self._state.pending) >= writer.context.limits.open_permissions:
            self._expire(next(iter(self._state.pending)))
        call = self._calls.get(call_id) if call_id is not None else None
        pending = PendingPermission(
            session=writer.session,
            call_id=call_id,
            turn=writer.turn,
            agent=writer.agent,
            origin=writer.origin,
            allowing=[str(one.get("id")) for one in options or [] if str(one.get("kind")).startswith(_ALLOW)],
            ts=writer.ts,
        )
        if call is not None and type == "permission":
            self._calls.set_status(call, AWAITING)
            call.asked += 1
            pending.waits = True
        event = writer.emit(
            PermissionRequest,
            permission_id=permission_id,
            type=type,
            call_id=call_id,
            name=name or (call.name if call is not None else None),
            input=input,
            title=title,
            options=options,
            questions=questions,
        )
        pending.event = event.id
        self._drop(permission_id)
        self._state.pending[permission_id] = pending
        if reply_to is not None:
            self._keep(permission_id, reply_to)

    def _keep(self, permission_id: str, reply_to: dict[str, Any]) -> None:
        state = self._state
        state.pending[permission_id].reply_to = reply_to
        state.kept[permission_id] = size = len(_pack(reply_to))
        state.kept_bytes += size
        while state.kept_bytes > REPLY_BYTES:
            self._drop(next(iter(state.kept)))

    def _drop(self, permission_id: str) -> None:
        """Keep no longer what a request needs to be answered."""
        if (size := self._state.kept.pop(permission_id, None)) is not None:
            self._state.kept_bytes -= size
            self._state.pending[permission_id].reply_to = {}

    def kept(self, permission_id: str) -> dict[str, Any]:
        """What was kept of a pending request to answer it; empty if nothing was."""
        pending = self._state.pending.get(permission_id)
        return pending.reply_to if pending is not None else {}

    def reply_to(self, request: Mapping[str, Any], *, needed: bool = True) -> dict[str, Any]:
        """What was kept of a pending request, given as the event that asks. Raises `NotOfferedError` if that event's
        request is not pending, and `CannotWriteError` if nothing was kept, but it is `needed`."""
        pending = self._state.pending.get(str(request.get("permissionId")))
        if pending is None or pending.event != request.get("id"):
            raise NotOfferedError("the agent does not wait for an answer to this request")
        if needed and not pending.reply_to:
            raise CannotWriteError("too much was asked at once: answer this request where the agent runs")
        return pending.reply_to

    def allows(self, permission_id: str, option_id: str | None) -> bool:
        """Whether the chosen option is one that allows."""
        pending = self._state.pending.get(permission_id)
        return pending is not None and option_id in pending.allowing

    def answer(
        self,
        permission_id: str,
        outcome: str,
        *,
        call_id: str | None = None,
        by: str | None = None,
        option_id: str | None = None,
        answers: dict[str, Any] | None = None,
        message: str | None = None,
        synthetic: bool = False,
    ) -> None:
        """Emit the response, and remember a denial for the call's result. The request need not have been seen; if it
        was, the response belongs to its session, as the line of an answer may state none."""
        writer = self._writer
        pending = self._state.pending.get(permission_id)
        if pending is not None and pending.session != writer.session:
            scope = writer.session, writer.agent, writer.origin
            writer.session, writer.agent, writer.origin = pending.session, pending.agent, pending.origin
            self.answer(
                permission_id,
                outcome,
                call_id=call_id,
                by=by,
                option_id=option_id,
                answers=answers,
                message=message,
                synthetic=synthetic,
            )
            writer.session, writer.agent, writer.origin = scope
            return
        if call_id is not None:
            call_id = writer.id_of_call(call_id)
        elif pending is not None:
            call_id = pending.call_id
        call = self._calls.get(call_id) if call_id is not None else None
        if call is not None and pending is not None and by in _PEOPLE and pending.ts is not None:
            call.wait_ms += max((writer.ts or 0) - pending.ts, 0)
        if call is not None and pending is not None and pending.waits:
            call.asked -= 1
        if call is not None and outcome == "denied":
            call.denied = True
        elif call is not None and (
            outcome == "allowed" or (outcome == "answered" and pending is not None and pending.waits)
        ):
            self._calls.set_status(call, "running")
        writer.emit(
            PermissionResponse,
            permission_id=permission_id,
            call_id=call_id,
            outcome=outcome,
            by=by,
            option_id=option_id,
            answers=answers,
            message=message,
            synthetic=synthetic,
        )
        self._drop(permission_id)
        self._state.pending.pop(permission_id, None)

    def is_open(self, session: str, turn_id: str) -> bool:
        """Whether a request of a turn has no answer yet."""
        return any((one.session, one.turn) == (session, turn_id) for one in self._state.pending.values())

    def expire_turn(self, session: str, turn_id: str, *, stated: bool) -> None:
        """Expire the requests that are open when their turn ends. `stated`: the current line states that it ends."""
        if not self._state.pending:
            return
        for permission_id, pending in list(self._state.pending.items()):
            if (pending.session, pending.turn) == (session, turn_id):
                self._expire(permission_id, stated=stated)

    def expire_all(self) -> None:
        """Expire the requests that are open when the stream ends."""
        for permission_id in list(self._state.pending):
            self._expire(permission_id)

    def _expire(self, permission_id: str, *, stated: bool = False) -> None:
        """Expire a request. `stated`: the current line states its end; else nothing is known after it was asked."""
        pending = self._state.pending[permission_id]
        writer = self._writer
        scope = writer.session, writer.agent, writer.origin, writer.ts
        writer.session, writer.agent, writer.origin = pending.session, pending.agent, pending.origin
        if not stated and pending.ts is not None:
            writer.ts = pending.ts
        self.answer(permission_id, "expired", synthetic=True)
        writer.session, writer.agent, writer.origin, writer.ts = scope
