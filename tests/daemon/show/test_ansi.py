"""What a terminal finally shows of a program's output, as text and as HTML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.steps import steps, steps_grow
from tooltap.daemon.show.ansi import REPLAYED, WIDTH, final_screen
from tooltap.daemon.show.markup import ansi


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("10%\r 55%\r100%\n", "100%\n"),
        ("longer\rshort", "shortr"),
        ("longer\r\x1b[Kshort", "short"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("12\b3", "13"),
        ("one: waits\ntwo: waits\n\x1b[2A\rone: done \x1b[2B\r", "one: done\ntwo: waits\n"),
        ("old\nold\x1b[2J\x1b[Hnew", "new\n"),
        ("a\x1b[3Db", "b"),
        ("one\ntwo\x1b[1;3HX\x1b[9;2fY", "onX\ntYo"),
        ("\x1b[5Gx", "    x"),
        ("\x1b]0;title\x07text \x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\", "text link"),
        ("\x1b[?25l\x1b(B\x1b=kept\x1b[?25h", "kept"),
        ("\x1b]never ended", "\x1b]never ended"),
    ],
)
def test_movements_are_carried_out(written: str, shown: str) -> None:
    assert final_screen(written) == shown


def test_characters_keep_their_colour() -> None:
    assert final_screen("\x1b[32mgreen\x1b[0m\rX") == "X\x1b[0m\x1b[32mreen\x1b[0m"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("38;2;255;128;3", "38;5;208"),
        ("38:2::255:128:3", "38;5;208"),
        ("48;2;8;8;8", "48;5;232"),
        ("1;38;5;20;4", "1;38;5;20;4"),
        ("4:3;58;2;1;2;3", "4;4"),
    ],
)
def test_colours_are_reduced_to_256(asked: str, given: str) -> None:
    assert final_screen(f"\x1b[{asked}mx") == f"\x1b[{given}mx"


def test_colours_become_classes() -> None:
    assert ansi("\x1b[1;31mred\x1b[0m <b> \x1b[48;2;0;0;255mblue\x1b[m") == (
        '<span class="ansi1 ansi31">red</span> &lt;b&gt; <span class="ansi48-21">blue</span>'
    )


@pytest.mark.parametrize(
    ("sgr", "classes"),
    [
        ("2;3;9", "ansi2 ansi3 ansi9"),
        ("4;93;104", "ansi4 ansi93 ansi104"),
        ("38;5;3", "ansi33"),
        ("38;5;12;48;5;9", "ansi94 ansi101"),
        ("7", "inv_background inv_foreground"),
        ("7;31;48;5;200", "inv31 inv48-200"),
    ],
)
def test_sgr_numbers_are_classes(sgr: str, classes: str) -> None:
    assert ansi(f"\x1b[{sgr}mx\ny\x1b[0mz") == f'<span class="{classes}">x\ny</span>z'


@pytest.mark.parametrize("sgr", ["", "5", "8", "39;49", "38", "38;5", "1;22", "7;27", "9999", "9" * 5000])
def test_sgr_without_visible_effect_has_no_span(sgr: str) -> None:
    assert ansi(f"\x1b[{sgr}mx") == "x"


@pytest.mark.parametrize("chunk", ["\x1b[31mx", "\x1b[7;1m", "\x1b]", "\x1b[", "\x1bP", "\x1b]8;;", "<"])
def test_terminal_html_takes_linear_time(chunk: str) -> None:
    assert steps_grow(lambda times: lambda: ansi(chunk * times), 1_000, 10_000) is None
    assert "\x1b" not in ansi(chunk * 50_000)


@pytest.mark.parametrize(
    "chunk",
    ["x\n\x1b[9A", "\x1b[9999Cx\n", "\x1b[31m", "\x1b]", "\x1bP", "x\x1b[2K\r", "a\r\n\rb", "\x1b[999B", "\x1b"],
)
def test_final_screen_takes_bounded_time_and_space(chunk: str) -> None:
    written = (chunk * REPLAYED)[: REPLAYED - 1] + "\r"

    shown = final_screen(written)

    assert steps(lambda: final_screen(written)) < 1_000_000
    assert len(shown) <= len(written) // len(chunk) * (WIDTH + len(chunk))


def test_longer_text_shows_end_of_each_line() -> None:
    written = "".join(f"{percent}%\r" for percent in range(101)) + "\n"
    assert final_screen(written * 1000) == "100%\n" * 1000


@given(st.text(st.sampled_from("ab\r\n\b\x1b[]0123456789;:mKJHABCDGP?\\\x07"), max_size=60))
def test_no_movement_remains(written: str) -> None:
    shown = final_screen(written)

    assert "\b" not in shown
    assert "\x1b[2K" not in shown
