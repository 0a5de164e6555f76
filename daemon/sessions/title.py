"""Titles of sessions. Where the agent gives none, it is the first prompt, without what programs have put around it, as
one short line."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec

from tooltap.normalizers.core.items import Produced

MAX_TITLE = 80
"""Code points of a title that is made of a prompt."""
READ = 16_384
"""Code points of a prompt that are read."""

_WRAPPERS = """
    additional_data attached_files bash-stderr bash-stdout collaboration_mode command-contents command-message
    environment_context environment_details ide_diagnostics ide_opened_file ide_selection instructions
    local-command-caveat local-command-stderr local-command-stdout multi_agent_mode multi_agent_role open_files
    permissions persisted-output session_context skill skills_instructions subagent_notification system
    system-reminder task-notification tools tools-used-before-summary turn_aborted user_instructions
    user-prompt-submit-hook
"""
_DROPPED = frozenset(_WRAPPERS.split())
"""Elements that are not the user's words."""
_UNWRAPPED = frozenset(("bash-input", "command-args", "command-name", "task", "user_message", "user_query"))
"""Elements whose content is."""
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]{1,40})([^<>\n]{0,200})>")
_PLACEHOLDER = re.compile(r"\[(?:Image|Pasted text)(?: #|: )[^\[\]\n]{1,200}\]")
_BEFORE_REQUEST = ("# Context from my IDE setup:", "## My request for Codex:")
_HEADER_OF_INSTRUCTIONS = "# AGENTS.md instructions"
_NOT_PROMPTS = ("Caveat: The messages below were generated", "[Request interrupted by user")


class Prompt(msgspec.Struct, omit_defaults=True):
    """The first prompt of a session's user. What says less of the session counts until there is better: a command alone
    (`/compact`), and then what a subagent was asked."""

    KINDS: ClassVar = ("message",)

    title: str = ""
    seq: int = 0
    rank: int = 0
    """0 is the best."""

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        if entry.fields.role != "user" or (self.title and not self.rank):
            return
        if title := title_of(entry.fields.text):
            is_command = title.startswith("/") and " " not in title
            self._keep(title, seq, 2 if entry.agent is not None else int(is_command))

    def absorb(self, earlier: Prompt) -> None:
        if earlier.title:
            self._keep(earlier.title, earlier.seq, earlier.rank)

    def _keep(self, title: str, seq: int, rank: int) -> None:
        if not self.title or (rank, seq) < (self.rank, self.seq):
            self.title, self.seq, self.rank = title, seq, rank


def name_of(row: dict[str, Any]) -> str:
    """Return the name by which a session is shown: its title, or else its project, or else its id. `row`: as in a
    `sessions` reply."""
    return row.get("title") or project_of(row) or str(row["session"])


def project_of(row: dict[str, Any]) -> str:
    """Return the name of a session's project: its folder, without the path; empty if it is not known."""
    return folder_name(str(row.get("project") or row.get("cwd") or ""))


def folder_name(path: str) -> str:
    return path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]


def title_of(prompt: str) -> str:
    """One line of at most `MAX_TITLE` code points, cut at a word; empty if the user said nothing in the prompt."""
    line = " ".join(words_of(prompt))
    if len(line) <= MAX_TITLE:
        return line
    cut = line[:MAX_TITLE].rfind(" ")
    return line[: cut if cut > MAX_TITLE // 2 else MAX_TITLE - 1] + "…"


def words_of(prompt: str) -> list[str]:
    """The words that the user said, without what programs have put around them; none if it is no prompt."""
    text = prompt[:READ].lstrip()
    if text.startswith(_NOT_PROMPTS):
        return []
    if text.startswith(_BEFORE_REQUEST[0]):
        text = text.partition(_BEFORE_REQUEST[1])[2] or text
    if text.startswith(_HEADER_OF_INSTRUCTIONS):
        text = text.partition("\n")[2]
    words = _PLACEHOLDER.sub(" ", _without_wrappers(text)).split()
    while words and not words[0].strip("#>*-"):
        del words[0]
    return words


def _without_wrappers(text: str) -> str:
    kept: list[str] = []
    reached = 0
    while (tag := _TAG.search(text, reached)) is not None:
        is_end, name, rest = tag.groups()
        key = name.lower()
        kept.append(text[reached : tag.start()])
        reached = tag.end()
        if key in _DROPPED and not is_end:
            end = f"</{name}{rest if key == 'permissions' else ''}>"
            found = text.find(end, reached)
            reached = len(text) if found < 0 else found + len(end)
        elif key in _DROPPED or key in _UNWRAPPED:
            kept.append(" ")
        else:
            kept.append(tag[0])
    kept.append(text[reached:])
    return "".join(kept)
