"""What goes over the wire beside sizing's own types; the service answers with these."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from sizing.scenario import REFERENCE_SCENARIO
from sizing.storage.calibration.calibration import Calibration, Grade
from sizing.storage.measurement import Operation
from sizing.storage.profile import StorageProfile

ReportForm = Literal["json", "html", "pdf", "csv"]
"""In which the report of a saved scenario is sent."""

_Item = TypeVar("_Item")

_ID = "019aa6c3-7d00-7000-8000-000000000001"
_MOMENT = "2026-11-21T12:00:00Z"


class Page(BaseModel, Generic[_Item]):
    """Some items of a list."""

    items: list[_Item]
    next: str | None = Field(description="the cursor of the page that follows; null on the last")


class StorageSystem(BaseModel):
    """A storage system."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [{"name": "scratch", "description": "Lustre, 40 OSTs, hall 2", "created_at": _MOMENT}]
        },
    )

    name: str
    description: str
    created_at: datetime


class MeasurementSummary(BaseModel):
    """What a run measured, without its samples."""

    model_config = ConfigDict(from_attributes=True)

    engine: str
    operation: Operation
    num_nodes: int
    num_ranks: int
    bytes_per_second: float
    verified: bool


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

    run_id: str
    published_at: datetime
    measurements: list[MeasurementSummary]


_SCENARIO: dict[str, Any] = {"id": _ID, "name": "Published run of 1T", "created_at": _MOMENT}


class ScenarioSummary(BaseModel):
    """A saved scenario without its document."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [_SCENARIO]})

    id: UUID
    name: str
    created_at: datetime


class SavedScenario(ScenarioSummary):
    """A saved scenario, its document as it was given."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SCENARIO | {"scenario": REFERENCE_SCENARIO}]})

    scenario: dict[str, Any]


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

    id: UUID
    created_at: datetime
    code_version: str = Field(description="of the code that made it")
    run_ids: list[str] = Field(description="of the runs that it rests on")
    engine: str
    grade: Grade
    profile: StorageProfile


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

    calibration: Calibration


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

    id: UUID
    at: datetime
    token: str | None = Field(description="name of the token; null for a change made at the terminal")
    action: str
    subject: str
    request_id: str | None = Field(description="as in the service's log and in the answer's X-Request-Id")
