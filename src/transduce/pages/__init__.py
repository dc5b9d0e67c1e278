"""CSS, JavaScript and HTML shared by the pages of serving, inspection and experiments.

It imports nothing from transduce. Other packages read the files in FOLDER:

- `base.css`, `theme.js`, `head.html`: colours and type, dark mode, the head of self-contained pages
- `explorer/`: the interactive attention explorer; `explorer.js` starts it
"""

import html
from pathlib import Path
from string import Template

FOLDER = Path(__file__).parent


def read(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def render_head(title: str, style: Path) -> str:
    """Return the head of a self-contained page: its title, the theme and the styles."""
    return Template(read(FOLDER / "head.html")).substitute(
        title=html.escape(title),
        theme=read(FOLDER / "theme.js"),
        base=read(FOLDER / "base.css"),
        style=read(style),
    )
