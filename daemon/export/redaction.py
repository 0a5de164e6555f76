"""Masks secrets in what goes into an exported file, and replaces names if that is wanted; reports both."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tooltap.daemon.export.anonymity import Anonymizer
from tooltap.daemon.formats import counted
from tooltap.normalizers.tools.registry import preview
from tooltap.protocol.events import AnyEvent, ToolCall, ToolUpdate, decode
from tooltap.traces.recording.secrets import MASK, find_secrets, mask_secrets

BEGINNING = 4
"""Characters of a secret that an example shows."""
EXAMPLES = 3
"""Examples of each kind."""
VISIBLE = "".join(map(chr, range(33, 127)))
"""Characters of the last word, which is dropped where a text was cut: secrets are ASCII, some scripts lack spaces."""
_CUT_BEGINNING = re.compile(r"\A…[!-~]*?(?=[/\s]|\Z)")
_CUT_WORDS = re.compile(
    r"(?i)((?:pass(?:word|wd|phrase)?|pwd|mnemonic|(?:seed|recovery|backup)[ _-]?phrase)[\"']?\s*[:=]+\s*[\"']?)"
    r"[a-z]{1,10}(?:\s[a-z]{1,10}){0,23}\s*\Z"
)
"""The beginning of a secret of several words, and its name."""


class Example(NamedTuple):
    shown: str
    """The beginning of the secret, if it is long; the rest is hidden."""
    length: int
    seq: int | None
    """`seq` of the event that has the secret; None for the title."""


class Redaction:
    """Finds, counts and masks secrets. With `masks=False` they are counted, but left as they are. `names`: replaces
    names, too."""

    def __init__(self, *, masks: bool = True, names: Anonymizer | None = None) -> None:
        self.masks = masks
        self.names = names
        self.counts: Counter[str] = Counter()
        self.examples: defaultdict[str, list[Example]] = defaultdict(list)

    def mask(self, data: bytes, seq: int | None = None) -> bytes:
        """Mask secrets in an event or in one of its output bodies. Binary data is returned as it is."""
        try:
            data.decode()
        except UnicodeDecodeError:
            return data
        spans = find_secrets(data)
        for start, end, kind in spans:
            self.counts[kind] += 1
            if len(self.examples[kind]) < EXAMPLES:
                self.examples[kind].append(_example(data[start:end], seq))
        return mask_secrets(data) if spans and self.masks else data

    def remarks(self) -> list[str]:
        """Return sentences for the file about what was masked and replaced."""
        return remarks(self.counts if self.masks else None, self.names)


def remarks(masked: Counter[str] | None, names: Anonymizer | None) -> list[str]:
    """Return sentences for a file. `masked`: how many secrets of each kind; None if they are not masked."""
    secrets = "Secrets are not masked in this file." if masked is None else _remark(masked)
    return [secrets] if names is None else [secrets, names.remark()]


def _remark(counts: Counter[str]) -> str:
    if not counts:
        return "No secret was found to be masked."
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in sorted(counts.items()))
    return f"{counted(counts.total(), 'secret is', 'secrets are')} masked: {kinds}."


def masked_event(body: bytes, mask: Callable[[bytes], bytes], names: Anonymizer | None = None) -> AnyEvent:
    """Decode an event without its secrets, and without the provider's own object, which no exported file shows.

    The preview of a call is truncated, maybe within a secret or a name, which could not be recognized then: it is
    derived again from the masked input. `mask` returns the same object where there is no secret. `names` replaces names
    where secrets are masked, so that what is a part of a secret is not taken for a name.
    """
    shown = None
    if b'"_raw":' in body or b'"preview":' in body:
        fields = msgspec.json.decode(body)
        shown = fields.pop("preview", None)
        for name in ("input", "output"):
            if isinstance(payload := fields.get(name), dict):
                payload.pop("_raw", None)
        body = msgspec.json.encode(fields)
    masked = mask(body)
    if names is not None:
        masked = names.event(masked)
    event = decode(masked)
    if shown is not None and isinstance(event, ToolCall | ToolUpdate):
        event.preview = shown if masked is body else preview(event.name, event.input or {}, None)
        if names is not None and event.preview is not None:
            event.preview = names.text(event.preview)
    return event


def masked_line(line: bytes, mask: Callable[[bytes], bytes]) -> bytes:
    """Mask a line of `journal export`. The preview of a call is derived again from the masked input, as above."""
    masked = mask(line)
    if masked is line or b'"preview":' not in line:
        return masked
    fields = msgspec.json.decode(masked)
    if fields.get("kind") not in ("tool-call", "tool-update") or "preview" not in fields:
        return masked
    again = preview(fields.get("name", ""), fields.get("input") or {}, None)
    fields = {key: again if key == "preview" else value for key, value in fields.items()}
    if not again:
        del fields["preview"]
    return msgspec.json.encode(fields) + (b"\n" if line.endswith(b"\n") else b"")


def masked_output(data: bytes, mask: Callable[[bytes], bytes], names: Anonymizer | None = None) -> bytes:
    """Mask an output body."""
    masked = mask(data)
    return masked if names is None else names.output(masked)


def masked_title(title: str, mask: Callable[[bytes], bytes], names: Anonymizer | None = None) -> str:
    """Mask a title, or a preview. Where it was truncated, what may be the rest of a secret is dropped."""
    masked = mask(title.removesuffix("…").encode(errors="replace")).decode()
    if title.startswith("…"):
        masked = _CUT_BEGINNING.sub("…", masked)
    if title.endswith("…"):
        if not (masked.endswith("]") and masked[masked.rfind("[") :].startswith(MASK.decode())):
            masked = _CUT_WORDS.sub(r"\1", masked.rstrip(VISIBLE))
        masked = mask(masked.encode()).decode() + "…"  # what is left may be whole without its cut end
    return masked if names is None else names.text(masked)


def _example(secret: bytes, seq: int | None) -> Example:
    text = secret.decode(errors="replace")
    beginning = "".join(char if char.isascii() and char.isprintable() else "?" for char in text[:BEGINNING])
    return Example(f"{beginning if len(text) >= 4 * BEGINNING else ''}…", len(text), seq)
