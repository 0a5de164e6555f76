"""Secrets are masked in lines, bodies and text, and text that merely looks like one is not."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.secrets.measure import is_masked, lines_of, seconds_for_each_byte, touched
from tests.secrets.shapes import Fake, fakes
from tooltap.traces.recording import secrets
from tooltap.traces.recording.secret_rules import Literal, find_with_hyperscan, find_with_re, rules
from tooltap.traces.recording.secrets import find_secrets, mask_body, mask_lines, mask_secrets

FIXTURES = Path(__file__).parents[2] / "fixtures"
FAKES = fakes(18)
GITHUB = next(fake.secret for fake in FAKES if fake.secret.startswith("ghp_"))
KEY = next(fake.text for fake in FAKES if fake.shape == "RSA private key")


def test_the_table_says_where_it_is_from() -> None:
    table = Path(__file__).parents[3] / "traces" / "static" / "secret_rules.jsonl"
    head = json.loads(table.read_bytes().split(b"\n", 1)[0])
    notice = (Path(__file__).parents[3] / "docs" / "NOTICE").read_text()

    assert all(name.partition("==")[0] in notice for name in head["sources"])
    assert len(rules()) > 700


@pytest.mark.parametrize("fake", FAKES, ids=lambda fake: fake.shape[:40])
def test_secret_is_masked_and_line_stays_json(fake: Fake) -> None:
    for lead in ("", "\n", "\t", "é ", "\u001b[31m"):
        text = f'look: {lead}{fake.text}\n"and on"'
        for depth in range(4):
            line = text
            for _ in range(depth):
                line = json.dumps({"text": line, "n": 1})
            masked: Any = mask_secrets(line.encode()).decode()
            for _ in range(depth):
                masked = json.loads(masked)["text"]

            assert fake.secret not in masked, (lead, depth)
            assert masked.startswith(f"look: {lead}")
            assert masked.endswith('\n"and on"')
            assert "[masked " in masked


def test_masking_twice_changes_nothing_more() -> None:
    once = [mask_secrets(json.dumps([fake.text]).encode()) for fake in FAKES]

    assert [mask_secrets(line) for line in once] == once


def test_batch_is_masked_like_single_lines() -> None:
    lines = [line for fake in FAKES for line in (b'{"text":"nothing"}', b"", json.dumps([fake.text]).encode())]
    alone: Counter[str] = Counter()
    together: Counter[str] = Counter()

    assert mask_lines(lines, together) == [mask_secrets(line, alone) for line in lines]
    assert together == alone
    assert mask_lines([]) == []


def test_a_line_ends_what_is_seen_of_a_secret() -> None:
    lines = [b"password:", b"hunter2hunter2", b"curl -u", b"me:hunter2hunter2"]

    assert mask_lines(lines) == lines


def test_numbers_become_strings() -> None:
    line = json.dumps({"password": 12345678, "pin": 1, "inner": json.dumps({"password": 12345678})})

    masked = json.loads(mask_secrets(line.encode()))

    assert masked["password"] == "[masked password]"
    assert json.loads(masked["inner"]) == {"password": "[masked password]"}


@pytest.mark.parametrize("value", ['a"b1c"d', "a\\b1\\", "a\nb1cd", "é1été", '\\"1x', "[1, 2"])
def test_values_with_escapes_leave_json(value: str) -> None:
    line: Any = {"password": value, "next": "kept"}
    for _ in range(3):
        line = json.dumps({"password": value, "text": json.dumps(line), "next": "kept"})
        masked = json.loads(mask_secrets(line.encode()))
        assert masked["next"] == "kept"
        assert json.loads(masked["text"])["next"] == "kept"
        line = json.loads(line)


def test_private_key_with_line_numbers_or_truncated_is_masked() -> None:
    numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(KEY.split("\n"), 1))

    assert json.loads(mask_secrets(json.dumps([numbered, "next"]).encode())) == ["     1\t[masked private-key]", "next"]
    assert mask_secrets(json.dumps([KEY[:200]]).encode()) == b'["[masked private-key]"]'


@pytest.mark.parametrize("nested", range(3))
def test_end_of_a_private_key_is_masked(nested: int) -> None:
    """As `tail` prints it: its first line is missing."""
    before, tail = "$ tail -3 id_rsa\n", KEY.partition("\n")[2]
    line = before + tail + "\nand on"
    for _ in range(nested):
        line = json.dumps({"text": line})
    masked = mask_secrets(line.encode()).decode()
    for _ in range(nested):
        masked = json.loads(masked)["text"]

    end = tail.rpartition("\n")[2]
    assert masked == f"{before}[masked private-key]{end}\nand on"


def test_end_of_a_private_key_masks_nothing_of_the_line_before() -> None:
    lines = [b"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=", b"-----END PRIVATE KEY-----"]

    assert mask_lines(lines) == [mask_secrets(line) for line in lines] == lines


def test_bodies_are_masked_unless_they_are_binary() -> None:
    binary = b"\xff" + GITHUB.encode()

    assert mask_body(f"a\n{GITHUB}\n".encode()).startswith(b"a\n[masked github")
    assert mask_body(binary) is binary


@pytest.mark.parametrize(
    "harmless",
    [
        "the header -----BEGIN PRIVATE KEY----- starts a key",
        'API_KEY=os.environ["API_KEY"] token=get_token(user) password: str = Field(min_length=8)',
        "API_KEY=your-api-key-goes-here PASSWORD=${DB_PASSWORD} --token $TOKEN password=<password>",
        'max_tokens=1000000000000, PRIMARY_KEY=user12345678901234 "output_tokens": 123456',
        "the bearer authentication_or_authorization, Cookie: none, docker run -u 1000:1000 image",
        "https://example.com:8080/a@b ssh://git@host/x",
        "call_0123456789abcdef0123456789abcdef toolu_01AbCdEfGhIjKlMnOpQrStUv",
        'tests_passed = "12 of 14", assertTrue(test_passed, "all 9 is well"); password: this is what users type here',
        "contraseña: necesaria. пароль: нужен 1. Die Passwörter: 密码：必填 口令 parola: yes mnemonic: lw, sw",
        "-----END PRIVATE KEY----- ends a key, as -----END CERTIFICATE----- ends QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=",
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "skill sk-learn task-force desk-proj token_count: 123456789012 tokenUrl: https://example.com/abc123def456",
        '{"type":"password","title":"Password","token_type":"Bearer","secret":true,"key":"session_0123456789abcdef"}',
    ],
)
def test_harmless_text_is_not_masked(harmless: str) -> None:
    for line in (harmless.encode(), json.dumps({"text": harmless}).encode()):
        assert mask_secrets(line) is line


@pytest.mark.parametrize(
    "harmless",
    [
        # names in a row
        "words = ['DES_KEY', 'PKCS12_BAG_AND_ATTRIBUTES', 'GOST_KEY', '__linux_sigset64_t', 'DH_KEY', 'mutex3264']",
        "all = ['LDAPPasswordStore', 'LDAPPasswordStoreWithoutReferrals', 'reset_password', 'notify_owner_of_change']",
        "['CHANGE_PASSWORD', 'JOURNAL_WITH_BIG_CHUNKS_OF_DATA', 'checkPasswordNow', 'validateAddressOfOwner']",
        # an option or an address after a name
        "run(['tool', '--in', 'leaf.passwd.key', '-des3', '--to', 'x.passwd.key', '--sha512'])",
        "split(('joe', 'password', 'mail-1.example.com:2525')) or ('passwd', 'host2:587')",
        # names as values
        "DES_KEY = des3_key_st; session_key: 'app2.web.sax_parser'",
        "base_key = 'Software\\\\Vendor\\\\Product\\\\{}.{name}'",
        "authorization = codecs.encode64(authorization), {'Authorization': hashlib.sha256[0]}",
        "def load(self, mode='r', *rest, pwd=None, **options): pass",
        # in brackets, but no row of names that gets values
        "if (user, password) in (('a1', 'b22222'),): print(user, password), len = 'a1b2c3', 'd4e5f6'",
        "connect(user, password) == 'abc123'; [password for user, password in rows] == ['a1b2c3']",
        # strings in which expressions stand, and an apostrophe
        'password = f"{user}-7a"; let secret = $"a7-{user}"',
        "password: don't use 1 of these, it's bad",
        "password: str, name: str = 'x1y2z3'",
        # constructors of what is not the text, and types without a value
        'password = SecretStr(os.environ["DB_PASS1"]); secret = Secret("vault-7")',
        'password = getpass("Password 1: "), secret = config("SECRET_7")',
        "def login(password: SecretStr, name='x1y2z3')",
        'Password string `json:"password1"`',
        'func login(user, password string) (string, error) { return "x1y2z3", nil }',
        'var user, password string; host := "db7.example"',
    ],
)
def test_names_beside_the_name_of_a_secret_are_not_masked(harmless: str) -> None:
    for line in (harmless.encode(), json.dumps({"text": harmless}).encode()):
        assert mask_secrets(line) is line


@pytest.mark.parametrize(
    "text",
    [
        'user, password = "road", «runner7»',
        'password, user = «runner7», "road"',
        "name, host, secret = ('road', 'h1', «runner7»)",
        'self.host, self.password, self.port = "h1", «runner7», 22',
        '@user, @password = "road", «runner7»',
        'user, password := nil, «runner7»',
        'local user, api_key = "road", «f3a9c2e17b40d85e»',
        'api_key, password = «f3a9c2e17b40d85e», «runner7»',
        # in brackets, with types, far to the right, in a diff
        '(user, password) = ("road", «runner7»)',
        '(password, user) = («runner7», "road")',
        'const [ user, password ] = [ "road", «runner7» ];',
        'let (user, password): (&str, &str) = ("road", «runner7»);',
        'val (user, password) = Pair("road", «runner7»)',
        '(string user, string password) = ("road", «runner7»);',
        'my ($user, $password) = ("road", «runner7»);',
        'list($user, $password) = array("road", «runner7»);',
        'auto [user, password] = std::make_tuple("road", «runner7»);',
        '{user, password} = {"road", «runner7»}',
        'assert (user, password) == ("road", «runner7»)',
        '                    user, password = "road", «runner7»',
        '+    (user, password) = (b"road", b«runner7»)',
        # of a call, the value that stands at the name
        'connect(user, password=«runner7», "db1")',
        'connect("h1", user, password=«runner7», "db1")',
        # one value for all names
        'user, password = «road:runner7».split(":")',
        # after a comma, what is not written as the name is
        '"db_password", «MarbleFoxJumpsQuicklyOverWind»',
        '("password", «runner7»), ("secret", «pa#ss-w»), ("auth_token", «f3a9c2e17b40d85e»)',
    ],
)  # fmt: skip
def test_of_values_in_a_row_the_secret_one_is_masked(text: str) -> None:
    masked = re.sub("«[^»]*»", '"[masked]"', text)
    plain = re.sub("«([^»]*)»", r'"\1"', text)
    for lead in ("", "\n", "x = 1\n\t"):
        inside = json.loads(mask_secrets(json.dumps({"text": lead + plain}).encode()))["text"]
        for result in (inside, mask_secrets((lead + plain).encode()).decode()):
            assert re.sub(r"\[masked [a-z]+\]", "[masked]", result) == lead + masked


@pytest.mark.parametrize(
    "text",
    [
        # Python
        'password = b"«runner7»"',
        "password = rb'«runner7»'",
        'password = f"«runner7»"',
        'password = b"""«runner7»"""',
        '{b"password": b"«runner7»"}',
        '("password", b"«runner7»")',
        'user, password = b"road", b"«runner7»"',
        'headers = {b"Authorization": b"Basic «dXNlcjpwYXNzd29yZDE=»"}',
        'password: str = "«runner7»"',
        'def login(api_key: bytes | None = b"«f3a9c2e17b40d85e»") -> None:',
        # Rust
        'let password = b"«runner7»";',
        'let password = r#"«runner7»"#;',
        'const PASSWORD: &\'static str = "«runner7»";',
        'let password: &[u8] = br"«runner7»";',
        # Go, C++, Objective-C, C#, TypeScript, Scala, shells
        'password := []byte("«runner7»")',
        'std::wstring password = L"«runner7»";',
        'NSString *password = @"«runner7»";',
        'var password = $@"«runner7»";',
        'const password: string = "«runner7»";',
        'val password = s"«runner7»"',
        "PASSWORD=$'«runner7»'",
        # in the constructor of a type that holds the text itself
        'password = SecretStr("«runner7»")',
        'Settings(api_key=pydantic.SecretStr("«f3a9c2e17b40d85e»"), debug=True)',
        'password: SecretBytes = SecretBytes(b"«runner7»")',
        '{"password": SecretStr("«runner7»")}',
        'user, password = "road", SecretStr("«runner7»")',
        'let password = SecretString::new("«runner7»".into());',
        'let password = Secret::new(String::from("«runner7»"));',
        'password := string("«runner7»")',
        'auto password = std::string("«runner7»");',
        # behind a type, in Go
        'var password string = "«runner7»"',
        'var user, password string = "road", "«runner7»"',
        'var password, user string = "«runner7»", "road"',
        'const apiKey string = "«f3a9c2e17b40d85e»"',
        'var secret []byte = []byte("«runner7»")',
    ],
)
def test_strings_are_masked_as_each_language_writes_them(text: str) -> None:
    masked, plain = re.sub("«[^»]*»", "[masked]", text), re.sub("[«»]", "", text)
    inside = json.loads(mask_secrets(json.dumps({"text": plain}).encode()))["text"]
    for result in (inside, mask_secrets(plain.encode()).decode()):
        assert re.sub(r"\[masked [a-z]+\]", "[masked]", result) == masked


def test_ordinary_lines_are_not_touched() -> None:
    """The fixtures hold no secrets, but many ids, hashes, JSON keys and source code."""
    assert touched(lines_of(FIXTURES)) == 0


def test_nearly_all_shapes_are_masked() -> None:
    """Each kind of them is, in the tests above; here, with other characters."""
    made = [fake for seed in (3, 4) for fake in fakes(seed)]

    assert sum(is_masked(one.text, one.secret) for one in made) / len(made) >= 0.99


def test_it_is_fast() -> None:
    """`make lab-secrets` asks for 3 µs for each kB; here, the machine may be busy."""
    assert seconds_for_each_byte(lines_of(FIXTURES / "claude-stream")) < 8e-9


@pytest.mark.parametrize(
    "piece",
    [b"-----BEGIN PRIVATE KEY-----", b"sk-", b"://a:b", b"A_TOKEN=", b"Bearer ", b"eyJ.", b"password=\"", b"curl -u ",
     b"password=\\", b'a, password, b = "x', b"(a, password) = (b'", b"password: a[",
     b"password = SecretStr(", b"password string = ",
     b"Cookie: a=", b"machine a login b ", b"github key ", b"mysql -"],
)  # fmt: skip
def test_masking_is_linear(piece: bytes) -> None:
    """A quadratic rule would take minutes and exceed the time limit."""
    assert len(mask_secrets(piece * (100_000 // len(piece)))) > 0


def test_both_finders_find_the_same() -> None:
    pytest.importorskip("hyperscan", reason="it has no wheel for this Python")
    literals = [literal for rule in rules() for literal in rule.literals]
    text = b"\n".join(json.dumps([fake.text.swapcase(), fake.text]).encode() for fake in FAKES)
    fast, slow = find_with_hyperscan(literals), find_with_re(literals)

    assert sorted(fast(text)) == sorted(slow(text))
    overlapping = [Literal(b"ab", True), Literal(b"abc", False), Literal(b"bc", True, b"[ad]", 1)]
    assert sorted(find_with_re(overlapping)(b"ABcabC")) == sorted(find_with_hyperscan(overlapping)(b"ABcabC"))


def test_without_hyperscan_the_same_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same rules: only what finds the places differs."""
    lines = [json.dumps([fake.text, {"text": fake.text.upper()}]).encode() for fake in FAKES]
    lines += lines_of(FIXTURES / "claude-stream")[:300]
    before = mask_lines(lines)
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    secrets._found.cache_clear()
    try:
        assert secrets._found()[0].__qualname__.startswith("find_with_re")
        assert mask_lines(lines) == before
    finally:
        secrets._found.cache_clear()


_TEXTS = st.text() | st.sampled_from([fake.text for fake in FAKES])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_TEXTS | st.sampled_from(["password", "token", "api_key"]), inner, max_size=3)
        | inner.map(json.dumps)
    ),
    max_leaves=6,
)


@given(value=_VALUES)
def test_any_json_stays_json(value: Any) -> None:
    for ascii_only in (True, False):
        line = json.dumps({"v": value}, ensure_ascii=ascii_only).encode(errors="replace")
        json.loads(mask_secrets(line))


@given(data=st.binary())
def test_nonsense_is_kept(data: bytes) -> None:
    assert mask_secrets(data) == data or find_secrets(data)
