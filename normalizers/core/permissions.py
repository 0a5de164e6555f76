"""Permission requests and questions: asked, answered, or left open when their turn ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tooltap.protocol.events import PermissionRequest, PermissionResponse

if TYPE_CHECKING:
    from tooltap.normalizers.core.parser import Parser

__all__ = ["Permissions", "PermissionsState"]

_ALLOW_KINDS = ("allow_once", "allow_always")


class PendingPermission(msgspec.Struct, omit_defaults=True):
    session: str
    call_id: str | None = None
    turn: str | None = None
    agent: str | None = None
    origin: tuple[str, str] | None = None
    allowing: list[str] = []
    """Ids of the options that allow."""


class PermissionsState(msgspec.Struct, omit_defaults=True):
    pending: dict[str, PendingPermission] = {}


class Permissions:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    @property
    def _pending(self) -> dict[str, PendingPermission]:
        return self._parser.state.permissions.pending  # type: ignore[no-any-return]

    def is_pending(self, permission_id: str) -> bool:
        return permission_id in self._pending

    def call_of(self, permission_id: str) -> str | None:
        pending = self._pending.get(permission_id)
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
    ) -> None:
        """Emit the request. A call it is about must have been opened before, and waits from here on."""
        parser = self._parser
        call_id = parser.calls.id_of(call_id) if call_id is not None else None
        while len(self._pending) >= parser.context.limits.open_permissions:
            self._expire(next(iter(self._pending)))
        call = parser.calls.get(call_id) if call_id is not None else None
        self._pending[permission_id] = PendingPermission(
            session=parser.session,
            call_id=call_id,
            turn=parser.turn,
            agent=parser.agent,
            origin=parser.origin,
            allowing=[str(one.get("id")) for one in options or [] if one.get("kind") in _ALLOW_KINDS],
        )
        if call is not None and type == "permission":
            parser.calls.set_status(call, "awaiting-permission")
        parser.emit(
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

    def allows(self, permission_id: str, option_id: str | None) -> bool:
        """Whether the chosen option is one that allows."""
        pending = self._pending.get(permission_id)
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
        """Emit the response, and remember a denial for the call's result. Works without a request, too."""
        parser = self._parser
        pending = self._pending.pop(permission_id, None)
        if call_id is not None:
            call_id = parser.calls.id_of(call_id)
        elif pending is not None:
            call_id = pending.call_id
        call = parser.calls.get(call_id) if call_id is not None else None
        if call is not None and outcome == "denied":
            call.denied = True
        elif call is not None and outcome == "allowed":
            parser.calls.set_status(call, "running")
        parser.emit(
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

    def expire_turn(self, session: str, turn_id: str) -> None:
        """What nobody answered when its turn ended."""
        for permission_id, pending in list(self._pending.items()):
            if (pending.session, pending.turn) == (session, turn_id):
                self._expire(permission_id)

    def expire_all(self) -> None:
        """What nobody answered when the stream ended."""
        for permission_id in list(self._pending):
            self._expire(permission_id)

    def _expire(self, permission_id: str) -> None:
        pending = self._pending[permission_id]
        parser = self._parser
        scope = parser.session, parser.agent, parser.origin
        parser.session, parser.agent, parser.origin = pending.session, pending.agent, pending.origin
        self.answer(permission_id, "expired", synthetic=True)
        parser.session, parser.agent, parser.origin = scope
