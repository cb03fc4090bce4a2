"""torchtitan's TOML, and what a launch script sets over it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from sizing.config_files.reader import SettingReader, choice, optimizer_of
from sizing.config_files.source import ConfigSource
from sizing.frameworks import FRAMEWORKS
from sizing.importers.importer import Importer
from sizing.layout.chunks import SpreadLayers
from sizing.layout.parallelism import layers_text
from sizing.model.model import Model, resolve
from sizing.scenario import INTERVAL

_DEFAULTS = {
    "model.name": "llama3",
    "model.flavor": "debugmodel",
    "optimizer.name": "AdamW",
    "training.local_batch_size": 8,
    "training.global_batch_size": -1,
    "training.seq_len": 2048,
    "training.mixed_precision_param": "bfloat16",
    "training.dtype": "float32",
    "parallelism.data_parallel_replicate_degree": 1,
    "parallelism.data_parallel_shard_degree": -1,
    "parallelism.tensor_parallel_degree": 1,
    "parallelism.pipeline_parallel_degree": 1,
    "parallelism.pipeline_parallel_schedule": "1F1B",
    "parallelism.pipeline_parallel_microbatch_size": 1,
    "parallelism.pipeline_parallel_first_stage_less_layers": 1,
    "parallelism.pipeline_parallel_last_stage_less_layers": 1,
    "parallelism.pipeline_parallel_layers_per_stage": None,
    "parallelism.context_parallel_degree": 1,
    "parallelism.expert_parallel_degree": 1,
    "checkpoint.enable": False,
    "checkpoint.interval": 500,
    "checkpoint.async_mode": "disabled",
    "checkpoint.keep_latest_k": 10,
    "checkpoint.last_save_in_hf": False,
    "activation_checkpoint.mode": "selective",
    "activation_checkpoint.selective_ac_option": "2",
    "compile.enable": False,
}

_FLAVORS = {
    ("llama3", "8B"): "llama-3.1-8b",
    ("llama3", "70B"): "llama-3.1-70b",
    ("llama3", "405B"): "llama-3.1-405b",
    ("llama4", "17bx16e"): "llama-4-scout",
    ("llama4", "17bx128e"): "llama-4-maverick",
    ("deepseek_v3", "671B"): "deepseek-v3",
    ("deepseek_v3", "16B"): "deepseek-v2-lite",
    ("qwen3", "0.6B"): "qwen3-0.6b",
    ("qwen3", "1.7B"): "qwen3-1.7b",
    ("qwen3", "4B"): "qwen3-4b",
    ("qwen3", "8B"): "qwen3-8b",
    ("qwen3", "14B"): "qwen3-14b",
    ("qwen3", "32B"): "qwen3-32b",
    ("qwen3", "30B-A3B"): "qwen3-30b-a3b",
    ("qwen3", "235B-A22B"): "qwen3-235b-a22b",
    ("gpt_oss", "20b"): "gpt-oss-20b",
    ("gpt_oss", "120b"): "gpt-oss-120b",
}
"""Models of the catalog by torchtitan's name and flavor."""

_SCHEDULES = {
    "1F1B": "1f1b",
    "GPipe": "gpipe",
    "Interleaved1F1B": "interleaved",
    "InterleavedZeroBubble": "zb-h1",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipe",
}
_MODES = {"disabled": "sync", "async": "async", "async_with_pinned_mem": "async"}
_RECOMPUTATIONS = {"none": "none", "full": "full", "selective": "selective"}
_LOOPED = ("interleaved", "zb-v", "dualpipe")
_PRODUCTS_IN_8_BITS = {"float8": "fp8-mixed", "mx": "mxfp8-mixed"}

_LESS_LAYERS = (
    "parallelism.pipeline_parallel_first_stage_less_layers",
    "parallelism.pipeline_parallel_last_stage_less_layers",
)
_LAYERS_PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"
_MODEL_PARALLEL = {
    "tensor": "parallelism.tensor_parallel_degree",
    "pipeline": "parallelism.pipeline_parallel_degree",
    "context": "parallelism.context_parallel_degree",
}


