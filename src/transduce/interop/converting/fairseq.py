"""fairseq: the command of `fairseq-train` in a script, or the YAML of `fairseq-hydra-train`."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from transduce.errors import BadInput, did_you_mean
from transduce.interop.converting.draft import BATCHES, DEVICES, PRECISION, Draft, Toolkit
from transduce.interop.converting.keys import Given, read_notes
from transduce.interop.converting.reading import Command, flat

# The prefix of a program's keys.
PROGRAMS = {
    **dict.fromkeys(("fairseq-train", "fairseq-hydra-train", "train.py", "fairseq_cli.train"), ""),
    **dict.fromkeys(
        ("fairseq-preprocess", "preprocess.py", "fairseq_cli.preprocess"), "preprocess."
    ),
    **dict.fromkeys(("fairseq-generate", "generate.py", "fairseq_cli.generate"), "generate."),
}
SECTIONS = (
    *("model", "task", "optimization", "dataset", "criterion", "optimizer", "lr_scheduler"),
    *("checkpoint", "common", "distributed_training"),
)
STACKS = {
    "N": ("encoder_layers", "decoder_layers"),
    "d_model": ("encoder_embed_dim", "decoder_embed_dim"),
    "d_ff": ("encoder_ffn_embed_dim", "decoder_ffn_embed_dim"),
    "h": ("encoder_attention_heads", "decoder_attention_heads"),
}
BASE: dict[str, Any] = {"N": 6, "d_model": 512, "d_ff": 2048, "h": 8}
BIG: dict[str, Any] = {"d_model": 1024, "d_ff": 4096, "h": 16, "dropout": 0.3}
# Named architectures, by their differences from the base model.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "transformer": {},
    "transformer_wmt_en_de": {},
    "transformer_tiny": {"d_model": 64, "d_ff": 64, "N": 2, "h": 2},
    "transformer_iwslt_de_en": {"d_ff": 1024, "h": 4},
    "transformer_vaswani_wmt_en_de_big": BIG,
    "transformer_vaswani_wmt_en_fr_big": BIG | {"dropout": 0.1},
    "transformer_wmt_en_de_big": BIG | {"attention_dropout": 0.1},
    "transformer_wmt_en_de_big_t2t": BIG
    | {"attention_dropout": 0.1, "activation_dropout": 0.1, "normalize_before": True},
}

ALIASES = {
    "a": "arch",
    "s": "source_lang",
    "t": "target_lang",
    "max_sentences": "batch_size",
    "relu_dropout": "activation_dropout",
    "min_lr": "stop_min_lr",
    "remove_bpe": "post_process",
}
GPU_KEYS = ("distributed_world_size", "nproc_per_node", "CUDA_VISIBLE_DEVICES")


def keys_of_commands(commands: Sequence[Command]) -> dict[str, Given]:
    """Return the keys of all fairseq commands; empty if there are none."""
    given: dict[str, Given] = {}
    for command in commands:
        names = [PurePosixPath(word).name for word in command.words]
        index = next((n for n, name in enumerate(names) if name in PROGRAMS), None)
        if index is None:
            continue
        name, before, words = names[index], command.words[:index], command.words[index + 1 :]
        prefix = PROGRAMS[name]
        for key, value in [*_options(words), *([] if prefix else _gpu_options(command, before))]:
            shown = f"{name} {key}" if prefix else key
            plain = prefix + _plain(key)
            if plain in given:  # as in fairseq, the last one wins
                earlier = given.pop(plain)
                given[f"{plain}#{len(given)}"] = earlier
            given[plain] = Given(shown, value)
    return given


def _options(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the options of a command; an argument that is not an option is the data."""
    waiting, flags = list(words), read_notes("fairseq").flags
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            if equals and re.fullmatch(r"[+\w.]+", name):  # hydra's form: dataset.max_tokens=4000
                yield name, value
            else:
                yield "data", word
        elif equals:
            yield name, value
        elif _plain(name) in flags or not waiting or re.match(r"--?[a-zA-Z]", waiting[0]):
            yield name, True
        else:
            yield name, waiting.pop(0)


