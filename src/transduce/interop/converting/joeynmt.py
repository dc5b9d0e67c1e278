"""JoeyNMT: the YAML of version 2, and of version 1, where some keys have different names."""

from typing import Any

from transduce.errors import BadInput
from transduce.interop.converting.draft import PRECISION, Draft, Toolkit
from transduce.interop.converting.keys import Given
from transduce.interop.converting.reading import flat

E, D, T, S = "model.encoder.", "model.decoder.", "training.", "testing."
STACKS = {
    "N": (f"{E}num_layers", f"{D}num_layers"),
    "d_model": (f"{E}hidden_size", f"{D}hidden_size"),
    "d_ff": (f"{E}ff_size", f"{D}ff_size"),
    "h": (f"{E}num_heads", f"{D}num_heads"),
}
# The toolkit's defaults.
DEFAULTS = {"N": 8, "N of the decoder": 4, "d_model": 512, "d_ff": 2048, "h": 4}
DEFAULTS |= {"h of the decoder": 8}


def keys_of_yaml(tree: dict[str, Any]) -> dict[str, Given]:
    """Return the keys of a JoeyNMT file; empty for any other file."""
    model = tree.get("model")
    if not isinstance(model, dict) or not {"data", "training"} <= tree.keys():
        return {}
    if not isinstance(model.get("encoder"), dict) or not isinstance(model.get("decoder"), dict):
        return {}
    given = {key: Given(key, value) for key, value in flat(tree)}
    renamed = {"random_seed": f"{T}random_seed", "fp16": f"{T}fp16"}  # as in 2.3
    renamed |= {"data.src": "data.src.lang", "data.trg": "data.trg.lang"}  # as in 1
    renamed |= {f"{S}alpha": f"{S}beam_alpha", f"{T}keep_last_ckpts": f"{T}keep_best_ckpts"}
    for side in ("src", "trg"):
        renamed[f"data.{side}_vocab"] = f"data.{side}.voc_file"
        for what in ("voc_limit", "voc_min_freq"):
            renamed[f"data.{side}_{what}"] = f"data.{side}.{what}"
    return {
        renamed[key] if key in renamed and renamed[key] not in given else key: value
        for key, value in given.items()
    }


def convert(draft: Draft) -> None:
    """Fill in a draft from JoeyNMT's keys."""
    keys = draft.keys
    for side in (E, D):
        kind = keys.word(f"{side}type", "recurrent")
        if kind != "transformer":
            raise BadInput(
                f"{side}type = {kind} cannot be converted: expected transformer; the recurrent "
                "model here is a different one (preset recurrent)"
            )
        keys.taken(f"{side}type", "the Transformer")
    d_model = draft.take_sizes(STACKS, DEFAULTS)
    _take_layers(draft, d_model)
    _take_vocabulary(draft)
    _take_rate(draft, d_model)
    _take_training(draft)
    _take_text(draft)
    # Its length penalty is also the paper's.
    draft.take_search(f"{S}beam_size", "beam", keys.integer(f"{S}beam_size", 1))
    draft.take_search(f"{S}beam_alpha", "alpha", max(0.0, keys.number(f"{S}beam_alpha", -1)))


def _take_layers(draft: Draft, d_model: int) -> None:
    """Take over dropout, activation and norms of the layers."""
    keys = draft.keys
    rate = keys.number(f"{E}dropout", 0.1)
    for setting in ("P_drop", "attention_dropout", "relu_dropout"):
        keys.set(setting, rate, keys.written(f"{E}dropout"))
    keys.taken(f"{E}dropout", f"P_drop = attention_dropout = relu_dropout = {rate}, as there")
    keys.drop_unless(f"{D}dropout", rate, f"one rate for both stacks here: {rate}")
    draft.take_activation(f"{E}activation")
    activation = keys.word(f"{E}activation", "relu")
    keys.drop_unless(f"{D}activation", activation, "one activation for both stacks here")
    for side in (E, D):
        embeddings = f"{side}embeddings."
        width = f"embeddings have d_model = {d_model} channels here"
        keys.drop_unless(f"{embeddings}embedding_dim", d_model, width)
        keys.drop_unless(f"{embeddings}dropout", rate, f"P_drop = {rate} applies to embeddings too")
    norms = [f"{side}layer_norm" for side in (E, D)]
    draft.take_pre_norm({name: keys.word(name, "post") == "pre" for name in norms})


