"""The package: metadata, the wheel's data files, scripts, and tests that are not silently skipped."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import import_module
from io import BytesIO
from itertools import product
from pathlib import Path
from zipfile import ZipFile

import click
import pytest
from packaging.requirements import Requirement

from tests import manual
from tests.npm_package import expected_files, problems_of
from tests.npm_package import main as pack
from tests.release import FORMULA, formula, without_licence, without_times
from tests.test_layout import FOLDERS, ROOT
from tooltap import __version__
from tooltap.cli.main import main
from tooltap.cli.subcommands import COMMANDS, tooltap

NODE = ROOT / "clients" / "typescript"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_console_script_is_main() -> None:
    module, _, name = PYPROJECT["project"]["scripts"]["tooltap"].partition(":")

    assert getattr(import_module(module), name) is main


def test_version_is_stated_once() -> None:
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"]["attr"] == "tooltap.__version__"
    assert __version__.count(".") == 2


def test_typescript_client_has_same_version_and_no_dependencies() -> None:
    package = json.loads((NODE / "package.json").read_text())

    assert package["version"] == __version__
    assert "dependencies" not in package
    assert package["license"] == PYPROJECT["project"]["license"]
    assert package["author"] == PYPROJECT["project"]["authors"][0]["name"]


def npm_package(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"package/{name}"), BytesIO())
    return path


def test_npm_package_without_a_file_or_with_one_too_many_is_refused(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "index.ts").touch()
    described = {"exports": {".": {"types": "./dist/src/index.d.ts", "default": "./dist/src/index.js"}}}
    whole = ("LICENSE", "README.md", "package.json", "src/index.ts", "dist/src/index.js", "dist/src/index.d.ts")
    expected = expected_files(tmp_path)

    assert problems_of(npm_package(tmp_path / "whole.tgz", *whole), expected, described) == []
    assert problems_of(npm_package(tmp_path / "more.tgz", *whole, ".npmrc"), expected, described) == [
        "more.tgz has .npmrc, which does not belong there"
    ]
    assert problems_of(npm_package(tmp_path / "less.tgz", *whole[:-1]), expected, described) == [
        "less.tgz has no dist/src/index.d.ts",
        "`exports` in package.json names dist/src/index.d.ts, which is not in less.tgz",
    ]


@pytest.mark.parametrize(("strict", "code"), [("", 0), ("1", 1)])
def test_without_npm_it_is_said_that_nothing_is_packed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, strict: str, code: int
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TOOLTAP_NO_SKIP", strict)

    assert pack() == code
    assert capsys.readouterr().out == "NOT PACKED: npm is missing\n"


def test_metadata_is_complete() -> None:
    project = PYPROJECT["project"]

    assert {"authors", "classifiers", "description", "keywords", "license", "readme", "requires-python"} <= set(project)
    assert (ROOT / project["readme"]).is_file()
    licence, notice = [(ROOT / name).read_text() for name in project["license-files"]]
    assert licence.startswith("MIT License\n")
    assert f"Copyright (c) 2025-2026 {project['authors'][0]['name']}\n" in licence
    assert "Apache License" in notice


def test_hyperscan_is_asked_for_only_where_there_is_a_wheel() -> None:
    """Elsewhere the extra must install, too; `re` does its work there (`tests/traces/recording/test_secrets.py`)."""
    [needed] = map(Requirement, PYPROJECT["project"]["optional-dependencies"]["hyperscan"])
    assert needed.marker is not None
    cpython = {"platform_python_implementation": "CPython"}
    for system, machine in product(("linux", "darwin"), ("x86_64", "aarch64", "arm64")):
        for version in ("3.11", "3.14"):
            here = {**cpython, "sys_platform": system, "platform_machine": machine, "python_version": version}
            assert needed.marker.evaluate(here)
    here = {**cpython, "sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.14"}
    for other in (
        {"python_version": "3.15"},
        {"platform_machine": "riscv64"},
        {"platform_machine": "armv7l"},
        {"sys_platform": "freebsd14"},
        {"platform_python_implementation": "PyPy"},
    ):
        assert not needed.marker.evaluate({**here, **other})


def test_nobody_gets_what_not_all_need() -> None:
    """Hyperscan is in C++, and the prices bring a dozen megabytes of packages for each installation."""
    assert {one.name for one in map(Requirement, PYPROJECT["project"]["dependencies"])}.isdisjoint(
        ("genai-prices", "hyperscan", "brotli", "duckdb", "httpx", "nats-py", "websockets")
    )


@pytest.mark.process
@pytest.mark.parametrize(("target", "extras"), [(".venv/.runtime", "hyperscan,prices"), (".venv/.dev", "dev")])
def test_make_installs_what_its_commands_need(target: str, extras: str) -> None:
    printed = subprocess.run(["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert f" -e '.[{extras}]'\n" in printed


def test_changelog_has_an_unreleased_section() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text()


def test_no_registry_is_named() -> None:
    """Whoever installs the client for Node may use another one."""
    assert '"resolved"' not in (NODE / "package-lock.json").read_text()


@pytest.mark.parametrize("folder", FOLDERS)
def test_data_files_are_in_the_wheel(folder: str) -> None:
    """Setuptools takes what the globs match, relative to the package that holds it, and silently omits the rest."""
    globs = PYPROJECT["tool"]["setuptools"]["package-data"]["*"]
    packages = [path.parent for path in (ROOT / folder).rglob("__init__.py")]
    shipped = {path for glob in globs for package in packages for path in package.glob(glob)}
    data = {
        path
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
    }

    assert data <= shipped


@pytest.mark.process  # click asks bash for its version
def test_manual_and_completion_scripts_are_current() -> None:
    """`make manual` writes them."""
    stale = [str(path.relative_to(ROOT)) for path, text in manual.files() if path.read_text() != text]

    assert stale == []


@pytest.mark.process  # click asks bash for its version
def test_manual_and_completion_scripts_are_installed() -> None:
    installed = {ROOT / path for paths in PYPROJECT["tool"]["setuptools"]["data-files"].values() for path in paths}

    assert installed == {path for path, _ in manual.files()}


@pytest.mark.programs("groff")
def test_manual_page_is_valid() -> None:
    page = manual.FOLDER / "tooltap.1"
    formatted = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", page], capture_output=True, text=True, check=True, timeout=60
    )

    assert formatted.stderr == ""
    assert all(f"tooltap {name}" in formatted.stdout for name in COMMANDS)


def test_manual_page_escapes_what_roff_reads() -> None:
    """A line that begins with a dot or an apostrophe is a request, and a backslash begins an escape."""
    assert manual.escaped(r".so it's a\b -x …") == r"\&.so it\(aqs a\eb \-x \[u2026]"


def test_image_gets_what_the_package_is_built_from() -> None:
    ignored = (manual.FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    needed = {"pyproject.toml", "src", PYPROJECT["project"]["readme"], *PYPROJECT["project"]["license-files"], *FOLDERS}

    assert ignored[0] == "*"
    assert needed <= {line.removeprefix("!") for line in ignored if line.startswith("!")}


@pytest.mark.parametrize("command", ["CMD", "compose"])
def test_image_runs_a_daemon_that_the_page_can_reach(command: str) -> None:
    found = {
        "CMD": re.search(r"^CMD (\[.*\])$", (manual.FOLDER / "Dockerfile").read_text(), re.MULTILINE),
        "compose": re.search(r"command: (\[\"serve.*\])$", (manual.FOLDER / "compose.yaml").read_text(), re.MULTILINE),
    }[command]
    assert found is not None
    arguments = json.loads(found[1])
    options = tooltap.get_command(click.Context(tooltap), "serve").make_context("serve", arguments[1:]).params  # type: ignore[union-attr]

    assert options["web"] == "0.0.0.0:8422"
    assert options["allow_remote"]


def test_compose_file_starts_the_daemon_when_its_server_answers() -> None:
    """The check asks at the port that the server's command opens."""
    _, nats, tooltap = re.split(
        r"^  (?:nats|tooltap):\n", (manual.FOLDER / "compose.yaml").read_text(), maxsplit=2, flags=re.MULTILINE
    )
    [command, check] = map(json.loads, re.findall(r"^ +(?:command|test): (\[.*\])$", nats, re.MULTILINE))
    [waits_for] = re.findall(r"^ +depends_on: (.*)$", tooltap, re.MULTILINE)

    assert waits_for == "{ nats: { condition: service_healthy } }"
    assert check[-1] == f"http://127.0.0.1:{command[command.index('--http_port') + 1]}/healthz"


