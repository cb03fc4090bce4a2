"""MaxText: its YAML, and the `key=value` words of `python -m MaxText.train base.yml ...`."""

from __future__ import annotations

import math

from sizing.config_files.reader import SettingReader, choice
from sizing.frameworks import FRAMEWORKS
from sizing.importers.importer import Importer
from sizing.model.catalog import preset_of_name

_AXES = {
    "tensor": ("tensor", "tensor_transpose", "tensor_sequence"),
    "pipeline": ("pipeline",),
    "context": ("context", "context_usp_ulysses", "context_autoregressive", "sequence"),
    "expert": ("expert",),
    "shard": ("fsdp", "fsdp_transpose"),
    "replica": ("data",),
    "other": ("diloco", "autoregressive"),
}
"""Axes of MaxText's mesh by what they divide. Source: configs/base.yml, mesh_axes and logical_axis_rules."""

_NAMES = {
    "llama3-405b": "llama-3.1-405b",
    "mistral-7b": "mistral-7b-v0.2",
    "deepseek2-16b": "deepseek-v2-lite",
    "deepseek2-236b": "deepseek-v2",
    "deepseek3-671b": "deepseek-v3",
    "deepseek3-671b-2dfsdp": "deepseek-v3",
    "deepseek3-671b-batchsplit": "deepseek-v3",
    "kimi-k2-1t": "kimi-k2",
    "llama4-17b-16e": "llama-4-scout",
    "llama4-17b-128e": "llama-4-maverick",
}
_OTHER_SHAPES = ("gemma-", "gemma2-", "gemma3-", "gpt3-", "qwen3-custom")
"""Models whose vocabulary MaxText pads otherwise than the catalog has it (256,128 and 50,304 rows)."""

_SHAPE = {
    "base_num_decoder_layers": "num_layers",
    "base_emb_dim": "hidden_size",
    "base_num_query_heads": "num_attention_heads",
    "base_num_kv_heads": "num_kv_heads",
    "base_mlp_dim": "ffn_hidden_size",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
}
_OPTIMIZERS = {"adamw": "adamw", "adam_pax": "adam", "sgd": "sgd", "muon": "muon"}
_RECOMPUTATIONS = {"full": "full", "none": "none"}
_DTYPES = {
    ("bfloat16", "float32"): "bf16-mixed",
    ("bfloat16", "bfloat16"): "bf16",
    ("float32", "float32"): "fp32",
}
"""Precision by dtype, of products, and weight_dtype."""

_GPUS_OF_A_NODE = 8
"""Ranks that are surely one slice, which on GPUs is a node."""

_MATTERS_ELSEWHERE = (
    "enable_diloco",
    "enable_emergency_checkpoint",
    "enable_multi_tier_checkpointing",
    "enable_continuous_checkpointing",
    "enable_autocheckpoint",
    "shard_optimizer_over_data",
    "use_dpo",
    "override_logical_axis_rules",
    "custom_mesh_and_rule",
    "use_multimodal",
    "use_audio",
    "enable_rampup_batch_size",
    "trainable_parameters_mask",
    "lora_input_adapters_path",
    "hf_lora_adapter_path",
)
"""Switches of other state, places or owners of it than are counted here; off or empty as shipped."""


def _read(reader: SettingReader) -> None:
    reader.put_framework("maxtext")
    _ask_for_config(reader)
    for name in _MATTERS_ELSEWHERE:
        if reader.get(name) not in (None, False, "", [], "None", "False"):
            reader.not_understood(name, "changes what is saved, where to or by whom in a way that is not counted")
    _read_degrees(reader)
    _read_model(reader)
    _read_state(reader)
    _read_step(reader)
    _read_checkpoint(reader)


_OF_CONFIG = {
    "model.preset": ("model_name",),
    "training.precision": ("dtype", "weight_dtype"),
    "training.optimizer": ("opt_type",),
    "training.recomputation": ("remat_policy",),
    "training.micro_batch_size": ("per_device_batch_size",),
    "parallelism.data": ("ici_fsdp_parallelism", "dcn_data_parallelism"),
    "checkpoint.interval_steps": ("checkpoint_period",),
    "checkpoint.mode": ("async_checkpointing",),
}


