"""Short stories with questions that need one, two or three supporting sentences.

A generated task for models that read a memory several times: people move between places, each
carries at most one container, and each container has one thing in it. Nothing is downloaded. It is
in the spirit of tasks 1 to 3 of bAbI (Weston et al. 2015), with our own words and sentences.

kind       question                                   supporting sentences
person     where is anna ?                            her last move
content    what is the coin in ?                      the one that says it
holder     who has the box ?                          the one in which somebody took it
container  where is the box ?                         who took or left it last, and the move before
holding    who has the coin ?                         content and holder
thing      where is the coin ?                        content and the two of container
before     where was the box before the kitchen ?     who took it, the move to the kitchen, and the
                                                      move of the same person before that

What no sentence says did not happen. A move while carrying a container moves it as well. Questions
have rivals in their stories: for example, all three containers are at different places if one of
them is asked for. So an answer cannot be guessed from the words that occur.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from typing import Literal, get_args

from transduce.datasets.pocket.dice import Dice
from transduce.datasets.pocket.splits import SPLITS, SplitName
from transduce.errors import BadInput, BadSetting, did_you_mean

__all__ = [
    "ANSWERS",
    "FACTS",
    "KINDS",
    "LONGEST",
    "SPLITS",
    "Kind",
    "SplitName",
    "Story",
    "stories",
]

Kind = Literal["person", "content", "holder", "container", "holding", "thing", "before"]

KINDS: tuple[Kind, ...] = get_args(Kind)
FACTS: dict[Kind, int] = dict(zip(KINDS, (1, 1, 1, 2, 2, 3, 3), strict=True))  # sentences needed
PEOPLE = ("anna", "ben", "clara", "david", "emma", "felix")
PLACES = ("attic", "cellar", "garage", "garden", "kitchen", "library")
CONTAINERS = ("bag", "basket", "box", "crate")
THINGS = ("ball", "coin", "key", "lamp")
GO, TAKE, LEAVE = ("went", "ran"), ("took", "grabbed"), ("left", "dropped")
OTHER_WORDS = ("the", "to", "is", "in", "where", "who", "has", "what", "was", "before", ".", "?")
ANSWERS = (*PLACES, *PEOPLE, *CONTAINERS)
VOCABULARY = (*ANSWERS, *THINGS, *GO, *TAKE, *LEAVE, *OTHER_WORDS)
ACTORS = 3  # people in a story, and containers, and things
SHORTEST, LONGEST = 10, 14  # sentences of a story
MOST_WORDS = 8  # of a sentence or question
MOVE = 0.3  # probability that the next sentence is a move
TELL = 0.45  # otherwise, that it says where a thing is
PUT_DOWN = 0.2  # otherwise, that a person who carries a container leaves it
MAX_REPEATS = 100_000  # consecutive stories that cannot be used

_Question = tuple[str, str, tuple[int, ...]]  # its text, the answer and the supporting sentences


@dataclass(frozen=True, slots=True)
class Story:
    """A story, a question after it, and the sentences that answer it."""

    sentences: tuple[str, ...]
    question: str
    answer: str
    facts: tuple[int, ...]  # indices of the supporting sentences, in the order of the reasoning
    kind: Kind

    def __str__(self) -> str:
        """Write numbered sentences, then question, answer and supporting sentences."""
        lines = [f"{number} {sentence}" for number, sentence in enumerate(self.sentences, start=1)]
        facts = " ".join(str(fact + 1) for fact in self.facts)
        return "\n".join([*lines, f"{self.question}\t{self.answer}\t{facts}"])


def stories(count: int, split: SplitName = "train", seed: int = 1) -> list[Story]:
    """Return `count` different stories of one split, the kinds in turn; fixed by the seed.

    For all seeds and counts, no story is in two splits: a checksum of its sentences decides.
    """
    if count < 0:
        raise BadInput(f"count = {count}: expected 0 stories or more")
    if split not in SPLITS:
        raise BadSetting(
            f"there is no split {split}.{did_you_mean(split, SPLITS)} "
            f"The splits are: {', '.join(SPLITS)}"
        )
    drawn = list(islice(_stream(split, seed), count))
    if len(drawn) < count:
        raise BadInput(f"there are only {len(drawn):,} {split} stories: expected {count:,}")
    return drawn


def split_of(sentences: Sequence[str]) -> SplitName:
    """Return the split of a story: one in ten for validation, one for the test."""
    number = zlib.crc32("\n".join(sentences).encode()) % 10
    return "valid" if number == 0 else "test" if number == 1 else "train"


def _stream(split: SplitName, seed: int) -> Iterator[Story]:
    dice = Dice(f"stories {split} {seed}")
    seen: set[tuple[str, ...]] = set()
    for kind in cycle(KINDS):
        for _ in range(MAX_REPEATS):
            story = _draw(dice, kind)
            if story is None or story.sentences in seen or split_of(story.sentences) != split:
                continue
            seen.add(story.sentences)
            yield story
            break
        else:
            return


def _draw(dice: Dice, kind: Kind) -> Story | None:
    """Draw a story, and a question of one kind; None if there is none of that kind."""
    people, containers = _sample(dice, PEOPLE, ACTORS), _sample(dice, CONTAINERS, ACTORS)
    contents = dict(zip(_sample(dice, THINGS, ACTORS), containers, strict=True))
    world = _World(dice, people, contents)
    length = dice.pick(range(SHORTEST, LONGEST + 1))
    while len(world.sentences) < length:
        world.continue_story()
    question = ASK[kind](world)
    return None if question is None else Story(tuple(world.sentences), *question, kind)


def _sample(dice: Dice, options: Sequence[str], count: int) -> list[str]:
    left = list(options)
    return [left.pop(dice.pick(range(len(left)))) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class _Stay:
    """A container at a place: who brought or took it there, and the sentences that say so."""

    place: str
    person: str
    handled: int  # took or left it
    moved: int


@dataclass(slots=True)
class _World:
    """What the sentences so far say, and which of them."""

    dice: Dice
    people: Sequence[str]
    contents: Mapping[str, str]  # the container of each thing
    sentences: list[str] = field(default_factory=list)
    moves: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # places of each person
    told: dict[str, int] = field(default_factory=dict)  # the sentence about the content, by thing
    carried: dict[str, tuple[str, int]] = field(default_factory=dict)  # now, by container
    stays: dict[str, list[_Stay]] = field(default_factory=dict)  # by container

    def continue_story(self) -> None:
        """Add a sentence, unless the person drawn can do nothing."""
        person = self.dice.pick(self.people)
        untold = [thing for thing in self.contents if thing not in self.told]
        if person not in self.moves or self.dice.chance(MOVE):
            self._move(person)
        elif untold and self.dice.chance(TELL):
            thing = self.dice.pick(untold)
            self.told[thing] = self._say(f"the {thing} is in the {self.contents[thing]} .")
        else:
            self._handle(person)

    def _say(self, sentence: str) -> int:
        self.sentences.append(sentence)
        return len(self.sentences) - 1

    def _move(self, person: str) -> None:
        here = self.moves[person][-1][0] if person in self.moves else None
        place = self.dice.pick([place for place in PLACES if place != here])
        said = self._say(f"{person} {self.dice.pick(GO)} to the {place} .")
        self.moves.setdefault(person, []).append((place, said))
        for container, (carrier, taken) in self.carried.items():
            if carrier == person:
                self.stays[container].append(_Stay(place, person, taken, said))

    def _handle(self, person: str) -> None:
        """Let a person leave the container that they carry, or take one that may be here."""
        place, moved = self.moves[person][-1]
        own = [name for name, (carrier, _) in self.carried.items() if carrier == person]
        if own and self.dice.chance(PUT_DOWN):
            (container,) = own
            said = self._say(f"{person} {self.dice.pick(LEAVE)} the {container} .")
            del self.carried[container]
            self.stays[container][-1] = _Stay(place, person, said, moved)
        free = [
            container
            for container in self.contents.values()
            if container not in self.carried
            and (container not in self.stays or self.stays[container][-1].place == place)
        ]
        if not own and free:
            container = self.dice.pick(free)
            said = self._say(f"{person} {self.dice.pick(TAKE)} the {container} .")
            self.carried[container] = person, said
            before = self.stays.get(container, ())[:-1]
            self.stays[container] = [*before, _Stay(place, person, said, moved)]

    def stays_apart(self) -> Mapping[str, _Stay] | None:
        """Return where all containers are now; None unless at different places, all known."""
        last = {container: stays[-1] for container, stays in self.stays.items()}
        return last if len({stay.place for stay in last.values()}) == ACTORS else None

    def all_told(self) -> bool:
        """Return whether the story says where each thing is."""
        return len(self.told) == ACTORS


def _person(world: _World) -> _Question | None:
    last = {person: moves[-1] for person, moves in world.moves.items()}
    if len({place for place, _ in last.values()}) < ACTORS:
        return None
    person = world.dice.pick(world.people)
    place, moved = last[person]
    return f"where is {person} ?", place, (moved,)


def _content(world: _World) -> _Question | None:
    if not world.all_told():
        return None
    thing = world.dice.pick(list(world.contents))
    return f"what is the {thing} in ?", world.contents[thing], (world.told[thing],)


def _holder(world: _World) -> _Question | None:
    if len(world.carried) < ACTORS:
        return None
    container = world.dice.pick(list(world.carried))
    person, taken = world.carried[container]
    return f"who has the {container} ?", person, (taken,)


def _container(world: _World) -> _Question | None:
    last = world.stays_apart()
    if last is None:
        return None
    container = world.dice.pick(list(last))
    stay = last[container]
    return f"where is the {container} ?", stay.place, (stay.handled, stay.moved)


def _holding(world: _World) -> _Question | None:
    if len(world.carried) < ACTORS or not world.all_told():
        return None
    thing = world.dice.pick(list(world.contents))
    person, taken = world.carried[world.contents[thing]]
    return f"who has the {thing} ?", person, (world.told[thing], taken)


def _thing(world: _World) -> _Question | None:
    last = world.stays_apart()
    if last is None or not world.all_told():
        return None
    thing = world.dice.pick(list(world.contents))
    stay = last[world.contents[thing]]
    return f"where is the {thing} ?", stay.place, (world.told[thing], stay.handled, stay.moved)


def _before(world: _World) -> _Question | None:
    """Ask for the place before a place where the container was once, and another person too."""
    questions: list[_Question] = []
    for container, stays in world.stays.items():
        places = [stay.place for stay in stays]
        for stay, following in pairwise(stays):
            place = following.place
            others = [world.moves[person] for person in world.moves if person != stay.person]
            visited = any(place == where for moves in others for where, _ in moves)
            if stay.handled == following.handled and places.count(place) == 1 and visited:
                text = f"where was the {container} before the {place} ?"
                questions.append((text, stay.place, (stay.handled, following.moved, stay.moved)))
    return world.dice.pick(questions) if questions else None


ASK: dict[Kind, Callable[[_World], _Question | None]] = {
    "person": _person,
    "content": _content,
    "holder": _holder,
    "container": _container,
    "holding": _holding,
    "thing": _thing,
    "before": _before,
}
