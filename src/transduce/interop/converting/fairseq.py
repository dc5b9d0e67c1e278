"""fairseq: the command of `fairseq-train` in a script, or the YAML of `fairseq-hydra-train`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from transduce.errors import BadInput, did_you_mean
from transduce.interop.converting.draft import PRE_NORM, Draft, usual_sizes
from transduce.interop.converting.fairseq_keys import BOOLEAN, DEPARTURES
from transduce.interop.converting.ledger import Given
from transduce.interop.converting.reading import Command, flat, program

NAME = "fairseq"
# What may stand in front of a key, by the program that it is for.
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
BIG: dict[str, Any] = {"d_model": 1024, "d_ff": 4096, "h": 16, "dropout": 0.3}
# Named architectures, by how they differ from the base model.
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


def of_commands(commands: Sequence[Command]) -> dict[str, Given]:
    """Return the keys of all commands of fairseq, or nothing where there is none."""
    given: dict[str, Given] = {}
    for command in commands:
        places = [n for n, word in enumerate(command.words) if program(word) in PROGRAMS]
        if not places:
            continue
        name = program(command.words[places[0]])
        before, words = command.words[: places[0]], command.words[places[0] + 1 :]
        prefix = PROGRAMS[name]
        found = [*_options(words), *([] if prefix else _machines(command, before))]
        for key, value in found:
            shown = f"{name} {key}" if prefix else key
            plain = prefix + _plain(key.partition(" ")[0])
            if plain in given:  # the last one counts, as it does there
                earlier = given.pop(plain)
                given[f"{plain} of the command before, {len(given)}"] = earlier
            given[plain] = Given(shown, value)
    return given


def _options(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Pass over the options of a command; what is no option is the data."""
    waiting = list(words)
    extra = 0
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            if equals and re.fullmatch(r"[+\w.]+", name):  # of hydra: dataset.max_tokens=4000
                yield name, value
            else:
                extra += 1
                yield "data" if extra == 1 else f"data {extra}", word
        elif equals:
            yield name, value
        elif _plain(name) in BOOLEAN or not waiting or re.match(r"--?[a-zA-Z]", waiting[0]):
            yield name, True
        else:
            yield name, waiting.pop(0)


