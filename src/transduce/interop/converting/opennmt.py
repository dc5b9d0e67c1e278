"""OpenNMT-py: the YAML of `onmt_train`, of versions 2 and 3."""

from typing import Any

from transduce.errors import BadInput
from transduce.interop.converting.draft import Draft
from transduce.interop.converting.ledger import Given, each
from transduce.interop.converting.reading import flat
from transduce.text.reading import guess_languages

NAME = "OpenNMT-py"
STACKS = {
    "N": ("enc_layers", "dec_layers"),
    "d_model": ("enc_hid_size", "dec_hid_size"),
    "d_ff": ("transformer_ff", "transformer_ff"),
    "h": ("heads", "heads"),
}
USUAL = {"N": 2, "d_model": 500, "d_ff": 2048, "h": 8}  # what the toolkit takes where it is silent
MACHINE = "machines are found and used without settings here; several with torchrun"
COPY = "the softmax alone chooses words here, and attention learns by itself"
RECURRENT = "of recurrent or convolutional models, which this is not"
READING = "sentences are grouped by length and read ahead without settings here"
SUBWORDS = "subwords are learned from raw text here, stored and applied for you"
VOCABULARY = "a dictionary of its own subwords: here they are learned anew"
RESUME = "the same command goes on where it was stopped; another model to begin with is --from"
LEFT = {
    **each(MACHINE, "gpu_ranks gpu_backend gpu_verbose_level master_ip master_port parallel_mode"),
    **each(MACHINE, "num_workers prefetch_factor timeout"),
    **each(COPY, "copy_attn copy_attn_type copy_attn_force reuse_copy_attn coverage_attn"),
    **each(COPY, "copy_loss_by_seqlength lambda_coverage lambda_align alignment_layer"),
    **each(COPY, "alignment_heads full_context_alignment generator_function"),
    **each(RECURRENT, "rnn_type input_feed bridge context_gate cnn_kernel_width brnn"),
    **each(RECURRENT, "global_attention global_attention_function aan_useffn"),
    **each(READING, "bucket_size bucket_size_init bucket_size_increment pool_factor queue_size"),
    **each(READING, "batch_size_multiple max_generator_batches skip_empty_level single_pass"),
    **each("validation fits its batches to the machine here", "valid_batch_size"),
    **each("there is nothing to prepare: train reads the text", "save_data overwrite n_sample"),
    **each("there is nothing to prepare: train reads the text", "dump_samples num_threads"),
    **each("the run folder is --out", "save_model save_format"),
    **each("a run logs to metrics.jsonl", "log_file log_file_level verbose exp exp_host"),
    **each("a run logs to TensorBoard with --tensorboard", "tensorboard tensorboard_log_dir"),
    **each(RESUME, "train_from reset_optim update_vocab"),
    **each("first weights are drawn here as it suits post-norm stacks", "param_init"),
    **each("first weights are drawn here as it suits post-norm stacks", "param_init_glorot"),
    **each(VOCABULARY, "src_vocab tgt_vocab vocab_size_multiple src_words_min_frequency"),
    **each(VOCABULARY, "tgt_words_min_frequency src_vocab_threshold tgt_vocab_threshold"),
    **each(SUBWORDS, "src_subword_model tgt_subword_model src_subword_type tgt_subword_type"),
    **each(SUBWORDS, "src_subword_vocab tgt_subword_vocab onmttok_kwargs src_onmttok_kwargs"),
    **each(SUBWORDS, "tgt_onmttok_kwargs gpt2_pretok transforms"),
    **each("a text is always cut in the one likeliest way here", "subword_nbest subword_alpha"),
    **each("a text is always cut in the one likeliest way here", "src_subword_nbest"),
    **each("a text is always cut in the one likeliest way here", "tgt_subword_nbest"),
    **each("a text is always cut in the one likeliest way here", "src_subword_alpha"),
    **each("a text is always cut in the one likeliest way here", "tgt_subword_alpha"),
    **each("words have no features here", "n_src_feats src_feats_defaults feat_merge"),
    **each("nothing needs scaling here, for bf16 has the range of float32", "loss_scale"),
    **each("bf16 is used without apex here", "apex_opt_level"),
    **each("the mean of the last checkpoints translates here (6.1)", "average_decay"),
    **each("the mean of the last checkpoints translates here (6.1)", "average_every"),
    **each("loss alone stops a run here", "early_stopping_criteria"),
    **each("every head has keys and values of its own here (3.2.2)", "multiquery num_kv"),
    **each("sub-layers stand one after another here (3.1)", "parallel_residual shared_layer_norm"),
    **each("there are no mixtures of experts here", "num_experts num_experts_per_tok"),
}
PREFIXES = {
    "data.": "of a corpus: not known to this converter",
    "lora_": "all weights learn here",
    "quant_": "nothing is quantised while it learns here",
    "freeze_": "all weights learn here",
    "pre_word_vecs_": "embeddings are learned from the start here",
    "rotary_": "there are no rotary positions here",
    "lm_prior_": "no language model helps to train here",
}
DEPARTURES = (
    "Norms stand before each sub-layer, whatever is set, and one at the end; here after (3.1).",
    "Feed-forward layers have dropout inside; 5.4 not. The recipe has what you had.",
    "The logits have a bias for each word; 3.4 has none: logits_bias = true brings it.",
    "Label smoothing gives <pad> a share; here it has none.",
    "The last checkpoint translates unless you average; here the mean of the last five (6.1).",
)


