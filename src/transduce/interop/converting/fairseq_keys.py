"""What fairseq's keys are for that have no place here, and where fairseq leaves the paper."""

from transduce.interop.converting.ledger import each

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
SOFTMAX = "every word has its own row in one softmax here"
MACHINE = "machines are found and used without settings here; several with torchrun"
SCALING = "nothing needs scaling here, for bf16 has the range of float32"
CHECKPOINTS = "checkpoints are kept by updates here: save_every, keep, average"
LOGS = "a run logs to metrics.jsonl, and to TensorBoard with --tensorboard"
RESUME = "the same command goes on where it was stopped; another model to begin with is --from"
VALIDATION = "each validation has loss, perplexity and BLEU here: validate_every, validate_bleu"
READING = "sentences are grouped by length and read ahead without settings here"
LEFT = {
    **each(SOFTMAX, "adaptive_softmax_cutoff adaptive_softmax_dropout adaptive_softmax_factor"),
    **each(SOFTMAX, "adaptive_input tie_adaptive_weights tie_adaptive_proj char_inputs"),
    **each("there is no norm on embeddings here, as in the paper", "layernorm_embedding"),
    **each("embeddings are scaled by sqrt(d_model) here (3.4)", "no_scale_embedding"),
    **each("no layers are dropped here", "encoder_layerdrop decoder_layerdrop"),
    **each("no layers are dropped here", "encoder_layers_to_keep decoder_layers_to_keep"),
    **each("embeddings are learned from the start here", "encoder_embed_path decoder_embed_path"),
    **each("each decoder layer attends to itself, then to the source (3.1)", "no_cross_attention"),
    **each("each decoder layer attends to itself, then to the source", "cross_self_attention"),
    **each("all layers are as wide as d_model here", "decoder_input_dim decoder_output_dim"),
    **each("there is no norm after the last layer here", "no_decoder_final_norm"),
    **each(
        "nothing is moved out of the GPU's memory here: recompute = true", "offload_activations"
    ),
    **each(MACHINE, "ddp_backend distributed_backend distributed_init_method distributed_port"),
    **each(MACHINE, "distributed_no_spawn distributed_rank device_id local_rank nprocs_per_node"),
    **each(MACHINE, "find_unused_parameters bucket_cap_mb cpu tpu empty_cache_freq"),
    **each(MACHINE, "num_workers data_buffer_size required_batch_size_multiple"),
    **each(SCALING, "fp16_init_scale fp16_scale_window fp16_scale_tolerance min_loss_scale"),
    **each(SCALING, "threshold_loss_scale fp16_no_flatten_grads fp16_adam_stats"),
    **each(CHECKPOINTS, "save_interval keep_last_epochs keep_best_checkpoints no_save"),
    **each(CHECKPOINTS, "no_epoch_checkpoints no_last_checkpoints no_save_optimizer_state"),
    **each(
        "the mean of the last checkpoints translates; select = best is the best of them, by loss",
        "best_checkpoint_metric maximize_best_checkpoint_metric",
    ),
    **each("the run folder is --out", "save_dir"),
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
    **each("the rate falls with Eq. 3 and nothing stops it", "stop_min_lr"),
    **each("the loss is a mean over tokens here", "sentence_avg"),
    **each("Adam is torch's own, fused", "use_old_adam"),
    **each("longer sentences are dropped in training here", "truncate_source"),
    **each("translation of one language into another is all there is", "task"),
    **each("code of your own is never loaded", "user_dir"),
    **each(
        "text is raw here: subwords are learned, stored and applied for you",
        "bpe bpe_codes tokenizer post_process sentencepiece_model scoring",
    ),
    **each(
        "the length penalty here is the paper's, ((5+|Y|)/6)^alpha; fairseq has |Y|^lenpen: "
        "choose --alpha anew",
        "generate.lenpen",
    ),
    **each("the run translates with its own weights", "generate.path"),
}
PREFIXES = {
    "preprocess.": "there is nothing to prepare: text is raw here",
    "generate.": "an option of translating there: see transduce translate --help",
    "quant_noise": "nothing is quantised while it learns here",
    "pipeline": MACHINE,
    "base_": "there are no mixtures of experts here",
    "ema": "the mean of the last checkpoints translates here (6.1)",
    "bmuf": MACHINE,
    "data ": "a second folder of data: join the texts instead",
}
DEPARTURES = (
    "Sinusoids run from position 2, to other wavelengths; here from 0, by the formula of 3.5.",
    "Projections of attention have biases; 3.2.2 has none: attention_bias = true brings them.",
    "Label smoothing gives <pad> a share and the right word none; here it is the other way.",
    "Outputs begin with </s>; here with <s>.",
    "Update n has the rate of step n - 1, the first one 0; here that of step n.",
    "Matrices begin as Xavier drew them; here those before a residual sum begin smaller.",
    "One checkpoint translates unless you average; here the mean of the last five (6.1).",
)
