"""Every error that a user can meet has its entry in docs/troubleshooting.md, and none is stale.

A line of a ```text block there is a message, with … for whatever varies. A line that no message is
equal to is the pattern of a family of them: `--eps …: expected …`; it needs some words, lest it
hides what has no entry. Messages are read from the source: wherever one of the classes of errors.py
is made, with what strings, as far as they can be followed.

`python tests/test_troubleshooting.py` prints the messages that have no entry, ready to paste.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TypeGuard

import pytest

from transduce import errors
from transduce.cli import IN_WORDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "transduce"
PAGE = ROOT / "docs" / "troubleshooting.md"
KINDS = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.TransduceError)
}
HOLE = "…"
FEWEST_WORDS_OF_A_FAMILY = 3
DEEPEST = 4  # calls and variables that a message is followed through
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Message:
    """What is said, with … for what varies, and where in the source."""

    text: str
    where: str


class Module:
    """A module's constants, functions, and what stands around each node."""

    def __init__(self, code: str, name: str, known: "dict[str, Module] | None" = None) -> None:
        self.name = name
        self.known = {} if known is None else known  # modules by their dotted names
        self.tree = ast.parse(code)
        self.around = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        self.functions: dict[str, Function] = {}
        self.constants: dict[str, ast.expr] = {}
        self.imported: dict[str, str] = {}  # name to module
        for node in ast.walk(self.tree):
            if _is_function(node):
                self.functions[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imported |= {one.asname or one.name: node.module for one in node.names}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.constants[node.targets[0].id] = node.value

    def constant(self, name: str) -> "tuple[Module, ast.expr] | None":
        """Find the value of a module's constant, here or where it is imported from."""
        if name in self.constants:
            return self, self.constants[name]
        other = self.known.get(self.imported.get(name, ""))
        return other.constant(name) if other else None

    def function_around(self, node: ast.AST) -> Function | None:
        while node in self.around:
            node = self.around[node]
            if _is_function(node):
                return node
        return None


def _is_function(node: ast.AST) -> TypeGuard[Function]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def texts(node: ast.expr, module: Module, depth: int = 0) -> list[str]:
    """Return every text that an expression may be, with … for what cannot be known."""
    found = [HOLE]
    match node:
        case ast.Constant(value=str(text)):
            found = [text]
        case ast.FormattedValue(value=value, format_spec=None, conversion=-1):
            found = texts(value, module, depth)
        case ast.JoinedStr(values=parts):
            found = _joined([texts(part, module, depth) for part in parts])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            found = _joined([texts(left, module, depth), texts(right, module, depth)])
        case ast.IfExp(body=one, orelse=other):
            found = texts(one, module, depth) + texts(other, module, depth)
        case ast.BoolOp(op=ast.Or(), values=values):
            found = [text for value in values for text in texts(value, module, depth)]
        case ast.Call(func=ast.Name(id="did_you_mean")):
            found = [""]
        case ast.Call(func=ast.Name(id=name)) if depth < DEEPEST and name in module.functions:
            found = _returned(module.functions[name], module, depth + 1)
        case ast.Name(id=name) if depth < DEEPEST:
            found = _named(name, node, module, depth + 1)
    return found


def _joined(parts: list[list[str]]) -> list[str]:
    return ["".join(chosen) for chosen in product(*parts)]


def _returned(function: Function, module: Module, depth: int) -> list[str]:
    given = [one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value]
    return [text for value in given for text in texts(value, module, depth)] or [HOLE]


def _named(name: str, node: ast.expr, module: Module, depth: int) -> list[str]:
    """Follow a variable: to what its function assigns, to a default, to a constant."""
    function = module.function_around(node)
    if function is not None:
        given = function.args
        arguments = [one.arg for one in (*given.args, *given.kwonlyargs)]
        defaults = [
            *zip(reversed(given.args), reversed(given.defaults), strict=False),
            *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        ]
        values = [value for argument, value in defaults if value and argument.arg == name] + [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Assign) and any(_is_name(target, name) for target in one.targets)
        ]
        found = [text for value in values for text in texts(value, module, depth)]
        if name in arguments:
            return [*found, HOLE]  # callers may say something else
        if found:
            return found
    constant = module.constant(name)
    return texts(constant[1], constant[0], depth) if constant else [HOLE]


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def normal(text: str) -> str:
    """Make one … of several, and one space."""
    return re.sub(rf"{HOLE}+", HOLE, re.sub(r"\s+", " ", text)).strip()


def words(text: str) -> int:
    return len(re.findall(r"\w{2,}", text))


def pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, line.split(HOLE))))


def widest(alternatives: Iterable[str]) -> list[str]:
    """Drop what one place can say if another thing that it can say is a pattern of it."""
    every = dict.fromkeys(alternatives)
    patterns = {one: pattern(one) for one in every if words(one)}
    return [
        one
        for one in every
        if not any(other != one and wide.fullmatch(one) for other, wide in patterns.items())
    ]


def messages_of(module: Module) -> Iterator[Message]:
    """Yield what a module's errors say."""
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        where = f"{module.name}:{node.lineno}"
        if node.func.id == "MissingExtra":
            what, library, extra = ([*node.args, *[ast.Constant(0)] * 2])[:3]
            parts = [texts(one, module) for one in (what, library, extra)]
            for one in product(*parts):
                yield Message(normal(str(errors.MissingExtra(*one))), where)
        elif node.func.id in KINDS:
            for text in widest(map(normal, texts(node.args[0], module))):
                if words(text):  # if not, it is another error that is passed on
                    yield Message(text, where)


