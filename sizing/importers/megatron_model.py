"""The model that Megatron-LM's arguments describe."""

from __future__ import annotations

import re
from typing import Any

from sizing.config_files.block_shape import BlockShape, first_expert_layer, gated_width, windowed_layers
from sizing.config_files.reader import SettingReader

_ARCHITECTURE = "model.architecture."
_OTHER_PROGRAMS = re.compile(
    r"bert|t5|ict|vision|vlm|mimo|retro|mamba|hybrid|realm|dino|inpaint|multimodal|llava|clip|vl\b|omni"
)
"""Programs whose models have more or other layers than a decoder."""

_OTHER_LAYERS = (
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "is_hybrid_model",
    "heterogeneous_layers_config_path",
    "heterogeneous_layers_config_encoded_json",
    "experimental_attention_variant",
    "linear_attention_freq",
    "attention_output_gate",
    "moe_latent_size",
    "enable_mhc_connections",
    "dsa_indexer_n_heads",
    "use_kitchen_attention",
    "decoder_num_layers",
    "biencoder_projection_dim",
    "ict_head_size",
    "mtp_use_repeated_layer",
    "expert_interval",
    "topk_mlp",
    "mlp_type",
    "language_model_type",
    "vision_model_type",
    "retro_add_retriever",
    "spec",
    "noop_layers",
    "xielu",
    "enable_dsa_indexer",
    "index_n_heads",
    "enable_hyper_connections",
    "transformer_block_type",
    "headscale",
    "mcore_customization_config.parallel_attention",
)
"""Arguments of layers that no family here has."""

_ROTARY = ("use_rotary_position_embeddings", "use_llama2_rotary_position_embeddings", "no_position_embedding")
"""Switches of forks and former versions after which no table of positions is learned."""

_PLAIN = (None, False, 0, "standard", "pre_ln")
"""Values of these arguments that leave the layers as they are."""
_OTHER_MODELS = ("mm_cfg.", "unet_config.", "vision.", "vision_config.", "encoder.", "decoder.", "first_stage_config.")
"""Blocks of YAML files that describe models with more than a decoder."""

_WIDTHS = {
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "kv_channels": "head_dim",
}
_LATENT_WIDTHS = {
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "qk_head_dim": "qk_nope_head_dim",
    "qk_pos_emb_head_dim": "qk_rope_head_dim",
    "v_head_dim": "v_head_dim",
}
_REQUIRED = ("num_layers", "hidden_size", "num_attention_heads")

_TOKENIZERS = (
    (r"gpt2(-vocab\.json)?|gpt2-(medium|large|xl)", 50_257),
    (r"mistral-7b(-instruct)?-v0\.3|mixtral-8x22b-v0\.3", 32_768),
    (r"(meta-)?llama-?2-.*|llama-(7|13|30|65)b.*|mixtral-.*|mistral-7b(-instruct)?-v0\.[12]", 32_000),
    (r"(meta-)?llama-?3(\.[123])?-.*", 128_256),
    (r"mistral-nemo-.*", 131_072),
    (r"qwen2-[\d.]+b.*", 151_646),
    (r"qwen2\.5-[\d.]+b.*", 151_665),
    (r"qwen3-[\d.]+b.*", 151_669),
    (r"deepseek-v3.*|deepseek-r1", 128_815),
)
"""Length of tokenizers with added entries, by name on the Hugging Face hub. Some models' config.json say more."""


def vocabulary_of_tokenizer(name: object, kind: str) -> int | None:
    """Return the entries of a tokenizer by its name, path or file; None where they are not known.

    >>> vocabulary_of_tokenizer("meta-llama/Meta-Llama-3-8B", "HuggingFaceTokenizer"), vocabulary_of_tokenizer("my", "")
    (128256, None)
    """
    if not isinstance(name, str) or kind in ("NullTokenizer", "SentencePieceTokenizer"):
        return None
    last = name.rstrip("/").rpartition("/")[2].lower()
    return next((size for pattern, size in _TOKENIZERS if re.fullmatch(pattern, last)), None)


