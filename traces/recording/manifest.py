"""The manifest of a folder of recordings: `manifest.json`, which lists files and what is known of them.

`[{"file": …, "dialect": …, "provider": …, "ask": "auto", "genuine": "recorded"}]`: only `file` must be there. The
dialect is sniffed where it is missing, or where a row asks for `auto`. Other keys are ignored.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tooltap.normalizers.stream.normalizer import AUTO

MANIFEST = "manifest.json"
RECORDED = "recorded"


class Row(msgspec.Struct):
    file: str
    dialect: str = AUTO
    provider: str | None = None
    ask: str | None = None
    genuine: str = RECORDED
    """How the file came to be. One that was put together or edited may hold lines that no agent printed."""

    @property
    def asked(self) -> str:
        """The dialect to read the file as."""
        return self.ask or self.dialect

    @property
    def is_as_recorded(self) -> bool:
        return self.genuine == RECORDED


def read_manifest(folder: Path) -> list[Row]:
    """Raises `OSError` and `msgspec.DecodeError`."""
    return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=list[Row])
