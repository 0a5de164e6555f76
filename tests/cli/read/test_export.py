"""`tooltap export --html`: a session as one page, from a file or a daemon."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, COMMAND, WITHOUT_BYTECODE, environment, here, sentence, start, tooltap
from tests.cli.tap.spooling import until
from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running, running
from tests.daemon.web.parsed import Element, parse
from tests.normalizers.reading import FIXTURES
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import Attachment, OutputRef, SessionEvent

PICTURE = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "mcp.jsonl"
SUBAGENTS = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "subagents-parallel.jsonl"
PNG = b"\x89PNG and so on"
LONG = b"0123456789abcde\n" * 100_000
"""1.6 MB: more than one reply can hold, and more than the default limit of the page."""


def page_of(html: bytes) -> Element:
    doctype, text = html.decode().split("\n", 1)
    assert doctype == "<!doctype html>"
    return parse(text)


def export(*arguments: object) -> Element:
    finished = here("export", "--html", *arguments)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return page_of(finished.stdout)


def cards(page: Element) -> list[Element]:
    """The cards that are not inside another card."""
    return [one for one in page.one("main").children if isinstance(one, Element)]


def titles(page: Element) -> list[str]:
    return [card.texts(".title")[0] for card in cards(page)]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    picture = Attachment(mime_type="image/png", output_id="s:1:o0", bytes=len(PNG))
    gone = Attachment(mime_type="image/png", output_id="s:1:o9", bytes=5)
    whole = OutputRef(output_id="s:1:o1", bytes=len(LONG), lines=100_000, mime_type="text/plain")
    with running(tmp_path_factory.mktemp("daemon")) as one:
        one.commit(
            commit(
                event(SessionEvent, state="started", title="Fix <b>the</b> greeting"),
                message("Look:", attachments=[picture, gone]),
                call("c"),
                OutputChunk("s:1:o0", 0, PNG, "image/png"),
                OutputChunk("s:1:o1", 0, LONG, "text/plain"),
                result("c", output={"stdout": "0123"}, outputs={"/output/stdout": whole}),
            ),
        )
        one.commit(commit(message("elsewhere", "other", session="session-22"), stream="other"))
        yield one


def test_recording_becomes_page_without_daemon(tmp_path: Path) -> None:
    written = tmp_path / "session.html"
    finished = here("export", "--html", CLAUDE, "-o", written)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")
    page = page_of(written.read_bytes())
    assert page.one("h1").text == "claude-code"
    assert titles(page)[0] == "Session started"
    assert "Bash" in titles(page)


def test_page_policy_allows_only_own_style_and_images() -> None:
    page = export(CLAUDE)
    [policy] = [one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes]
    digest = base64.b64encode(hashlib.sha256(page.one("style").raw.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert not page.all("script")
    assert {one.attributes["href"][0] for one in page.all("a")} == {"#"}
    assert not page.all("link")
    assert "@import" not in page.one("style").raw
    assert "url(" not in page.one("style").raw


def test_overview_leads_to_the_turns_of_the_page() -> None:
    page = export(SUBAGENTS)
    places = {card.attributes["id"] for card in page.all("article")}
    links = [one.attributes["href"].removeprefix("#") for one in page.one("nav").all("a")]
    assert links
    assert set(links) <= places
    assert "No secret was found to be masked." in page.one("footer").text


def test_recordings_become_markdown(tmp_path: Path) -> None:
    printed = here("export", "--markdown", CLAUDE)
    assert (printed.returncode, printed.stderr) == (0, b"")
    assert printed.stdout.startswith(b"# claude-code\n\n- agent: Claude Code\n")
    assert b"\n## Turn 1" in printed.stdout
    assert here("export", "--markdown", CLAUDE, SUBAGENTS, "-o", tmp_path).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{CLAUDE.stem}.md", f"{SUBAGENTS.stem}.md"}


def test_session_of_a_daemon_becomes_markdown(daemon: Running) -> None:
    printed = here("export", "--markdown", "session-1", "--socket", daemon.path).stdout.decode()
    assert printed.startswith("# Fix \\<b\\>the\\</b\\> greeting\n")
    assert "*Attached: no name (image/png, 14 bytes)*" in printed


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon with two sessions whose ids were known late, and whose stream had one id until then."""
    with running(tmp_path_factory.mktemp("renamed")) as one:
        for base, name in enumerate(("first", "second")):
            named = event(SessionEvent, line=base + 1, session=name, state="updated", alias="s", index=1)
            asked = message(f"asked the {name}", line=base + 1, session="s")
            said = message(f"said by the {name}", line=base + 1, session=name, index=2)
            one.commit(commit(asked, named, said, base=base))
        yield one


@pytest.mark.parametrize("name", ["first", "second"])
def test_events_from_before_the_id_of_the_session_was_known_are_in_the_file(renamed: Running, name: str) -> None:
    done = here("export", "--format", "jsonl", name, "--socket", renamed.path)
    shown = here("show", name, "--json", "--socket", renamed.path)

    for found in (done, shown):
        texts = [one.get("text") for one in map(json.loads, found.stdout.splitlines())]
        assert texts == [f"asked the {name}", None, f"said by the {name}"]


