import pytest

from tooltap.normalizers.core import registry
from tooltap.normalizers.dialects import rules as sniff_rules


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """The toy dialect, known to the registry and to `auto` for the length of a test."""
    monkeypatch.setitem(registry.BUILTIN, "toy", "tests.normalizers.toy:Toy")
    monkeypatch.setitem(sniff_rules.RULES, "toy", lambda value: "do" in value)
    return "toy"