_FORMER_NAMES = {
    "training.data_parallel_degree": "parallelism.data_parallel_shard_degree",
    "training.data_parallel_shard_degree": "parallelism.data_parallel_shard_degree",
    "training.data_parallel_replicate_degree": "parallelism.data_parallel_replicate_degree",
    "training.tensor_parallel_degree": "parallelism.tensor_parallel_degree",
    "experimental.context_parallel_degree": "parallelism.context_parallel_degree",
    "experimental.pipeline_parallel_degree": "parallelism.pipeline_parallel_degree",
    "experimental.pipeline_parallel_schedule": "parallelism.pipeline_parallel_schedule",
}
"""Settings of a parallel layout before there was a block `parallelism`, and their names in it.

Source: torchtitan, torchtitan/config_manager.py at e846b69 (2024-12-12), before 785c34c (2025-03-18);
`data_parallel_degree` until db6b39a (2024-09-10).
"""


def rename_former_settings(source: ConfigSource) -> ConfigSource:
    """Return a source with today's names of the settings that had others before there was a block `parallelism`.

    >>> from sizing.config_files.source import document_source
    >>> old = document_source("train.toml", {"training": {"tensor_parallel_degree": 8}})
    >>> list(rename_former_settings(old).settings)
    ['parallelism.tensor_parallel_degree']
    """
    names = {name: _FORMER_NAMES.get(name, name) for name in source.settings}
    return replace(
        source, settings={names[name]: replace(each, name=names[name]) for name, each in source.settings.items()}
    )


def _has_former_layout(reader: SettingReader) -> bool:
    """Whether the file has a setting by its former name, which its place still says."""
    settings = reader.source.settings
    return any(new in settings and settings[new].place.endswith(old) for old, new in _FORMER_NAMES.items())


def _read(reader: SettingReader) -> None:
    reader.put_framework("torchtitan")
    _read_model(reader)
    _read_parallelism(reader)
    _read_training(reader)
    _read_checkpoint(reader)


def _read_model(reader: SettingReader) -> None:
    name, flavor = reader.get("model.name"), reader.get("model.flavor")
    preset = _FLAVORS.get((str(name), str(flavor)))
    if preset is None:
        for setting in ("model.name", "model.flavor"):
            reader.not_understood(
                setting, f"{name} {flavor} is no model of the catalog: give model.preset or its config.json"
            )
        return
    reader.put("model.preset", preset, "model.name", "model.flavor")


