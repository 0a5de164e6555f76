"""The URL of a journal on NATS, logins, and the messages when a daemon cannot connect."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.nats_server import NatsServer
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT
from tests.programs import require
from tooltap.daemon.config import ConfigError, load_config
from tooltap.daemon.journal.interface import JournalError, PlaceError
from tooltap.daemon.journal.nats.journal import NatsJournal
from tooltap.daemon.journal.nats.place import NatsOptions, NatsPlace, parse_nats_url

# -- the URL ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("nats://h", NatsPlace(servers=("nats://h:4222",))),
        (
            "nats://me:p%40ss@a:4000,b/team-1?replicas=3&max_bytes=2000000000",
            NatsPlace(
                servers=("nats://a:4000", "nats://b:4222"),
                name="team-1",
                user="me",
                password="p@ss",
                options=NatsOptions(replicas=3, max_bytes=2_000_000_000),
            ),
        ),
        (
            "tls://s3cret@h/?creds=~/me.creds&domain=hub&connect_timeout=0.5",
            NatsPlace(
                servers=("tls://h:4222",),
                token="s3cret",
                options=NatsOptions(creds="~/me.creds", domain="hub", connect_timeout=0.5),
            ),
        ),
    ],
)
def test_url_is_parsed(url: str, place: NatsPlace) -> None:
    assert parse_nats_url(url) == place
    assert load_config(journal=url).journal_place == place
    assert "s3cret" not in str(place)
    assert "p@ss" not in str(place)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nats:///name", "the journal nats:// is not of the form nats://HOST[:PORT][/NAME][?OPTIONS]"),
        ("nats://h/a.b", "the name of a journal on NATS consists of letters, digits, - and _, not 'a.b'"),
        ("nats://h?replica=3", "the journal's URL: object contains unknown field `replica`"),
        ("nats://h?replicas=9", "the journal's URL: replicas: expected `int` <= 5"),
    ],
)
def test_wrong_url_is_refused(url: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        _ = load_config(journal=url).journal_place


def test_unreadable_file_is_named() -> None:
    with pytest.raises(PlaceError, match=r"^the journal's file /nowhere/x\.creds cannot be read: No such file"):
        parse_nats_url("nats://h?creds=/nowhere/x.creds").connect_options()


# -- getting in ---------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "login"), [(("--user", "me", "--pass", "pw"), "me:pw"), (("--auth", "tok"), "tok")]
)
async def test_login(tmp_path: Path, options: tuple[str, ...], login: str) -> None:
    with NatsServer(tmp_path, *options) as server:
        host = server.url.removeprefix("nats://")
        await (await NatsJournal.open(parse_nats_url(f"nats://{login}@{host}"))).close()
        for wrong in ("", "not-it@", "me:not-it@"):
            with pytest.raises(JournalError, match=rf"^the journal nats://{host}/tooltap refuses the login: "):
                await NatsJournal.open(parse_nats_url(f"nats://{wrong}{host}"))


@pytest.mark.anyio
async def test_tls_with_client_certificate(tmp_path: Path) -> None:
    make_keys(tmp_path)
    keys = ("cert", "key")
    tls = [f"--tls{name}={tmp_path / f'server.{name}'}" for name in keys]
    with NatsServer(tmp_path, "--tls", "--tlsverify", f"--tlscacert={tmp_path / 'ca.cert'}", *tls) as server:
        url = f"tls://{server.url.removeprefix('nats://')}"
        shown = f"&tls_cert={tmp_path / 'client.cert'}&tls_key={tmp_path / 'client.key'}"
        journal = await NatsJournal.open(parse_nats_url(f"{url}?tls_ca={tmp_path / 'ca.cert'}{shown}"))
        await journal.close()
        with pytest.raises(JournalError, match=r"cannot be reached: .*certificate verify failed"):
            await NatsJournal.open(parse_nats_url(f"{url}?connect_timeout=2{shown}"))


def make_keys(directory: Path) -> None:
    """An authority, and certificates it signed for a server and a client at 127.0.0.1."""

    def openssl(*arguments: str) -> None:
        require("openssl")
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=TIMEOUT)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.cert", "-subj", "/CN=ca", "-days", "1")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-CA", "ca.cert", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.cert", *signed)


@pytest.mark.anyio
async def test_url_options_are_applied(nats_place: NatsPlace) -> None:
    for max_bytes, expected in ((None, -1), (5_000_000, 5_000_000), (None, 5_000_000), (6_000_000, 6_000_000)):
        place = NatsPlace(servers=nats_place.servers, name=nats_place.name, options=NatsOptions(max_bytes=max_bytes))
        journal = await NatsJournal.open(place)
        config = (await journal._connection.api(f"STREAM.INFO.{place.name}"))["config"]
        await journal.close()
        assert config["max_bytes"] == expected


@pytest.mark.anyio
async def test_foreign_stream_is_refused(nats_place: NatsPlace) -> None:
    journal = await NatsJournal.open(nats_place)
    await journal._connection.api("STREAM.CREATE.theirs", name="theirs", subjects=["theirs.>"])
    with pytest.raises(JournalError, match=r"the stream theirs of .* exists, but is not a tooltap journal"):
        await NatsJournal.open(NatsPlace(servers=nats_place.servers, name="theirs"))
    await journal.close()


@pytest.mark.anyio
@pytest.mark.parametrize("number", ["99", "0"])
async def test_other_format_is_refused(nats_place: NatsPlace, number: str) -> None:
    journal = await NatsJournal.open(nats_place)
    config = (await journal._connection.api(f"STREAM.INFO.{nats_place.name}"))["config"]
    config["metadata"]["tooltap-format"] = number
    await journal._connection.api(f"STREAM.UPDATE.{nats_place.name}", **config)
    await journal.close()
    with pytest.raises(
        JournalError, match=f"has format {number}, written by another version of tooltap; this one knows only 1"
    ):
        await NatsJournal.open(nats_place)


# -- `tooltap serve` ----------------------------------------------------------------------------------------------


def serve(directory: Path, journal: str, *python: str) -> tuple[int, str]:
    """Exit code and stderr of a daemon that cannot start."""
    command = [sys.executable, *(python or ("-m", "tooltap.cli")), "serve", "--socket", str(directory / "s" / "t.sock")]
    finished = subprocess.run(
        [*command, "--journal", journal], capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    # A busy machine may hold the event loop, which the log says.
    said = [line for line in finished.stderr.splitlines(keepends=True) if '"the event loop ' not in line]
    return finished.returncode, "".join(said)


def test_unreachable_server_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as silent:  # bound, so that nobody else listens there
        silent.bind(("127.0.0.1", 0))
        url = f"nats://127.0.0.1:{silent.getsockname()[1]}"
        code, said = serve(tmp_path, f"{url}?connect_timeout=2")

    assert code == 1
    assert re.fullmatch(rf"tooltap: the journal {url}/tooltap cannot be reached: Connection refused\n", said), said


def test_server_without_jetstream_is_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    config.write_text("")
    with NatsServer(tmp_path, "-c", str(config), jetstream=False) as server:
        code, said = serve(tmp_path, f"{server.url}?connect_timeout=2")

    sentences = [line for line in said.splitlines() if line.startswith("tooltap: ")]  # beside the log
    assert code == 1
    assert [one.partition(" cannot be ")[2] for one in sentences] == [
        "reached: JetStream does not answer; is it enabled on the server?"
    ]


def test_missing_extra_is_named(tmp_path: Path) -> None:
    program = "import sys; sys.modules['nats'] = None; from tooltap.cli.main import main; main()"
    code, said = serve(tmp_path, "nats://127.0.0.1", "-c", program)

    missing = "a journal on NATS needs packages that are not installed"
    assert (code, said) == (1, f"tooltap: {missing}: pip install 'nats-py[nkeys]>=2.10'\n")


def test_log_and_stats_hold_no_secret(tmp_path: Path) -> None:
    with (
        NatsServer(tmp_path, "--user", "me", "--pass", "s3cret") as server,
        DaemonProcess(tmp_path, journal=server.url.replace("nats://", "nats://me:s3cret@")) as daemon,
    ):
        daemon.wait_ready()
        with daemon.connect() as wire:
            journal = wire.ask("stats")["journal"]

        assert journal["path"] == daemon.log[-1]["journal"] == f"{server.url}/tooltap"
        assert journal["connected"] == 1
