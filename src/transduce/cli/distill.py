"""`transduce distill`."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Set, TrainedRun, command, parse_settings, parse_time
from transduce.recipes.recipe import settings_of

EXAMPLES = """
[bold]Examples[/bold]

transduce distill runs/en-de train.en --out runs/student

transduce distill runs/en-de en.gz --out runs/student --with train.en train.de --valid val.en val.de

transduce distill runs/en-de train.en --out runs/student --preset tiny-3-1 --set vocabulary=2000

The same command resumes after a stop.
"""


Text = Annotated[
    Path, typer.Argument(help="Text for the teacher to translate: a file (plain, gz, xz, zst).")
]
Out = Annotated[Path, typer.Option("--out", "-o", help="The run folder of the student.")]
With = Annotated[
    tuple[str, str] | None,
    typer.Option("--with", metavar="SRC TGT", help="Human translations to train on as well."),
]
Valid = Annotated[
    tuple[str, str] | None,
    typer.Option(help="Validation text, both sides. Default: 1% held out, at most 2,000 pairs."),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="small-4-1, tiny-3-1, base-12-1 or any other. Default: by the teacher's size."
    ),
]
TeacherSubwords = Annotated[
    bool,
    typer.Option(
        "--teacher-subwords", help="Use the teacher's subwords instead of learning new ones."
    ),
]
Beam = Annotated[int | None, typer.Option(help="Beam size of the teacher. Default: 4.")]
Alpha = Annotated[float | None, typer.Option(help="Length penalty of the teacher. Default: 0.6.")]
Batch = Annotated[
    int | None,
    typer.Option(help="Sentences the teacher translates side by side. Default: by machine.", min=1),
]


def distill(
    teacher: TrainedRun,
    text: Text,
    *,
    out: Out,
    with_: With = None,
    valid: Valid = None,
    preset: Preset = None,
    set_: Set = None,
    teacher_subwords: TeacherSubwords = False,
    beam: Beam = None,
    alpha: Alpha = None,
    batch: Batch = None,
    steps: Annotated[int | None, typer.Option(help="Updates to make.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data to make.")] = None,
    time: Annotated[str | None, typer.Option(help="Time to train: 90s, 30m, 1h30m.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: 1.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    """Train a small, fast student on the translations of a trained model, the teacher.

    Machine translations are simpler and more regular than human ones, so a model with one decoder
    layer can learn them (Kim & Rush 2016). It may be stopped and resumed at any time.
    """
    from transduce.system.progress import console_progress
    from transduce.workflows import distillation

    seconds = None if time is None else parse_time(time)
    settings = parse_settings(set_ or [])
    settings |= settings_of(steps=steps, epochs=epochs, seed=seed, seconds=seconds)
    progress = console_progress()
    run = distillation.distill(
        teacher,
        text,
        out=out,
        pairs=with_,
        valid=valid,
        teacher_subwords=teacher_subwords,
        beam=beam,
        alpha=alpha,
        batch=batch,
        preset=preset,
        settings=settings,
        device=device,
        progress=progress,
    )
    progress.say(f"translate with: {command('translate', run, 'FILE')}")
