"""The house stays small enough to be read: no long function, no long module."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import transduce

ROOT = Path(transduce.__file__).parent
LONGEST_FUNCTION, LONGEST_MODULE = 60, 400  # lines, with signature and docstring


def too_long(source: str) -> Iterator[str]:
    """Yield the names of the functions that are too long, and an empty one for the module."""
    if len(source.splitlines()) > LONGEST_MODULE:
        yield ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION:
                yield f":{node.name}"


def test_no_function_is_over_60_lines_and_no_module_over_400() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}{name}"
        for path in ROOT.rglob("*.py")
        for name in too_long(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(("lines", "long"), [(58, []), (59, [":long"])])
def test_a_signature_and_a_docstring_count(lines: int, long: list[str]) -> None:
    body = "".join(f"    {number}\n" for number in range(lines))
    assert list(too_long(f'def long() -> None:\n    """Say it."""\n{body}')) == long


def test_a_long_module_is_found() -> None:
    assert list(too_long("x = 1\n" * 400)) == []
    assert list(too_long("x = 1\n" * 401)) == [""]
