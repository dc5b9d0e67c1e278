"""Find spans that a translation must contain unchanged: placeholders, URLs, code and so on."""

import functools
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from transduce.errors import BadInput
from transduce.system.signals import time_limit
from transduce.text.words import MARKS, UNSPACED

UNITS = (
    "nm µm μm mm cm dm km m mg g kg t ml cl dl l kB KB MB GB TB PB KiB MiB GiB TiB kbit Kbit Mbit "
    "Gbit kbps Mbps Gbps bps Hz kHz MHz GHz THz W kW MW GW V mV kV A mA Ah mAh Wh kWh Ω ns µs μs "
    "ms px pt em rem dpi ppi fps rpm dB °C °F K ° N Pa hPa kPa bar psi J kJ cal kcal mol lm lx"
)
EXTENSIONS = (
    "txt|md|rst|html?|css|js|mjs|ts|tsx|jsx|json|jsonl|ya?ml|toml|ini|cfg|conf|xml|xsd|xslt?|csv|tsv|"
    "py|pyc|ipynb|c|cc|cpp|h|hpp|cs|vb|java|class|jar|kt|go|rs|rb|php|pl|sh|bat|cmd|ps1|sql|mdb?|"
    "exe|dll|so|msi|deb|rpm|apk|zip|tar|gz|xz|bz2|zst|7z|rar|iso|img|bin|"
    "pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|epub|png|jpe?g|gif|svg|webp|bmp|tiff?|ico|"
    "mp[34]|wav|ogg|flac|avi|mkv|mov|webm|srt|vtt|po|pot|mo|xlf|xliff|tmx|log|lock|bak|tmp|"
    "config|csproj|vcxproj|sln|props|targets|resx|xaml|aspx?|cshtml|razor"
)
UNIT = "|".join(sorted(map(re.escape, UNITS.split()), key=len, reverse=True))
NARROW = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
# Chinese and Japanese have no spaces, and Korean particles follow the word itself: such letters may
# touch a span. Letters of other scripts continue the word that they touch.
WIDE = rf"{UNSPACED}\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3"
LETTER = rf"[^\W{WIDE}]"
ASCII = "A-Za-z0-9_"
LATIN = rf"{ASCII}\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
# Punctuation and quotation marks that end an address: those of other scripts too.
ENDS = '،؛؟।\u3000-\u3004\u3008-\u3020！-／：-＠［-｀｛-･"«»“”„‹›`'
# In an address or path, letters of such a script follow a mark. After other letters they are text.
WIDE_PART = rf"(?<![{ASCII}.,;)\]}}])[{WIDE}]"
URL = rf"(?:[^\s<>{ENDS}{WIDE}]|{WIDE_PART})++"
LABEL = rf"(?:{LETTER}|-|{WIDE_PART}){{1,63}}"
FOLDER = rf"(?:[^\s\\/:*?<>|{ENDS}{WIDE}]|{WIDE_PART})++"
FILE = rf"(?:{LETTER}|[.+@-]|\{{[\w.]{{1,40}}\}}|%[sd]){{1,200}}"
REST = rf"(?:[/\\]{FILE}+)*+"  # of a path that begins with a variable
WITH_UNIT = (
    rf"(?:[ {NARROW}]?(?:{UNIT})(?![/²³]|{LETTER})|"
    rf"{NARROW[0]}?(?:%%?+|％)(?!\(|{LETTER}))"
)
PRIVATE = "\U000f0000-\U000ffffd"  # stand for spans, so those of a text are spans themselves
BRACES = r"\{[^{}]*+\}"
for _ in range(5):  # the depth of a plural inside of a choice
    BRACES = rf"\{{(?:[^{{}}]++|{BRACES})*+\}}"

FLAGS = (  # attributes of HTML without a value
    "allowfullscreen|async|autoplay|checked|controls|default|defer|disabled|hidden|inert|ismap|loop|"
    "multiple|muted|nomodule|novalidate|nowrap|open|playsinline|readonly|required|reversed|selected"
)

