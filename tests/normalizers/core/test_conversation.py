"""`Conversation`: what a record drops whose parent is not the latest one."""

from tooltap.normalizers.core.state import MANY_RECORDS, Conversation


def conversation(*records: tuple[str, str | None]) -> Conversation:
    known = Conversation()
    for record_id, parent in records:
        known.append(record_id, parent, is_message=record_id.isupper())
    return known


def test_messages_after_the_parent_are_dropped() -> None:
    known = conversation(("A", None), ("B", "A"), ("c", "B"), ("D", "c"))

    assert known.append("E", "A", is_message=True) == ["B", "D"]
    assert list(known.records) == ["A", "E"]


def test_notes_are_no_messages() -> None:
    assert conversation(("A", None), ("b", "A")).append("C", "A", is_message=True) == []


def test_conversation_that_begins_again_drops_everything() -> None:
    assert conversation(("A", None), ("B", "A")).append("C", None, is_message=True) == ["A", "B"]


def test_unknown_parent_drops_nothing() -> None:
    known = conversation(("A", None), ("B", "A"))

    assert known.append("C", "missing", is_message=True) == []
    assert list(known.records) == ["A", "B", "C"]


def test_oldest_records_are_forgotten() -> None:
    known = conversation(*[(str(number), str(number - 1)) for number in range(MANY_RECORDS + 5)])

    assert len(known.records) == MANY_RECORDS
    assert next(iter(known.records)) == "5"
