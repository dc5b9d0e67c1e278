"""The cache of decoding keeps what it holds when it grows, shrinks and is filled again."""

import torch
from torch import Tensor

from models import filled_cache, sentence, small_model
from transduce.model.attention import DotProduct, Heads
from transduce.model.cache import GRAIN, Cache

HEADS = Heads(4, 8, 8, 0.0, DotProduct())  # those of `small_model`


def contents(cache: Cache) -> list[Tensor]:
    """All that a cache remembers."""
    return [*cache.source, *cache.own, cache.source_lengths, cache.lengths, cache.ancestors]


def used_cache() -> Cache:
    """A cache of three sources after four steps, in which hypotheses went on from others."""
    model = small_model()
    cache = filled_cache(model, [sentence(length, length) for length in (2, 4, 5)], 3, 8)
    for _ in range(4):
        cache.begin_step(5, 4)
        for own, _ in cache.contexts(torch.zeros(9)):
            own.attend(torch.randn(9, 3 * 32), HEADS)
        cache.end_step(torch.randint(3, (3, 3)), torch.tensor([True, True, False]))
    return cache


@torch.inference_mode()
def test_a_cache_that_grows_keeps_what_it_has() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before = [one.clone() for one in contents(cache)]
    cache.grow(3, 2)  # it has room
    assert [one.shape for one in contents(cache)] == [one.shape for one in before]
    cache.grow(9, 11)
    for one, other in zip(contents(cache), before, strict=True):
        assert torch.equal(one[tuple(map(slice, other.shape))], other)
    assert cache.source[0].size(3) == 9
    assert cache.own[0].size(3) == cache.ancestors.size(2) == 8 + GRAIN
    assert (cache.ancestors[..., 8:] == -1).all()


@torch.inference_mode()
def test_slots_that_are_kept_keep_what_they_have() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before, kept = [one.clone() for one in contents(cache)], torch.tensor([0, 2])
    cache.keep(kept)
    for number, (one, other) in enumerate(zip(contents(cache), before, strict=True)):
        assert torch.equal(one, other[:, kept] if number < 4 else other[kept])
    cache.begin_step(5, 5)
    cache.contexts(torch.zeros(6))[0][0].attend(torch.randn(6, 3 * 32), HEADS)


@torch.inference_mode()
def test_a_new_sentence_changes_no_slot_but_its_own() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before = [one.clone() for one in contents(cache)]
    slot = torch.tensor([1])
    places = torch.tensor([1, 1, 1]), torch.arange(3)
    cache.put(slot, torch.tensor([3], dtype=torch.int32), places, torch.randn(2, 3, 64))
    others = torch.tensor([0, 2])
    for number, (one, other) in enumerate(zip(contents(cache), before, strict=True)):
        of = (slice(None), others) if number < 4 else (others,)
        assert torch.equal(one[of], other[of])
    assert (cache.source_lengths[1].item(), cache.lengths[1].item()) == (3, 0)
    assert (cache.ancestors[1] == -1).all()