# Tried in this order where several begin at the same character. Where an expression may begin at
# every word of a long text, its parts have a limited length: otherwise time would be quadratic.
PATTERNS = {
    "code": r"(?<!`)(?P<_ticks>`{1,9})(?!`).{1,2000}?(?<!`)(?P=_ticks)(?!`)",
    "url": (
        rf"(?i:https?|ftps?|file|git|ssh|wss?)://{URL}|"
        rf"(?<!{LETTER})(?i:www)\.(?=[^\s.]{{1,200}}\.[^\s.]){URL}"
    ),
    "email": rf"(?<!{LETTER})(?:mailto:)?(?:{LETTER}|[.+-]){{1,64}}@{LABEL}(?:\.{LABEL}){{1,8}}",
    "tag": (
        # Several other words without "=" are text: if a<b and c>d.
        rf"</?[A-Za-z][\w:.-]*+(?=(?:\s++(?:{FLAGS}))*+(?:\s++[\w:@.-]++)?\s*+/?>|\s[^<>]*=)"
        r"(?:=\s*+\"[^\"]{0,2000}\"|=\s*+'[^']{0,2000}'|[^<>])*+>|"
        r"<!--.{0,2000}?-->|<%.{0,2000}?%>|<\?.{0,2000}?\?>|"
        r"&(?:[A-Za-z]\w{1,30}|#\d{1,7}|#x[\dA-Fa-f]{1,6});"
    ),
    "path": (
        rf"(?<!{LETTER})(?<!\\)[A-Za-z]:\\"
        rf"(?:{FOLDER}(?:(?<![.,;!]) {FOLDER}){{0,3}}\\)*+(?:{FOLDER})?|"
        r"(?<![\w\\])\\\\[\w.$-]+(?:\\[\w.$-]+)+|"
        rf"(?<!{LETTER})(?<![./~])(?:~|\.{{1,2}}|[A-Za-z]:)?/(?:{FILE}+/)++(?:{FILE})?|"
        rf"(?<!{LETTER})(?<![./~])(?:~|\.{{1,2}})/{FILE}+|"
        rf"(?<!{LETTER})(?<![.+/\\@-])(?:{FILE}+/)*{FILE}\.(?:{EXTENSIONS})(?!/|{LETTER})"
    ),
    "placeholder": (
        r"\{\{\{[^{}]*\}\}\}|[$#%@]?\{\{[^{}]*\}\}|"
        rf"\$(?=\{{){BRACES}{REST}|"
        rf"(?:[#%@](?=\{{)|(?=\{{\s*[\w.-]{{1,80}}\s*,\s*(?:plural|select)\w*\s*,)){BRACES}|"
        r"\{[^{}\s][^{}]{0,80}\}|\{\}|\{ [\w.]{1,80} \}|"
        r"%%|(?<!\d)%(?:\d{1,4}\$)?(?:\([\w.-]{1,80}\))?[-+#0']{0,5}(?:\d{1,6}|\*)?"
        r"(?:\.(?:\d{1,6}|\*))?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsapn@]"
        rf"(?![{ASCII}])|(?<!\d)%[A-Za-z_][{ASCII}]+%(?![{ASCII}]){REST}|"
        # Not 20 %ige: a share has a number before it.
        rf"(?<!\d)(?<!\d[ {NARROW}-])%[A-Za-z_][{ASCII}]*|"
        rf"(?:(?<![{ASCII}$])|(?<=\$\d))\$(?:\d(?![\d.,]*\d)|[A-Za-z_][{ASCII}]*(?:\([\w.:-]{{1,80}}\)|{REST})|"
        r"\([A-Za-z_]\w*\))"
    ),
    "option": (
        rf"(?<!{LETTER})(?<!-)--[A-Za-z][{ASCII}-]*(?:=(?:\"[^\"]{{0,200}}\"|[^\s,;{ENDS}]+))?|"
        rf"(?<!{LETTER})[A-Za-z_]{LETTER}{{0,80}}"
        rf"(?:(?:\.|::|->)[A-Za-z_]{LETTER}{{0,80}}){{0,9}}\(\)"
    ),
    # Without separators, whose meaning depends on the language.
    "number": rf"(?<!{LETTER})(?<![.,])(?:(?<![^\s(\[])[-−])?\d+{WITH_UNIT}",
    "private": f"[{PRIVATE}]",
}
CONNECTION = re.compile("[/:._=+|@×x-]{0,2}")  # between two placeholders
BY_ORDER = re.compile(
    r"%[-+#0']*[\d*]*(?:\.[\d*]+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsap@](?![A-Za-z\d])|\{\}"
)
HEAD = re.compile(rf"[{WIDE}]|[{LATIN}]+|[^\W{LATIN}{WIDE}]+|\W")
# Between these two characters no word ends.
INSIDE_WORD = re.compile(
    rf"[{LATIN}]{{2}}|[^\W{LATIN}{WIDE}]{{2}}|[\w{MARKS}][{MARKS}]|[{MARKS}][^\W{WIDE}]"
)
OPENING = {")": "(", "]": "[", "}": "{"}
TRAILING = ".,;:!?'’)]}"  # not the end of a URL or path in running text
SECONDS = 5  # for one of the user's expressions in one text
# Most text has none of these. The first character is a set, which `re` looks for fast.
MAY_HAVE_SPAN = re.compile(
    rf"[{{%$<`@/\\&{PRIVATE}\d(.-]"
    rf"(?:(?<=[{{%$<`@/\\&{PRIVATE}])|(?<=\d){WITH_UNIT}|(?<=\()\)|(?<=\.)[A-Za-z7]|(?<=-)-[A-Za-z])"
)
# Every span of a kind has one of these.
HINTS = {
    "code": "`",
    "url": r"://|(?i:www)\.",
    "email": "@",
    "tag": "[<&]",
    "placeholder": "[{%$]",
    "path": rf"[/\\]|\.(?:{EXTENSIONS})(?!{LETTER})",
    "option": r"--|\(\)",
    "number": rf"\d{WITH_UNIT}",
    "private": PATTERNS["private"],
}


