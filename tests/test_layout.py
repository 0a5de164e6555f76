"""Where code lives: the root folders are importable as `tooltap.<name>`, no import leads back to where it began, and no
class stands on many others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")


DEEPEST = 4
"""Classes of ours that a class may stand on, itself counted. Those of other packages are not: `object`, `Struct`."""


def test_the_promised_folders_exist() -> None:
    assert FOLDERS == ["cli", "daemon", "normalizers", "protocol", "traces"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_root_package_is_linked(folder: str) -> None:
    link = ROOT / "src" / "tooltap" / folder

    assert link.is_symlink()
    assert link.resolve() == ROOT / folder


def test_no_import_cycles() -> None:
    """Imports for type checkers and imports inside functions count: they tie modules together just the same."""
    imports = _imports(_modules())
    cycles = list(_cycles(imports))

    assert not cycles, "import cycles:\n" + "\n".join(" -> ".join(cycle) for cycle in cycles)


def test_a_cycle_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}

    assert list(_cycles(imports)) == [["b", "c", "b"]]


def test_no_class_is_deep() -> None:
    depths = _depths(_modules())

    assert len(depths) > 500
    assert {name: depth for name, depth in depths.items() if depth > DEEPEST} == {}


def test_the_depth_of_a_class_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class A: ...\nclass B(A, Generic[T]): ...\nclass C(Struct): ...\n")
    (tmp_path / "b.py").write_text("from a import B as Base\nimport a\n\nclass D(Base): ...\nclass E(a.C): ...\n")
    depths = _depths({"a": tmp_path / "a.py", "b": tmp_path / "b.py"})

    assert depths == {"a.A": 1, "a.B": 2, "a.C": 1, "b.D": 3, "b.E": 2}


def _depths(modules: dict[str, Path]) -> dict[str, int]:
    """Every class at the top of a module -> how many of our classes it stands on, itself counted."""
    bases: dict[str, list[str]] = {}
    known_as: dict[str, str] = {}
    for module, path in modules.items():
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = {f"{module}.{one.asname or one.name}": f"{node.module}.{one.name}" for one in node.names}
                known_as.update(names)
            elif isinstance(node, ast.Import):
                known_as.update({f"{module}.{one.asname or one.name}": one.name for one in node.names})
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                stated = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
                bases[f"{module}.{node.name}"] = [f"{module}.{ast.unparse(base)}" for base in stated]

    def depth(name: str) -> int:
        while name not in bases:
            owner, _, last = name.rpartition(".")
            if name in known_as:
                name = known_as[name]
            elif owner in known_as:
                name = f"{known_as[owner]}.{last}"
            else:
                return 0
        return 1 + max(map(depth, bases[name]), default=0)

    return {name: depth(name) for name in bases}


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
