import pytest

from tests.normalizers.toy import TOY
from tooltap.normalizers.catalog import registry


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register the toy dialect, also for `auto`, during one test."""
    monkeypatch.setitem(registry.builtin(), "toy", TOY)
    return "toy"
