"""What is right for each case: small homes of agents, and streams that are ingested one after another.

The figures were worked out by hand from the files. `homes` are as the agents lay them out; a database is its SQL. Names
that state a version are recordings of that version against a scripted model; the others were written after public
reports of what the agent writes.
"""

from __future__ import annotations

from typing import NamedTuple


class Right(NamedTuple):
    """What is right for a session. A field at its default is not checked."""

    session: str
    turns: int | None = None
    prompts: int | None = None
    """Tokens of all prompts, with what was cached."""
    output: int | None = None
    cost: float | None = None
    """In dollars, to a hundredth of a cent."""
    title: str | None = None
    project: str | None = None
    forked_from: str | None = None
    milliseconds: int | None = None
    status: str | None = None


FORKED = "0199aaaa-0000-7000-8000-00000000000"

HOMES: dict[str, tuple[Right, ...]] = {
    "claude-2.1.330-fork": (
        Right("d2c84c88-0d63-4fc7-b163-95d74e09070b", turns=2, prompts=7_200, output=126, cost=0.02196),
        Right(
            "6a314015-25e9-4fe6-92ce-16a2c0911bcc",
            turns=1,
            prompts=2_400,
            output=42,
            cost=0.00732,
            forked_from="d2c84c88-0d63-4fc7-b163-95d74e09070b",
        ),
    ),
    "claude-copied-file": (Right("42424242-aaaa-4042-8042-424242424242", turns=2, prompts=3_300, output=30),),
    "claude-no-stop-reason": (
        Right(
            "11111111-1111-4111-8111-111111111111",
            turns=1,
            prompts=2_000_020,
            output=200,
            cost=1.0051,
            milliseconds=3_000,
        ),
    ),
    "claude-workflow": (Right("33333333-aaaa-4033-8033-333333333333", prompts=15_220, output=1_720),),
    "claude-worktrees": (
        Right("17171717-aaaa-4717-8717-171717171717", project="/w/app"),
        Right("17171717-bbbb-4717-8717-171717171717", project="/w/app"),
        Right("17171717-cccc-4717-8717-171717171717", project="C:\\Users\\you\\proj"),
    ),
    "codex-0.131-fork": (
        Right("01a21785-fba1-7ce2-982e-d97e1fd2dfca", turns=2, prompts=2_400, output=84),
        Right(
            "01a21786-0997-7dd1-a90a-c5133f0e072a",
            turns=1,
            prompts=1_200,
            output=42,
            title="[[S1]] after fork",
            forked_from="01a21785-fba1-7ce2-982e-d97e1fd2dfca",
        ),
    ),
    "codex-compressed-and-archived": (
        Right("01a21785-fba1-7ce2-982e-d97e1fd2dfca", turns=2, prompts=2_400, output=84),
        Right(f"{FORKED}9", turns=2, prompts=200_000, output=2_000),
    ),
    "codex-counter-restarts": (
        Right("019a0002-0000-7000-8000-000000000002", turns=2, prompts=3_500_000, output=45_000, cost=3.5875),
    ),
    "codex-fork": (
        Right(f"{FORKED}1", turns=2, prompts=220_000, output=3_000),
        Right(f"{FORKED}2", turns=1, prompts=130_000, output=500, forked_from=f"{FORKED}1"),
    ),
    "codex-fork-of-one-turn": (
        Right("019a0003-0000-7000-8000-000000000003", turns=1, prompts=2_000_000, output=20_000),
        Right(
            "019a0003-ffff-7000-8000-000000000004",
            turns=1,
            prompts=100_000,
            output=1_000,
            cost=0.135,
            forked_from="019a0003-0000-7000-8000-000000000003",
        ),
    ),
    "codex-subagent-with-history": (Right(f"{FORKED}1", turns=2, prompts=350_000, output=3_500),),
    "copilot-shutdown": (Right("30303030-aaaa-4030-8030-303030303030", turns=2, prompts=30_000, output=150),),
    "copilot-torn": (Right("31313131-aaaa-4031-8031-313131313131", turns=2),),
    "opencode-1.18.33-fork": (
        Right("ses_de87b1dbaffepulvsha8AuJdBv", turns=2, prompts=2_400, output=84, cost=0.00306),
        Right(
            "ses_de87ad2e0ffeXXe7jG7NvEtHlP",
            turns=1,
            prompts=1_200,
            output=42,
            cost=0.00153,
            forked_from="ses_de87b1dbaffepulvsha8AuJdBv",
        ),
    ),
    "opencode-2": (Right("ses_0001v2", turns=1, prompts=1_200, output=30, cost=0.0123, title="List the files"),),
}
"""Folder of `homes` -> its sessions: all that there are."""

