"""The style of pictures, and saving them."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.errors import BadInput, MissingExtra
from transduce.system.files import FILE_MARK, atomic_write, refuse_foreign_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
# No dates, so that equal pictures give equal files. The mark identifies our files, which may be
# overwritten later.
METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": FILE_MARK},
    ".svg": {"Creator": FILE_MARK, "Date": None},
    ".pdf": {"Creator": FILE_MARK, "CreationDate": None},
}

# Okabe and Ito's colours, which are safe for colour-blind readers, with grey instead of yellow,
# which is hard to see on white. Markers distinguish the series without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#808080")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
QUIET = "#606060"  # labels and axes

# Matplotlib's own font, then fonts for scripts that it lacks, if they are installed.
FONTS = (
    "DejaVu Sans",
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR"),
    *("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai"),
    *("WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo"),
    *("Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Nirmala UI", "Leelawadee UI"),
    *("Arial Unicode MS", "Noto Emoji", "Segoe UI Emoji", "Segoe UI Symbol"),
)

STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "legend.title_fontsize": 10,
    "svg.hashsalt": "transduce",  # equal pictures give equal files
    "svg.fonttype": "path",  # independent of the reader's fonts
    "pdf.fonttype": 42,  # TrueType: searchable, and required by publishers
}


@contextmanager
def drawing_style() -> Iterator[None]:
    """Set our style inside the block, without changing the caller's matplotlib settings."""
    try:
        import matplotlib as mpl
        from matplotlib.font_manager import fontManager
    except ImportError:
        raise MissingExtra("drawing", "matplotlib", "plot") from None
    installed = set(fontManager.get_font_names())
    with mpl.rc_context(), warnings.catch_warnings():
        # Characters missing from all fonts are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        mpl.rcParams["font.family"] = [name for name in FONTS if name in installed]
        yield


def drawable(text: str) -> str:
    """Return text that matplotlib can draw and does not parse as a formula."""
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def save(figure: "Figure", path: str | Path) -> None:
    """Write a picture in the format given by its file name; equal pictures give equal files."""
    path = Path(path)
    ending = check_ending(path)
    with drawing_style(), atomic_write(path) as temporary:
        figure.savefig(temporary, format=ending[1:], metadata=METADATA[ending])


def check_ending(path: Path, endings: Sequence[str] = ENDINGS) -> str:
    """Return the ending of a picture's name; refuse a name that cannot be written."""
    ending = path.suffix.lower()
    if ending not in endings:
        raise BadInput(f"--out {path}: expected a name that ends in {', '.join(endings)}")
    if path.is_dir():
        raise BadInput(f"--out {path} is a folder: expected the name of a picture")
    refuse_foreign_file(path)
    return ending
