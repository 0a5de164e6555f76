"""The rules of the configuration that answer permission requests: `[[answers]]`. There are none by default.

A rule that denies wins, wherever it stands. Otherwise the first rule decides. Of a command with several parts, each
has to be allowed; what is more than simple commands (`commands.py`) only a rule allows that is not about commands.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.answers.commands import Part, Pattern, covers, parts_of, pattern_of, runs
from tooltap.daemon.sessions.listing import folder_of, project_of
from tooltap.normalizers.tools.registry import family_of

Verdict: TypeAlias = Literal["allow", "deny", "ask"]

PLAIN = {
    *("command", "commands", "cwd", "description", "timeout", "run_in_background", "reason", "parsed_cmd"),
    *("permission", "patterns", "metadata", "always"),
}
"""Keys of a call beside which its command is all that it does. Others may take it out of its sandbox, for example."""


class AnswerRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Which permission requests to answer, and how."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    """Who has answered, in the journal."""
    answer: Verdict
    """`ask` leaves it to a person."""
    tools: tuple[str, ...] = ()
    """Only requests for these tools, by their canonical names; empty: for all."""
    commands: tuple[str, ...] = ()
    """Only shell commands of one of these patterns; empty: any, and what is no command."""
    agents: tuple[str, ...] = ()
    """Only sessions of these agents; empty: of all."""
    projects: tuple[str, ...] = ()
    """Only sessions in these folders, or folders of these names; empty: in all."""
    message: Annotated[str, msgspec.Meta(max_length=10_000)] | None = None
    """With `deny`: the reason, for the agent."""

    def __post_init__(self) -> None:
        if self.answer == "allow" and not self.tools and not self.commands:
            raise ValueError("a rule that allows names `tools` or `commands`")
        if self.message is not None and self.answer != "deny":
            raise ValueError("`message` goes with the answer deny")
        for text in self.commands:
            try:
                pattern_of(text)
            except ValueError as error:
                raise ValueError(f"{text!r} is no pattern of a command: {error}") from None

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(map(pattern_of, self.commands))

    def is_about(self, tool: str | None, session: Mapping[str, Any]) -> bool:
        return (
            (not self.tools or tool in self.tools)
            and (not self.agents or session.get("provider") in self.agents)
            and (not self.projects or folder_of(session) in self.projects or project_of(session) in self.projects)
        )

    def may_cover(self, texts: Sequence[str]) -> bool:
        """Whether any text may run a command of the rule."""
        return not self.patterns or any(runs(pattern, text) for pattern in self.patterns for text in texts)

    def allows(self, part: Part) -> bool:
        return not self.patterns or any(covers(pattern, part) for pattern in self.patterns)


class Decision(NamedTuple):
    answer: Verdict
    rules: tuple[AnswerRule, ...] = ()
    """Those that have decided: several if they allow the parts of a command. None: no rule is about the request."""

    @property
    def by(self) -> str:
        """Return who has answered, for the journal."""
        return f"rule {', '.join(rule.name for rule in self.rules)}"


ASK = Decision("ask")


def decide(
    rules: Sequence[AnswerRule],
    request: Mapping[str, Any],
    session: Mapping[str, Any],
    call: Mapping[str, Any] | None = None,
) -> Decision:
    """Return what the rules say. `request`: the event `permission-request`; `session`: its row, as in a reply to
    `sessions`; `call`: the input of the call that it is about, which counts if the request states none."""
    about = [rule for rule in rules if rule.is_about(request.get("name"), session)]
    if not about or request.get("type") != "permission":
        return ASK
    given = _given(request, call)
    commands = list(_commands(given))
    texts = texts_of(request, call)
    for rule in about:
        if rule.answer == "deny" and rule.may_cover(texts):
            return Decision("deny", (rule,))
    is_shell = family_of(request.get("name")) == "shell"
    parts = _parts(commands) if is_shell and _is_plain(given, session) else None
    return _in_order([rule for rule in about if rule.answer != "deny"], texts, parts)


def _in_order(rules: Sequence[AnswerRule], texts: Sequence[str], parts: Sequence[Part] | None) -> Decision:
    """`parts`: those that have to be allowed; None: only a rule without commands can allow it."""
    left = parts
    used: list[AnswerRule] = []
    for rule in rules:
        if rule.answer == "ask":
            if rule.may_cover(texts):
                return Decision("ask", (rule,))
        elif not rule.patterns:
            return Decision("allow", (*used, rule))
        elif left is not None and (rest := [part for part in left if not rule.allows(part)]) != left:
            used.append(rule)
            left = rest
            if not left:
                return Decision("allow", tuple(used))
    return ASK


def texts_of(request: Mapping[str, Any], call: Mapping[str, Any] | None) -> list[str]:
    """Return the commands that a request is about, or else its title."""
    title = request.get("title")
    return list(_commands(_given(request, call))) or ([title] if isinstance(title, str) else [])


def _given(request: Mapping[str, Any], call: Mapping[str, Any] | None) -> dict[str, Any]:
    return _without_meta(request.get("input")) or _without_meta(call)


def _without_meta(given: Any) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key[:1] != "_"} if isinstance(given, Mapping) else {}


def _commands(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the shell commands of a call."""
    inner = given.get("metadata")
    for one in (given, inner if isinstance(inner, Mapping) else {}):
        command = one.get("command")
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = shlex.join(command)
        if isinstance(command, str):
            yield command
        if isinstance(several := one.get("commands"), list):
            yield from (command for command in several if isinstance(command, str))


def _parts(commands: Sequence[str]) -> list[Part] | None:
    found = [parts_of(command) for command in commands]
    read = [parts for parts in found if parts is not None]
    return [part for parts in read for part in parts] or None if len(read) == len(found) else None


def _is_plain(given: Mapping[str, Any], session: Mapping[str, Any]) -> bool:
    """Whether a call does nothing but run its command, in the session's folder or in one below it."""
    metadata = given.get("metadata")
    keys = {*given, *(metadata if isinstance(metadata, Mapping) else ())}
    if not keys <= PLAIN:
        return False
    if (folder := given.get("cwd")) is None:
        return True
    above = [one for one in (session.get("cwd"), session.get("project")) if isinstance(one, str) and one.strip("/")]
    if not isinstance(folder, str):
        return False
    path = posixpath.normpath(folder)
    return any(path == (top := posixpath.normpath(one)) or path.startswith(f"{top}/") for one in above)