@cache
def messages() -> list[Message]:
    """Return what all errors of the source say, and what the system's errors are told as."""
    modules: dict[str, Module] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        relative = path.relative_to(SOURCE.parent).with_suffix("")
        dotted = ".".join(relative.parts).removesuffix(".__init__")
        name = str(path.relative_to(ROOT))
        modules[dotted] = Module(path.read_text(encoding="utf-8"), name, modules)
    found = [message for module in modules.values() for message in messages_of(module)]
    for text in IN_WORDS.values():
        told = normal(text.replace("{where}", f" {HOLE}"))
        found.append(Message(told, "src/transduce/cli/__init__.py, IN_WORDS"))
    return found


def quoted(page: str) -> list[str]:
    """Return the messages of a page, one a line."""
    blocks = re.findall(r"^```text\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    return [normal(line) for block in blocks for line in block.splitlines() if line.strip()]


def families(found: list[Message], page: str) -> list[str]:
    """Return the lines that stand for more than themselves."""
    said = {message.text for message in found}
    return [line for line in quoted(page) if line not in said]


def without_entry(found: list[Message], page: str) -> list[Message]:
    known = set(quoted(page))
    patterns = [pattern(line) for line in families(found, page)]
    return [
        one
        for one in found
        if one.text not in known and not any(wide.fullmatch(one.text) for wide in patterns)
    ]


def asked_for(missing: list[Message]) -> str:
    """Say what to write."""
    if not missing:
        return ""
    lines = "\n".join(f"{one.text}\n    ({one.where})" for one in missing)
    return (
        f"docs/troubleshooting.md has no entry for {len(missing)} messages. Put each line below "
        "into the ```text block of the entry whose cause is the same, or under a new ### heading "
        f"in the reader's words, with why it comes and what to do:\n{lines}"
    )


def test_every_error_has_an_entry() -> None:
    missing = without_entry(messages(), PAGE.read_text(encoding="utf-8"))
    assert not missing, asked_for(missing)


def test_every_entry_is_of_an_error_that_the_source_still_has() -> None:
    said = [message.text for message in messages()]
    stale = [
        line
        for line in quoted(PAGE.read_text(encoding="utf-8"))
        if not any(map(pattern(line).fullmatch, said))
    ]
    assert not stale, f"nothing says this any more, so take it out of docs/: {stale}"


def test_no_family_is_so_wide_that_it_hides_what_has_no_entry() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = quoted(page)
    twice = {line for line in lines if lines.count(line) > 1}
    assert not twice, f"these stand twice: {twice}"
    for line in families(messages(), page):
        enough = words(line) >= FEWEST_WORDS_OF_A_FAMILY
        assert enough, f"{line}: this could be anything; write more of the message"


def test_every_entry_says_why_and_what_to_do() -> None:
    entries = re.split(r"^#{2,3} ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    with_messages = [one for one in entries if "```text\n" in one]
    assert len(with_messages) > 30
    for entry in with_messages:
        heading = entry.partition("\n")[0]
        rest = re.sub(r"^```.*?^```", "", entry.partition("\n")[2], flags=re.M | re.S)
        assert words(rest) >= 12, f"{heading}: say why, and what to do"


MADE_UP = """
from other import ELSEWHERE
HERE = "start again"
def check(path, words="the default is said"):
    raise BadInput(f"{path} has {len(path):,} lines{' but' if path else ''}: {HERE}")
    reason = "is missing" if path else "is no file"
    raise BadRun(f"{path} {reason}, {ELSEWHERE}, {helped()}.{did_you_mean(path, HERE)}")
    raise Interrupted(words)
    raise MissingExtra("drawing", path, "plot")
    raise ValueError("this is not for users")
def helped():
    return "with a helper"
"""


def test_messages_are_followed_through_variables_constants_and_helpers() -> None:
    other = Module('ELSEWHERE = "said elsewhere"', "other")
    made_up = Module(MADE_UP, "made_up", {"other": other})
    assert [message.text for message in messages_of(made_up)] == [
        "… has … lines but: start again",
        "… has … lines: start again",
        "… is missing, said elsewhere, with a helper.",
        "… is no file, said elsewhere, with a helper.",
        "the default is said",
        "drawing needs …, which is not installed: pip install 'transduce[plot]'",
    ]


@pytest.mark.parametrize(
    ("line", "has_entry"),
    [
        ("… has … lines: start again", True),
        ("… has … lines…: start again", True),
        ("… has … lines", False),
        ("train.en has … lines: start again", False),
    ],
)
def test_a_line_of_the_page_is_a_message_or_the_pattern_of_a_family(
    line: str, has_entry: bool
) -> None:
    found = [Message("… has … lines: start again", "made_up:5")]
    page = f"### Lines\n```text\n{line}\n```\n```\n… has … lines: start again\n```\n"
    assert (without_entry(found, page) == []) is has_entry
    assert "made_up:5" in asked_for(found)


if __name__ == "__main__":
    print(asked_for(without_entry(messages(), PAGE.read_text(encoding="utf-8"))))  # noqa: T201
