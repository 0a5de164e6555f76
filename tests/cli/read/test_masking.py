"""What a command writes for others has no secrets, unless an option asks for them, and a sentence says how many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, here, sentence
from tests.daemon.events import call, commit, message, result
from tests.daemon.running import Running, running
from tests.secrets.shapes import fakes
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import OutputRef

SECRET = next(fake.secret for fake in fakes(7) if fake.secret.startswith("ghp_"))
LONG = f"export GITHUB_TOKEN={SECRET}\n" + "some text\n" * 100
LINE = json.dumps(
    {"type": "user", "message": {"role": "user", "content": f"use {SECRET}"}, "session_id": "s", "uuid": "u"}
).encode()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    whole = OutputRef(output_id="s:1:o1", bytes=len(LONG), lines=101, mime_type="text/plain")
    with running(tmp_path_factory.mktemp("daemon")) as one:
        one.commit(
            commit(
                message(f"use {SECRET}"),
                call("c"),
                OutputChunk("s:1:o1", 0, LONG.encode(), "text/plain"),
                result("c", output={"stdout": LONG[:30]}, outputs={"/output/stdout": whole}),
            ),
        )
        yield one


def test_page_of_a_session_is_masked_with_its_bodies(daemon: Running) -> None:
    finished = here("export", "--html", "session-1", "--socket", daemon.path)

    assert finished.returncode == 0
    assert SECRET.encode() not in finished.stdout
    assert b"[masked github" in finished.stdout
    assert sentence(finished).startswith("masked 3 secrets (github-token 1, token 2)")


def test_page_of_a_recording_is_masked(tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    recording.write_bytes(CLAUDE.read_bytes().rstrip(b"\n") + b"\n" + LINE + b"\n")

    finished = here("export", "--html", recording)
    refused = here("export", "--html", recording, "--no-redact")

    assert SECRET.encode() not in finished.stdout
    assert SECRET.encode() in refused.stdout
    assert refused.stderr == b""
    assert "--no-redact writes them" in sentence(finished)


def test_preview_lists_what_would_be_masked_and_writes_nothing(daemon: Running, tmp_path: Path) -> None:
    page = tmp_path / "page.html"

    finished = here("export", "--html", "session-1", "--socket", daemon.path, "--preview", "-o", page)

    assert not page.exists()
    assert finished.returncode == 0
    lines = finished.stdout.decode().splitlines()
    assert len(lines) == 3
    assert sum("40 characters: ghp_…" in line for line in lines) == 2
    assert SECRET.encode() not in finished.stdout


@pytest.mark.process
def test_pages_of_a_folder_say_what_was_masked(daemon: Running, tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    recording.write_bytes(CLAUDE.read_bytes())

    finished = here("export", "--html", "session-1", recording, "-o", tmp_path / "pages", "--socket", daemon.path)

    assert finished.returncode == 0
    assert "session-1.html: masked 3 secrets" in sentence(finished)
    assert not any(SECRET.encode() in page.read_bytes() for page in (tmp_path / "pages").iterdir())


def test_options_that_contradict_each_other_are_refused(daemon: Running) -> None:
    for command in (("export", "--html", "session-1"), ("journal", "export")):
        finished = here(*command, "--preview", "--no-redact")
        assert finished.returncode == 2
        assert sentence(finished).startswith("--preview and --no-redact exclude each other")


def test_journal_export_is_masked(daemon: Running) -> None:
    journal = f"sqlite:{daemon.path.parent.parent / 'journal.db'}"

    masked = here("journal", "export", "--bodies", "--journal", journal)
    whole = here("journal", "export", "--bodies", "--no-redact", "--journal", journal)
    listed = here("journal", "export", "--bodies", "--preview", "--journal", journal)

    assert SECRET.encode() not in masked.stdout
    assert [json.loads(line).keys() for line in masked.stdout.splitlines()] == [
        json.loads(line).keys() for line in whole.stdout.splitlines()
    ]
    assert whole.stdout.count(SECRET.encode()) == 2
    assert masked.stdout.count(b"[masked ") == len(listed.stdout.splitlines()) == 3
    assert "masked 3 secrets" in sentence(masked)
