"""A notebook as a page: its cells as Markdown, with their saved outputs."""

import json
import re
from pathlib import Path
from typing import Any


def page(path: Path) -> str:
    """Return a notebook as Markdown."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return "\n\n".join(filter(None, map(_cell, notebook["cells"]))) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"]).strip()
    if cell["cell_type"] != "code":
        return text
    parts = [f"```python\n{text}\n```", *map(_output, cell["outputs"])]
    return "\n\n".join(part for part in parts if part)


def _output(output: dict[str, Any]) -> str:
    """Return the output of a cell; progress on stderr is left out."""
    if output["output_type"] == "stream":
        return _text(output["text"]) if output["name"] == "stdout" else ""
    data = output.get("data", {})
    if "text/html" in data:
        # A blank line would end the HTML block in Markdown.
        shown = re.sub(r"\s*\n\s*", " ", "".join(data["text/html"]))
        return f'<div class="output">{shown}</div>'
    return _text(data["text/plain"]) if "text/plain" in data else ""


def _text(lines: list[str] | str) -> str:
    return "```{.text .output}\n" + "".join(lines).rstrip() + "\n```"
