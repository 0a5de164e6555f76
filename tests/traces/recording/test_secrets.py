"""Secrets are masked in a trace, and text that merely looks like one is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tooltap.traces.recording.secrets import RULES, mask_lines, mask_secrets

LETTERS = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zAbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
BODY = "\n".join(["MIIEowIBAAKCAQEA" + LETTERS[:48]] * 4)
SECRETS = {
    "private-key": f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----",
    "anthropic-key": "sk-ant-api03-" + LETTERS[:40],
    "openai-key": "sk-proj-" + LETTERS[:40],
    "openrouter-key": "sk-or-v1-" + "0123456789abcdef" * 4,
    "github-token": "ghp_" + LETTERS[:36],
    "gitlab-token": "glpat-" + LETTERS[:20],
    "aws-key-id": "AKIA" + "ABCDEFGH12345678",
    "google-key": "AIza" + LETTERS[:35],
    "google-oauth": "ya29." + LETTERS[:40],
    "slack-token": "xoxb-" + "123456789012-" + LETTERS[:24],
    "slack-webhook": "T00000000/B00000000/" + LETTERS[:24],
    "stripe-key": "sk_live_" + LETTERS[:24],
    "npm-token": "npm_" + LETTERS[:36],
    "pypi-token": "pypi-AgEI" + LETTERS[:60],
    "huggingface-token": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "sendgrid-key": f"SG.{LETTERS[:22]}.{LETTERS[:43]}",
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{LETTERS[:43]}",
    "bearer": LETTERS[:24],
    "basic": "dXNlcjpwYXNzd29yZA==",
    "url-password": "hunter2!x",
    "variable": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEX",
}
BEFORE = {
    "slack-webhook": "https://hooks.slack.com/services/",
    "bearer": "Authorization: Bearer ",
    "basic": '"Authorization": "Basic ',
    "url-password": "postgres://user:",
    "variable": "AWS_SECRET_ACCESS_KEY=",
}
AFTER = {"url-password": "@db.example"}


def test_every_rule_has_a_case() -> None:
    assert {rule.kind for rule in RULES} == set(SECRETS)


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("lead", ["", "\n", "\t", "x", '"', "\u001b[31m", "é"])
def test_secret_is_masked_and_line_stays_json(kind: str, lead: str) -> None:
    before, after = BEFORE.get(kind, ""), AFTER.get(kind, "")
    text = f'look: {lead}{before}{SECRETS[kind]}{after}\n"and on"'

    masked = json.loads(mask_secrets(json.dumps({"text": text, "n": 1}).encode()))

    assert masked == {"text": f'look: {lead}{before}[masked {kind}]{after}\n"and on"', "n": 1}


def test_batch_is_masked_like_single_lines() -> None:
    secrets = [f"{BEFORE.get(kind, '')}{secret}{AFTER.get(kind, '')}" for kind, secret in SECRETS.items()]
    secrets += ["AKIA" + "ABCDEFGH12345678", "gho_" + LETTERS[:36], "github_pat_" + LETTERS[:60]]
    secrets += ["rk_live_" + LETTERS[:24], "GOCSPX-" + LETTERS[:24], "sk-" + LETTERS[:20] + "T3BlbkFJ" + LETTERS[:20]]
    secrets += [f"MY_{name}={LETTERS[:24]}" for name in ("API_KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD")]
    lines = [json.dumps({"text": secret}).encode() for secret in secrets]
    lines = [line for secret in lines for line in (b'{"text":"nothing"}', b"", secret)]
    alone = [mask_secrets(line) for line in lines]

    assert mask_lines(lines) == alone
    assert sum(b"[masked" in line for line in alone) == len(secrets)
    assert mask_lines([]) == []


def test_secret_in_nested_json_is_masked() -> None:
    inner = json.dumps({"OPENAI_API_KEY": "a1" * 12, "key": SECRETS["private-key"], "next": "kept"})

    masked = mask_secrets(json.dumps({"arguments": inner}).encode())

    assert json.loads(json.loads(masked)["arguments"]) == {
        "OPENAI_API_KEY": "[masked variable]",
        "key": "[masked private-key]",
        "next": "kept",
    }


def test_private_key_with_line_numbers_is_masked() -> None:
    numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(SECRETS["private-key"].split("\n"), 1))

    masked = json.loads(mask_secrets(json.dumps([numbered, "next"]).encode()))

    assert masked == ["     1\t[masked private-key]", "next"]


def test_truncated_private_key_is_masked() -> None:
    cut = SECRETS["private-key"][:200]

    assert mask_secrets(json.dumps([cut]).encode()) == b'["[masked private-key]"]'


@pytest.mark.parametrize(
    "harmless",
    [
        "the header -----BEGIN PRIVATE KEY----- starts a key",
        'API_KEY=os.environ["API_KEY"]',
        "API_KEY=your-api-key-goes-here",
        "max_tokens=1000000000000, PRIMARY_KEY=user12345678901234",
        "the bearer authentication_or_authorization",
        "https://example.com:8080/a@b ssh://git@host/x",
        "call_0123456789abcdef0123456789abcdef toolu_01AbCdEfGhIjKlMnOpQrStUv",
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "skill sk-learn task-force desk-proj",
    ],
)
def test_harmless_text_is_not_masked(harmless: str) -> None:
    line = json.dumps({"text": harmless}).encode()

    assert mask_secrets(line) is line


def test_recorded_streams_are_not_changed() -> None:
    """The fixtures hold no secrets, but many ids, hashes, JSON keys and source code."""
    for path in (Path(__file__).parents[2] / "fixtures").rglob("*.jsonl"):
        for line in path.read_bytes().split(b"\n"):
            assert mask_secrets(line) is line


@pytest.mark.parametrize("piece", [b"-----BEGIN PRIVATE KEY-----", b"sk-", b"a://b:", b"A_TOKEN=", b"Bearer ", b"eyJ."])
def test_masking_is_linear(piece: bytes) -> None:
    """A quadratic pattern would take minutes and exceed the time limit."""
    line = piece * (2_000_000 // len(piece)) + b"T3BlbkFJ .eyJ earer "

    assert len(mask_secrets(line)) > 0
