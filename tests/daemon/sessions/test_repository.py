"""The project of a session is the repository in which it started, where that is on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import CLAUDE, CLAUDE_SESSION, Follower
from tooltap.daemon.sessions.repository import root_of


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (folder / "src" / "cart").mkdir(parents=True)
    return folder


def test_root_is_the_nearest_folder_with_git(repository: Path) -> None:
    assert root_of(str(repository / "src" / "cart")) == str(repository)
    assert root_of(f"{repository}/src/../src/") == str(repository)
    assert root_of(str(repository)) == str(repository)


def test_worktree_is_a_repository_of_its_own(repository: Path) -> None:
    worktree = repository / "trees" / "fix"
    worktree.mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {repository}/.git/worktrees/fix\n")

    assert root_of(str(worktree)) == str(worktree)


def test_no_root_without_git_or_folder(repository: Path, tmp_path: Path) -> None:
    assert root_of(str(tmp_path)) is None
    assert root_of(str(repository / "gone")) is None
    assert root_of("src") is None


def test_link_is_not_followed(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.symlink(repository / ".git", other / ".git")

    assert root_of(str(other)) is None


def test_repository_of_the_home_folder_holds_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "notes").mkdir()

    assert root_of(str(tmp_path / "notes")) is None
    assert root_of(str(tmp_path)) == str(tmp_path)


def sessions(follower: Follower, **filters: Any) -> list[dict[str, Any]]:
    with follower.connect() as wire:
        found: list[dict[str, Any]] = wire.ask("sessions", **filters)["sessions"]
    return found


def test_project_of_a_followed_session(tmp_path: Path, repository: Path) -> None:
    text = CLAUDE.read_text().replace('"/tmp/ws"', json.dumps(str(repository / "src")))
    with Follower(tmp_path) as follower:
        follower.session.write_text(text)
        follower.events_when(lambda events: any(event["kind"] == "turn" for event in events))
        [session] = sessions(follower)
        follower.restart(follower.stop)
        [filtered] = sessions(follower, project=[str(repository)])

    assert session["cwd"] == str(repository / "src")
    assert session["project"] == str(repository)
    assert session["branch"] == "main"
    assert filtered["session"] == CLAUDE_SESSION
