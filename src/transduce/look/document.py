"""Attention in one HTML file: every head of a translation, to open anywhere."""

import html
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

EXPLORER = Path(__file__).parent / "explorer"
PAGE = Path(__file__).parents[1] / "web" / "page"  # what every page shares


def document(inspection: Mapping[str, Any], *, title: str) -> str:
    """Return a page that needs nothing else, neither a server nor a network."""
    return Template(_read(EXPLORER / "explorer.html")).substitute(
        title=html.escape(title),
        theme=_read(PAGE / "theme.js"),
        base=_read(PAGE / "base.css"),
        style=_read(EXPLORER / "explorer.css"),
        script=_read(EXPLORER / "explorer.js"),
        # "</script>" in a sentence would end the script that holds it.
        inspection=json.dumps(inspection, ensure_ascii=False).replace("<", "\\u003c"),
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
