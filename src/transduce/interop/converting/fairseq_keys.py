"""fairseq's flags, the reasons why keys are dropped, and its departures from the paper."""

from transduce.interop.converting.keys import each
from transduce.interop.converting.notes import (
    DEVICES,
    EMBEDDINGS,
    LOGS,
    LOSS,
    LOSS_SCALE,
    OUT,
    READING,
    RESUME,
    SCALED,
    SELECTION,
    SUBWORDS,
)

# Options that take no value on the command line.
_FLAGS = (
    "adaptive_input amp azureml_logging bf16 broadcast_buffers char_inputs checkpoint_activations "
    "combine_valid_subsets cpu cpu_offload cross_self_attention decoder_learned_pos "
    "decoder_normalize_before dict_only disable_validation distributed_no_spawn "
    "encoder_learned_pos encoder_normalize_before eval_bleu eval_bleu_print_samples "
    "eval_tokenized_bleu export fast_stat_sync find_unused_parameters fix_batches_to_gpus fp16 "
    "fp16_adam_stats fp16_no_flatten_grads fp32_reduce_scatter gradient_as_bucket_view "
    "grouped_shuffling ignore_unused_valid_subsets joined_dictionary layernorm_embedding "
    "load_alignments maximize_best_checkpoint_metric memory_efficient_bf16 memory_efficient_fp16 "
    "no_cross_attention no_decoder_final_norm no_early_stop no_epoch_checkpoints "
    "no_last_checkpoints no_progress_bar no_reshard_after_forward no_save no_save_optimizer_state "
    "no_scale_embedding no_token_positional_embeddings offload_activations only_source "
    "pipeline_model_parallel print_step profile quiet report_accuracy reset_dataloader "
    "reset_logging reset_lr_scheduler reset_meters reset_optimizer retain_dropout sacrebleu "
    "sampling score_reference sentence_avg share_all_embeddings share_decoder_input_output_embed "
    "skip_invalid_size_inputs_valid_test skip_remainder_batch store_ema suppress_crashes "
    "tie_adaptive_proj tie_adaptive_weights tpu truncate_source unnormalized use_bmuf "
    "use_old_adam use_sharded_state write_checkpoints_asynchronously"
)
BOOLEAN = frozenset(_FLAGS.split())
SOFTMAX = "one softmax over all words here"
CHECKPOINTS = "checkpoints are saved by updates here: save_every, keep, average"
CROSS = "each decoder layer attends to itself, then to the source (3.1)"
VALIDATION = "each validation reports loss, perplexity and BLEU: validate_every, validate_bleu"
REASONS = {
    **each(SOFTMAX, "adaptive_softmax_cutoff adaptive_softmax_dropout adaptive_softmax_factor"),
    **each(SOFTMAX, "adaptive_input tie_adaptive_weights tie_adaptive_proj char_inputs"),
    **each("embeddings are not normalised here, as in the paper", "layernorm_embedding"),
    **each(SCALED, "no_scale_embedding"),
    **each(
        "there is no layer dropout here",
        "encoder_layerdrop decoder_layerdrop encoder_layers_to_keep decoder_layers_to_keep",
    ),
    **each(EMBEDDINGS, "encoder_embed_path decoder_embed_path"),
    **each(CROSS, "no_cross_attention cross_self_attention"),
    **each("all layers are as wide as d_model here", "decoder_input_dim decoder_output_dim"),
    **each("there is no norm after the last layer here", "no_decoder_final_norm"),
    **each("activations are recomputed instead: recompute = true", "offload_activations"),
    **each(DEVICES, "ddp_backend distributed_backend distributed_init_method distributed_port"),
    **each(DEVICES, "distributed_no_spawn distributed_rank device_id local_rank nprocs_per_node"),
    **each(DEVICES, "find_unused_parameters bucket_cap_mb cpu tpu empty_cache_freq"),
    **each(DEVICES, "num_workers data_buffer_size required_batch_size_multiple"),
    **each(LOSS_SCALE, "fp16_init_scale fp16_scale_window fp16_scale_tolerance min_loss_scale"),
    **each(LOSS_SCALE, "threshold_loss_scale fp16_no_flatten_grads fp16_adam_stats"),
    **each(CHECKPOINTS, "save_interval keep_last_epochs keep_best_checkpoints no_save"),
    **each(CHECKPOINTS, "no_epoch_checkpoints no_last_checkpoints no_save_optimizer_state"),
    **each(SELECTION, "best_checkpoint_metric maximize_best_checkpoint_metric"),
    **each(OUT, "save_dir"),
    **each(LOGS, "log_format log_file tensorboard_logdir wandb_project no_progress_bar profile"),
    **each(RESUME, "restore_file finetune_from_model reset_dataloader reset_lr_scheduler"),
    **each(RESUME, "reset_meters reset_optimizer optimizer_overrides continue_once"),
    **each(VALIDATION, "eval_bleu eval_bleu_args eval_bleu_detok eval_bleu_detok_args"),
    **each(VALIDATION, "eval_bleu_remove_bpe eval_bleu_print_samples eval_tokenized_bleu"),
    **each(VALIDATION, "validate_interval validate_after_updates disable_validation"),
    **each(VALIDATION, "max_tokens_valid batch_size_valid max_valid_steps report_accuracy"),
    **each(VALIDATION, "fixed_validation_seed skip_invalid_size_inputs_valid_test"),
    **each(READING, "dataset_impl train_subset valid_subset left_pad_source left_pad_target"),
    **each(READING, "num_batch_buckets required_seq_len_multiple curriculum grouped_shuffling"),
    **each("the rate follows Eq. 3 to the end", "stop_min_lr"),
    **each(LOSS, "sentence_avg"),
    **each("torch's fused Adam is used", "use_old_adam"),
    **each("longer sentences are left out of training here", "truncate_source"),
    **each("only translation is converted", "task"),
    **each("user code is never loaded", "user_dir"),
    **each(
        SUBWORDS,
        "bpe bpe_codes tokenizer post_process sentencepiece_model scoring",
    ),
    **each(
        "the length penalty here is the paper's, ((5+|Y|)/6)^alpha; fairseq has |Y|^lenpen: "
        "choose another --alpha",
        "generate.lenpen",
    ),
    **each("the run translates with its own weights", "generate.path"),
}
PREFIXES = {
    "preprocess.": "no preprocessing is needed: text is raw here",
    "generate.": "a search option: see transduce translate --help",
    "quant_noise": "there is no quantisation in training here",
    "pipeline": DEVICES,
    "base_": "there is no mixture of experts here",
    "ema": "the mean of the last checkpoints translates here (6.1)",
    "bmuf": DEVICES,
    "data ": "a second data folder: concatenate the texts instead",
}
DEPARTURES = (
    "Sinusoids begin at position 2 and have other wavelengths; here they are those of 3.5.",
    "Attention projections have biases; 3.2.2 has none: attention_bias = true adds them.",
    "Label smoothing gives <pad> a share and the reference word none; here it is the reverse.",
    "Outputs begin with </s>; here with <s>.",
    "Update n has the learning rate of step n - 1 (0 at first); here that of step n.",
    "Weights have Xavier initialisation; here those before a residual sum begin smaller.",
    "One checkpoint translates by default; here the mean of the last five (6.1).",
)
