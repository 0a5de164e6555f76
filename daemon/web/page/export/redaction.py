"""Removes secrets from what goes into an exported file, and says which: how many of each kind, with examples."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import msgspec

from tooltap.daemon.wording import counted
from tooltap.traces.recording.secrets import find_secrets, mask_secrets

__all__ = ["Example", "Redaction", "remark", "without_raw"]

BEGINNING = 4
"""Characters of a secret that an example shows."""
EXAMPLES = 3
"""Examples of each kind."""


class Example(NamedTuple):
    shown: str
    """The beginning of the secret, if it is long; the rest is hidden."""
    length: int
    seq: int | None
    """The event that has it; None: the title."""


class Redaction:
    """`masks`: False: secrets are counted, and stay."""

    def __init__(self, *, masks: bool = True) -> None:
        self.masks = masks
        self.counts: Counter[str] = Counter()
        self.examples: defaultdict[str, list[Example]] = defaultdict(list)

    def mask(self, data: bytes, seq: int | None = None) -> bytes:
        """Mask an event or an output body of it. One that is binary has no secrets."""
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

    def mask_text(self, text: str) -> str:
        """Mask the title."""
        return self.mask(text.encode(errors="replace")).decode()

    def remark(self) -> str:
        """Say in the file what was done."""
        return remark(self.counts) if self.masks else "Secrets are not masked in this file."


def remark(counts: Counter[str]) -> str:
    """Say how many secrets are masked, and of which kinds."""
    if not counts:
        return "No secret was found to be masked."
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in sorted(counts.items()))
    return f"{counted(counts.total(), 'secret is', 'secrets are')} masked: {kinds}."


def without_raw(event: bytes) -> bytes:
    """Remove the provider's own object, which no exported file shows, from an encoded event. What is in it would be
    counted twice."""
    if b'"_raw":' not in event:
        return event
    decoded = msgspec.json.decode(event)
    for name in ("input", "output"):
        if isinstance(payload := decoded.get(name), dict):
            payload.pop("_raw", None)
    return msgspec.json.encode(decoded)


def _example(secret: bytes, seq: int | None) -> Example:
    text = secret.decode(errors="replace")
    beginning = "".join(char if char.isascii() and char.isprintable() else "?" for char in text[:BEGINNING])
    return Example(f"{beginning if len(text) >= 4 * BEGINNING else ''}…", len(text), seq)
