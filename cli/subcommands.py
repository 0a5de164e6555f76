"""The table of subcommands, and error handling and exit codes for all of them.

A subcommand is a module `<folder>/<name>.py` with a click command named `command`. It is imported when it is called, so
that `tooltap --help` starts at once.

Exit codes: 0 done, 1 the work failed or a check found something, 2 wrong usage or configuration, 130 on Ctrl-C; and
those of single commands (`docs/reference/commands.md`).
If the reader closes the pipe, the command exits silently with 0; a check goes on, and exits with what it found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from tooltap import __version__
from tooltap.cli.common.commands import Group


class Entry(NamedTuple):
    folder: str
    """The folder of `cli/` that holds the module."""
    summary: str
    """The line that `tooltap --help` shows, and the first line of the subcommand's own help."""


COMMANDS = {
    "up": Entry("manage", "Start here: run the daemon, follow every agent, show the page."),
    "demo": Entry(
        "manage", "Play recorded streams of several agents through a daemon and show the resulting event stream."
    ),
    "serve": Entry("manage", "Run the daemon: tap, journal, serve."),
    "run": Entry("tap", "Run an agent, pass its output through unchanged, and tap it."),
    "proxy": Entry("tap", "Run an agent that speaks ACP or MCP, pass both directions through unchanged, and tap them."),
    "attach": Entry("tap", "Tap the events of a running server."),
    "gateway": Entry("tap", "Forward requests to a language model server, and tap them."),
    "ingest": Entry("tap", "Send recorded or piped lines to the daemon, each file as its own stream."),
    "normalize": Entry("check", "Turn raw lines into event lines, without a daemon."),
    "replay": Entry("check", "Run a trace through the current normalizers."),
    "tail": Entry("read", "Follow events."),
    "sessions": Entry("read", "List the sessions in the journal."),
    "search": Entry("read", "Search the text of all sessions."),
    "calls": Entry("read", "List the calls of all sessions."),
    "usage": Entry("read", "Show sums of the tokens and costs of sessions."),
    "show": Entry("read", "Show one event, or a session."),
    "files": Entry("read", "Show which files were changed: by all sessions, or by one."),
    "blame": Entry("read", "Show which session and which call wrote each line of a file."),
    "resume": Entry("read", "Resume a session with its agent."),
    "waiting": Entry("read", "List what waits for you: permissions, questions and plans."),
    "answer": Entry("control", "Answer what an agent asks."),
    "answers": Entry("control", "Try the rules that answer permission requests."),
    "send": Entry("control", "Give the agent of a session a prompt."),
    "interrupt": Entry("control", "Interrupt the turn of a session."),
    "watch": Entry("read", "Ring when a session waits for you, is done, or has failed."),
    "top": Entry("read", "Watch the running sessions."),
    "open": Entry("read", "Open the page, or the page of a session."),
    "export": Entry("read", "Write a session as a page that opens in any browser, or as Markdown."),
    "baseline": Entry("check", "Record the shape of agents' lines, and check recordings against it."),
    "drift": Entry("check", "Show where agents' lines deviate from their baselines."),
    "dialect": Entry("check", "List dialects, and write and check your own."),
    "learn": Entry("check", "Say what is in recordings of an unknown agent, and write a first dialect."),
    "config": Entry("manage", "Check the daemon's configuration."),
    "stats": Entry("read", "Show the daemon's statistics, stream by stream."),
    "follow": Entry("manage", "Read session files again after retention has deleted their events."),
    "remote": Entry("manage", "Show the sessions of other machines, too."),
    "journal": Entry("manage", "Check, repair, back up, export or restore the journal."),
    "doctor": Entry("manage", "Check this installation of tooltap, and say what to fix."),
    "service": Entry("manage", "Install the daemon as a service that starts when you log in."),
    "mcp": Entry("tap", "Offer tools to agents as an MCP server, on standard input and output."),
    "schema": Entry("schema", "Print the schema of events, tool payloads and socket frames."),
    "fixtures": Entry("check", "Extract fixtures from traces, check them, and update them."),
    "hook": Entry("tap", "Ask you what an agent asks: the agent runs this as its hook."),
    "hooks": Entry("manage", "Let agents ask you through tooltap: install hooks in their settings."),
    "away": Entry(
        "tap",
        "Say that you are away: then hooks wait for answers from elsewhere also where they hide the agent's dialog.",
    ),
    "completion": Entry("manage", "Print a shell's completion script."),
}

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
MAX_NAME = 100
"""Code points of a name in an error."""


class _Commands(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=entry.summary) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        folder = COMMANDS[cmd_name].folder
        command: click.Command = import_module(f"tooltap.cli.{folder}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _silent_exits():  # --help and --version write during parsing
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _silent_exits():
            return super().invoke(ctx)


@contextmanager
def _silent_exits() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise click.exceptions.Exit(DONE) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        "tooltap up",
        "tooltap run -- claude -p 'List the files' --output-format stream-json --verbose",
        "tooltap tail --mode verbose",
    ),
)
@click.version_option(__version__, message="tooltap %(version)s")
def tooltap() -> None:
    """One normalized event stream from every coding agent.

    Data goes to stdout, everything else to stderr.
    """


def run() -> int:
    """Run the subcommand that `sys.argv` names. Return the exit code."""
    try:
        code = tooltap.main(prog_name="tooltap", standalone_mode=False)
        with suppress(BrokenPipeError):
            _flush()
    except Exception as error:
        code = exit_code(error)
    finally:
        _discard_unwritable_output()
    return code if isinstance(code, int) else DONE


def exit_code(error: BaseException) -> int:
    """Report what ended a subcommand. Return the exit code."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return USAGE
        case click.UsageError():
            return _print_error(f"{error.format_message().rstrip('.')} (see {_help_command(error.ctx)})", USAGE)
        case click.ClickException():
            return _print_error(error.format_message(), error.exit_code)
        case click.Abort() | KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            return DONE
        case OSError():
            reason = error.strerror or str(error)
            return _print_error(f"{error.filename}: {reason}" if error.filename else reason, FAILED)
        case UnicodeEncodeError(reason="surrogates not allowed"):
            return _print_error(f"{error.object[:MAX_NAME]} is not UTF-8, so it cannot be a name here", FAILED)
        case TypeError() if "surrogates not allowed" in str(error):  # of orjson
            return _print_error("an argument or a file name is not UTF-8, so it cannot be a name here", FAILED)
        case Exception() if not os.environ.get("TOOLTAP_DEBUG"):
            advice = "this is a bug in tooltap, please report it; TOOLTAP_DEBUG=1 prints a traceback"
            return _print_error(f"unexpected {type(error).__name__}: {error} ({advice})", FAILED)
    raise error


def _print_error(message: str, code: int) -> int:
    from tooltap.cli.common.printing import warn  # `--help` does not wait for it

    warn(message)
    return code


def _help_command(context: click.Context | None) -> str:
    return f"{context.command_path if context else 'tooltap'} --help"


def _discard_unwritable_output() -> None:
    """Keep the interpreter from flushing the buffer of a closed pipe again at exit."""
    try:
        _flush()
    except OSError:
        from tooltap.cli.common.printing import discard

        discard(sys.stdout)


def _flush() -> None:
    if sys.stdout is not None:  # None: it was closed before we started
        sys.stdout.flush()
