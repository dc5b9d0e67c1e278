"""Table 2 for the paper's two pairs of languages, and on further test sets."""

from pathlib import Path

import pytest
from conftest import CommandLine, options, tiny_pairs, write_pairs

from transduce.bench import hardware
from transduce.errors import BadInput, BadRun
from transduce.experiments.budget import Budget
from transduce.experiments.comparison import Comparison, Setup
from transduce.experiments.experiment_folder import begin, save_result, write_lines
from transduce.experiments.findings import Finding
from transduce.experiments.further_tests import FurtherTests, further_notes, further_table
from transduce.experiments.paper_numbers import papers_pair
from transduce.experiments.report import ORDER
from transduce.experiments.rows import Data, Result
from transduce.experiments.statistics import Resampled
from transduce.experiments.table2 import make_finding, papers_subwords, papers_system
from transduce.experiments.two_pairs import Side, beside_table, describe_beside, read_side
from transduce.presets import find_preset
from transduce.runs.folder import RunConfig
from transduce.system.progress import Silent

Files = tuple[Path, Path]

SMALLEST = {
    "N": "1",
    "h": "2",
    "d_model": "16",
    "d_ff": "32",
    "d_k": "8",
    "d_v": "8",
    "vocabulary": "600",
    "batch_tokens": "400",
    "threads": "1",
}
REFERENCES = [f"the {word} sees a man in the garden" for word in ("dog", "cat", "bird", "fish")] * 5


def result(name: str, bleu: float = 20.0) -> Result:
    """Return the result of a row, as if its preset had been trained."""
    preset = find_preset(name)
    return Result(
        name=name,
        preset=name,
        fingerprint="",
        signature="bleu",
        bleu=bleu,
        low=bleu - 1,
        high=bleu + 1,
        perplexity=9.0,
        parameters=1_000_000,
        steps=10,
        epochs=1.0,
        seconds=3.0,
        tokens_per_second=50.0,
        flops=1e12,
        machine={},
        model=preset.model.replace(source_vocabulary=300, target_vocabulary=300).to_json(),
        recipe=preset.train.to_json(),
        curve=[{"seconds": 1.0, "step": 10.0, "valid_perplexity": 9.0, "valid_bleu": bleu}],
    )


def garbled(share: int) -> list[str]:
    """Return translations of which one in `share` is wrong."""
    return [
        line if number % share else "nothing of it is right here at all"
        for number, line in enumerate(REFERENCES)
    ]


def finished_table(folder: Path, languages: str, rows: dict[str, list[str]]) -> Comparison:
    """Write a Table 2 with finished rows, and return its comparison."""
    data = Data(train=("train.tsv", None), languages=languages)
    shared = {"experiment": "table2", "languages": languages.split("-"), "settings": {}}
    begin(folder, shared, [])
    write_lines(folder / "references.txt", REFERENCES)
    for row, lines in rows.items():
        write_lines(folder / row / "translations.txt", lines)
        save_result(folder / row, result(row, Resampled({row: lines}, REFERENCES).whole[row]))
    return Comparison(name="table2", setup=Setup(out=folder, data=data), settings={})


def finding_of(folder: Path, languages: str) -> Finding:
    """Return the finding of a table with two systems."""
    rows = {"tiny": garbled(5), "recurrent-tiny": garbled(3)}
    comparison = finished_table(folder, languages, rows)
    return make_finding(comparison, {row: result(row) for row in rows}, Budget(steps=10))


@pytest.mark.parametrize(
    ("languages", "name"),
    [
        (("en", "de"), "en-de"),
        (("de", "en"), "en-de"),
        (("en", "fr"), "en-fr"),
        (("fr-CA", "en_GB"), "en-fr"),
        (("cs", "en"), None),
        (("de", "fr"), None),
        (("src", "tgt"), None),
    ],
)
def test_a_table_is_compared_with_the_papers_pair(
    languages: tuple[str, str], name: str | None
) -> None:
    pair = papers_pair(languages)
    assert (pair.name if pair else None) == name


