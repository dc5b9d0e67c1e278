"""Draw a tree as SVG: words in a row at the bottom, each constituent above its children."""

from html import escape

from transduce.parsing.trees import Tree, unescape
from transduce.system.files import FILE_MARK

SIZE = 15  # font size, in pixels
GAP = 16  # between words
ROW = 44  # from one row of labels to the next
MARGIN = 20
WORD_ROW = 26  # from a tag to its word
ABOVE, BELOW = 15, 6  # space between a label and its lines
ROUND = 6  # corner radius
NARROW = frozenset("iljtfrI.,:;'`!|()[] ")
COLOURS = {"N": "#0072B2", "V": "#D55E00", "P": "#009E73", "S": "#000000", "A": "#A0568A"}
OTHER = "#606060"
LINE = "#B0B0B0"


def draw(tree: Tree) -> str:
    """Return a drawing of a tree as SVG text."""
    rows = _rows(tree)
    x, width = _columns(tree)
    height = 2 * MARGIN + rows[id(tree)] * ROW + WORD_ROW + SIZE
    bottom = height - MARGIN - WORD_ROW
    lines: list[str] = []
    labels: list[str] = []
    for node, entered in tree.visits():
        if not entered:
            continue
        center, y = x[id(node)], bottom - rows[id(node)] * ROW
        if node.word is not None:
            labels.append(_text(center, y, node.label, OTHER, "tag"))
            labels.append(_text(center, y + WORD_ROW, unescape(node.word), "#000000", "word"))
            continue
        labels.append(_text(center, y, node.label, _colour(node.label), "label"))
        lines.extend(
            _line(center, y, x[id(child)], bottom - rows[id(child)] * ROW)
            for child in node.children
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" role="img">\n'
        f"<!-- {FILE_MARK} -->\n<title>{escape(str(tree))}</title>\n"
        f"<style>text {{ font: {SIZE}px system-ui, 'DejaVu Sans', sans-serif; "
        "text-anchor: middle; white-space: pre } .label { font-weight: 600 } "
        f".tag {{ font-size: {SIZE - 3}px }}</style>\n"
        '<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<g fill="none" stroke="{LINE}" stroke-width="1.2">\n'
        + "\n".join(lines)
        + "\n</g>\n"
        + "\n".join(labels)
        + "\n</svg>\n"
    )


def _rows(tree: Tree) -> dict[int, int]:
    """Return the row of each node, counted from the words upwards."""
    rows: dict[int, int] = {}
    for node, entered in tree.visits():
        if node.word is not None:
            rows[id(node)] = 0
        elif not entered:
            rows[id(node)] = 1 + max(rows[id(child)] for child in node.children)
    return rows


def _columns(tree: Tree) -> tuple[dict[int, float], float]:
    """Return the horizontal center of each node, and the width of the drawing."""
    x: dict[int, float] = {}
    right = float(MARGIN)
    for node, entered in tree.visits():
        if node.word is not None:
            wide = max(_width(unescape(node.word)), _width(node.label))
            x[id(node)] = right + wide / 2
            right += wide + GAP
        elif not entered:
            x[id(node)] = (x[id(node.children[0])] + x[id(node.children[-1])]) / 2
    return x, right - GAP + MARGIN


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    """Draw a line down from a constituent, across, and down to a child; lines never cross."""
    bend = min(ROUND, abs(to_x - x))
    side = bend if to_x > x else -bend
    across = y + BELOW + ROUND
    return (
        f'<path d="M{x:.1f} {y + BELOW}V{across}H{to_x - side:.1f}'
        f'q{side:.1f} 0 {side:.1f} {ROUND}V{to_y - ABOVE}"/>'
    )


def _width(text: str) -> float:
    """Estimate the width of a text; the viewer's font is unknown."""
    return sum(0.38 if c in NARROW else 1.0 if ord(c) > 0x2E80 else 0.64 for c in text) * SIZE


def _colour(label: str) -> str:
    return COLOURS.get(label.removeprefix("WH")[:1], OTHER)


def _text(x: float, y: float, text: str, colour: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{colour}" class="{kind}">{escape(text)}</text>'
