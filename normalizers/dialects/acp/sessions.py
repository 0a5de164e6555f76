"""Sessions of an ACP connection, and the state of its parser between lines, all of it bounded."""

from __future__ import annotations

import re
from typing import Any, TypeAlias
from zlib import crc32

import msgspec

from tooltap.normalizers.catalog.registry import original
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State, TextBuffer, is_short, learn, make_room
from tooltap.normalizers.wire.values import dollars, record, records, string, token_fields, whole
from tooltap.protocol.events import SessionEvent, Usage


class PendingRequest(msgspec.Struct, omit_defaults=True):
    """A JSON-RPC request without an answer so far."""

    method: str
    session: str | None = None
    turn: str | None = None
    """The turn that a prompt began."""
    params: dict[str, Any] = {}
    """Parameters that the answer confirms; short ones only."""
    id: Any = None
    """The JSON-RPC id, if the agent asks for something that a user answers."""


class AcpSession(msgspec.Struct, omit_defaults=True):
    """A session of the connection."""

    cwd: str | None = None
    model: str | None = None
    mode: str | None = None
    title: str | None = None
    commands: int | None = None
    """CRC of the commands' names."""
    usage: tuple[int | None, int | None, float | None] = (None, None, None)
    """Context used, context size, cost in dollars, as last reported."""
    inherited: float = 0.0
    """The part of the reported cost that is of the session from which this one was forked, in dollars."""
    counter: str | None = None
    """What the reported cost covers, if the session showed it."""
    prompted: bool = False
    """A prompt was sent to it in this connection."""
    total: dict[str, int] | None = None
    """Tokens that the last answer to a prompt stated, by field, if answers state totals."""
    state: str | None = None
    """The session's state in the agent's word, as last reported."""
    own_turn: str | None = None
    """The open turn that no prompt began."""
    loading: bool = False
    """The agent replays the session's history."""
    loaded: bool = False
    """The session was loaded, and the client has sent no prompt since."""
    stopping: bool = False
    """True once the client has asked to stop the turn, until its next prompt."""
    cutting: bool = False
    """The client asked to stop while a call was running."""
    todos: int | None = None
    """CRC of the last shown to-do list."""
    last_message: str | None = None
    """Id of the last message that arrived in chunks."""


class Terminal(msgspec.Struct, omit_defaults=True):
    """A terminal that the client or the agent runs for a call."""

    call_id: str | None = None
    """The call whose content embeds it."""
    printed: TextBuffer = msgspec.field(default_factory=TextBuffer)
    exit_code: int | None = None
    signal: str | None = None


class EarlyResult(msgspec.Struct):
    """A result that came before its call, and was read without knowing the tool."""

    event: str
    update: dict[str, Any]


class AcpState(State, kw_only=True):
    sessions: dict[str, AcpSession] = msgspec.field(default_factory=dict)
    children: dict[str, str] = msgspec.field(default_factory=dict)
    """Session of a subagent -> root session."""
    agents: dict[str, str] = msgspec.field(default_factory=dict)
    """Subagent -> id of the call that spawned it, where the wire states only the subagent."""
    requests: dict[str, PendingRequest] = msgspec.field(default_factory=dict)
    """`<side that asked>:<JSON-RPC id>` -> request."""
    tasks: dict[str, str] = msgspec.field(default_factory=dict)
    """`<session>/<command or subagent in the background>` -> id of the call that started it."""
    terminals: dict[str, Terminal] = msgspec.field(default_factory=dict)
    servers: list[str] = msgspec.field(default_factory=list)
    """Names of the MCP servers that sessions were set up with."""
    client_seen: bool = False
    """The client's side is on the wire, too."""
    agent_version: str | None = None
    protocol_version: int = 1
    queues_prompts: bool = False
    """The agent takes a prompt during a turn; others would end the turn, or refuse the prompt."""
    plans: int = 0
    """Number of plans that came without a call."""
    early: dict[str, EarlyResult] = msgspec.field(default_factory=dict)
    """`<session>/<call>` -> its result, which came before the call."""


SESSIONS = 64
SERVERS = 256

