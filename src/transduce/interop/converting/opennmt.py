"""OpenNMT-py: the YAML of `onmt_train`, of versions 2 and 3."""

from typing import Any

from transduce.errors import BadInput
from transduce.interop.converting.draft import PRECISION, Draft, Toolkit
from transduce.interop.converting.keys import Given
from transduce.interop.converting.reading import flat
from transduce.text.languages import guess_languages

STACKS = {
    "N": ("enc_layers", "dec_layers"),
    "d_model": ("enc_hid_size", "dec_hid_size"),
    "d_ff": ("transformer_ff", "transformer_ff"),
    "h": ("heads", "heads"),
}
DEFAULTS = {"N": 2, "d_model": 500, "d_ff": 2048, "h": 8}


def keys_of_yaml(tree: dict[str, Any]) -> dict[str, Given]:
    """Return the keys of an OpenNMT-py file; empty for any other file."""
    signs = {"save_model", "encoder_type", "enc_layers", "src_vocab", "save_data", "train_steps"}
    if not signs & tree.keys():
        return {}
    given = {key: Given(key, value) for key, value in flat(tree)}
    aliases = {"rnn_size": "hidden_size", "enc_rnn_size": "enc_hid_size"}
    aliases |= {"dec_rnn_size": "dec_hid_size"}
    return {aliases.get(key, key): value for key, value in given.items()}


def convert(draft: Draft) -> None:
    """Fill in a draft from OpenNMT-py's keys."""
    keys = draft.keys
    for side in ("encoder_type", "decoder_type"):
        kind = keys.word(side, "rnn")
        if kind != "transformer":
            raise BadInput(
                f"{side} = {kind} cannot be converted: expected transformer; the recurrent and "
                "convolutional models here are different ones (presets recurrent and convs2s)"
            )
        keys.taken(side, "the Transformer")
    d_model = _take_sizes(draft)
    _take_layers(draft)
    keys.taken("share_vocab", f"joint = {keys.flag('share_vocab')}")
    draft.take_ties(
        both="share_embeddings",
        output="share_decoder_embeddings",
        joint=keys.flag("share_vocab"),
        joint_key="share_vocab",
    )
    _take_rate(draft, d_model)
    _take_batch(draft)
    _take_training(draft)
    _take_text(draft)
    _take_search(draft)
    stated = {
        name: keys.integer(name, 0)
        for name in ("src_vocab_size", "tgt_vocab_size")
        if keys.value(name) is not None
    }
    files = [str(keys.value(name)) for name in ("src_vocab", "tgt_vocab") if keys.value(name)]
    draft.take_vocabulary(stated, files)


def _take_sizes(draft: Draft) -> int:
    """Take over the sizes; `layers` and `hidden_size`, where set, apply to both stacks."""
    keys = draft.keys
    names = dict(STACKS)
    for setting, name in (("N", "layers"), ("d_model", "hidden_size")):
        if keys.number(name, -1) > 0:
            for replaced in STACKS[setting]:
                keys.dropped(replaced, f"{keys.written(name)} replaces it")
            names[setting] = (name, name)
        else:
            keys.taken(name, "not set")
    d_model = draft.take_sizes(names, DEFAULTS)
    for name in ("word_vec_size", "src_word_vec_size", "tgt_word_vec_size"):
        keys.drop_unless(name, d_model, f"embeddings have d_model = {d_model} channels here")
    return d_model


def _take_layers(draft: Draft) -> None:
    """Take over dropout, activation, norms, positions and biases of the layers."""
    keys = draft.keys
    keys.set("pre_norm", value=True, origin=f"all Transformers of {keys.toolkit} are pre-norm")
    rate = keys.number("dropout", 0.3)
    for setting in ("P_drop", "relu_dropout"):  # it also applies inside the feed-forward layers
        keys.set(setting, rate, keys.written("dropout"))
    keys.taken("dropout", f"P_drop = relu_dropout = {rate}: it is for both there")
    _drop_unless_constant(draft, "dropout_steps", "dropout is constant here")
    rate = keys.number("attention_dropout", 0.1)
    keys.take("attention_dropout", "attention_dropout", rate)
    draft.take_activation("pos_ffn_activation_fn")
    positions = "sinusoidal" if keys.flag("position_encoding") else "none"
    if keys.number("max_relative_positions", 0):
        positions = "sinusoidal"
        draft.to_do.append("positions are relative or rotary there; here sinusoids are added (3.5)")
    origin = keys.written("max_relative_positions", "position_encoding")
    keys.set("positions", positions, origin)
    keys.taken("position_encoding", f"positions = {positions}")
    if keys.flag("add_qkvbias"):
        keys.set("attention_bias", value=True, origin=keys.written("add_qkvbias"))
    keys.taken("add_qkvbias", f"attention_bias = {keys.flag('add_qkvbias')}")
    if keys.word("self_attn_type", "scaled-dot").startswith("scaled-dot"):
        keys.taken("self_attn_type", "Eq. 1")
    else:
        keys.dropped("self_attn_type", "attention is Eq. 1 here")


def _drop_unless_constant(draft: Draft, name: str, note: str) -> None:
    """Drop the steps of a schedule that has more than one of them."""
    steps = draft.keys.value(name, [0])
    constant = not isinstance(steps, list) or len(steps) == 1
    draft.keys.drop_unless(name, steps if constant else [0], note)