def test_french_has_the_papers_numbers_for_french(tmp_path: Path) -> None:
    finding = finding_of(tmp_path / "t2", "en-fr")
    quality, cost, *_ = finding.tables
    rows = [dict(zip(quality.columns, row, strict=True)) for row in quality.rows]
    assert [row["paper: BLEU en-fr"] for row in rows] == ["38.1", "39.92"]
    assert [row["paper: to its Transformer"] for row in rows] == ["", "+1.82"]
    assert cost.columns[-1] == "paper: FLOPs en-fr"
    assert [row[-1] for row in cost.rows] == ["3.3e18", "1.4e20"]
    assert finding.name == "table2_en_fr"
    assert finding.name in ORDER
    notes = " ".join(finding.notes)
    assert "a vocabulary of 300 (32,000)" in notes
    assert "The subwords are byte pairs (the paper: word pieces, for French)." in notes
    assert "opposite direction" not in notes
    assert "for fr-en" not in notes
    reverse = finding_of(tmp_path / "reverse", "fr-en")
    assert "The paper's numbers are for en-fr, the opposite direction." in reverse.notes


def test_german_has_the_numbers_that_it_had(tmp_path: Path) -> None:
    finding = finding_of(tmp_path, "en-de")
    assert finding.name == "table2"
    assert finding.title == "Table 2: the Transformer against recurrent and convolutional models"
    quality, cost, papers = finding.tables
    assert [row[-3:] for row in quality.rows] == [
        ("Transformer, base", "27.3", ""),
        ("GNMT + RL", "24.6", "-2.70"),
    ]
    assert [row[-1] for row in cost.rows] == ["3.3e18", "2.3e19"]
    assert papers.rows[2] == ("GNMT + RL", "24.6", "39.92", "2.3e19", "1.4e20")
    assert not any("subwords are" in note for note in finding.notes)


@pytest.mark.parametrize(
    ("languages", "note"),
    [
        ("cs-en", "The paper has no numbers for cs-en"),
        ("src-tgt", "the languages of the texts are not known"),
    ],
)
def test_other_languages_have_no_numbers_of_the_paper(
    tmp_path: Path, languages: str, note: str
) -> None:
    finding = finding_of(tmp_path, languages)
    for table in finding.tables[:2]:
        assert not any("paper" in column for column in table.columns)
        assert {len(row) for row in table.rows} == {len(table.columns)}
    assert any(note in sentence for sentence in finding.notes)
    assert finding.name == "table2"


def test_word_pieces_are_the_default_for_french_alone() -> None:
    """Paper 5.1."""
    assert papers_subwords(("en", "fr"), {"N": "1"}) == {"subwords": "wordpiece"}
    assert papers_subwords(("en", "fr"), {"subwords": "bpe"}) == {}
    assert papers_subwords(("en", "fr"), {"bpe_dropout": "0.1"}) == {}
    assert papers_subwords(("en", "de"), {}) == papers_subwords(("src", "tgt"), {}) == {}


def test_two_pairs_are_shown_beside_each_other(tmp_path: Path) -> None:
    german = {"convs2s-tiny": garbled(3), "tiny": garbled(5)}
    french = {"tiny": garbled(4), "recurrent-tiny": garbled(2)}
    finished_table(tmp_path / "de", "en-de", german)
    theirs = read_side(tmp_path / "de", ("en", "fr"))
    ours = Side(
        ("en", "fr"), {row: result(row) for row in french}, Resampled(french, REFERENCES, "fr")
    )
    table = beside_table(ours, theirs, papers_system)
    columns = [column for column in table.columns if "interval" not in column]
    assert columns == [
        *("system", "en-de: BLEU", "en-de: to tiny"),
        *("en-fr: BLEU", "en-fr: to tiny"),
        *("paper: en-de", "paper: to its Transformer, en-de"),
        *("paper: en-fr", "paper: to its Transformer, en-fr"),
    ]
    assert [row[0] for row in table.rows] == ["tiny", "recurrent-tiny", "convs2s-tiny"]
    tiny, recurrent, convs2s = table.rows
    de, fr = theirs.resampled.whole, ours.resampled.whole
    assert tiny[1:4] == (f"{de['tiny']:.2f}", "", "")
    assert convs2s[2] == f"{de['convs2s-tiny'] - de['tiny']:+.2f}"
    low, high = ours.resampled.difference("recurrent-tiny", "tiny")
    assert recurrent[1:7] == (
        *("", "", "", f"{fr['recurrent-tiny']:.2f}"),
        *(f"{fr['recurrent-tiny'] - fr['tiny']:+.2f}", f"{low:+.2f} to {high:+.2f}"),
    )
    assert tiny[7:] == ("27.3", "", "38.1", "")
    assert recurrent[7:] == ("24.6", "-2.70", "39.92", "+1.82")
    assert convs2s[7:] == ("25.16", "-2.14", "40.46", "+2.36")
    (note,) = describe_beside(ours, theirs)
    assert "en-de: tiny, convs2s-tiny; en-fr:" in note


