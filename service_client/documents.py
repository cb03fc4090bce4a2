"""What goes over the wire beside sizing's own types; the service answers with these."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from sizing.scenario import REFERENCE_SCENARIO
from sizing.schema_versions import SCHEMA_VERSION
from sizing.storage.calibration.calibration import Calibration, Grade
from sizing.storage.measurement import Operation
from sizing.storage.profile import StorageProfile

ReportForm = Literal["json", "html", "pdf", "csv"]
"""Format of the report of a saved scenario."""

_Item = TypeVar("_Item")

_ID = "019aa6c3-7d00-7000-8000-000000000001"
_MOMENT = "2026-11-21T12:00:00Z"


class Page(BaseModel, Generic[_Item]):
    """Some items of a list."""

    items: list[_Item] = Field(description="Entries of this page, in the order of the list.")
    next: str | None = Field(description="Cursor of the next page. Null on the last page.")


class StorageSystem(BaseModel):
    """A storage system."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [{"name": "scratch", "description": "Lustre, 40 OSTs, hall 2", "created_at": _MOMENT}]
        },
    )

    name: str = Field(description="Name, unique and part of its links.")
    description: str = Field(description="Notes such as vendor, size and place.")
    created_at: datetime = Field(description="Time at which it was added, in UTC.")


class MeasurementSummary(BaseModel):
    """What a run measured, without its samples."""

    model_config = ConfigDict(from_attributes=True)

    engine: str = Field(description="Engine that wrote the checkpoint, such as direct or torch-save.")
    operation: Operation = Field(description="What was timed: the write of the checkpoint or its restore into memory.")
    num_nodes: int = Field(description="Nodes whose ranks took part.")
    num_ranks: int = Field(description="Ranks that took part at the same time.")
    bytes_per_second: float = Field(
        description="Bandwidth of all ranks in total, in bytes per second: median of the repetitions."
    )
    verified: bool = Field(description="Whether the restored data has the checksums of the written data.")


_RUN: dict[str, Any] = {
    "run_id": "20261121T120000Z-1a2b3c",
    "published_at": _MOMENT,
    "measurements": [
        {
            "engine": "torch-save",
            "operation": "write",
            "num_nodes": 1,
            "num_ranks": 2,
            "bytes_per_second": 1e9,
            "verified": True,
        }
    ],
}


class RunSummary(BaseModel):
    """A published run, without its samples."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [_RUN]})

    run_id: str = Field(description="Id that the agent gave the run when it started.")
    published_at: datetime = Field(description="Time at which the service received it, in UTC.")
    measurements: list[MeasurementSummary] = Field(
        description="Every operation of every configuration, without samples."
    )


_SCENARIO: dict[str, Any] = {"id": _ID, "name": "Published run of 1T", "created_at": _MOMENT}
_SAVED_SCENARIO = _SCENARIO | {"scenario": REFERENCE_SCENARIO | {"schema_version": SCHEMA_VERSION}}


class ScenarioSummary(BaseModel):
    """A saved scenario without its document."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [_SCENARIO]})

    id: UUID = Field(description="Identifier that ends the link of the saved scenario.")
    name: str = Field(description="Title for people.")
    created_at: datetime = Field(description="Time at which it was saved, in UTC.")


class SavedScenario(ScenarioSummary):
    """A saved scenario, its document as it was given."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SAVED_SCENARIO]})

    scenario: dict[str, Any] = Field(
        description="Document as it was saved, with the schema_version of then; its report is computed again at every "
        "read, with the defaults of that version."
    )


_CALIBRATION: dict[str, Any] = {
    "id": _ID,
    "created_at": _MOMENT,
    "code_version": "0.1.0",
    "run_ids": ["20261121T120000Z-1a2b3c"],
    "engine": "torch-save",
    "grade": "B",
    "profile": {"write_bytes_per_second": 2.73e11, "node_write_bytes_per_second": 8e9},
}


class CalibrationSummary(BaseModel):
    """A stored calibration: the profile, and where it comes from."""

    model_config = ConfigDict(json_schema_extra={"examples": [_CALIBRATION]})

    id: UUID = Field(description="Id for storage.calibration of a scenario.")
    created_at: datetime = Field(description="Time at which it was fitted, in UTC.")
    code_version: str = Field(description="Version of this software that fitted it.")
    run_ids: list[str] = Field(description="Ids of the benchmark runs that were fitted.")
    engine: str = Field(description="Engine that wrote the checkpoints, such as direct or torch-save.")
    grade: Grade = Field(
        description="Quality of the calibration, from A to D, by held-out error, limits reached and configurations."
    )
    profile: StorageProfile = Field(
        description="Limits that explain the measurements; limits never reached are omitted."
    )


_SPAN = [1.0, 8.0]
_STORED_CALIBRATION: dict[str, Any] = _CALIBRATION | {
    "calibration": {
        "profile": _CALIBRATION["profile"],
        "engine": "torch-save",
        "run_ids": _CALIBRATION["run_ids"],
        "grade": "B",
        "write": {
            "limits": [
                {
                    "field": "node_write_bytes_per_second",
                    "resource": "node",
                    "verdict": "measured",
                    "value": 8e9,
                    "interval": [7.6e9, 8.3e9],
                    "num_binding": 6,
                    "reason": "binds in 6 configurations",
                }
            ],
            "covered": {
                "num_nodes": _SPAN,
                "streams_per_node": _SPAN,
                "bytes_per_stream": [1e9, 4e9],
                "files_per_stream": [1.0, 1.0],
            },
            "num_configurations": 16,
            "noise_fraction": 0.03,
            "held_out_error_fraction": 0.04,
            "worst_held_out_error_fraction": 0.11,
            "draws": {},
            "rivals": [],
            "points": [],
        },
    }
}


class StoredCalibration(CalibrationSummary):
    """A stored calibration with its fit, its intervals and its warnings."""

    model_config = ConfigDict(json_schema_extra={"examples": [_STORED_CALIBRATION]})

    calibration: Calibration = Field(description="Fit with its intervals, errors and warnings.")


_CHANGE: dict[str, Any] = {
    "id": _ID,
    "at": _MOMENT,
    "token": "agents",
    "action": "publish",
    "subject": "run 20261121T120000Z-1a2b3c",
    "request_id": "5f0c3f3a9b1e4d27",
}


class AuditEntry(BaseModel):
    """One change of what the service keeps."""

    model_config = ConfigDict(json_schema_extra={"examples": [_CHANGE]})

    id: UUID = Field(description="Id of the entry; later entries have higher ones.")
    at: datetime = Field(description="Time of the change, in UTC.")
    token: str | None = Field(
        description="Name of the token that made the change. Null for a change made in the terminal."
    )
    action: str = Field(description="Action, such as publish or delete.")
    subject: str = Field(description="Object that changed, by kind and name or id.")
    request_id: str | None = Field(
        description="Id of the request, as in the service's log and in the answer's X-Request-Id. "
        "Null for a change made in the terminal."
    )
