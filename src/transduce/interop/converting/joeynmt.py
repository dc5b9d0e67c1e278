"""JoeyNMT: its YAML, of version 2 and, where keys were named otherwise, of version 1."""

from typing import Any

from transduce.errors import BadInput
from transduce.interop.converting.draft import PRE_NORM, Draft
from transduce.interop.converting.ledger import Given, each
from transduce.interop.converting.reading import flat

NAME = "JoeyNMT"
E, D, T, S = "model.encoder.", "model.decoder.", "training.", "testing."
STACKS = {
    "N": (f"{E}num_layers", f"{D}num_layers"),
    "d_model": (f"{E}hidden_size", f"{D}hidden_size"),
    "d_ff": (f"{E}ff_size", f"{D}ff_size"),
    "h": (f"{E}num_heads", f"{D}num_heads"),
}
# What the toolkit takes where it is silent.
USUAL = {"N": 8, "N of the decoder": 4, "d_model": 512, "d_ff": 2048, "h": 4}
USUAL |= {"h of the decoder": 8}
RESUME = "the same command goes on where it was stopped; another model to begin with is --from"
WEIGHTS = "first weights are drawn here as it suits post-norm stacks"
MACHINE = "machines are found and used without settings here; several with torchrun"
LOWER = "text stays as it is here: lower it before"
SUBWORDS = "subwords are learned from raw text here, stored and applied for you"
SEARCH = "an option of translating there: see transduce translate --help"
VOCABULARY = "a dictionary of its own subwords: here they are learned anew"
LEFT = {
    **each("a name for people: the run folder is named by --out", "name joeynmt_version"),
    **each("the run folder is --out", "model_dir training.model_dir training.overwrite"),
    **each(MACHINE, "use_cuda num_workers training.use_cuda training.num_workers"),
    **each(RESUME, "training.load_model training.load_encoder training.load_decoder"),
    **each(RESUME, "training.reset_best_ckpt training.reset_scheduler training.reset_optimizer"),
    **each(RESUME, "training.reset_iter_state testing.load_model"),
    **each(WEIGHTS, "model.initializer model.init_gain model.init_weight model.bias_initializer"),
    **each(WEIGHTS, "model.embed_initializer model.embed_init_gain model.embed_init_weight"),
    **each("the rate falls with Eq. 3, and has no floor", "training.learning_rate_min"),
    **each("the rate falls with Eq. 3 and not by this", "training.decrease_factor"),
    **each("single values are not clipped here, the norm is: clip", "training.clip_grad_val"),
    **each(
        "samples of the validation set are written without asking", "training.print_valid_sents"
    ),
    **each(
        "the mean of the last checkpoints translates; select = best is the best of them, by loss",
        "training.early_stopping_metric training.eval_metric",
    ),
    **each("each validation has loss, perplexity and BLEU here", "testing.eval_metrics"),
    **each("transduce score says BLEU, chrF and TER with signatures", "testing.sacrebleu_cfg"),
    **each("all of the text is used", "data.sample_train_subset data.sample_dev_subset"),
    **each("the special tokens are fixed here", "data.special_symbols"),
}
PREFIXES = {
    "testing.sacrebleu": "transduce score says BLEU, chrF and TER with signatures",
    "testing.": SEARCH,
    "data.special_symbols": "the special tokens are fixed here",
    "data.dataset_cfg": "text comes from files here: transduce data gets published sets",
}
DEPARTURES = (
    "Attention weights and feed-forward layers have dropout; 5.4 not. The recipe has what you had.",
    "Projections of attention have biases; 3.2.2 has none: attention_bias = true brings them.",
    "Label smoothing gives the right word no share; here it has one.",
    "The best checkpoint translates unless you average; here the mean of the last five (6.1).",
)


def of_yaml(tree: dict[str, Any]) -> dict[str, Given]:
    """Return the keys of a file of JoeyNMT, or nothing where it is none."""
    model = tree.get("model")
    if not isinstance(model, dict) or not {"data", "training"} <= tree.keys():
        return {}
    if not isinstance(model.get("encoder"), dict) or not isinstance(model.get("decoder"), dict):
        return {}
    given = {key: Given(key, value) for key, value in flat(tree)}
    moved = {"random_seed": f"{T}random_seed", "fp16": f"{T}fp16"}  # where 2.3 has them
    moved |= {"data.src": "data.src.lang", "data.trg": "data.trg.lang"}  # as 1 has them
    moved |= {f"{S}alpha": f"{S}beam_alpha", f"{T}keep_last_ckpts": f"{T}keep_best_ckpts"}
    for side in ("src", "trg"):
        moved[f"data.{side}_vocab"] = f"data.{side}.voc_file"
        for what in ("voc_limit", "voc_min_freq"):
            moved[f"data.{side}_{what}"] = f"data.{side}.{what}"
    return {
        moved[key] if key in moved and moved[key] not in given else key: value
        for key, value in given.items()
    }


