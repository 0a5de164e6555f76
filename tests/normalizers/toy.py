"""A dialect for tests of what all dialects share: each line says what to do."""

from typing import Any

from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.parser import UNPARSED, WITH_EVENTS, Parser, skip
from tooltap.protocol.events import Message, Notice, OutputRef, Usage
from tooltap.protocol.tapped import Direction


class Toy(Parser):
    dialect = "toy"
    protocol = "toy"
    default_provider = "toymaker"
    SKIPS = frozenset({"blank", "lost", "quiet", "duplicate-result"})

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.agent = value.get("agent", self.agent)
        self.parent = value.get("parent", self.parent)
        if "in_session" in value:
            self.session = value["in_session"]
        match value.get("do"):
            case "say":
                self.emit(Message, role="assistant", text=value["text"])
            case "chunk":
                self.texts.append(
                    value.get("role", "assistant"),
                    value["text"],
                    message_id=value.get("id"),
                    key=value.get("key", ""),
                    preview=value.get("preview", False),
                )
            case "call":
                memory = {"output": value["printed"]} if "printed" in value else None
                self.calls.open(value["id"], value["name"], value.get("input", {}), raw=value, memory=memory)
            case "change":
                call = self.calls.get(value["id"])
                assert call is not None
                self.calls.update(call, value["input"], raw=value, title=value.get("title"))
            case "result":
                keys = ("status", "error", "is_async", "final")
                kept = {key: value[key] for key in keys if key in value}
                return self.calls.result(value["id"], value.get("output"), raw=value, **kept)
            case "ask":
                options = [{"id": "y", "name": "Yes", "kind": "allow_once"}]
                self.permissions.ask(value["id"], call_id=value.get("call"), options=options)
            case "answer":
                self.permissions.answer(value["id"], value["outcome"], by="user")
            case "begin":
                self.start_turn(value.get("turn"))
            case "finish":
                used = (Usage, {"scope": "turn", "input_tokens": 1})
                self.end_turn(value.get("outcome", "completed"), turn_id=value.get("turn"), before=(used,))
            case "session":
                self.set_session(value["id"])
                self.emit(Notice, level="info", code="config", text="named")
            case "quiet":
                return skip("quiet")
            case "fail":
                raise RuntimeError("a bug in the dialect")
            case _:
                self.unparsed("unknown-type", value)
                return UNPARSED
        return WITH_EVENTS

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        return call.memory.get("output"), None
