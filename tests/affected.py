"""`make affected`: lists the test modules that a change touches, according to their imports.

The change is what differs from where the branch left `main`, or another `SINCE`, including what is not committed.

A test module is listed if it is changed itself, if its imports lead to a changed module, or if its folder or name
mirrors a changed module. Imports are not followed through `HUBS`: whatever starts a whole daemon or the whole command
line reaches everything. So the list is the nearest part of the suite, for use while you work, and not all that might
fail, which `make test` finds. For files that no module imports (templates, recordings, pages), the tests are listed
that name their folder in their source, or mirror it.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

__all__ = ["affected", "imports_of", "modules"]

ROOT = Path(__file__).parent.parent
HUBS = frozenset({"tooltap.daemon.app", "tooltap.cli.main", "tooltap.cli.subcommands"})
ALWAYS = ("tests/test_layout.py",)


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every module of tooltap and of its tests, by its dotted name."""
    found = {}
    for folder in (*sorted(path.parent.name for path in root.glob("*/__init__.py")),):
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(part for part in parts if part != "__init__")
            found[name if folder == "tests" else f"tooltap.{name}"] = path
    return found


def imports_of(path: Path, known: Mapping[str, object]) -> set[str]:
    """Return the known modules that a module imports, at any place; a string that is a module's name counts."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.update(
                name if (name := f"{node.module}.{alias.name}") in known else node.module for alias in node.names
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value[:200]:
            found.add(node.value.partition(":")[0])
    return found & known.keys()


def affected(changed: Iterable[str], root: Path = ROOT) -> list[str]:
    """The test modules, as paths from the root, that a change of these paths touches."""
    known, importers = modules(root), _importers(root)
    of_path = {str(path.relative_to(root)): name for name, path in known.items()}
    changed = list(changed)
    reached = {of_path[path] for path in changed if path in of_path}
    todo = list(reached)
    while todo:
        for importer in importers.get(todo.pop(), ()):
            if importer not in reached and importer not in HUBS:
                reached.add(importer)
                todo.append(importer)
    tests = {str(known[name].relative_to(root)) for name in reached if name.startswith("tests.")}
    every = [str(path.relative_to(root)) for name, path in known.items() if name.startswith("tests.")]
    tests.update(path for one in changed for path in every if _mirrors(path, one) or _names(root / path, one))
    return sorted(path for path in {*tests, *ALWAYS} if Path(path).name.startswith("test_") and (root / path).exists())


@cache
def _importers(root: Path) -> dict[str, set[str]]:
    """Module -> the modules that import it."""
    known = modules(root)
    importers: dict[str, set[str]] = {}
    for name, path in known.items():
        for imported in imports_of(path, known) - {name}:
            importers.setdefault(imported, set()).add(name)
    return importers


def _mirrors(test: str, changed: str) -> bool:
    """Whether a test is in the folder, or has the name, that belongs to a changed file: `tests/daemon/hub/` for
    `daemon/hub.py`."""
    folder = f"tests/{changed.rpartition('/')[0]}/"
    name = Path(changed).stem
    return not changed.startswith("tests/") and (
        Path(test).parent == Path(folder)
        or (test.startswith(f"{folder}{name}/") or Path(test).name == f"test_{name}.py")
    )


def _names(test: Path, changed: str) -> bool:
    """Whether a test's source names a changed file that is not a module, or its folder."""
    if changed.endswith(".py"):
        return False
    source, path = test.read_text(), Path(changed)
    if changed.startswith("tests/fixtures/"):
        return "FIXTURES" in source or "fixtures" in source
    return f'"{path.name}"' in source or (path.suffix == ".md" and str(test.parent).endswith("tests/docs"))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return [one for one in done.stdout.split("\0") if one]


def _changed(since: str) -> set[str]:
    [base] = _git("merge-base", "HEAD", since)
    differing = _git("diff", "-z", "--name-only", "--no-renames", base.strip())
    return {*differing, *_git("ls-files", "-z", "--others", "--exclude-standard")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.affected", description=__doc__)
    parser.add_argument("--since", default="main", metavar="REF")
    parser.add_argument("paths", nargs="*", help="changed files, instead of asking git")
    options = parser.parse_args()
    print("\n".join(affected(options.paths or _changed(options.since))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
