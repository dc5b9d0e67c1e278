"""Formulas as MathML, which browsers draw by themselves: no script, no fonts."""

import html
import re

from docutils.utils.math.latex2mathml import tex2mathml

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
# What the converter does not know, as it knows it.
SPELLED = {r"\!": "", r"\big(": "(", r"\big)": ")", r"\dots": r"\ldots"}
UNKNOWN = re.compile("|".join(map(re.escape, SPELLED)))


def drawn(page: str) -> str:
    """Return the HTML of a page with its formulas, as arithmatex has marked them, in MathML."""
    if 'class="arithmatex"' not in page:
        return page

    def draw(match: re.Match[str]) -> str:
        tex = UNKNOWN.sub(lambda one: SPELLED[one[0]], html.unescape(match[2]))
        return str(tex2mathml(tex, as_block=match[1] == "div"))

    return FORMULA.sub(draw, page)