def convert(draft: Draft) -> None:
    """Fill a draft with what JoeyNMT's keys say."""
    ledger = draft.ledger
    draft.departures = DEPARTURES
    for side in (E, D):
        kind = ledger.word(f"{side}type", "recurrent")
        if kind != "transformer":
            raise BadInput(
                f"{side}type = {kind} cannot be converted: expected transformer; the recurrent "
                "models here are other ones (preset recurrent)"
            )
        ledger.taken(f"{side}type", "the Transformer")
    d_model = draft.take_stacks(STACKS, USUAL)
    _take_layers(draft, d_model)
    _take_vocabulary(draft)
    _take_rate(draft, d_model)
    _take_training(draft)
    _take_text(draft)
    _take_search(draft)


def _take_layers(draft: Draft, d_model: int) -> None:
    """Take over what a layer is like, and say what it cannot be like."""
    ledger = draft.ledger
    rate = ledger.number(f"{E}dropout", 0.1)
    for setting in ("P_drop", "attention_dropout", "relu_dropout"):
        ledger.set(setting, rate, ledger.key(f"{E}dropout"))
    ledger.taken(f"{E}dropout", f"P_drop = attention_dropout = relu_dropout = {rate}, as there")
    ledger.leave_unless(f"{D}dropout", rate, f"one rate for both stacks here: {rate}")
    draft.take_activation(f"{E}activation", "relu")
    same = ledger.word(f"{E}activation", "relu")
    ledger.leave_unless(f"{D}activation", same, "one function for both stacks here")
    for side in (E, D):
        ledger.leave_unless(
            f"{side}layer_norm", "post", "the norm stands after each sub-layer here (paper 3.1)"
        )
        ledger.leave_unless(f"{side}freeze", usual=False, note="all weights learn here")
        of = f"{side}embeddings."
        ledger.leave_unless(f"{of}embedding_dim", d_model, f"embeddings are {d_model} wide here")
        ledger.leave_unless(
            f"{of}scale", usual=True, note="embeddings are scaled by sqrt(d_model) here (3.4)"
        )
        ledger.leave_unless(f"{of}dropout", rate, f"the sums of embeddings have P_drop too, {rate}")
        ledger.leave_unless(f"{of}freeze", usual=False, note="all weights learn here")
        ledger.left(f"{of}load_pretrained", "embeddings are learned from the start here")
    if any(ledger.word(f"{side}layer_norm", "") == "pre" for side in (E, D)):
        draft.to_do.append(PRE_NORM)


def _take_vocabulary(draft: Draft) -> None:
    ledger = draft.ledger
    files = [ledger.value(f"data.{side}.voc_file") for side in ("src", "trg")]
    tied = "model.tied_embeddings"
    one_file = files[0] is not None and files[0] == files[1]
    draft.take_ties(
        both=tied,
        output="model.tied_softmax",
        joint=ledger.flag(tied) or one_file,
        joint_key="data.src.voc_file" if one_file else tied,
    )
    stated = {}
    for side in ("src", "trg"):
        name = f"data.{side}.voc_limit"
        if ledger.value(name) is not None:
            stated[name] = ledger.whole(name, 0)
        ledger.left(f"data.{side}.voc_file", VOCABULARY)
        ledger.left(f"data.{side}.voc_min_freq", VOCABULARY)
    draft.take_vocabulary(stated, [str(file) for file in files if file])


def _take_rate(draft: Draft, d_model: int) -> None:
    """Take the learning rate over, which is Eq. 3 times a factor for two of its schedules."""
    ledger = draft.ledger
    schedule = ledger.word(f"{T}scheduling", "none")
    warmup = ledger.whole(f"{T}learning_rate_warmup", 4000)
    if schedule in ("noam", "warmupinversesquareroot"):
        ledger.set("warmup", warmup, ledger.key(f"{T}learning_rate_warmup"))
        ledger.taken(f"{T}learning_rate_warmup", f"warmup = {warmup}")
        ledger.taken(f"{T}scheduling", "Eq. 3 with a factor")
    if schedule == "noam":
        factor = ledger.number(f"{T}learning_rate_factor", 1.0)
        ledger.set("lr_scale", factor, ledger.key(f"{T}learning_rate_factor"))
        ledger.taken(f"{T}learning_rate_factor", f"lr_scale = {factor}")
        ledger.left(f"{T}learning_rate", "noam does not use it")
    elif schedule == "warmupinversesquareroot":
        peak = ledger.number(f"{T}learning_rate", 0.005)
        ledger.take_rate(f"{T}learning_rate", peak, d_model, warmup)
        ledger.left(f"{T}learning_rate_factor", "its schedule does not use it")
    else:
        why = f"the rate here is Eq. 3 (5.3), not {schedule}: lr_scale and warmup are the preset's"
        draft.to_do.append(f"choose lr_scale and warmup: {why}")
        for name in ("scheduling", "learning_rate", "learning_rate_factor", "learning_rate_warmup"):
            ledger.left(f"{T}{name}", why)
    optimizer = ledger.word(f"{T}optimizer", "adam")
    if optimizer in ("adam", "adamw"):
        ledger.taken(f"{T}optimizer", "Adam (5.3)")
    else:
        ledger.changed(f"{T}optimizer", "Adam (5.3): there is no other here")
    ledger.take_betas(f"{T}adam_betas")
    ledger.set("epsilon", 1e-8)
    ledger.leave_unless(f"{T}weight_decay", 0.0, "no weights decay here, as in the paper")


