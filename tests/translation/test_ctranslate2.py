"""The engine ctranslate2 gives the scores, searches and alignments of the engine torch."""

import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from attention_settings import MODERN
from conftest import TINY, threads_kept, tiny_pairs
from random_runs import run_of
from tokenizers import Tokenizer

from models import sentence
from transduce.batching.packed import make_batch
from transduce.checkpoints.checkpoint import save_model
from transduce.config import SearchConfig
from transduce.errors import BadInput
from transduce.glossary import Glossary, accuracy
from transduce.interop.export.ctranslate2 import export
from transduce.runs.arrays import load_arrays
from transduce.runs.folder import RunConfig
from transduce.subwords import BOS, EOS, SPECIAL, Codec
from transduce.training.train import train
from transduce.translation.engines.ctranslate2 import CTranslate2Engine
from transduce.translation.engines.pytorch import TorchEngine
from transduce.translation.translator import Translator
from transduce.translation.types import Hypothesis, Job

pytest.importorskip("ctranslate2")

SENTENCES = [source for source, _ in tiny_pairs(30, seed=2)]


def both(run: Path) -> tuple[TorchEngine, CTranslate2Engine]:
    """Load the two engines of a run, in float32."""
    config, codec = RunConfig.load(run), Codec.load(run / "subwords.json")
    ours = TorchEngine.load([run], [config], codec.target.forbidden_ids(), "cpu")
    return ours, CTranslate2Engine.load(run, config, codec, "none")


def searched(engine: TorchEngine | CTranslate2Engine, jobs: list[Job], **settings: Any) -> Any:
    found: dict[int, list[Hypothesis]] = dict(engine.search(jobs, SearchConfig(**settings), 4))
    return [found[place] for place in range(len(jobs))]


def jobs_of(run: Path, *, prefix: str = "") -> list[Job]:
    codec = Codec.load(run / "subwords.json")
    forced = codec.target.encode(prefix) if prefix else []
    return [Job(np.array([*codec.source.encode(text), EOS]), forced) for text in SENTENCES]


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(expected, found, strict=True):
        assert [output.tokens for output in theirs] == [output.tokens for output in ours]
        for a, b in zip(theirs, ours, strict=True):
            assert a.log_probability == pytest.approx(b.log_probability, abs=1e-3, rel=1e-5)
            assert a.score == pytest.approx(b.score, abs=1e-3, rel=1e-5)


