"""The project of a session is the repository in which it started, where that is on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import CLAUDE, CLAUDE_SESSION, Follower
from tooltap.daemon.sessions.listing import names_of
from tooltap.daemon.sessions.repository import root_of
from tooltap.daemon.sessions.worktrees import project_of_path


def made(folder: Path) -> None:
    """Make a repository: what git looks for in `.git`."""
    (folder / ".git" / "objects").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


@pytest.fixture
def above(tmp_path: Path) -> str | None:
    """The repository in which the tests' temporary folder lies: usually none."""
    return root_of(str(tmp_path.parent))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    made(folder)
    (folder / "src" / "cart").mkdir(parents=True)
    return folder


def test_root_is_the_nearest_folder_with_git(repository: Path) -> None:
    assert root_of(str(repository / "src" / "cart")) == str(repository)
    assert root_of(f"{repository}/src/../src/") == str(repository)
    assert root_of(str(repository)) == str(repository)


@pytest.mark.parametrize("stray", ["empty folder", "folder without objects", "empty file", "file of another kind"])
def test_stray_git_above_is_no_repository(repository: Path, tmp_path: Path, above: str | None, stray: str) -> None:
    git = tmp_path / ".git"
    if "folder" in stray:
        git.mkdir()
        if "objects" in stray:
            (git / "HEAD").touch()
    else:
        git.write_text("" if stray == "empty file" else "gitdir:\nnotes\n")
    (tmp_path / "alone").mkdir()

    assert root_of(str(tmp_path / "alone")) == above
    assert root_of(str(repository / "src")) == str(repository)


@pytest.mark.parametrize("gitdir", ["{repository}/.git/worktrees/fix", "../shop/.git/worktrees/fix"])
def test_worktree_belongs_to_its_repository(repository: Path, tmp_path: Path, gitdir: str) -> None:
    worktree = tmp_path / "fix"
    (worktree / "src").mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {gitdir.format(repository=repository)}\n")

    assert root_of(str(worktree / "src")) == str(repository)


def test_worktree_of_a_bare_repository(tmp_path: Path) -> None:
    for name, common in (("fix", "shop/.bare"), ("other", "shop.git")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".git").write_text(f"gitdir: {tmp_path}/{common}/worktrees/{name}\n")

    assert root_of(str(tmp_path / "fix")) == str(tmp_path / "shop")
    assert root_of(str(tmp_path / "other")) == str(tmp_path / "shop.git")


def test_submodule_is_a_repository_of_its_own(repository: Path) -> None:
    module = repository / "lib"
    module.mkdir()
    (module / ".git").write_text("gitdir: ../.git/modules/lib\n")

    assert root_of(str(module)) == str(module)


@pytest.mark.parametrize(
    ("path", "project"),
    [
        ("/home/me/code/cli/.worktrees/3", "/home/me/code/cli"),
        ("/home/me/code/cli/.worktrees/3/src/deep", "/home/me/code/cli"),
        ("/w/app/.claude/worktrees/elastic-cori-f29409", "/w/app"),
        ("C:\\Users\\you\\proj\\.claude\\worktrees\\calm-fox", "C:\\Users\\you\\proj"),
        ("C:/Users/you/proj/.worktrees/3", "C:/Users/you/proj"),
        ("\\\\host\\share\\proj\\.worktrees\\3", "\\\\host\\share\\proj"),
        ("/home/me/code/app/worktrees/fix", "/home/me/code/app"),
        ("/home/me/code/app/.worktrees/3/.claude/worktrees/x", "/home/me/code/app"),
        ("/home/me/.codex/worktrees/1a2b/shop/src", "/home/me/.codex/worktrees/1a2b/shop"),
        ("/home/me/.cursor/worktrees/shop/x7k2p/src", "/home/me/.cursor/worktrees/shop"),
        ("/home/me/worktrees/app", "/home/me/worktrees/app"),
        ("/root/worktrees/app", "/root/worktrees/app"),
        ("C:\\Users\\you\\worktrees\\app", "C:\\Users\\you\\worktrees\\app"),
        ("/home/me/code/app/.worktrees", "/home/me/code/app/.worktrees"),
        ("/home/me/code/app/src", "/home/me/code/app/src"),
        ("/w/a\\.worktrees\\b", "/w/a\\.worktrees\\b"),
        ("", ""),
    ],
)
def test_project_of_a_worktree_by_its_path(path: str, project: str) -> None:
    assert project_of_path(path) == project


def test_repository_in_a_folder_of_worktrees_is_its_own_project() -> None:
    assert project_of_path("/home/me/code/worktrees/app", is_repository=True) == "/home/me/code/worktrees/app"
    assert project_of_path("/home/me/app/.worktrees/3", is_repository=True) == "/home/me/app"


def test_names_that_are_not_unique_show_the_folders_above() -> None:
    folders = ["/w/cli/3", "/w/web/3", "/w/shop", "/a/x/y", "/b/x/y", "C:\\w\\tool", ""]

    assert list(names_of(folders).values()) == ["cli/3", "web/3", "shop", "a/x/y", "b/x/y", "tool", ""]


def test_no_root_without_git_or_folder(repository: Path, tmp_path: Path, above: str | None) -> None:
    assert root_of(str(tmp_path)) == above
    assert root_of(str(repository / "gone")) is None
    assert root_of("src") is None


def test_link_is_not_followed(repository: Path, tmp_path: Path, above: str | None) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.symlink(repository / ".git", other / ".git")

    assert root_of(str(other)) == above


def test_repository_of_the_home_folder_holds_no_project(
    tmp_path: Path, above: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    made(tmp_path)
    (tmp_path / "notes").mkdir()

    assert root_of(str(tmp_path / "notes")) == above
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
