"""The three views of an event as texts, and the two of them that differ from what the model saw as diffs.

The words of the page: what the model saw (`assistant`), what the user sees (`display`), what the provider sent (`raw`).
A call is compared by its arguments, line by line; a result by its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from tooltap.daemon.formats import counted
from tooltap.daemon.show.diff import Change, between, near
from tooltap.daemon.show.readable import Place, lines_of, objects_in, texts_in
from tooltap.daemon.views.text import result_text, without_meta
from tooltap.protocol.events import Attachment
from tooltap.protocol.model_view import model_blocks

__all__ = ["Block", "Pair", "Views", "views_of"]

TEXT_KINDS = ("message", "reasoning")
CALL_KINDS = ("tool-call", "tool-result")
COMPARED = 1_048_576
"""Characters up to which texts are compared; of longer ones it is only said whether they are the same."""
LONG_PLACE = 100_000
"""Characters up to which the lines of a provider's text are counted to find the one to compare."""
CUT = re.compile(r"…\(truncated \d+ chars\)\Z")
"""How a long text in the event's copy of the provider's object ends."""
ADDED = "+ marks what only the model saw, − marks what only {}."
NAMES = "+ marks lines as tooltap writes them, − marks lines as the provider writes them."


class Block(NamedTuple):
    """A block of what somebody saw: a text, or what is stored elsewhere."""

    text: str = ""
    stored: Attachment | None = None
    is_cut: bool = False
    """The text is only the beginning, as the event has it."""
    mime_type: str = ""
    """Of a text, where it is known."""
    path: str = ""


class Pair(NamedTuple):
    """What somebody else saw, beside what the model saw."""

    verdict: Literal["same", "form", "differs", "unknown"]
    """`form`: the same values, written in another form."""
    sentence: str
    change: Change | None = None
    """From what that one saw to what the model saw; None if they are the same or have nothing in common."""


class Views(NamedTuple):
    model: list[Block] | None
    """None: the stream does not say."""
    user: list[Block]
    provider: Any
    """The provider's object; None if the event has none."""
    with_user: Pair
    with_provider: Pair


def views_of(event: dict[str, Any]) -> Views | None:
    """Compare the views of an event, which has its whole texts as far as they are to be compared. None: a kind of event
    that has no text of the conversation."""
    kind = event["kind"]
    if kind in TEXT_KINDS:
        blocks = [Block(event["text"], is_cut=_is_cut(event, "/text")), *_stored(event.get("attachments"))]
        same = Pair("same", "Same as what the model saw.")
        return Views(
            blocks, blocks, None, same, Pair("same", "Same as what the model saw: the text is the provider's.")
        )
    if kind not in CALL_KINDS:
        return None
    payload: dict[str, Any] = event["input" if kind == "tool-call" else "output"]
    raw = payload.get("_raw") or None
    if kind == "tool-call":
        return _of_call(payload, raw)
    user = _user_blocks(event)
    if (model := _model_blocks(event)) is None:
        unknown = Pair("unknown", "Not compared: the stream does not state what the model saw.")
        return Views(None, user, raw, unknown, unknown)
    plain = _model_blocks(event, numbers=False)
    return Views(model, user, raw, _with_user(event, model, plain or [], user), _with_provider(model, raw))


# -- a call ---------------------------------------------------------------------------------------------------------


def _of_call(payload: dict[str, Any], raw: Any) -> Views:
    own = without_meta(payload)
    blocks = [Block(lines_of(own))]
    return Views(blocks, blocks, raw, Pair("same", "Same as what the model asked for."), _arguments(own, raw))


def _arguments(own: dict[str, Any], raw: Any) -> Pair:
    if raw is None:
        return Pair("unknown", "The event has no copy of the provider's object.")
    if not own:
        return Pair("unknown", "The call has no arguments.")
    places = objects_in(raw)
    if (found := next((one for one in places if without_meta(one.value) == own), None)) is not None:
        return Pair("same", f"Same as what the model asked for{_at(found)}.")
    nearest = max(places, key=lambda one: _shared(own, one.value), default=None)
    if nearest is None or not _shared(own, nearest.value):
        return Pair("differs", "The provider's object has none of these arguments.")
    hunks, note = between(lines_of(nearest.value), lines_of(own))
    change = Change.of("", "", near(hunks), note=f"{NAMES} {note}".strip())
    return Pair("form", f"The provider names or writes it differently{_at(nearest)}.", change)


def _shared(own: dict[str, Any], other: dict[str, Any]) -> int:
    """Count the arguments that both have, by value; the same name counts a little more."""
    values = [_key(one) for one in other.values()]
    return sum(2 * (_key(value) in values) + (name in other) for name, value in own.items())


def _key(value: Any) -> bytes:
    return msgspec.json.encode(value)


# -- a result -------------------------------------------------------------------------------------------------------


def _model_blocks(event: dict[str, Any], *, numbers: bool = True) -> list[Block] | None:
    if event.get("assistantView") == "unknown":
        return None
    blocks = model_blocks(event, lambda _: None, numbers=numbers)
    if blocks is None:  # an event of an older version, unless tooltap inferred it
        return None if event.get("synthetic") else [_output_block(event), *_stored(event.get("attachments"))]
    return [_model_block(block) for block in blocks]


def _model_block(block: dict[str, Any]) -> Block:
    if "text" in block:
        return Block(block["text"], is_cut=bool(block.get("incomplete")))
    kind = str(block.get("type"))
    mime_type = block.get("mimeType") or ("image/png" if "image" in kind else kind)  # it is served as what it is
    return Block(stored=Attachment(mime_type=mime_type, output_id=block.get("outputId"), uri=block.get("uri")))


