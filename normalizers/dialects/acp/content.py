"""ACP content: the blocks of messages, and the items of a tool call (blocks, diffs, terminals)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import Attachment

__all__ = [
    "attach",
    "blocks",
    "decoded",
    "diffs",
    "is_block",
    "json_object",
    "linked",
    "read_prompt",
    "terminal_ids",
    "text_of",
    "unfence",
]

_BLOCK_TYPES = ("text", "image", "audio", "resource", "resource_link")
_FENCE = re.compile(r"(`{3,})[\w+-]*\n(?P<text>.*?)\n?\1\n?", re.DOTALL)


def is_block(block: dict[str, Any]) -> bool:
    """Whether it is a content block of a type this page knows."""
    return block.get("type") in _BLOCK_TYPES


def read_prompt(parser: Parser, prompt: Any) -> tuple[str, list[Attachment]]:
    """A whole message: its text, and what else is in it."""
    content = records(prompt)
    texts = [block["text"] for block in content if block.get("type") == "text" and isinstance(block.get("text"), str)]
    attachments = [found for block in content if block.get("type") != "text" for found in attach(parser, block)]
    return "\n".join(texts), attachments


def attach(parser: Parser, block: dict[str, Any]) -> list[Attachment]:
    """A block that is no text: a body is kept aside, a link stays a link."""
    if block.get("type") == "resource":
        return _attach_resource(parser, record(block.get("resource")))
    bodies = Bodies(parser)
    bodies.take(block)
    return bodies.attachments or linked(block)


def linked(block: dict[str, Any]) -> list[Attachment]:
    """The link in a block, where there is one and no body."""
    uri = string(block.get("uri"))
    return [_link(block, uri)] if uri is not None and "outputId" not in block else []


def _attach_resource(parser: Parser, resource: dict[str, Any]) -> list[Attachment]:
    uri, text = resource.get("uri"), resource.get("text")
    if isinstance(text, str):
        body = text.encode()
        mime_type = _mime_type(resource, "text/plain")
        output_id = parser.put_output(body, mime_type)
        return [Attachment(mime_type=mime_type, output_id=output_id, bytes=len(body), name=string(uri))]
    bodies = Bodies(parser)
    bodies.take(resource)
    return bodies.attachments or linked(resource)


def _link(block: dict[str, Any], uri: str) -> Attachment:
    return Attachment(
        mime_type=_mime_type(block, "application/octet-stream"),
        uri=uri,
        name=string(block.get("name")),
        bytes=whole(block.get("size")),
    )


def _mime_type(block: dict[str, Any], default: str) -> str:
    return string(block.get("mimeType")) or default


# -- content of tool calls ----------------------------------------------------------------------------------------


def blocks(content: Any) -> list[dict[str, Any]]:
    """The content blocks of a tool call, out of their items."""
    found = []
    for item in records(content):
        block = record(item.get("content")) if item.get("type") == "content" else item
        if is_block(block):
            found.append(block)
    return found


def text_of(content: Any) -> str | None:
    """The text of a tool call's content, a line for each block; None if there is none."""
    texts = []
    for block in blocks(content):
        text = (record(block.get("resource")) or block).get("text")
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts) if texts else None


def diffs(content: Any) -> list[dict[str, Any]]:
    return [item for item in records(content) if item.get("type") == "diff"]


def terminal_ids(content: Any) -> list[str]:
    ids = [item.get("terminalId") for item in records(content) if item.get("type") == "terminal"]
    return [one for one in ids if isinstance(one, str)]


def unfence(text: str) -> str:
    """Text without the code fence that an adapter put around the whole of it (claude-agent-acp, codex-acp)."""
    fenced = _FENCE.fullmatch(text)
    return fenced["text"] if fenced else text


def json_object(text: str | None) -> dict[str, Any]:
    """The object a text is the JSON of; {} if it is none."""
    if text is None or not text.lstrip().startswith("{"):
        return {}
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def decoded(raw: Any) -> Any:
    """Vibe sends its raw input and output as strings of JSON."""
    return json_object(raw) or raw if isinstance(raw, str) else raw