def _machines(command: Command, before: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Tell on how many GPUs a command runs, where it says so before the program's name."""
    for name, value in _options(before):
        if name.strip("-").replace("-", "_") == "nproc_per_node":
            yield name, value
            return
    visible = command.environment.get("CUDA_VISIBLE_DEVICES", "")
    if visible and "$" not in visible:
        yield "CUDA_VISIBLE_DEVICES", visible


def _plain(key: str) -> str:
    """Return a key's plain name: of --max-tokens and of dataset.max_tokens it is max_tokens."""
    parts = key.lstrip("-+").replace("-", "_").split(".")
    if parts[-1] == "_name" and len(parts) > 1:
        return "arch" if parts[-2] == "model" else parts[-2]
    if parts[0] in SECTIONS and len(parts) > 1:
        parts = parts[1:]
    aliases = {
        "a": "arch",
        "s": "source_lang",
        "t": "target_lang",
        "relu_dropout": "activation_dropout",
    }
    aliases |= {
        "max_sentences": "batch_size",
        "min_lr": "stop_min_lr",
        "remove_bpe": "post_process",
    }
    name = "_".join(parts)
    return aliases.get(name, name)


def of_yaml(tree: dict[str, Any]) -> dict[str, Given]:
    """Return the keys of a file of hydra, or nothing where it is none."""
    if not {"task", "optimization", "dataset", "lr_scheduler"} & tree.keys():
        return {}
    given: dict[str, Given] = {}
    for key, value in flat(tree):
        plain = _plain(key)
        given[plain if plain not in given else key] = Given(key, value)
    return given


def convert(draft: Draft) -> None:
    """Fill a draft with what fairseq's keys say."""
    ledger = draft.ledger
    draft.departures = DEPARTURES
    usual, origin = _architecture(draft)
    d_model = draft.take_stacks(STACKS, usual_sizes() | usual, origin)
    _take_layers(draft, usual, origin)
    joined_key = "preprocess.joined_dictionary"
    joined = ledger.flag(joined_key)
    ledger.taken(joined_key, f"joint = {joined}")
    draft.take_ties(
        both="share_all_embeddings",
        output="share_decoder_input_output_embed",
        joint=joined,
        joint_key=joined_key,
    )
    _take_rate(draft, d_model)
    _take_batch(draft)
    _take_training(draft)
    _take_data(draft)


def _architecture(draft: Draft) -> tuple[dict[str, Any], str]:
    ledger = draft.ledger
    name = ledger.word("arch", "transformer")
    if name not in ARCHITECTURES:
        raise BadInput(
            f"{ledger.key('arch')} {name} cannot be converted: expected a Transformer, one of "
            f"{', '.join(ARCHITECTURES)}.{did_you_mean(name, ARCHITECTURES)}"
        )
    ledger.taken("arch", "its sizes")
    return ARCHITECTURES[name], f"{ledger.key('arch')} {name}" if "arch" in ledger.given else ""


def _take_layers(draft: Draft, usual: dict[str, Any], origin: str) -> None:
    """Take over what a layer is like, and say what it cannot be like."""
    ledger = draft.ledger
    rates = {"dropout": "P_drop", "attention_dropout": "attention_dropout"}
    for name, setting in (rates | {"activation_dropout": "relu_dropout"}).items():
        rate = ledger.number(name, usual.get(name, 0.1 if name == "dropout" else 0.0))
        ledger.set(setting, rate, ledger.key(name) or origin)
        ledger.taken(name, f"{setting} = {rate}")
    draft.take_activation("activation_fn", "relu")
    for side in ("encoder", "decoder"):
        norm = f"{side}_normalize_before"
        ledger.leave_unless(
            norm, usual=False, note="the norm stands after each sub-layer here (paper 3.1)"
        )
    before = ("encoder_normalize_before", "decoder_normalize_before")
    if usual.get("normalize_before") or any(ledger.flag(name) for name in before):
        draft.to_do.append(PRE_NORM)
    learned = [f"{side}_learned_pos" for side in ("encoder", "decoder")]
    if any(ledger.flag(name) for name in learned):
        ledger.set("positions", "learned", ledger.key(*learned))
    elif ledger.flag("no_token_positional_embeddings"):
        ledger.set("positions", "none", ledger.key("no_token_positional_embeddings"))
    for name in (*learned, "no_token_positional_embeddings"):
        ledger.taken(name, f"positions = {ledger.settings.get('positions', ('sinusoidal',))[0]}")
    draft.take_length("max_source_positions", "max_target_positions")
    if ledger.flag("checkpoint_activations"):
        ledger.set("recompute", value=True, origin=ledger.key("checkpoint_activations"))
    ledger.taken("checkpoint_activations", "recompute")


def _take_rate(draft: Draft, d_model: int) -> None:
    """Take the learning rate over, which is Eq. 3 times a factor where it is inverse_sqrt."""
    ledger = draft.ledger
    schedule = ledger.word("lr_scheduler", "fixed")
    if schedule == "inverse_sqrt":
        warmup = ledger.whole("warmup_updates", 4000)
        ledger.set("warmup", warmup, ledger.key("warmup_updates"))
        ledger.taken("warmup_updates", f"warmup = {warmup}")
        ledger.take_rate("lr", ledger.number("lr", 0.25), d_model, max(warmup, 1))
        ledger.taken("lr_scheduler", "Eq. 3 with a factor")
        if ledger.number("warmup_init_lr", -1) > 0:
            ledger.changed("warmup_init_lr", "0: Eq. 3 warms up from there")
        else:
            ledger.taken("warmup_init_lr", "0, as in Eq. 3")
    else:
        why = f"the rate here is Eq. 3 (5.3), not {schedule}: lr_scale and warmup are the preset's"
        for name in ("lr_scheduler", "lr", "warmup_updates", "warmup_init_lr"):
            ledger.left(name, why)
        draft.to_do.append(f"choose lr_scale and warmup: {why}")
    optimizer = ledger.word("optimizer", "adam")
    if optimizer == "adam":
        ledger.taken("optimizer", "Adam (5.3)")
    else:
        ledger.changed("optimizer", "Adam (5.3): there is no other here")
    ledger.take_betas("adam_betas")
    epsilon = ledger.number("adam_eps", 1e-8)
    ledger.set("epsilon", epsilon, ledger.key("adam_eps"))
    ledger.taken("adam_eps", f"epsilon = {epsilon}")
    ledger.leave_unless("weight_decay", 0.0, "no weights decay here, as in the paper")


def _take_batch(draft: Draft) -> None:
    """Take the size of an update over: the tokens of a GPU times those that add up to it."""
    ledger = draft.ledger
    gpus, origin = _gpus(draft)
    pieces = ledger.whole("update_freq", 1)
    if ledger.value("max_tokens") is not None:
        tokens = ledger.whole("max_tokens", 0) * pieces * gpus
        names = [ledger.key("max_tokens"), ledger.key("update_freq"), origin]
        ledger.set("batch_tokens", tokens, " * ".join(filter(None, names)))
        how = f"batch_tokens = {tokens} = {ledger.whole('max_tokens', 0)} * {pieces} * {gpus} GPUs"
        ledger.changed("max_tokens", f"{how}; there padding counts, here words alone do")
        ledger.changed("update_freq", how)
        if not origin:
            draft.to_do.append(
                "batch_tokens is for one GPU: with more, fairseq makes each update of "
                "max_tokens on each; say --gpus 8 to multiply"
            )
    else:
        ledger.left("update_freq", "updates are counted in tokens here, and max_tokens is not set")
    ledger.left("batch_size", "updates are counted in tokens here: batch_tokens")


def _gpus(draft: Draft) -> tuple[int, str]:
    """Return how many GPUs made an update together, and what says so."""
    ledger = draft.ledger
    names = ("distributed_world_size", "nproc_per_node", "CUDA_VISIBLE_DEVICES")
    found = ledger.first(*names)
    for name in names:
        ledger.changed(name, "a factor of batch_tokens; start on several GPUs with torchrun")
    if draft.hints.gpus is not None:
        return draft.hints.gpus, "--gpus"
    value = ledger.value(found)
    if value is None:
        return 1, ""
    if found == "CUDA_VISIBLE_DEVICES":
        return len(str(value).split(",")), found
    return max(1, ledger.whole(found, 1)), ledger.key(found)


def _take_training(draft: Draft) -> None:
    """Take over how long, how smooth, how often."""
    ledger = draft.ledger
    if ledger.whole("max_update", 0) > 0:
        ledger.take("max_update", "steps", ledger.whole("max_update", 0))
    elif ledger.whole("max_epoch", 0) > 0:
        ledger.set("steps", "none", ledger.key("max_epoch"))
    else:
        ledger.taken("max_update", "none, and the preset's steps")
        draft.to_do.append("fairseq would train on until stopped; here 100,000 steps: set steps")
    draft.take_positive("max_epoch", "epochs")
    if ledger.number("stop_time_hours", 0) > 0:
        ledger.take("stop_time_hours", "seconds", ledger.number("stop_time_hours", 0) * 3600)
    else:
        ledger.taken("stop_time_hours", "none")
    smoothed = ledger.word("criterion", "cross_entropy") == "label_smoothed_cross_entropy"
    eps_ls = ledger.number("label_smoothing", 0.0) if smoothed else 0.0
    ledger.set("eps_ls", eps_ls, ledger.key("label_smoothing", "criterion"))
    ledger.taken("label_smoothing", f"eps_ls = {eps_ls}, of all words but <pad> (5.4)")
    if smoothed or ledger.word("criterion", "cross_entropy") == "cross_entropy":
        ledger.taken("criterion", f"eps_ls = {eps_ls}")
    else:
        ledger.changed("criterion", "the cross-entropy, smoothed by eps_ls (5.4)")
    clip = ledger.number("clip_norm", 0.0)
    if "clip_norm" in ledger.given:
        ledger.take("clip_norm", "clip", clip)
    if ledger.value("seed") is not None:
        ledger.take("seed", "seed", ledger.whole("seed", 1))
    for name, setting in {
        "validate_interval_updates": "validate_every",
        "save_interval_updates": "save_every",
        "log_interval": "log_every",
        "patience": "patience",
    }.items():
        draft.take_positive(name, setting)
    draft.take_kept("keep_interval_updates")
    for name in ("fp16", "bf16", "amp", "memory_efficient_fp16", "memory_efficient_bf16"):
        ledger.changed(name, "precision = auto: bf16 on GPUs that have it, weights in float32")


def _take_data(draft: Draft) -> None:
    """Take over what text there is, how many subwords, and how the test set is translated."""
    ledger = draft.ledger
    of_data = re.search(r"\b([a-z]{2,3})[-_]([a-z]{2,3})\b", str(ledger.value("data", "")))
    sides = []
    for n, side in enumerate(("source_lang", "target_lang")):
        guess = of_data[n + 1] if of_data else draft.languages[n]
        sides.append(str(ledger.value(side, ledger.value(f"preprocess.{side}", guess))))
        for name in (side, f"preprocess.{side}"):
            ledger.taken(name, "the endings of the text")
    source, target = draft.languages = (sides[0], sides[1])
    for part in ("train", "valid", "test"):
        name = f"preprocess.{part}pref"
        if ledger.value(name) is not None:
            prefix = str(ledger.value(name)).partition(",")[0]
            draft.take_text(part, [name], [f"{prefix}.{source}", f"{prefix}.{target}"])
    stated = {
        name: ledger.whole(name, 0)
        for name in ("preprocess.nwordssrc", "preprocess.nwordstgt")
        if ledger.number(name, -1) > 0
    }
    folders = [ledger.value("data"), ledger.value("preprocess.destdir")]
    files = [f"{folder}/dict.{side}.txt" for folder in folders if folder for side in sides]
    draft.take_vocabulary(stated, files)
    ledger.left("data", "a folder of binarised words: raw text is wanted instead")
    draft.take_search("generate.beam", "beam", ledger.whole("generate.beam", 5))
