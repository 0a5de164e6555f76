"""Sharing a session: the page says what is masked in the files, and the files are what it says."""

from __future__ import annotations

import re
from base64 import b64decode

import pytest

from tests.cli.command import here
from tests.daemon.containment.test_retention import fail
from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, Response
from tests.daemon.web.page.reading import Element, seqs, shown
from tests.daemon.web.parsed import parse
from tests.secrets.shapes import fakes
from tooltap.daemon.export import source as journal_source
from tooltap.daemon.journal.sqlite import retention
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import Message, OutputRef, SessionEvent, Turn

SECRET = next(fake.secret for fake in fakes(7) if fake.secret.startswith("ghp_"))
LONG = f"GITHUB_TOKEN={SECRET}\n" + "line\n" * 100
SESSION = "/sessions/session-1"


@pytest.fixture
def stored(daemon: Running) -> None:
    """Two turns, with a secret in the title (also as the heading), a prompt, a call and a body. The provider's object,
    which has one too, is in no file."""
    whole = OutputRef(output_id="s:1:o1", bytes=len(LONG), lines=101, mime_type="text/plain")
    daemon.commit(
        commit(
            event(SessionEvent, state="started", title=f"Use {SECRET}"),
            event(Turn, state="started", ts=1_000),
            event(Message, role="user", text=f"use {SECRET}", ts=1_000),
            call("1", input={"command": f"echo {SECRET}", "_raw": {"input": f"echo {SECRET}"}}),
            OutputChunk("s:1:o1", 0, LONG.encode(), "text/plain"),
            result("1", output={"stdout": "GITHUB"}, outputs={"/output/stdout": whole}, status="failed", is_error=True),
            message("it failed"),
            event(Turn, state="completed", ts=15_000),
            event(Turn, state="started"),
            event(Message, role="user", text="again"),
            call("2"),
            result("2", output={"stdout": "fine"}),
            message("subagent's", agent="a"),
            message("done"),
        )
    )


def files(page: Element) -> dict[str, str]:
    return {one.text: one.attributes["href"] for one in page.all("a", class_="button")}


def download(browser: Browser, target: str) -> Response:
    answer = browser.get(target)
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Disposition"].startswith("attachment; filename*=UTF-8''session-1.")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    return answer


def masked(page: Element) -> dict[str, int]:
    """Return how many of each kind the preview says."""
    rows = page.one("table", class_="secrets").all("tr")[1:] if page.all("table", class_="secrets") else []
    return {row.all("th")[0].text: int(row.all("td")[0].text) for row in rows}


@pytest.mark.usefixtures("stored")
def test_preview_counts_what_is_masked_in_the_file(browser: Browser) -> None:
    page = shown(browser, f"{SESSION}/share")
    counts = masked(page)

    html = download(browser, files(page)["HTML"]).body.decode()

    assert sum(counts.values()) == 5
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
    assert f"5 secrets are masked: {kinds}." in html
    assert SECRET not in html
    assert SECRET not in page.one("div", id="preview").text
    examples = [one.text for one in page.all("span", class_="example")]
    assert any(one.startswith("ghp_… 40 characters, event ") for one in examples)


@pytest.mark.usefixtures("stored")
def test_markdown_is_masked_too(browser: Browser) -> None:
    answer = download(browser, files(shown(browser, f"{SESSION}/share"))["Markdown"])

    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    text = answer.body.decode()
    assert SECRET not in text
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)[1:]
    assert headings == [r"use \[masked github-token\], 1970-01-01 00:00:01 UTC", "again"]


@pytest.mark.usefixtures("stored")
def test_secrets_stay_only_where_that_is_chosen(browser: Browser) -> None:
    page = shown(browser, f"{SESSION}/share?redact=no")

    html = download(browser, files(page)["HTML"]).body.decode()

    assert "Secrets are not masked in these files." in page.text
    assert SECRET in html
    assert "Secrets are not masked in this file." in html
    assert browser.get(f"{SESSION}/export.html?redact=maybe").status == 400


