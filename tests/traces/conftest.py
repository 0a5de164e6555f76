"""A writer of traces that is closed has written everything, however slow the machine is."""

from __future__ import annotations

import pytest

from tooltap.traces.recording import writer


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "CLOSE_TIMEOUT", 60.0)