def test_both_pairs_are_compared_with_the_same_transformer(tmp_path: Path) -> None:
    """Folders are in alphabetical order: `small` before `tiny`, which was asked for first."""
    rows = {"tiny": garbled(5), "small": garbled(3)}
    finished_table(tmp_path / "de", "en-de", rows)
    theirs = read_side(tmp_path / "de", ("en", "fr"))
    resampled = Resampled(rows, REFERENCES, "fr")
    ours = Side(("en", "fr"), {row: result(row) for row in rows}, resampled)
    tiny, small = beside_table(ours, theirs, papers_system).rows
    assert (tiny[2], tiny[5]) == ("", "")
    assert small[2] == small[5] != ""
    without = Side(("en", "fr"), {"convs2s-tiny": result("convs2s-tiny")}, resampled)
    assert "no Transformer is finished in both" in describe_beside(without, theirs)[0]


def test_a_folder_that_is_no_other_table_2_is_refused(tmp_path: Path) -> None:
    finished_table(tmp_path / "de", "en-de", {"tiny": garbled(5)})
    with pytest.raises(BadInput, match="it is en-de too; expected another pair"):
        read_side(tmp_path / "de", ("en", "de"))
    with pytest.raises(BadInput, match="expected the folder of another Table 2"):
        read_side(tmp_path / "nowhere", ("en", "fr"))
    finished_table(tmp_path / "empty", "en-de", {})
    with pytest.raises(BadRun, match="none of its rows is finished"):
        read_side(tmp_path / "empty", ("en", "fr"))
    begin(tmp_path / "t3", {"experiment": "table3", "languages": ["en", "de"]}, [])
    with pytest.raises(BadRun, match="it holds table3, not table2"):
        read_side(tmp_path / "t3", ("en", "fr"))


def french_files(folder: Path, stem: str, count: int, seed: int) -> Files:
    """Write pairs as stem.en and stem.fr."""
    source, target = write_pairs(folder, stem, tiny_pairs(count, seed))
    return source, target.rename(target.with_suffix(".fr"))


@pytest.fixture
def french(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, list[str | Path]]:
    """A finished Table 2 into French with a further test set, and its command."""
    monkeypatch.setitem(hardware.PRODUCTS, "cpu", hardware.Product(64, "float32", 1, 3))
    out, train = tmp_path / "t2", french_files(tmp_path, "train", 300, 1)
    test = french_files(tmp_path, "test", 6, 2)
    (tmp_path / "news.en-fr.tsv").write_text("the president spoke\tle président a parlé\n" * 3)
    command: list[str | Path] = ["paper", "table2", *train, "--test", *test, "--steps", "2"]
    command += ["--systems", "tiny", "--device", "cpu", *options(SMALLEST), "--keep-weights"]
    command += ["--out", out]
    done = cli(*command, "--also-test", f"news={tmp_path / 'news.en-fr.tsv'}")
    assert done.status == 0, done.stderr
    return out, command