def put_model(reader: SettingReader) -> None:
    """Set the model by its shape; ask for it where the arguments leave it open or describe what no family has."""
    if (config := reader.of_other("huggingface-config")) is not None:
        _read_all(reader)
        for name, of_config in {"num_layers": "num_hidden_layers", "hidden_size": "hidden_size"}.items():
            reader.agree(name, config.settings.get(of_config))
        return
    from_checkpoint = "use_checkpoint_args"
    if reader.is_given(from_checkpoint):
        reader.not_understood(from_checkpoint, "takes arguments from the checkpoint that is loaded: give its common.pt")
    strange = _strange_layers(reader)
    unknown = [name for name in _SHAPE if reader.is_unknown(name)]
    missing = [name for name in _REQUIRED if (reader.number(name) or 0) < 1]
    shape = _shape(reader)
    built = shape.family()
    _read_all(reader)
    if strange or unknown or missing or built is None:
        why = f"the shape is not said ({', '.join([*unknown, *missing][:4])})" if unknown or missing else ""
        why = why or (f"{strange} describes layers that must be given otherwise" if strange else _unlike(shape))
        reader.need("model.preset", why)
        return
    family, fields = built
    _put_shape(reader, family, fields, shape)


def _unlike(shape: BlockShape) -> str:
    norm = "RMSNorm" if shape.rms_norm else "LayerNorm"
    beside = " with modules of multi-token prediction (mtp_num_layers)" if shape.has_prediction_modules else ""
    gate = "a" if shape.gated else "no"
    return f"no family here has {norm}, {gate} gate and these biases, norms and positions{beside}"


def _strange_layers(reader: SettingReader) -> str | None:
    """Return what says that the model is no plain decoder, or None."""
    program = next((word.rpartition("/")[2] for word in reader.source.words if word.endswith(".py")), "")
    if _OTHER_PROGRAMS.search(program.lower()):
        return program
    names = [name for name in _OTHER_LAYERS if reader.has(name) and reader.get(name) not in _PLAIN]
    names += [name for name in reader.source.settings if name.startswith(_OTHER_MODELS)][:1]
    frequency = reader.get("moe_layer_freq")
    num_layers = reader.number("num_layers")
    if _num_experts(reader) and num_layers and first_expert_layer(frequency, num_layers) is None:
        names.append("moe_layer_freq")
    if isinstance(reader.get("num_experts"), list):
        names.append("num_experts")
    return names[0] if names else None


def _num_experts(reader: SettingReader) -> int | None:
    value = reader.get("num_experts")
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and value > 1 else None


def _shape(reader: SettingReader) -> BlockShape:
    position = str(reader.get("position_embedding_type")).lower()
    is_learned = position == "learned_absolute" or position.endswith(".absolute")
    is_learned &= not (any(map(reader.is_given, _ROTARY)))
    activation = str(reader.get("glu_activation", None) or reader.get("activation_func", None) or "")
    gates = ("swiglu", "quick_geglu", "geglu", "gated_linear_unit")
    return BlockShape(
        rms_norm="rms" in str(reader.get("normalization")).lower(),
        gated=any([*map(reader.is_given, gates), "glu" in activation]),
        bias=not reader.is_given("disable_bias_linear") and reader.get("add_bias_linear") is not False,
        qkv_bias=reader.is_given("add_qkv_bias"),
        query_key_norms=reader.is_given("qk_layernorm"),
        tied=not reader.is_given("untie_embeddings_and_output_weights"),
        position_rows=(reader.number("max_position_embeddings") or reader.number("seq_length") or 0)
        if is_learned
        else 0,
        embedding_norm=reader.is_given("embed_layernorm"),
        has_experts=_num_experts(reader) is not None,
        has_shared_experts=bool(
            reader.number("moe_shared_expert_intermediate_size") or reader.number("n_shared_experts", None)
        ),
        has_shared_gate=reader.is_given("moe_shared_expert_gate"),
        is_latent=reader.is_given("multi_latent_attention"),
        has_prediction_modules=bool(reader.number("mtp_num_layers")),
    )


