"""`tooltap`: the table of subcommands, and what every one of them has in common: errors and exit codes.

A subcommand is a module `<folder>/<name>.py` with a click command `command`, imported when it is called, so that
`tooltap --help` starts at once.

Exit codes: 0 done, 1 the work failed or a check found something, 2 wrong usage or configuration, 130 on Ctrl-C.
A reader that closes the pipe has what it wanted: that ends quietly with 0.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from tooltap import __version__
from tooltap.cli.common.commands import Group

__all__ = ["COMMANDS", "main", "tooltap"]


class Listed(NamedTuple):
    folder: str
    """The folder of `cli/` that has the module."""
    summary: str
    """The line `tooltap --help` shows; the subcommand's own help begins with it."""


COMMANDS = {
    "demo": Listed(
        "manage", "Play real recorded streams of several agents through a daemon and show the one stream they become."
    ),
    "serve": Listed("manage", "Run the daemon: tap, journal, serve."),
    "run": Listed("tap", "Run an agent, pass its output through untouched, and tap it."),
    "proxy": Listed(
        "tap", "Run an agent that speaks ACP or MCP, pass both directions through untouched, and tap them."
    ),
    "attach": Listed("tap", "Tap the event stream of a server that runs already."),
    "gateway": Listed("tap", "Pass requests on to a server for language models, and tap them."),
    "ingest": Listed("tap", "Feed recorded or piped lines to the daemon, each file a stream of its own."),
    "normalize": Listed("check", "Turn raw lines into event lines, without a daemon."),
    "replay": Listed("check", "Put a trace through the current normalizers."),
    "tail": Listed("read", "Follow events."),
    "sessions": Listed("read", "List the sessions in the journal."),
    "show": Listed("read", "Show one event."),
    "export": Listed("read", "Write a session as a page that opens in any browser."),
    "baseline": Listed("check", "Record what agents' streams look like, and check whether they still do."),
    "drift": Listed("check", "Show where agents' streams are not what they were."),
    "config": Listed("manage", "Check the daemon's configuration."),
    "stats": Listed("read", "Show what the daemon has done, stream by stream."),
    "doctor": Listed("manage", "Look at all there is of tooltap here, and say what to do about it."),
    "service": Listed("manage", "Have systemd start the daemon."),
    "mcp": Listed("tap", "Offer display tools as an MCP server, on standard input and output."),
    "schema": Listed("schema", "Print the schema of events, tool payloads and socket frames."),
    "fixtures": Listed("check", "Extract fixtures from traces, check them, bring them up to date."),
    "completion": Listed("manage", "Print a shell's completion script."),
}

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class _Commands(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=listed.summary)
            for name, listed in COMMANDS.items()
            if name.startswith(incomplete)
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
            formatter.write_dl([(name, listed.summary) for name, listed in COMMANDS.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _quiet_ends():  # --help and --version write here
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _quiet_ends():
            return super().invoke(ctx)


@contextmanager
def _quiet_ends() -> Iterator[None]:
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
        "tooltap demo",
        "tooltap serve --follow claude,codex,gemini",
        "tooltap run -- claude -p 'List the files' --output-format stream-json --verbose",
        "tooltap tail --mode verbose",
    ),
)
@click.version_option(__version__, message="tooltap %(version)s")
def tooltap() -> None:
    """One normalized event stream from every coding agent.

    Data goes to stdout, everything else to stderr.
    """


def main() -> None:
    """The console script."""
    sys.exit(_run())


def _run() -> int:
    try:
        code = tooltap.main(prog_name="tooltap", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.UsageError as error:
        return _complain(f"{error.format_message().rstrip('.')} (see {_help_command(error.ctx)})", USAGE)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except click.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        code = DONE
    except OSError as error:
        reason = error.strerror or str(error)
        return _complain(f"{error.filename}: {reason}" if error.filename else reason, FAILED)
    except Exception as error:
        if os.environ.get("TOOLTAP_DEBUG"):
            raise
        message = f"unexpected {type(error).__name__}: {error} (TOOLTAP_DEBUG=1 shows where; please report it)"
        return _complain(message, FAILED)
    finally:
        _settle_stdout()
    return code if isinstance(code, int) else DONE


def _complain(message: str, code: int) -> int:
    click.echo(f"tooltap: {' '.join(message.split())}", err=True)
    return code


def _help_command(context: click.Context | None) -> str:
    return f"{context.command_path if context else 'tooltap'} --help"


def _settle_stdout() -> None:
    """What is left in the buffer of a closed pipe must not be tried again when the interpreter ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
