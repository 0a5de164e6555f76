"""`make typescript-package`: builds and packs the client for Node and browsers, as it is released.

It is built twice, from two copies of the sources without what earlier builds have left, and must have the same bytes.
The package has the sources, what the compiler makes of each, the licence in the root of the repository, and nothing
else. The compiler is that of `node_modules`; the registry is asked only if there is none. What is missing is said, and
fails where a skip does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.release import DIST, ROOT, copied_sources

__all__ = ["expected_files", "files_in", "main", "problems_of"]

CLIENT = Path("clients", "typescript")
MODULES = ROOT / CLIENT / "node_modules"
LICENSE = "LICENSE"
ALWAYS = (LICENSE, "README.md", "package.json")


def main() -> int:
    """Return 1 if the package is not as it should be, or if it cannot be built where nothing may be skipped."""
    if (reason := _missing()) is not None:
        print(f"NOT PACKED: {reason}")
        return int(bool(os.environ.get("TOOLTAP_NO_SKIP")))
    with TemporaryDirectory(prefix="tooltap-npm-") as folder:
        first, second = (packed(copied_sources(Path(folder, name)), Path(folder)) for name in ("first", "second"))
        problems = problems_of(
            first, expected_files(ROOT / CLIENT), json.loads((ROOT / CLIENT / "package.json").read_text())
        )
        if first.read_bytes() != second.read_bytes():
            problems.append(f"{first.name} has other bytes when it is built in another folder")
        for problem in problems:
            print(problem, file=sys.stderr)
        if problems:
            return 1
        DIST.mkdir(exist_ok=True)
        shutil.copy(first, DIST)
        print(f"{first.name}: {len(files_in(first))} files, the same bytes when it is built in another folder")
    return 0


def _missing() -> str | None:
    """Install the compiler if need be. Return what is missing."""
    if shutil.which("npm") is None:
        return "npm is missing"
    if not (MODULES / "typescript").is_dir():
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit"], cwd=ROOT / CLIENT, check=False
        )
        if done.returncode:
            return "the compiler is not here, and cannot be installed"
    return None


def packed(sources: Path, target: Path) -> Path:
    """Build and pack the client of a copy of the sources. Return the package, in a folder of its own."""
    client = sources / CLIENT
    (client / "node_modules").symlink_to(MODULES)
    shutil.copy(sources / LICENSE, client)
    _run("npm", "run", "--silent", "build", cwd=client)
    place = target / f"{sources.name}-packed"
    place.mkdir()
    _run("npm", "pack", "--silent", "--offline", "--ignore-scripts", "--pack-destination", str(place), cwd=client)
    [package] = place.glob("*.tgz")
    return package


def expected_files(client: Path) -> set[str]:
    """Return what a package of this folder has: each source, the script and the types made of it, and `ALWAYS`."""
    names = [path.stem for path in (client / "src").glob("*.ts")]
    made = (form.format(name) for name in names for form in ("src/{}.ts", "dist/src/{}.js", "dist/src/{}.d.ts"))
    return {*ALWAYS, *made}


def files_in(package: Path) -> set[str]:
    with tarfile.open(package) as archive:
        return {one.name.removeprefix("package/") for one in archive.getmembers()}


def problems_of(package: Path, expected: set[str], described: dict[str, Any]) -> list[str]:
    """Return a sentence for each file that is missing or too much, and for each that `exports` names in vain.
    `described`: what `package.json` has."""
    has = files_in(package)
    named = {path.removeprefix("./") for targets in described["exports"].values() for path in targets.values()}
    return [
        *(f"{package.name} has no {name}" for name in sorted(expected - has)),
        *(f"{package.name} has {name}, which does not belong there" for name in sorted(has - expected)),
        *(f"`exports` in package.json names {name}, which is not in {package.name}" for name in sorted(named - has)),
    ]


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
