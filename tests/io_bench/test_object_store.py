"""Runs against a real object store: every engine there and back, and what happens when the store does not play along."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest
import s3fs
from safetensors.torch import load

from io_bench.checks.observation import observation_of
from io_bench.checks.observed_saves import list_files
from io_bench.commands.main import main
from io_bench.engines import HOST_ENGINES
from io_bench.target.object_store.store import ObjectStore
from io_bench.target.object_store.url_target import UrlTarget
from io_bench.target.places import MANIFEST
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult
from tests.examples import spread
from tests.testbed.seaweedfs import SECRET_KEY, ObjectServer, seaweedfs

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench

BUCKET = "checkpoints"
NEIGHBOUR = f"{BUCKET}/team/not-ours.bin"
TARGET = f"s3://{BUCKET}/team"
# Objects of several parts, and of a rest.
SMALL = ("--bytes-per-rank", "20MiB", "--repetitions", "1", "--output", "r.json")


class Store:
    """The server as its owner sees it."""

    def __init__(self, server: ObjectServer) -> None:
        self.server = server
        self.environment = server.environment

    def objects(self) -> list[str]:
        return sorted(self._files.find(BUCKET))

    def unfinished(self) -> list[dict[str, Any]]:
        return list(self._files.list_multipart_uploads(BUCKET))

    def put(self, key: str, content: bytes = b"precious") -> None:
        self._files.pipe_file(key, content)

    def read(self, key: str) -> bytes:
        return bytes(self._files.cat_file(key))

    def reset(self) -> None:
        """A bucket with one object that is somebody else's."""
        fs = self._files
        if fs.exists(BUCKET):
            fs.clear_multipart_uploads(BUCKET)
            fs.rm(fs.find(BUCKET))
        else:
            fs.call_s3("create_bucket", Bucket=BUCKET)
        self.put(NEIGHBOUR)

    def assert_only_the_neighbour_is_left(self) -> None:
        assert self.objects() == [NEIGHBOUR]
        assert self.read(NEIGHBOUR) == b"precious"
        assert self.unfinished() == []

    @functools.cached_property
    def _files(self) -> Any:
        return s3fs.S3FileSystem(
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            key=self.environment["AWS_ACCESS_KEY_ID"],
            secret=self.environment["AWS_SECRET_ACCESS_KEY"],
            client_kwargs={"region_name": self.environment["AWS_DEFAULT_REGION"]},
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@pytest.fixture(scope="module")
def running_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield Store(server)


@pytest.fixture
def store(running_store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    for name, value in running_store.environment.items():
        monkeypatch.setenv(name, value)
    running_store.reset()
    return running_store


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Run(Protocol):
    """Runs the command line in this process."""

    def __call__(self, *arguments: str) -> Done: ...


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def run_here(*arguments: str) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["run", "--target", *arguments])
        return Done(int(end.value.code or 0), *capsys.readouterr())

    return run_here


def result_in(directory: Path) -> BenchmarkResult:
    return BenchmarkResult.model_validate_json((directory / "r.json").read_text())


@pytest.mark.parametrize("engine", spread(HOST_ENGINES, by_default=["dcp"]))
def test_every_engine_writes_to_a_bucket_and_restores_from_it(
    engine: str, run: Run, store: Store, tmp_path: Path
) -> None:
    """The tests below write with three others."""
    done = run(TARGET, "--engine", engine, *SMALL)
    assert done.code == 0, done.err
    for measurement in result_in(tmp_path).measurements:
        assert (measurement.cache_policy, measurement.verified) == ("object-store", True)
        assert (measurement.block_bytes, measurement.threads_per_rank) == (8 << 20, 8)
        assert 20 << 20 <= measurement.total_bytes < 22 << 20
    store.assert_only_the_neighbour_is_left()


@pytest.mark.long
def test_two_ranks_write_their_own_objects_and_one_metadata(bench: Bench, store: Store) -> None:
    done = bench.run("run", "--target", TARGET, "--engine", "dcp", *SMALL, num_ranks=2)
    assert done.returncode == 0, done.stderr
    assert [(each.num_ranks, each.num_files) for each in result_in(bench.directory).measurements] == [(2, 3)] * 2
    store.assert_only_the_neighbour_is_left()


@pytest.mark.long
def test_ranks_take_several_buckets_in_turn_and_leave_nothing_in_either(bench: Bench, store: Store) -> None:
    """Three ranks: the first and the third have the first place."""
    places = [f"{TARGET}/a", f"{TARGET}/b"]
    flags = ("--target", ",".join(places), "--engine", "direct", *SMALL)
    done = bench.run("run", *flags, num_ranks=3)
    assert done.returncode == 0, done.stderr
    for measurement in result_in(bench.directory).measurements:
        assert measurement.verified
        assert measurement.shape is not None
        found = measurement.shape.targets or []
        assert [(each.path, each.num_ranks) for each in found] == [(places[0], 2), (places[1], 1)]
        assert found[0].total_bytes == pytest.approx(2 * found[1].total_bytes, rel=0.01)
        assert measurement.shape.targets_bytes_per_second == pytest.approx(sum(each.bytes_per_second for each in found))
    assert "By target: s3://" in " ".join(done.stdout.split())
    store.assert_only_the_neighbour_is_left()


@pytest.mark.long
def test_several_endpoints_of_one_bucket_are_several_targets(
    bench: Bench, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two names of one server, as two gateways of one store: neither is that of the AWS configuration."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    port = store.server.ports["s3"]
    places = [f"s3+http://{host}:{port}/{BUCKET}/team" for host in ("127.0.0.1", "localhost")]
    done = bench.run("run", "--target", ",".join(places), "--engine", "direct", *SMALL, num_ranks=2)
    assert done.returncode == 0, done.stderr
    result = result_in(bench.directory)
    for measurement in result.measurements:
        assert measurement.verified
        assert measurement.shape is not None
        assert [(each.path, each.num_ranks) for each in measurement.shape.targets or []] == [(p, 1) for p in places]
    (node,) = cast(dict[str, Any], result.environment["nodes"]).values()
    assert node["mount"] == {
        "type": "s3",
        "endpoint": f"http://127.0.0.1:{port}",
        "path": places[0],
        "type of target 2": "s3",
        "endpoint of target 2": f"http://localhost:{port}",
        "path of target 2": places[1],
    }
    store.assert_only_the_neighbour_is_left()


def test_a_url_with_an_endpoint_goes_there_whatever_the_configuration_says(
    run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = store.environment["AWS_ENDPOINT_URL"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    done = run(f"s3+{endpoint}/{BUCKET}/team", "--engine", "torch-save", *SMALL)
    assert done.code == 0, done.err
    store.assert_only_the_neighbour_is_left()


def test_parts_are_of_the_size_and_number_asked_for(run: Run, store: Store, tmp_path: Path) -> None:
    assert run(TARGET, *SMALL, "--block-size", "6MiB", "--threads", "2").code == 0
    measurements = result_in(tmp_path).measurements
    assert {(each.block_bytes, each.threads_per_rank) for each in measurements} == {(6 << 20, 2)}
    store.assert_only_the_neighbour_is_left()


def test_a_kept_checkpoint_is_all_that_is_left_and_the_result_knows_the_store_and_no_secret(
    run: Run, store: Store, tmp_path: Path
) -> None:
    assert run(TARGET, "--engine", "safetensors", *SMALL, "--keep").code == 0
    result = result_in(tmp_path)
    place = f"{BUCKET}/team/ckpt-bench-{result.run_id}"
    assert store.objects() == sorted([NEIGHBOUR, f"{place}/{MANIFEST}", f"{place}/rank-00000.safetensors"])
    tensors = load(store.read(f"{place}/rank-00000.safetensors"))
    assert sum(tensor.nbytes for tensor in tensors.values()) == pytest.approx(20 << 20, abs=56)
    (node,) = cast(dict[str, Any], result.environment["nodes"]).values()
    assert node["mount"] == {"type": "s3", "endpoint": store.environment["AWS_ENDPOINT_URL"], "path": TARGET}
    assert SECRET_KEY not in (tmp_path / "r.json").read_text()


@pytest.mark.parametrize(
    ("target", "environment", "words"),
    [
        ("s3://no-such-bucket/x", {}, "--target must be a reachable bucket (The specified bucket does not"),
        (TARGET, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "(The request signature we calculated does not match"),
        (TARGET, {"AWS_ACCESS_KEY_ID": "nobody"}, "--target must be a reachable bucket ("),
        (TARGET, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"}, "Could not connect to the"),
        (
            "memory://no-such-bucket/x",
            {},
            "(no-such-bucket does not exist), got 'memory://no-such-bucket/x': check name and",
        ),
        ("s3://", {}, "--target must name a bucket"),
        ("s3+http://127.0.0.1:9", {}, "--target must name a bucket"),
        ("s3+http:///bucket", {}, "--target must name a bucket"),
        (
            f"s3+http://127.0.0.1:9/{BUCKET}",
            {"AWS_MAX_ATTEMPTS": "1"},
            "check name, credentials and the endpoint (requests go to http://127.0.0.1:9)",
        ),
        ("s3://key:hidden@bucket/x", {}, "--target must be a URL without credentials or options: set AWS_ACCESS_KEY"),
        (f"{TARGET}?token=hidden", {}, "--target must be a URL without credentials or options: set AWS_ACCESS_KEY"),
        ("warp://bucket/x", {}, "(Protocol not known: warp)"),
    ],
)
def test_a_store_that_cannot_be_used_is_explained_in_one_sentence(
    target: str, environment: Mapping[str, str], words: str, run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = run(target)
    assert (done.code, done.out) == (2, "")
    (sentence,) = done.err.splitlines()
    assert words in sentence
    assert "hidden" not in sentence
    store.assert_only_the_neighbour_is_left()


def test_parts_that_the_store_does_not_take_are_refused(run: Run, store: Store) -> None:
    done = run(TARGET, *SMALL, "--block-size", "1MiB")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("error: --block-size must be at least 5.000 MiB for objects of ")
    store.assert_only_the_neighbour_is_left()


def test_a_prefix_that_is_there_is_left_alone(store: Store) -> None:
    place = UrlTarget.checked(TARGET, is_first=True)
    files = place.make_run("mine")
    files.create("rank-00000.pt").close()
    with pytest.raises(FileExistsError):
        files.create("rank-00000.pt")
    with pytest.raises(InvalidInput, match="it exists already, from another run"):
        place.make_run("mine")
    files.remove_created()
    store.assert_only_the_neighbour_is_left()


def test_runs_are_found_without_listing_all_that_a_team_keeps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    place = UrlTarget.checked(TARGET, is_first=True)
    gone = place.make_run("gone")
    gone.create("rank-00000.pt").close()
    gone.remove_created()
    place.make_run("mine").create("rank-00000.pt").close()
    for key in ("ckpt-bench-result.json", "step-7/ckpt-bench-not-a-run/rank-00000.pt"):
        store.put(f"{BUCKET}/team/{key}")
    listed: list[str] = []
    paths = ObjectStore.paths

    def paths_and_say(store: ObjectStore, prefix: str) -> list[str]:
        listed.append(prefix)
        return paths(store, prefix)

    monkeypatch.setattr(ObjectStore, "paths", paths_and_say)
    assert place.run_ids() == ["mine"]
    assert all(prefix.startswith(f"{BUCKET}/team/ckpt-bench-") for prefix in listed)


def test_what_a_lost_rank_has_begun_is_removed_by_name(store: Store) -> None:
    place = UrlTarget.checked(TARGET, is_first=True)
    lost, other = place.make_run("mine"), place.open_run("mine")
    for name in ("rank-00001.pt", "foreign.pt"):
        lost.create(name).write(bytes(20 << 20))
    other.remove_of_lost(["rank-00001.pt"])
    (unfinished,) = store.unfinished()
    assert unfinished["Key"].endswith("/foreign.pt")
    lost.remove_created()
    store.assert_only_the_neighbour_is_left()


Until = Callable[[Callable[[], object], "subprocess.Popen[str]"], None]


@pytest.mark.long
def test_a_rank_that_is_killed_in_the_middle_of_an_upload_leaves_nothing(
    bench: Bench, store: Store, until: Until, ranks_of: Callable[..., Any]
) -> None:
    flags = ("--bytes-per-rank", "64MiB", "--repetitions", "100")
    launcher = bench.start(bench.command("run", "--target", TARGET, *flags, num_ranks=2))
    until(lambda: len(store.unfinished()) == 2, launcher)
    ranks_of(launcher)[1].kill()
    done = bench.finish(launcher)
    assert done.returncode == 1
    store.assert_only_the_neighbour_is_left()


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A server to be killed."""
    with seaweedfs(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = Store(server)
        store.reset()
        yield store


@pytest.mark.long
def test_a_server_that_is_killed_during_a_write_ends_the_run_in_a_clear_error_and_can_be_cleaned(
    bench: Bench, own_store: Store, until: Until
) -> None:
    flags = ("--engine", "dcp", "--bytes-per-rank", "192MiB", "--repetitions", "100")
    command = bench.command("run", "--target", TARGET, *flags)
    process = bench.start(command, environment={"AWS_MAX_ATTEMPTS": "1"})
    until(own_store.unfinished, process)
    own_store.server.kill()
    done = bench.finish(process)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    message = done.stderr.splitlines()[-1]
    # Where the kill comes late, the object is there and is looked at, or read.
    assert re.match(rf"error: Rank 0 failed while (writing|looking at|reading) {TARGET}/ckpt-bench-", message), message
    assert "Could not connect to the endpoint URL" in message
    assert "could not be removed" in message
    own_store.server.start()
    cleaned = bench.run("clean", "--target", TARGET)
    assert cleaned.returncode == 0, cleaned.stderr
    own_store.assert_only_the_neighbour_is_left()


def test_the_saves_of_a_run_in_a_bucket_are_observed_by_their_listing(store: Store) -> None:
    for step, num_bytes in ((10, 3000), (20, 2000)):
        for rank in range(2):
            store.put(f"{BUCKET}/team/llama/step-{step}/__{rank}_0.distcp", bytes(num_bytes))
        store.put(f"{BUCKET}/team/llama/step-{step}/.metadata", b"x")
    place = f"{TARGET}/llama"
    found = observation_of(list_files(place), place=place)
    saves = [(save.step, save.num_bytes, save.num_writers, save.is_finished) for save in found.saves]
    assert saves == [(10, 6001, 2, True), (20, 4001, 2, True)]
    assert (found.times, found.stragglers, found.writer_bytes_per_second) == ("modification", (), None)
    said = " ".join(found.notes)
    assert all(words in said for words in ("lower bounds", "whole seconds", "an object store"))
