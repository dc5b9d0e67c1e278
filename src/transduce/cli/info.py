"""`transduce info`."""

import dataclasses
import json as json_module
import re
from pathlib import Path
from typing import Any

import typer

from transduce.cli.declaring import argument, flag
from transduce.errors import printable

EXAMPLES = """
transduce info runs/en-de
transduce info runs/en-de --json
"""

# Characters that JSON does not escape but that can control a terminal.
UNESCAPED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
SHOWN = {"step", "loss", "perplexity", "target_tokens_per_second"}


def info(
    run: Path = argument("The run folder."),
    *,
    json: bool = flag("Write JSON, with every setting.", "--json"),
) -> None:
    """Show the model, training, validation and checkpoints of a run."""
    facts = gather(run)
    if json:
        text = json_module.dumps(facts, indent=2, ensure_ascii=False)
        typer.echo(UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text))
        return
    for name, value in _rows(facts).items():
        typer.echo(f"{name:12} {printable(value)}")


def _rows(facts: dict[str, Any]) -> dict[str, str]:
    """Return the lines to print, by name."""
    model, train, origin = facts["model"], facts["train"], facts["origin"]
    depth = model["N"] if model["N_decoder"] is None else f"{model['N']}+{model['N_decoder']}"
    kind = "" if model["architecture"] == "transformer" else f"{model['architecture']}, "
    if facts["task"] == "parsing":
        target = f"{model['target_vocabulary']:,} symbols of trees"
        vocabulary = f"{model['source_vocabulary']:,} {train['subwords']} subwords, {target}"
    else:
        shared = "joint" if train["joint"] else "separate"
        sizes = dict.fromkeys((model["source_vocabulary"], model["target_vocabulary"]))
        count = " and ".join(f"{size:,}" for size in sizes)
        vocabulary = f"{count} {train['subwords']} subwords, {shared}"
    weights = ", ".join(f"{weight:g}" for weight in facts["corpus_weights"])
    if origin:
        start = f"{origin['weights'] or 'the subwords alone'}, of {origin['run']}"
    else:
        start = "an import" if facts["preset"] == "imported" else "fresh weights"
    return {
        "languages": ", ".join(" to ".join(pair) for pair in facts["pairs"]),
        "preset": facts["preset"],
        "model": f"{kind}N {depth}, d_model {model['d_model']}, d_ff {model['d_ff']}, "
        f"h {model['h']}, d_k {model['d_k']}, d_v {model['d_v']}, P_drop {model['P_drop']}"
        + "".join(f", {name} {value}" for name, value in _departures(model).items()),
        "parameters": f"{facts['parameters']:,}",
        "vocabulary": vocabulary,
        **({"corpora": f"weights {weights}"} if weights else {}),
        "training": _training(facts),
        **_validation(facts["validation"] or {}),
        "started from": start,
        "weights": facts["weights"],
        "checkpoints": ", ".join(f"{step:,}" for step in facts["checkpoints"]) or "none",
        "made with": ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
    }


def _departures(model: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the layers that are not the paper's."""
    from transduce.config import ModelConfig

    names = ("positions", "attention", "neighbourhood", "pre_norm", "norm", "gated", "qk_norm")
    paper = ModelConfig()
    return {name: model[name] for name in names if model[name] != getattr(paper, name)}


def _validation(values: dict[str, Any]) -> dict[str, str]:
    """Describe the last validation, and in a line each those of its corpora or languages."""
    rows: dict[str, list[str]] = {"validation": []}
    for name, value in values.items():
        measure, _, part = name.removeprefix("valid_").partition("/")
        shown = f"step {value:,}" if name == "step" else f"{measure} {value:,.3f}"
        rows.setdefault(f"  {part}" if part else "validation", []).append(shown)
    return {name: ", ".join(shown) or "none" for name, shown in rows.items()}


def _training(facts: dict[str, Any]) -> str:
    """Describe the last logged step, if any."""
    last = facts["last"]
    if last:
        return (
            f"step {last['step']:,}, loss {last['loss']:.3f}, perplexity {last['perplexity']:.2f}, "
            f"{last['target_tokens_per_second']:,.0f} tokens/s"
        )
    ended = (Path(facts["run"]) / "model.safetensors").exists()
    return "no record of it here" if ended else "nothing logged yet"


def gather(run: Path) -> dict[str, Any]:
    """Collect the facts about a run."""
    from transduce.errors import BadRun
    from transduce.runs.arrays import count_values
    from transduce.runs.folder import MODEL, RunConfig, checkpoints, weights_file

    config = RunConfig.load(run)
    try:
        path, weights = weights_file(run, config)
        parameters = count_values(path)
    except BadRun:
        if (run / MODEL).exists():  # damaged, or from a different run
            raise
        from transduce.model.architecture import count_parameters

        weights = f"{config.weights}: missing" if MODEL in config.hashes else config.weights
        parameters = count_parameters(config.model)
    metrics = _metrics(run / "metrics.jsonl")
    return {
        "run": str(run),
        "task": config.task,
        "languages": list(config.languages),
        "pairs": [list(pair) for pair in config.all_pairs],
        "preset": config.preset,
        "device": config.device,
        "parameters": parameters,
        "origin": dataclasses.asdict(config.origin) if config.origin else None,
        "weights": weights,
        "checkpoints": [checkpoint.step for checkpoint in checkpoints(run)],
        "last": next((entry for entry in reversed(metrics) if entry.keys() >= SHOWN), None),
        "validation": next((entry for entry in reversed(metrics) if "valid_loss" in entry), None),
        "versions": dict(config.versions),
        "corpus_weights": list(config.corpus_weights),
        "model": config.model.to_json(),
        "train": config.train.to_json(),
        "search": config.search.to_json(),
    }


def _metrics(path: Path) -> list[dict[str, Any]]:
    """Return the entries of metrics.jsonl, without damaged lines."""
    from transduce.runs.history import parse_line
    from transduce.settings.types import fits
    from transduce.system.files import MAX_LOG_BYTES, read_regular

    if not path.exists():
        return []
    lines = read_regular(path, MAX_LOG_BYTES).decode("utf-8", "replace").split("\n")
    entries = map(parse_line, lines)
    return [entry for entry in entries if entry and fits(entry, dict[str, float])]
