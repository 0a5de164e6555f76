"""The advice in messages of the commands and of the daemon: every command in it exists, and all of it is followed. The
doctor's advice has a table of its own (`tests/cli/manage/test_advice.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL

import click
import pytest
from structlog.testing import capture_logs

from tests.cli.command import CLAUDE, environment, here, start, tooltap
from tests.cli.manage.test_advice import commands, home, problems, publish_one, served, texts
from tests.cli.manage.test_doctor import examined, write
from tests.daemon.running import Running, running
from tests.daemon.taps.following import CLAUDE as STORED
from tests.daemon.test_files_in_use import until
from tests.daemon.web.browsing import Browser, browsed
from tests.normalizers.reading import FIXTURES
from tests.test_layout import ROOT
from tooltap.cli.read.running import board
from tooltap.cli.subcommands import tooltap as cli

__all__ = ["home"]

HERE = "tests/cli/test_advised.py::"
UPKEEP = "tests/daemon/journal/test_journal_upkeep.py::"
CHECKING = "tests/cli/check/test_advised_checking.py::"
DAMAGE = "tests/daemon/test_damaged_journal.py::"
DRIFT = "tests/daemon/ingest/test_drift.py::"
MCP = "tests/daemon/taps/test_mcp.py::"
SERVICE = "tests/cli/manage/test_service.py::"
REPAIR = "tests/cli/manage/test_advised_repair.py::"
SERVING = "tests/cli/manage/test_advised_serving.py::"
RESUME = "tests/cli/read/test_resume.py::"
READING = "tests/cli/read/test_advised_reading.py::"
REMOTE = "tests/cli/manage/test_remote.py::"

FOLLOWED = {
    "choose another one with --name": REMOTE + "test_host_without_a_name_is_given_one",
    "there is no remote; add one with `tooltap remote add HOST`": REMOTE + "test_remote_is_added_listed_and_removed",
    "`tooltap remote list` says how it goes": REMOTE + "test_remote_is_added_listed_and_removed",
    "it is read when a daemon runs: `tooltap up`": REMOTE + "test_remote_added_without_a_daemon_is_read_by_the_next",
    "{} is not empty, and nothing is overwritten: name another folder with --folder": (
        "tests/cli/check/test_dialect.py::test_written_files_are_listed"
    ),
    "no daemon is listening at {}; start one with `tooltap up`": HERE + "test_up_starts_a_daemon",
    "the running daemon (pid {}) serves no page: end it with `tooltap serve stop`, then run `tooltap up` again": HERE
    + "test_daemon_without_a_page_is_ended",
    "the journal has no sessions yet; `tooltap up` reads those that agents store": HERE
    + "test_daemon_without_a_page_is_ended",
    "the journal has no events yet; `tooltap up` reads what agents store": HERE + "test_daemon_without_a_page_is_ended",
    "{} is not a trace of tooltap; `tooltap normalize` reads recorded streams": HERE
    + "test_recorded_stream_is_normalized",
    "no session is named; list them with `tooltap sessions`": HERE + "test_sessions_are_listed_if_none_is_named",
    "say which question; `tooltap waiting` lists what waits": HERE + "test_what_waits_is_listed",
    "say which question, and what to answer; `tooltap waiting` lists what waits": HERE + "test_what_waits_is_listed",
    "{} of session {} left out, which {} has: to join them, `tooltap ingest` both, and export the session": (
        "tests/cli/read/test_export_tables.py::test_recordings_of_one_session_are_joined_as_advised"
    ),
    "{} does not begin as an archive does: write it with `tooltap journal export --archive`": HERE
    + "test_archive_is_written",
    "{} is a folder: name the file in it, with --journal sqlite:PATH": HERE + "test_file_in_the_folder_is_named",
    "{}: {}; `tooltap journal repair` keeps everything that is intact": UPKEEP
    + "test_check_advises_a_repair_only_where_one_may_help",
    "run `tooltap journal check`": HERE + "test_damaged_journal_is_checked_and_repaired",
    "the journal {} is damaged in its first page; run `tooltap journal repair`": HERE
    + "test_damaged_journal_is_checked_and_repaired",
    "{} is too long to belong to the journal; move it away": HERE + "test_what_is_in_the_way_is_moved_away",
    "{}.lock cannot be the journal's lock: {}; move it away": HERE + "test_what_is_in_the_way_is_moved_away",
    "{} cannot be a repaired journal: {}; move it away": HERE + "test_what_is_in_the_way_is_moved_away",
    "{} is not a socket; move it away or choose another place for the socket": HERE
    + "test_what_is_in_the_way_is_moved_away",
    "there is no token in {}; remove the file to get a new one": HERE + "test_token_is_removed",
    "other users can read the token in {}; remove the file to get a new one": HERE + "test_token_is_removed",
    "no event is that new; with `--after start` there are {}": READING + "test_option_that_tail_names_prints_events",
    "; did you mean `--provider {}`?": READING + "test_option_that_tail_names_prints_events",
    "{}, without any {}; `--mode {}` shows more": READING + "test_option_that_tail_names_prints_events",
    "no assistant has said anything; `--mode verbose` shows more of the {}": READING
    + "test_mode_that_tail_names_prints_all",
    "none of the {} is shown in this mode; `--mode json` shows all of it": READING
    + "test_mode_that_tail_names_prints_all",
    "nothing was asked, said or done in {}; `--empty` lists what there is": READING
    + "test_sessions_in_which_nothing_was_done_are_listed_with_the_option",
    "; list them with `tooltap sessions`": READING + "test_unknown_session_is_found_in_the_list",
    "for a path, name the session first, or try `tooltap files --file {}`": READING
    + "test_path_in_place_of_a_session_is_found_in_all",
    "the newest {}; `--limit {}` lists more": READING + "test_limit_that_a_list_names_lists_more",
    "{} of {}; `--limit {}` lists all": READING + "test_limit_that_a_list_names_lists_more",
    "{} of {}; `--limit` lists more of them": READING + "test_files_that_are_left_out_are_listed_with_a_limit",
    "; `--by model` shows of which models": READING + "test_models_whose_cost_is_not_known_are_named",
    "there are more than {} MiB of events to sort; name fewer with --since or a filter": READING
    + "test_events_to_sort_are_fewer_with_a_time",
    "{}{}. `tooltap show SEQ` shows an event.": READING + "test_hit_of_a_search_is_shown",
    "this may be incomplete: see `tooltap files --help`": READING + "test_help_says_why_a_diff_may_be_incomplete",
    "an older version has ingested {} without counting the files: `tooltap journal repair` does it": READING
    + "test_files_of_an_older_version_are_counted_by_a_repair",
    "this is cut: `tooltap show {} --view raw` has all of it": READING + "test_what_is_cut_is_shown_whole",
    "--message goes with --deny": READING + "test_message_that_needs_a_denial_goes_with_it",
    "Nothing runs. `tooltap show last` shows the newest session.": HERE + "test_newest_session_is_shown",
    "the session is still running: two agents may write to it now; `--fork` continues a copy of it": RESUME
    + "test_running_session_is_resumed_with_a_warning",
    "{}: contains no key; `tooltap fixtures keys TRACE` lists keys": CHECKING
    + "test_keys_are_listed_for_the_allowlist",
    "{}: there is no such file; `tooltap fixtures keys TRACE` lists keys": CHECKING
    + "test_keys_are_listed_for_the_allowlist",
    "{}: not formatted by `tooltap fixtures update`; run it": CHECKING
    + "test_fixture_that_was_formatted_by_hand_is_updated",
    "{}: none of {} is in a format that tooltap knows; if you know its dialect, name it with --dialect": CHECKING
    + "test_dialect_is_named_where_none_is_recognised",
    "{}: the dialect is not recognised, stream skipped; name it with --dialect": CHECKING
    + "test_dialect_is_named_where_none_is_recognised",
    (
        "programs must send the daemon's token as `Authorization: Bearer TOKEN`, and browsers must use the "
        "link that `tooltap serve link` prints"
    ): SERVING + "test_link_and_header_that_a_refusal_names_let_in",
    (
        "a token in an address is not accepted: programs send it as `Authorization: Bearer TOKEN`, and "
        "browsers use the link that `tooltap serve link` prints"
    ): SERVING + "test_link_and_header_that_a_refusal_names_let_in",
    "this link was used before, or is too old; `tooltap serve link` prints a new one": SERVING
    + "test_link_and_header_that_a_refusal_names_let_in",
    "opened in the browser; `tooltap open --no-browser` prints a link": SERVING
    + "test_command_that_open_names_prints_a_link",
    "The session is longer than this file: `tooltap export` writes all of it.": SERVING
    + "test_session_that_is_cut_is_exported_whole",
    "some output of {} is new to this version: `tooltap drift` shows it": SERVING + "test_output_that_is_new_is_shown",
    "new to this version of tooltap: some output of {}; `tooltap drift` shows it": DRIFT
    + "test_new_shape_is_in_stats_and_logged_once",
    "this needs its key in the URL, as in http://127.0.0.1:4010/key-KEY/v1; `tooltap gateway key` prints it": SERVING
    + "test_key_and_host_that_the_gateway_names_let_in",
    "this is not its key; `tooltap gateway key` prints it": SERVING + "test_key_and_host_that_the_gateway_names_let_in",
    "it is for programs that name it by an address of this machine, or by a name given with --host": SERVING
    + "test_key_and_host_that_the_gateway_names_let_in",
    (
        "only its session file is read: answer in the agent's own window; with `tooltap hooks install`, the "
        "agent asks tooltap, too"
    ): SERVING + "test_session_of_a_file_is_answered_once_hooks_are_installed",
    (
        "its hook waits for no answer: answer in the agent's own window; after `tooltap away`, hooks wait "
        "for an answer from here"
    ): SERVING + "test_hook_waits_for_an_answer_once_one_is_away",
    (
        "its tap sends nothing to the agent: answer in the agent's own window, and start the agent with "
        "`tooltap proxy --answers -- COMMAND` to answer here"
    ): SERVING + "test_agent_is_answered_once_its_tap_can_send",
    "The tooltap daemon is not running; the user can start it with `tooltap serve`.": (
        "tests/daemon/taps/test_mcp_history.py::test_there_is_no_history_without_a_daemon"
    ),
    "Not displayed: the tooltap daemon is not running; the user can start it with `tooltap serve`.": MCP
    + "test_tools_need_a_daemon",
    "damaged: {}, {}; see `tooltap journal check`": DAMAGE + "test_commands_and_statistics_name_the_damage",
    "another name (a hard link) leads to {}; see `tooltap doctor`": "tests/daemon/test_files_in_use.py::"
    "test_other_name_from_before_the_start_is_reported_once",
    "none; install it with `tooltap service install`": SERVICE + "test_status_shows_systemd_state",
    "{} was not written by tooltap; move it away first": SERVICE + "test_foreign_unit_is_moved_away",
    "it follows no agent: to have all followed, end it with `tooltap serve stop`, then run `tooltap up` again": HERE
    + "test_daemon_that_follows_nothing_is_ended",
    "this daemon follows no session files: start it with `--follow`": HERE
    + "test_daemon_that_follows_nothing_is_ended",
    "Name sessions, or give `--agent NAME`, or `--all`.": HERE + "test_daemon_that_follows_nothing_is_ended",
    "page: {} (`tooltap serve link` prints a link that logs a browser in)": HERE + "test_link_that_up_names_logs_in",
    "; `tooltap up` follows the sessions that it stores": HERE
    + "test_sessions_of_an_agent_that_prints_none_are_followed",
    "; `tooltap ingest FILE` reads the file that it writes": HERE
    + "test_file_of_an_agent_that_prints_none_is_ingested",
    "; run `tooltap journal repair`": REPAIR + "test_journal_that_cannot_be_opened_is_repaired",
    "the journal {} cannot be opened: {}; run `tooltap journal repair`": REPAIR
    + "test_journal_that_cannot_be_opened_is_repaired",
    "a part of the journal is damaged ({}); run `tooltap journal check`": REPAIR
    + "test_part_that_cannot_be_read_is_checked_and_repaired",
    "the journal is damaged where it was to be written ({}): run `tooltap journal repair`": REPAIR
    + "test_journal_that_cannot_be_written_is_repaired",
    "the journal is damaged: see `tooltap journal check`": REPAIR
    + "test_damage_that_a_verification_finds_is_checked_and_repaired",
    "make it writable, or choose another place: `tooltap serve --journal sqlite:PATH`": REPAIR
    + "test_another_place_is_chosen_where_none_can_be_written",
}
"""Advice -> the test that follows it."""

INFORMS = {
    "the tooltap there is too old: it has no `tooltap remote send`": "names what is missing on another machine",
    "{} is not an option of `tooltap serve`": "names the command whose options may be given, and what is not one",
}
"""What names a command and advises nothing -> what it says instead."""


# -- starting and ending ----------------------------------------------------------------------------------------------


def said(*arguments: object) -> str:
    """What a command prints on both streams, in one line."""
    done = here(*arguments)
    return " ".join((done.stdout + done.stderr).decode().split())


@contextmanager
def up(*arguments: str) -> Iterator[None]:
    """`tooltap up`, once it is there."""
    with start(*arguments, env=environment(BROWSER="true"), stdout=DEVNULL, stderr=DEVNULL):
        until(lambda: here("stats").returncode == 0)
        yield


@pytest.mark.process
def test_up_starts_a_daemon(home: Path) -> None:
    [command] = commands(said("sessions"))
    with up(*command):
        assert "the journal has no events yet" in said("sessions")


@pytest.mark.process
def test_daemon_without_a_page_is_ended(home: Path) -> None:
    """And one that reads what agents store takes its place."""
    write(home / ".claude" / "projects" / "-ws" / "a.jsonl", STORED.read_text())
    with served("serve") as daemon:
        for reader in (["sessions"], ["show", "last"]):
            [command] = commands(said(*reader))
        [stop, again] = commands(said(*command))
        assert here(*stop).returncode == 0
        daemon.end()
    with up(*again):
        until(lambda: here("show", "last").returncode == 0)
        assert "a.jsonl" not in said("sessions")


def refused(*arguments: object) -> str:
    """What a daemon says that does not start."""
    done = tooltap(*arguments)
    assert done.returncode == 1
    return done.stderr.decode()


@pytest.mark.process
def test_daemon_that_follows_nothing_is_ended(home: Path) -> None:
    """And one that follows takes its place, and reads again."""
    write(home / ".claude" / "projects" / "-ws" / "a.jsonl", STORED.read_text())
    [everything] = re.findall(r", or `(--\w+)`", said("follow", "reread"))
    with served("serve", "--web", "127.0.0.1:0") as daemon:
        refusal = said("follow", "reread", everything)
        [option] = re.findall(r"start it with `(--\w+)`", refusal)
        with start("up", env=environment(BROWSER="true"), stdin=DEVNULL) as joined:
            while b"it follows no agent" not in (line := joined.log_line()):
                assert line, "it has ended"
            stop, again = commands(line.decode())
        assert here(*stop).returncode == 0
        daemon.end()
    with served("serve", option, "claude"):
        assert "this daemon follows no" not in said("follow", "reread", everything)
        assert here(*stop).returncode == 0
    with up(*again):
        until(lambda: here("show", "last").returncode == 0)
        assert "nothing to read again" in said("follow", "reread", everything)


@pytest.mark.process
def test_link_that_up_names_logs_in(home: Path) -> None:
    with start("up", env=environment(BROWSER="true"), stdin=DEVNULL) as daemon:
        while b"page: " not in (line := daemon.line()):
            assert line, "it has ended"
        [command] = commands(line.decode())
        link = said(*command)
        assert Browser(link.partition("/#")[0], "").log_in(link)["Cookie"]


def advised_instead_of_tapping(home: Path, agent: str) -> list[str]:
    write(home / "bin" / agent, "#!/bin/sh\n").chmod(0o755)
    not_tapped = tooltap("run", "--", home / "bin" / agent).stderr.decode()
    assert "prints no event stream" in not_tapped
    [command] = commands(not_tapped)
    return command


@pytest.mark.process
def test_sessions_of_an_agent_that_prints_none_are_followed(home: Path) -> None:
    [log] = FIXTURES.glob("gptme-log/*/shell.jsonl")
    write(home / ".local" / "share" / "gptme" / "logs" / "one" / "conversation.jsonl", log.read_text())
    with up(*advised_instead_of_tapping(home, "gptme")):
        until(lambda: b"gptme" in here("sessions", "--json").stdout)


@pytest.mark.process
def test_file_of_an_agent_that_prints_none_is_ingested(home: Path, daemon: Running) -> None:
    [*command, given] = advised_instead_of_tapping(home, "mini")
    assert given == "FILE"
    [file] = FIXTURES.glob("mini-trajectory/*/shell.jsonl")
    assert here(*command, file).returncode == 0
    assert b"mini-swe-agent" in here("sessions", "--json").stdout


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with capture_logs(), running(home) as daemon:
        monkeypatch.setenv("TOOLTAP_SOCKET", str(daemon.path))
        yield daemon


def test_newest_session_is_shown(daemon: Running) -> None:
    assert here("ingest", CLAUDE).returncode == 0
    [command] = commands(" ".join(board([], 0, 1, (100, 20), colour=False)))
    assert here(*command).returncode == 0


def test_sessions_are_listed_if_none_is_named(daemon: Running) -> None:
    assert here("ingest", CLAUDE).returncode == 0
    [command] = commands(said("show", ""))
    assert here(*command).stdout


def test_recorded_stream_is_normalized(home: Path) -> None:
    [command] = commands(said("replay", CLAUDE))
    assert here(*command, CLAUDE).returncode == 0


def test_what_waits_is_listed(daemon: Running) -> None:
    for what in (["answer"], ["answer", "--allow"]):
        [command] = commands(said(*what))
        assert here(*command).returncode == 0


# -- the journal ------------------------------------------------------------------------------------------------------


def test_archive_is_written(home: Path) -> None:
    journal = ("--journal", f"sqlite:{home / 'journal.db'}")
    with capture_logs(), running(home):
        pass
    wrong = write(home / "wrong.jsonl")
    [command] = commands(said("journal", "import", *journal, wrong))
    wrong.write_bytes(here(*command, *journal).stdout)
    assert here("journal", "import", *journal, wrong).returncode == 0


def test_file_in_the_folder_is_named(home: Path) -> None:
    with capture_logs(), running(home):
        pass
    [option] = re.findall(r"with (--journal sqlite:)PATH", said("journal", "check", "--journal", f"sqlite:{home}"))
    assert here("journal", "check", *f"{option}{home}/journal.db".split(" ", 1)).returncode == 0


@pytest.mark.process
def test_damaged_journal_is_checked_and_repaired(home: Path) -> None:
    file = home / "data" / "tooltap" / "journal.db"
    with served("serve") as daemon:
        publish_one(home)
        assert here("serve", "stop").returncode == 0
        daemon.end()
    with file.open("r+b") as pages:
        for page in range(3, 20):
            pages.seek(8_192 * page)
            pages.write(bytes(range(256)))
    [check] = commands(said("journal", "backup", home / "copy.db"))
    [repair] = commands(said(*check))
    assert here(*repair).returncode == 0
    with file.open("r+b") as pages:
        pages.write(b"no database")
    [repair] = commands(refused("serve"))
    assert here(*repair).returncode == 0
    with served("serve"):
        assert problems(examined()) == []


@pytest.mark.process
@pytest.mark.parametrize("name", ["data/tooltap/journal.db.tip", "data/tooltap/journal.db.lock", "run/tooltap.sock"])
def test_what_is_in_the_way_is_moved_away(home: Path, name: str) -> None:
    file = write(home / name, "something of another program " * 100)
    file.chmod(0o600)
    assert "move it away" in (error := refused("serve"))
    assert str(file) in error
    file.rename(home / "elsewhere")
    with served("serve"):
        assert problems(examined()) == []


@pytest.mark.process
@pytest.mark.parametrize(("content", "mode"), [("", 0o600), ("a-token-that-others-read", 0o644)])
def test_token_is_removed(home: Path, content: str, mode: int) -> None:
    token = write(home / "token", content)
    token.chmod(mode)
    config = write(home / "t.toml", f'[web]\nenabled = true\nlisten = "127.0.0.1:0"\ntoken_file = "{token}"\n')
    assert "remove the file to get a new one" in refused("serve", "--config", config)
    token.unlink()
    with capture_logs(), browsed(home) as (_, browser):
        assert browser.get("/api/stats").status == 200


# -- the table --------------------------------------------------------------------------------------------------------

ADVISES = re.compile(r"`tooltap |; move it away|; remove the file|with --\w+|`--\w+")
NOT_PRINTED = {"doctor.py", "formats.py", "services.py"}
"""Modules with a table of their own, or whose texts are files that they write."""


def messages(module: Path) -> set[str]:
    """The texts of a module that give advice; `{}` is what is put in. Docstrings and help are left out."""
    found: set[str] = set()
    left_out: set[ast.AST] = set()
    tree = ast.parse(module.read_text())
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as text):
                left_out.add(text)
            case ast.keyword(arg="help" | "examples" | "epilog", value=value):
                left_out.update(ast.walk(value))
            case ast.JoinedStr(values=parts):
                left_out.update(parts)
    for node in ast.walk(tree):
        if node not in left_out and isinstance(node, ast.Constant | ast.JoinedStr):
            found.update(text for text in texts(node) if ADVISES.search(text) and "\n" not in text)
    return found


def all_messages() -> set[str]:
    modules = [one for part in ("cli", "daemon", "traces") for one in (ROOT / part).rglob("*.py")]
    return {text for one in modules if one.name not in NOT_PRINTED for text in messages(one)}


def test_every_message_with_advice_is_in_the_table() -> None:
    assert all_messages() == FOLLOWED.keys() | INFORMS.keys()
    assert len(all_messages()) == len(FOLLOWED) + len(INFORMS)


@pytest.mark.parametrize("test", sorted(set(FOLLOWED.values())))
def test_every_test_of_the_table_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text() or f"\nasync def {name}(" in (ROOT / file).read_text()


@pytest.mark.parametrize("words", sorted({tuple(one) for text in all_messages() for one in commands(text)}))
def test_every_command_in_a_message_exists(words: tuple[str, ...]) -> None:
    """With the options that it has there."""
    group: click.Command = cli
    context = click.Context(group)
    rest = list(words)
    while isinstance(group, click.Group) and rest and not rest[0].startswith("-"):
        found = group.get_command(context, rest.pop(0))
        assert found is not None, words
        group = found
    known = {option for parameter in group.params for option in [*parameter.opts, *parameter.secondary_opts]}
    given = [one for one in rest[: rest.index("--") if "--" in rest else None] if one.startswith("-")]
    assert [one for one in given if one not in known | {"--help"}] == []