@pytest.mark.parametrize("form", ["HTML", "Markdown"])
def test_names_are_replaced_where_that_is_chosen(form: str, daemon: Running, browser: Browser) -> None:
    """Also in the title, in a body, and in events before the folder that shows the name to be one."""
    body = "/home/zoe/src zoe\n" * 100
    whole = OutputRef(output_id="zoe:1:o1", bytes=len(body), lines=100, mime_type="text/plain")
    daemon.commit(
        commit(
            event(Message, role="user", text="zoe, write to zoe@corp.io"),
            call("1", input={"command": "ls"}),
            OutputChunk("zoe:1:o1", 0, body.encode(), "text/plain"),
            result("1", output={"stdout": body[:30]}, outputs={"/output/stdout": whole}),
            event(SessionEvent, state="started", title="Ask zoe", cwd="/home/zoe/src"),
        )
    )

    page = shown(browser, f"{SESSION}/share?anonymous=yes")
    text = download(browser, files(page)[form]).body.decode()
    part = download(browser, f"{SESSION}/export.html?anonymous=yes&to=1").body.decode()
    named = download(browser, files(shown(browser, f"{SESSION}/share"))[form]).body.decode()

    data = b"".join(map(b64decode, re.findall(r"base64,([A-Za-z0-9+/=]+)", text)))
    assert "zoe" not in text + part
    assert b"zoe" not in data
    assert (b"~/src user-2" in data) == (form == "HTML")
    assert "Ask user-2" in text
    assert "zoe" in named
    rows = [[cell.text for cell in row.all("td")] for row in page.one("table", class_="names").all("tr")[1:]]
    assert ["email-1", "1"] in rows
    assert [row[0] for row in rows] == ["~", "email-1", "user-2"]
    assert page.one("input", name="anonymous").attributes["checked"] is not None
    assert "--anonymous" in page.one("section", id="files").text


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        ("fromTurn=2", [8, 9, 10, 11, 12, 13]),
        ("toTurn=1", [1, 2, 3, 4, 5, 6, 7]),
        ("fromTurn=1&toTurn=1&from=3", [3, 4, 5, 6, 7]),
        ("from=9&to=11", [9, 10, 11]),
        ("content=conversation", [2, 3, 6, 7, 8, 9, 13]),
        ("content=conversation&fromTurn=2&toTurn=2", [8, 9, 13]),
    ],
)
def test_part_of_a_session(browser: Browser, query: str, wanted: list[int]) -> None:
    page = shown(browser, f"{SESSION}/share?{query}")

    html = download(browser, files(page)["HTML"]).body.decode()

    assert f"{len(wanted)} events" in page.one("div", id="preview").text
    ids = {int(found) for found in re.findall(r'<article class="[^"]*" id="e(\d+)"', html)}
    assert ids == set(wanted)


@pytest.mark.usefixtures("stored")
def test_file_has_an_overview_of_its_turns(browser: Browser) -> None:
    html = download(browser, f"{SESSION}/export.html").body.decode()

    outline = parse(html.partition("\n")[2]).one("nav")
    assert [link.attributes["href"] for link in outline.all("a")] == ["#e3", "#e5", "#e9"]
    assert "1 call · 14 s" in outline.text
    assert "1 error:" in outline.text
    assert outline.text.index("again") < outline.text.rindex("1 call")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("query", "bars"), [("", ["#e10", "#e4"]), ("fromTurn=2", ["#e10"]), ("to=7", ["#e4"]), ("from=11", [])]
)
def test_file_has_a_map_of_its_calls(browser: Browser, query: str, bars: list[str]) -> None:
    html = download(browser, f"{SESSION}/export.html?{query}").body.decode()

    drawn = parse(html.partition("\n")[2]).all("svg")
    lanes = [lane for one in drawn for lane in one.all("g")]
    assert sorted(one.attributes["href"] for lane in lanes for one in lane.all("a")) == bars
    assert [one.attributes["href"] for lane in lanes for one in lane.all("a") if one.all("rect.failed")] == [
        bar for bar in bars if bar == "#e4"
    ]


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("query", ["from=1000", "fromTurn=7", "from=5&to=4"])
def test_empty_part_is_no_file(browser: Browser, query: str) -> None:
    page = shown(browser, f"{SESSION}/share?{query}")

    assert "Nothing: this part of the session has no events." in page.text
    assert files(page) == {}
    assert browser.get(f"{SESSION}/export.html?{query}").status == 404


