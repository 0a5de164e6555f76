"""`tooltap dialect`: a package with a new dialect is written, installed, and known everywhere."""

from __future__ import annotations

import ensurepip
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import environment, here, sentence, serving
from tests.test_layout import ROOT
from tooltap.normalizers.catalog.registry import dialects

TIMEOUT = 100
AGENT = "import sys; sys.stdout.write(open(sys.argv[1]).read())"


class Installation:
    """A fresh environment with packages installed by pip, beside tooltap and what it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", symlinks=True)
        self.python = folder / "venv" / "bin" / "python"
        [self.site] = (folder / "venv" / "lib").glob("python*/site-packages")
        beside = [str(ROOT / "src"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        self.variables = environment(PYTHONPATH=os.pathsep.join(beside))

    def install(self, package: Path) -> None:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check"]
        wheels = self.folder / f"{package.name}-wheels"
        subprocess.run(
            [*build, "--outdir", str(wheels), str(package)], check=True, capture_output=True, timeout=TIMEOUT
        )
        [pip] = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
        install = [str(self.python), str(pip / "pip"), "install", "--no-deps", "--no-index", "--quiet"]
        install += map(str, wheels.glob("*.whl"))
        subprocess.run(install, check=True, capture_output=True, timeout=TIMEOUT, env=environment())

    def run(self, *arguments: object, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), *map(str, arguments)]
        finished = subprocess.run(
            command, env=self.variables | variables, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        assert finished.returncode == code, finished.stdout + finished.stderr
        return finished

    def tooltap(self, *arguments: object, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "tooltap.cli", *arguments, code=code, **variables)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work") / "inkwell"
    assert here("dialect", "new", "inkwell-json", "--folder", folder).returncode == 0
    return folder


@pytest.fixture(scope="module")
def installation(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """With the written package, and with two that cannot be used."""
    folder = tmp_path_factory.mktemp("installation")
    installed = Installation(folder)
    installed.install(written)
    for name, module in {"smudge": "raise RuntimeError('no\\nink')", "blot": "class Blot: pass"}.items():
        (installed.site / f"tooltap_{name}.py").write_text(module)
        information = installed.site / f"tooltap_{name}-0.1.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tooltap-{name}\nVersion: 0.1\n")
        point = f"{name} = tooltap_{name}:{name.capitalize()}"
        (information / "entry_points.txt").write_text(f"[tooltap.dialects]\n{point}\n")
        files = (f"tooltap_{name}.py", *(f"{information.name}/{one}" for one in ("METADATA", "entry_points.txt")))
        (information / "RECORD").write_text("".join(f"{one},,\n" for one in (*files, f"{information.name}/RECORD")))
    return installed


def test_written_files_are_listed(tmp_path: Path) -> None:
    finished = here("dialect", "new", "inkwell-json", "--folder", tmp_path / "deep" / "inkwell")

    listed = {Path(line) for line in finished.stdout.decode().splitlines()}
    assert listed == {path for path in (tmp_path / "deep").rglob("*") if path.is_file()}
    assert len((tmp_path / "deep" / "inkwell" / "tooltap_inkwell_json.py").read_text().splitlines()) < 80


def test_default_folder_is_named_after_the_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here("dialect", "new", "inkwell-json")

    assert [path.name for path in tmp_path.iterdir()] == ["tooltap-inkwell-json"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "file").touch()
    for folder, wanted in ((tmp_path, "is not empty, and nothing is overwritten"), (tmp_path / "file", "is a file")):
        finished = here("dialect", "new", "inkwell-json", "--folder", folder)

        assert finished.returncode == 2
        assert wanted in sentence(finished)
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "file"}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Inkwell", "lower-case letters"),
        ("../inkwell", "lower-case letters"),
        ("inkwell--json", "lower-case letters"),
        ("inkwell\nx", "lower-case letters"),
        ("q" * 41, "at most 40 characters"),
        ("auto", "tooltap uses this word itself"),
        ("acp", "is a dialect of tooltap"),
    ],
)
def test_bad_name_is_one_sentence(name: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finished = here("dialect", "new", name)

    assert finished.returncode == 2
    assert wanted in sentence(finished)
    assert list(tmp_path.iterdir()) == []


def test_all_dialects_are_listed() -> None:
    finished = here("dialect", "list")

    assert finished.returncode == 0
    assert [line.split()[0] for line in finished.stdout.decode().splitlines()] == dialects()


def test_installed_dialect_is_known(written: Path, installation: Installation) -> None:
    recording = written / "fixtures" / "example.jsonl"
    for name in ("auto", "inkwell-json"):
        events = installation.tooltap("normalize", "--dialect", name, recording).stdout.splitlines()
        kinds = [json.loads(event)["kind"] for event in events]

        assert kinds == ["session", "turn", "message", "tool-call", "tool-result", "message", "usage", "turn"]
        assert {json.loads(event)["dialect"] for event in events} == {"inkwell-json"}


def test_written_test_passes(written: Path, installation: Installation) -> None:
    installation.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", written)


def test_broken_packages_are_named_and_harm_nothing(installation: Installation) -> None:
    finished = installation.tooltap("dialect", "list", code=1)

    assert finished.stdout.splitlines()[-1].startswith("zed-db")
    assert "inkwell-json" in finished.stdout
    assert finished.stderr.splitlines() == [
        "tooltap: the package tooltap-blot 0.1 brings the dialect 'blot', which cannot be used: tooltap_blot:Blot is no"
        " subclass of tooltap.normalizers.core.parser.Parser",
        "tooltap: the package tooltap-smudge 0.1 brings the dialect 'smudge', which cannot be used:"
        " tooltap_smudge:Smudge raises RuntimeError on import (no ink)",
    ]


def test_broken_package_is_named_where_its_dialect_is_wanted(written: Path, installation: Installation) -> None:
    recording = written / "fixtures" / "example.jsonl"
    finished = installation.tooltap("normalize", "--dialect", "smudge", recording, code=2)

    assert "the package tooltap-smudge 0.1 brings the dialect 'smudge'" in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


def test_doctor_names_the_broken_package(installation: Installation) -> None:
    finished = installation.tooltap("doctor", code=1)

    assert "the package tooltap-inkwell-json 0.1 brings the dialect inkwell-json" in finished.stdout
    assert "Correct or uninstall the package tooltap-smudge" in finished.stdout


def test_agent_of_an_installed_dialect_is_tapped(written: Path, installation: Installation, tmp_path: Path) -> None:
    """`run` and the daemon both are in the fresh environment."""
    socket = tmp_path / "tooltap.sock"
    path = os.pathsep.join([str(installation.site), installation.variables["PYTHONPATH"]])
    tail = ("tail", "--after", "start", "--no-follow", "--mode", "json")
    events: list[dict[str, Any]] = []
    with serving(socket, tmp_path, PYTHONPATH=path):
        agent = [sys.executable, "-c", AGENT, written / "fixtures" / "example.jsonl"]
        installation.tooltap("run", "--", *agent, TOOLTAP_SOCKET=str(socket))
        while not any(event.get("state") == "completed" for event in events):  # some lines may wait in the spool
            printed = installation.tooltap(*tail, TOOLTAP_SOCKET=str(socket)).stdout
            events = [json.loads(line) for line in printed.splitlines()]

    assert {event["dialect"] for event in events} == {"inkwell-json"}
    assert "tool-result" in {event["kind"] for event in events}


def test_package_that_the_doctor_names_is_uninstalled(installation: Installation) -> None:
    """The last test: the others need the package."""
    named = re.findall(r"Correct or uninstall the package (\S+)\.", installation.tooltap("doctor", code=1).stdout)
    assert sorted(named) == ["tooltap-blot", "tooltap-smudge"]
    [pip] = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    installation.run(pip / "pip", "uninstall", "--yes", *named, PYTHONPATH="")
    left = installation.tooltap("doctor").stdout

    assert "uninstall the package" not in left
    assert "tooltap-inkwell-json 0.1 brings the dialect inkwell-json" in left
