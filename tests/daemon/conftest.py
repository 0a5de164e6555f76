"""The daemon's tests run on asyncio, as the daemon does."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
