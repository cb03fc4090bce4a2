"""A model as transformers builds it from a config.json, on the meta device: names and shapes without memory.

The one module of `sizing` that imports torch, and only for `ckpt-size tensors --hf-config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sizing.errors import InvalidInput, NotInstalled
from sizing.loading import loading
from sizing.model.listed import FlatTensor
from sizing.model.listing import tensors_of_module

FIELD = "--hf-config"
_EXTRA = "install checkpoint-sizing with its extra hf, there or on another machine, and take the list from there"


def tensors_on_meta_device(config: Mapping[str, Any], path: Path) -> list[FlatTensor]:
    """List the tensors of the model that a config.json describes.

    Its class is the first that the config's `architectures` names, otherwise that of a model that also sees or hears,
    of a causal language model, or of the model without a head. No code beside transformers' own is run.
    Raises NotInstalled without the extra `hf`, and InvalidInput where transformers cannot build the model.
    """
    with loading():
        return _build(config, path)


def _build(config: Mapping[str, Any], path: Path) -> list[FlatTensor]:
    try:
        import torch  # noqa: PLC0415 - takes seconds to load, and only this needs it
        import transformers  # noqa: PLC0415 - the same
        from transformers.initialization import no_init_weights  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        rule = f"needs {error.name}, which is not installed here"
        raise NotInstalled.of(FIELD, rule, value=str(path), remedy=_EXTRA) from None
    model_type = config.get("model_type")
    if model_type not in transformers.CONFIG_MAPPING:
        rule = f"must have a model_type of transformers {transformers.__version__}"
        remedy = "install a newer transformers, or list the tensors of the module itself by sizing.model.from_module"
        raise InvalidInput.of(FIELD, rule, value=model_type, remedy=remedy)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers has no type for it
    try:
        parsed = transformers.CONFIG_MAPPING[str(model_type)].from_dict(dict(config))
        with torch.device("meta"), no_init_weights():
            module = _choose_class(transformers, parsed)(parsed)
        module.tie_weights()
    except Exception as error:  # noqa: BLE001 - whatever a config may do to a model's own code
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        rule = f"must be a config that transformers {transformers.__version__} builds ({reason})"
        raise InvalidInput.of(FIELD, rule, value=str(path), remedy="correct the config") from None
    dtype = getattr(parsed, "dtype", None)
    return tensors_of_module(module.to(dtype) if dtype is not None else module)


def _choose_class(transformers: Any, config: Any) -> Any:
    name = next(iter(config.architectures or ()), None)
    model_class = getattr(transformers, str(name), None) if name else None
    if model_class is not None:
        return model_class
    mapping = transformers.models.auto.modeling_auto
    wholes = mapping.MODEL_FOR_MULTIMODAL_LM_MAPPING  # before a language model, which some of their configs build too
    for classes in (wholes, mapping.MODEL_FOR_CAUSAL_LM_MAPPING, mapping.MODEL_MAPPING):
        if type(config) in classes:
            choice = classes[type(config)]
            return choice[0] if isinstance(choice, (tuple, list)) else choice
    raise ValueError(f"no model class for {type(config).__name__}")
