"""A dialect for tests of what all dialects share: each line is a command (`do`)."""

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall
from tooltap.protocol.events import Message, OutputRef, Usage

TOY = Dialect(
    "toy",
    "tests.normalizers.toy:Toy",
    lambda value: "do" in value,
    reads="nothing",
    tapped_with="nothing",
    arrives="recorded",
    omits="–",
)


class Toy(Parser):
    dialect = "toy"
    protocol = "toy"
    default_provider = "toymaker"
    line = Lines("do", skip={"quiet": "quiet"})

    def enter(self, value: Line) -> None:
        self.agent = value.get("agent", self.agent)
        self.parent = value.get("parent", self.parent)
        self.session = value.get("in_session", self.session)
        self.ts = value.get("at", self.ts)

    @line("say")
    def _say(self, value: Line) -> None:
        self.emit(Message, role="assistant", text=value["text"])

    @line("chunk")
    def _chunk(self, value: Line) -> None:
        self.texts.append(
            value.get("role", "assistant"),
            value["text"],
            message_id=value.get("id"),
            key=value.get("key", ""),
            preview=value.get("preview", False),
        )

    @line("call")
    def _call(self, value: Line) -> None:
        memory = {"output": value["printed"]} if "printed" in value else None
        self.calls.open(value["id"], value["name"], value.get("input", {}), raw=value, memory=memory)

    @line("change")
    def _change(self, value: Line) -> None:
        call = self.calls.get(value["id"])
        assert call is not None
        self.calls.update(call, value["input"], raw=value, title=value.get("title"))

    @line("status")
    def _status(self, value: Line) -> None:
        call = self.calls.get(value["id"])
        assert call is not None
        self.calls.set_status(call, value["status"])

    @line("result")
    def _result(self, value: Line) -> Skip:
        stated = {key: value[key] for key in ("status", "error", "is_async", "model") if key in value}
        answer = Answer(value.get("output"), **stated)
        return self.calls.answer(value["id"], answer, raw=value, final=value.get("final", False))

    @line("ask")
    def _ask(self, value: Line) -> None:
        options = [{"id": "y", "name": "Yes", "kind": "allow_once"}]
        self.permissions.ask(value["id"], call_id=value.get("call"), options=options)

    @line("answer")
    def _answer(self, value: Line) -> None:
        self.permissions.answer(value["id"], value["outcome"], by="user")

    @line("begin")
    def _begin_turn(self, value: Line) -> None:
        self.start_turn(value.get("turn"))

    @line("finish")
    def _finish_turn(self, value: Line) -> None:
        used = (Usage, {"scope": "turn", "input_tokens": 1})
        self.end_turn(value.get("outcome", "completed"), turn_id=value.get("turn"), before=(used,))

    @line("session")
    def _session(self, value: Line) -> None:
        self.set_session(value["id"])
        self.notice("config", "named")

    @line("fail")
    def _fail(self, value: Line) -> None:
        raise RuntimeError("a bug in the dialect")

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        return call.memory.get("output"), None
