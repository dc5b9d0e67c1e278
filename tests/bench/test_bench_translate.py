"""`transduce bench translate`: sides, rounds and the report."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, CommandLine, Result, environment, write_pairs
from three_languages import FRENCH, SENTENCES, words_of

from transduce.bench import translation, translators
from transduce.bench import workers as bench_workers
from transduce.bench.translation import COLUMNS, Comparison, Measured, compare
from transduce.bench.translators import (
    TimedTranslation,
    start_translating,
    time_all,
    time_each,
)
from transduce.bench.workers import check_names, choose_peers, take_turns
from transduce.config import SearchConfig
from transduce.errors import BadInput, BadSetting
from transduce.system.progress import Silent

TEXT = ["a dog sees the man.", "every bird likes one tree!", "the fish finds a dog today."]


PEOPLE = ["ein Hund sieht der Mann.", "jeder Vogel mag jener Baum!", "der Fisch findet ihn."]


PAIRS = list(zip(TEXT, PEOPLE, strict=True))


MACHINE = {
    "device": "cpu",
    "gpu": None,
    "processor": "an abacus",
    "cores": 1,
    "threads": 1,
    "versions": {"python": "3", "torch": "2"},
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A text and its reference translation."""
    return write_pairs(tmp_path, "text", PAIRS)


def side(name: str, *seconds: float, **changes: Any) -> Measured:
    """A side with ten lines and 50 tokens per round."""
    whole: dict[str, Any] = {
        "name": name,
        "path": f"{name} by hand",
        "start": 1.25,
        "rounds": tuple(TimedTranslation(item, ["x"] * 10, 2**30) for item in seconds),
        "each": (0.004, 0.001, 0.002, 0.003),
        "tokens": 50,
        "bleu": 12.345,
    }
    return Measured(**(whole | changes))


def comparison(*compared: Measured, peers: int) -> Comparison:
    return Comparison(
        sides=compared, peers=peers, search=SearchConfig(), text="ten lines", machine=MACHINE
    )


