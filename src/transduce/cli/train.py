"""`transduce train`."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import Device, SettingOptions, command, without_none
from transduce.errors import BadInput, printable

if TYPE_CHECKING:
    from transduce.recipes.recipe import Overrides

EXAMPLES = """
transduce train train.en train.de --out runs/en-de
transduce train pairs.tsv --out run --valid dev.en dev.de --time 30m
transduce train train.en train.de --out run --preset small --set d_ff=2048 --set P_drop=0.2
transduce train --corpus news.tsv --corpus docs.tsv=0.5 --corpus talks.en,talks.de=4 --out run
transduce train --corpus a.en-de.tsv --corpus b.en-fr.tsv --both-directions --out runs/three
transduce train law.en law.de --out runs/law --from runs/en-de --extend-vocabulary 500
transduce train --recipe multi30k-en-de --out runs/multi30k
torchrun --nproc-per-node 4 -m transduce train train.en train.de --out run
Run the same command again to resume.
"""


@option_group("Recipe")
class RecipeOptions:
    """The recipe and its data."""

    recipe: str | None = option(
        "Get data, train and evaluate as in a recipe: a name that `transduce recipes` lists, "
        "or a file of your own. Other options override it.",
        metavar="NAME|FILE",
    )
    data: Path | None = option("Folder of the recipe's data. Default: data/NAME.", metavar="DIR")


@option_group("Start from a trained run")
class StartOptions:
    """The run to start from."""

    from_: Path | None = option(
        "Start from the weights, model and subwords of a trained run; a preset then sets the "
        "training only.",
        "--from",
        metavar="RUN",
    )
    extend_vocabulary: int = option(
        "With --from: learn N more subwords from the new text; existing ids are unchanged.",
        default=0,
        metavar="N",
        min=0,
        show_default=False,
    )


@option_group()
class TrainOptions:
    """Options for the run folder, the validation text, the preset and the machine."""

    out: Path = option("The run folder.", "--out", "-o", default=...)
    corpus: list[str] | None = option(
        "A text to train on; its languages (default: the file name extensions); its weight: how "
        "often a sentence is seen per epoch (default: 1); its tag, for `translate --tag`. "
        "Repeatable. Texts in several pairs of languages train one model for all of them.",
        metavar="FILE[,FILE][:en-de][=WEIGHT][@TAG]",
    )
    valid: tuple[str, str] | None = option(
        "Validation text, both sides. Default: 1% held out, at most 2,000 pairs."
    )
    valid_tsv: str | None = option("Validation text, one file with both sides.")
    preset: str | None = option(
        "tiny, small, base, big, modern, a fast one (tiny-3-1, small-4-1, base-12-1), a row of "
        "Table 3, or a baseline (recurrent, convs2s, bytenet, neural-gpu; each with -small and "
        "-tiny). Default: chosen from the data and the machine."
    )
    batch: str | None = option(
        "Tokens per update on each side; auto: the preset's number, in as few micro-batches "
        "as fit into the GPU's memory.",
        metavar="TOKENS|auto",
    )
    languages: str | None = option(
        "Source and target language. Default: the file name extensions.", metavar="en-de"
    )
    both_directions: bool = flag(
        "Use each text in both directions: one model translates both ways.", "--both-directions"
    )
    device: Device = "auto"
    deterministic: bool = flag(
        "Make runs reproducible bit for bit (slightly slower), on one GPU or on a CPU; a CPU then "
        "uses all cores instead of the fastest number of threads.",
        "--deterministic",
    )
    tensorboard: bool = flag("Write TensorBoard files too.", "--tensorboard")
    wandb: str | None = option(
        "Also send metrics to this project at Weights & Biases.", metavar="PROJECT"
    )
    mlflow: str | None = option(
        "Also send metrics to the MLflow server at this address, or to a folder.", metavar="URI"
    )

    @property
    def services(self) -> dict[str, str]:
        """The services that metrics are sent to."""
        return without_none(wandb=self.wandb, mlflow=self.mlflow)

    def overrides(self, start: StartOptions, settings: dict[str, str]) -> "Overrides":
        """Return the settings that take precedence over a recipe."""
        from transduce.recipes.recipe import Overrides

        if self.deterministic:
            settings = settings | {"deterministic": "true"}
        if self.valid and self.valid_tsv:
            raise BadInput("--valid and --valid-tsv name two validation sets: give one")
        return Overrides(
            start=start.from_,
            extend_vocabulary=start.extend_vocabulary,
            valid=(self.valid_tsv, None) if self.valid_tsv else self.valid,
            languages=self.languages,
            both_directions=self.both_directions,
            preset=self.preset,
            settings=settings,
        )


def train(
    source: str | None = argument(
        "Source text (plain, gz, xz, zst), or one TSV, CSV, TMX or XLIFF file with both sides; "
        "- is stdin. Omit it with --recipe.",
        default=None,
    ),
    target: str | None = argument("Target text; omit it for a file with both sides.", default=None),
    *,
    options: TrainOptions,
    settings: SettingOptions,
    recipe: RecipeOptions,
    start: StartOptions,
) -> None:
    """Train a translator on two parallel text files, or follow a recipe.

    Subwords, model, schedule, averaging and search are the paper's. Settings not given are chosen
    from the size of the data and the machine, and reported. Ctrl-C saves and stops.
    """
    overrides = options.overrides(start, settings.parsed(options.batch))
    if recipe.recipe is not None:
        for given in (source, *(options.corpus or [])[:1]):
            if given is not None:
                raise BadInput(
                    f"{given} and --recipe {recipe.recipe} name two texts: give one of them"
                )
        _follow(recipe.recipe, recipe.data, overrides, options)
    elif source is None and not options.corpus:
        raise typer.BadParameter("expected two texts to learn from, --corpus, or --recipe NAME")
    elif recipe.data is not None:
        raise BadInput("--data is the folder of a recipe's data: give --recipe too")
    else:
        _train(source, target, overrides, options)


def _train(
    source: str | None, target: str | None, overrides: "Overrides", options: TrainOptions
) -> None:
    """Train on text files."""
    from transduce.presets import find_preset
    from transduce.recipes.data import require_texts
    from transduce.text.corpora import CorpusText

    corpora = [] if source is None else [CorpusText(source, target)]
    corpora += map(CorpusText.parse, options.corpus or [])
    require_texts(
        *(corpus.files for corpus in corpora), overrides.valid
    )  # mistyped names are refused before torch is imported
    find_preset(overrides.preset or "base")
    from transduce.system.progress import console_progress
    from transduce.training import train as training

    progress = console_progress()
    run = training.train(
        corpora=corpora,
        out=options.out,
        start=overrides.start,
        extend_vocabulary=overrides.extend_vocabulary,
        valid=overrides.valid,
        languages=overrides.languages,
        both_directions=overrides.both_directions,
        preset=overrides.preset,
        settings=overrides.settings,
        device=options.device,
        tensorboard=options.tensorboard,
        services=options.services,
        progress=progress,
    )
    progress.say(f"translate with: {_translating(run)}")


def _follow(name: str, data: Path | None, overrides: "Overrides", options: TrainOptions) -> None:
    """Follow a recipe, and write the scores to stdout."""
    from transduce.recipes.data import check_data
    from transduce.recipes.recipe import find

    recipe, out = find(name), options.out
    check_data(recipe.data, data, overrides.valid)
    from transduce.runs.tracking import Tracking
    from transduce.system.formatting import pluralize
    from transduce.system.progress import console_progress
    from transduce.workflows.evaluation import EVALUATION, TRANSLATIONS
    from transduce.workflows.following import follow

    progress = console_progress()
    evaluation = follow(
        recipe,
        out,
        overrides,
        data=data,
        device=options.device,
        tracking=Tracking(tensorboard=options.tensorboard, services=options.services),
        progress=progress,
    )
    if evaluation:
        for line in evaluation.lines():
            typer.echo(printable(line))
        progress.say(
            f"on {pluralize(evaluation.sentences, 'sentence')} of {' and '.join(evaluation.test)}: "
            f"{out / EVALUATION}, translations in {out / TRANSLATIONS}"
        )
    progress.say(f"translate with: {_translating(out)}")


def _translating(run: Path) -> str:
    """Return a command line that translates with a run."""
    from transduce.runs.folder import RunConfig

    targets = RunConfig.load(run).targets
    to = ["--to", targets[0]] if len(targets) > 1 else []
    return command("translate", run, "FILE", *to)
