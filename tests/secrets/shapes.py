"""Fake secrets, generated in the shapes of real ones: a table of shapes, and how they are filled.

In a shape, `<a20>` means 20 letters and digits, `<h>` for hexadecimal digits, `<u>` for capitals and digits, `<d>` for
digits, `<w>` for letters, digits, `_` and `-`, `<l>` for letters, `<b>` for small letters and digits, `<g>` for a UUID.
The text between `«` and `»` is the secret. So this file has no secret, and no scanner takes it for one.
"""

from __future__ import annotations

import random
import re
import string
from typing import NamedTuple

__all__ = ["SHAPES", "Fake", "fakes"]

_SETS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "u": string.ascii_uppercase + string.digits,
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "l": string.ascii_letters,
    "s": string.ascii_lowercase,
    "b": string.ascii_lowercase + string.digits,
    "+": string.ascii_letters + string.digits + "+/",
}
_HOLE = re.compile(r"<([ahudwlsb+])(\d+)>|<g>")

TOKENS = (
    "AKIA<u16>",
    "ASIA<u16>",
    "AIza<w35>",
    "ya29.<w60>",
    "GOCSPX-<w28>",
    "1//0<w43>",
    "ghp_<a36>",
    "gho_<a36>",
    "ghu_<a36>",
    "ghs_<a36>",
    "ghr_<a36>",
    "github_pat_<a22>_<a59>",
    "glpat-<w20>",
    "glrt-<w20>",
    "gldt-<w20>",
    "glcbt-<h2>_<w20>",
    "glptt-<h40>",
    "xoxb-<d12>-<d12>-<a24>",
    "xoxp-<d12>-<d12>-<d12>-<h32>",
    "xapp-1-A<u10>-<d13>-<h64>",
    "xoxe.xoxp-1-<u163>",
    "sk_live_<a24>",
    "sk_test_<a24>",
    "rk_live_<a24>",
    "whsec_<a32>",
    "sk-ant-api03-<w93>AA",
    "sk-ant-admin01-<w93>AA",
    "sk-proj-<w74>T3BlbkFJ<w74>",
    "sk-svcacct-<w60>",
    "sk-<a20>T3BlbkFJ<a20>",
    "sk-or-v1-<h64>",
    "gsk_<a52>",
    "xai-<a80>",
    "pplx-<a48>",
    "r8_<a37>",
    "hf_<l34>",
    "nvapi-<w64>",
    "csk-<b48>",
    "tvly-dev-<a32>",
    "fw_<a24>",
    "npm_<a36>",
    "pypi-AgEIcHlwaS5vcmc<w70>",
    "rubygems_<h48>",
    "dckr_pat_<w27>",
    "oy2<b43>",
    "hvs.<w92>",
    "hvb.<w140>",
    "dop_v1_<h64>",
    "doo_v1_<h64>",
    "dor_v1_<h64>",
    "dapi<h32>",
    "shpat_<h32>",
    "shpss_<h32>",
    "shpca_<h32>",
    "lin_api_<a40>",
    "ntn_<a46>",
    "secret_<a43>",
    "figd_<w40>",
    "SG.<w22>.<w43>",
    "key-<h32>",
    "SK<h32>",
    "PMAK-<h24>-<h34>",
    "NRAK-<u27>",
    "tskey-auth-<a11>CNTRL-<a32>",
    "AGE-SECRET-KEY-1<u58>",
    "glsa_<a32>_<h8>",
    "sntrys_eyJpYXQiOjE<+40>LCJyZWdpb25fdXJs<+40>=_<+43>",
    "pscale_tkn_<w43>",
    "sbp_<h40>",
    "rnd_<a32>",
    "pul-<h40>",
    "dp.pt.<a43>",
    "EAACEdEose0cBA<a60>",
    "sq0csp-<w43>",
    "sq0atp-<w22>",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx<a24>.<w43>",
    "v1.0-<h24>-<h146>",
    "CCIPAT_<a22>_<h40>",
    "phx_<a43>",
    "<a76>AZDO<a4>",
    "<a42>+ACR<a6>",
    "<a6>_<a29>_mmk",
    "ion_<a42>",
)
"""Shapes of tokens that are secrets anywhere."""
VALUES = (
    "password: «<a12>»",
    '"password": "«<l8>»"',
    "'passwd' => '«<a10>!»'",
    "<password>«<a12>»</password>",
    "DB_PASSWORD=«<a14>»",
    '$p = ConvertTo-SecureString "«<a12>»" -AsPlainText -Force',
    "ConvertTo-SecureString -String '«<a12>»' -AsPlainText",
    "app password: «<s4> <s4> <s4> <s4>»",
    "SMTP_PASSWORD='«<s4> <s4> <s4> <s4>»'",
    'MNEMONIC="«<s5> <s4> <s6> <s3> <s8> <s5> <s5> <s4> <s6> <s3> <s8> <s5>»"',
    "seed phrase: «<s5> <s4> <s6> <s3> <s8> <s5> <s5> <s4> <s6> <s3> <s8> <s5>»",
    "contraseña: «<a10>»",
    "mot de passe : «<a10>»",
    "пароль: «<a10>»",
    "密码: «<a10>»",
    "パスワード：«<a10>»",
    "비밀번호=«<a10>»",
    "PGPASSWORD=«<a10>» psql -h db",
    "export MYSQL_PWD='«<a12>»'",
    '"pwd":"«<a9>»"',
    'passphrase = "«<a10>»"',
    "ADMIN_PASS=«<a10>»",
    '"client_secret":"«<a32>»"',
    "CLIENT_SECRET=«<w34>»",
    "aws_secret_access_key = «<+40>»",
    "AWS_SESSION_TOKEN=«<+200>»",
    '"refresh_token": "«<w40>»"',
    '"access_token":"«<w40>»"',
    '"id_token" : "«<w60>»"',
    "auth_token=«<h40>»",
    '"api_key": "«<h32>»"',
    "x-api-key: «<a32>»",
    "X-Auth-Token: «<h32>»",
    '"x-api-key": "«<a32>»"',
    "PRIVATE-TOKEN: «<a20>»",
    "Ocp-Apim-Subscription-Key: «<h32>»",
    "Authorization: Bearer «<w40>»",
    '"Authorization": "Basic «<+24>=»"',
    "authorization: token «<h40>»",
    "Proxy-Authorization: Basic «<+30>=»",
    "Cookie: «sid=<h32>; theme=dark»",
    "Set-Cookie: «session=<w40>; Path=/; HttpOnly»",
    '"cookie":"«auth=<a30>»"',
    "curl -u admin:«<a12>» https://h/",
    'curl --user "bob:«<a12>»" https://h/',
    "sshpass -p «<a10>» ssh h",
    "mysql -u root -p«<a10>» db",
    "psql postgres://app:«<a12>»@db/x",
    "redis://:«<a20>»@cache:6379/0",
    "https://bot:«<a20>»@git.example.com/x.git",
    "https://h/a?token=«<h32>»&b=1",
    "https://h/a?api_key=«<a24>»",
    "https://h/a#access_token=«<w40>»&x=1",
    "https://h/blob?sv=1&sig=«<a43>%3D»",
    "tool --token «<a32>» run",
    "tool --api-key=«<a32>»",
    "tool --password «<a12>»",
    "docker login -u me -p «<a16>» r.example.com",
    "machine api.example.com login me password «<a14>»",
    "//registry.example.com/:_authToken=«<g>»",
    "_auth=«<+28>=»",
    "AccountName=x;AccountKey=«<+86>==»;EndpointSuffix=core",
    "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey=«<+43>=»",
    "Server=h;Database=d;User Id=u;Password=«<a10>»;",
    'heroku_api_key = "«<g>»"',
    "HEROKU_API_KEY=«<g>»",
    "TWILIO_AUTH_TOKEN=«<h32>»",
    "https://hooks.slack.com/services/«T<u8>/B<u8>/<a24>»",
    "https://discord.com/api/webhooks/<d18>/«<w68>»",
    "DATADOG_API_KEY=«<h32>»",
    "MAILGUN_API_KEY=«<h32>-<h8>-<h8>»",
    "cloudflare_api_token: «<w40>»",
    "NPM_TOKEN=«<g>»",
    '"encryption_key":"«<+43>=»"',
    "«<d10>:AA<w33>» telegram",
    'apiKey:               "«<h32>»",',
    "tracking api key: «<h20>»",
    'ado_pat = "«<b52>»"',
    '"method":"auth.login_with_api_key", "params": ["«8-<a64>»"]',
)
"""Shapes of values that are secret because of their names."""
KEY_NAMES = ("RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED ", "DSA ")
SHAPES = (*(f"«{token}»" for token in TOKENS), *VALUES)


class Fake(NamedTuple):
    shape: str
    text: str
    secret: str


def fakes(seed: int) -> list[Fake]:
    """Return one secret of each shape."""
    made = random.Random(seed)
    found = []
    for shape in SHAPES:
        text = _HOLE.sub(lambda hole: _filled(hole, made), shape)
        before, secret, after = re.split("[«»]", text)
        found.append(Fake(shape, before + secret + after, secret))
    for name in KEY_NAMES:
        body = "\n".join(_HOLE.sub(lambda hole: _filled(hole, made), "<+64>") for _ in range(6))
        text = f"-----BEGIN {name}PRIVATE KEY-----\n{body}\n-----END {name}PRIVATE KEY-----"
        found.append(Fake(f"{name}private key", text, body))
    return found


def _filled(hole: re.Match[str], made: random.Random) -> str:
    if hole[1] is None:
        return "-".join("".join(made.choices(_SETS["h"], k=size)) for size in (8, 4, 4, 4, 12))
    text = made.choices(_SETS[hole[1]], k=int(hole[2]))
    if hole[1] not in "dls":  # real ones have a digit and a letter, nearly all
        text[len(text) // 2 :: 7] = made.choices("23456789", k=len(text[len(text) // 2 :: 7]))
    return "".join(text)
