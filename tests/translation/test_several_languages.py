"""Models of several pairs of languages: Python and the command line."""

import json
from pathlib import Path

import pytest
from conftest import CommandLine, tiny_pairs
from three_languages import FRENCH, GERMAN, SENTENCES, french, words_of

from transduce.cli.remarks import describe_zero_shot
from transduce.config import ModelConfig, TrainConfig
from transduce.errors import BadInput
from transduce.inspection.inspector import Inspector
from transduce.runs.folder import RunConfig
from transduce.translation.translator import Translator


@pytest.fixture(scope="module")
def translator(two_target_run: Path) -> Translator:
    return Translator.load(two_target_run, device="cpu", engine="torch")


def test_the_model_writes_the_language_that_is_asked_for(translator: Translator) -> None:
    for to, words in (("de", GERMAN), ("fr", {*FRENCH.values()})):
        outputs = [t.text for t in translator.translate(SENTENCES, to=to)]
        assert all(words_of(output) <= words for output in outputs), outputs
        assert translator.directed(to=to)(SENTENCES[0]) == outputs[0]
        assert translator(SENTENCES[0], to=to) == outputs[0]
    assert not GERMAN & {*FRENCH.values()}


def test_scores_know_the_target_language(translator: Translator) -> None:
    pairs = [(SENTENCES[0], french(SENTENCES[0]))]
    (right,), (wrong,) = (translator.directed(to=to).score(pairs) for to in ("fr", "de"))
    assert right.log_probability > wrong.log_probability + 5


def test_a_target_must_be_chosen_and_known(translator: Translator) -> None:
    with pytest.raises(BadInput, match="translates to de, fr: choose one of them"):
        translator(SENTENCES[0])
    with pytest.raises(BadInput, match="translates to de, fr: choose one of them"):
        next(translator.stream(SENTENCES))
    with pytest.raises(BadInput, match="translates to de, fr: choose one of them"):
        translator.score([("a dog", "ein Hund")])
    with pytest.raises(BadInput, match="does not translate to it: it translates en to de, en to"):
        translator.directed(to="it")
    for source in ("it", "fr"):
        with pytest.raises(BadInput, match=f"does not translate from {source} to fr"):
            translator.directed(to="fr", source=source)


def test_a_pair_that_was_not_trained_is_zero_shot(translator: Translator) -> None:
    assert translator.directed(to="fr", source="de").zero_shot
    assert not translator.directed(to="fr", source="en").zero_shot
    assert not translator.directed(to="fr").zero_shot
    assert translator.directed(to="fr").config.languages == ("en", "fr"), "the only source"


def test_a_model_of_one_pair_needs_no_target(tiny_run: Path) -> None:
    translator = Translator.load(tiny_run, device="cpu", engine="torch")
    assert translator.directed(to="de", source="en")("a dog") == translator("a dog")
    with pytest.raises(BadInput, match="does not translate to fr: it translates en to de"):
        translator("a dog", to="fr")


def test_attention_is_that_of_the_chosen_language(two_target_run: Path) -> None:
    inspector = Inspector.load(two_target_run)
    inspection = inspector.directed(to="fr").inspect(SENTENCES[0])
    assert inspection.source[0] == "<2fr>"
    first, *_ = SENTENCES[0].split()
    assert inspection.spelled[0][:2] == ("<2fr>", first), "the tag is a word of its own"
    assert words_of(inspection.sentences[1]) <= {*FRENCH.values()}
    with pytest.raises(BadInput, match="translates to de, fr"):
        inspector.inspect(SENTENCES[0])


def test_a_pair_without_training_text_is_better_translated_in_two_steps() -> None:
    pairs = (("en", "de"), ("de", "en"), ("en", "fr"), ("it", "fr"))
    config = RunConfig(model=ModelConfig(), train=TrainConfig(), pairs=pairs)
    remark = describe_zero_shot(config.directed("fr", "de"))
    assert remark.endswith("in other languages. Translate to en, and that to fr")
    remark = describe_zero_shot(config.directed("de", "it"))
    assert remark.endswith("it to de: outputs may be in other languages")


def test_the_command_line_asks_for_the_language(
    two_target_run: Path, tmp_path: Path, cli: CommandLine, translator: Translator
) -> None:
    on_cpu = ("--device", "cpu", "--engine", "torch")
    command = ("translate", two_target_run, SENTENCES[0], *on_cpu)
    refused = cli(*command)
    assert (refused.status, refused.stdout) == (1, "")
    assert "the model translates to de, fr: choose one of them as the target" in refused.stderr
    assert cli(*command, "--to", "fr").stdout == translator(SENTENCES[0], to="fr") + "\n"
    zero_shot = cli(*command, "--to", "fr", "--from", "de")
    assert zero_shot.status == 0
    assert "the model was not trained on de to fr: outputs may be in other" in zero_shot.stderr
    text, out = tmp_path / "text.en", tmp_path / "out"
    text.write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    out.mkdir()
    written = cli("translate", two_target_run, text, "--to", "fr", "--out", out, *on_cpu)
    assert written.status == 0, written.stderr
    assert words_of((out / "text.fr").read_text(encoding="utf-8")) <= {*FRENCH.values()}
    document = tmp_path / "page.en.md"
    document.write_text(f"# {SENTENCES[0]}\n", encoding="utf-8")
    page = cli("translate", two_target_run, document, "--to", "de", "--out", out, *on_cpu)
    assert page.status == 0, page.stderr
    assert (out / "page.de.md").read_text(encoding="utf-8").startswith("# ")
    info = cli("info", two_target_run)
    assert "languages    en to de, en to fr" in info.stdout
    assert json.loads(cli("info", two_target_run, "--json").stdout)["pairs"] == [
        ["en", "de"],
        ["en", "fr"],
    ]


def test_both_directions_of_one_text_from_the_command_line(
    tmp_path: Path, cli: CommandLine
) -> None:
    pairs = tiny_pairs(60)
    for side, name in enumerate(("train.en", "train.de")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    run, sizes = tmp_path / "run", ("d_model=16", "d_ff=16", "N=1", "h=2", "d_k=8", "d_v=8")
    settings = [
        word for each in (*sizes, "vocabulary=300", "threads=1") for word in ("--set", each)
    ]
    command: tuple[str | Path, ...] = (
        "train",
        tmp_path / "train.en",
        tmp_path / "train.de",
        "--both-directions",
    )
    options: tuple[str | Path, ...] = (
        "--out",
        run,
        "--preset",
        "tiny",
        "--steps",
        "3",
        "--device",
        "cpu",
        *settings,
    )
    trained = cli(*command, *options)
    assert trained.status == 0, trained.stderr
    assert "2 directions in one model: en-de, de-en" in trained.stderr
    assert f"{run} FILE --to de" in trained.stderr
    assert RunConfig.load(run).pairs == (("en", "de"), ("de", "en"))
    without = cli(*command[:-1], *options)
    assert without.status == 1
    assert "was prepared from other text or with other settings" in without.stderr
    assert "preparing it again" not in without.stderr
