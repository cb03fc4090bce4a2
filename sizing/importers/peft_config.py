"""adapter_config.json, which PEFT writes beside adapters."""

from __future__ import annotations

from sizing.config_files.reader import SettingReader
from sizing.importers.importer import Importer
from sizing.importers.trainer_settings import has_trainer_beside, is_empty, put_adapters, put_beside_adapters

_NOT_COUNTED = {
    "rank_pattern*": "gives modules ranks of their own: that of r is counted for all",
    "layers_to_transform": "adapts some layers alone: all are counted",
    "layers_pattern": "adapts some layers alone: all are counted",
    "exclude_modules": "leaves modules out: give training.adapters.tensors",
    "target_parameters": "adapts parameters that are no modules: not counted",
    "trainable_token_indices*": "trains some rows of the embedding: not counted",
    "layer_replication": "repeats layers of the model: not counted",
    "lora_bias": "adds a bias to each adapter: not counted",
    "ensure_weight_tying": "trains a tied head with the embedding: both are counted as copies of their own",
}
"""Settings that change what is saved and that a scenario does not hold. Source: PEFT 0.21, tuners/lora/config.py."""
_WITH_A_HEAD = {"SEQ_CLS": "score", "TOKEN_CLS": "classifier", "QUESTION_ANS": "qa_outputs"}
"""Heads that PEFT trains whole for a task. Source: PEFT 0.21, peft_model.py."""


def _read(reader: SettingReader) -> None:
    if not has_trainer_beside(reader):
        reader.put_framework("transformers", is_sure=False)
        reader.doubt("training.framework", "PEFT does not say which trainer it ran in: that of transformers is taken")
    name = reader.path("base_model_name_or_path")
    if name is not None:
        reader.put_model(name, "base_model_name_or_path")
        if "bnb-4bit" in str(name).lower():
            reader.put("training.adapters.base_dtype", "nf4", "base_model_name_or_path")
    kind = str(reader.get("peft_type", "LORA")).upper()
    if kind != "LORA":
        reader.not_understood("peft_type", "is an adapter that is not known here: only those of LoRA are")
        reader.need("training.adapters", f"peft_type is {kind}")
        reader.ignore("*")
        return
    put_adapters(reader, rank_name="r", targets_name="target_modules", takes_default_of_peft=True)
    put_beside_adapters(reader, whole_modules="modules_to_save")
    if head := _WITH_A_HEAD.get(str(reader.get("task_type", None)).upper()):
        reader.not_understood("task_type", f"adds a head {head} that is trained whole: not counted")
    for pattern, why in _NOT_COUNTED.items():
        for each in reader.source.matching(pattern):
            if not is_empty(reader.get(each)):
                reader.not_understood(each, why)
                reader.doubt("training.adapters", f"{each.partition('.')[0]} is not counted")


PEFT_CONFIG = Importer(
    name="peft-config",
    title="adapter_config.json of PEFT",
    version="PEFT 0.21",
    source="PEFT, tuners/lora/config.py",
    frameworks=(),
    marks=("base_model_name_or_path", "target_modules", "r", "lora_alpha", "init_lora_weights", "inference_mode"),
    sure_marks=("peft_type",),
    min_marks=3,
    read=_read,
    ignored=(
        "lora_alpha",
        "lora_dropout",
        "alpha_pattern*",
        "auto_mapping*",
        "fan_in_fan_out",
        "inference_mode",
        "init_lora_weights",
        "use_rslora",
        "use_qalora",
        "qalora_group_size",
        "use_bdlora",
        "task_type",
        "revision",
        "peft_type",
        "peft_version",
        "loftq_config*",
        "eva_config*",
        "corda_config*",
        "lora_ga_config*",
        "arrow_config*",
        "megatron_config*",
        "megatron_core",
        "runtime_config*",
        "alora_invocation_tokens",
        *_NOT_COUNTED,
    ),
)