@dataclass(frozen=True, slots=True)
class Span:
    """A protected part of a text."""

    start: int
    end: int
    kind: str


class SpanRules:
    """Which spans of a text are protected."""

    def __init__(self, patterns: Sequence[str] = (), words: Sequence[str] = ()) -> None:
        """Protect what these regular expressions match, these words, and all built-in kinds."""
        self.patterns = tuple(patterns)
        # A text may have either form of an accented letter.
        forms = [[normalize(form, word.strip()) for form in ("NFC", "NFD")] for word in words]
        self.words = tuple(dict.fromkeys(word for both in forms for word in both if word))
        self._own = [_compiled(pattern) for pattern in self.patterns]

    def find(self, text: str) -> list[Span]:
        """Return the spans of a text in order; they do not overlap."""
        found = [*self._find_patterns(text), *self._find_words(text)]
        built_in = _built_in(text) if MAY_HAVE_SPAN.search(text) else ()
        if not found:
            return [*built_in]
        return [*_merged([*built_in, *found])]

    def _find_patterns(self, text: str) -> list[Span]:
        """Return what the user's expressions match."""
        found: list[Span] = []
        for pattern in self._own:
            try:
                with time_limit(SECONDS):
                    matches = [match.span() for match in pattern.finditer(text) if match[0]]
            except TimeoutError:
                raise BadInput(
                    f"--keep {pattern.pattern!r:.100} takes longer than {SECONDS} s in a text of "
                    f"{len(text):,} characters: expected an expression without repetition inside "
                    "repetition, such as (a+)+"
                ) from None
            found += [Span(*match, "keep") for match in matches]
        return found

    @functools.cached_property
    def _words_by_head(self) -> dict[str, list[str]]:
        """The user's words by the first word or character of each, the longest first."""
        by_head: dict[str, list[str]] = {}
        for word in sorted(set(self.words), key=len, reverse=True):
            if head := HEAD.match(word):
                by_head.setdefault(head[0], []).append(word)
        return by_head

    def _find_words(self, text: str) -> Iterator[Span]:
        """Yield where the user's words occur, whole: from left to right, the longest first.

        An expression of all words could block every thread for long if many words begin alike.
        """
        by_head, end = self._words_by_head, 0
        for head in HEAD.finditer(text) if by_head else ():
            start = head.start()
            if start < end or is_inside_word(text, start):
                continue
            for word in by_head.get(head[0], ()):
                stop = start + len(word)
                if text.startswith(word, start) and not is_inside_word(text, stop):
                    yield Span(start, stop, "keep")
                    end = stop
                    break