def test_session_is_looked_for_by_its_earlier_id(renamed: Running) -> None:
    ambiguous = here("export", "--markdown", "s", "--socket", renamed.path)

    assert ambiguous.returncode == 1
    assert b"2 sessions had the id 's' before: " in ambiguous.stderr


def test_form_must_be_named() -> None:
    finished = here("export", CLAUDE)
    assert finished.returncode == 2
    assert sentence(finished).startswith("choose a format: --html, --markdown or --format FORMAT")


def test_subagent_events_are_in_the_card_of_their_call() -> None:
    first, second = (card for card in cards(export(SUBAGENTS)) if card.texts(".title")[0] == "Task")
    for task in (first, second):
        assert task.attributes["data-status"] == "completed"
        assert {"Prompt", "Grep", "Read"} <= set(task.texts(".title"))


def test_summary_unfolds_and_full_does_not() -> None:
    summary, full, title = (export(SUBAGENTS, "--level", level) for level in ("summary", "full", "title"))
    assert summary.all("details.whole")
    assert not full.all("details.whole")
    assert not title.all(".brief")
    assert "greet is defined" in title.text
    assert len(title.all("details.whole")) >= len(summary.all("details.whole"))


def test_card_links_point_into_the_page() -> None:
    page = export(CLAUDE)
    places = {card.attributes["id"] for card in page.all("article")}
    assert {link.attributes["href"].removeprefix("#") for link in page.all("a.head")} == places


def test_event_lines_give_the_page_without_bodies() -> None:
    lines = here("normalize", PICTURE).stdout
    finished = here("export", "--html", "-")
    assert sentence(finished) == "- has no events"
    finished = here("export", "--html", "-", stdin=lines)
    page, recorded = page_of(finished.stdout), export(PICTURE)
    assert titles(page) == titles(recorded)
    assert (len(page.all("img")), len(recorded.all("img"))) == (0, 1)
    assert "image/png, 70 bytes, not available" in page.text


def test_image_is_in_the_page() -> None:
    assert export(PICTURE).one("img").attributes["src"].startswith("data:image/png;base64,iVBOR")


