"""Tool calls: identity, updates, results, and what is left open.

A call is identified by its id within its session and agent, never by order. Each call goes through these states:

    (unknown) ── open ──▶ open ── answer ──▶ done
        │                  │ ▲                │
        │                  │ └ answer(is_async): acknowledged, still open
        └── answer ──▶ done, with a synthetic call before it (`made_up`)
                           └── its turn or the stream ends ──▶ done, with a synthetic result

Providers skip steps, so every transition repairs what is missing:

- A result whose call was not seen gets a synthetic call. If the call comes after all, it is an update of that one.
- A call whose result never comes is closed when its turn or the stream ends. If the result comes after all, it names
  the synthetic result it `replaces`.
- A second final result of a call is a duplicate, and skipped, unless it corrects the first one (`correct`).
- A call that is acknowledged runs in the background: its turn's end does not close it, and its next result is final.

A call that is done leaves a `Tombstone`, so that late lines about it are recognised. Tombstones are bounded; the oldest
goes first.

Every `call_id` that dialects pass is the wire's, and means the newest call of the line's session that has it: some
providers reuse ids, and the sessions of one connection know nothing of each other's. Nor do the agents of a session: if
several have calls of one id, it means that of the line's agent. The first call keeps the wire's id; a later one is
`<turn>/<id>`, or `<turn>/<id>-<n>` where the turn has that one, too, and `<id>-<n>` outside of turns. A line that shows
a call under the id of one that is done either repeats that call or begins another: `repeats` has the rule. Models also
give parallel calls of one answer one id: then the place in the answer tells which call a line shows (`shown`), and the
results come in the order of the calls (`due`).
"""

from __future__ import annotations

from typing import Any, Self, TypeAlias, TypeVar
from zlib import crc32

import msgspec

