"""Read an index or a header that was sent alone, without the data that it describes.

Readers find files by name, so that the sent file is put into a folder of its own while it is read.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from sizing.checkpoint_files.container import Container
from sizing.checkpoint_files.contents import CheckpointContents
from sizing.checkpoint_files.dcp import METADATA_NAME
from sizing.checkpoint_files.folder import container_of_file
from sizing.checkpoint_files.reading import contents_of_container
from sizing.checkpoint_files.safetensors import LENGTH_BYTES, SHARD_SUFFIX, header_tensors, is_plain_file_name
from sizing.errors import InvalidInput, UnreadableFile, broken_rule
from sizing.strict_model import StrictModel
from sizing.units import FileContent

JSON_SUFFIX = ".json"
HEADER_ALONE = "Only the header was sent: the sizes are those that it states"

REFERENCE_FILE: dict[str, Any] = {
    "name": "model.safetensors.index.json",
    "content": "eyJtZXRhZGF0YSI6IHsidG90YWxfc2l6ZSI6IDE2MDYwNTIyNDk2LCAidG90YWxfcGFyYW1ldGVycyI6IDgwMzAyNjEyNDh9"
    "LCAid2VpZ2h0X21hcCI6IHsibG1faGVhZC53ZWlnaHQiOiAibW9kZWwtMDAwMDQtb2YtMDAwMDQuc2FmZXRlbnNvcnMifX0=",
}
"""Example: the totals of Llama-3.1-8B, with one line of its map."""


class SentFile(StrictModel):
    """An index of a checkpoint, or the beginning of a safetensors file."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_FILE]})

    name: Annotated[str, Field(max_length=255)] = Field(
        description="Name of the file, which says how to read it: an index that ends in .json, .metadata of torch DCP, "
        "or one that ends in .safetensors."
    )
    content: FileContent = Field(
        description="Bytes of the file in base64; of a safetensors file its first 8, and the header whose length they "
        "say, are enough."
    )

    @model_validator(mode="after")
    def _is_of_a_known_kind(self) -> Self:
        if not is_plain_file_name(self.name):
            raise broken_rule("has a name with a folder or with what cannot be printed", "give the file's own name")
        if self.name != METADATA_NAME and not self.name.endswith((JSON_SUFFIX, SHARD_SUFFIX)):
            raise broken_rule(
                "is neither an index (.json), nor DCP .metadata, nor a .safetensors file",
                "send the index or .metadata that lies beside such a file",
            )
        return self


def contents_of_sent(file: SentFile) -> CheckpointContents:
    """Read the contents that the file states, without running a pickle.

    Raises InvalidInput if the file is damaged or of another kind.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file.name)
        path.write_bytes(file.content)
        try:
            return contents_of_container(_container(path, file.content))
        except UnreadableFile as error:
            rule, _, remedy = str(error).removeprefix(f"{path} ").removesuffix(".").rpartition(": ")
            raise InvalidInput.of("content", rule.replace(f"{folder}/", ""), value=None, remedy=remedy) from None


def _container(path: Path, content: bytes) -> Container:
    """Read the container of a file. A safetensors file that ends after its header stands for the whole file."""
    if path.suffix != SHARD_SUFFIX:
        return container_of_file(path)
    tensors = header_tensors(path)
    header_bytes = int.from_bytes(content[:LENGTH_BYTES], "little")
    if len(content) > LENGTH_BYTES + header_bytes or not tensors:
        return container_of_file(path)
    return Container(
        "safetensors", (path,), tensors, is_state_dict=True, absent_files=(path.name,), notes=(HEADER_ALONE,)
    )
