"""Documents between client and service beside sizing's own types; the service answers with these."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from service_client.terms import JobState, ReportForm, RunRetention, TokenScope
from sizing.scenario import REFERENCE_SCENARIO
from sizing.schema_versions import SCHEMA_VERSION
from sizing.storage.calibration.calibration import Calibration, Grade
from sizing.storage.measurement import Operation
from sizing.storage.profile import StorageProfile
from sizing.storage.rate_changes import Change

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
            "examples": [
                {
                    "name": "scratch",
                    "description": "Lustre, 40 OSTs, hall 2",
                    "created_at": _MOMENT,
                    "owners": ["alice"],
                    "retention": {"max_age_seconds": 63_072_000, "max_runs": None},
                }
            ]
        },
    )

    name: str = Field(description="Name, unique and part of its links.")
    description: str = Field(description="Notes such as vendor, size and place.")
    created_at: datetime = Field(description="Time at which it was added, in UTC.")
    owners: list[str] = Field(
        default=[],
        description="Names of the tokens that may change it and withdraw its runs: those that were named, or else the "
        "one that added it. Empty from a service of an earlier version.",
    )
    retention: RunRetention = Field(
        default=RunRetention(), description="How long its runs are kept: for good by default."
    )


class LatestCalibration(BaseModel):
    """The newest calibration of a storage system."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={"examples": [{"id": _ID, "created_at": _MOMENT, "engine": "direct", "grade": "B"}]},
    )

    id: UUID = Field(description="Id for storage.calibration of a scenario.")
    created_at: datetime = Field(description="Time at which it was fitted, in UTC.")
    engine: str = Field(description="Engine that wrote the checkpoints, such as direct or torch-save.")
    grade: Grade = Field(
        description="What the calibration is worth for every use, from A to D: the worse of both uses."
    )
    inside_grade: Grade | None = Field(
        default=None,
        description="Grade of predictions inside what was measured. Null for calibrations of an earlier version.",
    )
    beyond_grade: Grade | None = Field(
        default=None,
        description="Grade of predictions beyond what was measured, up to four times the nodes. "
        "Null for calibrations of an earlier version.",
    )


class StorageSystemSummary(StorageSystem):
    """A storage system in the list, with what belongs to it counted."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "scratch",
                    "description": "Lustre, 40 OSTs, hall 2",
                    "created_at": _MOMENT,
                    "owners": ["alice"],
                    "retention": {"max_age_seconds": 63_072_000, "max_runs": None},
                    "num_runs": 12,
                    "latest_run_at": _MOMENT,
                    "num_calibrations": 1,
                    "latest_calibration": {"id": _ID, "created_at": _MOMENT, "engine": "direct", "grade": "B"},
                }
            ]
        }
    )

    num_runs: int = Field(
        default=0, description="Published runs, withdrawn ones too. 0 from a service of an earlier version."
    )
    latest_run_at: datetime | None = Field(
        default=None, description="Time at which the newest run was published, in UTC. Null without runs."
    )
    num_calibrations: int = Field(default=0, description="Stored calibrations. 0 from a service of an earlier version.")
    latest_calibration: LatestCalibration | None = Field(
        default=None, description="Newest calibration. Null where there is none."
    )


class TokenHolder(BaseModel):
    """Whose token a request has, or who has logged in, and what that allows."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "alice",
                    "scope": "write",
                    "systems": ["scratch"],
                    "expires_at": _MOMENT,
                    "has_logged_in": False,
                }
            ]
        },
    )

    name: str = Field(
        description="Whose token it is, as it was named when it was made; of a person, by the name at the login."
    )
    scope: TokenScope = Field(description="What the token allows: read, publish-only, publish, write or admin.")
    systems: list[str] | None = Field(
        description="Names of the storage systems that it is limited to. Null for a token of all."
    )
    expires_at: datetime | None = Field(
        description="Time at which it expires, or the session of a person ends, in UTC. Null for one that does not."
    )
    has_logged_in: bool = Field(
        default=False, description="Whether a person asks who logged in with a browser. False for a token."
    )


