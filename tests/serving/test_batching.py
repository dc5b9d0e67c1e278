"""Sentences of many requests are searched in shared batches, fairly, while somebody waits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serving import PATIENCE, Scripted, until
from transduce.config import SearchConfig
from transduce.serving.batching import Batcher
from transduce.subwords import EOS
from transduce.translation.segments import preparation
from transduce.translation.translator import Translator
from transduce.translation.types import Job

PLAIN = SearchConfig()


def job(*tokens: int) -> Job:
    return Job(np.array([*tokens, EOS]))


def run_scenario(
    scenario: Callable[[Scripted, Batcher], Awaitable[Any]], *, held: bool = True, remember: int = 0
) -> tuple[Any, Scripted]:
    """Run a scenario with a scripted engine; return its result and the engine."""
    engine = Scripted(held=held)
    batcher = Batcher(engine, cache_size=remember)

    async def run() -> Any:
        return await scenario(engine, batcher)

    try:
        return asyncio.run(run()), engine
    finally:
        engine.go.set()
        assert batcher.close(60)


async def wait_for_batches(engine: Scripted, count: int = 1) -> None:
    """Wait until this many batches have started."""
    await asyncio.to_thread(until, lambda: len(engine.batches) >= count)


def submit(
    batcher: Batcher, *jobs: Job, config: SearchConfig = PLAIN, owner: str | None = None
) -> "asyncio.Task[Any]":
    return asyncio.ensure_future(batcher.search(jobs, config, owner))


def test_sentences_that_arrive_during_a_batch_form_the_next_one() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        first = submit(batcher, job(9))
        await wait_for_batches(engine)
        others = [submit(batcher, job(10 + n)) for n in range(5)]
        await asyncio.sleep(0)
        engine.go.set()
        return await asyncio.gather(first, *others)

    result, engine = run_scenario(scenario)
    assert [len(batch) for batch in engine.batches] == [1, 5]
    assert [outputs[0][0].tokens for outputs in result] == [[9], *([10 + n] for n in range(5))]


def test_simultaneous_requests_share_a_batch() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        return await asyncio.gather(*(submit(batcher, job(10 + n)) for n in range(5)))

    _, engine = run_scenario(scenario, held=False)
    assert [len(batch) for batch in engine.batches] == [5]


def test_a_long_text_does_not_delay_a_short_one() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        long = submit(batcher, *(job(9, n) for n in range(10, 110)))
        await wait_for_batches(engine)
        short = submit(batcher, job(5))
        await asyncio.sleep(0)
        engine.go.set()
        await asyncio.gather(long, short)

    _, engine = run_scenario(scenario)
    assert max(map(len, engine.batches)) == engine.batch
    assert [5, EOS] in engine.batches[1]


def test_batches_are_sorted_by_length_and_complete() -> None:
    jobs = [job(*range(4, 4 + length)) for length in (1, 9, 2, 8, 3, 7, 4, 6, 5, 10, 11, 12)]

    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        return await batcher.search(jobs, PLAIN)

    result, engine = run_scenario(scenario, held=False)
    assert [outputs[0].tokens for outputs in result] == [job.source[:-1].tolist() for job in jobs]
    assert [len(source) for batch in engine.batches for source in batch] == list(range(13, 1, -1))


def test_the_same_sentence_is_searched_once() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        first = submit(batcher, job(9), job(7), job(7))
        await wait_for_batches(engine)
        second = submit(batcher, job(9), job(7), job(8))
        await asyncio.sleep(0)
        engine.go.set()
        return await asyncio.gather(first, second)

    result, engine = run_scenario(scenario)
    assert sorted(source for batch in engine.batches for source in batch) == [
        [7, 2],
        [8, 2],
        [9, 2],
    ]
    assert [[outputs[0].tokens for outputs in each] for each in result] == [
        [[9], [7], [7]],
        [[9], [7], [8]],
    ]


def test_another_prefix_is_another_sentence() -> None:
    jobs = [Job(np.array([9, EOS]), prefix) for prefix in ((), (5,), [5], (6,))]

    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        await batcher.search(jobs, PLAIN)
        await batcher.search(jobs, PLAIN)

    _, engine = run_scenario(scenario, held=False, remember=9)
    assert engine.batches == [[[9, EOS]] * 3]


def test_a_batch_has_one_setting_and_settings_take_turns() -> None:
    wide = PLAIN.replace(beam=5)

    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        many = submit(batcher, *(job(9, n) for n in range(10, 40)))
        await wait_for_batches(engine)
        few = submit(batcher, job(9, 10), config=wide)
        await asyncio.sleep(0)
        engine.go.set()
        await asyncio.gather(many, few)

    _, engine = run_scenario(scenario)
    assert engine.settings[:3] == [PLAIN, PLAIN, wide] or engine.settings[:2] == [PLAIN, wide]
    assert engine.settings.count(wide) == 1


def test_many_settings_of_one_client_do_not_delay_another() -> None:
    """If only settings took turns, one client could take 16 turns of 17."""
    many = [PLAIN.replace(alpha=1 + n / 10) for n in range(16)]

    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        first = submit(batcher, job(3), owner="many")
        await wait_for_batches(engine)
        others = [
            submit(batcher, *(job(9, n, m) for m in range(10, 30)), config=config, owner="many")
            for n, config in enumerate(many, start=10)
        ]
        await asyncio.sleep(0)
        few = submit(batcher, *(job(5, n) for n in range(10, 26)), owner="few")
        await asyncio.sleep(0)
        engine.go.set()
        await asyncio.gather(first, *others, few)
        assert batcher._queues == {}

    _, engine = run_scenario(scenario)
    ours = [number for number, batch in enumerate(engine.batches) if batch[0][0] == 5]
    assert ours[-1] <= 4  # our two batches alternate with the other client's


def test_clients_take_turns_within_a_batch() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        first = submit(batcher, job(3), owner="many")
        await wait_for_batches(engine)
        others = [submit(batcher, job(9, n), job(8, n), owner="many") for n in range(10, 30)]
        await asyncio.sleep(0)
        few = submit(batcher, *(job(5, n) for n in range(10, 14)), owner="few")
        await asyncio.sleep(0)
        engine.go.set()
        await asyncio.gather(first, *others, few)

    _, engine = run_scenario(scenario)
    assert len([source for source in engine.batches[1] if source[0] == 5]) == engine.batch // 2


def test_sentences_without_waiters_are_not_searched() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        first = submit(batcher, job(9))
        await wait_for_batches(engine)
        left = submit(batcher, job(5), job(6), job(7))
        stays = submit(batcher, job(7), job(8))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        engine.go.set()
        await asyncio.gather(first, stays)
        assert batcher._pending == {}
        assert batcher._queues == {}

    _, engine = run_scenario(scenario)
    assert sorted(engine.batches[1]) == [[7, EOS], [8, EOS]]


def test_an_error_reaches_only_the_waiting_requests() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        engine.failure = RuntimeError("no memory")
        with pytest.raises(RuntimeError, match="no memory"):
            await batcher.search([job(9), job(8)], PLAIN)
        engine.failure = None
        return await batcher.search([job(9)], PLAIN)

    result, _ = run_scenario(scenario, held=False)
    assert result[0][0].tokens == [9]


def test_fail_all_fails_waiting_requests() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        waiting = submit(batcher, job(9))
        await wait_for_batches(engine)
        batcher.fail_all(RuntimeError("ended"))
        with pytest.raises(RuntimeError, match="ended"):
            await waiting

    run_scenario(scenario)


def test_a_closed_batcher_starts_again() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        await batcher.search([job(9)], PLAIN)
        assert batcher.close(60)
        return await batcher.search([job(8)], PLAIN)

    result, _ = run_scenario(scenario, held=False)
    assert result[0][0].tokens == [8]


def test_a_thread_that_outlives_close_does_not_join_a_new_start() -> None:
    """Otherwise each close during a batch would leave an extra thread."""

    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        first = submit(batcher, job(9))
        await wait_for_batches(engine)
        (old,) = batcher._threads
        assert not batcher.close(0)  # it is still searching
        second = submit(batcher, job(8))
        await wait_for_batches(engine, 2)
        engine.go.set()
        await asyncio.gather(first, second)
        await asyncio.to_thread(old.join, PATIENCE)
        return old.is_alive()

    still_alive, _ = run_scenario(scenario)
    assert not still_alive


def test_several_threads_share_the_queue(tiny_run: Path) -> None:
    translator = Translator.load(tiny_run, engine="ctranslate2")
    translator.engine.workers = 2  # type: ignore[attr-defined]
    works = translator.prepare(
        ["a dog sees a tree.", "the bird likes one fish!", "", "a man"] * 9,
        preparation(split=False),
    )
    jobs = [work.jobs(work.sentences[0])[0] for work in works if work.segments]
    sizes: list[int] = []
    batcher = Batcher(translator.engine, lambda size, _: sizes.append(size))

    async def search_all() -> Any:
        return await batcher.search(jobs, translator.config.search)

    result = asyncio.run(search_all())
    assert batcher.close(60)
    assert sum(sizes) == 3  # different ones of 27
    alone = dict(translator.engine.search(jobs, translator.config.search, 4))
    assert [outputs[0].tokens for outputs in result] == [
        alone[n][0].tokens for n in range(len(jobs))
    ]


def test_the_cache_keeps_the_most_recent_sentences() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        first = await batcher.search([job(9), job(10)], PLAIN)
        again = await batcher.search([job(9), job(10)], PLAIN)
        other = await batcher.search([job(9)], PLAIN.replace(beam=2))  # evicts the oldest
        await batcher.search([job(10)], PLAIN)
        await batcher.search([job(9)], PLAIN)
        return first, again, other

    (first, again, other), engine = run_scenario(scenario, held=False, remember=2)
    assert again == first
    assert [outputs[0].tokens for outputs in other] == [[9]]
    assert [sorted(batch) for batch in engine.batches] == [[[9, EOS], [10, EOS]], *[[[9, EOS]]] * 2]


def test_errors_are_not_cached() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        engine.failure = ValueError("once")
        with pytest.raises(ValueError, match="once"):
            await batcher.search([job(9)], PLAIN)
        engine.failure = None
        return await batcher.search([job(9)], PLAIN)

    result, _ = run_scenario(scenario, held=False, remember=2)
    assert [outputs[0].tokens for outputs in result] == [[9]]


def test_sentences_with_required_phrases_do_not_fail_the_others() -> None:
    async def scenario(engine: Scripted, batcher: Batcher) -> Any:
        search = engine.search

        def refusing(jobs: Sequence[Job], *rest: Any) -> Any:
            if any(job.required for job in jobs):
                raise ValueError("required")
            return search(jobs, *rest)

        engine.search = refusing  # type: ignore[assignment, method-assign]
        first = submit(batcher, job(9))
        await wait_for_batches(engine)
        required = Job(job(7).source, required=(((5,),),))
        tasks = (first, submit(batcher, required), submit(batcher, job(8)))
        await asyncio.sleep(0)
        engine.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    (_, refused, result), engine = run_scenario(scenario)
    assert isinstance(refused, ValueError)
    assert result[0][0].tokens == [8]
    assert engine.batches == [[[9, EOS]], [[8, EOS]]]
