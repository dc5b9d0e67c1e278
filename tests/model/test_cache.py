"""The KV cache keeps its content when it grows, drops slots or gets a new sentence."""

import torch
from torch import Tensor

from models import filled_cache, sentence, small_model
from transduce.model.attention import DotProduct, Heads
from transduce.model.cache import GRAIN, Cache

HEADS = Heads(4, 8, 8, 0.0, DotProduct())  # as in `small_model`


def contents(cache: Cache) -> list[Tensor]:
    """Return all tensors of a cache."""
    return [*cache.source, *cache.target, cache.source_lengths, cache.lengths, cache.ancestors]


def used_cache() -> Cache:
    """Return a cache of three sources after four steps with reordered hypotheses."""
    model = small_model()
    cache = filled_cache(model, [sentence(length, length) for length in (2, 4, 5)], 3, 8)
    for _ in range(4):
        cache.begin_step(5, 4)
        for own, _ in cache.contexts(torch.zeros(9)):
            own.attend(torch.randn(9, 3 * 32), HEADS)
        cache.end_step(torch.randint(3, (3, 3)), torch.tensor([True, True, False]))
    return cache


@torch.inference_mode()
def test_a_cache_that_grows_keeps_its_content() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before = [tensor.clone() for tensor in contents(cache)]
    cache.grow(3, 2)  # it is large enough
    assert [tensor.shape for tensor in contents(cache)] == [tensor.shape for tensor in before]
    cache.grow(9, 11)
    for tensor, old in zip(contents(cache), before, strict=True):
        assert torch.equal(tensor[tuple(map(slice, old.shape))], old)
    assert cache.source[0].size(3) == 9
    assert cache.target[0].size(3) == cache.ancestors.size(2) == 8 + GRAIN
    assert (cache.ancestors[..., 8:] == -1).all()


@torch.inference_mode()
def test_slots_that_are_kept_keep_their_content() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before, slots = [tensor.clone() for tensor in contents(cache)], torch.tensor([0, 2])
    cache.keep(slots)
    for number, (tensor, old) in enumerate(zip(contents(cache), before, strict=True)):
        assert torch.equal(tensor, old[:, slots] if number < 4 else old[slots])
    cache.begin_step(5, 5)
    cache.contexts(torch.zeros(6))[0][0].attend(torch.randn(6, 3 * 32), HEADS)


@torch.inference_mode()
def test_a_new_sentence_changes_only_its_own_slot() -> None:
    torch.manual_seed(0)
    cache = used_cache()
    before = [tensor.clone() for tensor in contents(cache)]
    slot = torch.tensor([1])
    places = torch.tensor([1, 1, 1]), torch.arange(3)
    cache.put(slot, torch.tensor([3], dtype=torch.int32), places, torch.randn(2, 3, 64))
    other_slots = torch.tensor([0, 2])
    for number, (tensor, old) in enumerate(zip(contents(cache), before, strict=True)):
        index = (slice(None), other_slots) if number < 4 else (other_slots,)
        assert torch.equal(tensor[index], old[index])
    assert (cache.source_lengths[1].item(), cache.lengths[1].item()) == (3, 0)
    assert (cache.ancestors[1] == -1).all()
