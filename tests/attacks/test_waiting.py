"""An agent asks for a permission, and its question, options, tool and folder take over whatever shows what waits: the
terminal of `tooltap waiting`, that of `tooltap answers test` or `tooltap watch`, the terminal's title, the page, or a
notification of the browser.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from tests.attacks.test_notices import ACTING as CONTROLS
from tests.cli.command import COMMAND, environment, start
from tests.cli.hostile.runs import into_a_pipe, on_a_terminal
from tests.cli.screen import started
from tests.daemon.events import commit, event
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tests.daemon.web.page.reading import shown
from tooltap.daemon.system.clock import wall_clock
from tooltap.protocol.events import PermissionRequest, SessionEvent

HOSTILE = "real\x1b]52;c;Y3VybA==\x07\x1b[2J\x9b2J\x7f\u2028\u202e\u2066\r\n\tforged\n$(touch made)"
"""A text that sets the clipboard, clears the screen, reverses what follows, and begins a line of its own."""
ACTING = CONTROLS | {"\u2066"}
COLOUR = re.compile(r"\x1b\[\d+m")
WORDS = {
    "waiting": ("waiting",),
    "waiting --brief": ("waiting", "--brief"),
    "waiting --json": ("waiting", "--json"),
    "answers test": ("answers", "test", "RULES"),
}


class Asked(NamedTuple):
    daemon: Running
    browser: Browser
    rules: Path


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("asked")
    rules = folder / "rules.toml"
    rules.write_text('[[answers]]\nname = "*"\nanswer = "ask"\n')
    where: dict[str, Any] = {"session": HOSTILE, "provider": "claude", "ts": wall_clock()}
    options = [{"id": HOSTILE, "name": HOSTILE, "kind": "allow_once", "remembers": HOSTILE}]
    request = event(
        PermissionRequest,
        permission_id=HOSTILE,
        type="permission",
        name=HOSTILE,
        title=HOSTILE,
        options=options,
        **where,
        input={"command": HOSTILE},
    )
    with capture_logs(), browsed(folder) as (daemon, browser):
        started = event(SessionEvent, state="started", title=HOSTILE, cwd=f"/{HOSTILE}", **where)
        daemon.commit(commit(started, request))
        yield Asked(daemon, browser, rules)


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("what", WORDS)
def test_question_of_an_agent_acts_on_no_reader_of_a_command(what: str, is_terminal: bool, asked: Asked) -> None:
    words = [str(asked.rules) if one == "RULES" else one for one in WORDS[what]]
    run = on_a_terminal if is_terminal else into_a_pipe
    printed = COLOUR.sub("", run(*words, "--socket", asked.daemon.path).output.decode())

    assert "real" in printed, "the attack is not there"
    assert ACTING & set(printed) <= {"\n", "\t"}
    assert [one for one in printed.splitlines() if one.strip().startswith(("forged", "$(touch"))] == []


def test_question_of_an_agent_acts_on_nobody_who_watches_a_terminal(asked: Asked) -> None:
    words = [*COMMAND, "watch", "--socket", str(asked.daemon.path), "--after", "0"]
    with started(words, environment(TERM="xterm-256color"), size=(24, 500)) as screen:
        screen.until(b"\n")
        os.kill(screen.pid, signal.SIGINT)
        screen.end()
    [bell, printed] = COLOUR.sub("", screen.shown.decode().replace("^C", "").replace("\r\n", "\n")).split("\a")

    assert "forged" in printed, "the attack is not there"
    assert (bell, ACTING & set(printed), printed.count("\n")) == ("", {"\n"}, 1)


def test_question_of_an_agent_acts_on_no_program_that_reads_watch(asked: Asked) -> None:
    with start("watch", "--socket", asked.daemon.path, "--after", "0") as watch:
        fields = watch.line().decode().removesuffix("\n").split("\t")

    assert "forged" in fields[-1], "the attack is not there"
    assert len(fields) == 4
    assert not ACTING & set("".join(fields))


def test_question_of_an_agent_acts_on_no_notification_of_a_browser(asked: Asked) -> None:
    with asked.browser.stream("/waiting/live?after=now") as stream:
        [told] = stream.until("waits")[-1].json["asks"]

    assert "forged" in told["about"], "the attack is not there"
    assert not ACTING & set(told["who"] + told["what"] + told["about"])


def test_question_of_an_agent_acts_on_no_reader_of_the_page(asked: Asked) -> None:
    [ask] = [
        one for one in shown(asked.browser, "/").all("section") if "ask" in one.attributes.get("class", "").split()
    ]

    assert "forged" in ask.text, "the attack is not there"
    assert ACTING & set(ask.text) <= {"\n", "\t"}
