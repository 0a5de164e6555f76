"""Nothing in the product can print but `cli/common/printing.py`: a new way round it fails here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.test_layout import FOLDERS, ROOT

MAY = {
    "cli/common/guard.py": ({".unguarded"}, "guards the streams"),
    "cli/common/recordings.py": ({"tooltap.daemon.system.workers.Workers"}, "guards the streams of its processes"),
    "cli/common/printing.py": (
        {"sys.stdout", "sys.stderr", ".unguarded", "click.progressbar"},
        "prints, and draws a bar of progress, in which there is no text",
    ),
    "cli/common/render.py": ({"tooltap.cli.common.printing.Clean"}, "names the type"),
    "cli/common/terminal.py": (
        {
            *("tooltap.cli.common.printing.Clean", "tooltap.cli.common.printing.terminal"),
            *("sys.stdout", "subprocess.Popen"),
        },
        "draws clean lines on the whole terminal, and puts the pager in the place of standard output",
    ),
    "cli/control/answer.py": ({"getpass"}, "reads the name of the user; it asks for no password"),
    "cli/control/asking.py": ({"click.prompt"}, "asks a person, in words of its own"),
    "cli/manage/hooks.py": ({"click.confirm"}, "asks a person, in words of its own"),
    "cli/read/watch.py": ({"tooltap.cli.common.printing.terminal"}, "rings the bell"),
    "cli/manage/demo.py": ({"subprocess.Popen"}, "starts a daemon whose log is a file"),
    "cli/manage/up.py": (
        {"tooltap.cli.common.printing.Clean", "tooltap.cli.common.printing.terminal"},
        "draws one clean line again and again",
    ),
    "cli/read/blame.py": ({"tooltap.cli.common.printing.Clean"}, "names the type"),
    "cli/read/export.py": ({"tooltap.cli.common.printing.binary_output"}, "writes a page, to no terminal"),
    "cli/read/files.py": ({"tooltap.cli.common.printing.binary_output"}, "writes a diff into a pipe, for programs"),
    "cli/read/resume.py": ({"os.execv"}, "becomes the agent, of which nothing is changed"),
    "cli/read/running.py": ({"tooltap.cli.common.printing.Clean"}, "names the type"),
    "cli/read/transcript.py": ({"tooltap.cli.common.printing.Clean"}, "names the type"),
    "cli/subcommands.py": ({"sys.stdout"}, "flushes, and silences a closed pipe"),
    "cli/tap/agent.py": ({"os.execvp"}, "becomes the agent, of which nothing is changed"),
    "daemon/system/logs.py": ({"sys.stderr", "structlog"}, "writes the log, whose fields it makes harmless"),
    "daemon/system/loop.py": ({"/proc/self/fd/2"}, "writes where the code of tooltap is, when all else hangs"),
    "daemon/system/workers.py": ({"sys.unraisablehook"}, "ends a process whose end the interpreter would ignore"),
    "daemon/taps/acp_store.py": ({"subprocess.Popen"}, "leaves standard error to the agent, as `run` does"),
    "daemon/taps/child.py": (
        {"subprocess.Popen", "/dev/tty"},
        "passes on what an agent prints, of which nothing is changed, and reads who is at the terminal",
    ),
    "daemon/taps/follow/backfill_worker.py": ({"os.fork"}, "makes more workers of a process that prints nothing"),
    "daemon/taps/hooks/run.py": ({"os.fork"}, "ends a question in a process whose streams lead to nothing"),
    "daemon/taps/remotes/remotes.py": ({"anyio.open_process"}, "reads what a remote writes, through pipes"),
    "daemon/taps/mcp/server.py": ({"sys.stdout"}, "writes messages of its protocol for an agent, as JSON"),
    "daemon/taps/mcp/keeper.py": ({"os.fork", "os.execv"}, "becomes a display tool's command, whose output is a pipe"),
    "daemon/show/ansi.py": ({"rich"}, "reads colours; it prints nothing"),
}
"""Module -> what it may use, and why."""
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
CLICK = {
    *("echo", "secho", "style", "progressbar", "prompt", "confirm", "pause", "edit", "echo_via_pager", "launch"),
    *("get_text_stream", "get_binary_stream", "open_file", "File", "clear", "getchar", "raw_terminal"),
    *("confirmation_option", "password_option", "termui", "utils", "globals"),
}
FORBIDDEN = {
    "click": CLICK,
    "sys": {*STREAMS, "displayhook", "excepthook", "unraisablehook"},
    "os": {
        "system",
        "popen",
        "execv",
        "execve",
        "execvp",
        "execvpe",
        "execl",
        "posix_spawn",
        "posix_spawnp",
        "fork",
        "forkpty",
    },
    "traceback": {"print_exc", "print_exception", "print_tb", "print_stack", "print_last"},
    "faulthandler": {"enable", "register", "dump_traceback"},
    "logging": {"basicConfig", "StreamHandler", "info", "warning", "error", "exception", "debug", "critical", "log"},
    "warnings": {"warn", "warn_explicit", "showwarning"},
    "subprocess": {"call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "tooltap.cli.common.printing": {"Clean", "terminal", "binary_output"},
    "tooltap.daemon.system.workers": {"Workers"},
}
LIBRARIES = {"rich", "tqdm", "curses", "getpass", "readline", "colorama", "pprint", "pdb", "structlog", "pty", "code"}
FUNCTIONS = {"print", "input", "breakpoint", "help"}
STARTS = {
    "subprocess": {"Popen", "run"},
    "anyio": {"open_process", "run_process"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}
"""A program that is started must not have our standard output or error."""
DEVICES = re.compile(r"/dev/(tty|std(out|err)|fd/)|/proc/(self|thread-self)/fd")
IMPORTED = "|".join([*(FORBIDDEN.keys() - {"sys", "os"}), *LIBRARIES, "subprocess"])
MAY_PRINT = re.compile(
    rf"^\s*(from|import) ({IMPORTED})\b|import (sys|os) as|from (sys|os) import|\bstd(out|err)\b|__std|hook\b"
    r"|/dev/|/proc/|\.unguarded\b|\b(print|input|breakpoint|help)\(|\b(open|write|writev|fdopen)\([12]\b"
    r"|\bos\.(system|popen|exec|posix_spawn|fork)|(open|run)_process\(|create_subprocess",
    re.MULTILINE,
)
"""It takes long to parse every module."""


def ways(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines on which a module could print, and with what."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                yield node.lineno, name
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]) if name in STREAMS:
                yield node.lineno, f"getattr {name}"
            case ast.Call(func=ast.Attribute(attr="write" | "writev" | "fdopen"), args=[ast.Constant(value=1 | 2), *_]):
                yield node.lineno, "os.write"
            case ast.Call(func=ast.Name(id="open"), args=[ast.Constant(value=1 | 2), *_]):
                yield node.lineno, "open"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if name in STARTS.get(module, ()):
                if not {"stdout", "stderr"} <= {one.arg for one in node.keywords}:
                    yield node.lineno, f"{module}.{name}"
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in FORBIDDEN.get(module, ()):
                yield node.lineno, f"{module}.{name}"
            case ast.Attribute(attr="unguarded"):
                yield node.lineno, ".unguarded"
            case ast.Constant(value=str(text)) if DEVICES.match(text):
                yield node.lineno, text
            case ast.ImportFrom(module=str(module), names=names):
                if module.split(".")[0] in LIBRARIES:
                    yield node.lineno, module.split(".")[0]
                for one in names:
                    if one.name in {*FORBIDDEN.get(module, ()), *STARTS.get(module, ())} or one.name == "*":
                        yield node.lineno, f"{module}.{one.name}"
            case ast.Import(names=names):
                for one in names:
                    if one.name.split(".")[0] in LIBRARIES:
                        yield node.lineno, one.name.split(".")[0]
                    if one.asname and one.name in {*FORBIDDEN, *STARTS}:
                        yield node.lineno, f"{one.name} as {one.asname}"


def test_only_one_module_prints() -> None:
    found: dict[str, str] = {}
    used: dict[str, set[str]] = {name: set() for name in MAY}
    for path in sorted(one for folder in FOLDERS for one in (ROOT / folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        code = path.read_text()
        if MAY_PRINT.search(code):
            for line, what in ways(ast.parse(code)):
                if name in MAY and what in MAY[name][0]:
                    used[name].add(what)
                else:
                    found[f"{name}:{line}"] = what

    assert found == {}, "print with tooltap.cli.common.printing"
    assert used == {name: allowed for name, (allowed, _) in MAY.items()}, "MAY allows what nobody does"


@pytest.mark.parametrize(
    "code",
    [
        "print('x')",
        "input(name)",
        "import click; click.echo(name)",
        "from click import secho",
        "from click import *",
        "import click as c",
        "import click; click.File('w')",
        "sys.stdout.write(name)",
        "sys.stderr.buffer.write(name)",
        "getattr(sys, 'stdout')",
        "stream.unguarded.write(name)",
        "from sys import stderr",
        "import traceback; traceback.print_exc()",
        "import rich.console",
        "from rich.console import Console",
        "import structlog",
        "import logging; logging.warning(name)",
        "os.write(2, name)",
        "os.fdopen(1)",
        "open(1, 'w')",
        "open('/dev/tty', 'w')",
        "open('/proc/self/fd/1', 'w')",
        "os.system(name)",
        "import subprocess; subprocess.run(['ls'])",
        "import subprocess; subprocess.Popen(['ls'], stdout=PIPE)",
        "import subprocess; subprocess.check_call(['ls'])",
        "from subprocess import run",
        "from tooltap.cli.common.printing import Clean",
        "from tooltap.daemon.system.workers import Workers",
    ],
)
def test_another_way_is_found(code: str) -> None:
    assert MAY_PRINT.search(code)
    assert list(ways(ast.parse(code)))
