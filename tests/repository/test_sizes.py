"""No long functions and no long modules."""

import ast
from pathlib import Path

import transduce

ROOT = Path(transduce.__file__).parent
LONGEST_FUNCTION, LONGEST_MODULE = 60, 400  # lines


def test_no_function_is_longer_than_60_lines() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert not too_long


def test_no_module_is_longer_than_400_lines() -> None:
    folders = (ROOT, Path(__file__).parents[1], Path(__file__).parents[2] / "tools")
    too_long = [
        f"{path}: {lines}"
        for folder in folders
        for path in folder.rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_MODULE
    ]
    assert not too_long
