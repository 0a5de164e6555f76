"""A session, a folder or a file has a name that is code for a shell, and a person pastes the command lines that tooltap
gives them: in every shell, the programs that they name get the names as they are, and nothing else runs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from tests.cli.command import here
from tests.cli.hostile.runs import on_a_terminal
from tests.cli.manage.test_advice import WITHOUT_RIGHTS, home, unreadable
from tests.cli.manage.test_doctor import write
from tests.daemon.events import commit, event, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tests.daemon.web.page.reading import read, shown
from tooltap.daemon.system.sanitize import visible
from tooltap.daemon.system.shell import shell_line
from tooltap.daemon.web.page.addresses import session_url
from tooltap.protocol.events import SessionEvent

__all__ = ["home"]

CODE = (
    "$(touch made)",
    "`touch made`",
    "x; touch made",
    "x && touch made || x",
    "'; touch made; '",
    '"; touch made; "',
    "\\'\"; touch made; echo \\'\"",  # ends a word of `shlex.join` in fish
    "\\'; touch made; echo \\'",
    "a\\",
    "*",
    "~root",
    "=touch",
    "!touch",
    "two  spaces",
    "#",
    "a{b,c}",
    "ünder",
    "x" * 190,
)
OPTIONS = ("-rf", "--yolo", "-")
"""Names that look like an option."""
KEYS = (
    "\x1b[201~\rtouch made\r",
    "x\ntouch made\n",
    "x\rtouch made\r",
    "\x03touch made\r",
    "\x9b201~x",
    "\u202etouch",
    "\u200fx",
    "x\u2028touch made",
    "\x7f" * 9,
)
"""What a terminal takes for keys, or does not show as it is."""
TAKES_NOTE = """#!/bin/sh
printf '%s\\0' "$#" "$PWD" "${0##*/}" "$@" >> "$NOTES"
"""


class Ran(NamedTuple):
    folder: str
    words: list[str]


def pasted(shell: str, folder: Path, lines: list[str]) -> list[Ran]:
    """Run command lines in a shell, with programs that only note how they are run: what ran."""
    for name in ("claude", "tooltap", "chmod"):
        write(folder / "bin" / name, TAKES_NOTE).chmod(0o755)
    notes = write(folder / "notes", "")
    (folder / "cwd").mkdir(exist_ok=True)
    variables = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "NOTES": str(notes), "HOME": str(folder)}
    text = "".join(f"{one}\n" for one in lines).encode()
    done = subprocess.run([shell], input=text, cwd=folder / "cwd", env=variables, capture_output=True, check=False)
    assert done.stderr == b""
    assert [one for one in folder.rglob("*") if one.name == "made"] == []
    read, ran = iter(os.fsdecode(notes.read_bytes()).split("\0")[:-1]), []
    for count in read:
        where, program = next(read), next(read)
        ran.append(Ran(where, [program, *(next(read) for _ in range(int(count)))]))
    return ran


in_every_shell = pytest.mark.parametrize(
    "shell", [pytest.param(one, marks=pytest.mark.programs(one)) for one in ("sh", "bash", "zsh", "fish")]
)


class Served(NamedTuple):
    folder: Path
    daemon: Running
    browser: Browser
    folders: dict[str, str]
    """Session -> its folder."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Sessions `c0`, `c1`, … with a folder and a title that are code; and one for each name that is its id."""
    folder = tmp_path_factory.mktemp("served")
    folders = {f"c{number}": str(folder / name) for number, name in enumerate((*CODE, *OPTIONS))}
    names = {**folders, **dict.fromkeys((*CODE, *OPTIONS, *KEYS), str(folder))}
    names |= {f"k{number}": f"{folder}/{name}" for number, name in enumerate(KEYS)}
    with capture_logs(), browsed(folder) as (daemon, browser):
        for number, (name, cwd) in enumerate(names.items()):
            Path(cwd).mkdir(exist_ok=True)
            known: dict[str, Any] = {"session": name, "provider": "claude"}
            started = event(SessionEvent, f"s{number}", state="started", cwd=cwd, title=os.path.basename(cwd), **known)
            said = message("x", f"s{number}", **known)
            daemon.commit(commit(started, said, stream=f"s{number}"))
        yield Served(folder, daemon, browser, folders)


def to_copy(served: Served, session: str) -> list[str]:
    """The lines that the buttons of a session's pages copy."""
    pages = (shown(served.browser, session_url(session) + end) for end in ("", "/details"))
    buttons = (one.attributes for page in pages for one in page.all("button"))
    return [one["data-line"] for one in buttons if "data-line" in one]


def printed(served: Served, *words: str) -> str:
    return here(words[0], "--socket", served.daemon.path, *words[1:]).stdout.decode()


