"""Links to code name a symbol that the file defines; paper.md covers every section of the paper."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "paper.md"
PAGES = (PAGE, DOCS / "reliability.md", DOCS / "architecture.md")
LINK = re.compile(r"\[`([^`]+)`\]\(([^)#]+\.py)\)")
ANY_LINK = re.compile(r"\]\(([^)]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
SECTIONS = (
    *("1", "2", "3", "3.1", "3.2", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "4"),
    *("5", "5.1", "5.2", "5.3", "5.4", "6", "6.1", "6.2", "6.3", "7"),
)


@cache
def definitions(path: Path) -> frozenset[str]:
    """Return the names that a module defines, with members of its classes: Class.method."""
    names: set[str] = set()

    def visit(body: list[ast.stmt], before: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(before + node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(before + node.target.id)
            elif isinstance(node, ast.Assign):
                names.update(before + t.id for t in node.targets if isinstance(t, ast.Name))
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{before}{node.name}.")

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return frozenset(names)


def links(page: Path) -> list[tuple[str, str]]:
    return LINK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("symbol", "path"), [link for page in PAGES for link in links(page)])
def test_a_link_names_a_symbol_of_the_file(symbol: str, path: str) -> None:
    file = (DOCS / path).resolve()
    assert file.exists(), f"{path} does not exist"
    assert symbol in definitions(file), f"{path} does not define {symbol}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_other_link_points_to_an_existing_page_or_heading(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for _, title in HEADING.findall(text)
    }
    checked = {path for _, path in links(page)}
    for link in ANY_LINK.findall(text):
        if link.startswith("#"):
            assert link[1:] in headings, link
        elif link not in checked:
            assert link.partition("#")[0].endswith((".md", ".svg")), link
            assert (DOCS / link.partition("#")[0]).exists(), link


def test_every_guarantee_names_its_tests() -> None:
    promises = re.split(r"^- ", (DOCS / "reliability.md").read_text(encoding="utf-8"), flags=re.M)[
        1:
    ]
    assert len(promises) > 10
    for promise in promises:
        tests = LINK.findall(promise.partition("Tested by")[2])
        assert tests, promise
        assert all(symbol.startswith("test_") for symbol, _ in tests), promise


def test_the_tests_that_security_names_exist() -> None:
    root = DOCS.parent
    named = set(re.findall(r"`(test_\w+)`", (root / "SECURITY.md").read_text(encoding="utf-8")))
    modules = [path.read_text(encoding="utf-8") for path in (root / "tests").rglob("test_*.py")]
    defined = {name for module in modules for name in re.findall(r"def (test_\w+)", module)}
    assert len(named) > 20
    assert named <= defined


def test_every_section_of_the_paper_has_its_heading_in_order() -> None:
    titles = HEADING.findall(PAGE.read_text(encoding="utf-8"))
    numbered = [
        (len(hashes), match[0])
        for hashes, title in titles
        if (match := re.match(r"[\d.]+(?= )", title))
    ]
    assert tuple(number for _, number in numbered) == SECTIONS
    assert all(depth == 2 + number.count(".") for depth, number in numbered)
    assert (2 * "#", "Figures 3 to 5") in titles
