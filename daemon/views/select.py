"""The views of an event: what the model sees, what the user sees, or everything; and the text of a result."""

from __future__ import annotations

import copy
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.interface import MAX_SLICE, Journal
from tooltap.protocol.events import (
    AnyEvent,
    Attachment,
    Display,
    Event,
    EventHead,
    OutputRef,
    ToolResult,
    ToolUpdate,
    decode_known,
)
from tooltap.protocol.filters import Filter
from tooltap.protocol.model_view import bodies_of, model_blocks

View: TypeAlias = Literal["assistant", "display", "raw"]


def view_of(event: dict[str, Any], view: View) -> dict[str, Any]:
    """Return a view of an event.

    `raw`: the event as journaled.

    `assistant`: without the provider's own object, and without what only the user saw. Of a result it has
    `modelView` in place of the output, unless texts in it are still to be put together. If the stream does not say
    what the model saw, `assistantView` is `unknown`.

    `display`: without the provider's own object, and of a result what the user sees (`user_view`): its display or its
    output, both if the display is a caption, or neither.
    """
    if view == "raw":
        return event
    hidden = _of_others(event, view)
    shown = {key: value for key, value in event.items() if key not in hidden}
    for key in shown.keys() & {"input", "output"}:
        shown[key] = {name: value for name, value in shown[key].items() if name != "_raw"}
    if outputs := {pointer: ref for pointer, ref in shown.pop("outputs", {}).items() if _contains(pointer, shown)}:
        shown["outputs"] = outputs
    return shown


def _of_others(event: dict[str, Any], view: View) -> tuple[str, ...]:
    """Return the keys of the event that are for other readers."""
    if view == "assistant":
        known_elsewhere = "assistantView" in event or ("modelView" in event and not _needs_output(event["modelView"]))
        return ("display", "silent", *(["output", "attachments"] if known_elsewhere else []))
    seen = user_view_of(event) if event["kind"] == "tool-result" else UserView(output={})
    if seen.remark:
        return ("display", "output", "attachments", "modelView")
    return ("modelView", "output") if seen.output is None else ("modelView",)


def _needs_output(model_view: dict[str, Any]) -> bool:
    return any("parts" in block for block in model_view["blocks"])


def _contains(pointer: str, event: dict[str, Any]) -> bool:
    """Whether a JSON pointer leads to a part of the view."""
    _, field, *path = pointer.split("/")
    return field in event and path[:1] != ["_raw"]


async def put_together(event: dict[str, Any], journal: Journal, limit: int) -> dict[str, Any]:
    """Return the event with the text of each block of `modelView` in place of the parts that make it.

    An event whose texts have more than `limit` bytes remains as it is: `protocol.model_view` puts it together. Raises
    `JournalError`."""
    view = event.get("modelView")
    if not isinstance(view, dict):
        return event
    sizes = {ref["outputId"]: ref["bytes"] for ref in (event.get("outputs") or {}).values()}
    needed = bodies_of(event)
    if sum(sizes[output_id] for output_id in needed) > limit:
        return event
    bodies = {output_id: await whole_body(journal, output_id) for output_id in needed}
    return {**event, "modelView": {**view, "blocks": model_blocks(event, bodies.get)}}


async def whole_body(journal: Journal, output_id: str) -> bytes | None:
    """Return all of an output body; None if it was deleted. Raises `JournalError`."""
    parts: list[bytes] = []
    size, total = 0, 1
    while size < total:
        part = await journal.output(output_id, size, MAX_SLICE, "bytes")
        if part is None:
            return None
        if not part.data:
            break
        parts.append(part.data)
        size, total = size + len(part.data), part.total
    return b"".join(parts)


DISPLAY_TEXTS = ("text/", "application/json")
"""Prefixes of the MIME types of displays that are texts."""


async def whole_event(event: dict[str, Any], journal: Journal, limit: int) -> dict[str, Any]:
    """Return the event with truncated texts replaced by their output bodies, up to `limit` bytes in all. `outputs` of
    the returned event has what is still truncated. Raises `JournalError`."""
    outputs: dict[str, Any] = event.get("outputs") or {}
    whole = copy.deepcopy(event)
    left = dict(outputs)
    for pointer, ref in sorted(outputs.items(), key=lambda one: one[0].count("/")):  # an object before what is in it
        if ref["bytes"] > limit:
            continue
        data = await whole_body(journal, ref["outputId"])
        if data is not None and _put(whole, pointer, _value(data, ref["mimeType"])):
            limit -= len(data)
            del left[pointer]
    whole["outputs"] = left
    await _read_display(whole.get("display") or {}, journal, limit)
    return whole


