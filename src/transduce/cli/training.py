"""Options of the command that trains."""

from pathlib import Path
from typing import Annotated

import typer

BEGINNING, RECIPE = "What it begins with", "Recipe"

Source = Annotated[
    str | None,
    typer.Argument(
        help="Source text (plain, gz, xz, zst), or a TSV; - is stdin. None with --recipe."
    ),
]
Target = Annotated[str | None, typer.Argument(help="Target text; none for a TSV.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The run folder.")]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        rich_help_panel=RECIPE,
        metavar="NAME|FILE",
        help="Get data, train and evaluate as a recipe says: one of `transduce recipes`, or a "
        "file of your own. Other options win over it.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        rich_help_panel=RECIPE,
        metavar="DIR",
        help="Where the recipe's data are, or are put. Default: data/NAME.",
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        rich_help_panel=BEGINNING,
        metavar="RUN",
        help="Begin with the weights, model and subwords of a trained run; a preset then "
        "chooses the training alone.",
    ),
]
ExtendVocabulary = Annotated[
    int,
    typer.Option(
        "--extend-vocabulary",
        rich_help_panel=BEGINNING,
        metavar="N",
        min=0,
        show_default=False,
        help="With --from: learn N more subwords on the new text; those that there are stay.",
    ),
]
Valid = Annotated[
    tuple[str, str] | None,
    typer.Option(help="Validation text, both sides. Default: 1% held out, at most 2,000 pairs."),
]
ValidTsv = Annotated[str | None, typer.Option(help="Validation text, one TSV.")]
PresetName = Annotated[
    str | None,
    typer.Option(
        help="tiny, small, base, big, a fast one (tiny-3-1, small-4-1, base-12-1), a row of "
        "Table 3, or a baseline (recurrent, convs2s, bytenet; each with -small and -tiny). "
        "Default: by data and machine."
    ),
]
Batch = Annotated[
    str | None,
    typer.Option(
        metavar="TOKENS|auto",
        help="Tokens of an update, a side; auto: the preset's, in as few pieces as fit into "
        "the GPU's memory.",
    ),
]
Steps = Annotated[int | None, typer.Option(help="Updates to make.")]
Epochs = Annotated[int | None, typer.Option(help="Passes over the data to make.")]
Time = Annotated[str | None, typer.Option(help="Time to train: 90s, 30m, 1h30m.")]
Seed = Annotated[int | None, typer.Option(help="Of everything random. Default: 1.")]
Languages = Annotated[
    str | None, typer.Option(metavar="en-de", help="Default: from the files' endings.")
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="The same bits each time, a little slower: on one GPU, and on a CPU by using all "
        "cores instead of the fastest number of threads.",
    ),
]
Tensorboard = Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard's files too.")]
