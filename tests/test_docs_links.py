"""Pages that name lines of the code: every link leads to its symbol; the paper is there whole.

`python tests/test_docs_links.py`, part of `make format`, moves line numbers along with the code.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "paper.md"
PAGES = (PAGE, DOCS / "reliability.md", DOCS / "architecture.md")
LINK = re.compile(r"\[`([^`]+)`\]\(([^)#]+\.py)#L(\d+)\)")
ANY_LINK = re.compile(r"\]\(([^)]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
SECTIONS = (
    *("1", "2", "3", "3.1", "3.2", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "4"),
    *("5", "5.1", "5.2", "5.3", "5.4", "6", "6.1", "6.2", "6.3", "7"),
)


@cache
def definitions(path: Path) -> dict[str, int]:
    """Return the line of each name that a module defines, or a class in it: Class.method."""
    found: dict[str, int] = {}

    def visit(body: list[ast.stmt], before: str) -> None:
        for node in body:
            names: list[str] = []
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = [node.name]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            elif isinstance(node, ast.Assign):
                names = [one.id for one in node.targets if isinstance(one, ast.Name)]
            found.update({before + name: node.lineno for name in names})
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{before}{node.name}.")

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def refreshed(text: str, folder: Path = DOCS) -> str:
    """Return a page whose links lead to the lines of their symbols; what is unknown stays."""

    def renew(match: re.Match[str]) -> str:
        symbol, path, line = match.groups()
        file = folder / path
        known = definitions(file.resolve()) if file.exists() else {}
        return f"[`{symbol}`]({path}#L{known.get(symbol, line)})"

    return LINK.sub(renew, text)


def links(page: Path) -> list[tuple[str, str, int]]:
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return [(symbol, path, int(line)) for symbol, path, line in found]


@pytest.mark.parametrize(
    ("symbol", "path", "line"), [link for page in PAGES for link in links(page)]
)
def test_a_link_leads_to_the_line_of_its_symbol(symbol: str, path: str, line: int) -> None:
    file = (DOCS / path).resolve()
    assert file.exists(), f"{path} does not exist"
    assert definitions(file).get(symbol) == line, "run: make format"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_is_checked_or_leads_to_a_page_or_a_heading_that_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for _, title in HEADING.findall(text)
    }
    checked = {f"{path}#L{line}" for _, path, line in links(page)}
    for link in ANY_LINK.findall(text):
        if link.startswith("#"):
            assert link[1:] in headings, link
        elif link not in checked:
            assert link.partition("#")[0].endswith((".md", ".svg")), link
            assert (DOCS / link.partition("#")[0]).exists(), link


def test_every_promise_names_the_tests_that_hold_it() -> None:
    promises = re.split(r"^- ", (DOCS / "reliability.md").read_text(encoding="utf-8"), flags=re.M)[
        1:
    ]
    assert len(promises) > 10
    for promise in promises:
        held = LINK.findall(promise.partition("Held by")[2])
        assert held, promise
        assert all(symbol.startswith("test_") for symbol, _, _ in held), promise


def test_every_section_of_the_paper_has_its_heading_in_its_place() -> None:
    titles = HEADING.findall(PAGE.read_text(encoding="utf-8"))
    numbered = [
        (len(hashes), match[0])
        for hashes, title in titles
        if (match := re.match(r"[\d.]+(?= )", title))
    ]
    assert tuple(number for _, number in numbered) == SECTIONS
    assert all(depth == 2 + number.count(".") for depth, number in numbered)
    assert (2 * "#", "Figures 3 to 5") in titles


def test_line_numbers_move_along_with_the_code(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "\n\nclass One:\n    size: int = 1\n\n    def two(self): ...\n"
    )
    page = (
        "[`One`](code.py#L9), [`One.size`](code.py#L1), [`One.two`](code.py#L2), [`no`](no.py#L7)"
    )
    assert refreshed(page, tmp_path) == (
        "[`One`](code.py#L3), [`One.size`](code.py#L4), [`One.two`](code.py#L6), [`no`](no.py#L7)"
    )


if __name__ == "__main__":
    for one in PAGES:
        one.write_text(refreshed(one.read_text(encoding="utf-8")), encoding="utf-8")
