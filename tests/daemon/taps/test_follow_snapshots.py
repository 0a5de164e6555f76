"""Sessions that Mistral Vibe stores as a snapshot and a journal of what has changed since."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import FIXTURES, Follower
from tooltap.daemon.taps.follow.stores import SessionFolders
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.dialects.vibe.store import VibeStore
from tooltap.normalizers.stream.normalizer import StreamNormalizer

RECORDING = FIXTURES / "vibe-session" / "vibe-3.0.3" / "edit.jsonl"
VERSIONS = [json.loads(line) for line in RECORDING.read_bytes().splitlines()]
LIMIT = 1_000_000


class Session:
    """The folder of a session, written like Vibe writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta = folder / "meta.json"

    def publish(self, version: dict[str, Any], first: int) -> None:
        """Write a generation, whose journal begins with the record `first`, and make it the current one."""
        name = f"{first - 1:016}"
        generation = self.folder / "generations" / name
        for folder in (generation, self.folder / "chunks", self.folder / "journal"):
            folder.mkdir(parents=True, exist_ok=True)
        chunk = f"{len(version['history']):064x}"
        (self.folder / "chunks" / f"{chunk}.json").write_text(json.dumps(version["history"]))
        (generation / "projection-state.json").write_text(json.dumps({"snapshot": version["snapshot"]}))
        self.journal = self.folder / "journal" / f"{first:016}.jsonl"
        self.journal.touch()
        manifest = {
            "projection_state": {"chunks": [chunk], "path": "projection-state.json"},
            "recovery_journal_segment": {"first_sequence": first, "path": f"journal/{first:016}.jsonl"},
        }
        (generation / "manifest.json").write_text(json.dumps(manifest))
        self.meta.write_text(json.dumps(version["meta"]))
        written = self.folder / ".CURRENT"
        written.write_text(json.dumps({"generation": name}))
        written.rename(self.folder / "CURRENT")

    def change(self, operations: list[dict[str, Any]]) -> None:
        """Add records to the journal; most of them do not concern the history."""
        records = [
            {"payload": {"request": "long" * 1_000}, "sequence": 1, "type": "action_intent"},
            {"payload": {"delta": operations}, "sequence": 2, "type": "projection_delta"},
        ]
        with self.journal.open("a") as journal:
            journal.writelines(json.dumps(one, separators=(",", ":")) + "\n" for one in records)

    def read(self) -> Any:
        return json.loads(SessionFolders(VibeStore()).head(str(self.meta), LIMIT)[0])


@pytest.fixture
def session(tmp_path: Path) -> Session:
    found = Session(tmp_path.resolve() / "one")
    found.publish(VERSIONS[0], 1)
    return found


def steps() -> list[list[dict[str, Any]]]:
    """Return what was changed between the recorded versions, before the last one, which is a new generation."""
    changes = [version["changes"] for version in VERSIONS[:-1]]
    return [after[len(before) :] for before, after in zip([[], *changes], changes, strict=False)]


def test_document_is_the_snapshot_and_what_has_changed_since(session: Session) -> None:
    for step in steps():
        session.change(step)

    assert session.read() == VERSIONS[-2]

    session.publish(VERSIONS[-1], 35)

    assert session.read() == VERSIONS[-1]


def test_record_that_is_being_written_waits(session: Session) -> None:
    session.change(steps()[0])
    before = session.read()
    with session.journal.open("a") as journal:
        journal.write('{"payload":{"delta":[]},"type":"projection_delta"}')

    assert session.read() == before


def test_nothing_is_read_outside_the_folder(session: Session, tmp_path: Path) -> None:
    """A file that names another one is written by others."""
    (tmp_path / "secret.json").write_text("[{}]")
    manifest = next(session.folder.glob("generations/*/manifest.json"))
    whole = json.loads(manifest.read_text())
    for chunk in ("../../secret", str(tmp_path / "secret")):
        manifest.write_text(json.dumps({**whole, "projection_state": {**whole["projection_state"], "chunks": [chunk]}}))
        with pytest.raises(OSError, match="a file that this session names is missing"):
            session.read()
    os.symlink(tmp_path / "secret.json", session.folder / "chunks" / "linked.json")
    manifest.write_text(json.dumps({**whole, "projection_state": {**whole["projection_state"], "chunks": ["linked"]}}))
    with pytest.raises(OSError, match="a file that this session names is missing"):
        session.read()


def test_missing_generation_is_said(session: Session) -> None:
    (session.folder / "CURRENT").write_text('{"generation": 7}')
    with pytest.raises(OSError, match=r"a file that this session names is missing: .*/generations/7/manifest\.json"):
        session.read()


def test_deleted_session_is_gone(session: Session) -> None:
    shutil.rmtree(session.folder / "generations")
    session.meta.unlink()
    with pytest.raises(FileNotFoundError):
        session.read()


@pytest.mark.parametrize("name", ["CURRENT", "generations/0000000000000000/manifest.json"])
def test_what_is_no_session_is_said(session: Session, name: str) -> None:
    for content in ("", "[]", "{}", '{"projection_state": 1}'):
        (session.folder / name).write_text(content)
        with pytest.raises(OSError, match="not a session of a known form"):
            session.read()


def test_document_above_the_limit_is_not_read_whole(session: Session) -> None:
    for step in steps():
        session.change(step)

    for limit in (10, 500, 2_000):  # of a manifest, of the state, of the journal
        assert len(SessionFolders(VibeStore()).head(str(session.meta), limit)[0]) > limit


def test_long_record_that_changes_nothing_is_passed_over(session: Session) -> None:
    session.change(steps()[0])
    before = session.read()
    with session.journal.open("a") as journal:
        journal.write(json.dumps({"payload": "x" * LIMIT, "type": "checkpoint"}) + "\n")

    assert session.read() == before


def contents(events: list[Any]) -> list[tuple[Any, ...]]:
    keys = {"message": "text", "tool-call": "callId", "tool-result": "callId", "turn": "state", "usage": "inputTokens"}
    return [(event["kind"], event[keys[event["kind"]]]) for event in events if event["kind"] in keys]


def test_session_is_followed_and_emitted_once(tmp_path: Path) -> None:
    """The daemon is killed on the way, and the agent deletes the generation before the last."""
    normalizer = StreamNormalizer(Context(stream="x"), "vibe-session")
    fed = [item for line in RECORDING.read_bytes().splitlines() for item in normalizer.feed(line)]
    expected = contents([json.loads(item.body) for item in fed if isinstance(item, Produced)])
    follower = Follower(tmp_path, agents=["vibe"])
    follower.environment["VIBE_HOME"] = str(tmp_path / "vibe")
    session = Session(tmp_path / "vibe" / "logs" / "session" / "unified" / VERSIONS[0]["snapshot"]["session"]["id"])
    with follower:
        session.publish(VERSIONS[0], 1)
        parts = steps()
        for number, step in enumerate(parts):
            session.change(step)
            if number == len(parts) // 2:
                follower.restart(follower.kill)
        follower.events_when(lambda events: contents(events) == expected)
        session.publish(VERSIONS[-1], 35)
        shutil.rmtree(session.folder / "generations" / f"{0:016}")
        follower.restart(follower.stop)
        follower.wait_stats(lambda stats: not stats["following"]["waiting"])
        events = follower.events_when(lambda events: len(contents(events)) >= len(expected))

    assert contents(events) == expected
    assert len({event["stream"] for event in events}) == 1
    assert {event["session"] for event in events} == {session.folder.name}
