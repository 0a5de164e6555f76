"""What is kept of a call that is done."""

from typing import Any

import msgspec
import orjson

from tooltap.normalizers.core.state import OpenCall, Tombstone, tombstone_of
from tooltap.testing import Line, check_dialect

VALUES: dict[str, Any] = {
    "raw_name": "bash",
    "name": "Bash",
    "session": "s",
    "agent": "a",
    "parent": "p",
    "turn": "t1",
    "origin": ("acp", "qwen"),
    "wire_id": "w",
    "source": "item",
    "told": (1, 2),
    "made_up": True,
}


def test_tombstone_has_every_value_it_shares_with_its_call() -> None:
    call = OpenCall(**VALUES, id="c", status="running")
    assert msgspec.structs.asdict(tombstone_of(call, "e")) == {**VALUES, "synthetic_result": "e"}
    assert set(Tombstone.__struct_fields__) == {*VALUES, "synthetic_result"}
    assert call.shared() == tuple(VALUES.values())


def test_calls_move_with_their_session() -> None:
    """A session names itself while a call of it is open: the parser goes on like one that is loaded then."""
    call = {"type": "toolCall", "id": "c", "name": "bash"}
    said = {"type": "message_end", "message": {"role": "assistant", "content": [call]}}
    lines = [said, {"type": "session", "id": "01a1ffe5-a110-7467-859d-cdc6fc0a0748"}]

    check_dialect("pi-json", [Line(orjson.dumps(line)) for line in lines])
