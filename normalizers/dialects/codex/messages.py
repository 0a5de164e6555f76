"""Codex's messages and reasoning: each is emitted once, although the wire has it up to three times, after its deltas.

One text has up to three forms: the completed item (with an id), the older event derived from it, and the raw response
item. The form that arrives first is emitted; a later one is recognised by its text.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import make_room
from tooltap.normalizers.core.writer import take_bodies
from tooltap.normalizers.dialects.codex import CONTEXT
from tooltap.normalizers.dialects.codex.items import nonempty, with_type
from tooltap.normalizers.dialects.codex.threads import Threads
from tooltap.normalizers.tools.payload import strings
from tooltap.normalizers.wire.values import first_string, records, whole
from tooltap.protocol.events import Attachment, Message

_PAYLOAD = "\nPayload:\n"
"""End of the header of a message between agents: `Message Type: FINAL_ANSWER\\nTask name: …\\nSender: …`."""
_NOTIFICATION = re.compile(r"\s*<((?:sub)?agent[-_]notification)>.*</\1>\s*\Z", re.DOTALL)
"""A report of another agent, in the user's role."""

_FORMS = {
    "AgentMessage": ("assistant", "item", ("content",)),
    "Plan": ("assistant", "item", ("text",)),  # ends a planning turn: a text, not a to-do list
    "Reasoning": ("reasoning", "item", ("summary_text", "raw_content")),
    "agent_message": ("assistant", "event", ("message",)),
    "agent_reasoning": ("reasoning", "event", ("text",)),
    "agent_reasoning_raw_content": ("reasoning", "event", ("text",)),
    "reasoning": ("reasoning", "raw", ("summary", "content")),
}
"""Type -> (role, form, keys whose values are lists of texts or of parts with texts, or one text if in `_STRINGS`)."""
_STRINGS = ("message", "text")
"""Keys whose value is one text, not a list."""
_DELTAS = {"AgentMessage": ("agent_message_",), "Plan": ("plan_",), "Reasoning": ("reasoning_",)}
"""Type of an item -> prefixes of its deltas' types."""
_EVENT_DELTAS = ("agent_message_delta", "agent_reasoning_delta", "agent_reasoning_raw_content_delta")


