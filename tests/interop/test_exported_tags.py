"""Tags outside of torch: in exports and in the service."""

import json
from pathlib import Path

import pytest
from conftest import TINY, CommandLine, threads_kept

from transduce.errors import BadInput
from transduce.interop.export import huggingface
from transduce.interop.importing import import_model
from transduce.system.files import read_json
from transduce.text.corpora import CorpusText
from transduce.training.train import train
from transduce.translation.translator import Translator

TEXTS = ["a dog sees the tree.", "<docs> the man likes one bird!"]


@pytest.fixture(scope="module", params=["true", "false"], ids=["joint", "separate"])
def tagged_run(
    request: pytest.FixtureRequest,
    tiny_files: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    with threads_kept():
        return train(
            corpora=[CorpusText(*tiny_files, tag="docs")],
            out=tmp_path_factory.mktemp("tagged") / "run",
            preset="tiny",
            settings=TINY | {"steps": "5", "joint": request.param},
            device="cpu",
        )


def test_ctranslate2_translates_with_a_tag_as_torch_does(tagged_run: Path) -> None:
    pytest.importorskip("ctranslate2")
    ours, theirs = (
        Translator.load(tagged_run, device="cpu", engine=engine)
        for engine in ("torch", "ctranslate2")
    )
    for tag in (None, "docs"):
        expected = ours.translate(TEXTS, tag=tag, beam=1, extra=5)
        actual = theirs.translate(TEXTS, tag=tag, beam=1, extra=5)
        assert [t.text for t in actual] == [t.text for t in expected]
        assert [t.score for t in actual] == pytest.approx([t.score for t in expected], abs=1e-3)
    plain, tagged = (theirs.score([(TEXTS[0], "ein Hund")], tag=tag)[0] for tag in (None, "docs"))
    assert plain.score != tagged.score


def test_hugging_face_has_the_tag(tagged_run: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    huggingface.export(tagged_run, tmp_path / "exported")
    codec = Translator.load(tagged_run, device="cpu", engine="torch").codec
    (tag,) = codec.source.tag_ids("docs")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert tokenizer.convert_tokens_to_ids("<docs>") == tag
    assert tag not in tokenizer("<docs> a dog").input_ids
    suppressed = read_json(tmp_path / "exported" / "generation_config.json")["suppress_tokens"]
    assert (tag in suppressed) == codec.joint
    import_model(tmp_path / "exported", tmp_path / "again")
    again = Translator.load(tmp_path / "again", device="cpu", engine="torch")
    assert again.codec.sha256 == codec.sha256


def test_an_exported_model_of_several_languages_keeps_them(
    two_target_run: Path, tmp_path: Path, cli: CommandLine
) -> None:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "exported"
    huggingface.export(two_target_run, folder)
    assert transformers.AutoTokenizer.from_pretrained(folder)("a dog").input_ids
    result = cli("import", folder, "--out", tmp_path / "again")
    assert "again now translates en to de, en to fr: " in result.stderr
    assert result.stderr.rstrip().endswith("FILE --to de")
    ours, again = (
        Translator.load(run, device="cpu", engine="torch")
        for run in (two_target_run, tmp_path / "again")
    )
    for to in ("de", "fr"):
        assert again.translate(TEXTS[:1], to=to)[0].text == ours.translate(TEXTS[:1], to=to)[0].text
    import_model(folder, tmp_path / "french", languages="en-fr")
    french = Translator.load(tmp_path / "french", device="cpu", engine="torch")
    assert french(TEXTS[0]) == ours.translate(TEXTS[:1], to="fr")[0].text
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps(read_json(settings) | {"language_pairs": [["en"]]}))
    with pytest.raises(
        BadInput, match=r"language_pairs = \[\['en'\]\]: expected pairs of languages"
    ):
        import_model(folder, tmp_path / "refused")


def test_the_service_translates_with_a_tag(tagged_run: Path) -> None:
    pytest.importorskip("fastapi")
    from serving import error, post, translated
    from transduce.serving.app import create_app
    from transduce.serving.models import ServedModel

    served = ServedModel.load(tagged_run, "tagged", device="cpu", engine="torch")
    app = create_app([served])
    expected = served.translator.translate(TEXTS[:1], tag="docs")[0]
    answer = translated(app, text=TEXTS[0], tag="docs")
    assert answer["text"] == expected.text
    refused = error(post(app, "/api/translate", {"text": TEXTS[0], "tag": "doc"}), 400)
    assert refused == "there is no tag 'doc': the model knows docs"
    assert app.state.service.close()