class MeasurementSummary(BaseModel):
    """What a run measured, without its samples."""

    model_config = ConfigDict(from_attributes=True)

    engine: str = Field(description="Engine that wrote the checkpoint, such as direct or torch-save.")
    operation: Operation = Field(description="What was timed: the write of the checkpoint or its restore into memory.")
    num_nodes: int = Field(description="Nodes whose ranks took part.")
    num_ranks: int = Field(description="Ranks that took part at the same time.")
    bytes_per_second: float = Field(
        description="Bandwidth of all ranks in total, in bytes per second: median of the repetitions, or where writes "
        "fell to a lower rate, as where a cache is full, the rate that went on."
    )
    verified: bool = Field(description="Whether the restored data has the checksums of the written data.")


class Withdrawal(BaseModel):
    """That a run no longer speaks for its storage system, and why."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={"examples": [{"reason": "Measured on the old switch", "at": _MOMENT, "by": "alice"}]},
    )

    reason: str = Field(description="Why the run was withdrawn.")
    at: datetime = Field(description="Time of the withdrawal, in UTC.")
    by: str = Field(description="Name of the token that withdrew it.")


_RUN: dict[str, Any] = {
    "run_id": "20261121T120000Z-1a2b3c",
    "published_at": _MOMENT,
    "publisher": "agents",
    "withdrawal": None,
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
    publisher: str | None = Field(
        None, description="Name of the token that published it. Null from a service of an earlier version."
    )
    withdrawal: Withdrawal | None = Field(
        None,
        description="Withdrawal of the run, which is kept and left out of calibrations and trends. "
        "Null where the run speaks for its storage system.",
    )
    measurements: list[MeasurementSummary] = Field(
        description="Every operation of every configuration, without samples."
    )


_JUDGED: dict[str, Any] = {
    "run_id": "20261121T120000Z-1a2b3c",
    "published_at": _MOMENT,
    "bytes_per_second": 8e8,
    "expected_bytes_per_second": 1e9,
    "change": "loss",
}
_SERIES = "write by torch-save, buffered-fsync, nodes 1, ranks 2, bytes per rank 1000000000, files 2"


class RatePoint(BaseModel):
    """The rate of one run beside the level before it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_JUDGED]})

    run_id: str = Field(description="Id that the agent gave the run when it started.")
    published_at: datetime = Field(description="Time at which the service received the run, in UTC.")
    bytes_per_second: float = Field(description="Bandwidth that was measured, in bytes per second.")
    expected_bytes_per_second: float | None = Field(
        description="Level before it: geometric mean of up to 20 earlier like runs, in bytes per second. "
        "Null before there are enough of them."
    )
    change: Change | None = Field(
        description="Loss or gain, where the rate lies outside of what the spread of the earlier runs explains. "
        "Null where nothing changed."
    )


class ChangedRate(RatePoint):
    """A rate that changed, and of which series."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"series": _SERIES} | _JUDGED]})

    series: str = Field(description="What like runs have in common: operation, engine, setting and configuration.")


class RateTrend(BaseModel):
    """The rates of like runs over time, the earliest first."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"series": _SERIES, "is_lost": True, "points": [_JUDGED]}]}
    )

    series: str = Field(description="What these runs have in common: operation, engine, setting and configuration.")
    is_lost: bool = Field(
        description="Whether the rate is lost now: the latest run is a loss, or the present level began with one."
    )
    points: list[RatePoint] = Field(description="Rates of the runs that were asked for, the earliest first.")