def _take_rate(draft: Draft, d_model: int) -> None:
    """Take over the learning rate: the schedule noam is Eq. 3 times a factor."""
    keys = draft.keys
    method = keys.word("decay_method", "none")
    rate, warmup = keys.number("learning_rate", 1.0), keys.integer("warmup_steps", 4000)
    if method in ("noam", "noamwd", "rsqrt"):
        keys.take("warmup_steps", "warmup", warmup)
    if method == "rsqrt":
        draft.take_peak_rate("learning_rate", rate * warmup**-0.5, d_model, warmup)
        keys.changed("decay_method", "Eq. 3: the same after the warm-up, which rises here")
    elif method == "noam":
        keys.take("learning_rate", "lr_scale", rate)
        keys.taken("decay_method", "Eq. 3")
    elif method == "noamwd":
        keys.take("learning_rate", "lr_scale", rate)
        keys.changed("decay_method", "Eq. 3, without the additional decay")
    else:
        draft.drop_schedule(method, ("decay_method", "learning_rate", "warmup_steps"))
    for name in ("learning_rate_decay", "start_decay_steps", "decay_steps"):
        keys.dropped(name, "the rate follows Eq. 3 alone (5.3)")
    optimizer = keys.word("optim", "sgd")
    draft.take_optimizer("optim", optimizer)
    if "adam" not in optimizer:
        draft.to_do.append(f"the optimizer is {optimizer}, here Adam: choose another lr_scale")
    keys.take("adam_beta1", "beta1", keys.number("adam_beta1", 0.9))
    keys.take("adam_beta2", "beta2", keys.number("adam_beta2", 0.999))
    keys.set("epsilon", 1e-8)


def _take_batch(draft: Draft) -> None:
    """Take over the size of an update: tokens per GPU, accumulated, times the GPUs."""
    keys = draft.keys
    draft.take_batch(
        {
            "batch_size": keys.integer("batch_size", 64),
            "accum_count": keys.integer("accum_count", 1),
        },
        tokens=keys.word("batch_type", "sents") == "tokens",
        gpus=draft.gpus or max(1, keys.integer("world_size", 1)),
        gpus_origin="--gpus" if draft.gpus else keys.written("world_size"),
        others="batch_type world_size",
    )
    _drop_unless_constant(draft, "accum_steps", "the size of an update is constant here")


def _take_training(draft: Draft) -> None:
    """Take over the length of training, the loss, and intervals."""
    keys = draft.keys
    keys.take("train_steps", "steps", keys.integer("train_steps", 100_000))
    keys.take("valid_steps", "validate_every", keys.integer("valid_steps", 10_000))
    keys.take("save_checkpoint_steps", "save_every", keys.integer("save_checkpoint_steps", 5_000))
    keys.take("label_smoothing", "eps_ls", keys.number("label_smoothing", 0.0))
    keys.take("max_grad_norm", "clip", keys.number("max_grad_norm", 5.0))
    keys.take_positive("report_every", "log_every")
    keys.take_positive("seed", "seed")
    keys.take_positive("early_stopping", "patience")
    draft.take_kept_checkpoints("keep_checkpoint")
    keys.changed("model_dtype", PRECISION)
    lengths = ("src_seq_length", "tgt_seq_length")
    if any(
        name.split(".")[-1] == "transforms" and "filtertoolong" in str(given.value)
        for name, given in keys.given.items()
    ):
        draft.take_length(*lengths)
    for name in lengths:
        if name not in keys.entries:
            keys.dropped(name, "its transform, filtertoolong, is not used")


def _take_search(draft: Draft) -> None:
    """Take over the search; its length penalty `wu` is the paper's."""
    keys = draft.keys
    draft.take_search("beam_size", "beam", keys.integer("beam_size", 5))
    if keys.word("length_penalty", "avg") == "wu":
        draft.take_search("alpha", "alpha", keys.number("alpha", 0.0))
        keys.taken("length_penalty", "((5+|Y|)/6)^alpha (6.1)")
    else:
        for name in ("alpha", "length_penalty"):
            keys.dropped(name, "the penalty is ((5+|Y|)/6)^alpha here (6.1): wu")


def _take_text(draft: Draft) -> None:
    """Take over the texts: one training corpus, and the corpus named valid."""
    keys = draft.keys
    names = list(dict.fromkeys(name.split(".")[1] for name in keys.given if name.count(".") == 2))
    corpora = [name for name in names if name != "valid" and keys.value(f"data.{name}.path_src")]
    for corpus in names:
        keys.dropped(f"data.{corpus}.weight", "every pair counts once per epoch here")
        keys.dropped(f"data.{corpus}.transforms", "text is raw here, and not transformed")
        paths = [f"data.{corpus}.path_{side}" for side in ("src", "tgt")]
        files = [str(keys.value(path, "")) for path in paths]
        if not all(files):
            continue
        if corpus != "valid" and len(corpora) > 1:
            for path in paths:
                keys.dropped(path, "one of several corpora: concatenate them")
        else:
            draft.take_text("valid" if corpus == "valid" else "train", paths, files)
    if len(corpora) > 1:
        sides = [
            [str(keys.value(f"data.{corpus}.path_{side}")) for corpus in corpora]
            for side in ("src", "tgt")
        ]
        draft.languages = guess_languages(sides[0][0], sides[1][0])
        draft.names_text = True
        for files, language in zip(sides, draft.languages, strict=True):
            draft.to_do.append(f"concatenate the corpora: cat {' '.join(files)} > train.{language}")


TOOLKIT = Toolkit("OpenNMT-py", "opennmt", keys_of_yaml, convert)
