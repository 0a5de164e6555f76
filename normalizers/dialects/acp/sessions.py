"""Sessions of an ACP connection: who the agent is, what a session was set up with, and what changes about it."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

import msgspec

from tooltap.normalizers.core.bounded import is_short, learn
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.dialects.acp.emitter import AcpEmitter
from tooltap.normalizers.dialects.acp.state import Asked
from tooltap.normalizers.wire.values import number, record, records, string, whole
from tooltap.protocol.events import SessionEvent, Usage

__all__ = ["Sessions", "provider_name"]

SERVERS = 256

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
"""Id of a way to log in -> provider, for agents that do not state their name."""
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


def provider_name(agent: str) -> str:
    """`@agentclientprotocol/claude-agent-acp` -> claude, `OpenCode` -> opencode; another name as a slug."""
    slug = _NOT_IN_SLUG.sub("-", agent.rpartition("/")[2].lower()).strip("-")
    slug = slug.removesuffix("-acp") or slug
    return _PROVIDERS.get(slug, slug)


class Sessions(AcpEmitter):
    # -- setting up ---------------------------------------------------------------------------------------------

    @AcpEmitter.answer("initialize")
    def _initialized(self, result: Line, asked: Asked, key: str) -> Skip:
        """The agent states who it is; the events of its sessions carry it."""
        state, agent = self.state, record(result.get("agentInfo") or result.get("info"))
        logins = (_LOGINS.get(str(method.get("id"))) for method in records(result.get("authMethods")))
        name = string(agent.get("name"))
        provider = provider_name(name) if name else next(filter(None, logins), None)
        if provider is not None:
            self.set_provider(provider)
        state.agent_version = string(agent.get("version")) or state.agent_version
        state.protocol_version = whole(result.get("protocolVersion")) or state.protocol_version
        return None if agent else "handshake"

    @AcpEmitter.request("session/new", "session/fork")
    def _set_up(self, params: Line, key: str) -> None:
        names = [one.get("name") for one in records(params.get("mcpServers"))][:SERVERS]
        short, servers, cwd = [name for name in names if is_short(name)], self.state.servers, params.get("cwd")
        servers += [name for name in short if name not in servers]
        del servers[:-SERVERS]
        self.expect(key, cwd=cwd if is_short(cwd) else None, servers=short)

    @AcpEmitter.request("session/load", "session/resume")
    def _load(self, params: Line, key: str) -> None:
        if isinstance(params.get("sessionId"), str):
            self.info.loading = True
        self._set_up(params, key)

    @AcpEmitter.answer("session/new", "session/fork")
    def _began(self, result: Line, asked: Asked, key: str) -> None:
        self.enter_session(result.get("sessionId"))
        self._emit_set_up("started", asked.params, result)

    @AcpEmitter.answer("session/load", "session/resume")
    def _loaded(self, result: Line, asked: Asked, key: str) -> None:
        self.enter_session(result.get("sessionId"))
        self.end_history()
        self._emit_set_up("resumed", asked.params, result)

    def _emit_set_up(self, state: str, asked: dict[str, Any], result: Line) -> None:
        info = self.info
        info.cwd = self.state.cwd = asked.get("cwd") or info.cwd
        changes = self._configured(result)
        servers = [{"name": name} for name in asked.get("servers", [])] or None
        version = self.state.agent_version
        self.emit(SessionEvent, state=state, cwd=info.cwd, agent_version=version, mcp_servers=servers, **changes)

    @AcpEmitter.answer("session/close")
    def _closed(self, result: Line, asked: Asked, key: str) -> None:
        self.emit(SessionEvent, state="ended")

    # -- changes ------------------------------------------------------------------------------------------------

    @AcpEmitter.request("session/set_config_option", "session/set_mode", "session/set_model", "session/set_title")
    def _change(self, params: Line, key: str) -> Skip:
        """A client wants another mode, model, title or option; the answer confirms it."""
        wanted = {"mode": params.get("modeId"), "model": params.get("modelId"), "title": params.get("title")}
        self.expect(key, **{name: value for name, value in wanted.items() if is_short(value)})
        return "request"

    @AcpEmitter.answer("session/set_config_option", "session/set_mode", "session/set_model", "session/set_title")
    def _changed(self, result: Line, asked: Asked, key: str) -> Skip:
        return self.update_session({**learn(self.info, **asked.params), **self._configured(result)})

    @AcpEmitter.update("available_commands_update", "config_option_update", "current_mode_update")
    def _reconfigured(self, update: Line) -> Skip:
        return self.update_session(self._configured(update))

    @AcpEmitter.update("session_info_update")
    def _described(self, update: Line) -> Skip:
        """The title, and codex-acp's reports about the thread."""
        changes = learn(self.info, title=update.get("title"))
        has_reported = self._report_codex(record(record(update.get("_meta")).get("codex")))
        skip = self.update_session(changes)
        return None if has_reported else skip

    def _configured(self, result: Line) -> dict[str, Any]:
        """What is new of the modes, models, options or commands in an update or an answer."""
        mode = (record(result.get("modes")) or result).get("currentModeId")
        model = record(result.get("models")).get("currentModelId")
        # The options are the newer way to state the same, and what later updates repeat.
        for option in records(result.get("configOptions")):
            if option.get("category") == "mode":
                mode = option.get("currentValue")
            elif option.get("category") == "model":
                model = option.get("currentValue")
        new = learn(self.info, mode=mode, model=model)
        if isinstance(result.get("availableCommands"), list):
            names = [name for one in records(result["availableCommands"]) if (name := string(one.get("name")))]
            digest = crc32(msgspec.json.encode(names))
            if digest != self.info.commands:
                self.info.commands = digest
                new["commands"] = names
        return new

    def _report_codex(self, codex: Line) -> bool:
        """codex-acp 2.6.0: an error it will retry, and a thread that failed, whose turn then ends as completed."""
        if error := record(codex.get("error")):
            code, level = ("retry", "warning") if error.get("willRetry") is True else ("provider-error", "error")
            self.notice(code, str(error.get("additionalDetails") or error.get("message")), level, error)
            return True
        status, info = record(codex.get("threadStatus")), self.info
        kind = string(status.get("type"))
        if kind is None or kind == info.state:
            return False
        info.state = kind
        if kind != "systemError":
            return False
        self.notice("provider-error", kind, "error", status)
        return True

    @AcpEmitter.update("usage_update")
    def _used(self, update: Line) -> Skip:
        """The context window, and the session's cost so far."""
        info, cost = self.info, record(update.get("cost"))
        dollars = number(cost.get("amount")) if cost.get("currency") == "USD" else None
        usage = (whole(update.get("used")), whole(update.get("size")), info.usage[2] if dollars is None else dollars)
        if usage == info.usage:
            return "unchanged"
        info.usage = usage
        self.emit(Usage, scope="session", context_used=usage[0], context_size=usage[1], cost_usd=usage[2])
        return None
