"""What a transcript or a stream repeats of earlier work: the lines that a fork copies; and the place to which the user
rewound the conversation.

A fork has the lines of its parent's conversation, with their uuids and times, before its own. `/branch` marks each of
them (`forkedFrom`). `--fork-session` (2.1.330) marks none; but before the conversation its file has a line of its own
with a time (`queue-operation`), and what it copies is older. A stream marks history as `historical` (2.1.266).
"""

from __future__ import annotations

from itertools import takewhile

import msgspec

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import put
from tooltap.normalizers.dialects.claude.reports import COUNTS, Before, beyond, less
from tooltap.normalizers.wire.values import milliseconds, record, string
from tooltap.protocol.events import ModelUsage

PROMPTS = 512
"""Maximum number of prompts whose parents are remembered."""
MODELS = 64
"""Maximum number of models whose usage is counted after a fork."""


class HistoryState(msgspec.Struct):
    began: int | None = None
    """Time of a line that precedes the conversation in the file."""
    is_own: bool = False
    """A line of the session's own conversation was read."""
    is_open: bool = False
    """The line before was history."""
    copied: bool = False
    """The file has history of another session."""
    forked_from: str | None = None
    """That session, if a line names it."""
    used: dict[str, ModelUsage] = {}
    """Model -> what the fork has used by itself, until `before` is known."""
    before: Before | None = None
    """What the totals had reached when the session was forked."""
    spoken: str | None = None
    """Uuid of the newest prompt or answer of the main agent."""
    prompts: dict[str, str] = {}
    """Uuid of a line that a prompt follows -> uuid of the prompt, for the latest prompts."""


class History:
    """Recognises history, and keeps it out of turns and sums."""

    def __init__(self, parser: Parser, state: HistoryState) -> None:
        self._parser = parser
        self._state = state

    # -- lines ----------------------------------------------------------------------------------------------------

    def note_beginning(self, value: Line) -> None:
        """Take the time of a line before the conversation, if it is no part of one."""
        if "uuid" not in value:
            self._state.began = milliseconds(value.get("timestamp"))

    def enter(self, value: Line, *, is_message: bool) -> None:
        """Set whether a line of a transcript is history. `is_message`: it is the user's or an agent's."""
        state, parser = self._state, self._parser
        copied = "forkedFrom" in value
        if copied:
            stated = value["forkedFrom"]
            state.forked_from = string(stated) or string(record(stated).get("sessionId")) or state.forked_from
        elif not state.is_own:
            began, ts = state.began, parser.ts
            copied = began is not None and ts is not None and ts < began and (is_message or state.copied)
            state.is_own = is_message and not copied
        state.copied |= copied
        self.mark(copied)

    def mark(self, is_history: bool) -> None:
        """Set whether a line is history. The calls that history leaves open end with it."""
        state, parser = self._state, self._parser
        if state.is_open and not is_history:
            parser.replay = True
            parser.calls.close_turn(parser.session, None, parser.context.agent, "interrupted")
        parser.replay = state.is_open = is_history

    # -- totals ---------------------------------------------------------------------------------------------------

    def note_used(self, model: str | None, counts: dict[str, int]) -> None:
        """Count a request of the fork itself, until its totals are known."""
        state = self._state
        if not state.copied or state.before is not None or model is None:
            return
        used = state.used.get(model)
        if used is None:
            if len(state.used) >= MODELS:
                return
            used = state.used[model] = ModelUsage(model=model)
        for name in COUNTS:
            if (count := counts.get(name)) is not None:
                setattr(used, name, count + (getattr(used, name) or 0))

    def own_part(self, totals: list[ModelUsage]) -> list[ModelUsage]:
        """Return the part of totals that the fork used by itself. Its share of the cost is not known."""
        state = self._state
        if state.before is None:
            state.before = beyond(totals, list(state.used.values()))
            state.used = {}
        return [msgspec.structs.replace(model, cost_usd=None) for model in less(totals, state.before)]

    # -- rewinds --------------------------------------------------------------------------------------------------

    def note_spoken(self, value: Line) -> None:
        """Remember the main agent's newest prompt or answer."""
        uuid = value.get("uuid")
        if type(uuid) is str:
            self._state.spoken = uuid

    def note_prompt(self, value: Line, lines: dict[str, str]) -> list[str]:
        """Remember a prompt. Returns the lines of the main agent that it drops from the conversation, newest first,
        because it follows a line before them. `lines`: uuid -> agent, of the lines read so far, this one included.

        An attachment is no such line; one that an earlier prompt follows is known by that prompt."""
        state, parent, uuid = self._state, string(value.get("parentUuid")), string(value.get("uuid"))
        if parent is None or uuid is None:
            return []
        dropped: list[str] = []
        if parent != state.spoken:
            earlier = state.prompts.get(parent)
            until = parent if earlier is None else earlier
            if until in lines:
                after = takewhile(lambda one: one != until, reversed(lines))
                dropped = [one for one in after if not lines[one] and one != uuid]
                if earlier is not None:
                    dropped.append(earlier)
        put(state.prompts, parent, uuid, PROMPTS)
        return dropped if state.spoken in dropped else []
