"""Changes that no test can notice, each with the reason: `explained.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

__all__ = ["Key", "explanations"]

Key = tuple[str, str]
"""The module's path, and the lines that the change removes and adds."""


def explanations(root: Path) -> dict[Key, str]:
    """Read the reasons from `explained.toml`."""
    data = tomllib.loads((root / "tests" / "mutants" / "explained.toml").read_text())
    return {(one["path"], one["change"].strip()): one["reason"] for one in data.get("mutant", [])}