def _compiled(pattern: str) -> re.Pattern[str]:
    shown = f"--keep {pattern!r:.100}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that may change
            compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadInput(f"{shown} is not a regular expression: {error}") from None
    if compiled.search(""):
        raise BadInput(f"{shown} matches the empty text: expected one that does not")
    return compiled


BUILT_IN = SpanRules()
# Such as 12.5 km/h; of the spans, these can only be a part.
_QUANTITY = re.compile(rf"\d[ {NARROW}]?(?:{UNIT})(?:/(?:{UNIT}|s|h|min))?[²³]?(?!\w)")
_HINTS = {kind: re.compile(hint) for kind, hint in HINTS.items()}


def find_spans(text: str) -> list[Span]:
    """Return the spans of the built-in kinds."""
    return BUILT_IN.find(text)


def has_words(text: str) -> bool:
    """Return whether a text has letters that are not units of numbers."""
    return text[:1].isalpha() or any(map(str.isalpha, _QUANTITY.sub("", text)))


def _built_in(text: str) -> Iterator[Span]:
    """Yield the spans of the built-in kinds; placeholders that touch, such as %d:%d, are one."""
    last: Span | None = None
    for span in _matches(text):
        is_next = last is not None and last.kind == span.kind == "placeholder"
        if last is not None and is_next and CONNECTION.fullmatch(text, last.end, span.start):
            last = Span(last.start, span.end, span.kind)
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def _matches(text: str) -> Iterator[Span]:
    kinds = tuple(kind for kind in PATTERNS if _HINTS[kind].search(text))
    expression = _expression(kinds)
    position = 0
    while match := expression.search(text, position):
        kind = str(match.lastgroup)
        end = match.end()
        if kind in ("url", "path", "option"):
            end = match.start() + len(_trimmed(match[0]))
        elif kind == "placeholder":  # with the rest of a path
            end = match.start() + len(match[0].rstrip("."))
            is_share = text.startswith("%", end) and not expression.match(text, end)
            end += is_share and end == match.end()
        position = max(end, match.start() + 1)
        if end > match.start():
            yield Span(match.start(), end, kind)


@functools.cache
def _expression(kinds: tuple[str, ...]) -> re.Pattern[str]:
    """Return an expression for the spans of some kinds; fewer kinds are found faster."""
    return re.compile("|".join(f"(?P<{kind}>{PATTERNS[kind]})" for kind in kinds) or "(?!)")


def is_inside_word(text: str, position: int) -> bool:
    """Return whether no word begins or ends at a position."""
    return position > 0 and INSIDE_WORD.match(text, position - 1) is not None


def is_by_order(span: str) -> bool:
    """Return whether a placeholder has neither a name nor a number: %s, {}."""
    return BY_ORDER.match(span) is not None


def _trimmed(text: str) -> str:
    """Remove punctuation that ends a sentence; a bracket stays if it is opened inside."""
    counts = Counter(text)
    end = len(text)
    while end and (last := text[end - 1]) in TRAILING:
        if last in OPENING and counts[OPENING[last]] >= counts[last]:
            break
        counts[last] -= 1
        end -= 1
    return text[:end]


def _merged(spans: Sequence[Span]) -> Iterator[Span]:
    """Yield spans in order; those that overlap become one, so that no part of them is lost."""
    last: Span | None = None
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if last is None or span.start >= last.end:
            if last is not None:
                yield last
            last = span
        elif span.end > last.end:
            last = Span(last.start, span.end, "keep")
    if last is not None:
        yield last