class PublishedRun(RunSummary):
    """A published run, and what changed with it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_RUN | {"changes": [{"series": _SERIES} | _JUDGED]}]})

    changes: list[ChangedRate] = Field(
        default=[],
        description="Rates of the run that lie outside of what earlier like runs explain. Empty where nothing changed.",
    )


class LeftOut(BaseModel):
    """What a calibration left out of a run."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"run_id": "20250101T120000Z-1a2b3c", "reason": "was withdrawn: old switch"}]}
    )

    run_id: str = Field(description="Id that the agent gave the run when it started.")
    reason: str = Field(description="Why it was left out, as a phrase that follows the run.")


_SCENARIO: dict[str, Any] = {"id": _ID, "name": "Published run of 1T", "created_at": _MOMENT}
_LISTED_SCENARIO = _SCENARIO | {
    "code_version": "0.1.0",
    "figures": [
        {"label": "One checkpoint", "figure": "13.80 TB", "value": 13.8e12},
        {"label": "Targets", "figure": "met", "value": True},
    ],
}
_SAVED_SCENARIO = _SCENARIO | {"scenario": REFERENCE_SCENARIO | {"schema_version": SCHEMA_VERSION}}


class ScenarioSummary(BaseModel):
    """A saved scenario without its document."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [_SCENARIO]})

    id: UUID = Field(description="Identifier that ends the link of the saved scenario.")
    name: str = Field(description="Title for people.")
    created_at: datetime = Field(description="Time at which it was saved, in UTC.")


class KeptFigure(BaseModel):
    """A figure of the answer that a scenario had when it was saved."""

    label: str = Field(description="Quantity that the figure is of, such as one checkpoint.")
    figure: str = Field(description="The figure as people read it, with its unit.")
    value: float | bool | None = Field(
        description="The same as a number in bytes, bytes per second or as a fraction; of the targets, whether all are "
        "met. Null when it was unknown."
    )


class ListedScenario(ScenarioSummary):
    """A saved scenario with the figures of its answer, as kept when it was saved."""

    model_config = ConfigDict(json_schema_extra={"examples": [_LISTED_SCENARIO]})

    code_version: str | None = Field(
        description="Version of checkpoint-sizing that answered it then. Null when that was not kept."
    )
    figures: list[KeptFigure] = Field(
        description="Size of a checkpoint, write bandwidth, overhead, goodput and targets of the answer of then. "
        "Empty when they were not kept."
    )


class SavedScenario(ScenarioSummary):
    """A saved scenario, its document as it was given."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SAVED_SCENARIO]})

    scenario: dict[str, Any] = Field(
        description="Document as it was saved, with the schema_version of then; its report is computed again at every "
        "read, with the defaults of that version."
    )


_LINK: dict[str, Any] = {
    "id": "019aa6c3-7d00-7000-8000-000000000002",
    "created_at": _MOMENT,
    "expires_at": "2026-12-21T12:00:00Z",
    "made_by": "alice",
}


class SharingLink(BaseModel):
    """A link that reads one saved scenario and its report without a token, and nothing else."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [_LINK]})

    id: UUID = Field(description="Identifier of the link, to withdraw it; it opens nothing.")
    created_at: datetime = Field(description="Time at which it was made, in UTC.")
    expires_at: datetime | None = Field(description="Time at which it ends, in UTC. Null for one that does not.")
    made_by: str = Field(description="Name of the token with which the scenario was shared.")


class NewSharingLink(SharingLink):
    """A sharing link with its key, which is shown only once."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [_LINK | {"key": "ckptlink_019aa6c3-7d00-7000-8000-000000000002_SECRET", "page": "/shared#KEY"}]
        }
    )

    key: str = Field(description="Key that GET /v1/shared and GET /v1/shared/report take as a bearer token.")
    page: str = Field(
        description="Path of the page that shows the scenario in a browser. The key is behind the #, which no server "
        "and no log sees."
    )


class ChangedFigure(BaseModel):
    """A figure that is not the one that it was."""

    figure: str = Field(description="Dotted path in the report; targets.met is whether all of them are met.")
    then: Any = Field(description="Figure of the answer when the scenario was saved. Null when it was unknown.")
    now: Any = Field(description="Figure of the answer of today. Null when it is unknown.")


