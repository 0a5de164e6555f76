"""Tables that evict their oldest entries."""

from tooltap.normalizers.core.state import put


def test_put_evicts_oldest() -> None:
    table = {"a": 1, "b": 2}

    put(table, "c", 3, 2)

    assert table == {"b": 2, "c": 3}


def test_known_key_evicts_nothing() -> None:
    table = {"a": 1, "b": 2}

    put(table, "a", 3, 2)

    assert table == {"a": 3, "b": 2}
