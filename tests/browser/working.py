"""Agents that work, for the tests and pictures of the board: lines of Codex's app server and of ACP, as their programs
write them."""

from __future__ import annotations

from typing import Any

from tests.browser.serving import Publisher, Site

__all__ = ["Codex", "asking_agent"]


class Codex:
    """An agent that runs one command, and prints while it does. `name`: of its stream and, in `<>`, of its session."""

    def __init__(self, site: Site, name: str, prompt: str, command: str, cwd: str = "/home/you/etl") -> None:
        self._publisher: Publisher = site.publish(name, "codex-app-server")
        self._thread = thread = f"<{name}>"
        self._publisher.write(
            {"id": 2, "method": "thread/start", "params": {"cwd": cwd}},
            {"id": 2, "result": {"thread": {"id": thread, "cwd": cwd}, "model": "gpt-5.6", "cwd": cwd}},
            self._method("turn/start", id=3, input=[{"type": "text", "text": prompt}]),
            self._method("turn/started", turn={"id": "turn", "status": "inProgress"}),
            self._item("item/completed", type="userMessage", id="u", content=[{"type": "text", "text": prompt}]),
        )
        self.say("m1", "I'll measure first where the time goes.")
        self._publisher.write(
            self._item("item/started", type="commandExecution", id="c", command=command, cwd=cwd, status="inProgress"),
        )
        self._publisher.wait_stored()

    def say(self, message: str, text: str) -> None:
        self._publisher.write(self._item("item/completed", type="agentMessage", id=message, text=text))

    def print(self, text: str) -> None:
        delta = {"itemId": "c", "turnId": "turn", "delta": text}
        self._publisher.write(self._method("item/commandExecution/outputDelta", **delta))

    def use(self, tokens: int, window: int) -> None:
        """Report its token usage, and the size of the context window."""
        used = {"totalTokens": tokens, "inputTokens": tokens - 400, "cachedInputTokens": 0, "outputTokens": 400}
        usage = {"total": used, "last": used, "modelContextWindow": window}
        self._publisher.write(self._method("thread/tokenUsage/updated", turnId="turn", tokenUsage=usage))

    def end(self, output: str, code: int) -> None:
        """End the command, and the turn."""
        done = {"status": "completed" if code == 0 else "failed", "exitCode": code, "aggregatedOutput": output}
        self._publisher.write(
            self._item("item/completed", type="commandExecution", id="c", command="make", cwd="/", **done),
            self._method("turn/completed", turn={"id": "turn", "status": "completed", "items": []}),
        )
        self._publisher.wait_stored()

    def _item(self, method: str, **item: Any) -> dict[str, Any]:
        return self._method(method, turnId="turn", item=item)

    def _method(self, method: str, **params: Any) -> dict[str, Any]:
        number = {"id": params.pop("id")} if "id" in params else {}
        return {**number, "method": method, "params": {"threadId": self._thread, **params}}


def asking_agent(site: Site, session: str, title: str, command: str, cwd: str = "/home/you/ledger") -> Publisher:
    """Start an agent that follows a plan, and asks whether it may run a command."""
    agent = site.publish(session, "acp", provider="gemini")

    def update(**fields: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": fields}}

    steps = ("Read the migration", "Write the backfill", "Count the rows", "Run it on staging")
    states = ("completed", "completed", "completed", "in_progress")
    plan = [{"content": step, "status": state, "priority": "medium"} for step, state in zip(steps, states, strict=True)]
    said = "The backfill is idempotent. 1,204,331 rows are left; it takes about six minutes on staging."
    options = [
        {"optionId": "once", "name": "Allow", "kind": "allow_once"},
        {"optionId": "no", "name": "Deny", "kind": "reject_once"},
    ]
    call = {"toolCallId": "c", "title": command, "kind": "execute", "rawInput": {"command": command}}
    agent.write(
        {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": cwd, "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": session}},
        update(sessionUpdate="session_info_update", title=title),
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": [{"type": "text", "text": title}]},
        },
        update(sessionUpdate="plan", entries=plan),
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": said}),
        update(sessionUpdate="tool_call", status="pending", **call),
        update(sessionUpdate="usage_update", used=128_000, size=200_000),
        {
            "jsonrpc": "2.0",
            "id": 9,
            "method": "session/request_permission",
            "params": {"sessionId": session, "toolCall": call, "options": options},
        },
    )
    agent.wait_stored()
    return agent
