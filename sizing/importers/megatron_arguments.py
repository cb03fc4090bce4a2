"""Megatron-LM's arguments by what they are here: aliases, defaults, and those that change no figure."""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, Any] = {
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 1,
    "context_parallel_size": 1,
    "expert_model_parallel_size": 1,
    "use_distributed_optimizer": False,
    "optimizer": "adam",
    "sgd_momentum": 0.9,
    "optimizer_offload_fraction": 1.0,
    "ckpt_format": "torch_dist",
    "async_save": False,
    "fp16": False,
    "fp8_recipe": "delayed",
    "sequence_parallel": False,
    "normalization": "LayerNorm",
    "position_embedding_type": "learned_absolute",
    "make_vocab_size_divisible_by": 128,
    "moe_layer_freq": 1,
    "moe_router_topk": 2,
    "moe_token_dispatcher_type": "allgather",
    "kv_lora_rank": 32,
    "qk_head_dim": 128,
    "qk_pos_emb_head_dim": 64,
    "v_head_dim": 128,
}
"""Defaults of arguments that matter. Source: megatron/training/arguments.py, megatron/training/config and
core/transformer/transformer_config.py of the version that the importer states."""

ALIASES = {
    "num_moe_experts": "num_experts",
    "model_parallel_size": "tensor_model_parallel_size",
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "persistent_save_interval": "save_interval",
    "ckpt_fully_parallel_save_deprecated": "ckpt_fully_parallel_save",
    "fully_parallel_save": "ckpt_fully_parallel_save",
    "fully_parallel_load": "ckpt_fully_parallel_load",
    "num_virtual_pipeline_stages_per_pipeline_rank": "num_virtual_stages_per_pipeline_rank",
    "expert_parallel_size": "expert_model_parallel_size",
}
"""Former names, and those of YAML files, which are fields of core's classes."""

_BLOCKS = """
    launcher.* rollout_* sglang_* ENV_VARS.* METRICS* GOLDEN* TEST_TYPE LAUNCHER BEFORE_SCRIPT AFTER_SCRIPT MODE
    SCRIPT ckpt_step log_* no_log_* wandb_* tensorboard_* rl_* grpo_* langrl_* dino_* eval_* inference_* inprocess_*
    ft_* one_logger_* fim_* otel_* profile* pytorch_profiler_* rotary_* rope_* yarn_* lr lr_* min_lr* decoupled_*
    adam_* lion_* muon_* soap_* adaptive_muon_* mup_* tokenizer_* hf_tokenizer_* ddp_* nccl_* flight_recorder_*
    straggler_* rerun_* error_injection_* check_for_* cuda_graph_* logits_* loss_scale* bert_* biencoder_*
    retriever_* ict_* indexer_* vision_* swin_* null_tokenizer_* *_data_path moe_routing_trace_* moe_paged_stash*
    moe_hybridep_* tiktoken_* train_iters train_samples train_sync_interval exit_* manual_gc* logits_*
    iter_per_epoch weight_decay* start_weight_decay end_weight_decay data_path data_cache_path data_args_path
"""
"""Launchers, logging, data, tokenizers, schedules, evaluation, inference and fault tolerance."""

