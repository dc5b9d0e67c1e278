"""English names of languages."""

from transduce.text.languages import language_code

TABLE = """
af Afrikaans; ar Arabic; az Azerbaijani; be Belarusian; bg Bulgarian; bn Bengali; bs Bosnian;
ca Catalan; cs Czech; cy Welsh; da Danish; de German; el Greek; en English; eo Esperanto;
es Spanish; et Estonian; eu Basque; fa Persian; fi Finnish; fr French; ga Irish; gl Galician;
gu Gujarati; he Hebrew; hi Hindi; hr Croatian; hu Hungarian; hy Armenian; id Indonesian;
is Icelandic; it Italian; ja Japanese; ka Georgian; kk Kazakh; km Khmer; ko Korean; la Latin;
lt Lithuanian; lv Latvian; mk Macedonian; mn Mongolian; ms Malay; mt Maltese; my Burmese;
nb Norwegian Bokmål; ne Nepali; nl Dutch; nn Norwegian Nynorsk; no Norwegian; pl Polish;
pt Portuguese; ro Romanian; ru Russian; sk Slovak; sl Slovenian; sq Albanian; sr Serbian;
sv Swedish; sw Swahili; ta Tamil; te Telugu; th Thai; tr Turkish; uk Ukrainian; ur Urdu;
uz Uzbek; vi Vietnamese; zh Chinese
"""
NAMES = dict(entry.strip().split(" ", 1) for entry in TABLE.split(";"))


def language_name(code: str) -> str:
    """Return the name of a language, or its code if the name is unknown."""
    name = NAMES.get(language_code(code))
    if name is None:
        return code
    return name if language_code(code) == code else f"{name} ({code})"
