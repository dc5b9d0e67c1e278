"""Hooks that MkDocs calls while it builds the site; mkdocs.yml names this file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from pages import api, commands, formulas, notebooks, places, settings

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page


def on_config(config: "MkDocsConfig") -> None:
    """Replace the folders `commands/` and `api/` in the navigation with the generated pages."""
    generated: dict[str, Any] = {
        "commands/": _nested(commands.pages()),
        "api/": [{title: uri} for uri, (title, _) in api.pages().items()],
    }
    for entry in config.nav or []:
        for title, folder in entry.items():
            if isinstance(folder, str) and folder in generated:
                entry[title] = generated[folder]


def on_files(files: "Files", config: "MkDocsConfig") -> None:
    """Add the pages that do not come from docs/."""
    texts = {uri: text for uri, (_, text) in (commands.pages() | api.pages()).items()}
    texts[settings.PAGE] = settings.page()
    for file, uri in places.PAGES.items():
        path = places.ROOT / file
        texts[uri] = notebooks.page(path) if path.suffix == ".ipynb" else _read(path)
    texts_by_file = {
        f"docs/{page.src_uri}": page.content_string for page in files.documentation_pages()
    }
    texts_by_file |= {places.origin(uri): text for uri, text in texts.items()}
    for file in places.linked_code(texts_by_file):
        texts[f"source/{file}.md"] = places.code_page(file)
    for uri, text in texts.items():
        files.append(File.generated(config, uri, content=text))


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """Change links between files into links between pages, except in code."""
    uri = page.file.src_uri
    return markdown if uri.startswith("source/") else places.rewrite_links(markdown, uri)


def on_page_content(html: str, **_: object) -> str:
    """Convert formulas to MathML."""
    return formulas.to_mathml(html)


def _nested(pages: dict[str, tuple[tuple[str, ...], str]]) -> list[Any]:
    """Return the navigation for the commands, with subcommands below their group."""
    nav: list[Any] = []
    groups: dict[str, list[Any]] = {}
    for uri, (words, _) in pages.items():
        if len(words) == 2:
            below = groups.setdefault(words[0], [])
            if not below:  # the page of the group becomes its first entry
                nav[-1] = {words[0]: below}
                below.append(f"commands/{words[0]}.md")
            below.append({" ".join(words): uri})
        else:
            nav.append({words[0]: uri} if words else uri)
    return nav


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
