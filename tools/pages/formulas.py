"""Formulas as MathML, which browsers render without scripts or fonts."""

import html
import re

from docutils.utils.math.latex2mathml import tex2mathml

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
# TeX that the converter does not support, and its replacement.
REPLACED = {r"\!": "", r"\big(": "(", r"\big)": ")", r"\dots": r"\ldots"}
UNSUPPORTED = re.compile("|".join(map(re.escape, REPLACED)))


def to_mathml(page: str) -> str:
    """Replace the formulas in an HTML page, which arithmatex has marked, with MathML."""
    if 'class="arithmatex"' not in page:
        return page

    def draw(match: re.Match[str]) -> str:
        tex = UNSUPPORTED.sub(lambda found: REPLACED[found[0]], html.unescape(match[2]))
        return str(tex2mathml(tex, as_block=match[1] == "div"))

    return FORMULA.sub(draw, page)