def of_yaml(tree: dict[str, Any]) -> dict[str, Given]:
    """Return the keys of a file of OpenNMT-py, or nothing where it is none."""
    signs = {"save_model", "encoder_type", "enc_layers", "src_vocab", "save_data", "train_steps"}
    if not signs & tree.keys():
        return {}
    given = {key: Given(key, value) for key, value in flat(tree)}
    aliases = {"rnn_size": "hidden_size", "enc_rnn_size": "enc_hid_size"}
    aliases |= {"dec_rnn_size": "dec_hid_size"}
    return {aliases.get(key, key): value for key, value in given.items()}


def convert(draft: Draft) -> None:
    """Fill a draft with what OpenNMT-py's keys say."""
    ledger = draft.ledger
    draft.departures = DEPARTURES
    for side in ("encoder_type", "decoder_type"):
        kind = ledger.word(side, "rnn")
        if kind != "transformer":
            raise BadInput(
                f"{side} = {kind} cannot be converted: expected transformer; the recurrent and "
                "convolutional models here are other ones (presets recurrent and convs2s)"
            )
        ledger.taken(side, "the Transformer")
    d_model = _take_sizes(draft)
    _take_layers(draft)
    ledger.taken("share_vocab", f"joint = {ledger.flag('share_vocab')}")
    draft.take_ties(
        both="share_embeddings",
        output="share_decoder_embeddings",
        joint=ledger.flag("share_vocab"),
        joint_key="share_vocab",
    )
    _take_rate(draft, d_model)
    _take_batch(draft)
    _take_training(draft)
    _take_text(draft)
    stated = {
        name: ledger.whole(name, 0)
        for name in ("src_vocab_size", "tgt_vocab_size")
        if ledger.value(name) is not None
    }
    files = [str(ledger.value(name)) for name in ("src_vocab", "tgt_vocab") if ledger.value(name)]
    draft.take_vocabulary(stated, files)


def _take_sizes(draft: Draft) -> int:
    """Take the sizes over; `layers` and `hidden_size` stand for both stacks where they are set."""
    ledger = draft.ledger
    names = dict(STACKS)
    for setting, name in (("N", "layers"), ("d_model", "hidden_size")):
        if ledger.number(name, -1) > 0:
            for one in STACKS[setting]:
                ledger.left(one, f"{ledger.key(name)} stands for it")
            names[setting] = (name, name)
        else:
            ledger.taken(name, "not set")
    d_model = draft.take_stacks(names, USUAL)
    for name in ("word_vec_size", "src_word_vec_size", "tgt_word_vec_size"):
        ledger.leave_unless(name, d_model, f"embeddings are as wide as d_model, {d_model}")
    return d_model