_OUTCOMES = {"cancelled": "cancelled", "error": "failed", "max_turn_requests": "failed", "refusal": "failed"}
"""Stop reason -> outcome of the turn, unless it completed."""
_TOKENS = (
    ("inputTokens", "input_tokens"),
    ("outputTokens", "output_tokens"),
    ("cachedReadTokens", "cachedInputTokens", "cached_tokens"),
    ("cachedWriteTokens", "cacheWriteInputTokens"),
    ("thoughtTokens", "reasoningOutputTokens", "thoughts_tokens"),
    ("totalTokens", "total_tokens"),
)
"""Keys of the arguments of `token_fields`."""
_PROVIDERS = {
    "claude-agent": "claude",
    "claude-code": "claude",
    "gemini-cli": "gemini",
    "codex-cli": "codex",
    "qwen-code": "qwen",
    "kimi-cli": "kimi",
    "kimi-code": "kimi",
    "kimi-code-cli": "kimi",
    "mistral-vibe": "vibe",
    "github-copilot": "copilot",
    "copilot-cli": "copilot",
}
"""Name an agent gives itself, without scope and `-acp` -> the name its other streams have."""
_LOGINS = {
    "claude-login": "claude",
    "codex-api-key": "codex",
    "copilot-login": "copilot",
    "cursor_login": "cursor",
    "gemini-api-key": "gemini",
    "kilo-login": "kilo",
    "opencode-login": "opencode",
    "qwen-oauth": "qwen",
}
"""Id of a way to log in -> provider, for agents that do not state their name."""
_Covers: TypeAlias = dict[str, tuple[tuple[tuple[int, ...], str], ...]]
"""Provider -> (first version, what a figure covers), the newest version first."""
_COSTS: _Covers = {
    # The first with Claude Code 2.1.277 or later, which continues its counters, also in a fork.
    "claude": (((0, 80), "lineage"), ((0,), "process")),
    "codex": (((0,), "process"),),
    "opencode": (((0,), "lineage"),),
}
"""What the cost of `usage_update` covers: a `counter`."""
_ANSWERS: _Covers = {
    "codex": (((2,), "turn"), ((0,), "step")),
    "copilot": (((0,), "process"),),
    "opencode": (((0,), "step"),),
    "vibe": (((0,), "session"),),
}
"""What the tokens in the answer to a prompt cover: the turn, its last request (`step`), or all turns of the process or
session. The protocol was changed from all turns to one."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


def provider_name(agent: str) -> str:
    """Normalize an agent's name: `@agentclientprotocol/claude-agent-acp` -> claude, `OpenCode` -> opencode; any other
    name becomes a slug."""
    slug = _NOT_IN_SLUG.sub("-", agent.rpartition("/")[2].lower()).strip("-")
    slug = slug.removesuffix("-acp") or slug
    return _PROVIDERS.get(slug, slug)


def covered(figures: _Covers, provider: str | None, version: str | None) -> str | None:
    """What a figure of this version of an agent covers; None if that is not known."""
    stated = tuple(int(part) for part in _NUMBER.findall(version or "")[:3])
    known = figures.get(original(provider or ""), ())
    return next((covers for first, covers in known if stated >= first), None)


class AcpSessions:
    """Sessions of an ACP connection: set-up, changes, turns, and requested changes whose confirmation is pending.

    A turn runs from a prompt to its answer, in v2 to the state `idle`. Where only the agent's side is on the wire, or
    the agent acts on its own, content opens a turn.
    """

    request = Lines("method")
    answer = Lines("method")
    update = Lines("sessionUpdate")

    def __init__(self, parser: Parser, state: AcpState) -> None:
        self._parser = parser
        self._state = state

    @property
    def info(self) -> AcpSession:
        """The session that the line belongs to."""
        sessions, session = self._state.sessions, self._parser.session
        try:
            info: AcpSession = sessions[session]
        except KeyError:
            make_room(sessions, SESSIONS)
            # Before the answer to a fork, a new session can only be the fork, to which nothing was sent so far.
            is_fork = any(asked.method == "session/fork" for asked in self._state.requests.values())
            info = sessions[session] = AcpSession(loading=is_fork)
        return info

    def enter(self, session_id: Any) -> None:
        """Set the line's scope. A subagent's session is part of its root session."""
        if not isinstance(session_id, str) or not session_id:
            return
        state = self._state
        root = state.children.get(session_id)
        if root is not None:
            self._parser.set_session(root or session_id)
            self._parser.agent = session_id
        elif session_id != state.session:
            self._parser.set_session(session_id)
        else:
            self._parser.session = session_id
        info = self.info
        state.cwd = info.cwd
        self._parser.replay = info.loading

    def expect(self, key: str, **params: Any) -> None:
        """Remember the parameters that the answer to this request will confirm."""
        if key in self._state.requests:
            self._state.requests[key].params = params

    def end_block(self) -> bool:
        """End the model's answer, and with it a text without a message id. Returns whether there was one."""
        opened = self._state.texts.open
        if not opened or self.info.last_message is not None:
            return False
        before = len(opened)
        self._parser.texts.flush()
        return len(opened) < before

    # -- turns --------------------------------------------------------------------------------------------------

    @property
    def is_prompted(self) -> bool:
        """Whether a prompt on the wire began the running turn."""
        return self._parser.turn is not None and self._parser.turn != self.info.own_turn

    def begin_prompted_turn(self) -> str:
        """Start the turn of a prompt; a turn that no prompt began ends."""
        info = self.info
        if info.own_turn is not None or (info.loaded and info.loading):
            self.end_history()
        info.loaded = False
        info.stopping = info.cutting = False
        info.prompted = True
        return self._parser.start_turn()

    def ensure_turn(self) -> None:
        """Open a turn for content outside of any, unless it is replayed."""
        if not self._parser.replay and self._parser.turn is None:
            self.info.own_turn = self._parser.start_turn(synthetic=True)

    def end_stopped_turn(self, stated: Line, turn_id: str | None = None) -> None:
        """End a turn as the agent states it: its stop reason, and the tokens it used."""
        reason, usage = stated.get("stopReason"), self._used_by_prompt(stated)
        before = ((Usage, usage),) if usage is not None else ()
        # Not every agent has the protocol's word for it.
        outcome = "cancelled" if self.info.cutting else _OUTCOMES.get(str(reason), "completed")
        self.end_running_turn(outcome, turn_id, reason=string(reason), before=before)

    def _used_by_prompt(self, stated: Line) -> dict[str, Any] | None:
        """The usage in the answer to a prompt. Of a total, what it has beyond the one before."""
        usage, info = read_usage(stated, "turn"), self.info
        covers = covered(_ANSWERS, self._parser.provider, self._state.agent_version)
        if usage is None or covers in (None, "turn"):
            return usage
        if covers == "step":
            return {**usage, "scope": covers}
        total = {field: count for field, count in usage.items() if type(count) is int}
        before = info.total
        if before is None and covers == "session":
            return {**usage, "scope": "session", "counter": covers}
        info.total = total
        rest = {field: count - (before or {}).get(field, 0) for field, count in total.items()}
        fell = any(count < 0 for count in rest.values())
        return usage if fell else {**usage, **rest}

    def end_running_turn(self, outcome: str, turn_id: str | None, **fields: Any) -> None:
        """End the named turn, else the oldest one. `fields`: those of `end_turn`."""
        self._parser.end_turn(outcome, turn_id=turn_id, **fields)
        info = self.info
        if turn_id in (None, info.own_turn):
            info.own_turn = None

    def read_late_history(self) -> None:
        """Begin the history of a loaded session, which some agents replay after the answer (Hermes 0.19): what a user
        said is history as long as the client has sent no prompt."""
        info = self.info
        if info.loaded and not info.loading:
            self._parser.texts.flush()
            info.loading = self._parser.replay = True

    def end_history(self) -> None:
        """End everything that is open in a replayed session."""
        info = self.info
        if info.loading:
            self._parser.texts.flush()
            self._parser.calls.close_turn(self._parser.session, None, None, "interrupted")
            info.loading = self._parser.replay = False
        elif info.own_turn is not None:  # the request is not on the wire, and the history looked like content
            self.end_running_turn("completed", info.own_turn, synthetic=True)

    # -- setting up ---------------------------------------------------------------------------------------------

    @answer("initialize")
    def _initialized(self, result: Line, asked: PendingRequest, key: str) -> Skip:
        """The agent states who it is; the events of its sessions carry it."""
        state, agent = self._state, record(result.get("agentInfo") or result.get("info"))
        logins = (_LOGINS.get(str(method.get("id"))) for method in records(result.get("authMethods")))
        name = string(agent.get("name"))
        provider = provider_name(name) if name else next(filter(None, logins), None)
        if provider is not None:
            self._parser.set_provider(provider)
        state.agent_version = string(agent.get("version")) or state.agent_version
        state.protocol_version = whole(result.get("protocolVersion")) or state.protocol_version
        extensions = record(record(result.get("agentCapabilities")).get("_meta"))
        state.queues_prompts = record(extensions.get("claudeCode")).get("promptQueueing") is True
        return None if agent else "handshake"

    @request("session/new", "session/fork")
    def _set_up(self, params: Line, key: str) -> None:
        names = [one.get("name") for one in records(params.get("mcpServers"))][:SERVERS]
        short, servers, cwd = [name for name in names if is_short(name)], self._state.servers, params.get("cwd")
        servers += [name for name in short if name not in servers]
        del servers[:-SERVERS]
        # claude-agent-acp resumes and forks a session with the options of Claude Code's SDK, too.
        options = record(record(record(params.get("_meta")).get("claudeCode")).get("options"))
        resume = options.get("resume")
        self.expect(
            key,
            cwd=cwd if is_short(cwd) else None,
            servers=short,
            resume=resume if is_short(resume) else None,
            fork=options.get("forkSession") is True,
        )

    @request("session/load", "session/resume")
    def _load(self, params: Line, key: str) -> None:
        if isinstance(params.get("sessionId"), str):
            self.info.loading = True
        self._set_up(params, key)

    @answer("session/new")
    def _began(self, result: Line, asked: PendingRequest, key: str) -> None:
        self.enter(result.get("sessionId"))
        earlier = asked.params.get("resume")
        if earlier is None:
            self._emit_set_up("started", asked.params, result)
        elif earlier == self._parser.session:
            self._emit_set_up("resumed", asked.params, result)
        else:
            origin = "forked_from" if asked.params.get("fork") else "resumes"
            self._emit_set_up("started", asked.params, result, **{origin: earlier})

    @answer("session/fork")
    def _forked(self, result: Line, asked: PendingRequest, key: str) -> None:
        parent, cost = self._parser.session, self.info.usage[2]
        self.enter(result.get("sessionId"))
        if self.info.loading:
            self.end_history()
        if self._counter == "lineage":
            self.info.inherited = cost or 0.0
        self._emit_set_up("started", asked.params, result, forked_from=parent)

    @answer("session/load", "session/resume")
    def _loaded(self, result: Line, asked: PendingRequest, key: str) -> None:
        wanted = self._parser.session
        self.end_history()
        self.enter(result.get("sessionId"))
        self.info.loaded = True
        resumes = wanted if asked.session is not None and wanted != self._parser.session else None
        self._emit_set_up("resumed", asked.params, result, resumes=resumes)

    def _emit_set_up(self, state: str, asked: dict[str, Any], result: Line, **origin: str | None) -> None:
        info = self.info
        info.cwd = self._state.cwd = asked.get("cwd") or info.cwd
        changes = self._configured(result)
        servers = [{"name": name} for name in asked.get("servers", [])] or None
        version = self._state.agent_version
        self._parser.emit(
            SessionEvent, state=state, cwd=info.cwd, agent_version=version, mcp_servers=servers, **origin, **changes
        )

    @answer("session/close")
    def _closed(self, result: Line, asked: PendingRequest, key: str) -> None:
        self._parser.emit(SessionEvent, state="ended")

    # -- changes ------------------------------------------------------------------------------------------------

    @request("session/set_config_option", "session/set_mode", "session/set_model", "session/set_title")
    def _change(self, params: Line, key: str) -> Skip:
        """A client wants another mode, model, title or option; the answer confirms it."""
        wanted = {"mode": params.get("modeId"), "model": params.get("modelId"), "title": params.get("title")}
        self.expect(key, **{name: value for name, value in wanted.items() if is_short(value)})
        return "request"

    @answer("session/set_config_option", "session/set_mode", "session/set_model", "session/set_title")
    def _changed(self, result: Line, asked: PendingRequest, key: str) -> Skip:
        return self._parser.update_session({**learn(self.info, **asked.params), **self._configured(result)})

    @update("available_commands_update", "config_option_update", "current_mode_update")
    def _reconfigured(self, update: Line) -> Skip:
        return self._parser.update_session(self._configured(update))

    @update("session_info_update")
    def _described(self, update: Line) -> Skip:
        """The title, and codex-acp's reports about the thread."""
        info = self.info
        changes = learn(info, title=update["title"]) if "title" in update else {}
        codex = record(update["_meta"]).get("codex") if "_meta" in update else None
        has_reported = type(codex) is dict and self._report_codex(codex)
        skip = self._parser.update_session(changes)
        return None if has_reported else skip

    def _configured(self, result: Line) -> dict[str, Any]:
        """Changes of the mode, model or commands in an update or an answer: field -> new value."""
        mode = (record(result.get("modes")) or result).get("currentModeId")
        model = record(result["models"]).get("currentModelId") if "models" in result else None
        # The options are the newer way to state the same, and what later updates repeat.
        for option in records(result.get("configOptions")):
            category = option.get("category")
            if category == "mode":
                mode = option.get("currentValue")
            elif category == "model":
                model = option.get("currentValue")
        info = self.info
        new = {} if mode is None and model is None else learn(info, mode=mode, model=model)
        commands = result.get("availableCommands")
        if type(commands) is list:
            names = []
            for one in commands:
                if type(one) is dict and type(name := one.get("name")) is str and name:
                    names.append(name)
            digest = crc32(msgspec.json.encode(names))
            if digest != info.commands:
                info.commands = digest
                new["commands"] = names
        return new

    def _report_codex(self, codex: Line) -> bool:
        """codex-acp 2.6.0: an error it will retry, and a thread that failed, whose turn then ends as completed."""
        if error := record(codex.get("error")):
            code, level = ("retry", "warning") if error.get("willRetry") is True else ("provider-error", "error")
            self._parser.notice(code, str(error.get("additionalDetails") or error.get("message")), level, error)
            return True
        status, info = record(codex.get("threadStatus")), self.info
        kind = string(status.get("type"))
        if kind is None or kind == info.state:
            return False
        info.state = kind
        if kind != "systemError":
            return False
        self._parser.notice("provider-error", kind, "error", status)
        return True

    @update("usage_update")
    def _used(self, update: Line) -> Skip:
        """The context window, and the session's cost so far."""
        info, cost, stated = self.info, update.get("cost"), None
        if type(cost) is dict and cost.get("currency") == "USD":
            stated = dollars(cost.get("amount"))
        usage = (whole(update.get("used")), whole(update.get("size")), info.usage[2] if stated is None else stated)
        ended = self.end_block()
        if info.total is None and type(meta := update.get("_meta")) is dict and "promptTokens" in meta:
            info.total = _vibe_total(meta)
        if usage == info.usage:
            return None if ended else "unchanged"
        info.usage = usage
        if stated and not info.prompted and self._state.client_seen:  # of prompts of an earlier process
            info.counter = "session"
        total = None if usage[2] is None else max(0.0, usage[2] - info.inherited)
        counter = None if total is None else self._counter
        self._parser.emit(
            Usage, scope="session", context_used=usage[0], context_size=usage[1], cost_usd=total, counter=counter
        )
        return None

    @property
    def _counter(self) -> str | None:
        """What the reported cost covers: known by agent and version, else shown by the session."""
        return covered(_COSTS, self._parser.provider, self._state.agent_version) or self.info.counter


def _vibe_total(meta: Line) -> dict[str, int]:
    """Tokens of the session so far (Vibe 3.0.2)."""
    counts = {
        "input_tokens": whole(meta.get("promptTokens")),
        "output_tokens": whole(meta.get("completionTokens")),
        "cache_read_tokens": whole(meta.get("cachedTokens")),
    }
    return {field: count for field, count in counts.items() if count is not None}


def read_usage(result: Line, scope: str) -> dict[str, Any] | None:
    """The tokens in the answer to a prompt, or in `_meta` of a chunk: `usage`, else `_meta.quota` (Gemini CLI).

    claude-agent-acp and codex-acp exclude the cache from the input; OpenCode also excludes the thoughts from the
    output. Without a total that shows which, the protocol's rule holds: the total is the sum of all kinds.
    """
    stated = record(result.get("usage") or record(record(result.get("_meta")).get("quota")).get("token_count"))
    if not stated:
        return None
    tokens: list[int | None] = []
    for keys in _TOKENS:
        count = None
        for key in keys:
            if key in stated and (count := whole(stated[key])) is not None:
                break
        tokens.append(count)
    return None if tokens[0] is None and tokens[1] is None else {"scope": scope, **token_fields(*tokens)}
