"""Sessions of an ACP connection: who the agent is, what a session was set up with, and what changes about it."""

from __future__ import annotations

import re
import zlib
from typing import Any, TypeGuard

import msgspec

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.acp.state import SERVERS, SESSIONS, AcpState, SessionInfo
from tooltap.normalizers.wire.values import number, record, records, string, whole
from tooltap.protocol.events import Notice, SessionEvent, Usage

__all__ = ["Sessions", "provider_name", "usage_fields"]

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
    "opencode-login": "opencode",
    "qwen-oauth": "qwen",
}
"""Id of a way to log in -> whose it is: all that agents say who do not give their name."""
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")
SHORT = 4_096
"""Characters of a name, a title or a path that is worth remembering."""


def provider_name(agent: str) -> str:
    """`@agentclientprotocol/claude-agent-acp` -> claude, `OpenCode` -> opencode; another name as a slug."""
    slug = _NOT_IN_SLUG.sub("-", agent.rpartition("/")[2].lower()).strip("-")
    slug = slug.removesuffix("-acp") or slug
    return _PROVIDERS.get(slug, slug)


class Sessions:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state: AcpState = parser.state

    @property
    def info(self) -> SessionInfo:
        """The session the line belongs to."""
        sessions = self._state.sessions
        session = self._parser.session
        if session not in sessions:
            while len(sessions) >= SESSIONS:
                del sessions[next(iter(sessions))]
            sessions[session] = SessionInfo()
        return sessions[session]

    def enter(self, session_id: Any) -> None:
        """Set the line's scope: a subagent's session is part of its root."""
        if not isinstance(session_id, str) or not session_id:
            return
        parser = self._parser
        root = self._state.children.get(session_id)
        parser.set_session(root or session_id)
        if root is not None:
            parser.agent = session_id
        info = self.info
        self._state.cwd = info.cwd
        parser.replay = info.loading

    # -- setting up ---------------------------------------------------------------------------------------------

    def initialized(self, result: dict[str, Any]) -> str:
        """The agent says who it is; its sessions carry it."""
        agent = record(result.get("agentInfo") or result.get("info"))
        logins = (_LOGINS.get(str(method.get("id"))) for method in records(result.get("authMethods")))
        state = self._state
        if name := string(agent.get("name")):
            self._parser.set_provider(provider_name(name))
        elif provider := next(filter(None, logins), None):
            self._parser.set_provider(provider)
        state.agent_version = string(agent.get("version")) or state.agent_version
        state.protocol_version = whole(result.get("protocolVersion")) or state.protocol_version
        return WITH_EVENTS if agent else skip("handshake")

    def set_up(self, params: dict[str, Any]) -> dict[str, Any]:
        """Read a request that sets up a session; gives what its answer will confirm."""
        names = [one.get("name") for one in records(params.get("mcpServers"))][:SERVERS]
        short = [name for name in names if _is_short(name)]
        servers = self._state.servers
        servers += [name for name in short if name not in servers]
        del servers[:-SERVERS]
        cwd = params.get("cwd")
        return {"cwd": cwd if _is_short(cwd) else None, "servers": short}

    def began(self, state: str, asked: dict[str, Any], result: dict[str, Any]) -> str:
        """The agent answered: the session is there."""
        info = self.info
        info.cwd = asked.get("cwd") or info.cwd
        self._state.cwd = info.cwd
        changes = self._configured(result)
        servers = [{"name": name} for name in asked.get("servers", [])]
        self._parser.emit(
            SessionEvent,
            state=state,
            cwd=info.cwd,
            agent_version=self._state.agent_version,
            mcp_servers=servers or None,
            **changes,
        )
        return WITH_EVENTS

    # -- changes ------------------------------------------------------------------------------------------------

    def configured(self, result: dict[str, Any]) -> str:
        """Modes, models, options or commands as they are now, in an update or an answer."""
        return self._changed(self._configured(result))

    def wished(self, params: dict[str, Any]) -> dict[str, Any]:
        """What a client asks to change."""
        wishes = {"mode": params.get("modeId"), "model": params.get("modelId"), "title": params.get("title")}
        return {name: wish for name, wish in wishes.items() if _is_short(wish)}

    def confirmed(self, asked: dict[str, Any], result: dict[str, Any]) -> str:
        """A change the client asked for took place."""
        return self._changed({**self._new(**asked), **self._configured(result)})

    def described(self, update: dict[str, Any]) -> str:
        """`session_info_update`: the title, and codex-acp's news about the thread."""
        changes = self._new(title=update.get("title"))
        if self._codex_news(record(record(update.get("_meta")).get("codex"))):
            self._changed(changes)
            return WITH_EVENTS
        return self._changed(changes)

    def _configured(self, result: dict[str, Any]) -> dict[str, Any]:
        mode = (record(result.get("modes")) or result).get("currentModeId")
        model = record(result.get("models")).get("currentModelId")
        # The options are the newer way to say the same, and what later updates repeat.
        for option in records(result.get("configOptions")):
            if option.get("category") == "mode":
                mode = option.get("currentValue")
            elif option.get("category") == "model":
                model = option.get("currentValue")
        new = self._new(mode=mode, model=model)
        if isinstance(result.get("availableCommands"), list):
            names = [name for one in records(result["availableCommands"]) if (name := string(one.get("name")))]
            digest = zlib.crc32(msgspec.json.encode(names))
            if digest != self.info.commands:
                self.info.commands = digest
                new["commands"] = names
        return new

    def _new(self, **fields: Any) -> dict[str, Any]:
        """What of these is not as it was."""
        info = self.info
        new = {key: value for key, value in fields.items() if _is_short(value) and value != getattr(info, key)}
        for key, value in new.items():
            setattr(info, key, value)
        return new

    def _changed(self, changes: dict[str, Any]) -> str:
        if not changes:
            return skip("unchanged")
        self._parser.emit(SessionEvent, state="updated", **changes)
        return WITH_EVENTS

    def _codex_news(self, codex: dict[str, Any]) -> bool:
        """codex-acp 2.6.0: an error it will retry, and a thread that failed, which then ends its turn as if all were
        well."""
        if error := record(codex.get("error")):
            retries = error.get("willRetry") is True
            text = error.get("additionalDetails") or error.get("message")
            self._parser.emit(
                Notice,
                level="warning" if retries else "error",
                code="retry" if retries else "provider-error",
                text=str(text),
                data=error,
            )
            return True
        status = record(codex.get("threadStatus"))
        kind = string(status.get("type"))
        info = self.info
        if kind is None or kind == info.state:
            return False
        info.state = kind
        if kind != "systemError":
            return False
        self._parser.emit(Notice, level="error", code="provider-error", text=kind, data=status)
        return True

    def used(self, update: dict[str, Any]) -> str:
        """`usage_update`: the context window, and the session's cost so far."""
        info = self.info
        cost = record(update.get("cost"))
        dollars = number(cost.get("amount")) if cost.get("currency") == "USD" else None
        dollars = dollars if dollars is not None else info.usage[2]
        used, size = whole(update.get("used")), whole(update.get("size"))
        if (used, size, dollars) == info.usage:
            return skip("unchanged")
        info.usage = (used, size, dollars)
        self._parser.emit(Usage, scope="session", context_used=used, context_size=size, cost_usd=dollars)
        return WITH_EVENTS


