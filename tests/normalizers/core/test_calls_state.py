"""What is kept of a call that is done."""

from typing import Any

import msgspec

from tooltap.normalizers.core.state import OpenCall, Tombstone, tombstone_of

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