def _put_shape(reader: SettingReader, family: str, fields: dict[str, Any], shape: BlockShape) -> None:
    names = (
        "swiglu",
        "normalization",
        "disable_bias_linear",
        "add_qkv_bias",
        "qk_layernorm",
        "position_embedding_type",
    )
    reader.put(f"{_ARCHITECTURE}family", family, *filter(reader.has, (*names, "multi_latent_attention", "num_layers")))
    for field, value in fields.items():
        source = {
            "tied_embeddings": "untie_embeddings_and_output_weights",
            "max_positions": "max_position_embeddings",
        }.get(field, "disable_bias_linear")
        reader.put(f"{_ARCHITECTURE}{field}", value, source)
    num_layers, hidden = reader.number("num_layers"), reader.number("hidden_size")
    reader.put(f"{_ARCHITECTURE}num_layers", num_layers, "num_layers")
    for name, field in (_WIDTHS if not shape.is_latent else {**_WIDTHS, **_LATENT_WIDTHS}).items():
        if not (shape.is_latent and field == "head_dim"):
            reader.put(f"{_ARCHITECTURE}{field}", reader.number(name), name)
    reader.put(f"{_ARCHITECTURE}ffn_hidden_size", *_width(reader, hidden))
    _put_kv_heads(reader)
    _put_window(reader, num_layers)
    if shape.has_experts:
        _put_experts(reader, num_layers)
    if shape.has_prediction_modules:
        reader.put(f"{_ARCHITECTURE}num_mtp_layers", reader.number("mtp_num_layers"), "mtp_num_layers")
    put_vocabulary(reader)


