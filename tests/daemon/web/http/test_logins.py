"""When logins begin and end, and their file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import anyio
import msgspec
import pytest

from tooltap.daemon.config import Web
from tooltap.daemon.web.http.logins import Entry, Logins
from tooltap.daemon.web.http.requests import WebError

DAY = 86_400_000
pytestmark = pytest.mark.anyio


class Clock:
    now = 1_000 * DAY

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logins"


def opened(path: Path, clock: Clock, **settings: float) -> Logins:
    return Logins(path, b"key", msgspec.convert(settings, Web), clock=clock)


async def enter(logins: Logins) -> Entry:
    entry = await logins.enter(logins.new_code(), "a browser", "127.0.0.1", None)
    assert entry is not None
    return entry


async def test_login_ends_when_idle(path: Path, clock: Clock) -> None:
    logins = opened(path, clock, login_idle=86_400)
    entry = await enter(logins)
    clock.now += DAY - 1
    assert logins.find(entry.cookie) is entry.login
    await logins.use(entry.login)
    clock.now += DAY - 1
    assert logins.find(entry.cookie) is entry.login
    clock.now += 1

    assert logins.find(entry.cookie) is None
    assert logins.alive() == []


async def test_login_ends_however_it_is_used(path: Path, clock: Clock) -> None:
    logins = opened(path, clock, login_lifetime=86_400)
    entry = await enter(logins)
    for _ in range(24):
        assert logins.find(entry.cookie) is not None
        await logins.use(entry.login)
        clock.now += DAY // 24

    assert logins.find(entry.cookie) is None


async def test_open_feed_is_use(path: Path, clock: Clock) -> None:
    logins = opened(path, clock, login_idle=86_400)
    entry = await enter(logins)

    async def feed() -> None:
        await logins.during(entry.login, anyio.sleep_forever)()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(feed)
        await anyio.wait_all_tasks_blocked()
        clock.now += 3 * DAY
        assert logins.find(entry.cookie) is entry.login
        assert logins.describe(entry.login)["used"] == clock.now
        tasks.cancel_scope.cancel()
    clock.now += DAY - 1
    assert logins.find(entry.cookie) is entry.login
    clock.now += 1

    assert logins.find(entry.cookie) is None


async def test_feed_ends_with_its_login(path: Path, clock: Clock) -> None:
    """With its lifetime, though an open feed is use; and at once if it was ended just before."""
    logins = opened(path, clock, login_lifetime=86_400)
    for is_revoked in (False, True):
        login = (await enter(logins)).login
        if is_revoked:
            await logins.revoke(login.id)
        else:
            clock.now += DAY - 1
        with anyio.fail_after(30):
            assert await logins.during(login, anyio.sleep_forever)() == {"type": "http.disconnect"}


async def test_pass_ends(path: Path, clock: Clock) -> None:
    logins = opened(path, clock)
    login = (await enter(logins)).login
    given, lasting = logins.new_signature(login, "/"), logins.signed_url("/").partition("pass=")[2]
    assert logins.is_signature(login, "/", given)
    clock.now += 60_000

    assert not logins.is_signature(login, "/", given)
    assert not logins.is_signature(login, "/", f"{clock.now + 1}.{given.partition('.')[2]}")
    assert not logins.is_signature(login, "/", f"0.{given.partition('.')[2]}")
    assert logins.is_signature(login, "/", lasting)


async def test_link_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.web.http.logins.LOGIN_LINK", 60)
    times = iter([0.0, 100.0, 101.0, 159.0, 161.0])
    logins = Logins(path, b"key", Web(), steady=lambda: next(times, 162.0))
    code, late = logins.new_code(), logins.new_code()

    assert await logins.enter(code, "", "", None)
    assert not await logins.enter(late, "", "", None)


async def test_unused_links_are_bounded(path: Path, clock: Clock) -> None:
    logins = opened(path, clock)
    first, second, *_ = [logins.new_code() for _ in range(101)]

    assert await logins.enter(first, "", "", None) is None
    assert await logins.enter(second, "", "", None) is not None


@pytest.mark.parametrize("most", [1, 3])
async def test_most_logins(path: Path, clock: Clock, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more ends the one that was unused for the longest time."""
    monkeypatch.setattr("tooltap.daemon.web.http.logins.MOST_LOGINS", most)
    logins = opened(path, clock)
    entries = []
    for _ in range(most):
        clock.now += 1
        entries.append(await enter(logins))
        assert len(logins.alive()) == len(entries)
    clock.now += 1
    await logins.use(entries[0].login)
    newest = await enter(logins)

    assert len(logins.alive()) == most
    assert logins.find(newest.cookie) is not None
    assert (logins.find(entries[0].cookie) is None) == (most == 1)
    assert most == 1 or logins.find(entries[1].cookie) is None


