"""Bash: unwrapped commands, and their output."""

from __future__ import annotations

import re
import shlex
from typing import Any, TypeGuard

from tooltap.normalizers.tools.payload import (
    Payload,
    add_number,
    add_text,
    is_integer,
    keys_and_text,
    nonblank,
)

_PROGRAM = re.compile(
    r"(?P<folder>.*[/\\])?(?:(?P<posix>bash|zsh|sh|dash|ksh|fish)|(?P<powershell>powershell|pwsh)|(?P<cmd>cmd))(?:\.exe)?",
    re.IGNORECASE | re.DOTALL,
)
_POSIX_FLAGS = re.compile(r"\A-(?:l?i?c|c?l)")
_POWERSHELL_FLAGS = re.compile(
    r"\A(?:-No(?:Logo|Profile|nInteractive) |-ExecutionPolicy \w+ )*-C(?:ommand)?", re.IGNORECASE
)
_CMD_FLAGS = re.compile(r"\A(?:/[ds] )*/c", re.IGNORECASE)
_UTF8 = "[Console]::OutputEncoding=[System.Text.Encoding]::UTF8;\n"
"""What Codex puts before a script of PowerShell (0.120)."""
MOST_WORDS = 8
"""Most words of a command that only starts a shell."""
_WORD = re.compile(r"""\s*((?:[^\s'"\\]++|'[^']*+'|"(?:[^"\\]++|\\.)*+"|\\.)++)\s*""", re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z]:\\\S+\Z")
_QUOTED = re.compile(r"""'([^']*+)'|"((?:[^"\\]++|\\.)*+)"|\\(.)""", re.DOTALL)
_ESCAPE = re.compile(r'\\([$`"\\\n])')
_WRAPPING_TOOLS = frozenset(
    {"CodexBash", "command_execution", "commandExecution", "exec_command", "local_shell", "shell", "shell_command"}
)
"""Raw names of Codex's tools, which state their command together with the shell that runs it."""
_OF_EXEC, _OF_2025 = "command_execution", "bash -lc "
"""Raw name of a command of `codex exec`, and how its versions of 2025 start the shell."""
_MERGED_KEYS = ("formatted_output", "aggregated_output", "output", "text")
_COMMAND_KEYS = ("command", "cmd", "argv", "items")
_CWD_ALIASES = ("workdir", "working_dir", "working_directory", "dir_path", "directory")
_ANY_CWD_ALIAS = frozenset(_CWD_ALIASES)


def _unwrap_command(command: str, raw_name: str) -> str:
    """`/bin/bash -lc "ls src"` -> `ls src`; any other command unchanged. Codex names the shell by its path, in 2025
    `codex exec` named it `bash -lc`; any other shell without a path is part of the model's own command, as is any but a
    login shell where the tool is not Codex's."""
    word = _WORD.match(command)
    program = None if word is None else _PROGRAM.fullmatch(_plain(word[1]))
    if word is None or program is None:
        return command
    if program["posix"] and not program["folder"] and not (raw_name == _OF_EXEC and command.startswith(_OF_2025)):
        return command
    argv: list[str] = []
    while word is not None and len(argv) < MOST_WORDS:
        argv.append(_plain(word[1]))
        if word.end() == len(command):
            script = _script_of(argv) if raw_name in _WRAPPING_TOOLS or argv[1:-1] == ["-lc"] else None
            return command if script is None else script
        word = _WORD.match(command, word.end())
    return command


def _plain(word: str) -> str:
    """Unquote one word. A path of Windows is not quoted by its backslashes."""
    return word if _DRIVE.match(word) else _unquote(word)


def _unwrap_argv(argv: list[str]) -> str:
    """The command of an argument list: the script of a shell, else the arguments, quoted if necessary."""
    script = _script_of(argv)
    return shlex.join(argv) if script is None else script


def _script_of(argv: list[str]) -> str | None:
    """The script that the arguments only start a shell for; None if they do anything else."""
    program = _PROGRAM.fullmatch(argv[0]) if 3 <= len(argv) <= MOST_WORDS else None
    if program is None:
        return None
    pattern = _POSIX_FLAGS if program["posix"] else _POWERSHELL_FLAGS if program["powershell"] else _CMD_FLAGS
    return argv[-1].removeprefix(_UTF8) if pattern.fullmatch(" ".join(argv[1:-1])) else None


def _unquote(word: str) -> str:
    """Unquote one shell word. `shlex` does not handle `\\$` inside double quotes."""
    return _QUOTED.sub(_unquote_part, word)


def _unquote_part(match: re.Match[str]) -> str:
    single, double, escaped = match.groups()
    if single is not None:
        return str(single)
    if double is not None:
        return _ESCAPE.sub(lambda escape: "" if escape[1] == "\n" else escape[1], double)
    return "" if escaped == "\n" else str(escaped)


def bash_input(payload: Payload, raw_name: str) -> Payload:
    command = None
    for key in _COMMAND_KEYS:
        if (command := payload.get(key)) is not None:
            break
    if nonblank(command):
        payload["command"] = _unwrap_command(command, raw_name)
    elif _all_strings(command):
        payload["command"] = _unwrap_argv(command)
    elif isinstance(batch := payload.get("commands"), list):
        commands = [item.get("command") if isinstance(item, dict) else item for item in batch]
        if _all_strings(commands):
            payload["commands"] = commands
            payload["command"] = "\n".join(commands)
    if not _ANY_CWD_ALIAS.isdisjoint(payload):
        add_text(payload, "cwd", *_CWD_ALIASES)
    return payload


def _all_strings(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def bash_output(value: Any, raw_name: str) -> Payload:
    if isinstance(value, str):
        return {"stdout": value}
    payload, text = keys_and_text(value)
    stdout = payload.get("stdout")
    if not isinstance(stdout, str) or (not stdout and not nonblank(payload.get("stderr"))):
        # A provider that merges the streams may have an empty `stdout` next to the merged text.
        stdout = _first_output(text, stdout, payload)
    if isinstance(stdout, str):
        payload["stdout"] = stdout
    metadata = payload.get("metadata")
    if isinstance(metadata, dict):  # OpenCode: {output, metadata: {exit}}; Codex before 0.63: {metadata: {exit_code}}
        codes = (metadata.get(key) for key in ("exit", "exit_code", "exitCode"))
        stated = next((code for code in codes if is_integer(code)), None)
        if stated is not None:
            payload.setdefault("exit_code", stated)
    add_number(payload, "exit_code", "exitCode", "returncode")
    return payload


def _first_output(text: str | None, stdout: Any, payload: Payload) -> str | None:
    """First non-empty text; else an empty string if any text is stated, else None."""
    found = None
    for one in (text, stdout, *map(payload.get, _MERGED_KEYS)):
        if isinstance(one, str):
            if one:
                return one
            found = one
    return found