def _take_training(draft: Draft) -> None:
    """Take over how long, how large an update, how smooth, how often."""
    ledger = draft.ledger
    size = ledger.whole(f"{T}batch_size", 0)
    pieces = ledger.whole(f"{T}batch_multiplier", 1)
    names = [f"{T}{name}" for name in ("batch_size", "batch_multiplier", "batch_type")]
    if ledger.word(f"{T}batch_type", "sentence") == "token" and size:
        found = [ledger.key(name) for name in names[:2]]
        ledger.set("batch_tokens", size * pieces, " * ".join(filter(None, found)))
        how = f"batch_tokens = {size * pieces} = {size} * {pieces}; there padding counts"
    else:
        how = ""
        draft.to_do.append(f"{size * pieces} sentences make an update there: choose batch_tokens")
    for name in names:
        if how:
            ledger.changed(name, f"{how}, here words alone do")
        else:
            ledger.left(name, "updates are counted in tokens here: batch_tokens")
    if ledger.number(f"{T}updates", 0) > 0:
        ledger.take(f"{T}updates", "steps", ledger.whole(f"{T}updates", 0))
    else:
        ledger.set("steps", "none", ledger.key(f"{T}epochs"))
        ledger.taken(f"{T}updates", "none")
    epochs = ledger.whole(f"{T}epochs", 3)
    ledger.set("epochs", epochs, ledger.key(f"{T}epochs"))
    ledger.taken(f"{T}epochs", f"epochs = {epochs}")
    eps_ls = ledger.number(f"{T}label_smoothing", 0.0)
    ledger.set("eps_ls", eps_ls, ledger.key(f"{T}label_smoothing"))
    ledger.taken(f"{T}label_smoothing", f"eps_ls = {eps_ls}")
    if ledger.value(f"{T}clip_grad_norm") is not None:
        ledger.take(f"{T}clip_grad_norm", "clip", ledger.number(f"{T}clip_grad_norm", 0.0))
    ledger.taken(f"{T}loss", "the cross-entropy")
    ledger.leave_unless(f"{T}normalization", "tokens", "the loss is a mean over tokens here")
    ledger.leave_unless(f"{T}shuffle", usual=True, note="pairs are shuffled for every epoch here")
    draft.take_positive(f"{T}random_seed", "seed")
    draft.take_positive(f"{T}validation_freq", "validate_every")
    draft.take_positive(f"{T}logging_freq", "log_every")
    draft.take_kept(f"{T}keep_best_ckpts")
    ledger.left(
        f"{T}patience", "it lowers the rate there, which Eq. 3 does here; set patience anew"
    )
    ledger.changed(f"{T}fp16", "precision = auto: bf16 on GPUs that have it, weights in float32")


def _take_text(draft: Draft) -> None:
    """Take the text over: two files by one name and the endings of their languages."""
    ledger = draft.ledger
    sides = [str(ledger.value(f"data.{side}.lang", side)) for side in ("src", "trg")]
    draft.languages = (sides[0], sides[1])
    kind = ledger.word("data.dataset_type", "plain")
    ledger.leave_unless("data.dataset_type", "plain", "text comes from two plain files here")
    for part, key in (("train", "train"), ("valid", "dev"), ("test", "test")):
        name = f"data.{key}"
        if ledger.value(name) is None:
            continue
        if kind == "plain":
            draft.take_text(part, [name], [f"{ledger.value(name)}.{side}" for side in sides])
        else:
            ledger.left(name, f"a data set of kind {kind}: write it as two plain files")
    draft.take_length("data.src.max_length", "data.trg.max_length")
    ledger.left("data.max_sent_length", "words of another program: here max_len counts subwords")
    for side in ("src", "trg"):
        of = f"data.{side}."
        ledger.taken(f"{of}lang", "the ending of the text")
        ledger.leave_unless(f"{of}lowercase", usual=False, note=LOWER)
        ledger.left(f"{of}min_length", "blank lines alone are dropped here")
        ledger.left(f"{of}normalize", "text stays as it is here but for Unicode's NFC")
        for name in [name for name in ledger.given if name.startswith((f"{of}tok", f"{of}level"))]:
            ledger.left(name, SUBWORDS)
    ledger.leave_unless("data.lowercase", usual=False, note=LOWER)
    ledger.left("data.level", SUBWORDS)


def _take_search(draft: Draft) -> None:
    """Take the search over, whose length penalty is the paper's there too."""
    ledger = draft.ledger
    draft.take_search(f"{S}beam_size", "beam", ledger.whole(f"{S}beam_size", 1))
    draft.take_search(f"{S}beam_alpha", "alpha", max(0.0, ledger.number(f"{S}beam_alpha", -1)))
    if ledger.word("data.dataset_type", "plain") != "plain":
        draft.to_do.append("write the data set as plain files, train.SRC and train.TRG")