from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.core.lines import Skip
from tooltap.normalizers.core.model_view import model_view
from tooltap.normalizers.core.state import SHORT, CallsState, OpenCall, Restore, Tombstone, Unfinished, tombstone_of
from tooltap.normalizers.core.writer import Writer, key_of_agent, key_of_spawner
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.payload import by_view, truncate_raw
from tooltap.normalizers.tools.registry import preview, tool_input, tool_output
from tooltap.protocol.events import Attachment, Display, Event, OutputRef, ToolCall, ToolResult, ToolUpdate


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A tool's result as a dialect reads it from the wire. `Calls.answer` converts it to the canonical output."""

    value: Any = None
    """The tool's output in a form its tool family reads; None where the wire states nothing but an error."""
    status: str = "completed"
    """The end of the call as the provider states it: completed, failed, denied, cancelled or interrupted. A denied
    permission or a stated exit code may correct it."""
    error: str | None = None
    """The provider's error message."""
    duration_ms: int | None = None
    display: Display | None = None
    """Shown to the user in place of the output."""
    model: Any = msgspec.UNSET
    """The result as sent to the model, in the wire's form: a text, or a list of content blocks whose binary data
    `take_bodies` has stored. UNSET: not stated on the wire."""
    attachments: list[Attachment] | None = None
    outputs: dict[str, OutputRef] | None = None
    """JSON pointer -> the output body that holds the whole of a truncated string."""
    is_async: bool = False
    """The call runs on in the background; its final result is still to come."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


K = TypeVar("K")
V = TypeVar("V")
Place: TypeAlias = tuple[str | None, int | str | None]
"""Where an answer of the model has a call: (id of the message, empty: the session's lines, None: the line; index or id
of its block, None: not stated, so that only another tool or input makes another call)."""

_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
DUPLICATE_RESULT = "duplicate-result"
AWAITING = "awaiting-permission"
"""Status of a call that waits for its user."""
UNKNOWN_TOOL = "unknown"
"""Raw name of a call whose line was not seen, only its result; canonical `Unknown`."""


class Index(dict[K, V]):
    """Lookup table that is rebuilt from the state. A reload changes the order of its keys, so it must not be
    iterated."""

    __slots__ = ()


class Calls:
    def __init__(self, writer: Writer, state: CallsState, unfinished: Unfinished) -> None:
        self._writer = writer
        self._state = state
        self._unfinished = unfinished
        self.restore: Restore | None = None
        self._of_turn: Index[str | None, dict[str, None]] = Index()
        """Turn -> ids of the open calls that end with it; saves a scan of all open calls. Rebuilt from the state."""
        self._of_wire_id: Index[tuple[str, str], dict[str, None]] = Index()
        """Session and id on the wire -> ids of the open calls that have it, oldest first; as above."""
        for call in state.open.values():
            self._put_in_turn(call)
            self._put_under_wire_id(call)

    # -- looking up -----------------------------------------------------------------------------------------------

    def id_of(self, call_id: str) -> str:
        """Return the call's id in events for its id on the wire."""
        return self._writer.id_of_call(call_id)

    def get(self, call_id: str) -> OpenCall | None:
        """The open call of this id."""
        return self._state.open.get(self.id_of(call_id))

    def still_open(self, call: OpenCall) -> tuple[OpenCall | None, str | None]:
        """Return (call, None) for an open call, (call, id of the synthetic result to replace) for one that was closed
        without a real result, (None, None) otherwise.

        A call that a dialect holds may have been closed meanwhile: with its turn, or by the limit of open calls."""
        if call.id in self._state.open:
            return call, None
        tomb = self._state.done.get(call.id)
        if tomb is None or tomb.synthetic_result is None:
            return None, None
        return call, tomb.synthetic_result

    def is_done(self, call_id: str) -> bool:
        """Return whether the call itself was seen (not only its result) and is done."""
        tomb = self._state.done.get(self.id_of(call_id))
        return tomb is not None and not tomb.made_up

    def is_over(self, call_id: str) -> bool:
        """Whether the call has its real result, so that another one is a duplicate."""
        tomb = self._state.done.get(self.id_of(call_id))
        return tomb is not None and tomb.synthetic_result is None

    def is_known(self, call_id: str) -> bool:
        return self._known(call_id) is not None

    def name_of(self, call_id: str) -> str | None:
        """Canonical name of a call that is open or done; of several open ones, of that which is `due`."""
        known = self.due(call_id) or self._known(call_id)
        return known.name if known else None

    def tool_of(self, call_id: str, raw_name: str) -> str:
        """Canonical name of the call's tool; if the call was not seen, that of `raw_name`."""
        return self.name_of(call_id) or canonical_name(raw_name, {}, call_id)

    def session_of(self, call_id: str) -> str | None:
        """Session of a call that is open or done."""
        known = self._known(call_id)
        return known.session if known else None

    def done_sources(self, call_id: str) -> list[str]:
        """The `source` that `open` was given for calls with this id that are done: for the newest, and the first."""
        return [one.source for one in self._done(call_id)]

    def source_of(self, call_id: str) -> str | None:
        """The `source` that `open` was given for a call that is open or done."""
        known = self._known(call_id)
        return known.source if known else None

    def repeats(
        self, call_id: str, raw_name: str, value: Any, *, name: str | None = None, retold: bool = False
    ) -> bool:
        """Return whether a line that shows a call repeats one that is done, rather than beginning another call under
        the same id.

        It repeats it if it is a replay, or has the same tool and the same input in the same turn (`retold`: or in a
        later one).
        """
        done = [one for one in self._done(call_id) if one.agent == self._writer.agent]
        if not done or self._writer.replay:
            return bool(done)
        if not retold:
            done = [one for one in done if self._writer.turn in (None, one.turn)]
        name = name or canonical_name(raw_name, value, call_id)
        told = digests(tool_input(name, value, raw_name))[1] if done else 0
        return any(one.name == name and told in one.told for one in done)

    def _done(self, call_id: str) -> list[Tombstone]:
        """Calls of the line's session with this id on the wire that are done: the newest, and the first."""
        newest_id, done = self.id_of(call_id), self._state.done
        found = [done[one] for one in dict.fromkeys((newest_id, call_id)) if one in done]
        session = self.session_of(call_id)
        return [one for one in found if one.session == session and not one.made_up]

    def shows(self, call: OpenCall, raw_name: str, value: Any, *, name: str | None = None) -> bool:
        """Return whether a line with this tool and this input shows an open call again, whatever its id says."""
        name = name or canonical_name(raw_name, value, call.id)
        return name == call.name and digests(tool_input(name, value, raw_name))[1] in call.told

    def due(self, call_id: str) -> OpenCall | None:
        """The open call that a result with this id belongs to. Parallel calls of one id get theirs in their order."""
        sharing = self._sharing(call_id)
        if len(sharing) < 2:
            return sharing[0] if sharing else None
        newest = sharing[-1]
        together = newest.turn, newest.agent, newest.acknowledged
        return next(one for one in sharing if (one.turn, one.agent, one.acknowledged) == together)

    def shown(
        self, call_id: str, raw_name: str, value: Any, place: Place | None = None, *, name: str | None = None
    ) -> OpenCall | None:
        """The open call that a line shows; None if it shows none of them, but another one.

        In an answer, an id that another place has, too, is another call's; and so is one without an index if the tool
        or the input differs. A line of no answer shows the call with this input, else the newest. Another agent's call
        is shown by no line with another tool or input, nor by one whose agent it spawned."""
        sharing = self._sharing(call_id)
        if not sharing:
            return None
        if sharing[-1].agent != self._writer.agent:  # then none of them is the agent's own
            return self._shown_of_other(sharing, raw_name, value, name)
        if place is None:
            return self._like(sharing, raw_name, value, name) or sharing[-1]
        answer, index = self._place(place)
        here = [one for one in sharing if one.place is not None and one.place[0] == answer]
        if not here:
            unplaced = next((one for one in sharing if one.place is None), None)
            if unplaced is not None:
                unplaced.place = answer, index
                return unplaced
            return self._like(sharing, raw_name, value, name) or sharing[-1]
        if index is not None:
            return next((one for one in here if one.place == (answer, index)), None)
        return self._like(here, raw_name, value, name)

    def _shown_of_other(self, calls: list[OpenCall], raw_name: str, value: Any, name: str | None) -> OpenCall | None:
        """The call of another agent that a line shows: one of the two did not state its agent."""
        agent = self._writer.agent
        parent = None if self._writer.parent is None else self._writer.id_of_spawner(self._writer.parent)
        unsure = [one for one in calls if (agent is None or one.agent is None) and one.id != parent]
        return self._like(unsure, raw_name, value, name)

    def _like(self, calls: list[OpenCall], raw_name: str, value: Any, name: str | None) -> OpenCall | None:
        """The first of some calls that has this tool and this input."""
        return next((one for one in calls if self.shows(one, raw_name, value, name=name)), None)

    def _sharing(self, call_id: str) -> list[OpenCall]:
        """The open calls of the line's session with this id on the wire, oldest first: the agent's own, if it has
        any."""
        opened, newest_id = self._state.open, self.id_of(call_id)
        newest = opened.get(newest_id)
        if newest_id == call_id:
            return [] if newest is None else [newest]
        known = newest or self._state.done.get(newest_id)
        session = self._writer.session if known is None else known.session
        calls = [opened[one] for one in self._of_wire_id.get((session, call_id), ())]
        agent = self._writer.agent
        own = [call for call in calls if call.agent == agent]
        return own if own or (agent is not None and known is not None and known.agent == agent) else calls

    def _place(self, place: Place) -> tuple[str, int | str | None]:
        answer, index = place
        return (f"#{self._writer.state.line}" if answer is None else answer[:SHORT]), index

    def is_open(self, session: str, turn_id: str | None, agent: str | None) -> bool:
        """Whether a call of a turn is open, other than background calls and subagents' calls."""
        return bool(self._ending_with(session, turn_id, agent))

    def remember(self, call: OpenCall, memory: dict[str, Any]) -> None:
        """Replace the dialect's memory of an open call. Ignored if the call is done: nothing would free the memory
        later."""
        state = self._state
        if state.open.get(call.id) is not call:
            return
        size = len(_pack(memory)) if memory else 0
        state.memory_bytes += size - call.memory_bytes
        call.memory, call.memory_bytes = memory, size
        if memory:
            state.remembered[call.id] = None
        while state.memory_bytes > self._writer.context.limits.call_bytes and state.remembered:
            oldest = next(iter(state.remembered))
            del state.remembered[oldest]
            if (other := state.open.get(oldest)) is not None:
                state.memory_bytes -= other.memory_bytes
                other.memory, other.memory_bytes = {}, 0

    def rename_session(self, before: str, after: str) -> None:
        """Move the calls of a session to the session's own id, once it is known."""
        for known in (*self._state.open.values(), *self._state.done.values()):
            if known.session == before:
                known.session = after
        self._of_wire_id.clear()
        for call in self._state.open.values():
            self._put_under_wire_id(call)
        renamed = self._state.renamed
        for key in [key for key in renamed if key.startswith(f"{before}/")]:
            renamed[after + key.removeprefix(before)] = renamed.pop(key)

    # -- opening and updating -------------------------------------------------------------------------------------

    def show(
        self,
        call_id: str,
        raw_name: str,
        value: Any,
        *,
        raw: Any,
        name: str | None = None,
        status: str | None = None,
        title: str | None = None,
        memory: dict[str, Any] | None = None,
        renames: bool = False,
        repeated: str = "unchanged",
        place: Place | None = None,
    ) -> Skip:
        """Read a line that shows a call: open the call, or emit what the line changes of it.

        The fields are those of `open`. `renames`: the line's tool name replaces the one the call was opened with.
        `repeated`: the reason to skip a line that only repeats a call that is done."""
        call = self.shown(call_id, raw_name, value, place, name=name)
        if call is not None:
            new_name = raw_name if renames else None
            changed = self.update(call, value, raw=raw, raw_name=new_name, name=name, status=status, title=title)
            return None if changed else "unchanged"
        if self.repeats(call_id, raw_name, value, name=name):
            return repeated
        status = status or "running"
        fields: dict[str, Any] = {"name": name, "status": status, "title": title, "memory": memory, "place": place}
        self.open(call_id, raw_name, value, raw=raw, **fields)
        return None

    def open(
        self,
        call_id: str,
        raw_name: str,
        value: Any,
        *,
        raw: Any,
        name: str | None = None,
        status: str = "running",
        title: str | None = None,
        synthetic: bool = False,
        memory: dict[str, Any] | None = None,
        outputs: dict[str, Any] | None = None,
        source: str = "",
        place: Place | None = None,
    ) -> OpenCall:
        """Emit a new call.

        `value`: the tool's input; `raw`: the provider's whole object for the call; `name`: the canonical name, where
        the dialect knows better than the table of names; `source`: the kind of line that opens the call, where only
        that distinguishes it from a repetition.

        If the result came first, this is an update of the synthetic call that was opened for it."""
        writer = self._writer
        state = self._state
        new_id = self.id_of(call_id)
        tomb = state.done.get(new_id)
        if tomb is not None:
            is_taken = not tomb.made_up
        else:  # the id of no call stands for one that another session has
            is_taken = new_id in state.open or new_id != call_id or writer.is_taken(new_id)
        if is_taken:
            new_id, tomb = self._another_id(call_id), None
        name = name or canonical_name(raw_name, value, call_id)
        payload = tool_input(name, value, raw_name)
        digest, told = digests(payload)
        parent = writer.parent
        shown = preview(name, payload, writer.state.cwd)
        call = OpenCall(
            raw_name,
            name,
            writer.session,
            writer.agent,
            None if parent is None else writer.id_of_spawner(parent),
            writer.turn,
            writer.origin,
            None if call_id == new_id else call_id,
            source,
            (told,),
            id=new_id,
            status=status,
            title=title,
            preview=shown,
            digest=digest,
        )
        if place is not None:
            call.place = self._place(place)
        if tomb is not None:
            self._complete(call, payload, raw, tomb)
            return call
        self._make_room()
        while len(sharing := self._of_wire_id.get(_place_of_wire_id(call), {})) >= writer.context.limits.shared_ids:
            self._close(self._state.open[next(iter(sharing))], "interrupted")
        payload = self._with_meta("input", payload, call, raw, synthetic)
        fields = {"call_id": new_id, "name": call.name, "input": payload, "status": status}
        if title is not None:
            fields["title"] = title
        if shown is not None:
            fields["preview"] = shown
        self._emit_of(call, ToolCall, fields, synthetic, outputs)
        self._add(call)
        if memory:
            self.remember(call, memory)
        return call

    def _make_room(self) -> None:
        opened = self._state.open
        while len(opened) >= self._writer.context.limits.open_calls:
            self._close(next(iter(opened.values())), "interrupted")

    def _add(self, call: OpenCall) -> None:
        state = self._state
        state.open[call.id] = call
        self._put_in_turn(call)
        self._put_under_wire_id(call)
        if call.parent is not None:
            state.children.setdefault(call.parent, {})[call.id] = None

    def _complete(self, call: OpenCall, payload: dict[str, Any], raw: Any, tomb: Tombstone) -> None:
        """Emit an update with the call's name and input, which arrived after its result."""
        call.session, call.agent, call.parent, call.turn = tomb.session, tomb.agent, tomb.parent, tomb.turn
        call.origin = tomb.origin
        completed = self._with_meta("input", payload, call, raw)
        fields = {
            "call_id": call.id,
            "name": call.name,
            "input": completed,
            "title": call.title,
            "preview": call.preview,
        }
        self._emit_of(call, ToolUpdate, fields)
        self._bury(call, tomb.synthetic_result)

    def update(
        self,
        call: OpenCall,
        value: Any = msgspec.UNSET,
        *,
        raw: Any = None,
        raw_name: str | None = None,
        name: str | None = None,
        status: str | None = None,
        title: str | None = None,
        progress: dict[str, Any] | None = None,
        display: Display | None = None,
    ) -> bool:
        """Emit what changed of a call; returns whether anything did. `value`: the new input (UNSET: unchanged). A call
        waits, whatever `status` says, while a permission request for it has no answer."""
        fields: dict[str, Any] = {"call_id": call.id, "name": call.name}
        renamed = False
        if raw_name is not None and raw_name != call.raw_name:
            call.raw_name = raw_name
        if value is not msgspec.UNSET:
            name = name or canonical_name(call.raw_name, value, call.id)
        if name is not None and name != call.name:
            call.name = fields["name"] = name
            renamed = True
        if value is not msgspec.UNSET:
            payload = tool_input(call.name, value, call.raw_name)
            digest, told = digests(payload)
            if renamed or digest != call.digest:
                call.digest = digest
                call.told = (*call.told[:1], told)
                fields["input"] = self._with_meta("input", payload, call, raw)
                shown = preview(call.name, payload, self._writer.state.cwd)
                if shown is not None and shown != call.preview:
                    call.preview = fields["preview"] = shown
        if title is not None and title != call.title:
            call.title = fields["title"] = title
        if status is not None and status != call.status and not (call.asked and status != AWAITING):
            call.status = fields["status"] = status
        if progress is not None:
            fields["progress"] = progress
        if display is not None:
            fields["display"] = display
        if len(fields) == 2 and not renamed:
            return False
        fields["name"] = call.name  # `restore` may have renamed it
        self._emit_of(call, ToolUpdate, fields)
        return True

    def set_status(self, call: OpenCall, status: str) -> bool:
        return self.update(call, status=status)

    # -- results --------------------------------------------------------------------------------------------------

    def answer(
        self,
        of: OpenCall | str,
        answer: Answer,
        *,
        raw: Any,
        raw_name: str = UNKNOWN_TOOL,
        final: bool = False,
        synthetic: bool = False,
    ) -> Skip:
        """Emit the result of a call, or of the one that has this id on the wire.

        `raw`: the provider's whole object for the result; `raw_name`: the tool's name on the line, for a call that was
        not seen; `final`: the call was acknowledged before, though its parser may not have seen that.
        """
        call, replaces = self.still_open(of) if isinstance(of, OpenCall) else self._of_result(of, raw_name)
        if call is None:
            return DUPLICATE_RESULT
        if not answer.is_async and self._state.children:
            for child in self._descendants(call.id):
                self._interrupt(child, "interrupted")
        self._result(call, answer, raw, final=final, synthetic=synthetic, replaces=replaces)
        return None

    def _result(
        self,
        call: OpenCall,
        answer: Answer,
        raw: Any,
        *,
        final: bool = False,
        synthetic: bool = False,
        replaces: str | None = None,
        ts: int | None = None,
    ) -> None:
        """Emit a result. The call's state changes last, so a result that cannot be made leaves the call open. `ts`: the
        result's time, if not that of the line."""
        value, shown = by_view(answer.value)
        output = tool_output(call.name, value, call.raw_name)
        status = self._status(call, output, answer.status)
        if status == "completed":
            if "errorMessage" in output:
                del output["errorMessage"]
        elif answer.error:
            output["errorMessage"] = answer.error
            if output.get("stdout") == answer.error:
                del output["stdout"]
        is_async = answer.is_async
        view = outputs = None
        if answer.model is not msgspec.UNSET:
            view, outputs = model_view(self._writer, answer.model, output)
        output = self._with_meta("output", output, call, raw, synthetic)
        fields: dict[str, Any] = {
            "call_id": call.id,
            "name": call.name,
            "output": output,
            "status": status,
            "is_error": status == "failed",
        }
        if answer.duration_ms is not None:
            fields["duration_ms"] = answer.duration_ms
        if answer.attachments is not None:
            fields["attachments"] = answer.attachments
        if answer.display is not None or shown is not None:
            fields["display"] = answer.display or shown
        if view is not None:
            fields["model_view"] = view
        elif not synthetic:
            fields["assistant_view"] = "unknown"
        if is_async:
            fields["async_"] = True
        if final or (call.acknowledged and not is_async):
            fields["final"] = True
        if replaces is not None:
            fields["replaces"] = replaces
        if call.wait_ms:
            fields["wait_ms"] = call.wait_ms
        if outputs is None:
            outputs = answer.outputs
        elif answer.outputs is not None:
            outputs.update(answer.outputs)
        event = self._emit_of(call, ToolResult, fields, synthetic, outputs, ts)
        if is_async:
            call.acknowledged = True
            self._take_from_turn(call)
            if self._state.done.pop(call.id, None) is not None:  # the acknowledgement came after the call was closed
                self._make_room()
                self._add(call)
        else:
            self._bury(call, event.id if synthetic else None)

    def correct(self, call_id: str, event_id: str, answer: Answer, *, raw: Any) -> Skip:
        """Emit another result of a call that is done, because a later line contradicts the one in event `event_id`."""
        tomb = self._state.done.get(self.id_of(call_id))
        if tomb is None:
            return DUPLICATE_RESULT
        tomb.synthetic_result = event_id
        return self.answer(call_id, answer, raw=raw)

    def _of_result(self, wire_id: str, raw_name: str) -> tuple[OpenCall | None, str | None]:
        state = self._state
        call_id = self.id_of(wire_id)
        call = self.due(wire_id)
        if call is not None:
            return call, None
        tomb = state.done.get(call_id)
        if tomb is None:
            name = "Unknown" if raw_name == UNKNOWN_TOOL else None
            call = self.open(wire_id, raw_name, {}, raw=None, name=name, synthetic=True)
            call.made_up = True
            return call, None
        if tomb.synthetic_result is None:
            return None, None
        call = OpenCall(*tomb.shared(), id=call_id, status="running")
        return call, tomb.synthetic_result

    @staticmethod
    def _status(call: OpenCall, output: dict[str, Any], status: str) -> str:
        exit_code = output.get("exit_code") if call.name == "Bash" else None
        ran = isinstance(exit_code, int) and exit_code >= 0  # to 0.58 Codex states -1 for what was not run
        if call.denied and not ran and status in ("failed", "cancelled", "interrupted"):
            return "denied"
        if status == "completed" and isinstance(exit_code, int) and exit_code != 0:
            return "failed"
        return status

    # -- ends -----------------------------------------------------------------------------------------------------

    def close_turn(
        self, session: str, turn_id: str | None, agent: str | None, status: str, *, stopped: bool = False
    ) -> None:
        """Close the open calls of a turn (None: of no turn); background calls and subagents' calls stay open.
        `stopped`: the current line states that the work of the turn was stopped, and with it the calls."""
        if not self._state.open:
            return
        for call in self._ending_with(session, turn_id, agent):
            if stopped:
                call.ts = self._writer.ts
            self._close(call, status)

    def close_all(self) -> None:
        """Close every open call as interrupted, because the stream ends."""
        for call in list(self._state.open.values()):
            if call.id in self._state.open:  # closing a spawning call closes its children
                self._close(call, "interrupted")

    def _close(self, call: OpenCall, status: str) -> None:
        """Close a call, and before it the calls of its subagents."""
        if call.id in self._state.open:
            for child in self._descendants(call.id) if self._state.children else ():
                self._interrupt(child, "interrupted")
            self._interrupt(call, status)

    def _interrupt(self, call: OpenCall, status: str) -> None:
        """Close a call that has no result, at the time of its last event."""
        value, outputs = self._unfinished(call)
        self._result(call, Answer(value, status, outputs=outputs), None, synthetic=True, ts=call.ts)

    def _bury(self, call: OpenCall, synthetic_result: str | None) -> None:
        state = self._state
        call_id = call.id
        if (gone := state.open.pop(call_id, None)) is not None:
            _remove(self._of_wire_id, _place_of_wire_id(gone), call_id)
        self._take_from_turn(call)
        state.memory_bytes -= call.memory_bytes
        if call_id in state.remembered:
            del state.remembered[call_id]
        if call.parent is not None:
            siblings = state.children.get(call.parent, {})
            siblings.pop(call_id, None)
            if not siblings:
                state.children.pop(call.parent, None)
        done = state.done
        if call_id in done:
            del done[call_id]  # the newest tombstone is the last
        done[call_id] = tombstone_of(call, synthetic_result)
        while len(done) > self._writer.context.limits.tombstones:
            oldest = next(iter(done))
            self._forget_id(oldest, done.pop(oldest))

    # -- internals ------------------------------------------------------------------------------------------------

    def _another_id(self, wire_id: str) -> str:
        """A new id for another call under an id that is taken."""
        state, writer = self._state, self._writer
        state.reused += 1
        turn = writer.turn
        newest = writer.id_of_call(wire_id)
        known = state.open.get(newest) or state.done.get(newest)
        # At least as many calls have such an id, so few are tried however often the id is reused.
        number = max(2, state.reused)
        first = call_id = f"{turn}/{wire_id}" if turn is not None else wire_id
        if turn is None or (known is not None and known.turn == turn and known.wire_id is not None):
            call_id = f"{first}-{number}"
        while call_id in state.open or call_id in state.done or writer.is_taken(call_id):
            number += 1
            call_id = f"{first}-{number}"
        self._note_agents(wire_id, newest, call_id)
        state.renamed[f"{writer.session}/{wire_id}"] = call_id
        return call_id

    def _note_agents(self, wire_id: str, before: str, call_id: str) -> None:
        """Note whose calls have an id on the wire, if several agents use it. `before`: the newest call until now."""
        state, session, agent = self._state, self._writer.session, self._writer.agent
        known = state.open.get(before) or state.done.get(before)
        is_others = known is not None and known.session == session and known.agent != agent
        if known is not None and is_others:
            if agent is not None and self._writer.parent == wire_id:
                spawner = self._writer.id_of_spawner(wire_id)
                state.renamed[key_of_spawner(session, agent, wire_id)] = spawner
            state.renamed[key_of_agent(session, known.agent, wire_id)] = before
        own = key_of_agent(session, agent, wire_id)
        if is_others or own in state.renamed:
            state.renamed[own] = call_id

    def _forget_id(self, call_id: str, tomb: Tombstone) -> None:
        """Drop the mappings of the wire id of a call whose tombstone was evicted."""
        renamed, session = self._state.renamed, tomb.session
        if not renamed:
            return
        wire_id = tomb.wire_id or call_id
        own = key_of_agent(session, tomb.agent, wire_id)
        if renamed.get(own) == call_id:
            del renamed[own]
            renamed.pop(key_of_spawner(session, tomb.agent, wire_id), None)
        if renamed.get(f"{session}/{wire_id}") == call_id:
            del renamed[f"{session}/{wire_id}"]

    def _descendants(self, call_id: str) -> list[OpenCall]:
        """Open calls of the call's subagents, recursively, innermost first in each branch. Background calls and their
        descendants are left out.

        Iterative, because agents may nest to any depth; cycles are tolerated, because calls may name each other as
        parent."""
        opened, children = self._state.open, self._state.children
        found: list[OpenCall] = []
        seen = {call_id}
        path: list[OpenCall] = []
        levels = [iter(tuple(children.get(call_id, ())))]
        while levels:
            child = next(levels[-1], None)
            if child is None:
                levels.pop()
                if path:
                    found.append(path.pop())
                continue
            call = opened.get(child)
            if call is not None and not call.acknowledged and child not in seen:
                seen.add(child)
                path.append(call)
                levels.append(iter(tuple(children.get(child, ()))))
        return found

    def _ending_with(self, session: str, turn_id: str | None, agent: str | None) -> list[OpenCall]:
        """The open calls that end with a turn."""
        calls = [self._state.open[one] for one in self._of_turn.get(turn_id, ())]
        return [call for call in calls if call.session == session and call.agent == agent]

    def _put_in_turn(self, call: OpenCall) -> None:
        if not call.acknowledged:
            self._of_turn.setdefault(call.turn, {})[call.id] = None

    def _put_under_wire_id(self, call: OpenCall) -> None:
        self._of_wire_id.setdefault(_place_of_wire_id(call), {})[call.id] = None

    def _take_from_turn(self, call: OpenCall) -> None:
        _remove(self._of_turn, call.turn, call.id)

    def _known(self, call_id: str) -> OpenCall | Tombstone | None:
        call_id = self.id_of(call_id)
        return self._state.open.get(call_id) or self._state.done.get(call_id)

    def _emit_of(
        self,
        call: OpenCall,
        kind: type[Event],
        fields: dict[str, Any],
        synthetic: bool = False,
        outputs: dict[str, OutputRef] | None = None,
        ts: int | None = None,
    ) -> Produced:
        """Emit an event of a call with the scope of the call, not that of the line. `ts`: its time, if not that of the
        line."""
        writer = self._writer
        if ts is None and (ts := writer.ts) is not None:
            call.ts = ts
        protocol, provider = call.origin or writer.origin or (writer.protocol, writer.provider)
        scope = call.session, call.agent, call.parent, call.turn, protocol, provider
        return writer.emit_in(kind, fields, scope, ts, writer.replay, synthetic, outputs)

    def _with_meta(
        self, field: str, payload: dict[str, Any], call: OpenCall, raw: Any, synthetic: bool = False
    ) -> dict[str, Any]:
        writer = self._writer
        protocol, provider = call.origin or writer.origin or (writer.protocol, writer.provider)
        payload["_happy"] = {
            "v": 2,
            "protocol": protocol,
            "provider": provider,
            "rawToolName": call.raw_name,
            "canonicalToolName": call.name,
        }
        payload["_raw"] = truncate_raw({} if raw is None else raw)
        return payload if self.restore is None or synthetic else self.restore(field, payload, call)


def _remove(index: Index[K, dict[str, None]], key: K, call_id: str) -> None:
    """Remove a call from an index, which lacks the calls of a parser that was replaced."""
    ids = index.get(key)
    if ids is not None and call_id in ids:
        del ids[call_id]
        if not ids:
            del index[key]


def _place_of_wire_id(call: OpenCall) -> tuple[str, str]:
    return call.session, call.wire_id or call.id


def digests(payload: dict[str, Any]) -> tuple[int, int]:
    """CRCs of an input: (of all of it, of it without our own `_` keys)."""
    encoded = _encode(payload)
    digest = crc32(encoded)
    for key in payload:
        if key[:1] == "_":
            return digest, crc32(_encode({key: item for key, item in payload.items() if key[:1] != "_"}))
    return digest, digest
