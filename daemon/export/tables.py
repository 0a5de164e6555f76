"""The tables of `sqlite` and `parquet` exports: their columns, keys and indexes, in one place for both formats."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

VERSION = 1
"""Version of the tables; a column that is added does not change it."""

Kind: TypeAlias = Literal["text", "integer", "number", "boolean", "time", "json"]
"""What a column has: `time` is a time in UTC; `json` is a JSON text."""


class Column(NamedTuple):
    name: str
    kind: Kind
    about: str
    """What it means: a sentence of the reference page, without its end."""


class Reference(NamedTuple):
    """A foreign key."""

    columns: tuple[str, ...]
    table: str
    to: tuple[str, ...]


class Table(NamedTuple):
    name: str
    about: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    references: tuple[Reference, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


_OF_SESSION = Reference(("session",), "sessions", ("session",))
_OF_TURN = Reference(("session", "turn"), "turns", ("session", "number"))
_SESSION = Column("session", "text", "The session")
_TURN = Column("turn", "integer", "Number of the turn; empty outside of turns")
_SEQ = Column("seq", "integer", "The event's cursor in the journal; in a recording, its number")
_STREAM = Column("stream", "text", "The stream that reported it")
_SUBAGENT = Column("subagent", "text", "Id of the subagent; empty for the main agent")
_TOKENS = (
    Column("input_tokens", "integer", "The whole prompts, with what the cache had"),
    Column("output_tokens", "integer", "With the reasoning"),
    Column("cache_read_tokens", "integer", "The part of the input that was read from the cache"),
    Column("cache_write_tokens", "integer", "The part of the input that was written to the cache"),
    Column("reasoning_tokens", "integer", "The part of the output that is reasoning"),
    Column("estimated_output_tokens", "integer", "An estimate of the output, where the stated one is a lower bound"),
)
_COST_USD = Column("cost_usd", "number", "Dollars, of the tokens whose cost is known")
_COST_COMPLETE = Column("cost_complete", "boolean", "The cost of all tokens is known")
_COST_ESTIMATED = Column("cost_estimated", "boolean", "The cost, or a part of it, was computed from prices")

TABLES: tuple[Table, ...] = (
    Table(
        "sessions",
        "The sessions, with the figures of the command `sessions`",
        ("session",),
        (
            Column("session", "text", "Its id"),
            Column("agent", "text", "The name of the agent"),
            Column("agent_version", "text", "Its version"),
            Column("model", "text", "The model that was used last"),
            Column("models", "json", "All models, in the order of their first use"),
            Column("title", "text", "The agent's title, else the beginning of the first prompt"),
            Column("project", "text", "Folder of the repository, or the folder in which the session started"),
            Column("cwd", "text", "The latest working directory"),
            Column("branch", "text", "The branch of the repository"),
            Column("parent", "text", "The session that started this one, which need not be in the file"),
            Column("forked_from", "text", "The session whose history this one begins with"),
            Column("resumes", "text", "The session that this one continues under a new id"),
            Column("status", "text", "`completed`, `failed`, `interrupted`, `running`, `waiting` or `unknown`"),
            Column("empty", "boolean", "Nothing was asked, said or done"),
            Column("started_at", "time", "Time of its first event"),
            Column("ended_at", "time", "Time of its latest event"),
            Column("duration_ms", "integer", "Milliseconds of work: the sum of its turns"),
            Column("events", "integer", "Number of events, without repeated history"),
            Column("turns", "integer", "Number of turns of the main agent"),
            Column("calls", "integer", "Number of calls"),
            Column("errors", "integer", "Number of calls and turns that failed"),
            Column("files", "integer", "Number of files that its calls have changed, of the first 500"),
            Column("lines_added", "integer", "Lines that its calls have added"),
            Column("lines_removed", "integer", "Lines that its calls have removed"),
            *_TOKENS,
            _COST_USD,
            _COST_ESTIMATED,
            _COST_COMPLETE,
            Column("cost_model", "text", "The models whose prices an estimate uses"),
            Column("context_used", "integer", "Tokens in the main agent's context window"),
            Column("context_size", "integer", "Size of this window, in tokens"),
        ),
        indexes=(("project",), ("started_at",), ("parent",)),
    ),
    Table(
        "turns",
        "The turns of the main agent, from a prompt to the end of the answer. Tokens and costs are those of subagents, "
        "too, and each counts once: what a session's figure has beyond the sum of its turns was used before the first",
        ("session", "number"),
        (
            _SESSION,
            Column("number", "integer", "From 1 in each session"),
            Column("prompt", "text", "First line of the prompt"),
            Column("state", "text", "`completed`, `failed`, `cancelled`, or `started` while it is open"),
            Column("ended_by", "text", "How the end is known: `provider`, `answer` or `eof`"),
            Column("reason", "text", "Reason of the end, in the agent's words"),
            Column("started_at", "time", "Time of its start"),
            Column("ended_at", "time", "Time of its end, or of its latest work"),
            Column("duration_ms", "integer", "Milliseconds, as the agent states them or by these times"),
            _SEQ,
            *_TOKENS,
            _COST_USD,
            _COST_ESTIMATED,
            _COST_COMPLETE,
        ),
        (_OF_SESSION,),
    ),
    Table(
        "calls",
        "The tool calls, each with its result",
        ("session", "id"),
        (
            Column("id", "text", "Id of the event"),
            _SESSION,
            _TURN,
            _SEQ,
            _STREAM,
            Column("call_id", "text", "Id of the call in its stream"),
            _SUBAGENT,
            Column("parent_call", "text", "`call_id` of the call that started the subagent"),
            Column("tool", "text", "The canonical tool"),
            Column("raw_tool", "text", "The agent's name of the tool, if it differs"),
            Column("family", "text", "`shell`, `read`, `edit`, `search`, `web`, `task`, `plan`, `mcp` or `other`"),
            Column("title", "text", "What the agent calls it"),
            Column("preview", "text", "The one argument that identifies it"),
            Column("status", "text", "Of the result; without one `pending`, `running` or `awaiting-permission`"),
            Column("permission", "text", "`allowed`, `denied`, …: the latest answer to a request for it"),
            Column("error", "text", "Why it did not complete"),
            Column("started_at", "time", "Time of the call"),
            Column("ended_at", "time", "Time of its result"),
            Column("duration_ms", "integer", "Milliseconds, as the agent states them, or between these times"),
            Column("wait_ms", "integer", "How much of it the call waited for the user"),
            Column("input", "json", "The arguments, as the schema of the canonical tool has them"),
            Column("input_cut", "boolean", "`input` is shortened"),
            Column("output", "json", "The output of its result"),
            Column("output_cut", "boolean", "`output` is shortened"),
        ),
        (_OF_SESSION, _OF_TURN),
        (("session", "turn"), ("session", "call_id"), ("tool", "status"), ("started_at",)),
    ),
    Table(
        "messages",
        "What the user and the model said, and the model's reasoning",
        ("session", "id"),
        (
            Column("id", "text", "Id of the event"),
            _SESSION,
            _TURN,
            _SEQ,
            _STREAM,
            _SUBAGENT,
            Column("kind", "text", "`message` or `reasoning`"),
            Column("role", "text", "`user`, `assistant` or `system`"),
            Column("said_at", "time", "Its time"),
            Column("text", "text", "The text"),
            Column("text_bytes", "integer", "Length of the whole text in bytes"),
            Column("text_cut", "boolean", "`text` is shortened"),
            Column("attachments", "integer", "Number of images and documents, which are not in the file"),
        ),
        (_OF_SESSION, _OF_TURN),
        (("session", "turn"), ("said_at",)),
    ),
    Table(
        "usage",
        "Tokens and costs, each once: what one model used for one agent in a span of time. Their sums are those of "
        "the command `usage`",
        ("session", "part"),
        (
            _SESSION,
            Column("part", "integer", "From 1 in each session"),
            _SUBAGENT,
            Column("model", "text", "The model, if it is known"),
            Column("day", "text", "The day (UTC) of the middle of the span"),
            Column("started_at", "time", "Start of the span"),
            Column("minutes", "integer", "Length of the span: 15, or more in sessions that took long"),
            *_TOKENS,
            Column("cost_usd", "number", "Dollars; empty if the cost is not known"),
            _COST_ESTIMATED,
            Column("cost_model", "text", "The model whose price an estimate uses"),
        ),
        (_OF_SESSION,),
        (("day",), ("model",)),
    ),
    Table(
        "files",
        "The files that calls have changed, by quarters of an hour, with the figures of the command `files`",
        ("session", "path", "part"),
        (
            _SESSION,
            Column("path", "text", "Path, absolute if the session's directory is known"),
            Column("part", "integer", "From 1 for each file of a session"),
            Column("changed_at", "time", "Time of the latest change"),
            Column("seq", "integer", "`seq` of the call that made it"),
            Column("changes", "integer", "Number of calls"),
            Column("lines_added", "integer", "Lines that they have added"),
            Column("lines_removed", "integer", "Lines that they have removed"),
        ),
        (_OF_SESSION,),
        (("path",),),
    ),
    Table(
        "permissions",
        "What agents asked the user, with the answers",
        ("session", "id"),
        (
            Column("id", "text", "Id of the event"),
            _SESSION,
            _TURN,
            _SEQ,
            _STREAM,
            Column("permission_id", "text", "Id of the request in its stream"),
            Column("call_id", "text", "`call_id` of the call that it is for"),
            _SUBAGENT,
            Column("type", "text", "`permission`, `question` or `elicitation`"),
            Column("tool", "text", "The canonical tool"),
            Column("title", "text", "What is asked, in the agent's words"),
            Column("asked_at", "time", "Time of the request"),
            Column("answered_at", "time", "Time of the answer"),
            Column("outcome", "text", "`allowed`, `denied`, `cancelled`, `answered` or `expired`; empty: none yet"),
            Column("answered_by", "text", "`user`, `policy`, `hook` or `agent`, if the stream states it"),
        ),
        (_OF_SESSION, _OF_TURN),
        (("session",), ("outcome",)),
    ),
    Table(
        "notes",
        "What is missing in the file, and what was masked",
        ("number",),
        (
            Column("number", "integer", "From 1"),
            Column("kind", "text", "`gap`, `left-out` or `remark`"),
            Column("source", "text", "The session or the recording that it is about; empty for all"),
            Column("first_seq", "integer", "First event of a gap"),
            Column("last_seq", "integer", "Last event of a gap"),
            Column("text", "text", "A sentence"),
        ),
    ),
    Table(
        "about",
        "The file itself",
        ("key",),
        (
            Column("key", "text", "`tables` (the version of the tables), `tooltap`, `written_at`, `masked`"),
            Column("value", "text", "The value"),
        ),
    ),
)
