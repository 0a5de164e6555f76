"""`make labels`: writes `traces/static/labels.json`, the types of lines that released builds contain and tooltap does
not read, from the packages of agents in the npm registry.

A rule names a package and its version, the files in it that name types, and an expression that finds the names. What
the dialect's tables know is left out, so only the rest is written; no text of a package is kept. Labels of dialects
that no rule is about, and of other versions, stay as they are: those of Claude Code, Codex and OpenCode are named by
the schemas in their programs.

To add a version, add its rules: a type of a version that people still run must not raise an alarm because a newer one
has left it out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from tooltap.normalizers.core.lines import Lines
from tooltap.normalizers.dialects.cline.parser import ClineJson
from tooltap.normalizers.dialects.copilot.parser import CopilotJson
from tooltap.normalizers.dialects.droid.parser import DroidStream
from tooltap.normalizers.dialects.gemini.parser import GeminiChat, GeminiStream
from tooltap.normalizers.dialects.pi.parser import PiJson, PiSession
from tooltap.normalizers.dialects.qwen.parser import QwenChat, QwenStream
from tooltap.traces.drift.baselines import LABELS
from tooltap.traces.recording.whole_file import write_whole

__all__ = ["RULES", "Rule", "names_in", "table"]

PIECE = 8_388_608
"""Bytes of a file that are searched at a time: programs have a hundred megabytes."""
LONGEST = 1_024
"""Maximum bytes of what an expression matches: pieces overlap by it."""
Open = Callable[[str, str], Iterable[tuple[str, IO[bytes]]]]
"""(package, version) -> the names of its files, and what they hold."""


class Rule(NamedTuple):
    """Where a package names the types of a dialect's lines."""

    dialect: str
    version: str
    """Of the agent."""
    package: str
    package_version: str
    files: str
    """Pattern of the files' names in the package."""
    names: str
    """Expression whose groups are names, each as a string with or without its quotes; a group may have several."""
    path: str
    """What a finding calls such a type: `{}` stands for the name."""
    read: Lines
    """The table that knows what is read, or skipped for a stated reason."""


_OF_INTERFACE = r'^ {4}type: ((?:"[a-z_]+"(?: \| )?)+);'
"""Types of what lines hold have capitals: `toolCall`."""
_PI = (("0.73.1", "@mariozechner"), ("1.5.2", "@earendil-works"))
_QWEN = ("0.24.4", "@qwen-code/qwen-code", "0.24.4", "package/chunks/*.js")
_GEMINI = ("0.61.0", "@google/gemini-cli-core", "0.61.0")

