"""Follow a recipe: get the data, train, evaluate. Each step can be resumed.

With several processes, the main process gets the data and evaluates; all of them train.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.errors import BadSetting
from transduce.evaluation.metrics import require_tokeniser
from transduce.recipes.data import check_data, fetch_data, is_main_process
from transduce.recipes.recipe import Data, Files, Overrides, Recipe, read
from transduce.runs.folder import RECIPE, RunConfig
from transduce.runs.tracking import Tracking
from transduce.system.progress import Progress, Silent
from transduce.text.corpora import CorpusText, with_names
from transduce.text.languages import UNKNOWN, Pair, guess_languages
from transduce.training.settings import ENDS, MAY_CHANGE
from transduce.training.start import Start
from transduce.training.train import Plan, Texts, train_on
from transduce.workflows.evaluation import Evaluation, evaluate

# Parts of a recipe that may change when a run is resumed, because they do not change the model.
ALSO_MAY_CHANGE = frozenset({"about", "evaluate", "sweep", "train.time"})


def follow(
    recipe: Recipe,
    out: Path,
    overrides: Overrides,
    *,
    data: Path | None = None,
    device: str = "auto",
    tracking: Tracking = Tracking(),  # noqa: B008  (frozen)
    progress: Progress,
) -> Evaluation | None:
    """Get the data, train and evaluate.

    Return None if there is no test set, or if this is not the main process. `data` is the folder of
    the data set, by default data/NAME. `overrides` take precedence over the recipe.
    """
    check_data(recipe.data, data, overrides.valid)
    main = is_main_process()
    test_sets: list[Files | None] = []
    directions: list[Pair] = []

    def texts() -> Texts:
        require_same(recipe, out)
        fetched = fetch_data(recipe.data, data, progress)
        texts = texts_of(fetched, overrides)
        if fetched.test:  # refuse a missing tokeniser now, not after hours of training
            directions.append(direction_of(texts, fetched.test, known_pairs(plan)))
            require_tokeniser(directions[0][1])
        test_sets.append(fetched.test)
        return texts

    if main:
        progress.say(f"recipe {recipe.name}" + (f": {recipe.about}" if recipe.about else ""))
        for line in (*recipe.alias_notes, *differences(recipe, overrides)):
            progress.say(line)
    plan = Plan(
        run=out,
        start=Start.of(overrides.start, None, overrides.extend_vocabulary),
        preset=overrides.preset or recipe.preset,
        settings=merge_settings(recipe.settings, overrides.settings),
        files={RECIPE: recipe.text},
    )
    train_on(texts, plan, device=device, tracking=tracking, progress=progress)
    if not main:
        return None
    (test,) = test_sets
    if test is None:
        progress.say("no test set to evaluate on: the recipe's [data] names none")
        return None
    return evaluate(
        *(out, test, recipe.evaluate),
        languages=directions[0],
        device=device,
        progress=progress,
    )


def known_pairs(plan: Plan) -> tuple[Pair, ...]:
    """Return the pairs of languages of the model that the run starts from, if there is one."""
    if not plan.resumes:
        return plan.start.config.all_pairs if plan.start and plan.start.weights else ()
    config = RunConfig.load(plan.run)  # the model that it started from may be gone
    return config.all_pairs if config.origin and config.origin.weights else ()


def texts_of(data: Data, overrides: Overrides) -> Texts:
    """Return the texts of a recipe; validation text of the command line replaces all others."""
    corpora = [
        *([CorpusText(*data.train)] if data.train else []),
        *(corpus.text(with_valid=overrides.valid is None) for corpus in data.corpora),
    ]
    with_names(corpora)  # refuses a name that is given twice
    languages = overrides.languages or data.languages
    both = overrides.both_directions or data.both_directions
    return Texts(corpora, overrides.valid or data.valid, languages, both)


def direction_of(texts: Texts, test: Files, known: Sequence[Pair]) -> Pair:
    """Return the languages of a test set: with several pairs, as its file names say."""
    pairs = [c.pair or UNKNOWN for c in texts.in_directions(known, Silent()).corpora]
    named = guess_languages(*test, texts.languages)
    return named if named in pairs and len({*pairs}) > 1 else pairs[0]


def merge_settings(settings: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Apply overrides to settings; overriding one training limit replaces all of them."""
    limited = ENDS & overrides.keys()
    return {k: v for k, v in settings.items() if not (limited and k in ENDS)} | dict(overrides)


def differences(recipe: Recipe, overrides: Overrides) -> list[str]:
    """Describe what the command line changes in the recipe."""
    now = merge_settings(recipe.settings, overrides.settings)
    before = {**recipe.settings, **({"preset": recipe.preset} if recipe.preset else {})}
    given = dict(overrides.settings) | ({"preset": overrides.preset} if overrides.preset else {})
    changes = [
        f"{name} = {value}" + (f" instead of {before[name]}" if name in before else "")
        for name, value in given.items()
        if before.get(name) != value
    ]
    changes += [f"no {name}" for name in recipe.settings if name not in now]
    changes += ["other validation text"] if overrides.valid else []
    both = overrides.both_directions and not recipe.data.both_directions
    changes += ["both directions"] if both else []
    return [f"the command line overrides the recipe: {', '.join(changes)}"] if changes else []


def require_same(recipe: Recipe, run: Path) -> None:
    """Refuse a recipe that differs from the one the run was started with."""
    if not (run / "config.json").exists():
        return
    if not (run / RECIPE).is_file():
        raise BadSetting(
            f"{run} was not started with a recipe: resume without one, or choose another folder"
        )
    before, now = flat(read(run / RECIPE).tables), flat(recipe.tables)
    for name in sorted(before.keys() | now.keys()):
        was, value = before.get(name, "nothing"), now.get(name, "nothing")
        if was != value and not may_change(name):
            raise BadSetting(
                f"{run} was started with a recipe that has {name} = {was}, not {value}: "
                "resume with the same recipe, or choose another folder"
            )


def may_change(name: str) -> bool:
    """Return whether a value of a recipe, such as settings.d_ff, may change on resuming."""
    table, _, setting = name.partition(".")
    return bool({name, table} & ALSO_MAY_CHANGE) or setting in MAY_CHANGE


def flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in all tables under names such as settings.d_ff."""
    values: dict[str, Any] = {}
    for name, value in tables.items():
        items = value.items() if isinstance(value, dict) else ()
        values |= {f"{name}.{key}": item for key, item in items} or {name: value}
    return values
