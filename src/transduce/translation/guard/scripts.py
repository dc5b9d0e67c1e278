"""Scripts: the output has letters that neither its language nor the source explains."""

import re
from collections import Counter
from functools import lru_cache

from transduce.text.languages import language_code

# The letters of each script, as ranges of a regular expression.
LETTERS = {
    "Latin": (
        "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\uff21-\uff3a"
        "\uff41-\uff5a"
    ),
    "Greek": "\u0370-\u0373\u0376-\u037d\u0386-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u0481\u048a-\u052f\u1c80-\u1c88\ua640-\ua66e",
    "Armenian": "\u0531-\u0556\u0561-\u0587",
    "Hebrew": "\u05d0-\u05f2",
    "Arabic": (
        "\u0620-\u064a\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f\u08a0-\u08c7\ufb50-\ufdfb"
        "\ufe70-\ufefc"
    ),
    "Devanagari": "\u0904-\u0939\u0958-\u0961\u0971-\u097f",
    "Bengali": "\u0985-\u09b9\u09dc-\u09e1\u09f0\u09f1",
    "Gurmukhi": "\u0a05-\u0a39\u0a59-\u0a5e",
    "Gujarati": "\u0a85-\u0ab9",
    "Oriya": "\u0b05-\u0b39\u0b5c-\u0b61",
    "Tamil": "\u0b83-\u0bb9",
    "Telugu": "\u0c05-\u0c39\u0c58-\u0c61",
    "Kannada": "\u0c85-\u0cb9\u0cde-\u0ce1",
    "Malayalam": "\u0d05-\u0d3a\u0d7a-\u0d7f",
    "Sinhala": "\u0d85-\u0dc6",
    "Thai": "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46",
    "Lao": "\u0e81-\u0eb0\u0eb2\u0eb3\u0ec0-\u0ec6",
    "Tibetan": "\u0f40-\u0f6c",
    "Myanmar": "\u1000-\u102a\u103f",
    "Khmer": "\u1780-\u17b3",
    "Georgian": "\u10a0-\u10ff\u1c90-\u1cbf",
    "Ethiopic": "\u1200-\u135a",
    "Hangul": "\uac00-\ud7a3\u1100-\u11ff\u3131-\u318e",
    "Kana": "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fd-\u30ff\uff66-\uff9d",
    "Han": "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af",
}
LANGUAGES = {
    "Greek": "el grc",
    "Cyrillic": "ru uk be bg mk kk ky mn tg tt ba cv",
    "Latin Cyrillic": "sr uz az bs sh",
    "Armenian": "hy",
    "Hebrew": "he iw yi",
    "Arabic": "ar fa ur ps sd ug ckb arz",
    "Devanagari": "hi mr ne sa mai bho",
    "Bengali": "bn as",
    "Gurmukhi": "pa",
    "Gujarati": "gu",
    "Oriya": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Tibetan": "bo dz",
    "Myanmar": "my",
    "Khmer": "km",
    "Georgian": "ka",
    "Ethiopic": "am ti",
    "Hangul Han": "ko",
    "Kana Han": "ja",
    "Han": "zh yue wuu",
    "Latin": (
        "af ca ceb cs cy da de en eo es et eu fi fil fo fr fy ga gl ha hr ht hu id ig is it jv la "
        "lb lt lv mg mi ms mt nb nl nn no oc pl pt qu rm ro sk sl so sq st su sv sw tl tn tr vi wo "
        "xh yo zu"
    ),
}
SCRIPTS = {code: set(names.split()) for names, codes in LANGUAGES.items() for code in codes.split()}
TOO_MUCH = 0.5  # share of the letters of an output that may be of another script than its language
MIN_LETTERS = 8  # below, a name or an acronym may be all of the output


def find_script(source: str, output: str, language: str) -> str | None:
    """Describe letters of an output that are in an unexpected script.

    Expected are the scripts of the target language and those of the source text. For a language
    that is not in the table, they are those of the source text and the one that most letters of
    the output have. Where a language in another script than Latin is expected, most of the output
    must be in it, except for words of the source.
    """
    if output.isascii():
        if not (own := SCRIPTS.get(language_code(language))) or "Latin" in own:
            return None
        return _mostly_other(source, output, frozenset(own))
    own = SCRIPTS.get(language_code(language)) or _main_script(output)
    foreign = _outside(frozenset(own)).findall(output)
    if not foreign:
        return None
    if (in_source := scripts_of(source)) - own:
        foreign = _outside(frozenset(own | in_source)).findall(output)
    if foreign:
        names = ", ".join(sorted(scripts_of("".join(foreign))))
        return f"letters of another script ({names}): {''.join(foreign[:10])}"
    return None if "Latin" in own else _mostly_other(source, output, frozenset(own))


def scripts_of(text: str) -> set[str]:
    """Return the scripts of the letters of a text."""
    if text.isascii():
        return {"Latin"} if _letters("Latin").search(text) else set()
    return {name for name in LETTERS if _letters(name).search(text)}


def _main_script(text: str) -> set[str]:
    counts = Counter({name: len(_letters(name).findall(text)) for name in LETTERS})
    name, count = counts.most_common(1)[0]
    if not count:
        return set()
    return {"Kana", "Han"} if name in {"Kana", "Han"} else {name}


def _mostly_other(source: str, output: str, own: frozenset[str]) -> str | None:
    """Describe an output whose letters are mostly of other scripts, words of the source aside."""
    known = set(re.findall(r"\w+", source.lower()))
    new = "".join(word for word in re.findall(r"\w+", output) if word.lower() not in known)
    letters = len(_outside(frozenset()).findall(new))
    other = len(_outside(own).findall(new))
    if letters >= MIN_LETTERS and other > TOO_MUCH * letters:
        return f"{other} of {letters} letters are not {' or '.join(sorted(own))}"
    return None


@lru_cache(maxsize=64)
def _letters(name: str) -> re.Pattern[str]:
    return re.compile(f"[{LETTERS[name]}]")


@lru_cache(maxsize=256)
def _outside(scripts: frozenset[str]) -> re.Pattern[str]:
    """Return an expression for the letters of all other scripts."""
    ranges = "".join(ranges for name, ranges in LETTERS.items() if name not in scripts)
    return re.compile(f"[{ranges}]" if ranges else "(?!)")