@in_every_shell
def test_commands_that_continue_a_session_do_nothing_else(served: Served, shell: str, tmp_path: Path) -> None:
    lines, wanted = [], []
    for session, folder in served.folders.items():
        head = [one for one in printed(served, "show", session).splitlines() if "claude --resume" in one]
        given = [printed(served, "resume", "--print", session).removesuffix("\n"), *head, *to_copy(served, session)]
        continuing = [one for one in given if not one.startswith("tooltap ")]
        assert len(continuing) == 5
        lines += continuing
        words = ["claude", "--resume", session]
        wanted += [*[Ran(folder, words)] * 4, Ran(folder, [*words, "--fork-session"])]

    assert pasted(shell, tmp_path, lines) == wanted


@in_every_shell
def test_commands_about_a_session_get_its_id_and_nothing_else(served: Served, shell: str, tmp_path: Path) -> None:
    lines: list[str] = []
    for name in (*CODE, *OPTIONS):
        lines += [one for one in to_copy(served, name) if one.startswith("tooltap ")]
    ran = pasted(shell, tmp_path, lines)

    assert {len(one.words) for one in ran if one.words[1] == "show"} <= {3, 4}
    shows = [one.words[-1] for one in ran if one.words[1] == "show"]
    assert shows == [*CODE, *OPTIONS]
    assert [one.words[-1] for one in ran if one.words[1] == "tail"] == [f"--session={one}" for one in shows]
    assert len(ran) == 4 * len(shows)


def test_keys_are_in_nothing_to_paste(served: Served) -> None:
    for number, name in enumerate(KEYS):
        assert to_copy(served, name) == []
        assert printed(served, "resume", "--print", "--", name) == ""
        session = f"k{number}"
        given = [printed(served, "resume", "--print", session).removesuffix("\n"), *to_copy(served, session)]
        assert len(given) == 8
        assert [one for one in given if not one.isprintable() or "touch" in one] == []


@pytest.mark.parametrize("columns", [40, 100])
def test_command_is_one_line_of_a_terminal_that_wraps_it(
    served: Served, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "")
    session = f"c{CODE.index('x' * 190)}"
    found = on_a_terminal("show", "--socket", served.daemon.path, session, columns=columns)
    text = re.sub(r"\x1b\[[\d;]*m", "", found.output.decode())

    assert printed(served, "resume", "--print", session).strip() in text.splitlines()


@in_every_shell
def test_words_of_a_line(shell: str, tmp_path: Path) -> None:
    given = [["tooltap", name, "", f"--x={name}"] for name in (*CODE, *OPTIONS)]
    ran = pasted(shell, tmp_path, [shell_line(*words) for words in given])

    assert [one.words for one in ran] == given


@pytest.mark.programs(*WITHOUT_RIGHTS[:1])
@pytest.mark.parametrize("name", ["'; touch made; \"$(touch made)`touch made`", "-rf", KEYS[0], KEYS[2]])
def test_command_of_the_doctor_names_the_file_or_its_folder(home: Path, name: str, tmp_path: Path) -> None:
    store = home / ".claude" / "projects"
    file = write(store / "-ws" / f"{name}.jsonl", "{}\n")
    file.chmod(0)
    [found] = unreadable()
    [command] = re.findall(r"^Run (.+?); until then, ", found["advice"])
    [ran] = pasted("sh", tmp_path, [command])
    wanted = ["--", str(file)] if name.isprintable() else ["-R", "--", str(store)]

    assert ran.words == ["chmod", "u+rX", *wanted]


TITLES = ("</title><script>touch()</script>", "\"'><img src=x>", "&lt;b&gt;", "\x1b]0;root\x07", "a\u202eb", "a\nb")


def test_titles_are_text_in_the_title_of_a_page_and_of_a_file(served: Served) -> None:
    for number, title in enumerate(TITLES):
        name = f"t{number}"
        known: dict[str, Any] = {"session": name, "provider": "claude"}
        started = event(SessionEvent, name, state="started", title=title, **known)
        served.daemon.commit(commit(started, message("x", name, **known), stream=name))
        file = here("export", "--html", "--socket", served.daemon.path, name).stdout
        pages = [shown(served.browser, session_url(name) + end) for end in ("", "/details", "/share")]
        for page in (*pages, read(file)):
            [text] = [one.text for one in page.all("head")[0].all("title")]
            assert " ".join(visible(title).split()) in " ".join(text.split())
            assert text.replace("\n", " ").isprintable()
            assert not [one for one in page.all("script") if "touch" in one.text]
            assert not [one for one in page.all("img") if one.attributes.get("src") == "x"]
