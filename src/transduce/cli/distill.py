"""`transduce distill`."""

from pathlib import Path

from transduce.cli.declaring import argument, flag, option, option_group
from transduce.cli.options import Device, LanguageOptions, SettingOptions, TrainedRun, command

EXAMPLES = """
transduce distill runs/en-de train.en --out runs/student
transduce distill runs/en-de en.gz --out runs/student --with train.en train.de --valid val.en val.de
transduce distill runs/en-de train.en --out runs/student --preset tiny-3-1 --set vocabulary=2000
The same command resumes after a stop.
"""


@option_group()
class DistillOptions:
    """Options for the texts, the teacher's search and the student."""

    out: Path = option("The run folder of the student.", "--out", "-o", default=...)
    with_: tuple[str, str] | None = option(
        "Human translations to train on as well.", "--with", metavar="SRC TGT"
    )
    valid: tuple[str, str] | None = option(
        "Validation text, both sides. Default: 1% held out, at most 2,000 pairs."
    )
    preset: str | None = option(
        "small-4-1, tiny-3-1, base-12-1 or any other. Default: by the teacher's size."
    )
    teacher_subwords: bool = flag(
        "Use the teacher's subwords instead of learning new ones.", "--teacher-subwords"
    )
    beam: int | None = option("Beam size of the teacher. Default: 4.")
    alpha: float | None = option("Length penalty of the teacher. Default: 0.6.")
    batch: int | None = option(
        "Sentences the teacher translates side by side. Default: by machine.", min=1
    )
    device: Device = "auto"


def distill(
    teacher: TrainedRun,
    text: Path = argument("Text for the teacher to translate: a file (plain, gz, xz, zst)."),
    *,
    languages: LanguageOptions,
    options: DistillOptions,
    settings: SettingOptions,
) -> None:
    """Train a small, fast student on the translations of a trained model, the teacher.

    Machine translations are simpler and more regular than human ones, so a model with one decoder
    layer can learn them (Kim & Rush 2016). It may be stopped and resumed at any time.
    """
    from transduce.system.progress import console_progress
    from transduce.workflows import distillation

    progress = console_progress()
    run = distillation.distill(
        teacher,
        text,
        out=options.out,
        to=languages.to,
        source=languages.from_,
        pairs=options.with_,
        valid=options.valid,
        teacher_subwords=options.teacher_subwords,
        beam=options.beam,
        alpha=options.alpha,
        batch=options.batch,
        preset=options.preset,
        settings=settings.parsed(),
        device=options.device,
        progress=progress,
    )
    progress.say(f"translate with: {command('translate', run, 'FILE')}")
