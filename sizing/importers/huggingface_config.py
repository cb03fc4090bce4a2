"""config.json of a model on the Hugging Face hub."""

from __future__ import annotations

from sizing.config_files.reader import SettingReader
from sizing.importers.importer import Importer


def _read(reader: SettingReader) -> None:
    names = tuple(reader.source.settings)
    reader.put("model.huggingface_config", dict(reader.source.document or {}), *names[:1])
    reader.ignore("*")


HUGGINGFACE_CONFIG = Importer(
    name="huggingface-config",
    title="config.json of a model",
    version="transformers 4.57",
    source="transformers, configuration_utils.py",
    frameworks=(),
    marks=("model_type", "architectures", "transformers_version", "text_config.*", "num_hidden_layers"),
    read=_read,
    min_marks=2,
)
