"""Words that a grammar would know: pronouns, and those that bind sentences without naming a thing.

English, German and French, in lower case. What is both article and pronoun (German die, French le)
is an article here.
"""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


PRONOUNS = {
    "en": _set(
        "it its itself he him his himself she her hers herself they them their theirs themselves"
    ),
    "de": _set(
        "er sie es ihn ihm ihr ihre ihren ihrem ihrer ihres sein seine seinen seinem seiner seines "
        "ihnen sich"
    ),
    "fr": _set("il ils elle elles lui leur leurs son sa ses se eux celui celle ceux celles"),
}

GRAMMAR = {
    "en": _set(
        "a an the this that these those and or but nor so if as than then when while because "
        "of in on at by for from with without to into onto over under about after before between "
        "through during against i me my mine you your yours we us our ours who whom whose which "
        "what there here not no is are was were be been being am has have had having do does did "
        "will would shall should can could may might must also very such some any all each most "
        "many never just only behind other others both own even still however where"
    ),
    "de": _set(
        "der die das den dem des ein eine einen einem einer eines kein keine keinen dieser diese "
        "dieses diesen diesem und oder aber denn sondern wenn als ob dass weil damit da wie so in "
        "im an am auf aus bei beim mit nach von vom vor zu zum zur über unter durch für gegen ohne "
        "um bis ich mich mir mein du dich dir dein wir uns unser wer was wo nicht auch nur noch "
        "sehr ist sind war waren bin bist sei wird werden wurde worden hat haben hatte kann können "
        "muss müssen soll sollte will wollen darf mag"
    ),
    "fr": _set(
        "le la les l un une des du de d à au aux en dans sur sous par pour avec sans entre vers "
        "et ou mais donc or ni car si que qui quoi dont où quand comme ce cet cette ces je me moi "
        "tu te toi nous vous notre nos votre vos mon ma mes ne pas plus est sont était été être a "
        "ont avait avoir y on aussi très tout tous toute"
    ),
}

LEAST = 3  # letters of a word that names something


def is_word(text: str) -> bool:
    """Tell a word or a number from a mark and from </s>."""
    return text[:1] != "<" and any(map(str.isalnum, text))


def is_pronoun(text: str, language: str) -> bool:
    """Tell whether a word stands for another one."""
    return text.casefold() in PRONOUNS.get(language, ())


def has_content(text: str, language: str) -> bool:
    """Tell whether a word names something: a noun, a verb, an adjective, a name."""
    plain = text.casefold()
    return (
        len(plain) >= LEAST
        and is_word(plain)
        and not is_pronoun(plain, language)
        and plain not in GRAMMAR.get(language, ())
    )


def can_be_meant(text: str, language: str) -> bool:
    """Tell whether a pronoun may stand for a word, as well as its looks tell: for a noun."""
    if language == "de":
        return has_content(text, language) and text[0].isupper()
    verb = language == "en" and text.casefold().endswith(("ing", "ed", "n't"))
    return has_content(text, language) and not verb