def _ask_for_config(reader: SettingReader) -> None:
    """Ask for what a command leaves to a YAML of its own, which is not given."""
    words = reader.source.words if reader.is_command else (str(reader.get("base_config", "base.yml")),)
    files = [word.rpartition("/")[2] for word in words if word.endswith((".yml", ".yaml"))]
    for file in files:
        if file == "base.yml":
            continue
        for path, names in _OF_CONFIG.items():
            if not all(map(reader.has, names)):
                reader.need(path, f"{file} may say it: give that file too")


def _read_degrees(reader: SettingReader) -> None:
    """Set the degrees: of each axis the product of its ranks within (ici) and between slices (dcn).

    One axis within and one between may be -1, and takes the ranks that the others leave.
    """
    degrees, names, open_axes = _count_ranks(reader)
    _solve_open_axis(reader, degrees, open_axes)
    for axis in ("tensor", "pipeline", "context", "expert"):
        reader.put(f"parallelism.{axis}", degrees[axis] if axis not in _asked(reader) else None, *names[axis])
    if _asked(reader):
        return
    sharded = degrees["shard"] * degrees["expert"]
    of_data = [*names["replica"], *names["shard"]]
    reader.put("parallelism.data", degrees["replica"] * sharded, *of_data)
    if degrees["replica"] > 1:
        reader.put("parallelism.shard_group", sharded * degrees["context"], *names["shard"], *names["expert"])
    total = math.prod(degrees.values())
    if reader.draft.value("cluster.num_gpus") is None:
        reader.put("cluster.num_gpus", total, *(name for own in names.values() for name in own))
    if degrees["pipeline"] > 1:
        _read_pipeline(reader)


def _count_ranks(reader: SettingReader) -> tuple[dict[str, int], dict[str, list[str]], list[tuple[str, str]]]:
    """Return the ranks of each axis, the settings that say them, and the axes that take what is left."""
    degrees, names, open_axes = dict.fromkeys(_AXES, 1), {axis: list[str]() for axis in _AXES}, list[tuple[str, str]]()
    for axis, own in _AXES.items():
        for name in (f"{network}_{part}_parallelism" for part in own for network in ("ici", "dcn")):
            value = reader.number(name)
            names[axis] += [name] if reader.has(name) else []
            if reader.is_unknown(name):
                open_axes += [(axis, name)] * 2
            elif value == -1:
                open_axes.append((axis, name))
            else:
                degrees[axis] *= int(value or 1)
    return degrees, names, open_axes


def _asked(reader: SettingReader) -> set[str]:
    return {path.partition(".")[2] for path in reader.draft.needed if path.startswith("parallelism.")}


def _solve_open_axis(reader: SettingReader, degrees: dict[str, int], open_axes: list[tuple[str, str]]) -> None:
    """Give the ranks that are left to the axis that takes them; ask where two could."""
    given = [name for _, name in open_axes if reader.has(name)]
    num_gpus, known = reader.draft.value("cluster.num_gpus"), math.prod(degrees.values())
    slices = reader.number("num_slices")
    axes = {axis for axis, _ in open_axes}
    is_one_slice = slices == 1 or len(open_axes) < 2 or (num_gpus or 0) <= _GPUS_OF_A_NODE
    if not open_axes or num_gpus == known:
        return
    if num_gpus is None:
        reader.need("cluster.num_gpus", f"an axis takes the ranks that are left ({open_axes[0][1]})")
        reader.need("parallelism.data", "an axis takes the ranks that are left")
    elif num_gpus % known or (len(axes) > 1 and not is_one_slice):
        both = " and ".join(name for _, name in open_axes)
        reader.need("parallelism.data", f"{both} are both -1, and the file does not say how many slices there are")
        reader.need("parallelism.shard_group", "as parallelism.data")
    else:
        within = next((axis for axis, name in open_axes if name.startswith("ici")), open_axes[0][0])
        degrees[within] *= num_gpus // known
    for name in given:
        reader.get(name)