def _is_short(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= SHORT


# -- tokens ---------------------------------------------------------------------------------------------------------

_TOKENS = {
    "total": ("totalTokens", "total_tokens"),
    "input": ("inputTokens", "input_tokens"),
    "output": ("outputTokens", "output_tokens"),
    "read": ("cachedReadTokens", "cachedInputTokens", "cached_tokens"),
    "write": ("cachedWriteTokens", "cacheWriteInputTokens"),
    "thought": ("thoughtTokens", "reasoningOutputTokens", "thoughts_tokens"),
}


def usage_fields(result: dict[str, Any]) -> dict[str, Any] | None:
    """The tokens of a prompt's answer: `usage`, else `_meta.quota` (Gemini CLI).

    The agents count differently: claude-agent-acp and codex-acp leave the cache out of the input, OpenCode also leaves
    the thoughts out of the output. The stated total says which sum was meant; without one, the protocol's own rule
    holds: the total is the sum of all kinds.
    """
    quota = record(record(result.get("_meta")).get("quota"))
    stated = record(result.get("usage") or quota.get("token_count"))
    tokens = {name: _first_integer(stated, keys) for name, keys in _TOKENS.items()}
    prompt, output = tokens["input"], tokens["output"]
    if prompt is None and output is None:
        return None
    prompt, output = prompt or 0, output or 0
    cached = (tokens["read"] or 0) + (tokens["write"] or 0)
    thought = tokens["thought"] or 0
    sums = [
        (prompt + cached, output),
        (prompt + cached, output + thought),
        (prompt, output),
        (prompt, output + thought),
    ]
    prompt, output = next((one for one in sums if sum(one) == tokens["total"]), sums[0])
    return {
        "scope": "turn",
        "input_tokens": prompt,
        "output_tokens": output,
        "cache_read_tokens": tokens["read"],
        "cache_write_tokens": tokens["write"],
        "reasoning_tokens": tokens["thought"],
    }


def _first_integer(stated: dict[str, Any], keys: tuple[str, ...]) -> int | None:
    return next((found for key in keys if (found := whole(stated.get(key))) is not None), None)
