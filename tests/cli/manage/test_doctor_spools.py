"""`tooltap doctor` and `stats` name spools: those that wait, those that no daemon reads, and damaged ones."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here, tooltap
from tests.cli.tap.spooling import Place, until
from tests.cli.tap.test_spool import prints
from tests.daemon.taps.test_spool import filled


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def found(place: Place) -> list[tuple[str, str, str]]:
    """What `doctor` says of spools, except about the folder: level, text, advice."""
    variables: Any = place.variables
    finished = tooltap("doctor", "--json", "--socket", place.socket, **variables)
    findings = [one for one in json.loads(finished.stdout)["findings"] if one["area"] == "spool"]
    return [(one["level"], one["text"], one["advice"]) for one in findings[1:]]


def statistics(place: Place) -> dict[str, Any]:
    spools: dict[str, Any] = json.loads(tooltap("stats", "--json", "--socket", place.socket).stdout)["spools"]
    return spools


def test_spool_of_a_daemon_elsewhere_is_named(place: Place) -> None:
    """Its runtime folder is gone, as after a login by another way."""
    elsewhere = place.folder / "old" / "s.sock"
    place.socket, here_now = elsewhere, place.socket
    place.run(*prints(10))
    place.socket = here_now
    [spool] = place.spools

    [(level, text, advice)] = found(place)
    assert level == "note"
    assert text == (
        f"1 spool (0.0 MiB) waits for the daemon at {elsewhere}, whose folder is gone, where none is listening:"
        f" {spool.name}"
    )
    assert advice.startswith(f"Run tooltap serve --socket {elsewhere} once: it takes them in.")
    with place.serving() as daemon:
        until(lambda: [one["state"] for one in daemon.ask("stats")["spools"]["perSpool"]] == ["of another daemon"])
        [one] = statistics(place)["perSpool"]
        assert (one["stream"], one["state"], one["socket"]) == (spool.stem, "of another daemon", str(elsewhere))
        assert found(place)[0][1] == text
        printed = tooltap("stats", "--socket", place.socket).stdout.decode()
        assert f"  {spool.stem}: of another daemon ({elsewhere}), " in printed
    place.socket = elsewhere
    with place.serving() as daemon:  # what `doctor` advised
        daemon.wait_until_ended(1)
        assert list(daemon.journal().values()) == [list(range(10))]


def test_damaged_spool_is_named(place: Place) -> None:
    place.run(*prints(10))
    [spool] = place.spools
    content = bytearray(spool.read_bytes())
    start = content.index(b'{\\"n\\":4}')
    content[start : start + 40] = bytes(40)
    spool.write_bytes(content)
    [(level, text, _)] = found(place)
    assert (level, text) == (
        "note",
        f"1 spool (0.0 MiB) waits for the daemon at {place.socket}, where none is listening: {spool.name}",
    )
    with place.serving() as daemon:
        daemon.wait_until_ended(1)
        [lines] = daemon.journal().values()
        until(lambda: statistics(place)["quarantined"]["files"] == 1)
        assert statistics(place)["quarantined"]["names"] == [spool.name]
        printed = tooltap("stats", "--socket", place.socket).stdout.decode()
        assert f"spools: 0 waiting, 1 drained, 1 damaged ones in {spool.parent / 'quarantined'}\n" in printed

    lost = next(one for one in lines if isinstance(one, tuple))
    assert [one for one in lines if one != lost] == [n for n in range(10) if n not in range(4, 4 + lost[0])]
    assert lost == (lost[0], "the spool is damaged")
    [(level, text, advice)] = found(place)
    assert level == "note"
    assert text == f"1 spool (0.0 MiB) in {spool.parent / 'quarantined'} is damaged: {spool.name}"
    assert advice.startswith("What could be read is in the journal")
    assert (spool.parent / "quarantined" / spool.name).read_bytes() == content
    (spool.parent / "quarantined" / spool.name).unlink()  # as it says
    assert found(place) == []


def test_unreadable_and_used_spools(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place.folder / "spool"
    folder.mkdir(mode=0o700)
    filled(folder, 3).close()
    (folder / "zeroed.spool").write_bytes(bytes(10_000))
    with (folder / "s.spool").open("rb") as used:
        fcntl.flock(used, fcntl.LOCK_EX)
        [(level, text, _)] = found(place)

    assert (level, text) == ("problem", f"{folder / 'zeroed.spool'} cannot be read: its header cannot be read")
    assert sorted(path.name for path in folder.iterdir()) == ["s.spool", "zeroed.spool"]  # it changes nothing
    monkeypatch.setenv("TOOLTAP_SPOOL", str(folder))
    assert here("doctor", "--socket", place.socket).returncode == 1


def test_spool_whose_lines_are_lost_is_named(place: Place) -> None:
    folder = place.folder / "spool"
    folder.mkdir(mode=0o700)
    for name in ("one", "other"):
        (folder / f"{name}.spool").write_bytes(bytes(10_000))
    with place.serving():
        until(lambda: sorted(statistics(place)["quarantined"]["unread"]) == ["one.spool", "other.spool"])
        assert statistics(place)["quarantined"]["files"] == 2
        printed = tooltap("stats", "--socket", place.socket).stdout.decode()
        assert "  one.spool: its header cannot be read: none of its lines is in a journal\n" in printed

    [(level, text, advice)] = found(place)
    assert (level, text.partition(": ")[0]) == (
        "problem",
        f"2 spools (0.0 MiB) in {folder / 'quarantined'} cannot be read",
    )
    assert sorted(text.partition(": ")[2].split(", ")) == ["one.spool", "other.spool"]
    assert advice.startswith("Their lines are in no journal")


def test_spool_without_a_header_is_named_by_the_log_stats_and_doctor(place: Place) -> None:
    """Its records are intact, and are kept; a spool beside it is taken in."""
    place.run(*prints(10))
    [spool] = place.spools
    content = spool.read_bytes().replace(b"tooltap-spool-", b"tooltap-\0pool-")
    spool.write_bytes(content)
    place.run(*prints(5))
    folder = spool.parent / "quarantined"
    with place.serving() as daemon:
        while b"quarantine" not in (logged := daemon.process.log_line()):
            assert logged, "the daemon has ended"
        daemon.wait_until_ended(1)
        assert list(daemon.journal().values()) == [list(range(5))]
        printed = tooltap("stats", "--socket", place.socket).stdout.decode()
        [(level, text, advice)] = found(place)

    assert b"its header cannot be read: none of its lines is in a journal" in logged
    assert str(folder / spool.name).encode() in logged
    assert f"  {spool.name}: its header cannot be read: none of its lines is in a journal\n" in printed
    size = len(content) / 2**20
    assert (level, text) == ("problem", f"1 spool ({size:.1f} MiB) in {folder} cannot be read: {spool.name}")
    assert advice.startswith("Their lines are in no journal")
    assert (folder / spool.name).read_bytes() == content
