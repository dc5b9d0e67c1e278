"""Generated stories: answers derived again by a simulator of its own, and their splits."""

import zlib
from collections import Counter
from collections.abc import Sequence

import pytest

from transduce.datasets.stories import (
    ANSWERS,
    CONTAINERS,
    FACTS,
    KINDS,
    LONGEST,
    MOST_WORDS,
    SHORTEST,
    SPLITS,
    VOCABULARY,
    Story,
    split_of,
    stories,
)
from transduce.errors import BadInput, BadSetting

MANY = [story for split in SPLITS for story in stories(7 * 40, split)]


class Simulator:
    """Reads sentences one by one, and knows only what they say; None is an unknown place."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.where: dict[str, str] = {}
        self.carries: dict[str, str] = {}
        self.inside: dict[str, str] = {}
        self.history: dict[str, list[str | None]] = {}
        for sentence in sentences:
            match sentence.split():
                case [person, "went" | "ran", "to", "the", place, "."]:
                    self.where[person] = place
                    if person in self.carries:
                        self.put(self.carries[person], place)
                case [person, "took" | "grabbed", "the", container, "."]:
                    self.carries[person] = container
                    self.put(container, self.where.get(person))
                case [person, "left" | "dropped", "the", container, "."]:
                    self.carries.pop(person, None)
                    self.put(container, self.where.get(person))
                case ["the", thing, "is", "in", "the", container, "."]:
                    self.inside[thing] = container
                case _:
                    raise AssertionError(sentence)

    def put(self, container: str, place: str | None) -> None:
        places = self.history.setdefault(container, [])
        if places[-1:] != [place]:
            places.append(place)

    def answer(self, question: str) -> str | None:
        match question.split():
            case ["where", "is", person, "?"]:
                return self.where.get(person)
            case ["where", "is", "the", name, "?"]:
                return self.history.get(self.inside.get(name, name), [None])[-1]
            case ["what", "is", "the", thing, "in", "?"]:
                return self.inside.get(thing)
            case ["who", "has", "the", name, "?"]:
                holders = {container: person for person, container in self.carries.items()}
                return holders.get(self.inside.get(name, name))
            case ["where", "was", "the", container, "before", "the", place, "?"]:
                places = self.history.get(container, [])
                assert places.count(place) < 2, "the question is ambiguous"
                index = places.index(place) if place in places else 0
                return places[index - 1] if index else None
        raise AssertionError(question)


def answer(story: Story, indices: Sequence[int]) -> str | None:
    """Return the answer to a story's question from some of its sentences."""
    return Simulator([story.sentences[i] for i in sorted(indices)]).answer(story.question)


def test_the_answer_follows_from_the_story() -> None:
    for story in MANY:
        assert answer(story, range(len(story.sentences))) == story.answer, story


def test_the_supporting_sentences_suffice_and_none_can_be_left_out() -> None:
    for story in MANY:
        assert len(set(story.facts)) == FACTS[story.kind], story
        assert answer(story, story.facts) == story.answer, story
        for fact in story.facts:
            fewer = [other for other in story.facts if other != fact]
            assert answer(story, fewer) is None, story


def test_nobody_carries_two_containers_and_no_container_is_carried_by_two() -> None:
    for story in MANY:
        carried: dict[str, str] = {}
        for words in map(str.split, story.sentences):
            if words[1] in ("took", "grabbed"):
                assert words[0] not in carried
                assert words[3] not in carried.values()
                carried[words[0]] = words[3]
            elif words[1] in ("left", "dropped"):
                assert carried.pop(words[0]) == words[3]


def test_containers_are_at_different_places_if_one_is_asked_for() -> None:
    for story in MANY:
        if story.kind in ("container", "thing"):
            last = {places[-1] for places in Simulator(story.sentences).history.values()}
            assert len(last) == 3, story


def test_no_answer_is_given_to_a_third_of_the_questions_of_a_kind() -> None:
    for kind in KINDS:
        counts = Counter(story.answer for story in MANY if story.kind == kind)
        assert counts.most_common(1)[0][1] < counts.total() / 3, kind
        assert set(counts) <= set(ANSWERS)
        assert (set(counts) <= set(CONTAINERS)) == (kind == "content")


def test_all_kinds_come_in_turn_and_no_story_is_repeated() -> None:
    assert [story.kind for story in MANY[:14]] == [*KINDS, *KINDS]
    assert len({story.sentences for story in MANY}) == len(MANY)


def test_sentences_are_as_short_and_as_few_as_stated() -> None:
    lengths = [len(story.sentences) for story in MANY]
    assert (min(lengths), max(lengths)) == (SHORTEST, LONGEST)
    texts = {text for story in MANY for text in (*story.sentences, story.question)}
    assert max(len(text.split()) for text in texts) == MOST_WORDS
    assert {word for text in texts for word in text.split()} == set(VOCABULARY)
    assert len(set(VOCABULARY)) == len(VOCABULARY)


def test_no_story_is_in_two_splits_whatever_the_seed() -> None:
    for split in SPLITS:
        for seed in (1, 2):
            assert {split_of(story.sentences) for story in stories(70, split, seed)} == {split}


def test_stories_depend_on_the_seed_alone() -> None:
    few, more = stories(30, "train", 5), stories(60, "train", 5)
    assert more[:30] == few
    assert not {story.sentences for story in few} & {
        story.sentences for story in stories(30, "train", 6)
    }
    # The same on every machine and every version of Python.
    assert zlib.crc32("\n".join(map(str, few)).encode()) == 3_875_643_786


def test_a_story_is_written_with_the_numbers_of_its_supporting_sentences() -> None:
    story = Story(("a .", "b ."), "where ?", "attic", (1, 0), "container")
    assert str(story) == "1 a .\n2 b .\nwhere ?\tattic\t2 1"


def test_a_bad_split_and_a_negative_count_are_refused() -> None:
    with pytest.raises(BadSetting, match=r"there is no split tets\. Did you mean test\?"):
        stories(1, "tets")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="count = -1: expected 0 stories or more"):
        stories(-1)