def _take_layers(draft: Draft) -> None:
    """Take over what a layer is like, and say what it cannot be like."""
    ledger = draft.ledger
    rate = ledger.number("dropout", 0.3)
    for setting in ("P_drop", "relu_dropout"):  # theirs drops inside the feed-forward layers too
        ledger.set(setting, rate, ledger.key("dropout"))
    ledger.taken("dropout", f"P_drop = relu_dropout = {rate}: it is for both there")
    steps = ledger.value("dropout_steps", [0])
    alone = not isinstance(steps, list) or len(steps) == 1
    ledger.leave_unless("dropout_steps", steps if alone else [0], "dropout stays as it is here")
    rate = ledger.number("attention_dropout", 0.1)
    ledger.set("attention_dropout", rate, ledger.key("attention_dropout"))
    ledger.taken("attention_dropout", f"attention_dropout = {rate}")
    draft.take_activation("pos_ffn_activation_fn", "relu")
    positions = "sinusoidal" if ledger.flag("position_encoding") else "none"
    relative = ledger.number("max_relative_positions", 0)
    if relative:
        positions = "sinusoidal"
        draft.to_do.append("positions are relative or rotary there; here sinusoids are added (3.5)")
    ledger.set("positions", positions, ledger.key("max_relative_positions", "position_encoding"))
    ledger.taken("position_encoding", f"positions = {positions}")
    ledger.leave_unless("max_relative_positions", 0, "here sinusoids are added (3.5)")
    same = "SinusoidalInterleaved"
    ledger.leave_unless("position_encoding_type", same, "here sines and cosines take turns (3.5)")
    ledger.leave_unless("layer_norm", "standard", "here is LayerNorm (3.1)")
    ledger.leave_unless("norm_eps", 1e-5, "here it is 1e-5")
    if ledger.flag("add_qkvbias"):
        ledger.set("attention_bias", value=True, origin=ledger.key("add_qkvbias"))
    ledger.taken("add_qkvbias", f"attention_bias = {ledger.flag('add_qkvbias')}")
    ledger.leave_unless("add_ffnbias", usual=True, note="Eq. 2 has biases")
    ledger.leave_unless("model_task", "seq2seq", "here is translation alone")
    ledger.leave_unless("model_type", "text", "here is text alone")
    ledger.leave_unless("data_type", "text", "here is text alone")
    attention = ledger.word("self_attn_type", "scaled-dot")
    usual = attention if attention.startswith("scaled-dot") else "scaled-dot"
    ledger.leave_unless("self_attn_type", usual, "here is Eq. 1")


def _take_rate(draft: Draft, d_model: int) -> None:
    """Take the learning rate over, which is Eq. 3 times a factor where it is noam."""
    ledger = draft.ledger
    method = ledger.word("decay_method", "none")
    rate, warmup = ledger.number("learning_rate", 1.0), ledger.whole("warmup_steps", 4000)
    unused = ("learning_rate_decay", "start_decay_steps", "decay_steps")
    if method in ("noam", "noamwd", "rsqrt"):
        ledger.set("warmup", warmup, ledger.key("warmup_steps"))
        ledger.taken("warmup_steps", f"warmup = {warmup}")
    if method == "rsqrt":
        ledger.take_rate("learning_rate", rate * warmup**-0.5, d_model, warmup)
        ledger.changed("decay_method", "Eq. 3: the same from the warm-up on, which rises here")
    elif method in ("noam", "noamwd"):
        ledger.take("learning_rate", "lr_scale", rate)
        if method == "noam":
            ledger.taken("decay_method", "Eq. 3")
        else:
            ledger.changed("decay_method", "Eq. 3 alone, without the decay beside it")
    else:
        why = f"the rate here is Eq. 3 (5.3), not {method}: lr_scale and warmup are the preset's"
        draft.to_do.append(f"choose lr_scale and warmup: {why}")
        for name in ("decay_method", "learning_rate", "warmup_steps"):
            ledger.left(name, why)
    for name in unused:
        ledger.left(name, "the rate here is Eq. 3 (5.3) and nothing beside it")
    optimizer = ledger.word("optim", "sgd")
    if "adam" in optimizer:
        ledger.taken("optim", "Adam (5.3)")
    else:
        ledger.changed("optim", "Adam (5.3): there is no other here")
        draft.to_do.append(f"its optimizer is {optimizer}, here it is Adam: choose lr_scale anew")
    for name, setting, usual in (("adam_beta1", "beta1", 0.9), ("adam_beta2", "beta2", 0.999)):
        beta = ledger.number(name, usual)
        ledger.set(setting, beta, ledger.key(name))
        ledger.taken(name, f"{setting} = {beta}")
    ledger.set("epsilon", 1e-8)
    ledger.leave_unless("weight_decay", 0.0, "no weights decay here, as in the paper")


