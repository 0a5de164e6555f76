"""The page of the files that all sessions changed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.changing import HOUR, edited, two_sessions
from tests.daemon.events import commit, event
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import Element, shown
from tooltap.daemon.sessions.files import FileParts
from tooltap.protocol.events import SessionEvent


@pytest.fixture
def changed(daemon: Running) -> None:
    """Session `two` changed its file two hours ago."""
    daemon.commit(*two_sessions(int(time.time() * 1_000) - 42 * HOUR))


def files(page: Element) -> list[str]:
    return [" ".join(one.one("summary").text.split()) for one in page.all("details", class_="changed")]


def test_files_name_who_changed_them(changed: None, browser: Browser) -> None:
    page = shown(browser, "/files")

    first, second = files(page)
    assert first.startswith("work/a.py +3 −3 3 changes 2 sessions · Gemini CLI, Claude Code")
    assert second.startswith("work/b.py +5 1 change 1 session · Gemini CLI")
    a = page.all("details", class_="changed")[0]
    assert [one.text for one in a.all("a", class_="title")] == ["two", "First"]
    assert a.all("a", class_="title")[1].attributes["href"] == "/sessions/one/files?open=%2Fwork%2Fa.py"
    last = a.all("a")[-1]
    assert last.text == "the last of 2 changes"
    assert shown(browser, last.attributes["href"].partition("#")[0]).all("article", class_="tool-call")


def test_a_file_leads_to_its_diff_and_calls(changed: None, browser: Browser) -> None:
    page = shown(browser, "/files?agent=gemini&file=A.PY")
    (link,) = page.all("a", class_="title")
    diffs = shown(browser, link.attributes["href"])

    (opened,) = [one for one in diffs.all("details", class_="changed") if "open" in one.attributes]
    assert opened.attributes["data-path"] == "a.py"
    assert opened.all("p", class_="made")[0].all("a")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("order=lines", ["a.py", "b.py"]),
        ("agent=claude", ["a.py"]),
        ("project=sub", ["a.py"]),
        ("project=work&project=sub", ["a.py", "b.py"]),
        ("period=day", ["a.py"]),
        ("period=week&file=B.py", ["b.py"]),
        ("file=nothing", []),
    ],
)
def test_filters_live_in_the_address(changed: None, browser: Browser, query: str, found: list[str]) -> None:
    page = shown(browser, f"/files?{query}")

    assert [one.text for one in page.all("span", class_="name")] == found
    assert len(page.all("p", class_="empty")) == (not found)


def test_a_changed_filter_keeps_the_others(changed: None, browser: Browser) -> None:
    page = shown(browser, "/files?agent=claude&period=week&file=a")
    (latest,) = [one for one in page.all("a", class_="pill") if one.text == "Latest"]

    assert latest.attributes["href"] == "/files?agent=claude&period=week&file=a&order=time"


def test_nothing_changed_is_a_sentence(daemon: Running, browser: Browser) -> None:
    assert "No session has changed a file yet." in shown(browser, "/files").one("p", class_="empty").text


def test_what_an_older_version_did_not_count_is_one_sentence(
    daemon: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, other = two_sessions()
    with monkeypatch.context() as older:
        older.setattr(FileParts, "add", lambda self, path, part: None)
        daemon.commit(two_sessions()[0])
    said = "an older version has ingested 1 session without counting the files"

    alone = here("files", "--socket", daemon.path)
    assert (alone.stdout, alone.stderr.decode().count(said)) == (b"", 1)
    assert said in shown(browser, "/files").text.lower()

    daemon.commit(other)
    both = here("files", "--socket", daemon.path)
    assert both.stdout.count(b"\n") == 2
    assert said in both.stderr.decode()
    assert said in shown(browser, "/files").one("p", class_="sum").text.lower()
    assert "older version" not in here("files", "--agent", "claude", "--socket", daemon.path).stderr.decode()


def test_worktree_stands_beside_the_path(daemon: Running, browser: Browser) -> None:
    """The same file in a repository and in two worktrees of it."""
    folders = {"one": "/src/shop", "two": "/src/shop/.claude/worktrees/fix", "three": "/src/shop/.worktrees/fix-2/web"}
    for name, cwd in folders.items():
        where: dict[str, Any] = {"stream": name, "session": name, "ts": HOUR}
        path = "../src/a.py" if name == "three" else "src/a.py"
        started = event(SessionEvent, state="started", cwd=cwd, root="/src/shop", **where)
        daemon.commit(commit(started, *edited("1", path, "x\n", "y\n", **where), stream=name))

    rows = shown(browser, "/files").all("details", class_="changed")
    found = {" ".join(one.one("span", class_="where").text.split()) for one in rows}
    assert found == {"shop/src/a.py", "shop/src/a.py in the worktree fix", "shop/src/a.py in the worktree fix-2"}
    listed = here("files", "--socket", daemon.path).stdout.decode().splitlines()[1:]
    assert {line.split("\t")[0] for line in listed} == {
        f"{cwd.removesuffix('/web')}/src/a.py" for cwd in folders.values()
    }
