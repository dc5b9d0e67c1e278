"""What MkDocs calls while it builds the site: mkdocs.yml names this file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from pages import api, commands, formulas, notebooks, places, settings

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

UNSEARCHED = "---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n"


def on_config(config: "MkDocsConfig") -> None:
    """Put the generated pages where the navigation has their folders."""
    generated: dict[str, Any] = {
        "commands/": _nested(commands.pages()),
        "api/": [{title: uri} for uri, (title, _) in api.pages().items()],
    }
    for entry in config.nav or []:
        for title, place in entry.items():
            if isinstance(place, str) and place in generated:
                entry[title] = generated[place]


def on_files(files: "Files", config: "MkDocsConfig") -> None:
    """Add the pages that are made of other things than texts in docs/."""
    texts = {uri: text for uri, (_, text) in (commands.pages() | api.pages()).items()}
    texts[settings.PAGE] = settings.page()
    for file, uri in places.PAGES.items():
        path = places.ROOT / file
        texts[uri] = notebooks.page(path) if path.suffix == ".ipynb" else _read(path)
    written = {f"docs/{one.src_uri}": one.content_string for one in files.documentation_pages()}
    written |= {places.origin(uri): text for uri, text in texts.items()}
    for file in places.linked_code(written):
        texts[f"source/{file}.md"] = f"{UNSEARCHED}# {file}\n"
    for uri, text in texts.items():
        files.append(File.generated(config, uri, content=text))


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """Lead links to the places that files have in the site."""
    return places.relinked(markdown, page.file.src_uri)


def on_page_content(html: str, page: "Page", **_: object) -> str:
    """Draw formulas, and put code into the pages that show it."""
    uri = page.file.src_uri
    if uri.startswith("source/"):
        code, anchors = places.highlighted(uri.removeprefix("source/").removesuffix(".md"))
        page.present_anchor_ids = {*(page.present_anchor_ids or ()), *anchors}
        return html + code
    return formulas.drawn(html)


def _nested(found: dict[str, tuple[tuple[str, ...], str]]) -> list[Any]:
    """Return the navigation of the commands, those of a group under its name."""
    nav: list[Any] = []
    groups: dict[str, list[Any]] = {}
    for uri, (words, _) in found.items():
        if len(words) == 2:
            below = groups.setdefault(words[0], [])
            if not below:  # what was the page of a command is the first of its group
                nav[-1] = {words[0]: below}
                below.append(f"commands/{words[0]}.md")
            below.append({" ".join(words): uri})
        else:
            nav.append({words[0]: uri} if words else uri)
    return nav


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
