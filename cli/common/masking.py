"""Masks the secrets in what a command writes for others, and says what was masked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import click

from tooltap.daemon.formats import counted

F = TypeVar("F", bound=Callable[..., object])
BEGINNING = 4
"""Characters of a secret that a preview shows."""


def redact_options(function: F) -> F:
    function = click.option(
        "--preview", is_flag=True, help="Say what would be masked, on standard output, and write nothing."
    )(function)
    return click.option("--no-redact", is_flag=True, help="Write secrets as they are.")(function)


class Masking:
    """Masks and counts secrets, if `redact`. `preview`: called with a sentence for each secret."""

    def __init__(self, redact: bool, preview: Callable[[str], None] | None = None) -> None:
        self._redact = redact
        self._preview = preview
        self.counts: Counter[str] = Counter()

    def mask(self, data: bytes, where: str = "") -> bytes:
        """Return a line, an event or an output body without its secrets. `where`: for the preview."""
        from tooltap.traces.recording.secrets import find_secrets, mask_body

        if self._preview is not None:
            for start, end, kind in find_secrets(data):
                secret = data[start:end].decode(errors="replace")
                shown = "".join(char if char.isascii() and char.isprintable() else "?" for char in secret[:BEGINNING])
                shown = shown if len(secret) >= 4 * BEGINNING else "?" * len(shown)
                self._preview(f"{where}: {kind}, {len(secret)} characters: {shown}…")
        return mask_body(data, self.counts) if self._redact else data

    def sentence(self) -> str | None:
        """Say what was masked, if anything was."""
        if not self.counts:
            return None
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self.counts.items()))
        total = counted(self.counts.total(), "secret")
        return f"masked {total} ({kinds}); --preview lists them, --no-redact writes them"
