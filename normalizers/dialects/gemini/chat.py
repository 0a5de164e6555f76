"""The `gemini-chat` dialect: the chats Gemini CLI saves in `~/.gemini/tmp/<project>/chats/`.

Until 0.38 one JSON document, since then a log of JSON lines: a header, messages, and changes of the header (`$set`). A
message is written again in full whenever it grows (its calls come with the second writing), so that only what is new of
an id is told. `$set.messages`, `$patch` and `$rewindTo` change what the model remembers; nothing that was told is taken
back. No line ends a turn: the next prompt does, or the end of the file.

Learned from 0.61, from documents of 2025, and from the CLI's own reader (`chatRecordingService.ts`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.gemini.calls import ChatCalls, best_class
from tooltap.normalizers.dialects.gemini.parts import parts_of, records, text_of
from tooltap.normalizers.wire.times import milliseconds
from tooltap.protocol.events import Message, Notice, Reasoning, SessionEvent, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["GeminiChat"]

_SNAPSHOT = "<state_snapshot>"
_HARNESS = ("<session_context>", "<hook_context>", _SNAPSHOT)
"""How texts begin that stand among the user's parts, but that no user wrote."""
_AFTER_SNAPSHOT = "Got it. Thanks for the additional context!"
"""What the CLI lets the model answer to a summary of the history (`chatCompressionService.ts`)."""
_NOTES = (
    ("Request cancelled", "interrupt"),
    ("Chat history compressed", "compaction"),
    ("Context compressed", "compaction"),
)
"""How notes of the CLI to its user begin -> code of the notice."""
_CODES = {"info": "info", "warning": "warning", "error": "provider-error"}


class Told(msgspec.Struct, omit_defaults=True):
    """What was told of a message."""

    blocks: int = 0
    thoughts: int = 0
    chars: int = 0
    crc: int = 0
    """Of the text told so far, which has `chars` code points."""
    tokens: bool = False
    gone: bool = False
    """No longer in what the model remembers, or never was."""


class ChatState(State, kw_only=True):
    told: dict[str, Told] = msgspec.field(default_factory=dict)
    """By message id; the oldest are forgotten."""
    agent: str | None = None
    """The subagent whose chat this is."""
    started: str | None = None
    """The session whose start was told."""
    facts: dict[str, int] = msgspec.field(default_factory=dict)
    """CRC of what was last told of the session, by field."""
    outcome: str = "cancelled"
    """How the open turn ends if nothing more comes."""