async def test_file_is_private_and_holds_no_secret(path: Path, clock: Clock) -> None:
    before = os.umask(0)
    try:
        entry = await enter(opened(path, clock))
    finally:
        os.umask(before)
    again = opened(path, clock)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    data = path.read_text()
    assert entry.secret not in data
    assert entry.cookie not in data
    found = again.find(entry.cookie)
    assert found is not None
    assert again.is_secret(found, entry.secret)
    assert not again.is_secret(found, "x")


async def test_file_of_all_logins_can_be_read(path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long their `User-Agent` is in it."""
    monkeypatch.setattr("tooltap.daemon.web.http.logins.MOST_LOGINS", 3)
    logins = opened(path, clock)
    for _ in range(3):
        assert await logins.enter(logins.new_code(), "\x01" * 10_000, "127.0.0.1", None)

    assert len(opened(path, clock).alive()) == 3


MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("agent", "browser"),
    [
        (f"{MAC} Version/17.4.1 Safari/605.1.15", "Safari 17 on macOS"),
        (f"{MAC} Version/17.4 Mobile/15E148 Safari/604.1", "Safari 17 on macOS"),
        (f"{MAC} Chrome/131.0.0.0 Safari/537.36", "Chrome 131 on macOS"),
        (f"{MAC} HeadlessChrome/131.0.0.0 Safari/537.36", "Chrome 131 on macOS"),
        (f"{MAC} Chrome/131.0.0.0 Safari/537.36 EdgA/130.0", "Edge 130 on macOS"),
    ],
)
async def test_browser_has_a_name(path: Path, clock: Clock, agent: str, browser: str) -> None:
    logins = opened(path, clock)
    await logins.enter(logins.new_code(), agent, "127.0.0.1", None)

    assert [logins.describe(one)["browser"] for one in logins.alive()] == [browser]


async def test_end_is_written(path: Path, clock: Clock) -> None:
    logins = opened(path, clock)
    entry = await enter(logins)
    await logins.revoke(entry.login.id)

    assert opened(path, clock).alive() == []
    path.unlink()
    path.mkdir()
    other = await enter(logins)
    with pytest.raises(WebError, match="it has ended, but a restart of the daemon would bring it back"):
        await logins.revoke(other.login.id)
    assert logins.find(other.cookie) is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
async def test_file_of_others_has_nobody(path: Path, clock: Clock, mode: int) -> None:
    entry = await enter(opened(path, clock))
    path.chmod(mode)

    assert opened(path, clock).find(entry.cookie) is None


@pytest.mark.parametrize("content", [b"", b"[1]", b"{}", b"\xff", b'[{"id":"a"}]'])
async def test_file_that_makes_no_sense_has_nobody(path: Path, clock: Clock, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)

    logins = opened(path, clock)
    assert logins.alive() == []
    await enter(logins)
    assert len(opened(path, clock).alive()) == 1


async def test_link_in_place_of_the_file_is_not_followed(path: Path, clock: Clock, tmp_path: Path) -> None:
    entry = await enter(opened(tmp_path / "elsewhere", clock))
    path.symlink_to(tmp_path / "elsewhere")

    assert opened(path, clock).find(entry.cookie) is None
