import pytest

from tests.normalizers.toy import TOY
from tooltap.normalizers.core import registry


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """The toy dialect, known to the registry and to `auto` for the length of a test."""
    monkeypatch.setitem(registry.builtin(), "toy", TOY)
    return "toy"