async def _read_display(display: dict[str, Any], journal: Journal, limit: int) -> None:
    """Replace the reference to a display's output body by its text, if it is a text of at most `limit` bytes."""
    is_text = (display.get("mimeType") or "text/plain").startswith(DISPLAY_TEXTS)
    if "text" in display or "outputId" not in display or not is_text or display.get("bytes", 0) > limit:
        return
    data = await whole_body(journal, display["outputId"])
    if data is not None:
        display["text"] = data.decode("utf-8", "replace")
        del display["outputId"]


def _value(data: bytes, mime_type: str) -> Any:
    if mime_type == "application/json":
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            pass
    return data.decode("utf-8", "replace")


def _put(event: dict[str, Any], pointer: str, value: Any) -> bool:
    """Set the value at a JSON pointer; return False if the pointer leads nowhere."""
    *steps, last = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    holder: Any = event
    for step in steps:
        if isinstance(holder, list):
            holder = holder[int(step)] if step.isdecimal() and int(step) < len(holder) else None
        else:
            holder = holder.get(step) if isinstance(holder, dict) else None
    if isinstance(holder, list) and last.isdecimal() and int(last) < len(holder):
        holder[int(last)] = value
    elif isinstance(holder, dict):
        holder[last] = value
    else:
        return False
    return True


# -- what the user sees of a result ----------------------------------------------------------------------------------

SILENT = "Silent: the user is shown nothing of this result."
ASK = "Shown when it is asked for."
DIFFS = frozenset({"text/x-diff", "text/x-patch"})
CAPTION = 300
"""Maximum characters of a caption."""


class UserView(NamedTuple):
    """What the user sees of a result: a remark, or a display, or else the output; a caption is above the output."""

    remark: str = ""
    """Why nothing of it is shown."""
    caption: str = ""
    display: Display | None = None
    output: dict[str, Any] | None = None
    """The payload of the canonical tool, without what tooltap adds."""
    attachments: list[Attachment] | None = None


def user_view(event: ToolResult, *, is_asked: bool = False, has_change: bool = False) -> UserView:
    """Decide what the user sees of a result. All readers use this: display events, the views of one event, the pages,
    exported files and the terminal.

    `silent` comes before `ask`, that before the display, and that before the output. A display of one line that the
    provider states ("Found 2 matches") is only a caption of the output. A provider's diff repeats the input of the
    call, in lines of the file.

    `is_asked`: the user has asked for the result; `has_change`: the change that the call's input states is shown, too.
    A view that a command made later is put into the result by `LaterViews`, or of one result by `with_later_view`.
    """
    if event.silent:
        return UserView(SILENT)
    if event.ask and not is_asked:
        return UserView(ASK)
    output = without_meta(event.output)
    if event.display is None or (has_change and _is_diff(event.display)):
        return UserView(output=output, attachments=event.attachments)
    if _is_caption(event.display):
        return UserView(caption=event.display.text or "", output=output, attachments=event.attachments)
    return UserView(display=event.display, attachments=event.attachments)


def user_view_of(event: dict[str, Any]) -> UserView:
    """Decide what the user sees of a decoded result that was asked for. Of a result of a newer daemon that this one
    cannot read, it is the output."""
    result = decode_known(msgspec.json.encode(event))
    if not isinstance(result, ToolResult):
        return UserView(output=without_meta(event["output"]))
    return user_view(result, is_asked=True)


def _is_caption(display: Display) -> bool:
    text = (display.text or "").strip()
    is_line = text != "" and len(text) <= CAPTION and " ".join(text.split()) == text
    return display.origin == "provider" and display.mime_type is None and is_line


def _is_diff(display: Display) -> bool:
    return display.origin == "provider" and display.mime_type in DIFFS


# -- views that were made after their results -------------------------------------------------------------------------


LATER_BYTES = 33_554_432
"""Maximum bytes of such views that a reader holds. Further ones follow their results as updates."""


def view_id(result_id: str) -> str:
    """Return the id of the event that carries the view a command made of a result. No line produces that event, so its
    id derives from the result's."""
    place, _, index = result_id.rpartition(":")
    return f"{place}d:{index}"