@pytest.mark.parametrize("path", ["share", "export.html", "export.md"])
def test_unknown_session_is_not_found(browser: Browser, path: str) -> None:
    assert browser.get(f"/sessions/none/{path}").status == 404
    assert browser.get(f"/sessions/none/{path}?wrong=1").status == 400


@pytest.mark.usefixtures("stored")
def test_session_that_is_too_long_is_cut_and_says_so(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_source, "READ", 1)
    monkeypatch.setattr(journal_source, "MAX_BYTES", 1_200)

    page = shown(browser, f"{SESSION}/share")
    html = download(browser, files(page)["HTML"]).body.decode()

    for text in (page.text, html):
        assert "The session is longer than this file" in text
    assert 0 < html.count("<article") < 13


def test_names_in_addresses(daemon: Running, browser: Browser) -> None:
    name = "a/b ?#%2F<é>"
    daemon.commit(commit(message("hi", session=name)))

    page = shown(browser, "/sessions/a%2Fb%20%3F%23%252F%3C%C3%A9%3E/share")

    assert b"hi" in browser.get(files(page)["HTML"]).body
    assert browser.get(files(page)["Markdown"]).headers["Content-Disposition"].isascii()


@pytest.mark.usefixtures("stored")
def test_head_of_a_session_leads_there(browser: Browser) -> None:
    page = shown(browser, SESSION)

    assert f"{SESSION}/share" in [one.attributes["href"] for one in page.one("div", id="head").all("a")]
    assert seqs(page)


def test_nothing_that_is_cut_within_a_secret_gets_out(daemon: Running, browser: Browser) -> None:
    """The preview of a call and the title of a session are cut; nobody would recognise what is left of a secret."""
    command = f"curl -H 'Authorization: Bearer {SECRET}'"
    asked = event(Message, role="user", text=f"{'x' * 39} {SECRET}{SECRET}")
    daemon.commit(commit(asked, call("1", input={"command": command}, preview=command[:40])))
    page = shown(browser, f"{SESSION}/share")

    for url in files(page).values():
        assert SECRET[:6] not in download(browser, url).body.decode()
    assert sum(masked(page).values()) >= 2
    html = download(browser, files(page)["HTML"]).body.decode()
    drawn = parse(html.partition("\n")[2]).one("svg")
    assert any("curl -H 'Authorization: Bearer [masked" in title for title in drawn.texts("title"))


@pytest.mark.parametrize("form", ["html", "md"])
def test_file_says_what_retention_has_deleted(
    daemon: Running, browser: Browser, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session that could not be deleted as a whole."""
    monkeypatch.setattr(retention, "STEP", 1)
    fail(monkeypatch, "_shrink", lambda connection, stream, budget: stream == "s", TypeError("put in by the test"))
    daemon.commit(commit(message("old", "o"), stream="o", state="ended", updated=1))
    daemon.commit(commit(message("other", "t", session="session-2"), stream="t"))
    daemon.commit(commit(message("kept"), message("kept, too"), state="ended", updated=1))
    assert "not kept" not in download(browser, f"{SESSION}/export.{form}").body.decode()
    daemon.expire(2)

    note = "Event 1 was not kept."
    text = download(browser, f"{SESSION}/export.{form}").body.decode()
    assert text.index(note) < text.index("kept, too")
    assert "not kept" not in download(browser, f"{SESSION}/export.{form}?from=3").body.decode()
    assert "not kept" not in browser.get(f"/sessions/session-2/export.{form}").body.decode()
    for session, said in (("session-1", "tooltap: event 1 was not kept\n"), ("session-2", "")):
        finished = here("export", "--socket", daemon.path, f"--{'markdown' if form == 'md' else form}", session)
        assert (finished.returncode, finished.stderr.decode()) == (0, said)
        assert (note in finished.stdout.decode()) == bool(said)


def test_what_came_before_the_id_of_the_session_was_known_is_in_the_file(daemon: Running, browser: Browser) -> None:
    named = event(SessionEvent, state="updated", alias="s")
    daemon.commit(commit(message("asked early", session="s"), named, message("said later")))
    text = download(browser, f"{SESSION}/export.md").body.decode()

    assert text.index("asked early") < text.index("said later")