def test_formula_is_of_the_package() -> None:
    text = FORMULA.read_text()
    stated = dict(re.findall(r'^  (desc|homepage|url|license|depends_on) "(.*)"$', text, re.MULTILINE))
    [needed] = re.findall(r"#\{buildpath\}\[(.*)\]", text)
    files = set(re.findall(r'_symlink libexec/"(share/.*)"', text))
    project = PYPROJECT["project"]
    version = stated["depends_on"].removeprefix("python@")

    assert stated["url"].endswith(f"/{project['name'][0]}/{project['name']}/{project['name']}-@VERSION@.tar.gz")
    assert stated["license"] == project["license"]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    assert f'opt_bin/"python{version}"' in text
    assert set(needed.split(",")) <= set(project["optional-dependencies"])
    data = PYPROJECT["tool"]["setuptools"]["data-files"]
    assert files == {f"{folder}/{Path(path).name}" for folder, paths in data.items() for path in paths}
    assert len(stated["desc"]) <= 80  # which `brew audit` asks for


def test_formula_has_the_hash_of_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "tooltap-1.2.3.tar.gz"
    archive.write_bytes(b"source")
    text = formula(archive)

    assert f'sha256 "{hashlib.sha256(b"source").hexdigest()}"' in text
    assert "tooltap/tooltap-1.2.3.tar.gz" in text
    assert re.findall(r"@[A-Z]+", text) == []


