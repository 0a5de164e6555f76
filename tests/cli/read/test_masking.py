"""What a command writes for others has no secrets, unless an option asks for them, and a sentence says how many."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, here, sentence
from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running, running
from tests.secrets.shapes import fakes
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import Message, OutputRef, SessionEvent

SECRET = next(fake.secret for fake in fakes(7) if fake.secret.startswith("ghp_"))
LONG = f"export GITHUB_TOKEN={SECRET}\n" + "some text\n" * 100
NAMES = "/home/zoe/src zoe\n" * 100
LINE = json.dumps(
    {"type": "user", "message": {"role": "user", "content": f"use {SECRET}"}, "session_id": "s", "uuid": "u"}
).encode()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    whole = OutputRef(output_id="s:1:o1", bytes=len(LONG), lines=101, mime_type="text/plain")
    its = OutputRef(output_id="zoe:1:o1", bytes=len(NAMES), lines=101, mime_type="text/plain")
    with running(tmp_path_factory.mktemp("daemon")) as one:
        one.commit(
            commit(
                message(f"use {SECRET}"),
                call("c"),
                OutputChunk("s:1:o1", 0, LONG.encode(), "text/plain"),
                result("c", output={"stdout": LONG[:30]}, outputs={"/output/stdout": whole}),
            ),
            commit(
                event(Message, "n", session="names", role="user", text="zoe asks"),
                call("c", "n", session="names", input={"command": "ls /home/zoe"}),
                OutputChunk("zoe:1:o1", 0, NAMES.encode(), "text/plain"),
                result("c", "n", session="names", output={"stdout": NAMES[:30]}, outputs={"/output/stdout": its}),
                event(SessionEvent, "n", session="names", state="started", cwd="/home/zoe/src", title="Ask zoe"),
                stream="n",
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


SPOKEN = (
    {"type": "system", "subtype": "init", "cwd": "/home/zoe/src", "session_id": "s", "uuid": "0"},
    {"type": "user", "message": {"role": "user", "content": "zoe@box7:~/src$ mail zoe@corp.io"}, "session_id": "s"},
    {"type": "user", "message": {"role": "user", "content": f"zoe's key {SECRET} of box7"}, "session_id": "s"},
)
LINES = b"".join(json.dumps(line).encode() + b"\n" for line in reversed(SPOKEN))
"""The name comes before the folder that shows it to be one."""


@pytest.mark.parametrize("form", ["--html", "--markdown"])
@pytest.mark.parametrize("place", ["file", "pipe"])
def test_recording_is_anonymous_if_that_is_wanted(form: str, place: str, tmp_path: Path) -> None:
    recording = tmp_path / "zoe.jsonl"
    recording.write_bytes(LINES)
    source = recording if place == "file" else "-"

    finished = here("export", form, source, "--anonymous", stdin=LINES)
    named = here("export", form, source, stdin=LINES)

    assert finished.returncode == 0
    assert b"zoe" not in finished.stdout
    assert b"box7" not in finished.stdout
    assert SECRET.encode() not in finished.stdout
    assert b"email-1" in finished.stdout
    assert b"names of users and hosts, and e-mail addresses are replaced." in finished.stdout
    assert b"zoe@corp.io" in named.stdout


@pytest.mark.parametrize("form", ["--html", "--markdown"])
def test_session_is_anonymous_if_that_is_wanted(form: str, daemon: Running) -> None:
    """Also its title, and the bodies of its outputs."""
    finished = here("export", form, "names", "--anonymous", "--socket", daemon.path)

    text = finished.stdout.decode()
    data = b"".join(map(b64decode, re.findall(r"base64,([A-Za-z0-9+/=]+)", text)))
    assert finished.returncode == 0
    assert "zoe" not in text
    assert b"zoe" not in data
    assert (b"~/src user-2" in data) == (form == "--html")
    assert "Ask user-2" in text


def test_preview_lists_the_names(tmp_path: Path) -> None:
    recording = tmp_path / "claude.jsonl"
    recording.write_bytes(LINES)

    finished = here("export", "--html", recording, "--anonymous", "--preview")

    lines = {line.partition(": ")[2] for line in finished.stdout.decode().splitlines()}
    assert {"email-1 for zoe@corp.io, 1 time", "user-2 for zoe, 2 times", "host-2 for box7, 2 times"} <= lines
    assert any("token" in line for line in lines)
