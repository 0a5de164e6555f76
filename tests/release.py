"""`make package`: builds the release and tries it.

The sdist and the wheel are built twice, from two copies of the sources, and must have the same bytes.
The wheel is installed with every Python that is here and supported, each with the oldest and the newest packages that
it allows, with all extras and with none, and runs without the sources: a daemon follows and serves, gets a recording,
and stops. Beside it lie its bill of materials (CycloneDX), of the newest packages, and the formula with which Homebrew
installs this sdist.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
BUILD = ROOT / "build"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - {"dev"})
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
"""What is installed -> how uv names it."""
PURE = ("nats-py", "nkeys")
"""Packages whose older releases have no wheel, and need no compiler."""
FORMULA = ROOT / "packaging" / "tooltap.rb"
INSTALLED = ("share/man/man1/tooltap.1", "share/bash-completion/completions/tooltap")


def main() -> None:
    for place in (BUILD, DIST):
        shutil.rmtree(place, ignore_errors=True)
    epoch = _run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    with TemporaryDirectory() as folder:
        sdist, wheel = built(copied_sources(Path(folder, "first")), DIST, epoch)
        again = built(copied_sources(Path(folder, "second")), Path(folder, "dist"), epoch)
        for one, other in zip((sdist, wheel), again, strict=True):
            if one.read_bytes() != other.read_bytes():
                sys.exit(f"{one.name} has other bytes when it is built in another folder")
    print(f"{sdist.name} and {wheel.name}: the same bytes when they are built in another folder", flush=True)
    if lacking := without_licence(sdist, wheel):
        sys.exit(f"not in the package: {', '.join(lacking)}")
    path = DIST / FORMULA.name
    path.write_text(formula(sdist))
    print(f"{path.name}: the formula for Homebrew, which is valid once {sdist.name} is on PyPI", flush=True)
    here = dict(pythons())
    for version, python in here.items():
        for age, resolution in RESOLUTIONS.items():
            environment = BUILD / f"python-{version}-{age}"
            install(f"{wheel}[{','.join(EXTRAS)}]", python, environment, resolution)
            try_out(environment)
            print(f"Python {version} with the {age} packages: works", flush=True)
        bare = BUILD / f"python-{version}-bare"
        install(str(wheel), python, bare, RESOLUTIONS["newest"])
        try_out(bare)
        print(f"Python {version} without extras: works", flush=True)
    _run(_uv(), "tool", "run", "--from", str(wheel), "tooltap", "demo")
    print("uvx --from the wheel: works", flush=True)
    newest = BUILD / f"python-{list(here)[-1]}-newest"
    check_types(newest)
    print(f"{bill_of_materials(newest).name}: the bill of materials")
    missing = [version for version in VERSIONS if version not in here]
    print(f"tried with Python {', '.join(here)}; not here: {', '.join(missing) or 'none'}")


def copied_sources(target: Path) -> Path:
    """Copy what git knows, or would add, into a new folder, and return it. What a build or a test has left in the
    checkout would get into the package."""
    for name in _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0"):
        if name and ((ROOT / name).is_symlink() or (ROOT / name).is_file()):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name, follow_symlinks=False)
    return target


def built(source: Path, target: Path, epoch: str) -> tuple[Path, Path]:
    """Build `source` into the folder `target`. Return the sdist and the wheel. `epoch`: time of all files, Unix
    seconds."""
    variables = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    _run(sys.executable, "-m", "build", "--outdir", str(target), str(source), env=variables)
    [sdist], [wheel] = target.glob("*.tar.gz"), target.glob("*.whl")
    sdist.write_bytes(without_times(sdist.read_bytes(), int(epoch)))
    return sdist, wheel


def without_times(data: bytes, epoch: int) -> bytes:
    """Return a gzipped tar archive whose files are in the order of their names, of one time and no user."""
    packed = BytesIO()
    with (
        tarfile.open(fileobj=BytesIO(data)) as before,
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=epoch) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.pax_headers = {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            after.addfile(member, before.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def without_licence(sdist: Path, wheel: Path) -> list[str]:
    """Return the files of the licence that the sdist or the wheel does not have."""
    folder = sdist.name.removesuffix(".tar.gz")
    with tarfile.open(sdist) as source, ZipFile(wheel) as built:
        names = {*source.getnames(), *built.namelist()}
    licence = PROJECT["license-files"]
    needed = [path for name in licence for path in (f"{folder}/{name}", f"{folder}.dist-info/licenses/{name}")]
    return [path for path in needed if path not in names]


def formula(sdist: Path) -> str:
    """Return the formula for Homebrew that installs an sdist, named `tooltap-VERSION.tar.gz`."""
    version = sdist.name.removeprefix(f"{PROJECT['name']}-").removesuffix(".tar.gz")
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    return FORMULA.read_text().replace("@VERSION@", version).replace("@SHA256@", digest)


def pythons() -> Iterator[tuple[str, str]]:
    """Yield the version and the path of every Python that is here and supported; pyenv's, too, as its shims run only
    the versions that are chosen."""
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for version in VERSIONS:
        for wanted in (version, *map(str, sorted(of_pyenv.glob(f"{version}.*/bin/python")))):
            command = [_uv(), "python", "find", "--no-python-downloads", "--no-project", wanted]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            if found.returncode == 0:
                yield version, found.stdout.strip()
                break


def install(wanted: str, python: str, environment: Path, resolution: str) -> None:
    """Install the wheel, with extras or without, into a new environment. The oldest release of a package is the oldest
    that is allowed and has a wheel."""
    _run(_uv(), "venv", "--quiet", "--python", python, str(environment))
    options = ["--only-binary", ":all:"]
    for name in PURE:
        options += ["--no-binary", name]
    target = ["--python", str(environment / "bin" / "python")]
    _run(_uv(), "pip", "install", "--quiet", "--resolution", resolution, *options, *target, wanted)


def try_out(environment: Path) -> None:
    """Run commands of an installed wheel where the sources cannot be found, and a daemon with a home of its own: it
    serves the page, stores a recording, and stops."""
    for path in INSTALLED:
        if not (environment / path).is_file():
            sys.exit(f"the wheel does not install {path}")
    tooltap = str(environment / "bin" / "tooltap")
    recording = str(ROOT / "cli" / "static" / "demo" / "claude-code.jsonl")
    with TemporaryDirectory() as name:
        folder = Path(name)
        for arguments in (["--version"], ["normalize", "--stats", recording], ["demo"]):
            _run(tooltap, *arguments, cwd=folder)
        home = {**os.environ, "HOME": name, "TOOLTAP_SOCKET": f"{name}/t.sock"}
        home |= {"XDG_CONFIG_HOME": f"{name}/config", "XDG_DATA_HOME": f"{name}/data"}
        command, quiet = [tooltap, "up", "--no-open"], subprocess.DEVNULL
        with subprocess.Popen(command, cwd=folder, env=home, stdout=quiet, stderr=quiet) as daemon:
            try:
                _run(tooltap, "stats", "--wait", "60", cwd=folder, env=home)
                for arguments in (["ingest", recording], ["show", "last"], ["doctor"]):
                    _run(tooltap, *arguments, cwd=folder, env=home)
            finally:
                daemon.terminate()
        if daemon.returncode:
            sys.exit(f"the daemon exited with {daemon.returncode}")


def check_types(environment: Path) -> None:
    """Type-check a project that uses the client."""
    project = BUILD / "project"
    shutil.copytree(ROOT / "clients" / "python", project)
    python = str(environment / "bin" / "python")
    _run(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable", python, ".", cwd=project)


def bill_of_materials(environment: Path) -> Path:
    path = DIST / f"{PROJECT['name']}.cdx.json"
    python = str(environment / "bin" / "python")
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", str(path), python]
    _run(*command, "--pyproject", str(ROOT / "pyproject.toml"))
    named = {_normalized(one["name"]) for one in json.loads(path.read_text())["components"]}
    wanted = [*PROJECT["dependencies"], *(one for extra in EXTRAS for one in PROJECT["optional-dependencies"][extra])]
    if lacking := {_normalized(one) for one in wanted} - named:
        sys.exit(f"not in the bill of materials: {', '.join(sorted(lacking))}")
    return path


def _normalized(requirement: str) -> str:
    """The name of a package, as registries compare it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def _uv() -> str:
    from uv import find_uv_bin

    return find_uv_bin()


def _run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command and return what it prints. If it fails, exit with what it printed."""
    finished = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if finished.returncode:
        sys.exit(f"{finished.stdout}{finished.stderr}\n{' '.join(command)} exited with {finished.returncode}")
    return finished.stdout


if __name__ == "__main__":
    main()
