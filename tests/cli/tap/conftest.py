"""What publishers print is asserted, so they wait for the daemon as long as a busy machine takes."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def patiently(patient: None) -> None:
    pass
