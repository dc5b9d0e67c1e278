"""Options of `transduce train`."""

from pathlib import Path
from typing import Annotated

import typer

START, RECIPE = "Start from a trained run", "Recipe"

Source = Annotated[
    str | None,
    typer.Argument(
        help="Source text (plain, gz, xz, zst), or a TSV; - is stdin. Left out with --recipe."
    ),
]
Target = Annotated[str | None, typer.Argument(help="Target text; left out for a TSV.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The run folder.")]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        rich_help_panel=RECIPE,
        metavar="NAME|FILE",
        help="Get data, train and evaluate as a recipe says: one that `transduce recipes` lists, "
        "or a file of your own. Other options override it.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        rich_help_panel=RECIPE,
        metavar="DIR",
        help="Folder of the recipe's data. Default: data/NAME.",
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        rich_help_panel=START,
        metavar="RUN",
        help="Start from the weights, model and subwords of a trained run; a preset then sets the "
        "training only.",
    ),
]
ExtendVocabulary = Annotated[
    int,
    typer.Option(
        "--extend-vocabulary",
        rich_help_panel=START,
        metavar="N",
        min=0,
        show_default=False,
        help="With --from: learn N more subwords from the new text; existing ids are unchanged.",
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
        help="Tokens of an update on each side; auto: the preset's number, in as few micro-batches "
        "as fit into the GPU's memory.",
    ),
]
Steps = Annotated[int | None, typer.Option(help="Number of updates.")]
Epochs = Annotated[int | None, typer.Option(help="Number of passes over the data.")]
Time = Annotated[str | None, typer.Option(help="Time to train: 90s, 30m, 1h30m.")]
Seed = Annotated[int | None, typer.Option(help="Seed of all random numbers. Default: 1.")]
Languages = Annotated[
    str | None,
    typer.Option(metavar="en-de", help="Source and target language. Default: the files' endings."),
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Give the same bits each time, a little slower: on one GPU, and on a CPU by using all "
        "cores instead of the fastest number of threads.",
    ),
]
Tensorboard = Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard files too.")]
