"""A recipe followed from its first line to its last: get the data, train, evaluate.

Every part goes on where it was stopped. With several processes the first gets the data and
evaluates; the others train.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.errors import BadSetting
from transduce.evaluation.metrics import require_tokeniser
from transduce.recipes.data import check_data, fetch_data, is_main_process
from transduce.recipes.recipe import Files, Overrides, Recipe, read
from transduce.runs.folder import RECIPE
from transduce.system.progress import Progress
from transduce.text.languages import guess_languages
from transduce.training.settings import ENDS, MAY_CHANGE
from transduce.training.start import Start
from transduce.training.train import Plan, Texts, train_on
from transduce.workflows.evaluation import Evaluation, evaluate

# What may be another when a run goes on, for it makes no other model of it.
ALSO_MAY_CHANGE = frozenset({"about", "evaluate", "train.time"})


def follow(
    recipe: Recipe,
    out: Path,
    instead: Overrides,
    *,
    data: Path | None = None,
    device: str = "auto",
    tensorboard: bool = False,
    progress: Progress,
) -> Evaluation | None:
    """Get the data, train and evaluate; None where there is no test text, or another evaluates.

    `data` is the folder of a data set, data/NAME by default; what `instead` says wins over the
    recipe.
    """
    check_data(recipe.data, data, instead.valid)
    first = is_main_process()
    tested: list[Files | None] = []

    def texts() -> Texts:
        require_same(recipe, out)
        own = fetch_data(recipe.data, data, progress)
        assert own.train
        given = instead.languages or own.languages
        if own.test:  # refused now, not after hours of training
            require_tokeniser(guess_languages(*own.train, given)[1])
        tested.append(own.test)
        return Texts(*own.train, instead.valid or own.valid, given)

    if first:
        progress.say(f"recipe {recipe.name}" + (f": {recipe.about}" if recipe.about else ""))
        for line in (*recipe.alias_notes, *differences(recipe, instead)):
            progress.say(line)
    plan = Plan(
        run=out,
        start=Start.of(instead.start, None, instead.extend_vocabulary),
        preset=instead.preset or recipe.preset,
        settings=joined(recipe.settings, instead.settings),
        files={RECIPE: recipe.text},
    )
    train_on(texts, plan, device=device, tensorboard=tensorboard, progress=progress)
    if not first:
        return None
    (test,) = tested
    if test is None:
        progress.say("there is no test text to evaluate on: the recipe's [data] names none")
        return None
    return evaluate(out, test, recipe.evaluate, device=device, progress=progress)


def joined(own: Mapping[str, str], instead: Mapping[str, str]) -> dict[str, str]:
    """Let the command line win; an end of the run that it sets is the only one."""
    ended = ENDS & instead.keys()
    return {k: v for k, v in own.items() if not (ended and k in ENDS)} | dict(instead)


def differences(recipe: Recipe, instead: Overrides) -> list[str]:
    """Say what the command line changes of the recipe."""
    now = joined(recipe.settings, instead.settings)
    before = {**recipe.settings, **({"preset": recipe.preset} if recipe.preset else {})}
    given = dict(instead.settings) | ({"preset": instead.preset} if instead.preset else {})
    said = [
        f"{name} = {value}" + (f" instead of {before[name]}" if name in before else "")
        for name, value in given.items()
        if before.get(name) != value
    ]
    said += [f"no {name}" for name in recipe.settings if name not in now]
    said += ["other validation text"] if instead.valid else []
    return [f"the command line wins over the recipe: {', '.join(said)}"] if said else []


def require_same(recipe: Recipe, run: Path) -> None:
    """Refuse another recipe than a run was begun with."""
    if not (run / "config.json").exists():
        return
    if not (run / RECIPE).is_file():
        raise BadSetting(
            f"{run} was not begun with a recipe: go on without one, or choose another folder"
        )
    before, now = flat(read(run / RECIPE).tables), flat(recipe.tables)
    for name in sorted(before.keys() | now.keys()):
        was, value = before.get(name, "nothing"), now.get(name, "nothing")
        if was != value and not may_change(name):
            raise BadSetting(
                f"{run} was begun with a recipe that has {name} = {was}, not {value}: "
                "go on with the same recipe, or choose another folder"
            )


def may_change(name: str) -> bool:
    """Tell whether a value of a recipe, such as settings.d_ff, may change while a run goes on."""
    table, _, setting = name.partition(".")
    return bool({name, table} & ALSO_MAY_CHANGE) or setting in MAY_CHANGE


def flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all tables by names such as settings.d_ff."""
    found: dict[str, Any] = {}
    for name, value in tables.items():
        rest = value.items() if isinstance(value, dict) else ()
        found |= {f"{name}.{inner}": one for inner, one in rest} or {name: value}
    return found
