"""Numbers as words, roman numerals and names of months."""

import re
from functools import lru_cache

# Words of several languages that mean a number, as stems: en, de, fr, es, it, pt, nl, ru, ar, zh.
# A stem of four letters or more matches the beginning of a word: vierzehn, fünfjährig, sixième.
STEMS = {
    # Without articles such as a, ein and un, which nearly every text has.
    0: "zero none kein null mitternacht midnight zéro aucun minuit cero nada ноль нул صفر 零",
    1: "one once first single eins einmal einzig erst uno premier première primer primo één один "
    "одна одно перв واحد أول 一 壱",
    2: "two twice second both double couple pair half zwei zweit doppel beide halb paar halfte "
    "hälfte deux deuxième seconde double demi moitié dos segund due secondo doble dois duas twee "
    "два две двух втор اثنان الثاني 二 两 兩 半",
    3: "three third triple drei dritt trois troisième tres tercer tre terzo terceir três drie "
    "derde три трех трёх трет ثلاث 三",
    4: "four quarter vier viertel quatre quart quatr cuatro cuart quattro четыр четв أربع 四",
    5: "five fifth fünf cinq cinco cinque quint vijf пять пяти пят خمس 五",
    6: "six sechs sixième seis sesto sei zes шест ست 六",
    7: "seven sieben sept siete sete sette zeven семь седьм سبع 七",
    8: "eight acht huit ocho oito otto восемь восьм ثمان 八",
    9: "nine ninth neun neuf neuv nueve nove negen девят تسع 九",
    10: "ten tenth tens decade zehn dix dizaine diez decen dez dieci tien десят عشر 十",
    11: "eleven elf once onze undici одиннадцат",
    12: "twelve twelfth dozen zwölf dutzend douz doce doze dodici twaalf двенадцат",
    13: "thirteen dreizehn treiz trece treze tredici",
    14: "fourteen vierzehn quatorz catorce fortnight",
    15: "fifteen quarter viertel fünfzehn quinz quart quince",
    16: "sixteen sechzehn seiz",
    17: "seventeen siebzehn dix-sept",
    18: "eighteen achtzehn dix-huit",
    19: "nineteen neunzehn dix-neuf",
    20: "twenty twenties twentieth score zwanzig vingt veint venti vinte двадцат 二十",
    30: "thirty thirties half dreißig dreissig halb trent treinta trinta тридцат 三十",
    40: "forty forties vierzig quarant cuarent сорок 四十",
    50: "fifty fifties half hälfte fünfzig cinquant moitié cincuent пятьдесят 五十",
    60: "sixty sixties sechzig soixant sesent sessant шестьдесят 六十",
    70: "seventy seventies siebzig soixante septante setent settant 七十",
    80: "eighty eighties achtzig quatre-vingt ochent ottant 八十",
    90: "ninety nineties neunzig quatre-vingt nonante novent 九十",
    100: "hundred century hundert jahrhundert cent centaine cien ciento cento сто 百",
    1000: "thousand million billion tausend mille millier mil mio mrd тысяч 千 万",
}
# Months are also written as numbers.
MONTHS = (
    "january januar janvier enero gennaio janeiro январ يناير",
    "february februar février febrero febbraio fevereiro феврал فبراير",
    "march märz mars marzo março март مارس",
    "april avril abril aprile апрел أبريل",
    "may mai mayo maggio maio мая май مايو",
    "june juni juin junio giugno junho июн يونيو",
    "july juli juillet julio luglio julho июл يوليو",
    "august août agosto август أغسطس",
    "september septembre septiembre settembre setembro сентябр سبتمبر",
    "october oktober octobre octubre ottobre outubro октябр أكتوبر",
    "november novembre noviembre novembro ноябр نوفمبر",
    "december dezember décembre diciembre dicembre dezembro декабр ديسمبر",
)
ENDINGS = "s|e|en|er|es|te|ten|ter|tes|th|ths|ty|tel|ft|fach|fold|time|times|mal|ième|ième|ièmes"
UNIT_OF_TENS = range(21, 100)
ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
IS_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
# Single letters are mostly words and initials, except for V and X.
ROMAN_WORD = re.compile(r"\b(?:[IVXLCDM]{2,}|[VX])(?=e\b|er\b|ème\b|\b)")


def is_written(value: int, text: str) -> bool:
    """Whether a text has a number as words, as a roman numeral or as a month."""
    if any(roman_value(word) == value for word in ROMAN_WORD.findall(text)):
        return True
    text = text.lower()
    if value in STEMS and _expression(value).search(text):
        return True
    tens, units = value - value % 10, value % 10
    return (
        value in UNIT_OF_TENS
        and units > 0
        and all(_expression(part, inside=True).search(text) for part in (tens, units))
    )


def roman_value(word: str) -> int:
    """Return the value of a roman numeral; 0 if it is none."""
    if not IS_ROMAN.fullmatch(word):
        return 0
    values = [ROMAN[letter] for letter in word]
    following = [*values[1:], 0]
    return sum(
        -value if value < after else value for value, after in zip(values, following, strict=True)
    )


@lru_cache(maxsize=128)
def _expression(value: int, *, inside: bool = False) -> re.Pattern[str]:
    """Return an expression for the words of a number; `inside` finds them in compounds too."""
    forms = []
    months = MONTHS[value - 1] if 1 <= value <= 12 and not inside else ""
    for stem in [*STEMS[value].split(), *months.split()]:
        if stem[0] > "\u3000":  # no spaces between words
            forms.append(re.escape(stem))
            continue
        begin = "" if inside and len(stem) >= 3 else r"\b"
        end = "" if len(stem) >= 4 or inside else rf"(?:{ENDINGS})?\b"
        forms.append(f"{begin}{re.escape(stem)}{end}")
    return re.compile("|".join(forms))