@pytest.fixture(scope="module")
def measured(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One real measurement of every kind of side."""
    files = write_pairs(tmp_path_factory.mktemp("bench"), "text", PAIRS * 2)
    command = ["bench", "translate", str(tiny_run), *map(str, files), "--json", "--beam", "2"]
    command += ["--engine", "torch", "--engine", "ctranslate2", "--peer", "huggingface"]
    command += ["--peer", "ctranslate2:int8", "--lines", "3", "--rounds", "1", "--single", "1"]
    done = subprocess.run([*COMMAND, *command], env=environment(), capture_output=True, check=False)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_all_sides_are_measured_on_the_same_lines(measured: Result) -> None:
    assert measured.status == 0, measured.stderr
    result = json.loads(measured.stdout)
    names = ["torch", "ctranslate2", "peer huggingface", "peer ctranslate2:int8"]
    assert [item["name"] for item in result["sides"]] == names
    for item in result["sides"]:
        assert item["sentences_per_second"] == item["rounds"][0] > 0
        assert item["tokens_per_second"] >= 0.99 * item["sentences_per_second"]  # rounded
        assert item["latency_ms_median"] == item["latency_ms_95"] > 0
        assert 2**24 < item["peak_memory"] < 2**34
        assert 0 < item["start_seconds"] < 100
        assert 0 <= item["bleu"] <= 100
    assert result["sides"][0]["bleu"] == result["sides"][1]["bleu"]
    assert [*result["ratios"]] == [f"{a} to {b}" for b in names[2:] for a in names[:2]]
    assert result["text"].startswith("3 lines of ")
    assert result["search"]["beam"] == 2
    assert {"torch", "transformers", "ctranslate2"} <= result["machine"]["versions"].keys()


def test_libraries_print_nothing_during_the_measurement(measured: Result) -> None:
    for line in measured.stderr.splitlines():
        assert line.startswith(("starting ", "measuring", "warming up", "round ")), line


def test_options_of_bench_translate_are_passed_on(
    cli: CommandLine, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: dict[str, Any] = {}

    def noted(*places: Any, **options: Any) -> Comparison:
        requests.update(options, places=places)
        return comparison(side("torch", 1.0), peers=0)

    monkeypatch.setattr(translation, "compare", noted)
    result = cli(
        *("bench", "translate", "run", files[0], "--alpha", "1", "--batch", "7", "--single", "0"),
        *("--peer", "none", "--device", "cpu"),
    )
    assert result.stdout == comparison(side("torch", 1.0), peers=0).report() + "\n"
    assert requests["places"] == (Path("run"), str(files[0]), None)
    assert (requests["settings"], requests["batch"], requests["single"]) == ({"alpha": 1}, 7, 0)
    assert (requests["peers"], requests["engines"], requests["lines"]) == (["none"], None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--peer hugingface", "there is no peer hugingface. Did you mean huggingface? The peers"),
        ("--peer huggingface:int8", "there is no peer huggingface:int8. Did you mean huggingface?"),
        ("--engine ctranslat:int8", "there is no engine ctranslat:int8. Did you mean ctranslate2?"),
        ("--engine fastest", "The engines are: auto, torch, ctranslate2"),
        ("--peer fastest", "The peers are: huggingface, ctranslate2, none"),
        ("--peer none --peer ctranslate2", "--peer none excludes other peers: give it alone"),
    ],
)
def test_an_unknown_side_is_one_sentence_with_the_nearest_name(
    cli: CommandLine, tiny_run: Path, options: str, message: str
) -> None:
    assert message in cli("bench", "translate", tiny_run, "text.en", *options.split()).error


def test_a_missing_library_is_named_with_its_remedy(
    cli: CommandLine, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_workers, "installed", lambda _: False)
    for option, library, extra in (
        ("--engine ctranslate2:int8", "ctranslate2", "fast"),
        ("--peer ctranslate2", "ctranslate2", "fast"),
        ("--peer huggingface", "transformers", "huggingface"),
    ):
        assert cli("bench", "translate", tiny_run, "text.en", *option.split()).error == (
            f"{option} needs {library}, which is not installed: pip install 'transduce[{extra}]'"
        )


def test_by_default_missing_engines_are_skipped(
    cli: CommandLine, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_workers, "installed", lambda _: False)
    result = cli("bench", "translate", tiny_run, "nowhere.en")
    assert result.error.startswith("nowhere.en does not exist")  # it read the text
    assert "transformers is not installed: measuring without a peer" in result.stderr


def test_references_must_be_one_for_each_line(tiny_run: Path, files: tuple[Path, Path]) -> None:
    source, reference = files
    reference.write_text("only one\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"text\.de has 1 line for 3 of .*text\.en: expected one"):
        compare(tiny_run, str(source), str(reference), peers=["none"])
    source.write_text("\n \n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"text\.en is empty: there is nothing to translate"):
        compare(tiny_run, str(source), peers=["none"])


@dataclass
class InProcess:
    """A worker without a process that records its calls."""

    name: str
    make: Any
    first: str
    arguments: tuple[Any, ...]
    requests: list[Any]

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.requests.append("end")

    def started(self) -> str:
        return f"{self.make.__name__} on cpu"

    def call(self, function: Any, lines: Sequence[str]) -> Any:
        self.requests.append((self.name, function, list(lines)))
        each = function is time_each
        return [0.5] * len(lines) if each else TimedTranslation(2.0, list(PEOPLE), 5)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[InProcess]:
    """Workers without processes, in the order of creation."""
    created: list[InProcess] = []

    def worker(name: str, make: Any, first: str, *arguments: Any, begin: Any) -> InProcess:
        assert begin is start_translating
        created.append(
            InProcess(name, make, first, arguments, created[0].requests if created else [])
        )
        return created[-1]

    monkeypatch.setattr(translation, "Worker", worker)
    return created


def test_sides_take_turns_and_the_first_round_does_not_count(
    tiny_run: Path, files: tuple[Path, Path], workers: list[InProcess]
) -> None:
    result = compare(
        *(tiny_run, str(files[0]), str(files[1])),
        engines=["torch", "ctranslate2:int8", "torch"],
        peers=["none"],
        rounds=2,
        single=2,
        device="cpu",
    )
    names = ["torch", "ctranslate2:int8"]
    requests: list[Any] = [(name, time_all, TEXT) for _ in range(3) for name in names]
    requests += [(name, time_each, TEXT[:2]) for name in names]
    assert workers[0].requests == [*requests, "end", "end"]
    assert [(item.make, item.first) for item in workers] == [(translators.OurEngine, TEXT[0])] * 2
    for item in result.sides:
        assert (len(item.rounds), item.each, item.speed) == (2, (0.5, 0.5), 1.5)
        assert item.bleu == 100
        assert item.path == "OurEngine on cpu"


def test_blank_lines_are_left_out_with_their_translations(
    tiny_run: Path, files: tuple[Path, Path], workers: list[InProcess]
) -> None:
    source, reference = files
    source.write_text("\n".join([TEXT[0], " ", *TEXT[1:], "more"]), encoding="utf-8")
    reference.write_text("\n".join([PEOPLE[0], "?", *PEOPLE[1:], "mehr"]), encoding="utf-8")
    result = compare(
        *(tiny_run, str(source), str(reference)),
        engines=["torch"], peers=["none"], lines=3, rounds=1, device="cpu",
    )  # fmt: skip
    assert workers[0].requests[0] == ("torch", time_all, TEXT)
    assert result.sides[0].bleu == 100
    assert result.text == f"3 lines of {source}"


def test_a_model_of_several_languages_is_measured_in_one(
    two_target_run: Path, files: tuple[Path, Path], workers: list[InProcess]
) -> None:
    pytest.importorskip("transformers")
    how: dict[str, Any] = {"engines": ["torch"], "rounds": 1, "device": "cpu"}
    with pytest.raises(BadInput, match="translates to de, fr: choose one"):
        compare(two_target_run, str(files[0]), **how)
    with pytest.raises(BadInput, match=r"to one language only; --peer none measures without it"):
        compare(two_target_run, str(files[0]), to="fr", peers=["huggingface"], **how)
    result = compare(two_target_run, str(files[0]), to="fr", **how)
    assert (result.peers, [item.name for item in workers]) == (0, ["torch"])
    ours = translators.OurEngine(*workers[0].arguments)
    assert words_of(ours.translate([SENTENCES[0]])[0]) <= {*FRENCH.values()}


def test_by_default_all_installed_engines_take_part(
    tiny_run: Path, files: tuple[Path, Path], workers: list[InProcess], monkeypatch: Any
) -> None:
    for there, names in ((True, ["torch", "ctranslate2"]), (False, ["torch"])):
        workers.clear()
        monkeypatch.setattr(translation, "installed", lambda _, there=there: there)
        compare(tiny_run, str(files[0]), peers=["none"], rounds=1, device="cpu")
        assert [item.name for item in workers] == names


def test_the_speed_is_the_median_of_the_rounds() -> None:
    item = side("torch", 1.0, 10.0, 2.0)
    facts = item.to_json()
    assert item.speeds == [10, 1, 5]
    assert (facts["sentences_per_second"], facts["rounds"]) == (5, [10, 1, 5])
    assert facts["tokens_per_second"] == 25
    assert (facts["peak_memory"], facts["start_seconds"], facts["bleu"]) == (2**30, 1.25, 12.345)


@pytest.mark.parametrize(
    ("part", "expected"), [(0.0, 1.0), (0.5, 3.0), (0.74, 3.0), (0.95, 4.0), (1.0, 4.0)]
)
def test_quantiles_are_of_single_sentences(part: float, expected: float) -> None:
    assert side("torch", 1.0).quantile(part) == pytest.approx(expected)


def test_missing_measurements_are_empty() -> None:
    item = side("torch", 1.0, each=(), bleu=None)
    assert item.quantile(0.5) is None
    assert item.row()[4:6] == ["", ""]
    assert item.row()[-1] == ""
    assert (item.to_json()["latency_ms_95"], item.to_json()["bleu"]) == (None, None)


def test_the_report_has_a_row_for_each_side_and_each_ratio() -> None:
    ours, fast, peer = side("torch", 2.0, 4.0), side("fast", 1.0, 1.0), side("peer x", 4.0, 4.0)
    result = comparison(ours, fast, peer, peers=1)
    head, *rows = result.report().partition("\n\n")[0].splitlines()
    assert head.split("  ")[-1].strip() == "BLEU"
    assert all(column in head for column in COLUMNS)
    assert [row.split("  ")[0] for row in rows] == [
        *("torch", "fast", "peer x", "torch to peer x", "fast to peer x")
    ]
    cells = [cell.strip() for cell in rows[0].split("  ") if cell.strip()]
    assert cells == [
        *("torch", "3.8", "2.5 to 5.0", "19", "3.0", "4.0", "1.00 GiB", "1.2 s", "12.35")
    ]
    assert rows[3].split()[-4:] == ["1.50", "1.00", "to", "2.00"]
    assert result.to_json()["ratios"] == {"torch to peer x": 1.5, "fast to peer x": 4.0}
    for line in ("median of 2", "torch by hand", "cpu, 1 thread, an abacus", "python 3, torch 2"):
        assert line in result.report()


def test_without_a_peer_engines_are_compared_with_the_first() -> None:
    result = comparison(side("torch", 2.0), side("fast", 1.0), peers=0)
    assert result.to_json()["ratios"] == {"fast to torch": 2.0}
    assert comparison(side("torch", 2.0), peers=0).to_json()["ratios"] == {}


def test_names_are_deduplicated() -> None:
    known = ["torch", "ctranslate2"]
    wanted = ["torch", "ctranslate2:int8", "ctranslate2", "torch"]
    assert check_names("engine", wanted, known) == ["torch", "ctranslate2:int8", "ctranslate2"]
    assert choose_peers(["none"], known, Silent()) == []
    with pytest.raises(BadSetting, match="there is no engine torch:int8"):
        check_names("engine", ["torch:int8"], known)


def test_warm_up_rounds_are_left_out() -> None:
    requests: list[Any] = []
    created: list[Any] = [InProcess(name, None, "", (), requests) for name in "ab"]
    result = take_turns(created, time_each, ["x"], 2, str, Silent(), warm_ups=1)
    assert [name for name, *_ in requests] == list("ababab")
    assert result == [[[0.5], [0.5]]] * 2
