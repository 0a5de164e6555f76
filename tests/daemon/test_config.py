"""The configuration, and the message for each mistake."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tooltap.daemon.config import ConfigError, load_config
from tooltap.daemon.system.paths import journal_path
from tooltap.normalizers.catalog.registry import stores


def test_flags_win_over_file_over_defaults(tmp_path: Path) -> None:
    path = tmp_path / "tooltap.toml"
    path.write_text('socket = "/from/file"\nretention_days = 2\n[stream]\nline_bytes = 1000\n')

    config = load_config(path, socket="/from/flag", journal=None, stall_seconds=1)

    assert config.socket_path == Path("/from/flag")
    assert (config.retention_days, config.stream.line_bytes, config.stall_seconds) == (2, 1_000, 1)
    assert config.max_connections == 2_048


def test_flags_win_key_by_key_in_tables(tmp_path: Path) -> None:
    path = tmp_path / "tooltap.toml"
    path.write_text('[follow]\nagents = ["codex"]\npolling = true\n')

    config = load_config(path, follow={"agents": ["claude"]}, stream={"depth": 5})

    assert (config.follow.agents, config.follow.polling, config.stream.depth) == (("claude",), True, 5)


@pytest.mark.parametrize(
    "text", ['follow = "all"', '[follow]\nagents = ["all"]', '[follow]\nagents = ["codex", "all"]']
)
def test_all_agents_are_followed(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text + "\n")

    config = load_config(path, follow={"backfill": "all"})

    assert config.follow.followed == tuple(stores())
    assert config.follow.backfill_seconds == math.inf


@pytest.mark.parametrize(
    ("backfill", "seconds"), [("all", math.inf), ("none", 0), ("90s", 90), ("36h", 129_600), ("1.5d", 129_600)]
)
def test_backfill_is_an_age(backfill: str, seconds: float) -> None:
    assert load_config(follow={"backfill": backfill}).follow.backfill_seconds == seconds


def test_journal_place() -> None:
    assert load_config(journal="sqlite:~/j.db").journal_place == Path("~/j.db").expanduser()
    assert load_config(journal="j.db").journal_place == Path("j.db")
    assert load_config().journal_place == journal_path()
    with pytest.raises(ConfigError, match="unknown journal 'redis:6379': write sqlite:PATH or nats:"):
        _ = load_config(journal="redis:6379").journal_place


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("retention = 2", ":1: retention: there is no such key"),
        ("# max_connections\n\nmax_connections = 0", ":3: max_connections: expected `int` >= 1"),
        ('stall_seconds = "5 s"', "stall_seconds: expected `float`, got `str`"),
        ("[stream]\ndepht = 3", ":2: stream.depht: there is no such key"),
        ("[stream]\nopen_calls = 3", ":2: stream.open_calls: there is no such key"),
        ("[follow]\njobs = -1", "follow.jobs: expected `int` >= 0"),
        (
            '[follow]\nagents = ["amp"]',
            "follow: no session files of 'amp' are known; there are aider, agy, auggie, claude, cline, roo, codex",
        ),
        ('[follow]\nbackfill = "soon"', "follow: backfill is all, none or an age like 36h or 7d, not 'soon'"),
        (
            "[tools.Read]\nsilent = true\n\n[tools.Write]\nmax_chars = -1",
            ":5: tools.Write.max_chars: expected `int` >= 0",
        ),
        ("[web]\nport = 1", ":2: web.port: there is no such key"),
        ('[web]\nlisten = "8422"', "web: listen is HOST:PORT, such as 127.0.0.1:8422, not '8422'"),
        ("[web]\nenabled = 1", ":2: web.enabled: expected `bool`, got `int`"),
        *[
            (f"[web]\n{bound} = 0", f":2: web.{bound}: expected `")
            for bound in ("connections", "client_connections", "login_idle", "login_lifetime")
        ],
        ('[tools."*"]\nsilent = 1', ":2: tools.*.silent: expected `bool`, got `int`"),
        ("tools.Read.hidden = true", ":1: tools.Read.hidden: there is no such key"),
        ("tools = { Read = 1 }", ":1: tools: expected `object`, got `int`"),
        (
            '[tools.Write]\ntemplate = """\nWritten {size} bytes"""',
            ":2: tools.Write.template: there is no field {size}; there are {tool}, {status}, {preview}, {bytes}, "
            "{lines}, {input.KEY}, {output.KEY}",
        ),
        ('[tools.Write]\ntemplate = "{"', ":2: tools.Write.template: '{' cannot be read: Single '{' encountered"),
        ('[tools.Bash]\nrewrite = "cat"', ":2: tools.Bash.rewrite: expected `array`, got `str`"),
        ('[tools.Bash]\nrewrite = [\n  "cat",\n  1,\n]', ":2: tools.Bash.rewrite: expected `str`, got `int`"),
        (
            '[tools.Bash]\nrewrite = [""]',
            ":2: tools.Bash.rewrite: the command is empty; write the command and its arguments",
        ),
        (
            '[tools.mcp__memory__search]\nrewrite = ["cat"]',
            ":2: tools.mcp__memory__search.rewrite: the results of an MCP server's tools cannot be rewritten",
        ),
        (
            "[tools.read_file]\nsilent = true",
            ":1: tools.read_file: 'read_file' is not a canonical tool name; write 'Read'",
        ),
        ("[rewriting]\ntimeout = 0", ":2: rewriting.timeout: expected `float` > 0.0"),
        ("[usage]\nbudget = {week = 3}", ":2: usage.budget.week: there is no such key"),
        ("[prices.mine]\ninput = -1\noutput = 1", ":2: prices.mine.input: expected `float` >= 0.0"),
        ("a = = b", ":1: not valid TOML: invalid value"),
        ("a = 1\n[b", ":2: not valid TOML: "),
        ("a = 1\na = 2", ":2: not valid TOML: cannot overwrite a value"),
        ("a = '\xff'", "is not valid TOML"),
    ],
)
def test_mistake_is_one_sentence_with_line_and_key(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "tooltap.toml"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(ConfigError) as raised:
        load_config(path)

    assert str(path) in str(raised.value)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.toml: No such file or directory"):
        load_config(tmp_path / "none.toml")