def _take_batch(draft: Draft) -> None:
    """Take the size of an update over: the tokens of a GPU times those that add up to it."""
    ledger = draft.ledger
    pieces, size = ledger.whole("accum_count", 1), ledger.whole("batch_size", 64)
    gpus = draft.hints.gpus or max(1, ledger.whole("world_size", 1))
    names = ("batch_size", "batch_type", "accum_count", "world_size")
    if ledger.word("batch_type", "sents") == "tokens":
        how = f"batch_tokens = {size * pieces * gpus} = {size} * {pieces} * {gpus} GPUs"
        found = [ledger.key(name) for name in names if name != "batch_type"]
        ledger.set("batch_tokens", size * pieces * gpus, " * ".join(filter(None, found)))
        for name in names:
            ledger.changed(name, f"{how}; there padding counts, here words alone do")
    else:
        for name in names:
            ledger.left(name, "updates are counted in tokens here: batch_tokens")
        draft.to_do.append(
            f"{size * pieces * gpus} sentences make an update there: choose batch_tokens"
        )
    counts = ledger.value("accum_steps", [0])
    usual = counts if not isinstance(counts, list) or len(counts) == 1 else [0]
    ledger.leave_unless("accum_steps", usual, "an update is as large at the end as at the start")
    ledger.leave_unless("normalization", "tokens", "the loss is a mean over tokens here")


def _take_training(draft: Draft) -> None:
    """Take over how long, how smooth, how often."""
    ledger = draft.ledger
    for name, setting, usual in (
        ("train_steps", "steps", 100_000),
        ("valid_steps", "validate_every", 10_000),
        ("save_checkpoint_steps", "save_every", 5_000),
    ):
        ledger.set(setting, ledger.whole(name, usual), ledger.key(name))
        ledger.taken(name, f"{setting} = {ledger.whole(name, usual)}")
    for name, setting in (("label_smoothing", "eps_ls"), ("max_grad_norm", "clip")):
        number = ledger.number(name, 5.0 if setting == "clip" else 0.0)
        ledger.set(setting, number, ledger.key(name))
        ledger.taken(name, f"{setting} = {number}")
    draft.take_positive("report_every", "log_every")
    draft.take_positive("seed", "seed")
    draft.take_positive("early_stopping", "patience")
    draft.take_kept("keep_checkpoint")
    ledger.changed("model_dtype", "precision = auto: bf16 on GPUs that have it, weights in float32")
    filtered = "filtertoolong" in str(ledger.value("transforms", "")) or any(
        name.endswith(".transforms") and "filtertoolong" in str(found.value)
        for name, found in ledger.given.items()
    )
    if filtered:
        draft.take_length("src_seq_length", "tgt_seq_length")
    for name in ("src_seq_length", "tgt_seq_length"):
        if name not in ledger.entries:
            ledger.left(name, "no transform of it, filtertoolong, is used")
    draft.take_search("beam_size", "beam", ledger.whole("beam_size", 5))
    if ledger.word("length_penalty", "avg") == "wu":
        draft.take_search("alpha", "alpha", ledger.number("alpha", 0.0))
        ledger.taken("length_penalty", "((5+|Y|)/6)^alpha (6.1)")
    for name in ("alpha", "length_penalty"):
        if name not in ledger.entries:
            ledger.left(name, "the penalty here is ((5+|Y|)/6)^alpha (6.1): wu")


def _take_text(draft: Draft) -> None:
    """Take the text over: one corpus to train with, and the one named valid."""
    ledger = draft.ledger
    named = list(dict.fromkeys(name.split(".")[1] for name in ledger.given if name.count(".") == 2))
    corpora = [name for name in named if name != "valid" and ledger.value(f"data.{name}.path_src")]
    for corpus in named:
        ledger.left(f"data.{corpus}.weight", "every pair counts once in an epoch here")
        ledger.left(f"data.{corpus}.transforms", SUBWORDS)
        names = [f"data.{corpus}.path_{side}" for side in ("src", "tgt")]
        files = [str(ledger.value(name, "")) for name in names]
        part = "valid" if corpus == "valid" else "train"
        if not all(files):
            continue
        if part == "train" and len(corpora) > 1:
            for name in names:
                ledger.left(name, "one of several corpora: join them")
        else:
            draft.take_text(part, names, files)
    if len(corpora) > 1:
        joined = [
            [str(ledger.value(f"data.{corpus}.path_{side}")) for corpus in corpora]
            for side in ("src", "tgt")
        ]
        draft.languages = guess_languages(joined[0][0], joined[1][0])
        for files, language in zip(joined, draft.languages, strict=True):
            draft.to_do.append(f"join the corpora: cat {' '.join(files)} > train.{language}")