_ARGUMENTS = """
    DATA_PATH DDP_impl abort_on_unmet_fused_kernel_constraints accumulate_allreduce_grads_in_fp32
    activation_func_clamp_value activation_func_fp8_input_store adlr_autoresume adlr_autoresume_interval
    advantage_estimator align_grad_reduce allow_ambiguous_pad_tokens allow_transformer_engine app_tag_run_name
    app_tag_run_version apply_chat_template apply_layernorm_1p apply_query_key_layer_scaling
    apply_residual_connection_post_layernorm apply_rope_fusion apply_wd_to_qk_layernorm async_ckpt_cpu_priority
    async_ckpt_io_priority async_ckpt_use_cpu_shm async_strategy attention_dropout attention_mask_type
    attention_softmax_in_fp32 attr auto_detect_ckpt_format autocast_dtype balance_data barrier_with_L1_time
    batch_invariant_backend batch_invariant_mode batch_p2p_comm batch_p2p_sync beta_fast beta_slow
    bias_activation_fusion bias_dropout_fusion cache_mla_latents calc_ft_timeouts calculate_per_token_loss
    chat_template check_weight_hash_across_dp_replicas_interval checkpoint_in_cpu
    ckpt_convert_update_legacy_dist_opt_format ckpt_drop_redundant_extra_state
    ckpt_fully_parallel_load_exchange_algo ckpt_fully_parallel_load_per_rank_objects
    ckpt_fully_parallel_load_process_group ckpt_fully_parallel_save_process_group
    ckpt_load_validate_sharding_integrity ckpt_pg_tensors_cache_create ckpt_pg_tensors_cache_path classes_fraction
    clip_grad clone_scatter_output_in_embedding coc_fused_kernel codecarbon_dir colocate config_logger_dir
    consumed_train_samples consumed_valid_samples context_parallel_algo contigious_checkpointing cp_comm_type
    cpu_offloading_double_buffering cpu_offloading_retain_pinned_cpu_buffers create_all_gather_group curr_iteration
    curriculum_learning custom_generate_function_path custom_partition custom_rm_path custom_token_counting data_dir
    data_efficiency_curriculum_learning data_impl data_parallel_random_init data_parallel_size
    data_per_class_fraction data_sharding dataloader_defer_npy_index_mmap dataloader_fast_cache_load
    dataloader_inter_document_masking dataloader_save dataloader_type dataset dataset_config dataset_provider
    dataset_ratios_path deallocate_pipeline_outputs decode_only_cuda_graphs decoder_seq_length
    decrease_batch_size_if_needed deepscale deepscale_config deepspeed_mpi defer_embedding_wgrad_compute
    delay_offload_until_cuda_graph delay_wgrad_compute delta_offload_bytes_across_pp_ranks deterministic_mode
    disable_bf16_reduced_precision_matmul disable_gloo_process_groups disable_jit_fuser disable_msc
    disable_parameter_transpose_cache disable_straggler_on_startup disable_symmetric_registration
    dist_ckpt_save_pre_mcore_014 dist_ckpt_strictness dist_ckpt_workers
    distrib_optim_fully_reshardable_mem_efficient distribute_checkpointed_activations distribute_saved_activations
    distributed_backend distributed_timeout_minutes distributed_timeout_seconds_after_init do_test do_train do_valid
    dsa_indexer_k_norm_epsilon dsa_indexer_k_norm_fp32 dsa_indexer_loss_coeff dsa_indexer_rope_interleaved
    dsa_indexer_rotate_activation dsa_indexer_scoring_relu dsa_indexer_skip_topk_offset dsa_indexer_topk_freq
    dsa_indexer_use_sparse_loss dump_param_to_param_group_map dynamic_sampling_filter_path embedding_init_method
    embedding_init_method_std embedding_path empty_unused_memory_level enable_autocast enable_chunked_prefill
    enable_cuda_graph enable_experimental enable_expert_tensor_parallelism enable_ft_package enable_hf2mg_convert
    enable_msc enable_thinking entropy_coef eod_mask_loss ep_overlap_early_attn_memory_release epochs eps_clip
    eps_clip_high experimental_attention_variant_loss_scale_func external_cuda_graph extra_valid_dataset
    fake_process_group filter_warnings finalize_model_grads_func fine_grained_offloading_max_inflight_offloads
    finetune first_last_layers_bf16 flash_attention_version flash_decode fn fp16_lm_cross_entropy fp4_param
    fp4_param_gather fp4_quantizer_factory fp8_amax_compute_algo fp8_amax_history_len fp8_dot_product_attention
    fp8_interval fp8_margin fp8_multi_head_attention fp8_output_proj fp8_param fp8_param_gather
    fp8_quantizer_factory fp8_wgrad fsdp_db_use_persist_buf_on_alloc_fail fsdp_double_buffer
    fsdp_manual_registration full_validation fused_residual_rmsnorm fused_single_qkv_rope gdp_cutedsl_kernel
    gdp_num_chunk_states_to_recompute gdp_num_householder gemm_gradient_accumulation_fusion glu_linear_offset
    gpu_sniff_test_interval grad_norm_skip_threshold grad_reduce_in_bf16 grad_scale_func grad_sync_func
    gradient_accumulation_fusion greedy gtp_expert_remat_nccl_ub gtp_remat_nccl_ub gtp_remat_opt_in_modules
    gtp_remat_reduce_scatter_with_fp32_accumulation handler_name head_lr_mult hf_checkpoint hidden_dropout
    high_priority_a2a_comm_stream high_priority_stream_groups hysteresis img_h img_w incoming_requests_per_sec
    incoming_requests_per_step inference init_method init_method_std init_method_xavier_uniform
    init_model_with_meta_device initial_loss_scale input_key is_instruction_dataset is_sft iteration
    iterations_to_skip keep_fp8_transpose_cache kill_switch_path kitchen_attention_backend kitchen_config_file
    kitchen_recipe_number kl_coef kl_loss_coef kl_loss_type label_key layernorm_epsilon
    layernorm_zero_centered_gamma lazy_mpu_init legacy_tokenizer load load_iteration load_main_params_from_ckpt
    load_optim load_rng local_rank logging_level loss_type mamba_head_dim mamba_inference_conv_states_dtype
    mamba_inference_ssm_states_dtype mamba_num_groups mamba_num_heads mamba_state_dim
    mamba_training_ssm_states_dtype mask_factor mask_prob mask_type masked_softmax_fusion max_padding_length
    max_seqlen_per_dp_cp_rank max_tokens_to_oom mean_noise_span_length
    megatron_fsdp_enable_fine_grained_param_gather megatron_fsdp_grad_comm_dtype megatron_fsdp_main_grads_dtype
    megatron_fsdp_max_pool_double_buffer megatron_fsdp_version memory_efficient_layer_norm memory_keys
    memory_snapshot_path merge_file metadata_path mhc_init_gating_factor mhc_recompute_layer_num
    mhc_sinkhorn_iterations microbatch_group_size_per_virtual_pipeline_stage microbatch_group_size_per_vp_stage
    mid_level_dataset_surplus min_loss_scale min_offloaded_tensor_size mla_down_proj_fusion mla_fa_without_pad
    mla_mm_split mlp_chunks_for_prefill mlp_chunks_for_training mock_data model_provider model_type model_type_hf
    modules_to_filter moe_alltoall_overlap_comm moe_apply_probs_on_input moe_aux_loss_coeff moe_combine_bwd_dtype
    moe_deepep_num_sms moe_dispatch_fwd_dtype moe_enable_deepep moe_enable_routing_replay moe_expert_capacity_factor
    moe_expert_rank_capacity_factor moe_flex_dispatcher_backend moe_flex_dispatcher_num_sms moe_grad_scale_func
    moe_grouped_gemm moe_input_jitter_eps moe_mlp_glu_interleave_size moe_ncclep_zero_copy
    moe_pad_expert_input_to_capacity moe_pad_experts_for_cuda_graph_inference moe_per_layer_logging
    moe_permutation_async_comm moe_permute_fusion moe_permute_fusion_into_hybridep moe_router_bias_update_rate
    moe_router_dtype moe_router_enable_expert_bias moe_router_force_biased moe_router_force_load_balancing
    moe_router_fusion moe_router_group_topk moe_router_load_balancing_type moe_router_num_groups
    moe_router_padding_for_fp8 moe_router_padding_for_quantization moe_router_pre_softmax
    moe_router_quantile_balancing_ema moe_router_score_function moe_router_topk_limited_devices
    moe_router_topk_scaling_factor moe_shared_expert_glu_interleave_size moe_shared_expert_overlap
    moe_token_dispatcher_type moe_token_drop_policy moe_token_dropping moe_use_grouped_tensor moe_z_loss_coeff
    mrope_section mscale mscale_all_dim mtp_detach_heads mtp_grad_scale_func mtp_hsm mtp_loss_scaling_factor
    mtp_mem_efficient_logits multiple_validation_sets n_samples_per_eval_prompt n_samples_per_prompt name neat_pack
    no_align_param_gather no_async_tensor_model_parallel_allreduce no_barrier_with_level_1_timing
    no_bias_dropout_fusion no_bias_gelu_fusion no_bias_swiglu_fusion no_check_for_nan_in_loss_and_grad
    no_ckpt_fully_parallel_load no_contiguous_buffers_in_local_ddp no_create_attention_mask_in_dataloader
    no_data_sharding no_gradient_accumulation_fusion no_gradient_reduce_div_fusion no_initialization no_load_optim
    no_load_rng no_masked_softmax_fusion no_mmap_bin_files no_one_logger no_overlap_p2p_communication
    no_pad_to_seq_lengths no_persist_layer_norm no_pin_cpu_grads no_pin_cpu_params no_pipeline_parallel
    no_query_key_layer_scaling no_rope_freq no_rope_fusion no_save_rng no_scatter_gather_tensors_in_pipeline
    no_shared_fs no_shared_storage no_sync_func no_use_layer_wise_param_layout
    no_use_tokenizer_model_from_checkpoint_args no_weight_decay_cond_type no_yarn_correction_range_round_to_int
    noise_density non_persistent_local_ckpt_algo norm_epsilon norm_init_weight norm_target_loss norm_topk_prob
    num_channels num_classes num_dataset_builder_threads num_epoch num_fewshot num_layers_at_end_in_bf16
    num_layers_at_start_in_bf16 num_microbatches_with_partial_activation_checkpoints num_rollout
    num_speculative_tokens num_tokens_to_generate num_workers nvtx_ranges object_storage_cache_path onnx_safe
    openai_gelu optimizer_cuda_graph original_max_position_embeddings out_seq_length output_bert_embeddings
    output_layer_init_method output_logit_dtype output_meg_ds_ratio_file output_path over_sampling_batch_size
    overlap_cpu_optimizer_d2h_h2d overlap_dispatch_backward_with_experts_wgrad overlap_p2p_comm
    overlap_p2p_comm_warmup_flush overlap_p2p_communication overlap_p2p_communication_warmup_flush
    overlap_param_gather_with_optimizer_step override_ckpt_iteration override_opt_param_scheduler pack
    param_sync_func params_dtype partition_activations patch_dim patch_tokenizer_type per_dataset_sequences_path
    per_split_data_args_path perform_initialization persist_layer_norm phase_transition_iterations pin_cpu_grads
    pin_cpu_params pipeline_dtype pipeline_model_parallel_comm_backend predicate pretrained_checkpoint prompt_data
    prompt_file prompt_type prompts qk_clip qk_clip_alpha qk_clip_threshold qk_l2_norm quant_recipe
    query_in_block_prob rampup_batch_size random_ltd rank record_memory_history record_shapes ref_load refit_method
    relative_attention_max_distance relative_attention_num_buckets remote_device reset_attention_mask
    reset_position_ids result_rejected_tracker_filename return_data_index return_log_probs
    reuse_grad_buf_for_mxfp8_param_ag reward_key reweight_loss_based_on_position_frequency rm_type
    run_workload_inspector_server runtime_time_unit sample_rate save save_activations_interval save_config_filepath
    save_dgrads_interval save_params_interval save_rng save_tokenizer_assets save_tokens_per_expert_interval
    save_wgrads_interval scatter_gather_tensors_in_pipeline seed set_level_for_all_loggers sft
    sft_tokenizer_prompt_format sharp_enabled_group short_seq_prob shuffle_all_dataset skip_iters_range
    skip_samples_range skip_train skip_train_iteration_range skipped_train_samples softmax_scale special_tokens
    special_tokens_file split stage start_eval_at_iter store_param_remainders strict_fsdp_dtensor_load
    suggested_communication_unit_size symmetric_ar_type sync_tp_duplicated_parameters synchronize_each_layer task
    te_precision_config_file te_rng_tracker temperature test_data test_mode test_weighted_split_paths
    test_weighted_split_paths_path throughput_window_size tile_factor timers timing_log_level timing_log_option
    top_k top_p torch_fsdp2_no_reshard_after_forward tp_comm_atomic_ag tp_comm_atomic_rs tp_comm_bootstrap_backend
    tp_comm_bulk_dgrad tp_comm_bulk_wgrad tp_comm_overlap_ag tp_comm_overlap_cfg tp_comm_overlap_disable_fc1
    tp_comm_overlap_disable_qkv tp_comm_overlap_rs tp_comm_overlap_rs_dgrad tp_comm_split_ag tp_comm_split_rs
    tp_only_amax_red train_data train_desc_path train_doc_idx_path train_mode train_sample_idx_path
    train_shuffle_idx_path train_tokens train_weighted_split_paths train_weighted_split_paths_path
    transformer_pipeline_model_parallel_size transformer_timers trigger_path trust_remote_code universal_checkpoint
    use_ascend_coc use_checkpoint_opt_param_scheduler use_contiguous_buffers_in_local_ddp use_cpu_initialization
    use_dataset_only use_distributed_timeout use_flashinfer_fused_rope use_fused_rmsnorm use_fused_rotary_pos_emb
    use_fused_swiglu use_fused_weighted_squared_relu use_gigatoken use_gloo_process_groups
    use_grouped_gemm_for_dense_mlp use_grouped_gemm_for_shared_expert use_inference_optimized_layers use_kitchen
    use_legacy_models use_legacy_static_engine use_mamba_mem_eff_path use_mcore_models use_mpi use_mup use_nccl_ub
    use_nsys_profiler use_one_sent_docs use_persistent_ckpt_worker use_pytorch_profiler use_ring_exchange_p2p
    use_rope_scaling use_rotary_position_embeddings_at_layer use_same_sampling_seed_across_dp_ranks use_sharp use_te
    use_te_activation_func use_te_rng_tracker use_tis use_tokenizer_model_from_checkpoint_args
    use_transformer_engine_op_fuser use_tutel use_wandb use_z_loss valid_data valid_weighted_split_paths
    valid_weighted_split_paths_path validation_set_names variable_seq_lengths verify_integrity vocab_file warmup
    wd_incr_steps wgrad_deferral_limit with_name_predicate workers wsd_decay_steps
    yaml_cfg z_loss_strength zero_allgather_bucket_size zero_contigious_gradients zero_reduce_bucket_size
    zero_reduce_scatter
"""
"""Arguments of numerics, kernels, communication and loading, also of forks: Megatron-DeepSpeed, BigScience, Pai."""

WITHOUT_EFFECT = (*_BLOCKS.split(), *_ARGUMENTS.split())
"""Settings (patterns) that change no figure here."""
