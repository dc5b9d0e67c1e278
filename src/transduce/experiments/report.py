"""All findings on one page, which needs nothing else: neither a server nor a network."""

import base64
import datetime as dt
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from transduce import __version__, pages
from transduce.errors import BadInput
from transduce.experiments.findings import Finding, Picture, Table
from transduce.system.files import atomic_write, refuse_foreign_file

ORDER = (
    *("table1", "table2", "table3", "table4", "figures"),
    *("scaling", "positions", "smoothing"),
)
TITLE = "“Attention Is All You Need”, measured"
LEAD = (
    "The tables, figures and claims of Vaswani et al. (2017), each by one command of transduce, at "
    "the size that a machine and a time allowed. The paper’s own numbers stand beside; what was "
    "scaled down, and by how much, is said with each finding."
)
NAME = "report.html"
COMMAND = re.compile("`([^`]+)`")
SHORT = 9  # letters of a column's name that is not broken
OWN = Path(__file__).parent / "page"


def report(folders: Sequence[Path], out: Path, *, left_out: Sequence[str] = ()) -> Path:
    """Write a page of the findings that lie in folders, or in folders of those.

    Of two findings of one name the newer stands. `left_out` are sentences on what was not done.
    """
    findings = gathered(folders)
    if not findings:
        where = ", ".join(map(str, folders))
        raise BadInput(
            f"there is no finding in {where}: expected files such as table3.json, which "
            "`transduce paper table3 … --out FOLDER` writes"
        )
    path = out / NAME if out.suffix != ".html" else out
    refuse_foreign_file(path)
    with atomic_write(path) as beside:
        text = page(findings, left_out)
        beside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    return path


def gathered(folders: Iterable[Path]) -> list[Finding]:
    """Return the findings of folders, the paper's order first."""
    paths: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise BadInput(f"{folder} is no folder: expected one that holds findings")
        known = [*folder.glob("*.json"), *folder.glob("*/*.json")]
        paths += [path for path in known if path.stem in ORDER]
    paths.sort(key=lambda path: path.stat().st_mtime)
    newest = {path.stem: path for path in paths}
    return [Finding.load(newest[name]) for name in ORDER if name in newest]


def page(findings: Sequence[Finding], left_out: Sequence[str] = ()) -> str:
    """Return the page."""
    text = html.escape
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    index = [
        f'<li><a href="#{text(one.name)}"><strong>{text(one.title)}</strong>'
        f"<span>{text(one.notes[0] if one.notes else one.said)}</span></a></li>"
        for one in findings
    ]
    missing = "".join(f"<li>{text(sentence)}</li>" for sentence in left_out)
    if missing:
        missing = f'<section><h2>Left out</h2><div class="notes"><ul>{missing}</ul></div></section>'
    return Template(_read(OWN / "report.html")).substitute(
        title=text(TITLE),
        theme=_read(pages.FOLDER / "theme.js"),
        base=_read(pages.FOLDER / "base.css"),
        style=_read(OWN / "report.css"),
        menu="".join(f'<a href="#{text(one.name)}">{text(one.name)}</a>' for one in findings),
        lead=text(LEAD),
        index="\n".join(index),
        findings="\n".join([*map(_section, findings), missing]),
        foot=f"Written by transduce {__version__} on {today}.",
    )


def _section(finding: Finding) -> str:
    text = html.escape
    notes = "".join(f"<li>{_note(note)}</li>" for note in finding.notes)
    first, *more = [*map(_table, finding.tables), ""]  # beside the paper's, and the details
    parts = [
        f'<section id="{text(finding.name)}">',
        f"<h2>{text(finding.title)}</h2>",
        f'<p class="said"><b>The paper</b> {text(finding.said)}</p>',
        first,
        f'<div class="notes"><b>What came out</b><ul>{notes}</ul></div>' if notes else "",
        *map(_picture, finding.pictures),
        *more,
        _made(finding),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _note(note: str) -> str:
    """Write a note, its commands as such."""
    return COMMAND.sub(r"<code>\1</code>", html.escape(note))


def _table(table: Table) -> str:
    """Write a table: the paper's columns tinted, and columns of words on the left."""
    tinted = papers_columns(table.columns)
    kinds = []
    for number in range(len(table.columns)):
        names = ["words"] * table.is_of_words(number) + ["papers"] * (number in tinted)
        kinds.append(f' class="{" ".join(names)}"' if names else "")
    head = "".join(
        f'<th scope="col"{kind}>{html.escape(_together(name))}</th>'
        for name, kind in zip(table.columns, kinds, strict=True)
    )
    body = "\n".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(
            f"<td{kind}>{html.escape(cell)}</td>"
            for cell, kind in zip(row[1:], kinds[1:], strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    title = html.escape(table.title)
    return (
        f'<div class="table"><p>{title}</p>'
        f'<div class="scroller" tabindex="0" role="region" aria-label="{title}">'
        f'<table aria-label="{title}"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div></div>"
    )


def _together(name: str) -> str:
    """Keep a short name on one line."""
    return name.replace(" ", "\N{NO-BREAK SPACE}") if len(name) <= SHORT else name


def papers_columns(columns: Sequence[str]) -> set[int]:
    """Return which columns are the paper's: those that say so."""
    return {number for number, name in enumerate(columns) if "paper" in name.lower()}


def _picture(picture: Picture) -> str:
    """Embed a picture as an image of its own, so that no two share names within them."""
    data = base64.b64encode(picture.svg.encode("utf-8")).decode("ascii")
    caption = html.escape(picture.caption)
    return (
        f'<figure><div class="wide-picture"><img alt="{caption}" '
        f'src="data:image/svg+xml;base64,{data}"></div><figcaption>{caption}</figcaption></figure>'
    )


def _made(finding: Finding) -> str:
    """Tell by what command, when and on what a finding was made, as far as it says."""
    known = {name: finding.data.get(name) for name in ("command", "date")}
    facts = {name: str(value) for name, value in known.items() if value}
    machine = finding.data.get("machine")
    if isinstance(machine, Mapping):
        facts |= _machine(machine)
    if not facts:
        return ""
    rows = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{_code(name, value)}</dd>"
        for name, value in facts.items()
    )
    return f"<details><summary>How it was made</summary><dl>{rows}</dl></details>"


def _code(name: str, value: str) -> str:
    escaped = html.escape(value)
    return f"<code>{escaped}</code>" if name == "command" else escaped


def _machine(machine: Mapping[str, Any]) -> dict[str, str]:
    """Say in words what a measurement was made on."""
    names = {"gpu": "GPU", "processor": "processor", "cores": "cores"}
    facts = {word: str(machine[name]) for name, word in names.items() if machine.get(name)}
    versions = machine.get("versions")
    if isinstance(versions, Mapping):
        facts["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return facts


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
