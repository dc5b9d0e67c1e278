"""All findings on one self-contained HTML page."""

import base64
import datetime as dt
import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template

from transduce import __version__, pages
from transduce.errors import BadInput
from transduce.experiments.findings import Finding, Picture, Table
from transduce.system.files import refuse_foreign_file, write_text_file

ORDER = (
    *("table1", "table2", "table2_en_fr", "table3", "table4", "figures"),
    *("scaling", "positions", "smoothing", "training", "memory"),
)
TITLE = "“Attention Is All You Need”, measured"
LEAD = (
    "The tables, figures and claims of Vaswani et al. (2017), each measured by one command of "
    "transduce, at the size that one machine and a time budget allow, beside the paper’s own "
    "numbers. Each finding says what was scaled down, and by how much."
)
NAME = "report.html"
COMMAND = re.compile("`([^`]+)`")
UNBROKEN = 9  # letters: column names up to this length stay on one line
TEMPLATES = Path(__file__).parent / "page"


def report(folders: Sequence[Path], out: Path, *, left_out: Sequence[str] = ()) -> Path:
    """Write a page with the findings in folders and in their direct subfolders.

    If two findings have the same name, the newer is used. `left_out` lists what was skipped, one
    sentence each.
    """
    findings = read_findings(folders)
    if not findings:
        where = ", ".join(map(str, folders))
        raise BadInput(
            f"no findings in {where}: expected files such as table3.json, which "
            "`transduce paper table3 … --out FOLDER` writes"
        )
    path = out / NAME if out.suffix != ".html" else out
    refuse_foreign_file(path)
    write_text_file(path, render_page(findings, left_out), errors="backslashreplace")
    return path


def read_findings(folders: Iterable[Path]) -> list[Finding]:
    """Read the findings in folders, in the paper's order."""
    paths: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise BadInput(f"{folder} is not a folder: expected one with findings")
        files = [*folder.glob("*.json"), *folder.glob("*/*.json")]
        paths += [path for path in files if path.stem in ORDER]
    paths.sort(key=lambda path: path.stat().st_mtime)
    newest = {path.stem: path for path in paths}
    return [Finding.load(newest[name]) for name in ORDER if name in newest]


def render_page(findings: Sequence[Finding], left_out: Sequence[str] = ()) -> str:
    """Return the page."""
    escape = html.escape
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    index = [
        f'<li><a href="#{escape(finding.name)}"><strong>{escape(finding.title)}</strong>'
        f"<span>{escape(finding.notes[0] if finding.notes else finding.said)}</span></a></li>"
        for finding in findings
    ]
    menu = [f'<a href="#{escape(finding.name)}">{escape(finding.name)}</a>' for finding in findings]
    missing = "".join(f"<li>{escape(sentence)}</li>" for sentence in left_out)
    if missing:
        missing = f'<section><h2>Left out</h2><div class="notes"><ul>{missing}</ul></div></section>'
    return Template(pages.read(TEMPLATES / "report.html")).substitute(
        head=pages.render_head(TITLE, TEMPLATES / "report.css"),
        title=escape(TITLE),
        menu="".join(menu),
        lead=escape(LEAD),
        index="\n".join(index),
        findings="\n".join([*map(_section, findings), missing]),
        foot=f"Written by transduce {__version__} on {today}.",
    )


def _section(finding: Finding) -> str:
    escape = html.escape
    notes = "".join(f"<li>{_note(note)}</li>" for note in finding.notes)
    first_table, *details = [*map(_table, finding.tables), ""]
    parts = [
        f'<section id="{escape(finding.name)}">',
        f"<h2>{escape(finding.title)}</h2>",
        f'<p class="said"><b>The paper</b> {escape(finding.said)}</p>',
        first_table,
        f'<div class="notes"><b>Results</b><ul>{notes}</ul></div>' if notes else "",
        *map(_picture, finding.pictures),
        *details,
        _provenance(finding),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _note(note: str) -> str:
    """Write a note, with `commands` as code."""
    return COMMAND.sub(r"<code>\1</code>", html.escape(note))


def _table(table: Table) -> str:
    """Write a table: the paper's columns tinted, columns of words left-aligned."""
    of_paper = papers_columns(table.columns)
    classes = []
    for number in range(len(table.columns)):
        names = ["words"] * table.is_text(number) + ["papers"] * (number in of_paper)
        classes.append(f' class="{" ".join(names)}"' if names else "")
    head = "".join(
        f'<th scope="col"{css}>{html.escape(_unbroken(name))}</th>'
        for name, css in zip(table.columns, classes, strict=True)
    )
    body = "\n".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(
            f"<td{css}>{html.escape(cell)}</td>"
            for cell, css in zip(row[1:], classes[1:], strict=True)
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


def _unbroken(name: str) -> str:
    """Keep a short name on one line."""
    return name.replace(" ", "\N{NO-BREAK SPACE}") if len(name) <= UNBROKEN else name


def papers_columns(columns: Sequence[str]) -> set[int]:
    """Return the columns with the paper's numbers: their names say so."""
    return {number for number, name in enumerate(columns) if "paper" in name.lower()}


def _picture(picture: Picture) -> str:
    """Embed a picture as an image, so that ids inside two pictures cannot clash."""
    data = base64.b64encode(picture.svg.encode("utf-8")).decode("ascii")
    caption = html.escape(picture.caption)
    return (
        f'<figure><div class="wide-picture"><img alt="{caption}" '
        f'src="data:image/svg+xml;base64,{data}"></div><figcaption>{caption}</figcaption></figure>'
    )


def _provenance(finding: Finding) -> str:
    """Show the command, date and machine that produced a finding, if recorded."""
    data, machine = finding.data, finding.data.get("machine", {})
    versions = machine.get("versions", {})
    facts = {
        "command": data.get("command"),
        "date": data.get("date"),
        "GPU": machine.get("gpu"),
        "processor": machine.get("processor"),
        "cores": machine.get("cores"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    texts = {name: html.escape(str(value)) for name, value in facts.items() if value}
    if not texts:
        return ""
    if "command" in texts:
        texts["command"] = f"<code>{texts['command']}</code>"
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in texts.items())
    return f"<details><summary>How it was made</summary><dl>{rows}</dl></details>"
