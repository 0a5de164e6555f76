"""What the user sees of a result is the same wherever it is read. The rules are those of `docs/display.toml`, and each
text that they hide has the word SECRET."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.events import call as own_call
from tests.daemon.events import commit, event
from tests.daemon.events import result as own_result
from tests.daemon.running import Running
from tests.daemon.views.viewing import call, history, made_view, publish, result
from tests.daemon.web.browsing import Browser, browsed
from tests.daemon.web.page.reading import Element, shown
from tests.test_layout import ROOT
from tooltap.daemon.web.page.preferences import COOKIE, Preferences, to_cookie
from tooltap.protocol.events import Display, SessionEvent

pytestmark = [
    pytest.mark.usefixtures("toy"),
    pytest.mark.process,
    pytest.mark.programs("jq"),
]

FOUND = {"title": "Climate", "url": "https://example.org/", "snippet": "It changes.", "note": "SECRET of the search"}
PRINTED = "x" * 499 + "E"
LINES = (
    call("read", "read_file", file_path="/a"),
    result("read", "SECRET of the file"),
    call("write", "write_file", file_path="/a", content="grüße\n"),
    result("write", "SECRET of the write"),
    call("exec", "exec_command", command="make"),
    result("exec", {"stdout": f"{PRINTED}SECRET of the command", "exit_code": 0}),
    call("search", "web_search", query="climate change"),
    result("search", {"results": [FOUND]}),
    call("fetch", "web_fetch", url="https://example.org/"),
    result("fetch", "SECRET of the page"),
    call("memory", "memory_search", query="recent tasks"),
    result("memory", "SECRET of the memory"),
    call("ask", "ask_user", question="Sure?"),
    result("ask", "User input: yes"),
)
SHOWN = ("Written 8 bytes", PRINTED, "Top results:", "User input: yes")
"""What the user sees of the results, beside their titles."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Running, Browser]]:
    rules = tomllib.loads((ROOT / "docs" / "display.toml").read_text())["tools"]
    with browsed(tmp_path, tools=rules) as (daemon, browser):
        publish(daemon, *LINES)
        made_view(daemon)
        yield daemon, browser


def display_lines(daemon: Running, browser: Browser) -> str:
    """What a client shows that puts the display of an update in place of the result's."""
    wire = daemon.connect()
    wire.send("subscribe", **{"as": "display"}, after="start", follow=False)
    seen: dict[str, Any] = {}
    for one in wire.rest():
        if one.get("kind") == "tool_result":
            seen[one["callId"]] = one.get("display"), one.get("output")
        elif one.get("kind") == "tool_update" and "display" in one:
            seen[one["callId"]] = one["display"]
    return str(seen)


def single_events(daemon: Running, browser: Browser) -> str:
    """`tooltap show SEQ` of each result but the one that is shown on request, which this asks for."""
    results = [one for one in history(daemon, kind=["tool-result"]) if not one.get("ask")]
    return "".join(here("show", "--socket", daemon.path, one["seq"]).stdout.decode() for one in results)


def event_pages(daemon: Running, browser: Browser) -> str:
    """The part of each result's page that has what the user sees, without the comparison with what the model saw."""
    results = [one for one in history(daemon, kind=["tool-result"]) if not one.get("ask")]
    return "".join(_seen_by_user(shown(browser, f"/events/{one['seq']}")) for one in results)


def _seen_by_user(page: Element) -> str:
    sections = {one.attributes.get("id"): one for one in page.all("section")}
    user = sections["view-user"]
    is_same = user.attributes["data-verdict"] == "same"
    whole = user.all("details", class_="folded")
    return (sections["view-model"] if is_same else whole[0] if whole else user).text


def transcript(daemon: Running, browser: Browser) -> str:
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv("COLUMNS", "1000")
        return here("show", "--socket", daemon.path, "--full", "s").stdout.decode()


