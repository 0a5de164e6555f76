"""Codex's messages and reasoning, each once, though the wire says it up to three times and in deltas before.

The forms of one text: the completed item (with an id), the older event derived from it, the raw response item. The
first that comes is emitted; a later one is known by what it says. A raw item may still hold what was taken out of the
message (citations): it then repeats the oldest text of its role that has not come raw.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, ClassVar

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.codex.state import CodexReader, Handlers, Msg, Said, int_of, knowing, text_of
from tooltap.normalizers.tools.payload import objects, strings
from tooltap.protocol.events import Attachment, Message, Reasoning

if TYPE_CHECKING:
    from tooltap.normalizers.dialects.codex.base import CodexParser

__all__ = ["CodexMessages"]

MANY_TEXTS = 256
"""Texts of one turn whose other forms are waited for."""

_CONTEXT_TAGS = ("<user_instructions>", "<environment_context>")
"""How messages in the user's role begin that the user did not write (Codex to 0.31)."""


class CodexMessages(CodexReader):
    def __init__(self, parser: CodexParser) -> None:
        self._parser = parser

    # -- whole texts ----------------------------------------------------------------------------------------------

    def _agent_message_item(self, item: Msg) -> str:
        return self._say("assistant", _texts(item.get("content")), "item", text_of(item, "id"))

    def _agent_message(self, msg: Msg) -> str:
        return self._say("assistant", [text_of(msg, "message") or ""], "event")

    def _plan_item(self, item: Msg) -> str:
        """The plan that ends a planning turn; a text, no to-do list."""
        return self._say("assistant", [text_of(item, "text") or ""], "item", text_of(item, "id"))

    def _reasoning_item(self, item: Msg) -> str:
        blocks = [*_texts(item.get("summary_text")), *_texts(item.get("raw_content"))]
        return self._say("reasoning", blocks, "item", text_of(item, "id"))

    def _agent_reasoning(self, msg: Msg) -> str:
        return self._say("reasoning", [text_of(msg, "text") or ""], "event")

    def _raw_reasoning(self, item: Msg) -> str:
        blocks = [*_texts(item.get("summary")), *_texts(item.get("content"))]
        return self._say("reasoning", blocks, "raw", text_of(item, "id"))

    def _raw_message(self, item: Msg) -> str:
        if item.get("role") != "assistant":
            # The prompt as the model gets it, beside instructions and the environment in the same role.
            return skip("prompt-context")
        return self._say("assistant", _texts(item.get("content")), "raw", text_of(item, "id"))

    def raw_prompt(self, item: Msg) -> str:
        """The prompt as the model got it, where no event says it."""
        content = item.get("content")
        text = "".join(_texts(content))
        if text.lstrip().startswith(_CONTEXT_TAGS):
            return skip("prompt-context")
        return self._say_prompt(text, content, "raw", text_of(item, "id"))

    def _user_message_item(self, item: Msg) -> str:
        content = item.get("content")
        text = "".join(_texts(content))
        return self._say_prompt(text, content, "item", text_of(item, "id"))

    def _user_message(self, msg: Msg) -> str:
        images = [{"image_url": url} for url in strings(msg.get("images"))]
        files = [{"path": path} for path in strings(msg.get("local_images"))]
        return self._say_prompt(text_of(msg, "message") or "", images + files, "event", None)

    def last_words(self, msg: Msg) -> None:
        """A turn's end repeats the last message; it counts only if none of the turn was seen."""
        text = text_of(msg, "last_agent_message")
        if text is not None and not any(said.role == "assistant" for said in self._parser.thread.said):
            self._say("assistant", [text], "event")

    def _say(self, role: str, blocks: list[str], form: str, message_id: str | None = None) -> str:
        parser = self._parser
        if not any(blocks):
            return skip("empty")
        new = [(index, text) for index, text in enumerate(blocks) if text and self.is_new(role, text, form)]
        self._forget_deltas(role, message_id, new=bool(new))
        if not new:
            return skip("duplicate")
        parser.before_content()
        for index, text in new:
            block = index if message_id is not None else None
            if role == "reasoning":
                parser.emit(Reasoning, text=text, message_id=message_id, block=block)
            else:
                parser.emit(Message, role=role, text=text, message_id=message_id, block=block)
        return WITH_EVENTS

    def _say_prompt(self, text: str, parts: Any, form: str, message_id: str | None) -> str:
        if not self.is_new("user", text, form):
            return skip("duplicate")
        self._parser.before_content(prompt=True)
        self._parser.emit(
            Message, role="user", text=text, message_id=message_id, attachments=self._images(parts) or None
        )
        return WITH_EVENTS

    def is_new(self, role: str, text: str, form: str) -> bool:
        """Whether this text was not said before in another form; remembers that it now was in this one."""
        digest = zlib.crc32(text.encode())
        said = self._parser.thread.said
        waiting = [one for one in said if one.role == role and form not in one.forms]
        repeated = next((one for one in waiting if one.digest == digest), None)
        if repeated is None and form == "raw" and waiting:
            repeated = waiting[0]
        if repeated is not None:
            repeated.forms.append(form)
            return False
        said.append(Said(role, digest, [form]))
        del said[:-MANY_TEXTS]
        return True

    def _images(self, parts: Any) -> list[Attachment]:
        attachments: list[Attachment] = []
        for part in objects(parts):
            url = text_of(part, "image_url", "path")
            if url is None or part.get("type") not in (None, "image", "local_image"):
                continue
            bodies = Bodies(self._parser)
            bodies.take(part)
            attachments += bodies.attachments or [Attachment(mime_type="image/*", uri=url)]
        return attachments

    # -- deltas ---------------------------------------------------------------------------------------------------

    def _item_delta(self, role: str, msg: Msg) -> str:
        item_id = text_of(msg, "item_id")
        index = int_of(msg, "content_index" if "content_index" in msg else "summary_index") or 0
        return self._receive(role, msg, f"{item_id} {msg.get('type')} {index}", item_id, index)

    def _delta(self, role: str, msg: Msg) -> str:
        """Derived from an item's delta, and then an echo of it; older versions have only these."""
        if any(key != role and other == role for key, other in self._parser.thread.receiving.items()):
            return skip("partial")
        return self._receive(role, msg, role, None, None)

    def _receive(self, role: str, msg: Msg, key: str, message_id: str | None, block: int | None) -> str:
        parser = self._parser
        thread = parser.thread
        delta = text_of(msg, "delta")
        if delta is not None and (parser.event_turn is None or parser.event_turn != thread.ended):
            parser.before_content()
            while key not in thread.receiving and len(thread.receiving) >= parser.context.limits.open_texts:
                del thread.receiving[next(iter(thread.receiving))]
            thread.receiving[key] = role
            parser.texts.append(role, delta, message_id=message_id, block=block, key=key, preview=True)
        return skip("partial")

    def _forget_deltas(self, role: str, message_id: str | None, *, new: bool) -> None:
        """A full form is here. It is that of its item's deltas; where it is new and says no item, of all there are."""
        receiving = self._parser.thread.receiving
        for key in [key for key, other in receiving.items() if other == role]:
            of_item = message_id is not None and key.startswith(f"{message_id} ")
            if of_item or (new and (message_id is None or key == role)):
                self._parser.texts.drop(key)
                del receiving[key]

    # -- what reads what -------------------------------------------------------------------------------------------

    EVENTS: ClassVar[Handlers] = {
        "agent_message": _agent_message,
        "agent_message_content_delta": knowing(_item_delta, "assistant"),
        "agent_message_delta": knowing(_delta, "assistant"),
        "agent_reasoning": _agent_reasoning,
        "agent_reasoning_delta": knowing(_delta, "reasoning"),
        "agent_reasoning_raw_content": _agent_reasoning,
        "agent_reasoning_raw_content_delta": knowing(_delta, "reasoning"),
        "plan_delta": knowing(_item_delta, "assistant"),
        "reasoning_content_delta": knowing(_item_delta, "reasoning"),
        "reasoning_raw_content_delta": knowing(_item_delta, "reasoning"),
        "user_message": _user_message,
    }
    ENDS: ClassVar[Handlers] = {
        "AgentMessage": _agent_message_item,
        "Plan": _plan_item,
        "Reasoning": _reasoning_item,
        "UserMessage": _user_message_item,
    }
    RAW_ITEMS: ClassVar[Handlers] = {"message": _raw_message, "reasoning": _raw_reasoning}


def _texts(content: Any) -> list[str]:
    """The texts of a list of strings or content parts."""
    if not isinstance(content, list):
        return []
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return [text for text in texts if isinstance(text, str)]