class ScenarioChanges(BaseModel):
    """Return what changed in the answer to a saved scenario since it was saved."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "saved_by": "0.1.0",
                    "answered_by": "0.2.0",
                    "figures": [{"figure": "write.seconds", "then": 40.2, "now": 38.9}],
                }
            ]
        }
    )

    saved_by: str | None = Field(
        description="Version of this software that answered it when it was saved. "
        "Null where it was saved before versions were kept; then no figures are known to differ."
    )
    answered_by: str = Field(description="Version of this software that answers it today.")
    figures: list[ChangedFigure] = Field(description="Figures that differ by more than rounding.")


_CALIBRATION: dict[str, Any] = {
    "id": _ID,
    "created_at": _MOMENT,
    "code_version": "0.1.0",
    "run_ids": ["20261121T120000Z-1a2b3c"],
    "left_out": [{"run_id": "20250101T120000Z-1a2b3c", "reason": "was withdrawn: old switch"}],
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
    left_out: list[LeftOut] = Field(
        default=[],
        description="Runs that were asked for and left out, whole or in part, with the reason; at most 100. "
        "Empty from a service of an earlier version.",
    )
    num_left_out: int = Field(
        default=0, description="Runs that were left out, whole or in part. 0 from a service of an earlier version."
    )
    engine: str = Field(description="Engine that wrote the checkpoints, such as direct or torch-save.")
    grade: Grade = Field(
        description="What the calibration is worth for every use, from A to D: the worse of both uses."
    )
    inside_grade: Grade | None = Field(
        default=None,
        description="Grade of predictions inside what was measured. Null for calibrations of an earlier version.",
    )
    beyond_grade: Grade | None = Field(
        default=None,
        description="Grade of predictions beyond what was measured, up to four times the nodes. "
        "Null for calibrations of an earlier version.",
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


_JOB: dict[str, Any] = {
    "id": "5d0a3c1e-8a60-4c53-9f0b-1d6f1f0f7b11",
    "kind": "sweeps",
    "form": "json",
    "state": "done",
    "created_at": _MOMENT,
    "started_at": "2026-11-21T12:00:01Z",
    "ended_at": "2026-11-21T12:02:31Z",
    "running_seconds": 150.0,
    "max_seconds": 600.0,
    "progress_fraction": 1.0,
    "result_bytes": 48_213,
    "code": None,
    "detail": None,
}


class Job(BaseModel):
    """A question that is answered later."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [_JOB]})

    id: UUID = Field(description="Id of the job, which nobody can guess; who has it reads and cancels the job.")
    kind: str = Field(description="Last part of the route that was asked, such as sweeps.")
    form: ReportForm = Field(description="Format of the result.")
    state: JobState = Field(
        description="How far the answer is; interrupted where its process is gone and stored no question."
    )
    created_at: datetime = Field(description="Time at which it was asked, in UTC.")
    started_at: datetime | None = Field(description="Time at which its turn came, in UTC. Null before.")
    ended_at: datetime | None = Field(description="Time at which it ended, in UTC. Null before.")
    running_seconds: float = Field(description="Seconds of computing up to now, or to its end.")
    max_seconds: float = Field(description="Max seconds of computing, after which it fails.")
    progress_fraction: float | None = Field(
        None,
        description="Fraction of the computing that is done, as of some seconds ago. "
        "Null where the question does not tell.",
    )
    result_bytes: int | None = Field(description="Size of the result in bytes. Null where there is none.")
    code: str | None = Field(description="Kind of error for programs. Null where there is none.")
    detail: str | None = Field(description="All problems as sentences, one per line. Null where there are none.")

    @property
    def has_ended(self) -> bool:
        """Whether it stays as it is."""
        return self.ended_at is not None
