"""The `storage` block of a Scenario, and the profile that it resolves to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from sizing.catalog_file import catalog_name
from sizing.errors import InvalidInput, broken_rule, require_one_of
from sizing.spelling import AnySpelling
from sizing.storage.calibration import Calibration
from sizing.storage.catalog import CatalogProfile, Io, NodeRate, max_node_rate, profile_named, storage_profiles
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Direction
from sizing.strict_model import InputModel

MAX_CALIBRATION_ID_CHARACTERS = 100
"""A service's ids have 36 characters; what is much longer is a document in the wrong place."""

PICKLING_ENGINE = "torch-save"
"""Engine of `ckpt-bench` that writes as one process of a training script does."""

STORAGE_WAYS = ("preset", "profile", "calibration")
"""Fields of which a storage has exactly one."""


def _calibration_or_id(value: Any, handler: ValidatorFunctionWrapHandler) -> Calibration | str:
    """A text is an id and anything else a Calibration, so that what is wrong with it is said once."""
    if not isinstance(value, str):
        return value if isinstance(value, Calibration) else Calibration.model_validate(value)
    if not 0 < len(value) <= MAX_CALIBRATION_ID_CHARACTERS:
        raise broken_rule(f"must have 1 to {MAX_CALIBRATION_ID_CHARACTERS} characters", "give the id of a calibration")
    return str(handler(value))


class Storage(InputModel):
    """Where checkpoints go: a published system by its name, a profile, or a calibration."""

    preset: Annotated[str, Field(max_length=100), catalog_name(storage_profiles)] | None = Field(
        None,
        description="Name of a known storage system; `ckpt-size storage` lists them. "
        "Give exactly one of preset, profile, calibration.",
    )
    profile: StorageProfile | None = Field(
        None,
        description="Rates of a storage system that is not in the catalog. "
        "Give exactly one of preset, profile, calibration.",
    )
    calibration: Annotated[Calibration | str, WrapValidator(_calibration_or_id)] | None = Field(
        None,
        description="Limits fitted to benchmark runs, as `ckpt-bench calibrate` writes them, or the id under which a "
        "service stores them. Give exactly one of preset, profile, calibration.",
    )
    io: AnySpelling[Io] | None = Field(
        None,
        description="Whether files pass through the page cache. Direct lifts the limits of `_buffered_` rates. "
        "Default: buffered, so they limit where the profile has them.",
    )

    @model_validator(mode="after")
    def _one_kind_of_storage(self) -> Self:
        require_one_of(self, STORAGE_WAYS)
        return self


@dataclass(frozen=True, slots=True)
class ResolvedStorage:
    """The profile that the calculation uses, and what stands behind it: a published system or a calibration.

    `io` is the way through the page cache or past it.
    """

    profile: StorageProfile
    published: CatalogProfile | None = None
    calibration: Calibration | None = None
    io: Io = "buffered"

    @property
    def is_in_nodes(self) -> bool:
        """Whether it is known to be drives of each node, which no network reaches."""
        return self.published is not None and self.published.tier == "local-nvme"

    @property
    def measures_one_process(self) -> bool:
        """Whether its write rates hold for one process that pickles all by itself, as such a process was measured."""
        if self.calibration is None:
            measured = self.profile.measured
            return measured is not None and measured.engine == PICKLING_ENGINE and measured.num_ranks == 1
        fit = self.calibration.fit("write")
        is_alone = fit is not None and fit.covered.num_nodes[0] * fit.covered.streams_per_node[0] == 1
        return is_alone and self.calibration.engine == PICKLING_ENGINE

    def max_node_rate(self, direction: Direction, *, is_in_nodes: bool) -> NodeRate | None:
        """The most that is published of one node, to hold this storage against; None where its own was measured."""
        if self.calibration is not None or self.profile.measured is not None:
            return None
        return max_node_rate(direction, "local-nvme" if is_in_nodes else "shared-file-system", self.io)


def resolve_storage(storage: Storage | None) -> ResolvedStorage | None:
    """The profile that a `storage` block asks for; None where there is no block.

    Raises InvalidInput where the catalog does not know its name, or where a calibration is still an id.
    """
    if storage is None:
        return None
    if isinstance(storage.calibration, str):
        raise InvalidInput.of(
            "storage.calibration",
            "is the id of a stored calibration, which only a service can look up",
            value=storage.calibration,
            remedy="give the calibration itself, or ask the service that stores it",
        )
    io = storage.io or "buffered"
    if storage.calibration is not None:
        return ResolvedStorage(storage.calibration.profile, calibration=storage.calibration, io=io)
    published = profile_named(storage.preset) if storage.preset is not None else None
    profile = published.profile if published else storage.profile
    assert profile is not None  # noqa: S101 - the block holds exactly one
    return ResolvedStorage(profile.direct() if io == "direct" else profile, published, io=io)
