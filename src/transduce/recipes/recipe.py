"""Read and check recipe files.

    about = "a description in one sentence"

    [data]          name = "multi30k-en-de", or source and target (files), valid, test, languages;
                    both_directions
    [[corpus]]      further texts: source and target (files) or dataset; weight, tag, name, valid,
                    languages
    [train]         preset, steps, epochs, time, seed, batch
    [settings]      settings, as for --set
    [sweep]         lists of values of settings, and seeds: what `transduce sweep` trains
    [evaluate]      beam, alpha, paper, confidence: how the test set is translated and scored

File paths are relative to the recipe.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from transduce import config as configuration
from transduce.config import SearchConfig
from transduce.errors import BadInput, BadSetting, did_you_mean
from transduce.presets import find_preset
from transduce.recipes.grid import Grid, parse_table
from transduce.settings.aliases import ALIASES
from transduce.system.formatting import parse_duration
from transduce.text.corpora import CorpusText, with_names

Files = tuple[Path, Path | None]  # two texts, or one TSV
Pair = tuple[str | Path, str | Path | None]  # the same, from the command line
ENDING = ".toml"
FILE_KEYS = ("source", "target", "valid", "test", "languages")
TEXT_KEYS = ("dataset", "source", "target", "tag", "name", "languages")
CORPUS_KEYS = (*TEXT_KEYS, "weight", "valid")
TRAIN_KEYS = ("preset", "steps", "epochs", "time", "seed", "batch")
MAX_SIZE = 1 << 16  # bytes; recipes have a few hundred, converted ones a few thousand
MAX_LINE = 1_000  # characters; parsing a key with thousands of parts takes gigabytes


@dataclass(frozen=True, kw_only=True)
class CorpusTable:
    """A table [[corpus]]: a text to train on beside that of [data]."""

    dataset: str | None = None
    files: Files | None = None  # of a data set: None until it is downloaded
    valid: Files | None = None
    weight: float = 1.0
    tag: str | None = None
    name: str | None = None
    languages: str | None = None

    def text(self, *, with_valid: bool = True) -> CorpusText:
        """Return the text with its weight."""
        source, target = self.files or (self.dataset or "", None)
        valid = self.valid if with_valid else None
        return CorpusText(source, target, self.weight, self.tag, valid, self.name, self.languages)


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data of a recipe: a data set, given by name, or files; and further corpora."""

    name: str | None = None
    train: Files | None = None
    valid: Files | None = None
    test: Files | None = None
    languages: str | None = None
    both_directions: bool = False
    corpora: tuple[CorpusTable, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Settings for translating and scoring the test set after training."""

    search: SearchConfig = field(default_factory=SearchConfig)
    paper: bool = False  # compute the paper's BLEU as well
    confidence: int = 0  # bootstrap samples for 95% intervals


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe; `settings` combines [train] and [settings], as text in the form of --set."""

    name: str
    text: str  # the content of the file
    about: str = ""
    data: Data
    preset: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    evaluate: EvaluationSettings = field(default_factory=EvaluationSettings)
    sweep: Grid = field(default_factory=Grid)

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of the file, with aliases replaced by setting names."""
        tables = tomllib.loads(self.text)
        if "settings" in tables:
            tables["settings"] = configuration.canonical_settings(tables["settings"])
        return tables

    @property
    def alias_notes(self) -> list[str]:
        """One line for each alias in [settings], saying which setting it is."""
        return configuration.alias_notes(tomllib.loads(self.text).get("settings", {}))


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Settings from the command line; they take precedence over a recipe."""

    valid: Pair | None = None
    languages: str | None = None
    preset: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    both_directions: bool = False
    start: Path | None = None  # a run to start from
    extend_vocabulary: int = 0


def names() -> list[str]:
    """Return the names of the built-in recipes."""
    return sorted(
        path.name.removesuffix(ENDING)
        for path in resources.files(__package__).iterdir()
        if path.name.endswith(ENDING)
    )


def find(name: str) -> Recipe:
    """Read a built-in recipe by name, or a recipe file."""
    if name.endswith(ENDING) or "/" in name or "\\" in name:
        return read(Path(name))
    if name in names():
        text = resources.files(__package__).joinpath(name + ENDING).read_text(encoding="utf-8")
        return parse(text, name)
    raise BadInput(
        f"there is no recipe {name}.{did_you_mean(name, names())} The recipes are: "
        f"{', '.join(names())}; the name of a recipe file ends with {ENDING}"
    )


def read(path: Path) -> Recipe:
    """Read a recipe file; a pipe is allowed."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)  # a device file might never end
    except FileNotFoundError:
        raise BadInput(
            f"there is no file {path}: expected a recipe; `transduce recipes` lists the built-in "
            "ones, whose names have no ending"
        ) from None
    if len(data) > MAX_SIZE:
        raise BadInput(f"{path} is not a recipe: it is larger than {MAX_SIZE >> 10} KiB")
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a recipe: expected text in UTF-8") from None
    return parse(text, str(path), path.parent)


def parse(text: str, name: str, folder: Path = Path()) -> Recipe:
    """Parse a recipe; its file paths are relative to `folder`."""
    if any(len(line) > MAX_LINE for line in text.splitlines()):
        raise BadInput(f"{name} is not a recipe: a line has more than {MAX_LINE:,} characters")
    try:
        return _recipe(tomllib.loads(text), text, name, folder)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name} is not a recipe: it is not valid TOML ({error})") from None
    except RecursionError:
        raise BadInput(f"{name} is not a recipe: it is nested too deeply") from None
    except (BadInput, BadSetting) as error:
        raise type(error)(f"{name}: {error}") from None


def _recipe(whole: dict[str, Any], text: str, name: str, folder: Path) -> Recipe:
    """Check each table, then all settings together."""
    tables = ("data", "train", "settings", "sweep", "evaluate")
    _refuse_unknown(whole, ["about", *tables, "corpus"], "a recipe has no table or key")
    for table in tables:
        if not isinstance(whole.get(table, {}), dict):
            raise BadSetting(
                f"{table} = {whole[table]!r:.60}: expected a table, headed by [{table}]"
            )
    corpora = _corpora(whole.get("corpus", []), folder)
    if "data" not in whole and not corpora:
        raise BadSetting(
            "there is no table [data]: expected name = …, or source = … and target = …"
        )
    about = _text(whole.get("about", ""), "about")
    preset, trained = _train(whole.get("train", {}))
    settings = configuration.canonical_settings(_settings(whole.get("settings", {})))
    for repeated in sorted(trained.keys() & settings.keys()):
        raise BadSetting(f"{repeated} is set in [train] and in [settings]: set it once")
    settings = trained | settings
    base = find_preset(preset or "base")
    configuration.apply_settings(settings, base.model, base.train)
    return Recipe(
        name=name,
        text=text,
        about=about,
        data=_data(whole.get("data", {}), corpora, folder),
        preset=preset,
        settings=settings,
        evaluate=_evaluate(whole.get("evaluate", {})),
        sweep=parse_table(whole.get("sweep", {})),
    )


def _corpora(tables: Any, folder: Path) -> tuple[CorpusTable, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadSetting(f"corpus = {tables!r:.60}: expected tables, each headed by [[corpus]]")
    corpora = []
    for table in tables:
        _refuse_unknown(table, CORPUS_KEYS, "[[corpus]] has no key")
        texts = {key: _text(table[key], f"corpus.{key}") for key in TEXT_KEYS if key in table}
        if ("dataset" in table) == ("source" in table) or (
            "dataset" in table and "target" in table
        ):
            raise BadSetting("[[corpus]]: expected either dataset, or source and target")
        files: Files | None = None
        if "source" in texts:
            target = texts.get("target")
            files = folder / texts["source"], folder / target if target else None
        corpus = CorpusTable(
            dataset=texts.get("dataset"),
            files=files,
            valid=_files(table, "valid", folder, "corpus"),
            weight=table.get("weight", 1.0),
            tag=texts.get("tag"),
            name=texts.get("name"),
            languages=texts.get("languages"),
        )
        corpus.text()  # refuses a wrong weight, tag, name or languages
        corpora.append(corpus)
    with_names(corpus.text() for corpus in corpora)  # refuses a name that is given twice
    return tuple(corpora)


def _data(table: dict[str, Any], corpora: tuple[CorpusTable, ...], folder: Path) -> Data:
    _refuse_unknown(table, ["name", *FILE_KEYS, "both_directions"], "[data] has no key")
    others = ("valid", "test", "both_directions")
    texts = {key: _text(table[key], f"data.{key}") for key in table if key not in others}
    both = table.get("both_directions", False)
    if not isinstance(both, bool):
        raise BadSetting(f"data.both_directions = {both!r:.60}: expected true or false")
    with_valid = [corpus for corpus in corpora if corpus.valid and not corpus.languages]
    if "name" in table:
        for other in FILE_KEYS:
            if other in table:
                raise BadSetting(
                    f"[data] has name and {other}: expected the name of a data set, or files"
                )
        # Data sets of mtdata have no validation text.
        if with_valid and not texts["name"].startswith("mtdata:"):
            raise BadSetting(
                f"the data set {texts['name']:.60} has validation text, and so has [[corpus]]: "
                "remove valid from [[corpus]]"
            )
        return Data(name=texts["name"], both_directions=both, corpora=corpora)
    if "valid" in table and with_valid:
        raise BadSetting("[data] and [[corpus]] have valid: expected validation text in one place")
    if "source" not in table and ("target" in table or not corpora):
        raise BadSetting("[data] has neither name nor source: expected a data set, or files")
    source, target = texts.get("source"), texts.get("target")
    return Data(
        train=(folder / source, folder / target if target else None) if source else None,
        valid=_files(table, "valid", folder),
        test=_files(table, "test", folder),
        languages=texts.get("languages"),
        both_directions=both,
        corpora=corpora,
    )


def _files(table: dict[str, Any], key: str, folder: Path, of: str = "data") -> Files | None:
    """Read two files, or one TSV."""
    match table.get(key):
        case None:
            return None
        case str(tsv) | [str(tsv)]:
            return folder / tsv, None
        case [str(source), str(target)]:
            return folder / source, folder / target
        case other:
            raise BadSetting(
                f'{of}.{key} = {other!r:.60}: expected two files, ["{key}.en", "{key}.de"], or '
                "one TSV"
            )


def _train(table: dict[str, Any]) -> tuple[str | None, dict[str, str]]:
    """Return the preset, and the settings in the form of --set."""
    _refuse_unknown(table, TRAIN_KEYS, "[train] has no key", ". Other settings are in [settings]")
    preset = _text(table["preset"], "train.preset") if "preset" in table else None
    if preset is not None:
        find_preset(preset)
    numbers = {
        name: _number(table[name], f"train.{name}")
        for name in ("steps", "epochs", "seed")
        if name in table
    }
    time = _text(table["time"], "train.time") if "time" in table else None
    batch = table.get("batch")
    if batch not in (None, "auto"):
        _number(batch, "train.batch", ' or "auto"')
    return preset, settings_of(
        **numbers,
        seconds=None if time is None else parse_duration(time, "train.time ="),
        batch=batch,
    )


def settings_of(
    *,
    steps: int | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    seconds: float | None = None,
    batch: str | int | None = None,
) -> dict[str, str]:
    """Return the options that are given, as settings in the form of --set."""
    options: dict[str, str | float | None]
    options = {"steps": steps, "epochs": epochs, "seed": seed, "seconds": seconds}
    options |= {"accumulate": "none"} if batch == "auto" else {"batch_tokens": batch}
    return {name: str(value) for name, value in options.items() if value is not None}


def _settings(table: dict[str, Any]) -> dict[str, str]:
    settings = {}
    for name, value in table.items():
        if not isinstance(value, str | int | float):
            raise BadSetting(f"settings.{name} = {value!r:.60}: expected a number, text or true")
        settings[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings


def _evaluate(table: dict[str, Any]) -> EvaluationSettings:
    search = {"beam", "alpha"}
    aliases = {alias: name for name in search for alias in ALIASES[name].split()}
    given, table = table, {aliases.get(key, key): value for key, value in table.items()}
    if len(table) < len(given):
        raise BadSetting(f"[evaluate] has two names of one setting: {', '.join(given)}")
    _refuse_unknown(table, [*sorted(search), "paper", "confidence"], "[evaluate] has no key")
    paper = table.get("paper", False)
    if not isinstance(paper, bool):
        raise BadSetting(f"evaluate.paper = {paper!r}: expected true or false")
    return EvaluationSettings(
        search=SearchConfig(**{key: table[key] for key in search & table.keys()}),
        paper=paper,
        confidence=_number(table.get("confidence", 0), "evaluate.confidence"),
    )


def _refuse_unknown(
    table: dict[str, Any], expected: Sequence[str], what: str, advice: str = ""
) -> None:
    for name in table:
        if name not in expected:
            raise BadSetting(
                f"{what} {name:.60}.{did_you_mean(name[:60], expected)} Expected some of: "
                f"{', '.join(expected)}{advice}"
            )


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise BadSetting(f'{name} = {value!r:.60}: expected text in quotes, "…"')
    return value


def _number(value: Any, name: str, otherwise: str = "") -> int:
    if type(value) is not int:
        raise BadSetting(f"{name} = {value!r:.60}: expected a whole number{otherwise}")
    return value