@pytest.fixture(scope="module")
def trained(tiny_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run trained until its outputs consist of words and end."""
    run = tmp_path_factory.mktemp("runs") / "trained"
    settings = {
        "steps": "160",
        "warmup": "40",
        "lr_scale": "4",
        "P_drop": "0",
        "average": "1",
        "save_every": "500",
        "validate_every": "500",
        "validate_bleu": "0",
    }
    with threads_kept():
        train(*tiny_files, out=run, settings=TINY | settings, preset="tiny", device="cpu")
    return run


@pytest.fixture(scope="module")
def engines(trained: Path) -> Iterator[tuple[TorchEngine, CTranslate2Engine]]:
    with threads_kept():
        yield both(trained)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"N": 2, "N_decoder": 1},
        {"N": 1, "N_decoder": 3},
        {"positions": "learned"},
        {"tie": "none"},
        {"tie": "decoder"},
        {"attention_bias": True},
        {"d_k": 8},
        {"d_v": 4, "attention_bias": True},
        {"h": 1, "d_k": 32, "d_v": 32},
        {"joint": False, "tie": "decoder"},
        {"joint": False, "tie": "none", "N_decoder": 2, "positions": "learned"},
        {"pre_norm": True},
        {"norm": "rms"},
        {"gated": True},
        {"positions": "rotary"},
        {"positions": "rotary", "d_k": 8},
        {**MODERN, "qk_norm": False},
    ],
    ids=str,
)
def test_every_model_shape_gives_the_same_scores_and_attention(
    changes: dict[str, Any], tiny_run: Path, tmp_path: Path
) -> None:
    run = run_of(tmp_path / "run", tiny_run, **changes)
    ours, theirs = both(run)
    model = RunConfig.load(run).model
    pairs = [
        (sentence(source, 1, model.source_vocabulary), sentence(target, 2, model.target_vocabulary))
        for source, target in ((5, 7), (1, 1), (30, 2), (2, 40), (model.max_len, model.max_len))
    ]
    for a, b in zip(theirs.score(pairs), ours.score(pairs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
    for weights, expected in zip(theirs.align(pairs[:4]), ours.align(pairs[:4]), strict=True):
        assert weights.shape == expected.shape
        np.testing.assert_allclose(weights, expected, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("beam", [1, 4])
def test_search_finds_what_our_search_finds(
    alpha: float, beam: int, engines: tuple[TorchEngine, CTranslate2Engine], trained: Path
) -> None:
    settings = {"alpha": alpha, "beam": beam}
    expected, found = (searched(engine, jobs_of(trained), **settings) for engine in engines)
    assert_same(found, expected)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_nbest_returns_the_requested_number_of_good_hypotheses(
    alpha: float, engines: tuple[TorchEngine, CTranslate2Engine], trained: Path
) -> None:
    settings = {"alpha": alpha, "nbest": 3}
    expected, found = (searched(engine, jobs_of(trained), **settings) for engine in engines)
    assert_same([best[:1] for best in found], [best[:1] for best in expected])
    for best in found:
        assert len({tuple(output.tokens) for output in best}) == 3
        assert best == sorted(best, key=lambda output: -output.score)
    totals = [sum(output.score for best in each for output in best) for each in (found, expected)]
    assert totals[0] > totals[1]  # CTranslate2 continues the beam where a hypothesis ended


def test_the_power_penalty_is_used(
    engines: tuple[TorchEngine, CTranslate2Engine], trained: Path
) -> None:
    settings = {"alpha": 1.0, "penalty": "power", "nbest": 4}
    for best in searched(engines[1], jobs_of(trained), **settings):
        scores = [output.score for output in best]
        assert scores == sorted(scores, reverse=True)
        for output in best:
            assert output.score == pytest.approx(output.log_probability / (len(output.tokens) + 1))


def test_scores_of_the_search_equal_those_of_given_translations(
    engines: tuple[TorchEngine, CTranslate2Engine], trained: Path
) -> None:
    jobs = jobs_of(trained)
    for job, best in zip(jobs, searched(engines[1], jobs, nbest=4), strict=True):
        pairs = [(job.source, np.array([*output.tokens, EOS])) for output in best]
        for output, of_tokens in zip(best, engines[0].score(pairs), strict=True):
            assert output.log_probability == pytest.approx(sum(of_tokens), abs=1e-3)


def test_an_output_begins_with_its_prefix_and_the_score_includes_it(
    engines: tuple[TorchEngine, CTranslate2Engine], trained: Path
) -> None:
    jobs = jobs_of(trained, prefix="ein Hund")
    jobs[3] = dataclasses.replace(jobs[3], prefix=[])  # the others have one
    expected, found = (searched(engine, jobs, beam=1) for engine in engines)
    assert_same(found, expected)
    for job, best in zip(jobs, searched(engines[1], jobs, nbest=3), strict=True):
        for output in best:
            assert output.tokens[: len(job.prefix)] == job.prefix
        pairs = [(job.source, np.array([*output.tokens, EOS])) for output in best]
        for output, of_tokens in zip(best, engines[0].score(pairs), strict=True):
            assert output.log_probability == pytest.approx(sum(of_tokens), abs=1e-3)


def test_a_prefix_of_the_maximum_length_is_the_whole_output(
    engines: tuple[TorchEngine, CTranslate2Engine], trained: Path
) -> None:
    longest = RunConfig.load(trained).model.max_positions
    jobs = [Job(sentence(3, 1), [5] * (longest - 1))]
    expected, found = (searched(engine, jobs) for engine in engines)
    assert_same(found, expected)


@pytest.mark.parametrize("beam", [1, 4])
def test_each_output_has_its_own_limit_in_a_batch(
    beam: int, engines: tuple[TorchEngine, CTranslate2Engine], trained: Path
) -> None:
    jobs = jobs_of(trained)
    settings = {"beam": beam, "extra": 2}
    found = searched(engines[1], jobs, **settings)
    assert_same(found, searched(engines[0], jobs, **settings))
    at_limit = 0
    for job, best in zip(jobs, found, strict=True):
        assert len(best[0].tokens) + 1 <= len(job.source) + 2
        at_limit += len(best[0].tokens) + 1 == len(job.source) + 2
    assert at_limit  # otherwise the limit was not tested


def test_results_do_not_depend_on_the_batch_or_the_number_of_workers(
    engines: tuple[TorchEngine, CTranslate2Engine],
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = jobs_of(trained)
    together = searched(engines[1], jobs)
    assert_same([searched(engines[1], [job])[0] for job in jobs], together)
    monkeypatch.setattr("transduce.translation.engines.ctranslate2.cores", lambda: 3)
    config, codec = RunConfig.load(trained), Codec.load(trained / "subwords.json")
    assert_same(searched(CTranslate2Engine.load(trained, config, codec, "none"), jobs), together)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_forbidden_words_are_never_generated_by_ctranslate2(
    alpha: float, tiny_run: Path, tmp_path: Path
) -> None:
    run = run_of(tmp_path / "run", tiny_run, tie="none")
    arrays = load_arrays(run / "model.safetensors")
    forbidden = Codec.load(run / "subwords.json").target.forbidden_ids()
    arrays["output"][forbidden] *= 30  # the likeliest words by far
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    save_model(run, RunConfig.load(run), tensors, "changed")
    ours, theirs = both(run)
    jobs = jobs_of(run)[:5]
    assert any(set(forbidden) & set(np.argsort(logits)[-3:]) for logits in _first_words(ours, jobs))
    found = searched(theirs, jobs, alpha=alpha, nbest=4)
    for job, best in zip(jobs, found, strict=True):
        assert len(best) == 4
        for output in best:
            assert not {*output.tokens} & {*forbidden, EOS}
            (expected,) = ours.score([(job.source, np.array([*output.tokens, EOS]))])
            assert output.log_probability == pytest.approx(sum(expected), rel=1e-4, abs=1e-3)


def _first_words(engine: TorchEngine, jobs: list[Job]) -> list[Any]:

    (model,) = engine.models
    with torch.inference_mode():
        return [
            model.logits(model(make_batch([(job.source, np.array([EOS]))])))[0].numpy()
            for job in jobs
        ]


def test_an_empty_output_is_possible(tiny_run: Path, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", tiny_run, tie="none")
    arrays = load_arrays(run / "model.safetensors")
    last = f"decoder.{RunConfig.load(run).model.decoder_layers - 1}.after_feed.norm"
    arrays[f"{last}.bias"][:] = 1
    arrays["output"][EOS] = 1  # whatever the source
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    save_model(run, RunConfig.load(run), tensors, "changed")
    ours, theirs = both(run)
    jobs = [*jobs_of(run)[:4], Job(np.array([EOS]))]
    for alpha, beam in itertools.product((0.0, 0.6), (1, 4)):
        expected = searched(ours, jobs, alpha=alpha, beam=beam)
        assert [best[0].tokens for best in expected] == [[]] * len(jobs)
        assert_same(searched(theirs, jobs, alpha=alpha, beam=beam), expected)


def test_blank_and_over_long_lines_are_translated_as_with_torch(trained: Path) -> None:
    lines = ["", "a dog", "   ", " ".join(["the dog sees a man and"] * 60), "a tree.\n"]
    expected = Translator.load(trained, engine="torch").translate(lines)
    found = Translator.load(trained, engine="ctranslate2", quantize="none").translate(lines)
    assert expected[3].parts > 1
    assert [text.parts for text in found] == [text.parts for text in expected]
    assert [text.text for text in found] == [text.text for text in expected]


def test_sampling_is_refused_by_the_engine_and_auto_uses_torch(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.translation.engines.selection.may_have_cuda", lambda: False)
    translator = Translator.load(tiny_run, engine="ctranslate2")
    with pytest.raises(BadInput, match="ctranslate2 does not sample"):
        translator.translate(["a dog"], sample=True)
    found = Translator.load(tiny_run).translate(SENTENCES[:3], sample=True, nbest=2)
    ours = Translator.load(tiny_run, engine="torch")
    assert found == ours.translate(SENTENCES[:3], sample=True, nbest=2)


def test_jobs_that_require_phrases_are_searched_by_torch_and_the_others_are_not(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.translation.engines.selection.may_have_cuda", lambda: False)
    jobs, config = jobs_of(trained)[:6], SearchConfig(beam=4)
    phrase = ((EOS + 3,),)
    jobs[1], jobs[4] = (dataclasses.replace(jobs[number], required=(phrase,)) for number in (1, 4))
    with pytest.raises(BadInput, match="ctranslate2 does not search for translations with"):
        list(Translator.load(trained, engine="ctranslate2").engine.search(jobs, config, 4))
    for quantize in ("auto", "int8"):  # torch does not quantise, but can help
        both = dict(Translator.load(trained, quantize=quantize).engine.search(jobs, config, 4))
        ours = dict(Translator.load(trained, engine="torch").engine.search(jobs, config, 4))
        assert sorted(both) == list(range(6))
        for number in (1, 4):
            assert phrase[0][0] in both[number][0].tokens
            assert both[number] == ours[number]
    free = [dataclasses.replace(job, required=()) for job in jobs]
    monkeypatch.setattr(
        "transduce.translation.engines.pytorch.TorchEngine.load", lambda *_: pytest.fail("loaded")
    )
    list(Translator.load(trained).engine.search(free, config, 4))


def test_terms_are_placed_by_ctranslate2_and_required_of_torch(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.translation.engines.selection.may_have_cuda", lambda: False)
    glossary = Glossary.of({"dog": "Hunderich", "man": "Herr", "tree": "Strauch"})
    translator = Translator.load(trained, quantize="none")
    asked: list[Job] = []
    search = translator.engine.search

    def recorded(jobs: Sequence[Job], config: SearchConfig, batch: int) -> Any:
        asked.extend(jobs)
        return search(jobs, config, batch)

    monkeypatch.setattr(translator.engine, "search", recorded)
    found = translator.translate(SENTENCES, glossary=glossary)
    assert translator.engine.name.startswith("ctranslate2")
    assert any(len(job.prefix) > 3 and not job.required for job in asked)  # behind other words
    assert any(job.required for job in asked)
    pairs = [(text.source, text.text) for text in found]
    assert accuracy(pairs, glossary).share == 1
    assert all(term.found for text in found for term in text.terms)


def test_an_export_can_be_used_without_transduce(trained: Path, tmp_path: Path) -> None:

    assert export(trained, tmp_path / "out", "none") == "none"
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (settings["add_source_bos"], settings["add_source_eos"]) == (False, True)
    assert settings["decoder_start_token"] == SPECIAL[BOS]
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    source = tokenizer.encode(SENTENCES[0]).tokens
    (result,) = translator.translate_batch([source], beam_size=1, max_decoding_length=20)
    names = Codec.load(trained / "subwords.json").target.names
    ours = Translator.load(trained, engine="torch").engine
    (best,) = dict(ours.search(jobs_of(trained)[:1], SearchConfig(beam=1), 1))[0]
    assert result.hypotheses[0] == [names[number] for number in best.tokens[:20]]
