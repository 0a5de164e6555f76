"""The daemon's tests run on asyncio, as the daemon does."""

import pytest

from tests.normalizers.conftest import toy as toy


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
