"""The attention explorer as one self-contained HTML file: every head of one translation."""

import html
import json
import re
from collections.abc import Mapping
from string import Template
from typing import Any

from transduce import pages

EXPLORER = pages.FOLDER / "explorer"
IMPORT = re.compile(r'^import \{[^}]+\} from "\./([^"]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ", re.MULTILINE)


def render_explorer(inspection: Mapping[str, Any], *, title: str) -> str:
    """Return a page that shows the JSON of an inspection without a server or a network."""
    return Template(pages.read(EXPLORER / "explorer.html")).substitute(
        head=pages.render_head(title, EXPLORER / "explorer.css"),
        title=html.escape(title),
        script="\n".join(bundle("explorer.js").values()),
        # "</script>" in a sentence would end the script element.
        inspection=json.dumps(inspection, ensure_ascii=False).replace("<", "\\u003c"),
    )


def bundle(name: str) -> dict[str, str]:
    """Return a JavaScript module of the explorer and its imports, dependencies first.

    A page opened from disk cannot import modules, so all of them share one scope: no two modules
    may declare the same name.
    """
    text = pages.read(EXPLORER / name)
    modules: dict[str, str] = {}
    for imported in IMPORT.findall(text):
        modules |= bundle(imported)
    return {**modules, name: EXPORT.sub("", IMPORT.sub("", text))}
