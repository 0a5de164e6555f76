"""Where code lives: the root folders are importable as `tooltap.<name>`, and no import leads back to where it began."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")


MOST_MODULES = 20
"""In one folder, beside its `__init__.py`."""


def test_the_promised_folders_exist() -> None:
    assert FOLDERS == ["cli", "daemon", "normalizers", "protocol", "traces"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_root_package_is_linked(folder: str) -> None:
    link = ROOT / "src" / "tooltap" / folder

    assert link.is_symlink()
    assert link.resolve() == ROOT / folder


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_folder_holds_too_many_modules(folder: str) -> None:
    packages = [path.parent for path in (ROOT / folder).rglob("__init__.py")]
    counts = {str(one.relative_to(ROOT)): len(list(one.glob("*.py"))) - 1 for one in packages}

    assert {one: count for one, count in counts.items() if count > MOST_MODULES} == {}


def test_no_import_cycles() -> None:
    """Imports for type checkers and imports inside functions count: they tie modules together just the same."""
    imports = _imports(_modules())
    cycles = list(_cycles(imports))

    assert not cycles, "import cycles:\n" + "\n".join(" -> ".join(cycle) for cycle in cycles)


def test_a_cycle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}

    assert list(_cycles(imports)) == [["b", "c", "b"]]


def _modules() -> dict[str, Path]:
    """Every module of tooltap by its dotted name."""
    package = ROOT / "src" / "tooltap"
    modules = {f"tooltap.{path.stem}": path for path in package.glob("*.py") if path.stem != "__init__"}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            modules[".".join(("tooltap", *(part for part in parts if part != "__init__")))] = path
    return modules


def _imports(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Module -> the modules it imports, wherever the import stands."""
    imports: dict[str, set[str]] = {}
    for name, path in modules.items():
        found: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found.update(
                    inner if (inner := f"{node.module}.{alias.name}") in modules else node.module
                    for alias in node.names
                )
        imports[name] = (found & modules.keys()) - {name}
    return imports


def _cycles(imports: dict[str, set[str]]) -> Iterator[list[str]]:
    """A shortest cycle through each module that has one, each set of modules once; the first module is repeated at the
    end."""
    seen: set[frozenset[str]] = set()
    for start in sorted(imports):
        cycle = _cycle_through(start, imports)
        if cycle is not None and frozenset(cycle) not in seen:
            seen.add(frozenset(cycle))
            yield cycle


def _cycle_through(start: str, imports: dict[str, set[str]]) -> list[str] | None:
    """Breadth-first, so that the cycle is as short as can be."""
    paths = [[start]]
    reached: set[str] = set()
    while paths:
        path = paths.pop(0)
        for module in sorted(imports[path[-1]]):
            if module == start:
                return [*path, start]
            if module not in reached:
                reached.add(module)
                paths.append([*path, module])
    return None
