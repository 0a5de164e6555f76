"""Writes a package with a dialect, to start from: the templates in `templates/`, with names filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template

from tooltap.normalizers.catalog.registry import builtin, package_of
from tooltap.normalizers.stream.normalizer import AUTO, Unknown
from tooltap.traces.recording.whole_file import write_whole

TEMPLATES = Path(__file__).parent / "templates"
MAX_NAME = 40
"""Maximum characters of a dialect's name."""
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


class PackageError(ValueError):
    """The package cannot be written; the message says why, in one sentence."""


def check_name(name: str) -> None:
    """Raise `PackageError` unless a new dialect may have this name."""
    if _NAME.fullmatch(name) is None or len(name) > MAX_NAME:
        raise PackageError(
            f"{name[: 2 * MAX_NAME]!r} cannot be the name of a dialect: it takes lower-case letters, digits and single"
            f" hyphens, begins with a letter, and has at most {MAX_NAME} characters, such as quill-json"
        )
    if name in (AUTO, Unknown.dialect):
        raise PackageError(f"{name!r} cannot be the name of a dialect: tooltap uses this word itself")
    if name in builtin():
        raise PackageError(f"{name!r} is a dialect of tooltap")
    if (package := package_of(name)) is not None:
        raise PackageError(f"{name!r} is a dialect of the package {package}")


def provider_of(name: str) -> str:
    """The agent's name in the name of its dialect: `quill` of `quill-json`."""
    return name.partition("-")[0]


def class_of(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def check_folder(folder: Path) -> None:
    """Raise `PackageError` if something would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise PackageError(f"{folder} is a file")
    if folder.is_dir() and any(folder.iterdir()):
        raise PackageError(f"{folder} is not empty, and nothing is overwritten: name another folder with --folder")


def write_package(
    folder: Path,
    name: str,
    *,
    module: str | None = None,
    fixtures: Mapping[str, bytes] | None = None,
    gaps: str = "",
    recognised: bool = True,
) -> list[Path]:
    """Write a package with the dialect `name`, and return its files.

    `module`: source of the parser; default: that of an example. `fixtures`: file name -> recording. `gaps`: end of the
    README. `recognised`: whether the dialect of the fixtures is recognised. Raises `PackageError`, `OSError`.
    """
    check_name(name)
    check_folder(folder)
    words = {"name": name, "provider": provider_of(name), "class_name": class_of(name), "gaps": gaps}
    words["asked"] = AUTO if recognised else name
    words["module"] = f"tooltap_{name.replace('-', '_')}"
    files: dict[str, str | bytes] = {
        "pyproject.toml": filled("pyproject", words),
        "README.md": filled("readme", words),
        f"{words['module']}.py": module or filled("module", words),
        f"test_{words['module']}.py": filled("test", words),
    }
    recordings = fixtures or {"example.jsonl": filled("recording", words).encode()}
    files |= {f"fixtures/{file}": data for file, data in recordings.items()}
    (folder / "fixtures").mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        write_whole(folder / file, content)
    return [folder / file for file in files]


def filled(template: str, words: Mapping[str, str]) -> str:
    """Fill in the words of a template."""
    return Template((TEMPLATES / f"{template}.txt").read_text()).substitute(words)
