"""The table of skipped lines in docs/reference/dialects.md: what each class of them holds, and where that is shown.

What a person or another agent said, and what the model knows of a history that was summed up, is in no class: a line
that holds the only copy of it gives an event.
"""

from __future__ import annotations

from collections import defaultdict

from tooltap.normalizers.catalog.registry import builtin, parser_class

__all__ = ["HELD", "reasons", "table"]

OWN = frozenset({"display-tools", "happier-trace", "hooks", "legacy", "tooltap-trace"})
"""Dialects that hold lines of others, or tooltap's own."""

HELD = {
    "administration": "lists of sessions and agents that a client asks for",
    "answer": "answers to a client's requests about settings, lists and files",
    "api-request": "requests to the model, as sent: the history, which other lines have, and the tools",
    "atis-latch": "a switch of Claude Code",
    "attachment": "context for the model: the date, the environment, files named in a prompt, reminders, lists of"
    " tools, skills and agents",
    "auth": "logging in",
    "background-tasks": "the list of what runs in the background; each start and end has its own line",
    "blank": "nothing",
    "catalogue": "the skills, extensions and agents that there are",
    "client": "what concerns the client's window, its folders or another machine",
    "client-fs": "files that the agent reads and writes through the client; their calls show them",
    "client-mcp": "messages between the agent and MCP servers of the client; their calls show them",
    "client-terminal": "terminals of the client; their output is the result of a call",
    "command": "commands of a client about settings and state, and prompts, which the agent repeats",
    "compaction-start": "the start of a compaction; its end is a notice",
    "connection": "that a client has connected",
    "context-management": "summaries that wait to be used",
    "control": "a client's requests about settings, and their progress",
    "display": "what an agent or its extension draws in the terminal",
    "duplicate": "a text that another line has",
    "duplicate-call": "a call that another line has",
    "duplicate-request": "a request for permission that another line has",
    "duplicate-result": "a result that another line has",
    "early-result": "the end of a turn that goes on",
    "echo": "a prompt that the client's request has",
    "empty": "a message, thought or part without content, or only with encrypted content",
    "ended": "the end of a session in a file that may go on",
    "environment": "changes of the installation: plugins, models, language servers, projects",
    "extension": "methods that an agent adds to the protocol; `tooltap stats` counts them by name",
    "file-history": "copies of files, for undoing changes",
    "files": "that files have changed; the calls show it",
    "framing": "the frames of server-sent events",
    "goal-state": "the state of a goal, which is repeated",
    "handshake": "the exchange of versions and abilities",
    "heartbeat": "that the server is alive",
    "held": "a result that is emitted when the model's own line about it comes",
    "history": "what another session, or an earlier request, has",
    "hook": "that a hook runs",
    "hook-progress": "that a hook is still running",
    "hook-start": "that a hook starts; its end is a notice",
    "hook-started": "that a hook starts; its end is a notice",
    "housekeeping": "snapshots of the repository, the state of the client's list of threads, answers to questions that"
    " the call has, compactions that are encrypted",
    "keep-alive": "that the other side is there",
    "last-prompt": "the last prompt, which has a line of its own",
    "late-update": "changes of a call that has ended",
    "legacy-state": "markers of old files",
    "lost": "nothing: the line was too long, or was lost before it came",
    "mcp-loading": "that MCP servers start",
    "mcp-startup": "that MCP servers start; a failure is a notice",
    "message": "the head of a message, whose parts have lines of their own",
    "metadata": "the head of a file, and when it was written",
    "model-call": "requests to the model: their start, settings and answers, which other lines have",
    "no-usage": "a token count without tokens, or the limits of the account",
    "other-title": "a title of another session, or one that the user has replaced",
    "partial": "the pieces of a text, of arguments or of an output; subscribers who want them get them",
    "plan-display": "a plan that its call has",
    "progress": "states of a response that is being made",
    "prompt": "a prompt that the agent repeats",
    "prompt-context": "what an agent adds to prompts: instructions, the environment, skills, reminders, the prompt once"
    " more as the model gets it",
    "prompt-suggestion": "a prompt that Claude Code suggests to the user",
    "query": "answers to a client's questions about tools, skills and history",
    "queue": "the list of waiting prompts; each comes as a message when the model gets it",
    "queue-operation": "changes of the queue of prompts; a prompt that the model gets and no other line has is a"
    " message",
    "rate-limits": "a quota that states nothing new; reaching a limit is a notice",
    "redacted-thinking": "encrypted thoughts",
    "repeated": "what an earlier line has",
    "request": "requests of the client whose effect the agent states",
    "resolved": "that a request was answered, which its answer says",
    "response": "that a command of the client was taken",
    "retry-progress": "steps of a retry that is a notice already",
    "session-file": "entries of extensions and labels in a session's file",
    "session-metadata": "names, colours, tags and settings of Claude Code's lists of sessions and agents",
    "setting": "how much the model thinks",
    "settings": "tools, bindings and to-dos, as their calls left them",
    "settled": "that nothing is left to do",
    "snapshot": "the state of the files, for undoing changes",
    "stale-progress": "progress of a call that is not running",
    "stale-task": "the state of background work that is not known or has ended",
    "stale-turn": "how long a turn took that is not known",
    "started": "that an item starts, whose end has all of it",
    "status": "that a session is busy or idle, and other states of it",
    "step": "the start or end of a request to the model, without tokens",
    "subagent": "that a subagent starts or ends, which its call says",
    "subagent-result": "the end of a subagent, which its call says",
    "subagent-setup": "with what a subagent starts",
    "synthetic-prompt": "what Claude Code tells the model in the user's place: reminders, skills, expanded commands",
    "system": "records of Qwen Code's own: its screens, commands and notes",
    "telemetry": "measurements; requests that no message has are counted",
    "terminal": "terminals of the client",
    "todos": "that the to-dos have changed; the call has them",
    "tools-used": "the names of the tools that were used",
    "turn-end": "the end of a turn, which the answer to the prompt states",
    "turn-over": "the end of a turn that has ended",
    "unchanged": "a state that is as it was: tokens, settings, plans, diffs",
    "workspace": "that the folder, its files or the plan have changed; the calls show it",
    "world-state": "what the model knows of its surroundings",
}
"""Reason -> what such lines hold."""


def reasons() -> dict[str, list[str]]:
    """Map each reason to the dialects whose lines may be skipped for it, both in alphabetical order."""
    found = defaultdict(list)
    for name in sorted(builtin().keys() - OWN):
        for reason in parser_class(name).skip_reasons():
            found[reason].append(name)
    return dict(sorted(found.items()))


def table() -> str:
    """Return the table in Markdown."""
    number = len(builtin().keys() - OWN)
    rows = []
    for reason, names in reasons().items():
        if reason not in HELD:
            raise SystemExit(f"tests/kit/skips.py does not say what the lines hold that are skipped as {reason!r}")
        dialects = "all" if len(names) == number else ", ".join(f"`{name}`" for name in names)
        rows.append(f"| `{reason}` | {HELD[reason]} | {dialects} |")
    return "\n".join(["| reason | what the lines hold | dialects |", "|---|---|---|", *rows])
