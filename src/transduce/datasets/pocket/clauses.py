"""Clauses in both languages: word order and verb forms.

In German the finite verb is second, first or last, and the rest of the verb is at the end: "Sie
ruft ihren Bruder an", "Ruft sie ihren Bruder an?", "weil sie ihren Bruder anruft". Between them
come, in this order: pronouns, the time, definite objects, the frequency, nicht, the manner, the
place, indefinite objects, and the complement of the verb (a goal, a predicate, an object with a
preposition). Before nicht, the time follows the definite objects: "Sie ruft ihn heute nicht an".
"""

from dataclasses import dataclass, field
from typing import Literal

from transduce.datasets.pocket.phrases import Pair, Phrase
from transduce.datasets.pocket.words import (
    ACCUSATIVE,
    BE,
    DATIVE,
    DO,
    HABEN,
    HAVE,
    NOMINATIVE,
    SEIN,
    WAS,
    WURDE,
    Adjective,
    Adverb,
    Modal,
    Verb,
)

Tense = Literal["present", "habit", "past", "perfect", "modal", "passive", "like"]


@dataclass(slots=True, eq=False)
class Clause:
    """A verb with its subject, objects and adverbials."""

    verb: Verb
    subject: Phrase
    tense: Tense = "present"
    modal: Modal | None = None
    negated: bool = False
    dative: Phrase | None = None
    accusative: Phrase | None = None
    close: Pair | None = None  # the complement: a goal, a predicate, a prepositional object
    place: Pair | None = None
    manner: Pair | None = None
    time: Adverb | None = None
    phrases: list[Phrase] = field(default_factory=list)  # all of them, for `splits`
    predicate: Adjective | None = None
    marks: tuple[str, ...] = ()  # the constructions it is part of

    # English -------------------------------------------------------------------------------------

    def english(self, *, question: bool = False) -> str:
        """Return the English clause, as a statement or a question."""
        auxiliary, main = self._english_verb(support=question or self.negated)
        denied = "not" if self.negated else ""
        if denied and auxiliary == "can" and not question:
            auxiliary, denied = "cannot", ""
        subject = self.subject.en
        head = (auxiliary, subject) if question else (subject, auxiliary)
        middle = self.time.en if self.time and self.time.mid else ""
        return spaced(*head, denied, middle, main, *self._english_rest())

    def infinitive(self) -> str:
        """Return the English infinitive without a subject: read the book."""
        return spaced(self.verb.base, *self._english_rest())

    def _english_verb(self, *, support: bool) -> tuple[str, str]:
        """Return the auxiliary, if any, and the main verb; `support` always gives an auxiliary."""
        verb, person = self.verb, self.subject.person
        if self.tense == "modal":
            return self._english_modal(support=support)
        if self.tense == "perfect":
            return HAVE[person], verb.participle
        if self.tense == "passive":
            return WAS[person], verb.participle
        if verb.base == "be":
            return (WAS if self.tense == "past" else BE)[person], ""
        if self.tense == "present" and verb.aspect == "activity":
            return BE[person], verb.ing
        return self._english_simple(support=support)

    def _english_modal(self, *, support: bool) -> tuple[str, str]:
        modal, person = self.modal, self.subject.person
        assert modal
        if modal.auxiliary:
            return modal.auxiliary[person], spaced(modal.infix, self.verb.base)
        if support:
            return modal.do[person], f"{modal.infix} {self.verb.base}"
        return "", f"{modal.plain[person]} {self.verb.base}"

    def _english_simple(self, *, support: bool) -> tuple[str, str]:
        verb, person = self.verb, self.subject.person
        if self.tense == "like":
            main, third = f"like to {verb.base}", f"likes to {verb.base}"
        else:
            main, third = verb.base, verb.third
        if support:
            return "did" if self.tense == "past" else DO[person], main
        if self.tense == "past":
            return "", verb.past
        return "", third if person == 2 else main

    def _english_rest(self) -> tuple[str, ...]:
        """Return the words after the English verb."""
        verb = self.verb
        given = self._english_object(self.accusative)
        receiver = self._english_object(self.dative)
        if verb.frame == "ditransitive":
            if "to" in verb.uses:
                objects = (given, "to" if receiver else "", receiver)
            else:
                objects = (receiver, given, "")
        else:
            objects = (given, receiver, "")
        last = self.accusative or self.dative
        shifted = last is not None and last.kind == "pronoun"
        particles = ("", verb.particle) if shifted else (verb.particle, "")
        time = self.time.en if self.time and not self.time.mid else ""
        return (
            verb.tail,
            particles[0],
            *objects,
            particles[1],
            self.close.en if self.close else "",
            self.manner.en if self.manner else "",
            self.place.en if self.place else "",
            time,
        )

    def _english_object(self, phrase: Phrase | None) -> str:
        if phrase is None:
            return ""
        return phrase.english_negated() if self._takes_kein(phrase) else phrase.object

    # German --------------------------------------------------------------------------------------

    def german(self, order: Literal["second", "first", "last"] = "second") -> str:
        """Return the German clause, with the finite verb second, first or last."""
        finite, end = self._german_verb()
        subject = self.subject.german(NOMINATIVE)
        if order == "last":
            joined = end + finite if end == self.verb.prefix else f"{end} {finite}"
            return spaced(subject, *self._german_field(), joined)
        head = (subject, finite) if order == "second" else (finite, subject)
        return spaced(*head, *self._german_field(), end)

    def german_zu(self) -> str:
        """Return the German infinitive with zu: das Buch zu lesen, sie anzurufen."""
        verb = self.verb
        joined = f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
        return spaced(*self._german_field(), joined)

    def german_imperative(self) -> str:
        """Return the German imperative: ruf sie an, lies das Buch."""
        return spaced(imperative(self.verb), *self._german_field(), self.verb.prefix)

    def _german_verb(self) -> tuple[str, str]:
        """Return the finite verb and the part at the end of the clause."""
        verb, person = self.verb, self.subject.person
        if self.tense == "modal":
            assert self.modal
            return self.modal.de[person], verb.prefix + verb.infinitive
        if self.tense == "passive":
            return WURDE[person], verb.partizip
        if self.tense == "past" and verb.preterite:
            return verb.preterite[person], ""
        if self.tense in ("past", "perfect"):
            return (SEIN if verb.with_sein else HABEN)[person], verb.partizip
        return verb.present[person], verb.prefix

    def _german_field(self) -> list[str]:
        """Return the words between the two parts of the verb."""
        objects = [(self.dative, DATIVE), (self.accusative, ACCUSATIVE)]
        pronouns: list[str] = []
        known: list[str] = []
        new: list[str] = []
        denied = self.negated
        for kind, row in (("pronoun", pronouns), ("definite", known), ("indefinite", new)):
            for phrase, case in objects:
                if phrase is not None and phrase.kind == kind:
                    kein = self._takes_kein(phrase)
                    row.append(phrase.german(case, negated=kein))
                    denied = denied and not kein
        liking = "gern" if self.tense == "like" else ""
        time = self.time.de if self.time else ""
        early = self.time is not None and self.time.setting and not denied
        return [
            *pronouns,
            time if early else "",
            *known,
            "" if early else time,
            "nicht" if denied else "",
            liking,
            self.manner.de if self.manner else "",
            self.place.de if self.place else "",
            *new,
            self.close.de if self.close else "",
        ]

    def _takes_kein(self, phrase: Phrase) -> bool:
        """Return whether this phrase carries the negation, as in keinen Hund."""
        return self.negated and phrase.kind == "indefinite" and self.tense != "like"


IMPERATIVE_WITH_E = ("danken", "folgen", "malen", "pflanzen")


def imperative(verb: Verb) -> str:
    """Return the imperative for du: lies, warte, ruf, fahr, füttere."""
    third, infinitive = verb.present[2], verb.infinitive
    if infinitive in IMPERATIVE_WITH_E:
        return verb.present[0]
    stem = infinitive.removesuffix("n").removesuffix("e")
    if "i" in third and "i" not in infinitive:  # lesen, liest: lies
        return third.removesuffix("t")
    if third.endswith(("et", "dt")) or infinitive.endswith(("eln", "ern", "ieren")):
        return verb.present[0]
    return stem


def spaced(*parts: str) -> str:
    """Join the parts that are not empty with spaces."""
    return " ".join(filter(None, parts))