def _gpu_options(command: Command, before: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the option or variable before the program that says how many GPUs it uses."""
    for name, value in _options(before):
        if name.strip("-").replace("-", "_") == "nproc_per_node":
            yield name, value
            return
    visible = command.environment.get("CUDA_VISIBLE_DEVICES", "")
    if visible and "$" not in visible:
        yield "CUDA_VISIBLE_DEVICES", visible


def _plain(key: str) -> str:
    """Return the plain name of a key: max_tokens for --max-tokens and dataset.max_tokens."""
    parts = key.lstrip("-+").replace("-", "_").split(".")
    if parts[-1] == "_name" and len(parts) > 1:
        return "arch" if parts[-2] == "model" else parts[-2]
    if parts[0] in SECTIONS and len(parts) > 1:
        parts = parts[1:]
    name = "_".join(parts)
    return ALIASES.get(name, name)


def keys_of_yaml(tree: dict[str, Any]) -> dict[str, Given]:
    """Return the keys of a hydra file; empty for any other file."""
    if not {"task", "optimization", "dataset", "lr_scheduler"} & tree.keys():
        return {}
    given: dict[str, Given] = {}
    for key, value in flat(tree):
        plain = _plain(key)
        given[plain if plain not in given else key] = Given(key, value)
    return given


def convert(draft: Draft) -> None:
    """Fill in a draft from fairseq's keys."""
    keys = draft.keys
    name = keys.word("arch", "transformer")
    if name not in ARCHITECTURES:
        raise BadInput(
            f"{keys.written('arch')} {name} cannot be converted: expected a Transformer, one of "
            f"{', '.join(ARCHITECTURES)}.{did_you_mean(name, ARCHITECTURES)}"
        )
    keys.taken("arch", "its sizes")
    origin = f"{keys.written('arch')} {name}" if "arch" in keys.given else ""
    d_model = draft.take_sizes(STACKS, BASE | ARCHITECTURES[name], origin)
    _take_layers(draft, ARCHITECTURES[name], origin)
    joined = "preprocess.joined_dictionary"
    keys.taken(joined, f"joint = {keys.flag(joined)}")
    draft.take_ties(
        both="share_all_embeddings",
        output="share_decoder_input_output_embed",
        joint=keys.flag(joined),
        joint_key=joined,
    )
    _take_rate(draft, d_model)
    _take_batch(draft)
    _take_training(draft)
    _take_data(draft)


def _take_layers(draft: Draft, architecture: dict[str, Any], origin: str) -> None:
    """Take over dropout, activation, norms and positions of the layers."""
    keys = draft.keys
    for name, setting, default in (
        ("dropout", "P_drop", 0.1),
        ("attention_dropout", "attention_dropout", 0.0),
        ("activation_dropout", "relu_dropout", 0.0),
    ):
        rate = keys.number(name, architecture.get(name, default))
        keys.take(name, setting, rate, origin)
    draft.take_activation("activation_fn")
    before = {
        name: keys.flag(name) if name in keys.given else "normalize_before" in architecture
        for name in ("encoder_normalize_before", "decoder_normalize_before")
    }
    if draft.take_pre_norm(before, origin):
        final = "with pre_norm, a norm follows the last layer here"
        keys.drop_unless("no_decoder_final_norm", expected=False, note=final)
    learned, without = (
        ["encoder_learned_pos", "decoder_learned_pos"],
        "no_token_positional_embeddings",
    )
    positions = "sinusoidal"
    if any(map(keys.flag, learned)):
        positions = "learned"
        keys.set("positions", positions, keys.written(*learned))
    elif keys.flag(without):
        positions = "none"
        keys.set("positions", positions, keys.written(without))
    for name in (*learned, without):
        keys.taken(name, f"positions = {positions}")
    draft.take_length("max_source_positions", "max_target_positions")
    if keys.flag("checkpoint_activations"):
        keys.set("recompute", value=True, origin=keys.written("checkpoint_activations"))
    keys.taken("checkpoint_activations", "recompute")


def _take_rate(draft: Draft, d_model: int) -> None:
    """Take over the learning rate: the schedule inverse_sqrt is Eq. 3 times a factor."""
    keys = draft.keys
    schedule = keys.word("lr_scheduler", "fixed")
    if schedule == "inverse_sqrt":
        warmup = keys.integer("warmup_updates", 4000)
        keys.take("warmup_updates", "warmup", warmup)
        draft.take_peak_rate("lr", keys.number("lr", 0.25), d_model, max(warmup, 1))
        keys.taken("lr_scheduler", "Eq. 3 with a factor")
        if keys.number("warmup_init_lr", -1) > 0:
            keys.changed("warmup_init_lr", "0: Eq. 3 warms up from 0")
        else:
            keys.taken("warmup_init_lr", "0, as in Eq. 3")
    else:
        draft.drop_schedule(schedule, ("lr_scheduler", "lr", "warmup_updates", "warmup_init_lr"))
    draft.take_optimizer("optimizer", keys.word("optimizer", "adam"))
    draft.take_betas("adam_betas")
    keys.take("adam_eps", "epsilon", keys.number("adam_eps", 1e-8))


def _take_batch(draft: Draft) -> None:
    """Take over the size of an update: tokens per GPU, accumulated, times the GPUs."""
    keys = draft.keys
    gpus, origin = _gpus(draft)
    for name in GPU_KEYS:
        keys.changed(name, f"a factor of batch_tokens; {DEVICES}")
    keys.dropped("batch_size", BATCHES)
    if keys.value("max_tokens") is None:
        keys.dropped("update_freq", f"{BATCHES}, and max_tokens is not set")
        return
    factors = {name: keys.integer(name, 1) for name in ("max_tokens", "update_freq")}
    draft.take_batch(factors, tokens=True, gpus=gpus, gpus_origin=origin)
    if not origin:
        draft.to_do.append(
            "batch_tokens is for one GPU: with more, an update of fairseq has max_tokens on each; "
            "give --gpus 8 to multiply"
        )


def _gpus(draft: Draft) -> tuple[int, str]:
    """Return the number of GPUs per update, and where it is stated."""
    keys = draft.keys
    if draft.gpus is not None:
        return draft.gpus, "--gpus"
    name = next((name for name in GPU_KEYS if keys.value(name) is not None), None)
    if name is None:
        return 1, ""
    if name == "CUDA_VISIBLE_DEVICES":
        return len(str(keys.value(name)).split(",")), name
    return max(1, keys.integer(name, 1)), keys.written(name)


def _take_training(draft: Draft) -> None:
    """Take over the length of training, the loss, and intervals."""
    keys = draft.keys
    if keys.integer("max_update", 0) > 0:
        keys.take("max_update", "steps", keys.integer("max_update", 0))
    elif keys.integer("max_epoch", 0) > 0:
        keys.set("steps", "none", keys.written("max_epoch"))
    else:
        keys.taken("max_update", "none, so the preset's steps")
        draft.to_do.append("fairseq would train until stopped; here 100,000 steps: set steps")
    if keys.number("stop_time_hours", 0) > 0:
        keys.take("stop_time_hours", "seconds", keys.number("stop_time_hours", 0) * 3600)
    else:
        keys.taken("stop_time_hours", "none")
    criterion = keys.word("criterion", "cross_entropy")
    smoothed = criterion == "label_smoothed_cross_entropy"
    eps_ls = keys.number("label_smoothing", 0.0) if smoothed else 0.0
    keys.set("eps_ls", eps_ls, keys.written("label_smoothing", "criterion"))
    keys.taken("label_smoothing", f"eps_ls = {eps_ls}, over all words but <pad> (5.4)")
    if smoothed or criterion == "cross_entropy":
        keys.taken("criterion", f"eps_ls = {eps_ls}")
    else:
        keys.changed("criterion", "cross-entropy with label smoothing eps_ls (5.4)")
    if "clip_norm" in keys.given:
        keys.take("clip_norm", "clip", keys.number("clip_norm", 0.0))
    if keys.value("seed") is not None:
        keys.take("seed", "seed", keys.integer("seed", 1))
    for name, setting in (
        ("max_epoch", "epochs"),
        ("validate_interval_updates", "validate_every"),
        ("save_interval_updates", "save_every"),
        ("log_interval", "log_every"),
        ("patience", "patience"),
    ):
        keys.take_positive(name, setting)
    draft.take_kept_checkpoints("keep_interval_updates")
    for name in ("fp16", "bf16", "amp", "memory_efficient_fp16", "memory_efficient_bf16"):
        keys.changed(name, PRECISION)


def _take_data(draft: Draft) -> None:
    """Take over the texts, the number of subwords, and how the test set is translated."""
    keys = draft.keys
    in_name = re.search(r"\b([a-z]{2,3})[-_]([a-z]{2,3})\b", str(keys.value("data", "")))
    sides = []
    for n, side in enumerate(("source_lang", "target_lang")):
        guess = in_name[n + 1] if in_name else draft.languages[n]
        sides.append(str(keys.value(side, keys.value(f"preprocess.{side}", guess))))
        for name in (side, f"preprocess.{side}"):
            keys.taken(name, "the file endings of the texts")
    source, target = draft.languages = (sides[0], sides[1])
    for part in ("train", "valid", "test"):
        name = f"preprocess.{part}pref"
        if keys.value(name) is not None:
            prefix = str(keys.value(name)).partition(",")[0]
            draft.take_text(part, [name], [f"{prefix}.{source}", f"{prefix}.{target}"])
    stated = {
        name: keys.integer(name, 0)
        for name in ("preprocess.nwordssrc", "preprocess.nwordstgt")
        if keys.number(name, -1) > 0
    }
    folders = [keys.value("data"), keys.value("preprocess.destdir")]
    files = [f"{folder}/dict.{side}.txt" for folder in folders if folder for side in sides]
    draft.take_vocabulary(stated, files)
    keys.dropped("data", "a folder of binarised text: raw text is needed instead")
    draft.take_search("generate.beam", "beam", keys.integer("generate.beam", 5))


TOOLKIT = Toolkit("fairseq", "fairseq", keys_of_yaml, convert)
