"""ACP content: the blocks of messages, the items of a tool call (blocks, diffs), and the forms of elicitations."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.writer import Bodies, Writer
from tooltap.normalizers.wire.values import record, records, string, whole
from tooltap.protocol.events import Attachment

_BLOCK_TYPES = ("text", "image", "audio", "resource", "resource_link")


def is_block(block: Line) -> bool:
    """Return whether a block is a content block of a known type."""
    return block.get("type") in _BLOCK_TYPES


def read_prompt(writer: Writer, prompt: Any) -> tuple[str, list[Attachment] | None]:
    """Return the text and the attachments of a whole message."""
    content = records(prompt)
    texts = [block["text"] for block in content if block.get("type") == "text" and isinstance(block.get("text"), str)]
    attachments = [found for block in content if block.get("type") != "text" for found in attach(writer, block)]
    return "\n".join(texts), attachments or None


def attach(writer: Writer, block: Line) -> list[Attachment]:
    """A block that is not text: its body becomes an output body, a link stays a link."""
    if block.get("type") == "resource":
        block = record(block.get("resource"))
        if isinstance(text := block.get("text"), str):
            body, mime_type = text.encode(), string(block.get("mimeType")) or "text/plain"
            output_id, name = writer.put_output(body, mime_type), string(block.get("uri"))
            return [Attachment(mime_type=mime_type, output_id=output_id, bytes=len(body), name=name)]
    bodies = Bodies(writer)
    bodies.take(block)
    return bodies.attachments or linked(block)


def linked(block: Line) -> list[Attachment]:
    """The link in a block that has one and no body."""
    uri = string(block.get("uri"))
    if uri is None or "outputId" in block:
        return []
    mime_type = string(block.get("mimeType")) or "application/octet-stream"
    return [Attachment(mime_type=mime_type, uri=uri, name=string(block.get("name")), bytes=whole(block.get("size")))]


# -- content of tool calls ----------------------------------------------------------------------------------------


def blocks(content: Any) -> list[Line]:
    """The content blocks among the items of a tool call."""
    found: list[Line] = []
    if type(content) is list:
        for item in content:
            if type(item) is dict:
                kind = item.get("type")
                if kind == "content":
                    item = item.get("content")
                    kind = item.get("type") if type(item) is dict else None
                if kind in _BLOCK_TYPES:
                    found.append(item)
    return found


def texts_of(content: Any) -> list[str]:
    """The texts of a tool call's content, one of each block."""
    texts = []
    for block in blocks(content):
        text = (record(block["resource"]) or block if "resource" in block else block).get("text")
        if type(text) is str:
            texts.append(text)
    return texts


def text_of(content: Any) -> str | None:
    """The text of a tool call's content, one line per block; None if there is none."""
    texts = texts_of(content)
    return "\n".join(texts) if texts else None


def diffs(content: list[Any]) -> list[Line]:
    """The diffs among the items of a tool call."""
    return [item for item in content if type(item) is dict and item.get("type") == "diff"]


# -- forms ----------------------------------------------------------------------------------------------------------
