"""docs/how-to/scale.md is true: its configurations are valid, its commands run, its options are complete."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, CODEX, environment
from tests.daemon.nats_server import PROGRAM, NatsServer
from tests.docs.pages import DOCS, blocks_of, tagged
from tests.docs.shell import write_program
from tests.programs import found
from tooltap.daemon.config import load_config
from tooltap.daemon.journal.nats.place import NatsOptions, NatsPlace

PAGE = DOCS / "how-to" / "scale.md"
TIMEOUT = 60


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server with the page's configuration, two daemons with the page's, and recordings; only the places differ."""
    home = tmp_path_factory.mktemp("scale")
    (home / "bin").mkdir()
    write_program(home / "bin" / "tooltap", f'exec {sys.executable} -m tooltap.cli "$@"')
    recordings = home / "recordings"
    recordings.mkdir()
    shutil.copy(CLAUDE, recordings / "claude.jsonl")
    shutil.copy(CODEX, recordings / "codex.jsonl")
    config = (
        tagged(PAGE, "nats.conf").replace("/var/lib/nats", str(home / "js")).replace("0.0.0.0:4222", "127.0.0.1:-1")
    )
    (home / "nats.conf").write_text(config)
    with NatsServer(home, "-c", str(home / "nats.conf"), jetstream=False) as server:
        host = server.url.removeprefix("nats://")
        (home / "tooltap.toml").write_text(tagged(PAGE, "tooltap.toml").replace("nats.example:4222", host))
        with ExitStack() as stack:
            daemons = [stack.enter_context(daemon(home, name)) for name in ("a", "b")]
            for one in daemons:
                assert one.stderr is not None
                assert any(b'"listening"' in line for line in one.stderr)  # a slow machine has more to say before
            yield home
            for one in daemons:
                one.terminate()
                one.communicate(timeout=TIMEOUT)
                assert one.returncode == 0


@contextmanager
def daemon(home: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        ["bash", "-c", f"exec {tagged(PAGE, 'daemon')}"],
        cwd=home,
        env=variables(home, name),
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def variables(home: Path, daemon: str) -> dict[str, str]:
    path = f"{home / 'bin'}:{environment()['PATH']}"
    return environment(PATH=path, HOME=str(home), TOOLTAP_SOCKET=str(home / daemon / "tooltap.sock"))


def run(home: Path, daemon: str, command: str) -> str:
    finished = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=home,
        env=variables(home, daemon),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_both_daemons_answer_alike(home: Path) -> None:
    [block] = [block for block in blocks_of(PAGE) if block[:2] == ("sh", "")]
    ingest, tail, sessions, _ = block.text.splitlines()

    run(home, "a", block.text)

    assert ingest.startswith("tooltap ingest")
    tailed = run(home, "b", tail)
    assert tailed
    assert tailed == run(home, "a", tail)
    assert "claude" in run(home, "b", sessions)


@pytest.mark.parametrize("name", ["nats.conf", "cluster.conf"])
def test_server_configurations_are_valid(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(tagged(PAGE, name))
    command = tagged(PAGE, "server").split()
    assert command[:2] == ["nats-server", "-c"]
    finished = subprocess.run(
        [found(PROGRAM), "-t", "-c", tmp_path / name], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr


def test_cluster_url_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(tagged(PAGE, "cluster.toml"))
    place = load_config(tmp_path / "c.toml").journal_place

    assert isinstance(place, NatsPlace)
    assert place.servers == tuple(f"nats://nats-{n}.example:4222" for n in (1, 2, 3))
    assert (place.name, place.password, place.options.replicas) == ("team-a", "change me", 3)


def test_options_are_listed() -> None:
    table = PAGE.read_text().split("| option |")[1].split("\n\n")[0]
    named = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:]))

    assert sorted(named) == sorted(NatsOptions.__struct_fields__)