async def with_later_view(event: dict[str, Any], journal: Journal) -> dict[str, Any]:
    """Return a decoded event; a result with the view that a command made of it after it was journaled, if any and if
    the user did not ask to see the result only on request. Raises `JournalError`."""
    if event["kind"] != "tool-result" or event.get("ask"):
        return event
    after, wanted = event["seq"], view_id(event["id"])
    updates = Filter(stream=(event["stream"],), kind=("tool-update",), tool=(event["name"],))
    while after < journal.latest:
        found, after = await journal.read(after, updates)
        for update in (msgspec.json.decode(one.body) for one in found):
            if update["id"] == wanted:
                return {**event, "display": update["display"]}
    return event


class LaterViews:
    """Gives results the views that commands made of them later, so that a reader of a whole session shows each result
    once, as its user sees it.

        for event in updates:                 # all `tool-update` events of the session
            views.note(event)
        for event in events:                  # all events, in order
            if not views.is_given(event):
                show(views.put(event))
    """

    def __init__(self) -> None:
        self._displays: dict[str, Display] = {}
        self._given: set[str] = set()
        self._bytes = 0

    def note(self, update: Event) -> None:
        """Remember the view that an update carries, if any."""
        if isinstance(update, ToolUpdate) and update.display is not None:
            self._bytes += len((update.display.text or "").encode())
            if self._bytes <= LATER_BYTES:
                self._displays[update.id] = update.display

    def put(self, event: AnyEvent) -> AnyEvent:
        """Return the event, a result with its view."""
        display = self._displays.pop(view_id(event.id), None) if isinstance(event, ToolResult) else None
        if not isinstance(event, ToolResult) or display is None:
            return event
        self._given.add(view_id(event.id))
        return event if event.ask or event.silent else msgspec.structs.replace(event, display=display)

    def is_given(self, event: Event | EventHead) -> bool:
        """Return whether a result has got the view that this update carries."""
        return event.id in self._given


# -- the text of a result ---------------------------------------------------------------------------------------------

TEXTS = (
    ("file", "content"),
    ("content",),
    ("text",),
    ("unified_diff",),
    ("message",),
    ("value",),
    ("errorMessage",),
)
"""Keys that may hold the text of a result without `stdout` and `stderr`, in order of precedence."""


class Text(NamedTuple):
    text: str
    """The text, as far as the event holds it."""
    bytes: int
    """Bytes of the whole text, as `lines` are its lines."""
    lines: int


def result_text(output: dict[str, Any], outputs: dict[str, OutputRef] | None) -> Text:
    """Return the text of a result, or its JSON if it has none. `outputs`: the event's, for the size of a text that was
    cut."""
    printed = [_text(output, "/output", (key,), outputs) for key in ("stdout", "stderr")]
    if any(printed):
        return _joined([one for one in printed if one is not None and one.text])
    texts = (_text(output, "/output", keys, outputs) for keys in TEXTS)
    found = next((one for one in texts if one is not None), None)
    return found or _whole(msgspec.json.encode(without_meta(output)).decode())


def written_text(call_input: dict[str, Any], outputs: dict[str, OutputRef] | None) -> Text | None:
    """Return the text that a call writes to a file."""
    return _text(call_input, "/input", ("content",), outputs)


def without_meta(payload: dict[str, Any]) -> dict[str, Any]:
    """Return only the tool's own keys, without those that tooltap adds."""
    return {key: value for key, value in payload.items() if key not in ("_happy", "_raw")}


def _text(
    payload: dict[str, Any], pointer: str, keys: tuple[str, ...], outputs: dict[str, OutputRef] | None
) -> Text | None:
    value: Any = payload
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, str):
        return None
    whole = (outputs or {}).get("/".join((pointer, *keys)))
    return _whole(value) if whole is None else Text(value, whole.bytes, whole.lines)


def _whole(text: str) -> Text:
    return Text(text, len(text.encode()), text.count("\n") + (text != "" and not text.endswith("\n")))


def _joined(texts: list[Text]) -> Text:
    """Join the texts, each on a new line."""
    joined = _whole("")
    for one in texts:
        gap = "\n" if joined.text and not joined.text.endswith("\n") else ""
        joined = Text(joined.text + gap + one.text, joined.bytes + len(gap) + one.bytes, joined.lines + one.lines)
    return joined
