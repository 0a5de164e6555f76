"""Whole homes: what `sessions` and `usage` say is what an independent count of the raw lines says, to the token; also
after the files were touched, copied without their times, or read again."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import here
from tests.daemon.taps.following import FIXTURES
from tests.daemon.taps.raw_counts import COUNTS, Tokens, objects
from tests.daemon.taps.test_follow_all import Everything, done


def stored_at(home: Path, recording: Path) -> Path:
    """Where the agent itself would store this recording."""
    first = list(objects(recording))[:20]
    name, folder = recording.name, f"-tmp-{recording.parent.name}"
    match recording.parent.parent.name:
        case "claude-transcript":
            named = next((line for line in first if "sessionId" in line), {})
            sidechain = all(line.get("isSidechain") for line in first)
            below = f"{named.get('sessionId')}/subagents/agent-{named.get('agentId')}" if sidechain else name[:-6]
            return home / ".claude" / "projects" / folder / f"{below}.jsonl"
        case "codex-rollout":
            return home / ".codex" / "sessions" / folder / f"rollout-{name}"
        case "gemini-chat":
            chats = home / ".gemini" / "tmp" / folder / "chats"
            if first[0].get("kind") != "subagent":
                return chats / name
            parent: str = next(iter(objects(recording.with_name("subagent-call.jsonl"))))["sessionId"]
            return chats / parent / f"{first[0]['sessionId']}.jsonl"
        case "pi-session":
            return home / ".pi" / "agent" / "sessions" / folder / name
        case "qwen-chat":
            return home / ".qwen" / "projects" / folder / "chats" / name
    raise AssertionError(recording)


ALONE = {
    "claude-code-2.1.330/subagent-waited-for",
    "codex-0.131/fork",
    "codex-0.131/fork-of-fork",
    "gemini-written/subagent-call",
}
"""Recordings that repeat figures of a file that was not kept, or ids of another one."""
RECORDINGS = [
    path
    for dialect in ("claude-transcript", "codex-rollout", "gemini-chat", "pi-session", "qwen-chat")
    for path in sorted((FIXTURES / dialect).glob("*/*.json*"))
    if f"{path.parent.name}/{path.stem}" not in ALONE
]


class Home(Everything):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory, backfill="all")

    def fill(self) -> None:
        for recording in RECORDINGS:
            place = stored_at(self.home, recording)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(recording, place)

    def sums(self) -> tuple[dict[str, Tokens], dict[str, Tokens]]:
        """The sums of all sessions by agent once everything was read: as `usage` and as `sessions` state them."""
        self.wait_stats(done)
        with self.connect() as wire:
            rows = wire.ask("usage", by="agent")["rows"]
            listed = wire.ask("sessions", limit=1000)["sessions"]
        usage = {row["key"]: Tokens(row["inputTokens"], row["outputTokens"]) for row in rows}
        prompts: Counter[str] = Counter()
        output: Counter[str] = Counter()
        for one in listed:
            prompts[one["provider"]] += one.get("inputTokens", 0)
            output[one["provider"]] += one.get("outputTokens", 0)
        return usage, {agent: Tokens(prompts[agent], output[agent]) for agent in prompts}


def copied(home: Path) -> None:
    """Copy the home without times, as a backup that does not keep them does."""
    moved = home.with_name("moved")
    home.rename(moved)
    shutil.copytree(moved, home, copy_function=shutil.copyfile)


def touched(home: Path) -> None:
    for path in home.rglob("*.json*"):
        path.touch()


def renamed(home: Path) -> None:
    """Rename the folders of projects, as their own rename does."""
    for folder in (home / ".claude" / "projects").iterdir():
        folder.rename(folder.with_name(f"{folder.name}-renamed"))


CHANGES: dict[str, Callable[[Path], None]] = {"touched": touched, "copied": copied, "renamed": renamed}


def counted(home: Path) -> dict[str, Tokens]:
    return {agent: count(home) for agent, count in COUNTS.items()}


def test_sums_are_those_of_the_raw_lines(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.fill()
    truth = counted(home.home)
    with home:
        usage, sessions = home.sums()

    assert all(min(one) > 0 for one in truth.values())
    assert usage == sessions == truth


@pytest.mark.parametrize("change", CHANGES)
def test_sums_stay_when_files_change_but_not_their_lines(change: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.fill()
    with home:
        before = home.sums()
        home.stop()
        home.wait()
        CHANGES[change](home.home)
        home.start()
        after = home.sums()

    assert before == after == (counted(home.home),) * 2


def read_again(home: Home, journal: Path) -> None:
    """The agents still have the files."""


def restored(home: Home, journal: Path) -> None:
    """The agents have deleted the files of Claude Code; an archive has them."""
    shutil.rmtree(home.home / ".claude")
    archive = journal.with_name("archive.jsonl")
    assert here("journal", "import", archive, "--journal", journal).returncode == 0


@pytest.mark.parametrize("begin", [read_again, restored])
def test_sums_are_the_same_in_a_new_journal(begin: Callable[[Home, Path], None], tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.fill()
    truth = counted(home.home)
    journal = Path(home.settings["journal"])
    with home:
        before = home.sums()
        home.stop()
        home.wait()
        archive = here("journal", "export", "--archive", "--journal", journal).stdout
        for path in tmp_path.glob("journal.db*"):
            path.unlink()
        (tmp_path / "archive.jsonl").write_bytes(archive)
        begin(home, journal)
        home.start()
        after = home.sums()

    assert before == after == (truth,) * 2