STREAMS: dict[str, tuple[Right, ...]] = {
    "acp-advisor": (Right("acp-25", turns=2, status="completed"),),
    "acp-no-completion": (Right("acp-23", turns=2),),
    "acp-out-of-turn": (Right("acp-26", turns=2),),
    "acp-write-meta": (Right("acp-24", turns=1),),
    "claude-2.1.330-resume": (
        Right("d2c84c88-0d63-4fc7-b163-95d74e09070b", prompts=7_200, output=126, cost=0.02196),
        Right("6a314015-25e9-4fe6-92ce-16a2c0911bcc", prompts=2_400, output=42, cost=0.00732),
    ),
    "claude-aborted": (Right("21212121-aaaa-4121-8121-212121212121", turns=1, status="failed"),),
    "claude-absorbed": (Right("77777777-aaaa-4777-8777-777777777777", turns=1),),
    "claude-advisor": (
        Right("44444444-4444-4444-8444-444444444444", turns=1, prompts=393_858, output=8_296, cost=1.0970),
    ),
    "claude-blocks": (Right("11111111-1111-4111-8111-111111111111", turns=1, prompts=47_390, output=660),),
    "claude-historical": (Right("20202020-aaaa-4020-8020-202020202020", turns=1),),
    "claude-nonstring": (Right("22222222-9999-4222-8222-222222222222", turns=1),),
    "claude-popped": (Right("77777777-cccc-4777-8777-777777777777", turns=1),),
    "claude-proxy-zero": (Right("35353535-aaaa-4035-8035-353535353535", turns=2, prompts=6_000, output=330),),
    "claude-queued-image": (Right("77777777-bbbb-4777-8777-777777777777", turns=1),),
    "claude-recompact": (Right("32323232-aaaa-4032-8032-323232323232", prompts=2_900),),
    "claude-skill-title": (
        Right(
            "40404040-aaaa-4040-8040-404040404040", turns=1, title="/myplugin:implement-phase @docs/plans/worktree.md 1"
        ),
    ),
    "claude-synthetic": (Right("16161616-aaaa-4616-8616-161616161616"),),
    "claude-titles": (Right("41414141-bbbb-4041-8041-414141414141", turns=1, title="Lexer rewrite"),),
    "claude-titles-and-summary": (Right("41414141-aaaa-4041-8041-414141414141", turns=1, title="Lexer rewrite"),),
    "claude-torn": (Right("55555555-5555-4555-8555-555555555555"),),
    "claude-ttl": (Right("22222222-2222-4222-8222-222222222222", turns=1, cost=24.0),),
    "claude-ttl-mixed": (Right("22222222-2222-4222-8222-333333333333", turns=1, cost=0.51),),
    "claude-u2028": (Right("66666666-6666-4666-8666-666666666666", turns=1),),
    "codex-0.171-appserver-resume": (Right("", prompts=4_800),),
    "codex-0.171-exec": (Right("01a2177a-cd16-7613-96f2-9915b6464f59", turns=3, prompts=3_600, output=126),),
    "codex-exec": (Right("0199bbbb-0000-7000-8000-000000000001", turns=3, prompts=103_779, output=45),),
    "codex-repeat-count": (Right(f"{FORKED}a", turns=1, prompts=100, output=10),),
    "codex-two-days": (Right(f"{FORKED}9", turns=2, prompts=200_000, output=2_000),),
    "cursor-partial": (Right("37373737-aaaa-4037-8037-373737373737", turns=1, prompts=1_500, output=20),),
    "gemini-checkpoint": (Right("12121212-1212-4212-8212-121212121213", prompts=3_350, output=40),),
    "gemini-rewind": (Right("12121212-1212-4212-8212-121212121212", turns=3, prompts=4_550, output=50),),
    "gemini-tooltokens": (
        Right("12121212-1212-4212-8212-121212121215", turns=1, prompts=1_500, output=70, milliseconds=1_000),
    ),
    "openai-both-reasoning": (Right("", prompts=100, output=10),),
    "openai-empty-toolcalls": (Right("", prompts=100, output=10),),
    "turn-ends-late": (Right("", turns=2, milliseconds=12_000),),
    "turn-named-after-local-command": (Right("", turns=2, title="please fix the login bug"),),
}
"""File, or folder of files in order, of `streams` -> its sessions: all that there are. An empty id: the only one."""

TORN = {"claude-torn": ["torn"]}
"""File of `streams` -> why lines of it, or parts of lines, cannot be read; all other lines can."""