def _take_vocabulary(draft: Draft) -> None:
    keys = draft.keys
    files = [keys.value(f"data.{side}.voc_file") for side in ("src", "trg")]
    tied = "model.tied_embeddings"
    one_file = files[0] is not None and files[0] == files[1]
    draft.take_ties(
        both=tied,
        output="model.tied_softmax",
        joint=keys.flag(tied) or one_file,
        joint_key="data.src.voc_file" if one_file else tied,
    )
    limits = [f"data.{side}.voc_limit" for side in ("src", "trg")]
    stated = {name: keys.integer(name, 0) for name in limits if keys.value(name) is not None}
    draft.take_vocabulary(stated, [str(file) for file in files if file])


def _take_rate(draft: Draft, d_model: int) -> None:
    """Take over the learning rate: two of its schedules are Eq. 3 times a factor."""
    keys = draft.keys
    schedule = keys.word(f"{T}scheduling", "none")
    rate, factor, warmup_key = (f"{T}learning_rate{end}" for end in ("", "_factor", "_warmup"))
    warmup = keys.integer(warmup_key, 4000)
    if schedule in ("noam", "warmupinversesquareroot"):
        keys.take(warmup_key, "warmup", warmup)
        keys.taken(f"{T}scheduling", "Eq. 3 with a factor")
    if schedule == "noam":
        keys.take(factor, "lr_scale", keys.number(factor, 1.0))
        keys.dropped(rate, "noam does not use it")
    elif schedule == "warmupinversesquareroot":
        draft.take_peak_rate(rate, keys.number(rate, 0.005), d_model, warmup)
        keys.dropped(factor, "its schedule does not use it")
    else:
        draft.drop_schedule(schedule, (f"{T}scheduling", rate, factor, warmup_key))
    draft.take_optimizer(f"{T}optimizer", keys.word(f"{T}optimizer", "adam"))
    draft.take_betas(f"{T}adam_betas")
    keys.set("epsilon", 1e-8)


def _take_training(draft: Draft) -> None:
    """Take over the length of training, the size of an update, the loss, and intervals."""
    keys = draft.keys
    size = keys.integer(f"{T}batch_size", 0)
    draft.take_batch(
        {
            f"{T}batch_size": size,
            f"{T}batch_multiplier": keys.integer(f"{T}batch_multiplier", 1),
        },
        tokens=keys.word(f"{T}batch_type", "sentence") == "token" and size > 0,
        others=f"{T}batch_type",
    )
    if keys.number(f"{T}updates", 0) > 0:
        keys.take(f"{T}updates", "steps", keys.integer(f"{T}updates", 0))
    else:
        keys.set("steps", "none", keys.written(f"{T}epochs"))
        keys.taken(f"{T}updates", "none")
    keys.take(f"{T}epochs", "epochs", keys.integer(f"{T}epochs", 3))
    keys.take(f"{T}label_smoothing", "eps_ls", keys.number(f"{T}label_smoothing", 0.0))
    if keys.value(f"{T}clip_grad_norm") is not None:
        keys.take(f"{T}clip_grad_norm", "clip", keys.number(f"{T}clip_grad_norm", 0.0))
    keys.taken(f"{T}loss", "the cross-entropy")
    keys.take_positive(f"{T}random_seed", "seed")
    keys.take_positive(f"{T}validation_freq", "validate_every")
    keys.take_positive(f"{T}logging_freq", "log_every")
    draft.take_kept_checkpoints(f"{T}keep_best_ckpts")
    keys.changed(f"{T}fp16", PRECISION)


def _take_text(draft: Draft) -> None:
    """Take over the texts: two files with one name and the languages as endings."""
    keys = draft.keys
    sides = [str(keys.value(f"data.{side}.lang", side)) for side in ("src", "trg")]
    draft.languages = (sides[0], sides[1])
    kind = keys.word("data.dataset_type", "plain")
    for part, key in (("train", "data.train"), ("valid", "data.dev"), ("test", "data.test")):
        if keys.value(key) is None:
            continue
        if kind == "plain":
            draft.take_text(part, [key], [f"{keys.value(key)}.{side}" for side in sides])
        else:
            keys.dropped(key, f"a data set of type {kind}: write it as two plain files")
    if kind != "plain":
        draft.to_do.append("write the data set as plain files, train.SRC and train.TRG")
    draft.take_length("data.src.max_length", "data.trg.max_length")
    for side in ("src", "trg"):
        keys.taken(f"data.{side}.lang", "the file ending of the text")


TOOLKIT = Toolkit("JoeyNMT", "joeynmt", keys_of_yaml, convert)
