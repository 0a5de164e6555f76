import pytest

from tooltap.normalizers import registry, sniff


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """The toy dialect, known to the registry and to `auto` for the length of a test."""
    monkeypatch.setitem(registry.BUILTIN, "toy", "tests.normalizers.toy:Toy")
    monkeypatch.setitem(sniff.RULES, "toy", lambda value: "do" in value)
    return "toy"
