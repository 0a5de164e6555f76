"""Recordings that an agent has compressed are read as the plain ones, by each command that reads recordings."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from tests.cli.command import CODEX, here, sentence


def packed(folder: Path, data: bytes) -> Path:
    folder.mkdir()
    path = folder / f"{CODEX.name}.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(data))
    return path


@pytest.mark.parametrize("arguments", [("drift", "--json"), ("baseline", "check"), ("fixtures", "keys")])
def test_compressed_recording_is_read_as_the_plain_one(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Also in a folder, where it counts only without the plain one."""
    plain = here(*arguments, CODEX)
    path = packed(tmp_path / "recordings", CODEX.read_bytes())

    assert plain.stdout
    assert here(*arguments, path).stdout == here(*arguments, path.parent).stdout == plain.stdout

    (path.parent / CODEX.name).write_bytes(CODEX.read_bytes())
    assert here(*arguments, path.parent).stdout == plain.stdout


def test_scenario_of_a_compressed_recording_has_no_suffix(tmp_path: Path) -> None:
    path = packed(tmp_path / "recordings", CODEX.read_bytes())
    written = []
    for number, recording in enumerate((CODEX, path, path.parent)):
        assert here("baseline", "record", recording, "--out", tmp_path / str(number)).returncode == 0
        [baseline] = (tmp_path / str(number)).rglob("*.json")
        written.append(baseline.read_bytes())

    assert written[0] == written[1] == written[2]
    assert f'"{CODEX.stem}"'.encode() in written[0]


@pytest.mark.parametrize("arguments", [("drift",), ("baseline", "check"), ("normalize",)])
def test_file_that_cannot_be_decompressed_is_one_sentence(arguments: tuple[str, ...], tmp_path: Path) -> None:
    path = packed(tmp_path / "recordings", CODEX.read_bytes())
    path.write_bytes(b"not Zstandard")

    finished = here(*arguments, path)

    assert finished.returncode in (1, 2)
    assert sentence(finished).startswith(f"{path}: cannot be decompressed: ")
