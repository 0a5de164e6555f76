"""How Sphinx builds these pages into a site: `make docs`.

The source folder is the root of the repository, so that links between the pages, ARCHITECTURE.md and CONTRIBUTING.md
are the same on a code host and on the site. `index.md` is the only table of contents: the sidebar is generated from its
headings and links.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

from tooltap import __version__
from tooltap.traces.recording.whole_file import write_whole

project = "tooltap"
author = "the tooltap authors"
project_copyright = f"2025-2026 {author}"
version = release = __version__

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**", "*.md", "clients/typescript/README.md"]
exclude_patterns = [".*", "README.md", "build", "dist", "node_modules", "**/node_modules", "src", "tests"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # examples abbreviate JSON with `…`

html_theme = "furo"
html_title = f"tooltap {release}"
html_copy_source = False
html_show_sphinx = False


def add_sidebar(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append a hidden table of contents for each section of the index."""
    if docname != root_doc:
        return
    for title, section in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", source[0], re.MULTILINE | re.DOTALL):
        pages = re.findall(r"\]\(([^)#]+)\.md\)", section)
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def add_start_page(app: Sphinx, error: Exception | None) -> None:
    """The site opens at its root, too."""
    if error is None and app.builder.format == "html":
        start = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        write_whole(Path(app.outdir, "index.html"), start)


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_sidebar)
    app.connect("build-finished", add_start_page)