def test_daemon_session_has_title_bodies_and_omissions(daemon: Running) -> None:
    page = export("session-1", "--socket", daemon.path)
    assert page.one("h1").text == "Fix <b>the</b> greeting"
    assert titles(page) == ["Session started", "Assistant", "Bash"]
    assert page.one("img").attributes["src"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert "image/png, 5 bytes, not available" in page.text
    assert f"cut: {len(LONG):,} bytes in all" in page.text
    assert "1 body is left out (1,600,000 bytes): too large for this page." in page.one("footer").text


def test_long_body_is_a_download_within_limits(daemon: Running) -> None:
    page = export("session-1", "--socket", daemon.path, "--max-body", 2_000_000)
    [link] = [one for one in page.all("a") if "download" in one.attributes]
    assert link.text == "the whole: 1,600,000 bytes"
    kind, data = link.attributes["href"].split(",")
    assert kind == "data:application/octet-stream;base64"
    assert base64.b64decode(data) == LONG


def test_total_of_bodies_is_bounded(daemon: Running) -> None:
    page = export("session-1", "--socket", daemon.path, "--max-bodies", 10)
    assert not page.all("img")
    assert re.search("2 bodies are left out", page.one("footer").text)


def test_unambiguous_id_prefix_is_enough(daemon: Running) -> None:
    assert titles(export("session-2", "--socket", daemon.path)) == ["Assistant"]
    ambiguous = here("export", "--html", "session", "--socket", daemon.path)
    assert sentence(ambiguous).startswith("2 sessions have an id that starts with 'session': session-")
    assert sentence(ambiguous).endswith("; name one of them")
    unknown = here("export", "--html", "nothing", "--socket", daemon.path)
    assert sentence(unknown) == "the journal has no session 'nothing'; list them with `tooltap sessions`"


def test_unwritable_output_and_empty_input_are_one_sentence(tmp_path: Path) -> None:
    assert sentence(here("export", "--html", CLAUDE, "-o", tmp_path / "no" / "where.html")) == (
        f"{tmp_path}/no/where.html: No such file or directory"
    )
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert sentence(here("export", "--html", empty, "-o", tmp_path / "page.html")) == f"{empty} has no events"
    assert not (tmp_path / "page.html").exists()


def test_several_recordings_and_sessions_become_pages_in_a_folder(daemon: Running, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    for name in ("a.jsonl", "one/a.jsonl", "one/empty.jsonl"):
        (tmp_path / name).write_bytes(CLAUDE.read_bytes() if "empty" not in name else b"")
    sources = (tmp_path / "a.jsonl", tmp_path / "one", "session-1", "nothing", "-")
    folder = tmp_path / "new" / "pages"
    finished = here("export", "--html", *sources, "-o", folder, "--socket", daemon.path, stdin=CLAUDE.read_bytes())

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert finished.stderr.decode().splitlines() == [
        f"tooltap: {tmp_path / 'one' / 'empty.jsonl'} has no events",
        "tooltap: the journal has no session 'nothing'; list them with `tooltap sessions`",
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["a.html", "a~2.html", "session-1.html", "stdin.html"]
    assert page_of((folder / "session-1.html").read_bytes()).one("h1").text == "Fix <b>the</b> greeting"
    assert titles(page_of((folder / "a~2.html").read_bytes())) == titles(export(CLAUDE))


def test_single_page_can_be_written_to_an_existing_folder(tmp_path: Path) -> None:
    assert here("export", "--html", CLAUDE, "-o", tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{CLAUDE.stem}.html"]


def test_pages_are_the_same_for_any_number_of_jobs(daemon: Running, tmp_path: Path) -> None:
    """Sessions of a daemon too: each process has its own connection."""
    folders = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        sources = (FIXTURES / "claude-stream", "session-1", "session-22")
        finished = tooltap("export", "--html", *sources, "-o", folder, "--jobs", jobs, "--socket", daemon.path)
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")
        folders.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert folders[0] == folders[1]
    assert len(folders[0]) > 30


@pytest.mark.parametrize("folder", [None, "file"])
def test_several_pages_need_a_folder(tmp_path: Path, folder: str | None) -> None:
    (tmp_path / "file").touch()
    options = () if folder is None else ("-o", tmp_path / folder)
    finished = here("export", "--html", CLAUDE, PICTURE, *options)

    assert finished.returncode == 2
    assert sentence(finished).startswith("several pages need a folder: name it with -o FOLDER")


def test_killed_export_leaves_the_old_page(tmp_path: Path) -> None:
    page = tmp_path / "session.html"
    page.write_text("old")
    with start("export", "--html", "-", "-o", page) as child:
        child.write(CLAUDE.read_bytes() * 20)
        until(lambda: any(path.stat().st_size for path in tmp_path.iterdir() if path != page))
        child.kill()

    assert page.read_text() == "old"
    assert here("export", "--html", CLAUDE, "-o", page).returncode == 0
    assert list(tmp_path.iterdir()) == [page]


def test_what_is_deleted_while_it_is_exported_is_named(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        remove = daemon.daemon.journal.remove_session
        long = [message("x" * 50_000) for _ in range(200)]
        daemon.commit(commit(*long, state="ended"), commit(message("b", "o", session="b"), stream="o", state="ended"))
        daemon.call(partial(remove, "b"))
        with start("export", "--format", "jsonl", "session-1", "--socket", daemon.path) as child:
            first = child.line()
            daemon.call(partial(remove, "session-1"))
            code, rest, said = child.end()

    assert code == 0
    *events, gap = map(json.loads, (first + rest).splitlines())
    seqs = [one["seq"] for one in events]
    assert seqs == [*range(1, len(seqs) + 1)]
    assert gap["from"] <= len(seqs) + 1 < 200
    assert gap["to"] == 201
    assert f"events between {gap['from']} and 201 were not kept".encode() in said


def test_export_to_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    page = tmp_path / "session.html"
    page.write_text("old")
    command = ["bash", "-c", 'ulimit -f 4; trap "" XFSZ; exec "$@"', "bash", *COMMAND]
    finished = subprocess.run(
        [*command, "export", "--html", str(CLAUDE), "-o", str(page)],
        capture_output=True,
        env=environment(**WITHOUT_BYTECODE),
        check=False,
    )

    assert finished.returncode == 1
    assert sentence(finished) == f"{page}: File too large"
    assert (page.read_text(), list(tmp_path.iterdir())) == ("old", [page])


def test_format_can_be_named() -> None:
    for form, flag in (("html", "--html"), ("markdown", "--markdown")):
        assert here("export", "--format", form, CLAUDE).stdout == here("export", flag, CLAUDE).stdout


def test_lines_of_json_are_the_events_without_secrets() -> None:
    exported = [json.loads(line) for line in here("export", "--format", "jsonl", CLAUDE).stdout.splitlines()]
    events = [json.loads(line) for line in here("normalize", CLAUDE).stdout.splitlines()]

    assert [one["id"] for one in exported] == [one["id"] for one in events]
    assert [one["seq"] for one in exported] == list(range(1, len(events) + 1))


def test_unknown_format_is_one_sentence() -> None:
    finished = here("export", "--format", "jsnol", CLAUDE)

    assert finished.returncode == 2
    assert sentence(finished).startswith("there is no format 'jsnol': choose jsonl (see ")


def test_sessions_are_chosen_by_agent(daemon: Running, tmp_path: Path) -> None:
    options = ("--jobs", 1, "-o", tmp_path, "--socket", daemon.path)
    chosen = here("export", "--format", "jsonl", "--agent", "gemini", *options)

    assert chosen.returncode == 0, chosen
    assert {path.name for path in tmp_path.iterdir()} == {"session-1.jsonl", "session-22.jsonl"}
    none = here("export", "--format", "jsonl", "--agent", "nobody", *options)
    assert sentence(none) == "the journal has no such sessions"


def test_sessions_are_named_or_chosen() -> None:
    for options in ((), ("--agent", "codex", CLAUDE)):
        assert sentence(here("export", "--html", *options)).startswith("name sessions or files, or choose sessions by")