def _read_pipeline(reader: SettingReader) -> None:
    repeats = "num_pipeline_repeats"
    value = reader.number(repeats)
    if value is not None and value > 0:
        reader.put("parallelism.virtual_pipeline", value, repeats)
    else:
        reader.need("parallelism.virtual_pipeline", "num_pipeline_repeats is not given")
    reader.get("num_layers_per_pipeline_stage")


def _read_model(reader: SettingReader) -> None:
    name, scale = str(reader.get("model_name")), reader.number("global_parameter_scale")
    if "model.preset" in reader.draft.needed:
        return
    own = [each for each in _SHAPE if reader.has(each) and each != "vocab_size"]
    if name != "default":
        preset = None if name.startswith(_OTHER_SHAPES) else _NAMES.get(name) or preset_of_name(name)
        if preset is None or (own and reader.is_on("override_model_config")):
            reader.not_understood("model_name", "is no model of the catalog: give model.preset or its config.json")
            reader.need("model.preset", "the model is none of the catalog, or is changed")
            return
        if reader.put_model(preset, "model_name"):
            reader.put("model.language_model_only", True, "model_name", note="without vision and further prediction")
        for each in (*_SHAPE, *_OF_OTHER_MODELS):
            reader.get(each)
        return
    is_plain = reader.get("decoder_block") in ("llama2", "mistral") and scale in (None, 1)
    if not is_plain or (reader.number("num_experts") or 1) > 1 or reader.is_on("attention_bias"):
        reader.need("model.preset", "the shape is not that of Llama, which alone is read from base_ settings")
        return
    reader.put("model.architecture.family", "llama", "decoder_block")
    for each, field in _SHAPE.items():
        reader.take(f"model.architecture.{field}", each)
    tied = "logits_via_embedding"
    reader.put("model.architecture.tied_embeddings", reader.is_on(tied), tied)


_OF_OTHER_MODELS = (
    "decoder_block",
    "num_experts",
    "num_experts_per_tok",
    "base_moe_mlp_dim",
    "first_num_dense_layers",
    "shared_experts",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "logits_via_embedding",
    "override_model_config",
    "attention_bias",
    "use_qk_norm",
    "mlp_bias",
)


def _read_state(reader: SettingReader) -> None:
    names = ("dtype", "weight_dtype")
    precision = _DTYPES.get((str(reader.get(names[0])), str(reader.get(names[1]))))
    if precision is None:
        for name in names:
            reader.not_understood(name, "is a precision that is not counted of MaxText")
        reader.need("training.precision", "the dtypes are not understood")
    reader.put("training.precision", precision, *names)
    if reader.get("quantization") not in ("", None):
        reader.not_understood("quantization", "computes products in 8 bits: their time is counted as in bf16")
    if reader.get("mu_dtype") not in ("", None, reader.get("weight_dtype")):
        reader.not_understood("mu_dtype", "keeps the first moment in another dtype than the second")
        reader.need("training.saved_state.moments", "the two moments differ in dtype")
    if reader.take("training.optimizer", "opt_type", choice(_OPTIMIZERS, "optimizer with state known here")) is None:
        reader.need("training.optimizer", "the optimizer is not understood")
    for name, part in (("optimizer_memory_host_offload", "optimizer"), ("parameter_memory_host_offload", "weights")):
        if reader.is_on(name):
            reader.put(f"training.offload.{part}", "host", name)


