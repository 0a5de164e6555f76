"""The style sheet of code, terminals and diffs: every colour is readable, in light and dark."""

from __future__ import annotations

import re
from itertools import product

import pytest
from pygments.lexers import get_lexer_by_name

from tests.daemon.web.parsed import parse
from tooltap.daemon.show.markup import DARK, LIGHT, READABLE, Scheme, ansi, code, code_css, contrast

RULE = re.compile(r"^(?P<selector>[^{]+) \{ (?P<declared>[^}]*) \}$", re.MULTILINE)
SCHEMES = [pytest.param(0, LIGHT, id="light"), pytest.param(1, DARK, id="dark")]


def colours(which: int, name: str, *, of: str = "") -> set[str]:
    """Return all colours of a property in one scheme, in rules whose selector begins with `of`."""
    found = set()
    for rule in RULE.finditer(code_css()):
        for value in re.findall(rf"(?:^|; ?){name}: ([^;]+);", rule["declared"]):
            if rule["selector"].startswith(of) and value not in ("inherit", "transparent"):
                pair = re.fullmatch(r"light-dark\((#\w{6}), (#\w{6})\)", value)
                found.add(pair[which + 1] if pair else value)
    return found


@pytest.mark.parametrize(("one", "other", "ratio"), [("#000000", "#ffffff", 21.0), ("#777777", "#ffffff", 4.48)])
def test_contrast_follows_wcag(one: str, other: str, ratio: float) -> None:
    assert contrast(one, other) == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize(("which", "scheme"), SCHEMES)
def test_every_text_colour_is_readable(which: int, scheme: Scheme) -> None:
    texts, grounds = colours(which, "color"), colours(which, "background-color")

    assert len(texts) > 100
    assert scheme.background in grounds
    too_faint = [pair for pair in product(texts, grounds) if contrast(*pair) < READABLE]
    assert too_faint == []


@pytest.mark.parametrize(("which", "scheme"), SCHEMES)
def test_added_and_removed_lines_differ(which: int, scheme: Scheme) -> None:
    (came,), (went,) = (colours(which, "background-color", of=f"pre.diff {tag}") for tag in ("ins", "del"))

    assert len({came, went, scheme.background}) == 3


@pytest.mark.parametrize("reverse", ["", "7;"])
def test_every_terminal_class_has_a_rule(reverse: str) -> None:
    numbers = [*range(1, 10), *range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108)]
    indexed = [f"{base};5;{number}" for base in (38, 48) for number in range(256)]
    written = "".join(f"\x1b[0;{reverse}{sgr}mx" for sgr in [*numbers, *indexed])
    selectors = {one for rule in RULE.finditer(code_css()) for one in rule["selector"].split(", ")}
    classes = {name for one in parse(ansi(written)).all("span") for name in one.classes}

    assert len(classes) > 500
    assert [name for name in classes if f"pre .{name}" not in selectors] == []


def test_terminal_text_is_never_hidden() -> None:
    css = code_css()

    assert "hidden" not in css
    assert "blink" not in css


@pytest.mark.parametrize("language", ["python", "typescript", "rust", "html", "json", "diff", "bash"])
def test_every_class_of_coloured_code_has_a_rule(language: str) -> None:
    text = 'import x  # why\nconst a: number = 1.5; <b class="c">&amp;</b> "s" + \'t\' $HOME\n-gone\n+come\n'
    classes = {name for one in parse(code(text, language=language)).all("span") for name in one.classes}

    assert get_lexer_by_name(language).name
    assert classes
    assert [name for name in classes - {"w"} if f"pre .{name} {{" not in code_css()] == []


def test_style_sheet_loads_nothing_and_is_cached() -> None:
    assert "url(" not in code_css()
    assert "@import" not in code_css()
    assert code_css() is code_css()