class CodexMessages:
    """Emits texts, each in the form that arrives first."""

    events = Lines()
    completed_items = Lines()
    raw_items = Lines()

    def __init__(self, parser: Parser, threads: Threads) -> None:
        self._parser = parser
        self._texts = parser.texts
        self._threads = threads

    # -- what the agent says --------------------------------------------------------------------------------------

    @events("agent_message", "agent_reasoning", "agent_reasoning_raw_content")
    @completed_items("AgentMessage", "Plan", "Reasoning")
    @raw_items("reasoning")
    def _text(self, value: Line) -> Skip:
        role, form, keys = _FORMS[value["type"]]
        blocks: list[str] = []
        for key in keys:
            content = value.get(key)
            blocks += _texts([content] if key in _STRINGS else content)
        return self._emit_new(role, blocks, form, nonempty(value, "phase") if form == "event" else value)

    @raw_items("message")
    def _raw_message(self, item: Line) -> Skip:
        """Read a raw message. In roles other than `assistant` it holds the prompt as the model gets it, instructions,
        or the environment, and is skipped."""
        if item.get("role") != "assistant":
            return "prompt-context"
        return self._emit_new("assistant", _texts(item.get("content")), "raw", item)

    @raw_items("agent_message")
    def _mail(self, item: Line) -> Skip:
        """Emit what another agent wrote to this one (multi-agent mode of 0.169), with its name. The text has a header,
        and may be encrypted."""
        _, is_mail, said = "".join(_texts(item.get("content"))).partition(_PAYLOAD)
        if not is_mail or not said.strip():
            return "prompt-context"
        author = first_string(item, "author")
        self._threads.before_content()
        self._parser.emit_text("system", f"{author}: {said}" if author else said, message_id=first_string(item, "id"))
        return None

    def last_message(self, msg: Line) -> None:
        """The end of a turn repeats the last message; it counts only if no message of the turn was seen."""
        text = first_string(msg, "last_agent_message")
        if text is None:
            return
        for seen in self._threads.current.texts:
            if seen.role == "assistant":
                return
        self._emit_new("assistant", [text], "event", {})

    def _emit_new(self, role: str, blocks: list[str], form: str, item: Line) -> Skip:
        if not any(blocks):
            return "empty"
        message_id = first_string(item, "id")
        thread = self._threads.current
        new = [(index, text) for index, text in enumerate(blocks) if text and thread.is_new(role, text, form)]
        if thread.receiving:
            self._drop_deltas(role, message_id, new=bool(new))
        if not new:
            return "duplicate"
        self._threads.before_content()
        for index, text in new:
            self._parser.emit_text(role, text, message_id=message_id, block=index if message_id is not None else None)
        if item.get("phase") == "commentary":
            self._parser.goes_on()
        return None

    # -- prompts --------------------------------------------------------------------------------------------------

    @completed_items("UserMessage")
    def _prompt_item(self, item: Line) -> Skip:
        return self._prompt("".join(_texts(item.get("content"))), item.get("content"), "item", item)

    @events("user_message")
    def _prompt_event(self, msg: Line) -> Skip:
        images = [{"image_url": url} for url in strings(msg.get("images"))]
        files = [{"path": path} for path in strings(msg.get("local_images"))]
        return self._prompt(first_string(msg, "message") or "", images + files, "event", {})

    def raw_prompt(self, item: Line) -> Skip:
        """The prompt as the model gets it, for streams in which no event has it."""
        text = "".join(_texts(item.get("content")))
        if text.lstrip().startswith(CONTEXT):
            return "prompt-context"
        return self._prompt(text, item.get("content"), "raw", item)

    def _prompt(self, text: str, parts: Any, form: str, item: Line) -> Skip:
        if _NOTIFICATION.match(text):
            return "prompt-context"
        if not self._threads.current.is_new("user", text, form):
            return "duplicate"
        self._threads.before_content(prompt=True)
        attachments = self._images(parts) or None
        self._parser.emit(Message, role="user", text=text, message_id=first_string(item, "id"), attachments=attachments)
        return None

    def _images(self, parts: Any) -> list[Attachment]:
        attachments: list[Attachment] = []
        for part in records(parts):
            url = first_string(part, "image_url", "path")
            if url is not None and part.get("type") in (None, "image", "local_image"):
                attachments += take_bodies(self._parser, part)[1] or [Attachment(mime_type="image/*", uri=url)]
        return attachments

    # -- deltas ---------------------------------------------------------------------------------------------------

    @events("agent_message_content_delta", "plan_delta", "reasoning_content_delta", "reasoning_raw_content_delta")
    @events(*_EVENT_DELTAS)
    def _delta(self, msg: Line) -> Skip:
        """Read a delta of an item, or of an event, which repeats the item's deltas. Older versions have only deltas of
        events."""
        thread, delta = self._threads.current, first_string(msg, "delta")
        role = key = "reasoning" if "reasoning" in msg["type"] else "assistant"
        item_id, index = None, None
        if msg["type"] not in _EVENT_DELTAS:
            item_id = first_string(msg, "item_id")
            index = whole(msg.get("content_index" if "content_index" in msg else "summary_index")) or 0
            key = f"{item_id} {msg['type']} {index}"
        else:
            for other, receiving in thread.receiving.items():
                if receiving == role and other != role:
                    return "partial"
        if delta is not None and (self._threads.event_turn is None or self._threads.event_turn != thread.ended):
            self._threads.before_content()
            if key not in thread.receiving:
                make_room(thread.receiving, self._parser.context.limits.open_texts)
            thread.receiving[key] = role
            self._texts.append(role, delta, message_id=item_id, block=index, key=key, preview=True)
        return "partial"

    def abandon_texts(self, kind: str | None = None, item_id: Any = None) -> None:
        """Drop the texts being received, which will not be completed. `kind`, `item_id`: drop only texts of other items
        of this kind, because Codex sends items of one kind one after the other."""
        receiving = self._threads.current.receiving
        for key in list(receiving):
            other_id, _, delta = key.partition(" ")
            if kind is None or (other_id != item_id and delta.startswith(_DELTAS.get(kind, ("\0",)))):
                self._texts.drop(key)
                del receiving[key]

    def _drop_deltas(self, role: str, message_id: str | None, *, new: bool) -> None:
        """Drop the deltas of a text that has arrived whole: those of its item; if the text is new and names no item,
        those of its role."""
        receiving = self._threads.current.receiving
        for key in [key for key, other in receiving.items() if other == role]:
            of_item = message_id is not None and key.startswith(f"{message_id} ")
            if of_item or (new and (message_id is None or key == role)):
                self._texts.drop(key)
                del receiving[key]


def _texts(content: Any) -> list[str]:
    """The texts of a list of strings or content parts, or of one."""
    texts: list[str] = []
    for part in content if type(content) is list else (content,):
        text = with_type(part).get("text") if type(part) is dict else part
        if type(text) is str:
            texts.append(text)
    return texts
