"""Names of the settings in other toolkits, which --set, recipes and Python accept."""

# Aliases by setting, separated by spaces. Only names with exactly the same meaning are listed.
ALIASES = {
    "N": "layers num_layers n_layers encoder_layers num_encoder_layers enc_layers",
    "N_decoder": "decoder_layers num_decoder_layers dec_layers",
    "d_model": "hidden_size embed_dim embedding_dim model_dim emb_size",
    "d_ff": "ffn_dim ffn_embed_dim ff_size dim_feedforward transformer_ff intermediate_size",
    "h": "heads num_heads n_heads nhead attention_heads num_attention_heads",
    "d_k": "head_dim",
    "P_drop": "dropout dropout_rate",
    "attention_dropout": "attn_dropout",
    "relu_dropout": "activation_dropout ffn_dropout",
    "attention_bias": "add_qkvbias",
    "activation": "activation_fn activation_function",
    "positions": "position_encoding positional_encoding",
    "kernel": "kernel_size kernel_width",
    "tie": "tie_embeddings tied_embeddings",
    "max_len": "max_length max_seq_length max_source_positions max_position_embeddings",
    "steps": "max_steps max_updates max_update train_steps training_steps num_steps",
    "epochs": "max_epochs max_epoch num_train_epochs",
    "seconds": "max_seconds",
    "vocabulary": "vocab_size vocabulary_size vocab",
    "joint": "share_vocab joined_dictionary",
    "batch_tokens": "max_tokens tokens_per_batch",
    "eps_ls": "label_smoothing smoothing",
    "beta1": "adam_beta1",
    "beta2": "adam_beta2",
    "epsilon": "adam_eps adam_epsilon eps",
    "warmup": "warmup_steps warmup_updates",
    "rdrop": "rdrop_alpha",
    "ema": "ema_decay",
    "clip": "clip_norm max_grad_norm grad_clip gradient_clip_val",
    "save_every": "save_steps save_interval_updates",
    "keep": "keep_last keep_checkpoints save_total_limit",
    "average": "average_checkpoints",
    "validate_every": "valid_steps eval_steps validation_interval",
    "patience": "early_stopping_patience",
    "log_every": "logging_steps log_interval report_every",
    "seed": "random_seed",
    "threads": "num_threads cpu_threads",
    "precision": "dtype",
    "recompute": "gradient_checkpointing checkpoint_activations",
    "beam": "beam_size num_beams beam_width",
    "alpha": "length_penalty lenpen",
    "nbest": "n_best num_return_sequences",
    "sample": "sampling do_sample",
    "temperature": "sampling_temp",
    "top_k": "sampling_topk",
    "top_p": "sampling_topp nucleus",
    "draw": "sampling_seed",
}
# Names from other toolkits that have no equivalent here, and what to set instead.
_RATE = (
    "is an absolute learning rate in other toolkits. Here the rate follows Eq. 3 from d_model and "
    "warmup, and lr_scale multiplies it: set lr_scale (1 is the paper's rate) and warmup"
)
_SENTENCES = (
    "counts sentences in other toolkits. Here batches are counted in tokens: set batch_tokens, "
    "the tokens of an update on each side over all GPUs (the paper: 25000)"
)
_ACCUMULATION = (
    "multiplies the batch in other toolkits. Here batch_tokens is the whole update: set "
    "batch_tokens to the product, and accumulate to the number of micro-batches"
)
_PRECISION = "is set as precision here: precision=bf16, precision=float32 or precision=auto"
NO_EQUIVALENT = {
    **dict.fromkeys(("lr", "learning_rate", "max_lr", "peak_lr"), _RATE),
    **dict.fromkeys(("batch_size", "sentences", "train_batch_size"), _SENTENCES),
    **dict.fromkeys(("update_freq", "gradient_accumulation_steps", "accum_count"), _ACCUMULATION),
    **dict.fromkeys(("fp16", "bf16", "amp"), _PRECISION),
}
