"""Containment of errors: a line at which something raises costs that line, and the state only if it may be
inconsistent.

Whatever raises between a line's first look and its events, the line is `unparsed`, with the reason `parser-error:
<Exception> at <place>`, and nothing else of it remains: events that it had given before are taken back. The next line
is read as usual.

The state is in doubt if the line had given events or output, or if what raised was reached through the code that keeps
account of calls, turns, texts and permissions (`core/`). Then the stream is reset at that line (`reset.py`). Otherwise
the parser continues from its dump, or is reset if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

PARSER_ERROR = "parser-error"

_PACKAGE = "tooltap."
_CORE = f"{_PACKAGE}normalizers.core."
_FEEDING = {"close", "fail", "feed", "feed_long", "give_up", "lost", "take_line", "take_long"}
_READING = {"read", "read_other", "_abandon_document", "_begin", "_collect", "_read", "_read_all", "_read_unclean"}
_HARMLESS = {f"{_CORE}lines": None, f"{_CORE}parser": frozenset(_FEEDING | _READING)}
"""Functions that lead a line to its reader, and change nothing that is open, by module. None: all of a module's."""


def place_of(error: BaseException) -> str:
    """The place of an error: `module:function` of the innermost function of ours. Says nothing of the machine."""
    place = "outside"
    for module, function in _frames(error):
        if module.startswith(_PACKAGE) and not function.startswith("<"):
            place = f"{module.removeprefix(_PACKAGE)}:{function}"
    return place


def reason_of(error: BaseException) -> str:
    """The `reason` of the `unparsed` event."""
    return f"{PARSER_ERROR}: {type(error).__name__} at {place_of(error)}"


def may_have_changed(error: BaseException) -> bool:
    """Whether what raised may have left half a change of what is open."""
    return any(module.startswith(_CORE) and not _only_reads(module, function) for module, function in _frames(error))


def _only_reads(module: str, function: str) -> bool:
    if module not in _HARMLESS:
        return False
    functions = _HARMLESS[module]
    return functions is None or function in functions


def _frames(error: BaseException) -> Iterator[tuple[str, str]]:
    at = error.__traceback__
    while at is not None:
        yield str(at.tb_frame.f_globals.get("__name__", "")), at.tb_frame.f_code.co_name
        at = at.tb_next