def page(daemon: Running, browser: Browser) -> str:
    """The rows, each open at the level `summary`."""
    cookie = f"{COOKIE}={to_cookie(Preferences(level='summary'))}"
    return browser.get("/sessions/s", {"Cookie": cookie}).body.decode()


def html_file(daemon: Running, browser: Browser) -> str:
    """The cards as they are before the reader asks for them in full."""
    html = here("export", "--html", "--socket", daemon.path, "s").stdout.decode()
    return re.sub(r'<details class="folded whole">.*?</details>', "", html, flags=re.DOTALL)


def markdown_file(daemon: Running, browser: Browser) -> str:
    return here("export", "--markdown", "--socket", daemon.path, "s").stdout.decode()


def markdown_download(daemon: Running, browser: Browser) -> str:
    return browser.get("/sessions/s/export.md").body.decode()


READERS = (
    *(display_lines, single_events, event_pages),
    *(transcript, page, html_file, markdown_file, markdown_download),
)


def test_every_reader_shows_the_same(served: tuple[Running, Browser]) -> None:
    texts = {reader.__name__: reader(*served) for reader in READERS}

    missing = {name: [one for one in SHOWN if one not in text] for name, text in texts.items()}
    assert missing == {name: [] for name in texts}
    secrets = {name: re.findall(r"SECRET of the \w+", text) for name, text in texts.items()}
    assert secrets == {name: [] for name in texts}
    says_more = {name: re.search("… 21 bytes more|[\"']cut[\"']: ?21", text) for name, text in texts.items()}
    assert None not in says_more.values()  # the length of `SECRET of the command`


def test_hidden_texts_are_in_the_results(served: tuple[Running, Browser]) -> None:
    """Else the other test would prove nothing."""
    outputs = str([{**one["output"], "_raw": None} for one in history(served[0], kind=["tool-result"])])

    found = re.findall(r"SECRET of the \w+", outputs)
    assert found == [f"SECRET of the {word}" for word in ("file", "write", "command", "search", "page", "memory")]


def test_hidden_call_is_nowhere_unless_it_fails(tmp_path: Path) -> None:
    with browsed(tmp_path, tools={"Glob": {"visible": False}}) as served:
        publish(
            served[0],
            call("a", "Glob", pattern="HIDDEN"),
            result("a", "SECRET of the folder"),
            call("b", "Glob", pattern="FAILED"),
            result("b", None, status="failed", error="no such folder"),
            call("c", "Bash", command="make"),
            result("c", "made"),
        )
        events = {(one["kind"], one["callId"]): one.get("hidden") for one in history(served[0], tool=["Glob"])}
        texts = {reader.__name__: reader(*served) for reader in (*READERS[3:], tail)}

    assert events == {
        ("tool-call", "a"): True,
        ("tool-result", "a"): True,
        ("tool-call", "b"): True,
        ("tool-result", "b"): None,
    }
    found = {name: re.findall(r"HIDDEN|SECRET|no such folder|make\b", text) for name, text in texts.items()}
    assert {name: sorted(set(words)) for name, words in found.items()} == {
        name: ["make", "no such folder"] for name in texts
    }


def test_caption_stands_above_the_output_wherever_it_is_read(tmp_path: Path) -> None:
    found: dict[str, Any] = {
        "output": {"text": "a.py:1\nb.py:7"},
        "display": Display(origin="provider", text="Found 2 matches"),
    }
    with browsed(tmp_path) as served:
        started = event(SessionEvent, state="started", session="s")
        called = own_call("a", session="s", ts=1_000)
        served[0].commit(commit(started, called, own_result("a", session="s", ts=2_000, **found)))
        texts = {reader.__name__: reader(*served) for reader in READERS}

    seen = {name: [word in text for word in ("Found 2 matches", "b.py:7")] for name, text in texts.items()}
    assert seen == {name: [True, True] for name in texts}


def tail(daemon: Running, browser: Browser) -> str:
    arguments = ("--mode", "verbose", "--after", "start", "--no-follow")
    return here("tail", "--socket", daemon.path, *arguments).stdout.decode()
