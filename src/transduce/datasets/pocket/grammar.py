"""The grammar: its constructions, and how often each is used."""

from transduce.datasets.pocket import questions, relatives, statements, subordinates
from transduce.datasets.pocket.sentences import Construction

CONSTRUCTIONS: dict[Construction, int] = {
    statements.statement: 220,
    statements.fronted: 80,
    statements.yes_or_no: 60,
    statements.liking: 25,
    statements.described: 55,
    statements.compared: 20,
    statements.numbered: 30,
    statements.there_is: 20,
    statements.passive: 30,
    statements.request: 25,
    statements.two_statements: 25,
    questions.who_does: 20,
    questions.what_or_whom: 30,
    questions.where: 20,
    questions.when_or_why: 25,
    questions.how_much: 10,
    relatives.about_the_subject: 60,
    relatives.about_the_object: 60,
    subordinates.because_or_although: 55,
    subordinates.because_it: 25,
    subordinates.if_it: 20,
    subordinates.if_or_when: 45,
    subordinates.when_it_happened: 20,
    subordinates.while_it_lasts: 13,
    subordinates.before_it_begins: 13,
    subordinates.that: 45,
    subordinates.whether: 35,
    subordinates.to_do: 30,
    subordinates.in_order_to: 25,
}
