"""Every command is run with hostile names, titles, paths, versions and messages, into a pipe and on a terminal, and the
bytes that it writes are looked at. A command without cases fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from tests.cli.hostile.cases import CASES
from tests.cli.hostile.runs import Shown, into_a_pipe, on_a_terminal
from tests.cli.hostile.texts import ARGUMENT, HOSTILE, offences
from tests.cli.hostile.world import World
from tests.cli.hostile.world import world as outside
from tooltap.cli.common.completion import SHELLS
from tooltap.cli.subcommands import tooltap

RUNS = {"pipe": into_a_pipe, "terminal": on_a_terminal}
JSON = ("normalize", "replay", "show", "journal export")
"""Commands whose standard output is JSON without `--json`."""
WITH_JOBS = ("drift", "export", "fixtures extract", "fixtures keys", "normalize", "replay")
EVENTS = ("normalize", "replay", "journal export", "tail")
"""Those that write events, byte for byte if it is not to a terminal."""
TEXT = ("--diff", "--journal")
"""Options with which `replay` prints no JSON."""


def commands(group: click.Group, path: str = "") -> Iterator[str]:
    """Every command that can be run, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        words = f"{path} {name}".strip()
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield words
        if isinstance(command, click.Group):
            yield from commands(command, words)


def completed(group: click.Group) -> Iterator[str]:
    """Every command line that ends where a completer of ours is asked."""
    for words in commands(group):
        command: click.Command = group
        for word in words.split():
            assert isinstance(command, click.Group)
            found = command.get_command(click.Context(command), word)
            assert found is not None
            command = found
        for parameter in command.params:
            if vars(parameter)["_custom_shell_complete"] is not None:
                option = f"{parameter.opts[0]} " if isinstance(parameter, click.Option) else ""
                yield f"tooltap {words} {option}"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with outside() as one:
        yield one


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that answer with hostile texts, in a hostile home."""
    home = tmp_path / os.fsdecode(b"\x1b]0;t\x07\n\xff")
    programs = home / "bin"
    programs.mkdir(parents=True)
    (home / "answer").write_text(HOSTILE)
    for name in ("claude", "codex", "systemctl"):
        (programs / name).write_text('#!/bin/sh\ncat "$HOME/answer"\nexit 1\n')
        (programs / name).chmod(0o755)
    monkeypatch.setattr("tooltap.daemon.system.services.BOOTED", tmp_path)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(home / variable))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setenv("HAPPY_E2E_PROVIDER_STRICT_KEYS", "1")  # for `baseline check`
    monkeypatch.chdir(tmp_path)


def test_no_command_is_forgotten() -> None:
    assert sorted(commands(tooltap)) == sorted(CASES)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("command", CASES)
def test_nothing_from_outside_acts(
    command: str, run: Callable[..., Shown], world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for number, words in enumerate(CASES[command](world, tmp_path)):
        jobs = ("--jobs", 1) if command in WITH_JOBS else ()  # the hostile texts are printed by this process
        shown = run(*command.split(), *jobs, *words)
        as_text = command == "replay" and not set(TEXT).isdisjoint(words)
        as_text = as_text or (command == "show" and not isinstance(words[0], int))  # a session
        as_json = not {"--json", "json"}.isdisjoint(words) or (command in JSON and not as_text)
        events = "--json" in words if command == "show" else command in EVENTS and "--json" not in words
        exact = as_json and events and run is into_a_pipe
        texts = command in ("tail", "export", "show")
        wrong = offences(shown.output, terminal=run is on_a_terminal, json_lines=as_json, exact=exact, texts=texts)
        wrong += offences(shown.errors, terminal=run is on_a_terminal)
        if b"this is a bug" in shown.errors or (shown.code and not shown.output + shown.errors):
            wrong.append(f"failed with {shown.code}: {shown.errors.decode()}")
        if wrong:
            found[number] = (words, wrong)

    assert found == {}


def test_programs_get_the_bytes_of_events(world: World) -> None:
    """A terminal gets the same values, in which nothing acts."""
    command = ("tail", "--socket", world.daemon.path, "--no-follow", "--after", "start", "--mode", "json")
    with world.daemon.subscribe(after="start", follow=False) as wire:
        lines = [line for line in iter(wire.line, b"") if not line.startswith(b'{"op"')]
    exact, shown = into_a_pipe(*command).output, on_a_terminal(*command).output

    assert exact == b"".join(lines)
    assert {"'\\x9b'", "'\\x7f'", "'\\u202e'"} <= set(offences(exact, terminal=False))
    assert [json.loads(line) for line in shown.splitlines()] == [json.loads(line) for line in lines]
    exported = into_a_pipe("journal", "export", "--journal", f"sqlite:{world.journal}").output
    assert exported
    assert exact.startswith(exported)
    assert offences(into_a_pipe("normalize", world.recording).output, terminal=False)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("command", CASES)
def test_wrong_option_does_not_act(command: str, run: Callable[..., Shown]) -> None:
    shown = run(*command.split(), f"--x{ARGUMENT}")

    assert shown.code
    assert offences(shown.output + shown.errors, terminal=run is on_a_terminal) == []


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("group", ["", "journal", "fixtures"])
def test_wrong_command_does_not_act(group: str, run: Callable[..., Shown]) -> None:
    shown = run(*group.split(), ARGUMENT * 500)

    assert shown.code == 2
    assert offences(shown.output + shown.errors, terminal=run is on_a_terminal) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_completions_do_not_act(shell: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list(completed(tooltap))
    assert len(lines) > 10
    monkeypatch.setenv("_TOOLTAP_COMPLETE", f"{shell}_complete")
    for socket in (world.daemon.path, world.liar):
        monkeypatch.setenv("TOOLTAP_SOCKET", str(socket))
        for line in lines:
            monkeypatch.setenv("COMP_WORDS", line)
            monkeypatch.setenv("COMP_CWORD", "" if shell == "fish" else str(line.count(" ")))
            shown = into_a_pipe()

            assert offences(shown.output, terminal=False) == [], line
            assert shown.errors == b"", line
            assert max(map(len, shown.output.decode().splitlines()), default=0) < 500


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("offered", [f"x{HOSTILE}", "two\nlines", "tab\t", "x" * 300, "\udcff"])
def test_name_that_is_more_than_a_name_is_not_offered(
    shell: str, offered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a completer offers: the last one to look is the same for all."""
    monkeypatch.setattr("tooltap.normalizers.catalog.registry.dialects", lambda: [offered, "plain"])
    monkeypatch.setenv("_TOOLTAP_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "tooltap drift --dialect ")
    monkeypatch.setenv("COMP_CWORD", "" if shell == "fish" else "3")
    shown = into_a_pipe()

    assert b"plain" in shown.output
    assert len(shown.output) < 200
    assert offences(shown.output, terminal=False) == []
