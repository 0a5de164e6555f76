"""Which commands a text is certain to run, and which it may run: against lists of tricks, and against a real shell."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tooltap.daemon.answers.commands import MOST, _is_like, covers, parts_of, pattern_of, runs


def words_of(command: str) -> list[list[str]] | None:
    parts = parts_of(command)
    return None if parts is None else [[word.text for word in part] for part in parts]


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("npm test", [["npm", "test"]]),
        ("  npm\t test  ", [["npm", "test"]]),
        ("npm test; npm run lint;", [["npm", "test"], ["npm", "run", "lint"]]),
        ("npm ci && npm test || echo no", [["npm", "ci"], ["npm", "test"], ["echo", "no"]]),
        ("npm test | tail -5", [["npm", "test"], ["tail", "-5"]]),
        ("npm ci &&\n\nnpm test\n", [["npm", "ci"], ["npm", "test"]]),
        ("npm test 2>&1 | head", [["npm", "test"], ["head"]]),
        ("npm test >/dev/null 2>&1", [["npm", "test"]]),
        ("npm test&>/dev/null", None),
        ("npm test &>/dev/null; a", [["npm", "test"], ["a"]]),
        ("make>/dev/null < /dev/null", [["make"]]),
        ("make 2 >/dev/null", [["make", "2"]]),
        ("echo 'a; $(b)' \"c | d\" e\\;f", [["echo", "a; $(b)", "c | d", "e;f"]]),
        ('grep "foo\\|bar\\"" \'\'', [["grep", 'foo\\|bar"', ""]]),
        ("make \\\n  all", [["make", "all"]]),
        ("make CC=gcc a#b", [["make", "CC=gcc", "a#b"]]),
        ("git commit -m 'Größe'", [["git", "commit", "-m", "Größe"]]),
    ],
)
def test_simple_commands(command: str, parts: list[list[str]] | None) -> None:
    assert words_of(command) == parts


@pytest.mark.parametrize(
    "command",
    [
        "",
        " \n ",
        "npm test $(rm -rf /)",
        "npm test `rm -rf /`",
        'npm test "$(rm -rf /)"',
        'npm test "`rm -rf /`"',
        "npm test $X",
        "npm test ${X:-$(rm)}",
        "npm test $'\\x3b rm'",
        "npm test & rm -rf /",
        "npm test &",
        "npm test |& sh",
        "npm test &&",
        "npm test |",
        "| npm test",
        "npm test ;; rm",
        "; npm test",
        "npm test > ~/.bashrc",
        "npm test >> x",
        "npm test >/dev/null/../../x",
        "npm test 3>/dev/null",
        "npm test 2>&1x",
        "npm test >&file",
        "npm test < /etc/passwd",
        "npm test <<EOF\nrm\nEOF",
        "npm test <(rm -rf /)",
        "(npm test)",
        "{ npm test; }",
        "npm() { rm -rf /; }; npm test",
        "! npm test",
        "time npm test",
        "if npm test; then rm; fi",
        "for i in 1; do npm test; done",
        "[[ -f x ]]",
        "PATH=/tmp/evil npm test",
        "LD_PRELOAD+=x npm test",
        "a[0]=x npm test",
        "npm test # comment",
        "npm test '",
        'npm test "',
        "npm test \\",
        "np? test",
        "{npm,rm} test",
        "=npm test",
        "npm test\r\nrm",
        "npm test\x00rm",
        "npm test\x1b[8m",
        "npm\u00a0test",
        "npm test\u2028rm",
        "npm test --token [masked github]",
        "npm test" + " " * MOST + "; rm -rf /",
    ],
)
def test_what_is_more_than_simple_commands(command: str) -> None:
    assert parts_of(command) is None


@pytest.mark.parametrize(
    ("pattern", "covered", "others"),
    [
        ("npm test", ["npm test", "'npm' \"test\""], ["npm test x", "npm", "npm testx", "npmx test", "./npm test"]),
        ("npm run *", ["npm run", "npm run lint", "npm run a -- b"], ["npm test", "npx run"]),
        ("git * --stat", ["git diff --stat"], ["git --stat", "git diff --stat x", "git a b --stat"]),
        ("cat src/*.py", ["cat src/a.py"], ["cat src/a/b.py", "cat src/..py/../../x.py", "cat src/{a,/etc/x}.py"]),
        ("cat *.py", ["cat a.py"], ["cat --config=evil.py", "cat ../a.py", "cat *.py", "cat ~.py"]),
        ("cat ../*/x", ["cat ~/x ../a/x"][:0], ["cat ../../x", "cat ../a/x"]),
        ("echo 'a b'", ["echo 'a b'", "echo a\\ b"], ["echo a b"]),
        ("*", ["rm -rf /", "x"], []),
        ("npm test", [], ["np'm test'", "npm '' test", "npm test ''", "NPM test"]),
    ],
)
def test_patterns(pattern: str, covered: list[str], others: list[str]) -> None:
    wanted = pattern_of(pattern)
    for command in covered:
        [part] = parts_of(command) or []
        assert covers(wanted, part), command
    for command in others:
        [part] = parts_of(command) or []
        assert not covers(wanted, part), command


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "rm -rf / --no-preserve-root",
        "/bin/rm -rf /",
        "RM -rf /",
        "r''m -rf /",
        "r\\m -rf /",
        "npm test; rm -rf /",
        "npm test && sudo rm -rf /",
        "npm test | xargs rm -rf",
        "sh -c 'rm -rf /'",
        "bash -c \"cd / && sh -c 'rm -rf x'\"",
        "find . -exec rm -rf {} +",
        "env X=1 rm -rf /",
        "X=1 rm -rf /",
        "echo $(rm -rf /)",
        "echo `rm -rf /`",
        "(rm -rf /)",
        "{ rm -rf /; }",
        "npm test & rm -rf /",
        "if true; then rm -rf /; fi",
        "x=$(cat <<E\nrm -rf /\nE\n)",
        "echo $x; 'rm' \"-rf\" /",
        "eval 'rm -rf /'",
        "npm test" + " " * MOST + "; rm -rf /",
    ],
)
def test_denied_command_is_found_wherever_it_is(command: str) -> None:
    assert runs(pattern_of("rm -rf"), command)
    assert runs(pattern_of("rm -rf *"), command)


@pytest.mark.parametrize("command", ["rm x", "git commit -m 'rm -rf is gone'", "echo rm -rf", "farm -rf /", ""])
def test_other_commands_are_not_found(command: str) -> None:
    assert not runs(pattern_of("rm -rf"), command)


def test_long_texts_are_read_in_linear_time() -> None:
    begun = time.process_time()
    for text in ("a " * 32_000, "sudo " + "'a b' " * 600, "$" * 65_000, "'" * 65_000, "a;" * 2_000, "sh -c " * 600):
        parts_of(text)
        assert not runs(pattern_of("rm * -rf *x*y*"), text)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("text", ["", " ", "npm 'test"])
def test_wrong_pattern(text: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|quotation"):
        pattern_of(text)


# -- a real shell ----------------------------------------------------------------------------------------------------

STUB = '#!/bin/sh\nprintf "%s\\0" "$#" "${0##*/}" "$@" >>"$LOG"\n'
"""Notes how it was called: the number of its arguments, its name, and they."""
PIECES = st.sampled_from(
    [
        *("aa", "bb", "cc", " ", " ", " ", "\t", "\n", ";", "&", "&&", "|", "||", "|&", "(", ")", "{", "}", "{aa,bb}"),
        *("'", '"', "\\", "$", "`", "$(aa)", "$x", "${x}", "#", "!", "=", "aa=bb", "*", "?", "[a]", "~", "^", "%", "-"),
        *(
            "<",
            ">",
            ">/dev/null",
            "2>&1",
            "2",
            "1",
            "<<",
            "if",
            "then",
            "fi",
            "do",
            "time",
            "'a b'",
            '"; bb"',
            "\\\n",
            "é",
        ),
    ]
)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("shell")
    programs = folder / "bin"
    programs.mkdir()
    for name in ("aa", "bb", "cc"):
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o755)
    return {"PATH": str(programs), "LOG": str(folder / "log"), "HOME": str(folder), "LC_ALL": "C.UTF-8"}


@pytest.mark.process
@pytest.mark.parametrize("program", ["bash", "sh"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(command=st.lists(PIECES, min_size=1, max_size=10).map("".join))
def test_a_shell_runs_nothing_else(shell: dict[str, str], program: str, command: str) -> None:
    """What the shell runs is among the parts, word for word, as far as nothing in them is expanded."""
    if (parts := parts_of(command)) is None:
        return
    log = Path(shell["LOG"])
    log.unlink(missing_ok=True)
    folder = log.parent / "empty"
    folder.mkdir(exist_ok=True)
    subprocess.run(
        [f"/bin/{program}", "-c", command], env=shell, cwd=folder, capture_output=True, timeout=60, check=False
    )
    assert os.listdir(folder) == []
    for called in calls(log.read_text() if log.exists() else ""):
        same = [part for part in parts if part[0].text == called[0]]
        assert same
        if all(word.is_literal for part in same for word in part):
            assert called in [[word.text for word in part] for part in same]


def calls(log: str) -> list[list[str]]:
    noted, found = log.split("\0")[:-1], []
    while noted:
        length = int(noted[0]) + 2
        found.append(noted[1:length])
        noted = noted[length:]
    return found


@pytest.mark.parametrize(
    ("pattern", "text", "is_like"),
    [
        ("a*", "a", True),
        ("a*a", "a", False),
        ("*b*c", "abxbc", True),
        ("*b*b", "ab", False),
        ("ab*ba", "aba", False),
        ("*", "", True),
        ("*a" * 20, "a" * 5_000 + "b", False),
    ],
)
def test_stars_are_any_text_in_linear_time(pattern: str, text: str, is_like: bool) -> None:
    assert _is_like(pattern, text) == is_like
