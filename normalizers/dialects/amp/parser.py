"""The `amp-stream` dialect: `amp -x --stream-json`, which is documented as compatible with Claude Code's stream."""

from __future__ import annotations

from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.claude.stream import ClaudeStream, ClaudeStreamState
from tooltap.normalizers.wire.values import record, token_counts
from tooltap.protocol.events import Usage


class AmpState(ClaudeStreamState, kw_only=True):
    has_counted: bool = False
    """An answer of this turn has stated its tokens, so that their sum at its end counts nothing new."""


class AmpStream(ClaudeStream):
    """Written after Amp's documentation and its SDK, without a recording. The prompt is a line of its own. An answer
    states its tokens, and has no id that says which request it belongs to."""

    dialect = "amp-stream"
    protocol = default_provider = "amp"
    state_type = AmpState
    state: AmpState
    word_answer, word_prompt, word_interrupt = Parser.word_answer, Parser.word_prompt, Parser.word_interrupt

    def read(self, value: Line) -> Skip:
        kind = value.get("type")
        if kind == "result" and self.state.has_counted:
            self.state.has_counted = False
            return super().read({key: item for key, item in value.items() if key != "usage"})
        skip = super().read(value)
        used = record(record(value.get("message")).get("usage")) if kind == "assistant" else {}
        if not used:
            return skip
        counts = map(used.get, ("input_tokens", "output_tokens"))
        cache = map(used.get, ("cache_read_input_tokens", "cache_creation_input_tokens"))
        self.state.has_counted = True
        self.emit(Usage, scope="step", **token_counts(*counts, *cache, apart=True))
        return None