def _width(reader: SettingReader, hidden: int) -> tuple[int, str]:
    """Return the inner width of a dense feed-forward block, and the argument that it follows from."""
    given, multiple = reader.number("ffn_hidden_size"), reader.number("multiple_of", None)
    factor = reader.number("hidden_dim_multiplier", None) or 1
    if given:
        return given, "ffn_hidden_size"
    if not reader.is_given("swiglu"):
        return 4 * hidden, "hidden_size"
    if not multiple:
        return gated_width(hidden), "swiglu"
    return -(-int(int(4 * hidden * 2 / 3) * factor) // multiple) * multiple, "multiple_of"  # FlagScale


def _put_kv_heads(reader: SettingReader) -> None:
    if reader.has("num_key_value_heads"):
        reader.put(f"{_ARCHITECTURE}num_kv_heads", reader.number("num_key_value_heads"), "num_key_value_heads")
    elif reader.is_given("group_query_attention") or not (reader.is_command or reader.has("group_query_attention")):
        names = ("num_query_groups", "group_query_attention")
        reader.put(f"{_ARCHITECTURE}num_kv_heads", reader.number("num_query_groups"), *names)
    elif reader.is_command and reader.has("num_query_groups"):
        reader.not_understood("num_query_groups", "has no effect without --group-query-attention")


def _put_window(reader: SettingReader, num_layers: int) -> None:
    """Set the window of attention: --window-size left,right lets a token see left tokens before it; -1 is no bound.

    Source: Megatron-LM, core/transformer/utils.py, get_sliding_window_causal_mask.
    """
    size, pattern = reader.get("window_size", None), reader.get("window_attn_skip_freq", None)
    if size is None:
        return
    left = re.match(r"[\[(\s]*(-?\d{1,9})\s*,", str(size))
    if left is None:
        reader.not_understood("window_size", "is no pair of tokens to the left and right")
        return
    layers = None if pattern is None else windowed_layers(pattern, num_layers)
    if pattern is not None and layers is None:
        reader.not_understood("window_attn_skip_freq", "is neither a number nor a list of 0 and 1 for each layer")
    elif int(left[1]) >= 0 and layers != []:
        reader.put(f"{_ARCHITECTURE}sliding_window", int(left[1]) + 1, "window_size")
        reader.put(f"{_ARCHITECTURE}sliding_window_layers", layers, "window_attn_skip_freq")


def _put_experts(reader: SettingReader, num_layers: int) -> None:
    reader.put(f"{_ARCHITECTURE}num_experts", _num_experts(reader), "num_experts")
    reader.put(f"{_ARCHITECTURE}num_experts_per_token", reader.number("moe_router_topk"), "moe_router_topk")
    reader.put(f"{_ARCHITECTURE}expert_ffn_hidden_size", reader.number("moe_ffn_hidden_size"), "moe_ffn_hidden_size")
    name = reader.first("moe_shared_expert_intermediate_size", "n_shared_experts")
    shared = reader.number(name)
    if name == "n_shared_experts":
        shared = (shared or 0) * (reader.number("moe_ffn_hidden_size") or reader.number("ffn_hidden_size") or 0)
    if shared:
        reader.put(f"{_ARCHITECTURE}num_shared_experts", 1, name)
        reader.put(f"{_ARCHITECTURE}shared_expert_ffn_hidden_size", shared, name)
    of_fork = "first_k_dense_replace"
    num_dense = reader.number(of_fork, None) or first_expert_layer(reader.get("moe_layer_freq"), num_layers)
    if num_dense:
        reader.put(f"{_ARCHITECTURE}first_dense_layers", num_dense, reader.first(of_fork, "moe_layer_freq"))


def put_vocabulary(reader: SettingReader) -> None:
    """Set the rows of the embedding and their padding; a tokenizer tells them where its name is known."""
    path = f"{_ARCHITECTURE}vocab_size"
    padded = reader.first("padded_vocab_size", "pad_vocab_size_to")
    multiple = "make_vocab_size_divisible_by"
    names = (
        "vocab_size",
        "tokenizer_model",
        "tokenizer_name_or_path",
        "tokenizer_type",
        "vocab_file",
        "extra_vocab_size",
    )
    if reader.number(padded, None):
        reader.put(path, reader.number(padded), padded)
        reader.ignore(multiple, *names)
        return
    if not reader.has("extra_vocab_size") and reader.number("vocab_size", None):
        reader.put(path, reader.number("vocab_size"), "vocab_size")
    else:
        name = reader.first("tokenizer_name_or_path", "tokenizer_model", "vocab_file")
        size = vocabulary_of_tokenizer(reader.get(name), str(reader.get("tokenizer_type")))
        if size is None or reader.has("extra_vocab_size") or reader.number("vocab_extra_ids", 0):
            reader.need(path, "the tokenizer decides it, which no file here describes")
        else:
            reader.put(path, size, name)
    reader.ignore(*names, "vocab_extra_ids")
    if reader.is_given("pad_vocab_size") or not reader.has("pad_vocab_size"):
        reader.take("training.vocabulary_padding_multiple", multiple)


_SHAPE = (
    *_REQUIRED,
    "ffn_hidden_size",
    "kv_channels",
    "num_query_groups",
    "num_key_value_heads",
    "normalization",
    "position_embedding_type",
    "num_experts",
    "moe_ffn_hidden_size",
    "moe_router_topk",
    "moe_layer_freq",
    "moe_shared_expert_intermediate_size",
    "mtp_num_layers",
    *_LATENT_WIDTHS,
)
"""Arguments that the shape of a model cannot do without."""

_SWITCHES = (
    "swiglu",
    "geglu",
    "quick_geglu",
    "squared_relu",
    "glu_activation",
    "gated_linear_unit",
    "activation_func",
    "group_query_attention",
    "disable_bias_linear",
    "add_bias_linear",
    "add_qkv_bias",
    "qk_layernorm",
    "untie_embeddings_and_output_weights",
    "max_position_embeddings",
    "add_position_embedding",
    *_ROTARY,
    "multi_latent_attention",
    "moe_shared_expert_gate",
    "embed_layernorm",
    "extra_vocab_size",
    "make_vocab_size_divisible_by",
    "encoder_num_layers",
    "multiple_of",
    "hidden_dim_multiplier",
    "first_k_dense_replace",
    "n_shared_experts",
    "window_size",
    "window_attn_skip_freq",
)


_OF_VOCABULARY = (
    "vocab_size",
    "padded_vocab_size",
    "pad_vocab_size_to",
    "tokenizer_model",
    "tokenizer_name_or_path",
    "tokenizer_type",
    "vocab_file",
    "vocab_extra_ids",
)


def _read_all(reader: SettingReader) -> None:
    """Count the arguments of the shape as read."""
    reader.ignore(*_OF_VOCABULARY)
    for name in (*_SHAPE, *_SWITCHES):
        reader.get(name)
