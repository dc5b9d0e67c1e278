"""Attention in one HTML file: every head of a translation, to open anywhere."""

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from transduce import pages

EXPLORER = pages.FOLDER / "explorer"
IMPORT = re.compile(r'^import \{[^}]+\} from "\./([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ", re.MULTILINE)


def render_explorer(inspection: Mapping[str, Any], *, title: str) -> str:
    """Return a page that needs nothing else, neither a server nor a network."""
    return Template(_read(EXPLORER / "explorer.html")).substitute(
        title=html.escape(title),
        theme=_read(pages.FOLDER / "theme.js"),
        base=_read(pages.FOLDER / "base.css"),
        style=_read(EXPLORER / "explorer.css"),
        script="\n".join(modules("explorer.js").values()),
        # "</script>" in a sentence would end the script that holds it.
        inspection=json.dumps(inspection, ensure_ascii=False).replace("<", "\\u003c"),
    )


def modules(name: str) -> dict[str, str]:
    """Return a module of the explorer and those it needs, in the order of one script of them all.

    A page opened from a disk may not import: what a module needs stands above it instead, in the
    scope that they all share, so no two of them may declare the same name.
    """
    text = _read(EXPLORER / name)
    found: dict[str, str] = {}
    for needed in IMPORT.findall(text):
        found |= modules(needed)
    return {**found, name: EXPORT.sub("", IMPORT.sub("", text))}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
