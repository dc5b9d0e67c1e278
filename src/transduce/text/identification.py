"""Which language a text is in: the library py3langid, and frequent words for a quick answer."""

import copy
import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from transduce.errors import MissingExtra
from transduce.text.languages import language_code

if TYPE_CHECKING:
    from collections.abc import Callable

WORD = re.compile(r"[^\W\d_]+")
# The library's codes, where they differ from those in common use.
SAME = {"nb": "no", "iw": "he", "in": "id", "ji": "yi", "cmn": "zh", "fil": "tl"}
# Languages that short texts do not tell apart.
CLOSE = (
    frozenset({"no", "nb", "nn", "da"}),
    frozenset({"hr", "sr", "bs", "sh", "sl"}),
    frozenset({"id", "ms"}),
    frozenset({"cs", "sk"}),
    frozenset({"es", "gl", "pt", "ast", "ca"}),
    frozenset({"de", "lb"}),
    frozenset({"nl", "af"}),
    frozenset({"ru", "uk", "be", "bg", "mk"}),
)
# Frequent words of each language that are no words of the others in the table, or rare ones.
FREQUENT = {
    "en": "the of and to is that for it with as this be are by from have not which has we they "
    "will you your can or their been would should also when if used how more than there these",
    "de": "der das und ist ein eine nicht von zu den dem mit sich auf für wird sie im auch werden "
    "dass einer eines einem einen wir ich aus bei oder sind durch haben kann zum zur nach über "
    "diese dieser dieses wenn können müssen wie nur noch sein vom ihre ihr",
    "fr": "le les et des est une dans pour que qui du au aux pas sur ce cette il elle nous vous "
    "par avec ne se sont ou être mais leur ces cela été ont plus comme",
    "es": "el los las y que una del por con para se su al lo como más pero sus es este esta está "
    "son ha también entre cuando muy sin sobre nos hay desde puede",
    "it": "il di che gli della per una non sono del dei con le nel alla delle più anche dal come "
    "questo questa ma ha essere è si da su nella sul",
    "pt": "o os as de que não uma do da dos das em no na para com por mais um se ao é são foi "
    "como mas esta este também pela pelo à seu sua",
    "nl": "de het een van en dat op te zijn voor met niet aan er om ook dit als bij naar maar "
    "wordt deze kan uit hebben zij wij worden over heeft",
    "sv": "och att det som en på är av för med den till inte om ett har vi jag de kan från men "
    "ska också eller detta så när",
    "da": "og at det er en på af til den der ikke med som for et har vi jeg kan fra men også "
    "eller dette skal være når",
    "no": "og at det er en på av til den som ikke med for et har vi jeg kan fra men også eller "
    "dette skal være når",
    "pl": "i w na z się nie do że jest to o po jak od dla przez są oraz za ale czy tym być który "
    "która które tego może",
    "cs": "a v na se je že s z do o k to pro ve za by jsou jako jsem jsme ale které který která "
    "být při nebo také může",
    "ro": "și de la în cu nu este pentru că o un care din pe mai sunt sau ca fi prin acest această",
    "hu": "a az és hogy nem is egy ez meg de ha van volt csak vagy mint kell azt ezt lehet már",
    "fi": "ja on ei se että oli ovat hän mutta kuin myös tai joka voi ole kun sitä tämä",
    "tr": "ve bir bu için ile da de çok daha olarak olan gibi ne kadar sonra var en değil",
    "ru": "и в не на я что с по это как к он из за для от но мы его или также быть так может",
    "uk": "і в не на що з до це як та для від за про але ми його або також бути може є",
}
TABLE = {code: frozenset(words.split()) for code, words in FREQUENT.items()}


class Guess(NamedTuple):
    """A language, and its probability."""

    language: str
    probability: float


def identify(text: str, *, number: int = 3) -> list[Guess]:
    """Return the most probable languages of a text, best first."""
    ranked = _identifier().rank(text)[:number]
    return [Guess(language, float(probability)) for language, probability in ranked]


def is_available() -> bool:
    """Return whether the library is installed."""
    try:
        import py3langid  # noqa: F401
    except ImportError:
        return False
    return True


def is_known(language: str) -> bool:
    """Return whether the library knows a language."""
    code = canonical(language)
    return len(code) in (2, 3) and code in _identifier().labels  # no model is loaded for "trees"


def canonical(language: str) -> str:
    """Return a code without script and region, as it is in the tables of this module."""
    code = language_code(language)
    return SAME.get(code, code)


def same_language(first: str, second: str) -> bool:
    """Return whether two codes are those of one language, or of two that are hard to tell apart."""
    codes = {canonical(first), canonical(second)}
    return len(codes) == 1 or any(codes <= group for group in CLOSE)


@lru_cache(maxsize=64)
def frequent_words(language: str, others: str = "") -> frozenset[str]:
    """Return frequent words of a language, without those of `others`; none for unknown ones."""
    own = TABLE.get(language_code(language), frozenset())
    return own - TABLE.get(language_code(others), frozenset())


def most_frequent(words: Collection[str], expected: str) -> str | None:
    """Return a language other than the expected one that has at least three of the words."""
    found = set(words)
    counts = {
        code: len(found & (known - TABLE.get(expected, frozenset())))
        for code, known in TABLE.items()
        if not same_language(code, expected)
    }
    best = max(counts, key=lambda code: counts[code])
    return best if counts[best] >= 3 else None


def language_by_words(text: str) -> str | None:
    """Return the language that most frequent words of a text are of; None if it is not clear."""
    found = set(WORD.findall(text.lower()))
    counts = Counter({code: len(found & known) for code, known in TABLE.items()})
    (code, most), (_, second) = counts.most_common(2)
    return code if most >= 2 and most > second else None


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise MissingExtra("identifying languages", "py3langid", "language") from None
    load: Callable[..., Any] = LanguageIdentifier.from_model_file
    return load(MODEL_FILE, norm_probs=True)


def identify_among(text: str, candidates: Iterable[str]) -> list[Guess]:
    """Return those of the languages that the library knows, the most probable first.

    Probabilities are among these languages. The list is empty if the text says nothing about them.
    """
    codes: dict[str, str] = {}
    for candidate in candidates:
        codes.setdefault(canonical(candidate), candidate)
    known = frozenset(codes).intersection(_identifier().labels)
    if not known:
        return []
    identifier = _identifier_of(known)
    ranked = identifier.rank(text)
    if ranked == identifier.rank(""):
        return []
    return [Guess(codes[code], float(probability)) for code, probability in ranked]


@lru_cache(maxsize=8)
def _identifier_of(languages: frozenset[str]) -> Any:
    restricted = copy.copy(_identifier())
    restricted.set_languages(languages)
    return restricted