def test_further_test_sets_are_translated_by_the_same_models(
    cli: CommandLine, french: tuple[Path, list[str | Path]], tmp_path: Path
) -> None:
    """End to end: trained with word pieces, scored, resumed, and extended by another test set."""
    out, command = french
    finding = Finding.load(out / "table2_en_fr.json")
    assert RunConfig.load(out / "tiny").train.subwords == "wordpiece"
    assert "The subwords are word pieces (as in the paper, for French)." in finding.notes
    table = finding.tables[1]
    assert [row[:2] for row in table.rows] == [("news", "tiny")]
    lines = (out / "tiny" / "further-news.txt").read_text().splitlines()
    assert len(lines) == 3
    assert any(
        note.startswith("news: 66.7% of its source words are not in the training text")
        and "another domain" in note
        for note in finding.notes
    )
    (out / "tiny" / "further-news.txt").unlink()  # as if stopped before it
    more = french_files(tmp_path, "more", 4, 3)
    again = cli(*command, "--also-test", f"more={more[0]},{more[1]}")
    assert again.status == 0, again.stderr
    assert "1 of 1 rows are finished already" in again.stderr
    assert (out / "tiny" / "further-news.txt").read_text().splitlines() == lines
    table = Finding.load(out / "table2_en_fr.json").tables[1]
    assert [row[:2] for row in table.rows] == [("news", "tiny"), ("more", "tiny")]
    # Without weights, finished translations are reported, and new test sets are not translated.
    (out / "tiny" / "model.safetensors").unlink()
    late = cli(*command, "--also-test", f"late={more[0]},{more[1]}")
    assert "tiny did not translate every further test set" in late.stdout
    other = tmp_path / "other.en-fr.tsv"
    other.write_text("a dog\tun chien\n")
    error = cli(*command, "--also-test", f"news={other}").error
    assert "in" in error
    assert "this name stands for" in error


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("news.en-fr.tsv", "expected a name and a file"),
        ("news=", "expected a name and a file"),
        ("news=a.en,", "expected a name and a file"),
        ("new/s=TSV", "expected a name of letters, digits"),
        ("news=no.tsv", "no.tsv does not exist or is not a file"),
        ("news=DE", "its file names say en-de, but the systems translate en-fr"),
    ],
)
def test_unusable_test_sets_are_refused_before_anything_is_written(
    cli: CommandLine, tmp_path: Path, value: str, message: str
) -> None:
    (tmp_path / "a.en-fr.tsv").write_text("a\tb\n")
    (tmp_path / "a.en-de.tsv").write_text("a\tb\n")
    train = french_files(tmp_path, "train", 20, 1)
    value = value.replace("TSV", str(tmp_path / "a.en-fr.tsv"))
    value = value.replace("DE", str(tmp_path / "a.en-de.tsv"))
    command: list[str | Path] = ["paper", "table2", *train]
    command += ["--systems", "tiny", "--steps", "1", "--device", "cpu"]
    error = cli(*command, "--also-test", value, "--out", tmp_path / "out").error
    assert message in error
    assert not (tmp_path / "out").exists()
    twice = cli(*command, "--also-test", "a=x", "--also-test", "a=y", "--out", tmp_path / "out")
    assert "--also-test a is given twice" in twice.error


def test_further_scores_are_paired_with_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("the dog sees a man in the garden\n")
    (tmp_path / "train.fr").write_text("x\n")
    data = Data(train=(tmp_path / "train.en", tmp_path / "train.fr"))
    text = tmp_path / "further.tsv"
    text.write_text("".join(f"{line}\t{line}\n" for line in REFERENCES))
    tests = FurtherTests(tmp_path / "t2", {"more": (text, None)}, data)
    tests.check()
    tests.open(Silent())
    rows = {"tiny": garbled(5), "recurrent-tiny": garbled(3)}
    for row, lines in rows.items():
        write_lines(tests.translations(tmp_path / "t2" / row, "more"), lines)
    results = {row: result(row) for row in [*rows, "late"] if row != "late"}
    first, second = further_table(tests, results, "fr").rows
    resampled = Resampled(rows, REFERENCES, "fr")
    low, high = resampled.difference("recurrent-tiny", "tiny")
    assert first[:3] == ("more", "tiny", f"{resampled.whole['tiny']:.2f}")
    assert second[-1] == f"{low:+.2f} to {high:+.2f}"
    # Three of four sentences have one unknown word of eight.
    assert tests.unknown("more") == pytest.approx(3 / 32)
    assert "low scores are expected" in further_notes(tests, results, ["more"])[0]
