"""The settings of a training run; the defaults are the paper's."""

from dataclasses import dataclass
from typing import Literal

from transduce.settings.base import FRACTION, POSITIVE, Settings, at_least, setting


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig(Settings):
    """How to train (paper 5); the defaults are the base model's."""

    # Limits: the first one reached ends the run.
    steps: int | None = setting(
        None,
        "training steps; whichever of steps, epochs and seconds is reached first ends the run",
        "5.2",
    )
    epochs: int | None = setting(None, "passes over the data")
    seconds: float | None = setting(None, "training time in seconds")
    timed: Literal["all", "steps"] = setting(
        "all", "time that `seconds` limits; steps: without validation and saving"
    )
    # Data.
    vocabulary: int | None = setting(
        None, "vocabulary size; none: chosen by the size of the corpus", "5.1"
    )
    joint: bool = setting(True, "one vocabulary for both languages", "5.1")
    subwords: Literal["bpe", "wordpiece", "sentencepiece"] = setting(
        "bpe", "kind of subwords; sentencepiece is for imported models only", "5.1"
    )
    batch_tokens: int = setting(25_000, "tokens per update on each side, over all GPUs", "5.1")
    accumulate: int | None = setting(
        1, "micro-batches per update in each process; none: as few as fit into memory"
    )
    max_skew: float = setting(
        4.0, "drop pairs in which one side is longer than max_skew times the other, plus 10 tokens"
    )
    data_temperature: float = setting(
        1.0,
        "with several pairs of languages: a pair with n sentences per epoch is sampled in "
        "proportion to n^(1/T); above 1, small pairs are seen more often",
    )
    bpe_dropout: float = setting(
        0.0, "probability of skipping each merge of BPE in training text, new in every epoch"
    )
    spans: float = setting(
        0.0,
        "share of training pairs whose spans, such as URLs and numbers, are replaced by sentinels "
        "on both sides, so that the model learns to copy them",
    )
    terms: float = setting(
        0.0, "share of training pairs with the translation of some terms shown in the source"
    )
    # Loss, optimizer and learning rate.
    eps_ls: float = setting(0.1, "label smoothing", "5.4")
    optimizer: Literal["adam", "muon"] = setting(
        "adam", "adam; muon: Muon for the matrices in the layers, Adam for all other weights", "5.3"
    )
    beta1: float = setting(0.9, "Adam's beta1", "5.3")
    beta2: float = setting(0.98, "Adam's beta2", "5.3")
    epsilon: float = setting(1e-9, "Adam's epsilon", "5.3")
    schedule: Literal["inverse-sqrt", "constant"] = setting(
        "inverse-sqrt", "learning rate after the warm-up; constant: it keeps its peak", "5.3"
    )
    warmup: int = setting(4000, "steps of rising learning rate (Eq. 3)", "5.3")
    warmup_cap: float = setting(0.25, "largest fraction of the run used for warmup; 1: no limit")
    ramp: int | None = setting(
        None, "steps of rising learning rate, if fewer than warmup; then constant until warmup"
    )
    lr_scale: float = setting(1.0, "factor on the learning rate of Eq. 3", "5.3")
    residual_lr: float = setting(
        1.0,
        "factor on the learning rate of each sub-layer's last matrix; if you set lr_scale above 1, "
        "the default is 1 / lr_scale^2, because deep models may diverge otherwise",
        "5.3",
    )
    position_lr: float = setting(
        1.0, "factor on the learning rate of learned positions (positions = learned)", "3.5"
    )
    cooldown: float = setting(
        0.0, "fraction of the run, at its end, in which the learning rate falls to 0"
    )
    clip: float = setting(0.0, "clip the gradient to this norm; 0: no clipping, as in the paper")
    # Regularisation beyond dropout and label smoothing, which the paper does without.
    rdrop: float = setting(
        0.0, "R-Drop: weight alpha of the divergence of two passes with dropout; published: 5"
    )
    simcut: float = setting(
        0.0, "SimCut: weight alpha of the divergence from a pass with words cut off; published: 3"
    )
    cutoff: float = setting(0.05, "SimCut: probability of cutting off a word")
    word_dropout: float = setting(
        0.0, "probability of dropping a word's embedding, on both sides; its position remains"
    )
    weight_decay: float = setting(
        0.0, "decoupled weight decay (AdamW) of matrices; 0: Adam, as in the paper"
    )
    ema: float = setting(
        0.0, "decay of a moving average of the weights, such as 0.999, for select = auto or ema"
    )
    # Checkpoints, validation and the log.
    save_every: int = setting(1000, "steps between checkpoints")
    keep: int = setting(5, "number of newest checkpoints to keep")
    average: int = setting(5, "number of checkpoints to average", "6.1")
    select: Literal["auto", "average", "best", "ema"] = setting(
        "auto",
        "final weights; average: mean of the last checkpoints; best: lowest validation loss; "
        "ema: the moving average; "
        "auto: the mean if those checkpoints are in the last tenth of the run, else the last "
        "checkpoint or a shorter mean, by validation loss, with which the moving average competes",
        "6.1",
    )
    validate_every: int = setting(1000, "steps between validations")
    validate_bleu: int = setting(200, "validation sentences to translate for BLEU")
    patience: int = setting(0, "stop after this many validations without improvement; 0: never")
    log_every: int = setting(50, "steps between log lines")
    # Machine.
    seed: int = setting(1, "random seed")
    threads: int | None = setting(
        None, "CPU threads; none: the fastest, by measurement; changes the last bits of results"
    )
    precision: Literal["auto", "bf16", "float32"] = setting(
        "auto", "precision of training; auto: bf16 on GPUs that support it"
    )
    kernels: bool = setting(True, "use our Triton kernels on a GPU; false: PyTorch's")
    recompute: bool = setting(
        False, "recompute layers in the backward pass: less memory, a third more time"
    )
    deterministic: bool = setting(False, "same bits in every run (slower), on one GPU or on a CPU")

    def check(self) -> None:
        """Refuse training runs that are impossible."""
        self._check_each("batch_tokens warmup save_every keep average", at_least(1))
        self._check_each("validate_every log_every max_skew", at_least(1))
        self._check_each("steps epochs seconds vocabulary ramp threads accumulate", POSITIVE)
        self._check_each("epsilon lr_scale residual_lr position_lr", POSITIVE)
        self._check_each("eps_ls beta1 beta2 bpe_dropout", FRACTION)
        self._check_each("clip validate_bleu patience", at_least(0))
        self._check_each("data_temperature", at_least(1))
        self._check_each("rdrop simcut weight_decay", at_least(0))
        self._check_each("cutoff word_dropout ema", FRACTION)
        self._require(0 <= self.cooldown <= 1, "cooldown", "a fraction from 0 to 1")
        self._require(0 < self.warmup_cap <= 1, "warmup_cap", "a fraction above 0, up to 1")
        self._require(self.seed >= 0, "seed", "a whole number from 0 to 2^63 - 1")
        self._require(
            not self.bpe_dropout or self.subwords == "bpe",
            "bpe_dropout",
            f"0 with subwords = {self.subwords!r}: only bpe has merges to skip",
        )
        for name in ("spans", "terms"):
            self._require(0 <= getattr(self, name) <= 1, name, "a fraction from 0 to 1")
            self._require(
                not getattr(self, name) or self.subwords != "sentencepiece",
                name,
                "0 with subwords = 'sentencepiece', which has no markers",
            )
        self._require(self.average <= self.keep, "average", f"at most keep, which is {self.keep}")
        default = type(self).__dataclass_fields__["cutoff"].default
        no_effect = f"{default}: it has no effect without simcut"
        self._require(self.simcut > 0 or self.cutoff == default, "cutoff", no_effect)
        if self.simcut:
            self._require(not self.rdrop, "rdrop", "0 with simcut: only one of them can be used")
            self._require(
                not self.word_dropout, "word_dropout", "0 with simcut, which drops words by cutoff"
            )
        if self.optimizer == "muon":
            no_effect = "1: Muon updates these matrices, and needs no smaller rate for them"
            self._require(self.residual_lr == 1, "residual_lr", no_effect)
        if self.select == "ema":
            self._require(self.ema > 0, "ema", "a decay above 0, such as 0.999, for select = 'ema'")