def _user_blocks(event: dict[str, Any]) -> list[Block]:
    if event.get("silent"):
        return []
    display = event.get("display")
    if display is None:
        return [_output_block(event), *_stored(event.get("attachments"))]
    text = display.get("text")
    mime_type, path = display.get("mimeType") or "", display.get("path") or ""
    is_cut = _is_cut(event, "/display/text")
    blocks = [] if text is None else [Block(text, is_cut=is_cut, mime_type=mime_type, path=path)]
    if (output_id := display.get("outputId")) is not None:
        stored = Attachment(mime_type=mime_type or "text/plain", output_id=output_id, bytes=display.get("bytes"))
        blocks.append(Block(stored=stored))
    return [*blocks, *_stored(event.get("attachments"))]


def _output_block(event: dict[str, Any]) -> Block:
    output: dict[str, Any] = event["output"]
    text = result_text(output, None).text
    if text == msgspec.json.encode(own := without_meta(output)).decode():
        return Block(lines_of(own) if own else "")
    return Block(text, is_cut=any(one != "_raw" and _is_cut(event, f"/output/{one}") for one in output))


def _is_cut(event: dict[str, Any], pointer: str) -> bool:
    return any(one == pointer or one.startswith(f"{pointer}/") for one in event.get("outputs") or ())


def _stored(attachments: Iterable[dict[str, Any]] | None) -> list[Block]:
    return [Block(stored=msgspec.convert(one, Attachment)) for one in attachments or ()]


def _with_user(event: dict[str, Any], model: list[Block], plain: list[Block], user: list[Block]) -> Pair:
    if event.get("silent"):
        return Pair("differs", "Nothing: the result is not shown.")
    if not model:
        return Pair("differs" if user else "same", "The model did not see it." if user else "Neither saw anything.")
    seen, shown = _text(model), _text(user)
    missing = _missing(_bodies(model), _bodies(user))
    if seen == shown:
        return Pair("differs", missing) if missing else Pair("same", "Same as what the model saw.")
    if seen.strip() == shown.strip():
        return Pair("same", "Same as what the model saw, but for white space at its ends.")
    if _text(plain).strip() == shown.strip():
        return Pair("same", "Same as what the model saw, without the numbers of its lines.")
    pair = _difference(shown, _text(plain), "the user sees", missing)
    is_shown = "display" not in event and not event.get("modelView", {}).get("differs") and not missing
    return _in_another_form(pair) if is_shown else pair


def _with_provider(model: list[Block], raw: Any) -> Pair:
    if raw is None:
        return Pair("unknown", "The event has no copy of the provider's object.")
    seen = _text(model)
    places = texts_in(raw)
    if not seen:
        return Pair("unknown", "What the model saw of it has no text.")
    if (found := next((one for one in places if one.value == seen), None)) is not None:
        return Pair("same", f"Same as what the model saw{_at(found)}.")
    if (found := next((one for one in places if one.value.strip() == seen.strip()), None)) is not None:
        return Pair("same", f"Same as what the model saw{_at(found)}, but for white space at its ends.")
    lines = set(seen.split("\n"))
    nearest = max(places, key=lambda one: len(lines & set(one.value[:LONG_PLACE].split("\n"))), default=None)
    if nearest is None:
        return Pair("differs", "The provider's object has no text.")
    if (cut := CUT.search(nearest.value)) and seen.startswith(nearest.value[: cut.start()]):
        return Pair("same", f"Same as what the model saw{_at(nearest)}, as far as the event has a copy of it.")
    return _difference(nearest.value, seen, "the provider sent", at=_at(nearest))


def _in_another_form(pair: Pair) -> Pair:
    """What differs only because the user sees values of the result, of which the model saw a text."""
    return pair._replace(verdict="form", sentence="The same result in another form: its values, not the model's text.")


def _difference(other: str, seen: str, what: str, missing: str = "", *, at: str = "") -> Pair:
    if not any(line.strip() for line in set(other.split("\n")) & set(seen.split("\n"))):
        return Pair("differs", f"A different text than the model saw: no line is the same. {missing}".strip())
    if max(len(other), len(seen)) > COMPARED:
        return Pair("differs", f"A different text than the model saw, too long to compare. {missing}".strip())
    hunks, note = between(other, seen)
    change = Change.of("", "", near(hunks), note=f"{ADDED.format(what)} {note}".strip())
    return Pair("differs", f"Differs from what the model saw{at}. {missing}".strip(), change)


def _missing(model: set[str], user: set[str]) -> str:
    """Say what one has that the other has not, of what is no text. One image may be stored under two ids."""
    if len(model) == len(user):
        return ""
    sides = ((model - user, "the model saw"), (user - model, "the user sees"))
    counts = [f"Only {who} {counted(len(only), 'image or file', 'images or files')}." for only, who in sides if only]
    return " ".join(counts)


def _text(blocks: Sequence[Block]) -> str:
    """All texts; each block begins a line."""
    text = ""
    for block in blocks:
        text += ("\n" if text and block.text and not text.endswith("\n") else "") + block.text
    return text


def _bodies(blocks: Sequence[Block]) -> set[str]:
    stored = [block.stored for block in blocks if block.stored is not None]
    return {one.output_id or one.uri or one.mime_type for one in stored}


def _at(place: Place) -> str:
    return f" ({place.path})" if place.path else ""
