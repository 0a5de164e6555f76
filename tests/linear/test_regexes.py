"""Every regular expression takes time that grows with the text and no faster; `make lab-linear` tries all of them."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.linear.adversaries import Adversary, adversaries
from tests.linear.regexes import FOLDERS as SOURCES
from tests.linear.regexes import ROOT, Place, Regex, calls_of_re, regexes
from tests.linear.timing import grows

WHOLE = os.environ.get("TOOLTAP_LINEAR") == "whole"
SEED = int(os.environ.get("TOOLTAP_SEED", "16"))
SIZES: tuple[int, ...] = (24, 512, 4_096, 16_384, 65_536)
SAMPLE = 8
"""Adversaries of each expression and method that the suite tries, at the smaller sizes."""
LONGEST = 8_000_000
LONG_SAMPLE = 6
"""Adversaries of each that `make lab-linear` tries at this length."""
FOLDERS = sorted({path.parent.relative_to(ROOT).as_posix() for top in SOURCES for path in (ROOT / top).rglob("*.py")})


@pytest.mark.lab
def test_no_expression_is_missed() -> None:
    """One that cannot be found by reading and importing the sources needs an example in `EXAMPLES`."""
    found, missed = regexes()

    assert missed == []
    assert len(found) > 200
    assert {str(Path(one.place.path).parent) for one in found} <= set(FOLDERS)


def test_a_new_expression_would_be_found() -> None:
    tree = ast.parse("import re\nPATTERN = re.compile('a')\ndef find(text):\n    return re.search(r'b+', text)\n")

    assert [call.lineno for call in calls_of_re(ast.walk(tree))] == [2, 4]


@pytest.mark.lab
@pytest.mark.parametrize(
    "pattern",
    [r"<output>\s*(.*?)\s*</output>", r"\n*<a>(?P<x>.*?)</a>\s*\Z"],
)
def test_what_is_not_linear_is_found(pattern: str) -> None:
    """So the sweep is worth something."""
    regex = Regex(Place("a.py", 1), pattern, 16, ("search",))

    assert any(_grows(regex, "search", one, (24, 512, 16_384)) for one in adversaries(pattern, 16))


@pytest.mark.lab
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_expression_is_linear(folder: str, subtests: pytest.Subtests) -> None:
    for regex in regexes()[0]:
        if str(Path(regex.place.path).parent) == folder:
            with subtests.test(str(regex)):
                _check_linear(regex)


def _check_linear(regex: Regex) -> None:
    tried = adversaries(regex.pattern, regex.flags)
    random.Random(f"{SEED} {regex.pattern!r}").shuffle(tried)
    sizes = SIZES
    if not WHOLE:
        tried, sizes = tried[:SAMPLE], SIZES[:4]
    for method in regex.methods:
        for adversary in tried:
            why = _grows(regex, method, adversary, sizes)
            assert why is None, f"{regex.pattern!r}.{method} on {adversary}: {why}"
        for adversary in tried[:LONG_SAMPLE] if WHOLE else ():
            why = _grows(regex, method, adversary, (LONGEST // 8, LONGEST))
            assert why is None, f"{regex.pattern!r}.{method} on {adversary}: {why}"


def _grows(regex: Regex, method: str, adversary: Adversary, sizes: tuple[int, ...]) -> str | None:
    function = getattr(regex.compiled, method)
    is_text = isinstance(regex.pattern, str)

    def make(size: int) -> Callable[[], Any]:
        text: Any = adversary.text(size if regex.longest is None else min(size, regex.longest))
        if not is_text:
            text = text.encode("latin-1", "replace")
        if method in ("sub", "subn"):
            return lambda: function(text[:0], text)
        if method == "finditer":
            return lambda: sum(1 for _ in function(text))
        return lambda: function(text)

    return grows(make, sizes, timed=True)