def _read_step(reader: SettingReader) -> None:
    of_device, accumulation = reader.number("per_device_batch_size"), reader.number("gradient_accumulation_steps") or 1
    data, total = reader.draft.value("parallelism.data"), reader.draft.value("cluster.num_gpus")
    names = ("per_device_batch_size", "gradient_accumulation_steps")
    if reader.is_unknown(*names, "max_target_length"):
        reader.put("training.micro_batch_size", None, names[0])
        reader.put("training.sequence_length", None, "max_target_length")
    if of_device is None or data is None or total is None or reader.number("max_target_length") is None:
        reader.ignore("remat_policy", "attention", "max_target_length", *names, "num_pipeline_microbatches")
        return
    batch = of_device * total
    microbatches = reader.number("num_pipeline_microbatches") or -1
    stages = reader.draft.value("parallelism.pipeline") or 1
    num_parts = data * (max(microbatches, stages) if stages > 1 else 1)
    if batch % num_parts:
        reader.not_understood(names[0], "is no whole number of sequences for each data rank")
        reader.need("training.micro_batch_size", "the batch of a device is a part of a sequence")
        return
    reader.take("training.sequence_length", "max_target_length")
    reader.put("training.micro_batch_size", int(batch // num_parts), names[0])
    reader.put("training.global_batch_size", int(batch * accumulation), *names)
    policy = reader.get("remat_policy")
    if str(policy) in _RECOMPUTATIONS:
        reader.put("training.recomputation", _RECOMPUTATIONS[str(policy)], "remat_policy")
    else:
        reader.not_understood("remat_policy", "keeps a list of operations of its own")
        reader.need("training.recomputation", "the policy keeps a list of operations of its own")
    reader.put("training.attention", "eager" if reader.get("attention") == "dot_product" else "flash", "attention")


def _read_checkpoint(reader: SettingReader) -> None:
    switch = "enable_checkpointing"
    if reader.has(switch) and not reader.is_on(switch):
        reader.not_understood(switch, "turns checkpoints off: those that it would write are sized")
    reader.take("checkpoint.interval_steps", "checkpoint_period")
    mode = "async_checkpointing"
    reader.put("checkpoint.mode", "async" if reader.is_on(mode) else "sync", mode)
    keep = reader.number("max_num_checkpoints_to_keep", None) if _says_number(reader) else None
    if keep:
        reader.put("retention.keep_last", keep, "max_num_checkpoints_to_keep")
    else:
        reader.need("retention.keep_last", "all checkpoints of the run are kept")
    restore = "enable_single_replica_ckpt_restoring"
    if reader.is_on(restore):
        reader.put("checkpoint.restore", "read-once-broadcast", restore)


def _says_number(reader: SettingReader) -> bool:
    return reader.get("max_num_checkpoints_to_keep") not in (None, "None")


_WITHOUT_EFFECT = """
    grain_* hf_* tfds_* dataset_* profile* *_for_vit *_for_audio inference_* eval_* sa_* local_sa_* dump_* goodput_*
    wi_tile_* wo_tile_* ragged_gather_* mlflow_* tokenize* tokenizer_* rope_* adam_* muon_* learning_rate* warmup_*
    wsd_* decode_sampling_* prefill_* olmo_* jax_* xprof_* vertex_* wandb_* monitor_* diloco_* gdn_* indexer_*
    checkpoint_storage_* indexer_* launcher.* quant_* kv_quant_* skip_step_* generate_padding_* tpu_*
    managed_mldiagnostics* num_pages train_split train_data_columns train_image_column abort_on_inf_loss
    abort_on_nan_loss act_quantization_calibration_method activations_in_float32 adamw_mask add_bos add_eos
    allow_split_physical_axes ar_cache_axis_order attention_out attention_output_dim attention_type
    attn_logits_soft_cap audio_path audio_placeholder autoregressive_decode_assert base_config base_output_directory
    batch_split_factor beta_fast beta_slow block_diffusion_canvas_policy block_diffusion_logit_alignment
    block_diffusion_mask_id block_diffusion_min_noise bwd_quantization_calibration_method capacity_factor
    cast_logits_to_fp32 causal_block_size chat_template chat_template_path check_vma checkpoint_conversion_fn
    checkpoint_is_quantized checkpoint_todelete_full_path checkpoint_todelete_subdir chunk_attn_window_size
    collect_stack_trace colocated_python_checkpointing colocated_python_data_input communication_overlapping_alpha
    compile_topology compile_topology_num_slices compile_xla_flags compiled_trainstep_file compress_ratios
    compressed_rope_max_timescale compute_axis_order constant_bound_config context_parallel_load_balance
    context_parallel_reorder_strategy context_parallel_strategy context_sharding cosine_learning_rate_final_fraction
    cost_estimate_flops_bwd cost_estimate_flops_fwd custom_mesh custom_mesh_and_rule_for_eval data_sharding
    data_shuffle_seed dataset_path dcn_bandwidth_burst dcn_bandwidth_interface dcn_bandwidth_latency
    dcn_bandwidth_limit debug_sharding decoder_layer_input default_prompt dense_fsdp_use_two_stage_all_gather
    dense_init_scale distill_alpha distill_alpha_end distill_alpha_schedule distill_beta distill_beta_end
    distill_beta_schedule distill_feature_loss_type distill_layer_indices distill_temperature
    distill_temperature_end distill_temperature_schedule dq_reduction_steps dropout_rate dtype_mm
    elastic_backup_kind elastic_enabled elastic_max_retries elastic_min_slice_count elastic_timeout_seconds
    enable_checkpoint_cloud_logger enable_data_shuffling enable_dropout enable_gcp_goodput_metrics
    enable_gcp_step_deviation_metrics enable_goodput_recording enable_jax_profiler enable_llm_inference_pool
    enable_mhc_lite enable_model_warmup enable_nnx enable_orbax_v1 enable_padding_causal_mask
    enable_pathways_goodput enable_prefix_caching enable_single_controller enable_streaming_diloco
    enable_tensorboard enable_tpu_profiling_options enable_wandb engram engram_head_dim engram_kernel_size
    engram_layers engram_max_ngram_size engram_num_heads engram_seed engram_vocab_bases expansion_factor_real_data
    experimental_sa_quant_k_fp8 experimental_sa_quant_q_fp8 final_logits_soft_cap first_num_hash_layers
    float32_gate_logits float32_logits float32_qk_product float32_weight_sum force_q_layout force_unroll
    freeze_audio_encoder_params freeze_vision_encoder_params fused_mlp fused_qkv gcs_metrics generate_slice
    global_head_dim global_num_kv_heads global_rampup_samples global_rope_max_timescale global_rope_proportion
    grad_dtype gradient_clipping_threshold hardware heartbeat_reporting_interval_in_seconds
    hide_profiler_step_metric image_path image_placeholder init_weights_seed input_data_sharding_logical_axes
    internal_compile internal_compile_num_devices key_proj kv_proj kv_wa_proj learning_rate load_balance_loss_weight
    load_from_prefill_dir load_full_state_path load_parameters_path local_checkpoint_directory
    local_rope_max_timescale local_rope_proportion local_use_splash_scheduler log_config log_period
    logical_axis_rules_for_eval logits_dot_in_fp32 lr_schedule_type matmul_precision max_checkify max_corpus_chars
    max_inflight_computations max_num_images_per_example max_position_embeddings max_prefill_predict_length
    max_segments_per_seq megablox merge_gating_gmm metrics_file mhc_expansion_rate mhc_pallas_kernel_bwd_block_size
    mhc_pallas_kernel_fwd_block_size mla_kv mla_naive_kvcache mla_q mla_qk_head_chunk_size mlp_activations
    mlp_activations_limit mlpwi mlpwi_0 mlpwi_1 mlpwo moba moba_chunk_size moba_topk model_call_mode
    moe_chunk_barrier moe_dispatch_no_expert_sharding moe_fsdp_use_two_stage_all_gather moe_mlpwi_0 moe_mlpwi_1
    moe_mlpwo mrope_section mscale mtc_data_parallelism mtp_eval_target_module mtp_loss_scaling_factor
    multi_sampling n_routing_groups nope_layer_interval norm_topk_prob normalization_layer_epsilon
    normalize_embedding_logits num_communication_overlapping_steps num_diloco_fragments num_epoch num_moe_emb_chunks
    num_moe_token_chunks num_vocab_tiling o_groups o_lora_rank optimize_mesh_for_tpu_v6e
    original_max_position_embeddings out_proj packing param_scan_axis partial_rotary_factor
    per_device_batch_size_increment pipeline_delay_activation_forwarding pipeline_fsdp_ag_once
    pipeline_fsdp_ag_per_repeat position_id_per_seconds prefix_caching_dram_byte prefix_caching_hbm_byte profiler
    profiler_steps prometheus_port prompt pure_nnx pure_nnx_decoder qk_clip_threshold qk_norm_with_scale qkv_proj
    quantization_local_shard_count quantize_kvcache query_proj query_wa_proj ragged_block_size ragged_buffer_factor
    record_internal_nn_metrics remove_size_one_mesh_axis_from_type replicate_quant_scale
    report_heartbeat_metric_for_gcp_monitoring report_performance_metric_for_gcp_monitoring reshape_q
    return_log_prob reuse_example_batch ring_scan_unroll routed_bias routed_bias_update_rate routed_scaling_factor
    routed_score_func run_name save_checkpoint_on_completion save_checkpoint_on_start save_config_to_gcs
    save_quantized_params_path scan_layers scan_layers_per_stage scan_pipeline_iterations scan_pipeline_repeats
    set_remat_policy_on_layers_per_stage set_remat_policy_on_pipeline_iterations sft_train_on_completion_only
    shard_mode sharding_tolerance shardy sinkhorn_iterations skip_first_n_steps_for_profiler
    skip_jax_distributed_system sliding_window_size source_checkpoint_layout sparse_matmul
    stack_prefill_result_cache stack_trace_interval_seconds stack_trace_to_cloud step_deviation_interval_seconds
    steps subslice_shape target_eval_loss te_comm_gemm_overlap temperature_tuning topk_routing_group
    trainable_position_size training_objective ulysses_context_sharding upload_all_profiler_results
    use_audio_in_video use_batch_split_schedule use_chat_template use_chunked_prefill use_custom_sort_vjp
    use_gather_mosaic_kernel use_gmm_v2 use_iota_embed use_jax_splash use_manual_quantization use_max_logit_estimate
    use_mhc_pallas_kernel use_mrope use_post_attn_norm use_post_ffw_norm use_qk_clip use_qk_norm_in_gdn
    use_qwix_quantization use_ragged_attention use_ragged_sort use_random_routing use_ring_of_experts
    use_sequential_layers use_sft use_sliced_mla_proj use_splash_scheduler use_tokamax_gmm use_tokamax_splash
    use_truncation use_vertex_tensorboard v_norm_with_scale value_proj video_max_grid_h video_max_grid_t
    video_max_grid_w video_path video_placeholder vision_output_length vllm_additional_config vllm_hf_config_path
    vllm_hf_overrides vocab_size_per_layer_input vocab_tiling_ag_once weight_quantization_calibration_method
    weight_sparsity_m weight_sparsity_start_step weight_sparsity_update_step write_estimator_result
    z_loss_multiplier
"""
"""Settings (patterns) of configs/base.yml that change no figure here."""

MAXTEXT = Importer(
    name="maxtext",
    title="MaxText",
    version=FRAMEWORKS["maxtext"].version.partition(";")[0],
    source="MaxText, configs/base.yml",
    frameworks=("maxtext",),
    marks=(
        "per_device_batch_size",
        "max_target_length",
        "ici_*_parallelism",
        "dcn_*_parallelism",
        "base_output_directory",
        "remat_policy",
        "checkpoint_period",
        "async_checkpointing",
        "enable_checkpointing",
        "model_name",
        "base_config",
        "dataset_type",
        "steps",
        "run_name",
        "global_parameter_scale",
        "base_emb_dim",
    ),
    min_marks=3,
    defaults={
        "model_name": "default",
        "decoder_block": "llama2",
        "global_parameter_scale": 1,
        "base_emb_dim": 2048,
        "base_num_query_heads": 16,
        "base_num_kv_heads": 16,
        "base_mlp_dim": 7168,
        "base_num_decoder_layers": 16,
        "head_dim": 128,
        "vocab_size": 32_000,
        "logits_via_embedding": False,
        "ici_fsdp_parallelism": -1,
        "dcn_data_parallelism": -1,
        "num_slices": -1,
        "dtype": "bfloat16",
        "weight_dtype": "float32",
        "quantization": "",
        "mu_dtype": "",
        "opt_type": "adamw",
        "per_device_batch_size": 12,
        "max_target_length": 2048,
        "gradient_accumulation_steps": 1,
        "num_pipeline_microbatches": -1,
        "num_pipeline_repeats": -1,
        "remat_policy": "full",
        "attention": "autoselected",
        "checkpoint_period": 10_000,
        "async_checkpointing": True,
        "enable_checkpointing": True,
    },
    read=_read,
    ignored=tuple(_WITHOUT_EFFECT.split()),
)