@pytest.mark.programs("ruby")
def test_formula_is_ruby() -> None:
    checked = subprocess.run(["ruby", "-wc", FORMULA], capture_output=True, text=True, check=False, timeout=60)

    assert (checked.stdout, checked.stderr) == ("Syntax OK\n", "")


def test_sdist_has_the_same_bytes_whenever_it_is_built() -> None:
    """Setuptools packs files in the order of the folder, with the times and the user of the machine."""

    def packed(names: str, time: int, user: str) -> bytes:
        with BytesIO() as data:
            with tarfile.open(fileobj=data, mode="w:gz") as archive:
                for name in names:
                    member = tarfile.TarInfo(name)
                    member.mtime, member.uname, member.size = time, user, 1
                    archive.addfile(member, BytesIO(name.encode()))
            return data.getvalue()

    first, second = packed("ab", 1, "jo"), packed("ba", 2_000_000_000, "root")

    assert first != second
    assert without_times(first, 7) == without_times(second, 7)
    with tarfile.open(fileobj=BytesIO(without_times(first, 7))) as archive:
        assert [(one.name, one.mtime, one.uname) for one in archive] == [("a", 7, ""), ("b", 7, "")]


def test_package_without_its_licence_is_noticed(tmp_path: Path) -> None:
    sdist, wheel = tmp_path / "tooltap-1.2.3.tar.gz", tmp_path / "tooltap-1.2.3-py3-none-any.whl"
    with tarfile.open(sdist, "w:gz") as source:
        for name in ("LICENSE", "docs/NOTICE"):
            source.addfile(tarfile.TarInfo(f"tooltap-1.2.3/{name}"), BytesIO())
    with ZipFile(wheel, "w") as built:
        built.writestr("tooltap-1.2.3.dist-info/licenses/docs/NOTICE", "")

    assert without_licence(sdist, wheel) == ["tooltap-1.2.3.dist-info/licenses/LICENSE"]


def test_every_command_is_a_module() -> None:
    for name in COMMANDS:
        assert import_module(f"tooltap.cli.{COMMANDS[name].folder}.{name}").command.name == name


@pytest.mark.parametrize("script", [".ci/run"])
def test_scripts_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)


def test_skips_fail_where_not_allowed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.skip(reason='no browser')\n"
        "def test_a(): pass\n"
        "def test_b(): pytest.skip('no socat')\n"
        "@pytest.mark.xfail\n"
        "def test_c(): assert False\n"
    )
    (tmp_path / "test_other.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())

    def run(**environment: str) -> str:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "no:cacheprovider",
            "--rootdir=.",
            "-c",
            os.devnull,
            ".",
        ]
        clean = {name: value for name, value in os.environ.items() if name != "TOOLTAP_NO_SKIP"}
        clean["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        clean["PYTHONPATH"] = str(ROOT)
        finished = subprocess.run(
            command, cwd=tmp_path, env=clean | environment, capture_output=True, text=True, check=False, timeout=60
        )
        return finished.stdout

    assert "3 skipped, 1 xfailed" in run()
    strict = run(TOOLTAP_NO_SKIP="1", PYTEST_ADDOPTS="--continue-on-collection-errors")
    assert "1 failed, 1 xfailed, 2 errors" in strict
    assert "skipped although TOOLTAP_NO_SKIP is set: no socat" in strict
