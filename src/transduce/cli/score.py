"""`transduce score`."""

import json as json_module
from typing import Annotated

import typer

from transduce.errors import BadInput

EXAMPLES = """
[bold]Examples[/bold]

transduce score out.de test.de

transduce translate runs/en-de test.en --no-split | transduce score - test.de

transduce score out.de test.de --metric bleu --confidence 1000 --json

transduce score out.de test.de --paper
"""


def score(
    hypotheses: Annotated[str, typer.Argument(help="Translations, one a line; - is stdin.")],
    references: Annotated[str, typer.Argument(help="What they should have been, one a line.")],
    *,
    metric: Annotated[
        list[str] | None, typer.Option(help="bleu, chrf or ter; may stand several times.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Of the target: chooses BLEU's tokeniser. Default: from the file's ending."
        ),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    tokenize: Annotated[str | None, typer.Option(help="BLEU's tokeniser: 13a, intl, zh, …")] = None,
    confidence: Annotated[
        int, typer.Option(help="Bootstrap samples for a 95% interval; 1000 is usual.")
    ] = 0,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's tokenised, compound-split BLEU.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Score translations with BLEU, chrF and TER by sacreBLEU, each with its signature."""
    from transduce import score as scores
    from transduce import text

    pairs = list(text.read_pairs(hypotheses, references))
    outputs, wanted = [left for left, _ in pairs], [right for _, right in pairs]
    language = language or text.languages(references, references)[1]
    if paper:
        if metric or lowercase or tokenize:
            raise BadInput("--paper is a metric of its own: it takes no other options of metrics")
        results = [scores.paper_bleu(outputs, wanted, language, confidence=confidence)]
    else:
        results = scores.score(
            outputs,
            wanted,
            metrics=tuple(metric or scores.METRICS),
            language=language,
            lowercase=lowercase,
            tokenize=tokenize,
            confidence=confidence,
        )
    if json:
        typer.echo(json_module.dumps([one.to_json() for one in results], indent=2))
    else:
        for one in results:
            typer.echo(str(one))