RULES = (
    # An object that the CLI writes to its standard output; its names are minified, the keys are not.
    Rule(
        *("cline-json", "3.0.65", "@cline/cli-linux-x64", "3.0.65", "package/bin/*"),
        r'\b[\w$]+\("stdout",\{type:("[a-z_]+")',
        "$<{}>",
        ClineJson.line,
    ),
    Rule(
        *("cline-json", "3.0.65", "@cline/shared", "0.0.86", "package/dist/agents/types.d.ts"),
        _OF_INTERFACE,
        "$<agent_event>.event<{}>",
        ClineJson.event,
    ),
    Rule(
        *("copilot-json", "1.0.102", "@github/copilot-sdk", "1.0.14", "package/dist/generated/session-events.d.ts"),
        r'^ {4}type: ("\w+\.[\w.]+");',  # names with a dot: others are types of what is in a line
        "$<{}>",
        CopilotJson.line,
    ),
    # An object of the program with a type and the session's id.
    Rule(
        *("droid-stream", "0.215.0", "@factory/cli-linux-x64", "0.215.0", "package/bin/droid"),
        r'\{type:("[a-z_]+"),[^{}]{0,300}session_id:',
        "$<{}>",
        DroidStream.line,
    ),
    Rule(
        *("gemini-stream", *_GEMINI, "package/dist/src/output/types.js"),
        r'JsonStreamEventType\["\w+"\] = ("\w+")',
        "$<{}>",
        GeminiStream.line,
    ),
    Rule(
        *("gemini-chat", *_GEMINI, "package/dist/src/services/chatRecordingTypes.d.ts"),
        r"^ {4}type: ((?:'\w+'(?: \| )?)+);",
        "$<{}>",
        GeminiChat.message,
    ),
    *(
        Rule(dialect, version, f"{scope}/{package}", version, f"package/dist/{file}", _OF_INTERFACE, "$<{}>", read)
        for version, scope in _PI
        for dialect, package, file, read in (
            ("pi-session", "pi-coding-agent", "core/session-manager.d.ts", PiSession.line),
            ("pi-json", "pi-coding-agent", "core/agent-session.d.ts", PiJson.line),
            ("pi-json", "pi-coding-agent", "modes/rpc/rpc-types.d.ts", PiJson.line),
            ("pi-json", "pi-agent-core", "types.d.ts", PiJson.line),
        )
    ),
    # Every record of the type `system` is read, or skipped, whatever its subtype.
    Rule(
        *("qwen-chat", *_QWEN),
        r'\.createBaseRecord\(("\w+")\)',
        "$<{}>",
        QwenChat.line,
    ),
    Rule(
        *("qwen-stream", *_QWEN),
        r'\.emitSystemMessage\(\s*("\w+")',
        "$<system/{}>",
        QwenStream.system,
    ),
)


def names_in(file: IO[bytes], expression: str) -> set[str]:
    """Return the names that an expression finds in a file."""
    pattern, found, rest = re.compile(expression.encode(), re.MULTILINE), set[str](), b""
    while piece := file.read(PIECE):
        text = rest + piece
        for match in pattern.finditer(text):
            found.update(re.findall(r"[\w.]+", b" ".join(match.groups()).decode()))
        # A line's beginning is one only behind a newline.
        rest = text[max(text.rfind(b"\n", 0, -LONGEST) + 1, len(text) - 2 * LONGEST) :]
    return found


def table(
    rules: Iterable[Rule], known: dict[str, dict[str, list[str]]], files_of: Open
) -> dict[str, dict[str, list[str]]]:
    """Return the table with the labels that rules find. `known`: the table until now. Raises `ValueError` for a rule
    that finds no name: the package has changed."""
    made: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        found = set[str]()
        for name, file in files_of(rule.package, rule.package_version):
            if fnmatch(name, rule.files):
                found |= names_in(file, rule.names)
        if not found:
            raise ValueError(f"{rule.package} {rule.package_version}: no type of {rule.dialect} in {rule.files}")
        unread = {rule.path.format(name) for name in found if not rule.read.knows(name)}
        print(f"{rule.dialect} {rule.version}: {len(found)} types in {rule.package}, {len(unread)} not read")
        made.setdefault((rule.dialect, rule.version), set()).update(unread)
    labels = {dialect: dict(versions) for dialect, versions in known.items()}
    for (dialect, version), unread in made.items():
        labels.setdefault(dialect, {}).pop(version, None)
        if unread:
            labels[dialect][version] = sorted(unread)
    return {dialect: dict(sorted(labels[dialect].items())) for dialect in sorted(labels) if labels[dialect]}


def _files_in(folder: Path) -> Open:
    """Files of packages, which are fetched into a folder."""

    @cache
    def fetched(package: str, version: str) -> Path:
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}"]
        name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
        return folder / name

    def files(package: str, version: str) -> Iterator[tuple[str, IO[bytes]]]:
        with tarfile.open(fetched(package, version)) as archive:
            for member in archive:
                if (file := archive.extractfile(member) if member.isfile() else None) is not None:
                    yield member.name, file

    return files


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = table(RULES, json.loads(LABELS.read_bytes()), _files_in(Path(folder)))
        except (ValueError, subprocess.CalledProcessError) as error:
            sys.exit(str(error))
    write_whole(LABELS, json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