class GeminiChat(Parser):
    dialect = "gemini-chat"
    protocol = "gemini"
    default_provider = "gemini"
    SKIPS = frozenset({"blank", "lost", "duplicate-result", "metadata", "prompt-context", "unchanged"})
    state_type = ChatState
    state: ChatState
    DOCUMENTS = True

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._chat_calls = ChatCalls(self)
        self._messages: dict[str, Callable[[dict[str, Any], Told], str]] = {
            "error": self._note,
            "gemini": self._gemini,
            "info": self._note,
            "user": self._user,
            "warning": self._note,
        }

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.agent = self.state.agent or self.agent
        if isinstance(value.get("$rewindTo"), str):
            return self._rewind(value["$rewindTo"])
        if isinstance(value.get("$set"), dict):
            return self._set(value["$set"])
        if isinstance(value.get("$patch"), dict):
            return self._patch(value["$patch"])
        if isinstance(value.get("id"), str):
            return self._message(value)
        if isinstance(value.get("sessionId"), str):
            return self._header(value)
        return self.unparsed("unknown-type", value)

    def finish(self, reason: str) -> None:
        self.agent = self.state.agent or self.agent
        self._end_turn(self.state.outcome)

    # -- the chat itself ----------------------------------------------------------------------------------------

    def _header(self, value: dict[str, Any]) -> str:
        """The first line, or a whole document."""
        self.ts = milliseconds(value.get("startTime")) or self.ts
        session = value["sessionId"]
        classes = [skip("metadata")]
        if value.get("kind") == "subagent":
            self.agent = self.state.agent = session
        elif self.state.started != session:
            self._end_turn(self.state.outcome)
            self.set_session(session)
            self.state.started, self.state.facts = session, {}
            self.emit(SessionEvent, state="started", **self._news(value))
            classes.append(WITH_EVENTS)
        elif news := self._news(value):
            self.emit(SessionEvent, state="updated", **news)
            classes.append(WITH_EVENTS)
        return best_class([*classes, self._history(value)])

    def _set(self, changes: dict[str, Any]) -> str:
        self.ts = milliseconds(changes.get("lastUpdated")) or self.ts
        classes = [skip("metadata")]
        session = changes.get("sessionId")
        if isinstance(session, str) and self.state.agent is None:  # written when a chat is taken up again
            self._end_turn(self.state.outcome)
            self.set_session(session)
            self.emit(SessionEvent, state="resumed")
            classes.append(WITH_EVENTS)
        if news := self._news(changes):
            self.emit(SessionEvent, state="updated", **news)
            classes.append(WITH_EVENTS)
        return best_class([*classes, self._history(changes)])

    def _news(self, value: dict[str, Any]) -> dict[str, Any]:
        """What differs from what was last told of the session; a subagent's chat says nothing about it."""
        if self.state.agent is not None:
            return {}
        stated = {"title": value.get("summary"), "model": value.get("model")}
        news = {}
        for key, item in stated.items():
            if isinstance(item, str) and self.state.facts.get(key) != _crc(item):
                self.state.facts[key] = _crc(item)
                news[key] = item
        return news

    def _history(self, value: dict[str, Any]) -> str:
        """What the model remembers from here on: what was told, less what was taken back or summed up. A compaction
        gives new ids to what it keeps."""
        messages = value.get("messages")
        if not isinstance(messages, list):
            return skip("metadata")
        known = self.state.told
        listed = {message["id"] for message in records(messages) if isinstance(message.get("id"), str)}
        grows = not listed <= known.keys()
        gone = [told for key, told in known.items() if key not in listed and not told.gone]
        copies = {(told.chars, told.crc) for told in gone if told.chars}
        classes = [self._message(message, copies) for message in messages]
        if grows:  # summed up: the summary says so
            for told in gone:
                told.gone = True
        else:
            classes.append(self._forget(gone))
        return best_class([skip("unchanged"), *classes])

    def _patch(self, changes: dict[str, Any]) -> str:
        """Messages masked, put in another order or left out, to save room; only what is left out is worth telling."""
        removed = changes.get("removeIds")
        ids = [key for key in removed if isinstance(key, str)] if isinstance(removed, list) else []
        known = self.state.told
        return self._forget([known[key] for key in ids if key in known and not known[key].gone])

    def _rewind(self, message_id: str) -> str:
        """From this message on, or altogether where it is not known."""
        told = list(self.state.told.items())
        start = next((index for index, (key, _) in enumerate(told) if key == message_id), 0)
        return self._forget([one for _, one in told[start:] if not one.gone], message_id)

    def _forget(self, told: list[Told], rewound_to: str | None = None) -> str:
        if not told and rewound_to is None:
            return skip("unchanged")
        for one in told:
            one.gone = True
        target = {} if rewound_to is None else {"messageId": rewound_to}
        text = "history shortened" if rewound_to is None else "history rewound"
        self.emit(Notice, level="info", code="rewound", text=text, data={**target, "messages": len(told)})
        return WITH_EVENTS

    # -- messages -----------------------------------------------------------------------------------------------

    def _message(self, message: Any, copies: Collection[tuple[int, int]] = ()) -> str:
        """`copies`: length and digest of texts that were told under ids no longer in use."""
        message_id = message.get("id") if isinstance(message, dict) else None
        reader = self._messages.get(str(message.get("type"))) if isinstance(message, dict) else None
        if reader is None or not isinstance(message_id, str):
            return self.unparsed("unknown-type", message)
        self.ts = milliseconds(message.get("timestamp")) or self.ts
        known = self.state.told
        told = known.get(message_id)
        if told is None:
            while len(known) >= self.context.limits.tombstones:
                del known[next(iter(known))]
            told = known[message_id] = Told()
            text = text_of(message.get("content"))
            if copies and (text == _AFTER_SNAPSHOT or (len(text), _crc(text)) in copies):
                told.blocks, told.chars, told.crc = 1, len(text), _crc(text)
        return reader(message, told)

    def _note(self, message: dict[str, Any], told: Told) -> str:
        """What the CLI told its user, not the model."""
        told.gone = True
        text = _new_text(message, told)
        if not text:
            return skip("unchanged")
        kind = message["type"]
        code = next((code for start, code in _NOTES if text.startswith(start)), _CODES[kind])
        self.emit(Notice, level=kind, code=code, text=text)
        if code == "interrupt":
            self._end_turn("cancelled", reason=text, synthetic=False)
        elif kind == "error":
            self.state.outcome = "failed"
        return WITH_EVENTS

    def _user(self, message: dict[str, Any], told: Told) -> str:
        """A prompt; or results that the model was given, which mostly stand with their calls, too."""
        parts = parts_of(message.get("content"))
        if any("functionResponse" in part for part in parts):
            return self._chat_calls.responses(parts)
        if told.blocks:
            return skip("unchanged")
        if any(text_of(part).startswith(_SNAPSHOT) for part in parts):
            told.blocks = 1
            self.emit(Notice, level="info", code="compaction", text="history summed up")
            return WITH_EVENTS
        bodies = Bodies(self)
        bodies.take([part for part in parts if "text" not in part])
        typed = parts_of(message.get("displayContent")) or parts
        text = text_of([part for part in typed if not text_of(part).lstrip().startswith(_HARNESS)])
        if not text and bodies.attachments is None:
            return skip("prompt-context")
        self._end_turn(self.state.outcome)
        self.start_turn()
        told.blocks, told.chars, told.crc = 1, len(text), _crc(text)
        self.emit(Message, role="user", text=text, message_id=message["id"], attachments=bodies.attachments)
        return WITH_EVENTS

    def _gemini(self, message: dict[str, Any], told: Told) -> str:
        events = len(self.items)
        if news := self._news({"model": message.get("model")}):
            self.emit(SessionEvent, state="updated", **news)
        parts = parts_of(message.get("content"))
        thoughts = records(message.get("thoughts")) or [part for part in parts if part.get("thought") is True]
        for thought in thoughts[told.thoughts :]:
            words = [thought.get(key) for key in ("subject", "description", "text")]
            text = "\n".join(word for word in words if isinstance(word, str) and word)
            self._block(Reasoning, message, told, text=text, ts=milliseconds(thought.get("timestamp")) or self.ts)
        told.thoughts = max(told.thoughts, len(thoughts))
        if text := _new_text(message, told):
            self._block(Message, message, told, text=text, role="assistant")
        calls = records(message.get("toolCalls"))
        line_class = self._chat_calls.read(calls, parts)
        self._tokens(message.get("tokens"), told)
        if len(self.items) == events:
            return line_class
        self.state.outcome = "completed" if told.chars and not calls else "cancelled"
        return WITH_EVENTS

    def _block(self, kind: type[Message | Reasoning], message: dict[str, Any], told: Told, **fields: Any) -> None:
        self.ensure_turn()
        self.emit(kind, message_id=message["id"], block=told.blocks, **fields)
        told.blocks += 1

    def _tokens(self, tokens: Any, told: Told) -> None:
        """Of one request. `input` is the prompt but for what the API's own tools put into it (`tool`), `output` the
        answer without its thoughts; `total` is the sum of the four."""
        if told.tokens or not isinstance(tokens, dict):
            return
        told.tokens = True
        counts = {key: item for key, item in tokens.items() if isinstance(item, int) and not isinstance(item, bool)}
        self.emit(
            Usage,
            scope="step",
            input_tokens=_sum(counts, "input", "tool"),
            output_tokens=_sum(counts, "output", "thoughts"),
            cache_read_tokens=counts.get("cached"),
            reasoning_tokens=counts.get("thoughts"),
        )

    def _end_turn(self, outcome: str, *, reason: str | None = None, synthetic: bool = True) -> None:
        if self.turn is not None:
            self.end_turn(outcome, reason=reason, synthetic=synthetic)
        self.state.outcome = "cancelled"


def _new_text(message: dict[str, Any], told: Told) -> str:
    """What the message's text has more than was told; nothing where it was changed (masked to save room)."""
    text = text_of(message.get("content"))
    if len(text) <= told.chars or _crc(text[: told.chars]) != told.crc:
        return ""
    new = text[told.chars :]
    told.chars, told.crc = len(text), _crc(text)
    return new


def _crc(text: str) -> int:
    return zlib.crc32(text.encode())


def _sum(counts: dict[str, int], *keys: str) -> int | None:
    stated = [counts[key] for key in keys if key in counts]
    return sum(stated) if stated else None
