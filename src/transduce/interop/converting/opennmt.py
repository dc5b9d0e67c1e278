"""OpenNMT-py: the YAML of `onmt_train`, of versions 2 and 3."""

from typing import Any

from transduce.errors import BadInput
from transduce.interop.converting import notes
from transduce.interop.converting.draft import Draft, Toolkit
from transduce.interop.converting.keys import Given, each
from transduce.interop.converting.notes import DEVICES, READING
from transduce.interop.converting.reading import flat
from transduce.text.languages import guess_languages

STACKS = {
    "N": ("enc_layers", "dec_layers"),
    "d_model": ("enc_hid_size", "dec_hid_size"),
    "d_ff": ("transformer_ff", "transformer_ff"),
    "h": ("heads", "heads"),
}
DEFAULTS = {"N": 2, "d_model": 500, "d_ff": 2048, "h": 8}
COPY = "words are chosen by the softmax alone here, and attention is not supervised"
RECURRENT = "for recurrent or convolutional models, which this is not"
SAMPLED = "a text is always segmented in its most likely way here"
REASONS = {
    **each(DEVICES, "gpu_ranks gpu_backend gpu_verbose_level master_ip master_port parallel_mode"),
    **each(DEVICES, "num_workers prefetch_factor timeout"),
    **each(COPY, "copy_attn copy_attn_type copy_attn_force reuse_copy_attn coverage_attn"),
    **each(COPY, "copy_loss_by_seqlength lambda_coverage lambda_align alignment_layer"),
    **each(COPY, "alignment_heads full_context_alignment generator_function"),
    **each(RECURRENT, "rnn_type input_feed bridge context_gate cnn_kernel_width brnn"),
    **each(RECURRENT, "global_attention global_attention_function aan_useffn"),
    **each(READING, "bucket_size bucket_size_init bucket_size_increment pool_factor queue_size"),
    **each(READING, "batch_size_multiple max_generator_batches skip_empty_level single_pass"),
    **each("validation chooses its batch size itself", "valid_batch_size"),
    **each(
        "no preprocessing is needed: train reads the text",
        "save_data overwrite n_sample dump_samples num_threads",
    ),
    **each(notes.OUT, "save_model save_format"),
    **each(notes.LOGS, "log_file log_file_level verbose exp exp_host"),
    **each(notes.LOGS, "tensorboard tensorboard_log_dir"),
    **each(notes.RESUME, "train_from reset_optim update_vocab"),
    **each(notes.INITIAL_WEIGHTS, "param_init param_init_glorot"),
    **each(notes.VOCABULARY, "src_vocab tgt_vocab vocab_size_multiple src_words_min_frequency"),
    **each(notes.VOCABULARY, "tgt_words_min_frequency src_vocab_threshold tgt_vocab_threshold"),
    **each(notes.SUBWORDS, "src_subword_model tgt_subword_model src_subword_type tgt_subword_type"),
    **each(notes.SUBWORDS, "src_subword_vocab tgt_subword_vocab onmttok_kwargs src_onmttok_kwargs"),
    **each(notes.SUBWORDS, "tgt_onmttok_kwargs gpt2_pretok transforms"),
    **each(SAMPLED, "subword_nbest src_subword_nbest tgt_subword_nbest"),
    **each(SAMPLED, "subword_alpha src_subword_alpha tgt_subword_alpha"),
    **each("words have no features here", "n_src_feats src_feats_defaults feat_merge"),
    **each(notes.LOSS_SCALE, "loss_scale"),
    **each("bf16 is used without apex here", "apex_opt_level"),
    **each("the mean of the last checkpoints translates (6.1)", "average_decay average_every"),
    **each("early stopping follows the loss here", "early_stopping_criteria"),
    **each("every head has its own keys and values here (3.2.2)", "multiquery num_kv"),
    **each("sub-layers are sequential here (3.1)", "parallel_residual shared_layer_norm"),
    **each("there is no mixture of experts here", "num_experts num_experts_per_tok"),
}
FIXED: dict[str, tuple[Any, str]] = {
    "max_relative_positions": (0, "sinusoids are added to embeddings here (3.5)"),
    "position_encoding_type": ("SinusoidalInterleaved", "sines and cosines alternate here (3.5)"),
    "layer_norm": ("standard", "LayerNorm is used here (3.1)"),
    "norm_eps": (1e-5, "it is 1e-5 here"),
    "add_ffnbias": (True, "Eq. 2 has biases"),
    "model_task": ("seq2seq", "only translation is converted"),
    "model_type": ("text", "only text is translated here"),
    "data_type": ("text", "only text is translated here"),
    "weight_decay": (0.0, "there is no weight decay here, as in the paper"),
    "normalization": ("tokens", notes.LOSS),
}
PREFIXES = {
    "data.": "an option of a corpus, not known to this converter",
    "lora_": notes.FROZEN,
    "quant_": "there is no quantisation in training here",
    "freeze_": notes.FROZEN,
    "pre_word_vecs_": notes.EMBEDDINGS,
    "rotary_": "positions are not converted to rotary ones",
    "lm_prior_": "training uses no language model here",
}
DEPARTURES = (
    "Norms always precede each sub-layer, with one at the end; here they follow it (3.1).",
    "Feed-forward layers have dropout inside, unlike 5.4; the recipe keeps it.",
    "The logits have a bias for each word; 3.4 has none: logits_bias = true adds it.",
    "Label smoothing gives <pad> a share; here it has none.",
    "The last checkpoint translates by default; here the mean of the last five (6.1).",
)


def keys_of_yaml(tree: dict[str, Any]) -> dict[str, Given]:
    """Return the keys of an OpenNMT-py file; nothing if it is none."""
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
    """Take over dropout, activation, positions and biases of the layers."""
    keys = draft.keys
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
        gpus=draft.hints.gpus or max(1, keys.integer("world_size", 1)),
        gpus_origin="--gpus" if draft.hints.gpus else keys.written("world_size"),
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
    keys.changed("model_dtype", notes.PRECISION)
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
        keys.dropped(f"data.{corpus}.transforms", notes.SUBWORDS)
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


TOOLKIT = Toolkit(
    name="OpenNMT-py",
    keys_of_yaml=keys_of_yaml,
    convert=convert,
    fixed=FIXED,
    reasons=REASONS,
    prefixes=PREFIXES,
    departures=DEPARTURES,
)