def _read_parallelism(reader: SettingReader) -> None:
    for axis, name in _MODEL_PARALLEL.items():
        reader.take(f"parallelism.{axis}", name)
    reader.take("parallelism.expert", "parallelism.expert_parallel_degree")
    replicate = reader.number("parallelism.data_parallel_replicate_degree") or 1
    shard = reader.number("parallelism.data_parallel_shard_degree")
    names = ("parallelism.data_parallel_shard_degree", "parallelism.data_parallel_replicate_degree")
    if shard is not None and shard > 0:
        reader.put("parallelism.data", shard * replicate, *names)
    else:
        reader.put_data_degree(**_MODEL_PARALLEL)
    data, context = reader.draft.value("parallelism.data"), reader.draft.value("parallelism.context") or 1
    if replicate > 1 and data is not None:
        reader.put("parallelism.shard_group", data // replicate * context, names[1])
    elif replicate > 1:
        reader.need("cluster.num_gpus", "the ranks of one shard group are those that the replicas leave")
    if (reader.draft.value("parallelism.pipeline") or 1) > 1:
        schedule = reader.take(
            "training.schedule", "parallelism.pipeline_parallel_schedule", choice(_SCHEDULES, "schedule")
        )
        if _has_former_layout(reader):
            reader.need("parallelism.layers_per_stage", "this version of torchtitan split a model at named layers")
        else:
            _read_layers_of_stages(reader, is_looped=schedule in _LOOPED)
    reader.ignore("parallelism.pipeline_parallel_schedule", *_LESS_LAYERS, _LAYERS_PER_STAGE)


def _read_layers_of_stages(reader: SettingReader, *, is_looped: bool) -> None:
    """Set the virtual stages of each stage, and the layers of each where they are not dealt as the framework's default.

    L layers, and i and o more for embedding and output, are dealt over n virtual stages: floor((L + i + o) / n) each,
    the first ones one more; the first has i layers less and the last o.

    Source: torchtitan, distributed/pipeline_parallel.py, pipeline_llm, generate_llm_fqn_per_model_part.
    """
    schedule, stages = "parallelism.pipeline_parallel_schedule", reader.draft.value("parallelism.pipeline")
    less_first, less_last = (int(reader.number(name) or 0) for name in _LESS_LAYERS)
    of_each, preset = reader.number(_LAYERS_PER_STAGE), reader.draft.value("model.preset")
    num_layers = 0 if preset is None else resolve(Model(preset=preset)).num_layers
    num_units = num_layers + less_first + less_last
    virtual = 2 if is_looped else 1
    if of_each and num_layers:
        virtual = -(-num_units // int(of_each)) / stages
        if virtual != int(virtual):
            reader.need(
                "parallelism.layers_per_stage", f"{_LAYERS_PER_STAGE} leaves stages with unlike numbers of chunks"
            )
            return
    virtual = int(virtual)
    if virtual > 1:
        reader.put("parallelism.virtual_pipeline", virtual, schedule)
    names = (*_LESS_LAYERS, _LAYERS_PER_STAGE)
    if not num_layers:
        if is_looped or any(map(reader.has, names)):
            reader.need("parallelism.layers_per_stage", "how layers are dealt over stages follows from their number")
    elif virtual > 1 or any(map(reader.has, names)):
        units = SpreadLayers(num_units, stages * virtual)
        layers = [past - start for start, past in pairwise(map(units.before, range(stages * virtual + 1)))]
        layers[0] -= less_first
        layers[-1] -= less_last
        reader.put("parallelism.layers_per_stage", layers_text(layers), schedule, *names)


def _read_training(reader: SettingReader) -> None:
    reader.take("training.optimizer", "optimizer.name", optimizer_of)
    reader.put("training.precision", *_precision(reader))
    reader.take("training.sequence_length", "training.seq_len")
    local = reader.first("training.local_batch_size", "training.batch_size")
    batch = reader.number(local)
    pipelined = (reader.draft.value("parallelism.pipeline") or 1) > 1
    micro = "parallelism.pipeline_parallel_microbatch_size" if pipelined else local
    if pipelined and _has_former_layout(reader):
        reader.need("training.micro_batch_size", "this version of torchtitan divided the batch by the microbatches")
    else:
        reader.put("training.micro_batch_size", reader.number(micro), micro)
    of_all, data = reader.number("training.global_batch_size"), reader.draft.value("parallelism.data")
    if of_all is not None and of_all > 0:
        reader.put("training.global_batch_size", of_all, "training.global_batch_size")
    elif batch is not None and data is not None:
        reader.put("training.global_batch_size", batch * data, local)
    reader.take("training.recomputation", "activation_checkpoint.mode", choice(_RECOMPUTATIONS, "mode"))
    option = reader.get("activation_checkpoint.selective_ac_option")
    if reader.draft.value("training.recomputation") == "selective" and str(option) != "op":
        reader.not_understood(
            "activation_checkpoint.selective_ac_option", "recomputes every nth layer; counted as op, by its operations"
        )
    compiles = reader.first("compile.enable", "training.compile")
    reader.put("training.compile", reader.is_on(compiles), compiles)
    if reader.is_on("training.enable_cpu_offload", default=False):
        reader.put("training.offload.optimizer", "host", "training.enable_cpu_offload")
        reader.put("training.offload.weights", "host", "training.enable_cpu_offload")


def _precision(reader: SettingReader) -> tuple[str, str, str]:
    """Return the precision and the settings that give it: of converters, else of the dtypes."""
    converters = reader.get("model.converters", default=())
    for word, precision in _PRODUCTS_IN_8_BITS.items():
        if any(word in str(each) for each in (converters if isinstance(converters, list) else [converters])):
            return precision, "model.converters", "training.mixed_precision_param"
    names = ("training.mixed_precision_param", "training.dtype")
    if reader.get("training.dtype") == "bfloat16":
        return "bf16", *names
    return ("fp32" if reader.get(names[0]) == "float32" else "bf16-mixed"), *names


def _read_checkpoint(reader: SettingReader) -> None:
    switch = reader.first("checkpoint.enable", "checkpoint.enable_checkpoint")
    if reader.has(switch) and not reader.is_on(switch):
        reader.not_understood(switch, "turns checkpoints off: those that it would write are sized")
    elif not reader.has(switch) and reader.source.matching("checkpoint.*"):
        reader.doubt("checkpoint.interval_steps", f"{switch} is off by default: those that it would write are sized")
    reader.is_on(switch)
    unit = reader.get("checkpoint.interval_type", default="steps")
    if unit == "seconds":
        reader.put(INTERVAL, reader.number("checkpoint.interval"), "checkpoint.interval", "checkpoint.interval_type")
    elif unit == "steps":
        reader.take("checkpoint.interval_steps", "checkpoint.interval")
    else:
        reader.need(INTERVAL, "checkpoint.interval_type is neither steps nor seconds")
    reader.take("checkpoint.mode", "checkpoint.async_mode", choice(_MODES, "mode"))
    keep = reader.number("checkpoint.keep_latest_k")
    if not reader.has("checkpoint.keep_latest_k") and _has_former_layout(reader):
        reader.need("retention.keep_last", "torchtitan kept all checkpoints until 2025-03-04, and 10 since")
    elif keep == 0:
        reader.not_understood("checkpoint.keep_latest_k", "keeps all checkpoints: give how many the run makes")
        reader.need("retention.keep_last", "all checkpoints of the run are kept")
    else:
        reader.put("retention.keep_last", keep, "checkpoint.keep_latest_k")


TORCHTITAN = Importer(
    name="torchtitan",
    title="torchtitan",
    version=FRAMEWORKS["torchtitan"].version,
    source="torchtitan, torchtitan/config/job_config.py",
    frameworks=("torchtitan",),
    marks=(
        "job.dump_folder",
        "job.config_file",
        "model.flavor",
        "parallelism.data_parallel_shard_degree",
        "parallelism.tensor_parallel_degree",
        "checkpoint.keep_latest_k",
        "activation_checkpoint.selective_ac_option",
        "training.local_batch_size",
        "training.mixed_precision_param",
    ),
    min_marks=2,
    sure_marks=("job.config_file",),
    defaults=_DEFAULTS,
    read=_read,
    rename=rename_former_settings,
    ignored=(
        "job.*",
        "profiling.*",
        "metrics.*",
        "comm.*",
        "lr_scheduler.*",
        "validation.*",
        "memory_estimation.*",
        "debug.*",
        "experimental.context_parallel_rotate_method",
        "experimental.custom_args_module",
        "experimental.custom_import",
        "experimental.enable_async_tensor_parallel",
        "experimental.enable_compiled_autograd",
        "model.tokenizer_path",
        "model.hf_assets_path",
        "model.print_after_conversion",
        "optimizer.lr",
        "optimizer.eps",
        "optimizer.beta[12]",
        "optimizer.weight_decay",
        "optimizer.implementation",
        "optimizer.fused",
        "training.dataset*",
        "training.max_norm",
        "training.steps",
        "training.seed",
        "training.deterministic",
        "training.gc_*",
        "training.mixed_precision_reduce",
        "training.warmup_steps",
        "parallelism.enable_async_tensor_parallel",
        "parallelism.disable_loss_parallel",
        "parallelism.context_parallel_rotate_method",
        "parallelism.enable_compiled_autograd",
        "parallelism.fsdp_reshard_after_forward",
        "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
        "activation_checkpoint.early_stop",
        "float8.*",
        "mx.*",
        "quantize.*",
        "compile.components",
        "compile.backend",
        "checkpoint.folder",
        "checkpoint.initial_*",
        "checkpoint.load_step",
        "checkpoint.exclude_from_loading",
        "checkpoint.enable_first_step_checkpoint",
        "checkpoint.create_seed_checkpoint",
        "checkpoint.last_save_model_only",
        "checkpoint.export_dtype",
        "checkpoint.last_save_in_hf",
        "launcher.*",
    ),
)
