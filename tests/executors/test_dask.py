"""Workers of a Dask scheduler: the answer is that of one process, whoever dies meanwhile, or one sentence says why not."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import dask.config
import pytest
from distributed import Client, Security
from distributed.utils import LoopRunner

from executors import dask as dask_workers
from executors.dask import DaskWorkers
from executors.window import ChunkLimits
from sizing.errors import EXIT_BAD_INPUT, InvalidInput, NotInstalled
from sizing.questions.chunks import compute_what_is_missing, ignore_progress
from sizing.questions.layouts import answer as layouts
from sizing.questions.layouts.request import REFERENCE_SEARCH
from sizing.questions.registry import LAYOUTS, SWEEP
from sizing.questions.sweep import axes
from sizing.questions.sweep.request import REFERENCE_SWEEP
from tests.executors.toy_work import Mischief, Sum, ToyWork
from tests.sizing.questions.test_kept_parts import Kept
from tests.testbed.dask import REPOSITORY, cluster, scheduler, workers
from tests.testbed.terminal import ckpt_size

LIMITS = ChunkLimits(max_seconds=60.0, max_bytes=1 << 30)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("dask")) as running:
        yield running.address


def summed(
    address: str,
    num_items: int,
    mischief: Mischief = "none",
    folder: Path | None = None,
    *,
    limits: ChunkLimits = LIMITS,
    heard: list[float] | None = None,
) -> Sum:
    make = functools.partial(ToyWork, num_items, mischief, folder)
    work = make()
    progress = ignore_progress if heard is None else heard.append
    return work.merge(DaskWorkers(address, limits).compute(work, make, progress))


def test_processes_of_workers_compute_the_chunks_and_progress_is_heard(address: str) -> None:
    heard: list[float] = []
    found = summed(address, 100, heard=heard)
    assert found.total == sum(range(100))
    assert os.getpid() not in found.pids
    assert heard == pytest.approx([share / 10 for share in range(1, 11)])


def test_one_chunk_is_computed_here(address: str) -> None:
    assert summed(address, 10) == Sum(total=45, pids=[os.getpid()])


def test_workers_compute_only_the_chunks_whose_parts_are_not_kept(address: str) -> None:
    make = functools.partial(ToyWork, 100)
    work = make()
    kept = Kept(
        {chunk: Sum(total=sum(range(*chunk)), pids=[0]).model_dump_json().encode() for chunk in work.chunks[3:9]}
    )
    found = work.merge(compute_what_is_missing(kept, DaskWorkers(address, LIMITS).compute)(work, make, ignore_progress))
    assert found.total == sum(range(100))
    assert kept.added == [*work.chunks[:3], *work.chunks[9:]]
    assert 0 in found.pids
    assert os.getpid() not in found.pids


def test_a_sweep_by_dask_is_that_of_one_process_to_the_bit(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "_ROWS_PER_CHUNK", 100)  # the ranges are cut here, and sent
    request = SWEEP.question.request.model_validate(REFERENCE_SWEEP)
    alone = SWEEP.question.answer_request(request).report
    together = SWEEP.question.answer_request(request, ignore_progress, DaskWorkers(address).compute).report
    assert together.model_dump_json() == alone.model_dump_json()


def test_a_layout_search_by_dask_is_that_of_one_process_to_the_bit(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "_CANDIDATES_PER_CHUNK", 20)
    request = LAYOUTS.question.request.model_validate(REFERENCE_SEARCH | {"objective": "step-time"})
    alone = LAYOUTS.question.answer_request(request).report
    together = LAYOUTS.question.answer_request(request, ignore_progress, DaskWorkers(address).compute).report
    assert together.model_dump_json() == alone.model_dump_json()


@pytest.mark.parametrize(
    ("mischief", "sentence"),
    [
        ("takes memory", "the part of items 10 to 20 needs more than 1.000 GiB of memory, or its process was killed"),
        ("sleeps", "the part of items 10 to 20 takes longer than 2.00 s"),
        ("refuses", "the number must be small, got 10: take a smaller one"),
    ],
)
def test_a_chunk_that_takes_too_much_is_named(address: str, mischief: Mischief, sentence: str) -> None:
    limits = LIMITS._replace(max_seconds=2.0) if mischief == "sleeps" else LIMITS
    with pytest.raises(InvalidInput) as refused:
        summed(address, 50, mischief, limits=limits)
    assert sentence in str(refused.value)


@pytest.mark.long
def test_a_chunk_gets_no_more_memory_than_its_worker(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"the part of items 10 to 20 needs more than 2\.000 GiB of memory"):
        summed(address, 50, "takes memory", limits=ChunkLimits())


def test_a_worker_that_is_killed_in_mid_chunk_loses_and_doubles_nothing(address: str, tmp_path: Path) -> None:
    assert summed(address, 200, "kills its worker once", tmp_path).total == sum(range(200))
    assert len(list(tmp_path.glob("killed *"))) == 1


@pytest.mark.long
def test_a_chunk_that_kills_its_worker_twice_takes_no_third(address: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the part of items 10 to 20 was computed by 2 workers .* that died of it"):
        summed(address, 50, "kills its worker", tmp_path)
    assert len(list(tmp_path.glob("killed *"))) == 2


@pytest.mark.long
def test_who_stops_asking_leaves_no_chunk(address: str) -> None:
    limits = LIMITS._replace(max_seconds=1_000.0)
    for _ in range(2):  # as many as there are workers, which could compute nothing else
        make = functools.partial(ToyWork, 10_000, "sleeps")
        parts = DaskWorkers(address, limits).compute(make(), make, ignore_progress)
        next(iter(parts))
        parts.close()  # type: ignore[attr-defined]  # a generator
    assert summed(address, 100).total == sum(range(100))


@pytest.mark.long
def test_a_scheduler_that_is_gone_for_a_while_costs_nothing(tmp_path: Path) -> None:
    with scheduler(tmp_path) as first:
        port = int(first.address.rpartition(":")[2])
        with workers(tmp_path, number=1):
            make = functools.partial(ToyWork, 200)
            work = make()
            parts = iter(DaskWorkers(first.address, LIMITS).compute(work, make, ignore_progress))
            received = [next(parts)]
            os.kill(first.pid, signal.SIGKILL)
    with scheduler(tmp_path, port=port), workers(tmp_path, number=1):
        received += parts
    assert work.merge(received).total == sum(range(200))


@pytest.mark.long
def test_a_scheduler_that_stays_away_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "SECONDS_TO_RETURN", 2.0)
    with scheduler(tmp_path) as running, workers(tmp_path, number=1):
        make = functools.partial(ToyWork, 10_000)
        parts = iter(DaskWorkers(running.address, LIMITS).compute(make(), make, ignore_progress))
        next(parts)
        os.kill(running.pid, signal.SIGKILL)
        with pytest.raises(InvalidInput, match=r"--dask is gone, and was not there again within 2\.00 s, got 'tcp://"):
            list(parts)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [2.0, 20.0])
def test_a_scheduler_that_freezes_for_a_while_costs_nothing(tmp_path: Path, seconds: float) -> None:
    with cluster(tmp_path) as running:
        make = functools.partial(ToyWork, 200)
        work = make()
        parts = iter(DaskWorkers(running.address, LIMITS).compute(work, make, ignore_progress))
        received = [next(parts)]
        os.kill(running.pid, signal.SIGSTOP)
        thaw = threading.Timer(seconds, os.kill, (running.pid, signal.SIGCONT))
        thaw.start()
        try:
            received += parts
        finally:
            thaw.join()
    assert work.merge(received).total == sum(range(200))


@pytest.mark.long
def test_a_scheduler_that_stays_frozen_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECONDS_TO_REACH", "SECONDS_TO_RETURN"):
        monkeypatch.setattr(dask_workers, name, 2.0)
    with cluster(tmp_path) as running:
        make = functools.partial(ToyWork, 10_000)
        parts = iter(DaskWorkers(running.address, LIMITS).compute(make(), make, ignore_progress))
        next(parts)
        os.kill(running.pid, signal.SIGSTOP)
        try:
            with pytest.raises(
                InvalidInput, match=r"--dask is gone, and was not there again within 2\.00 s, got 'tcp:"
            ):
                list(parts)
        finally:
            os.kill(running.pid, signal.SIGCONT)


@pytest.mark.long
def test_a_scheduler_without_workers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "SECONDS_WITHOUT_WORKERS", 1.0)
    with scheduler(tmp_path) as running, pytest.raises(InvalidInput, match=r"--dask has had no worker for 1\.00 s"):
        summed(running.address, 100)


def test_what_is_no_scheduler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "SECONDS_TO_REACH", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(InvalidInput, match=r"--dask cannot be reached within 2\.00 s, got 'tcp://127"):
            summed(f"tcp://127.0.0.1:{port}", 100)  # it says nothing, as a frozen process does

        def answer() -> None:
            while True:
                try:
                    visitor, _ = server.accept()
                except OSError:
                    return
                with visitor:
                    visitor.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(InvalidInput, match="--dask cannot be reached"):
            summed(f"tcp://127.0.0.1:{port}", 100)
    with pytest.raises(InvalidInput, match="--dask cannot be reached"):
        summed(f"tcp://127.0.0.1:{port}", 100)


def test_what_was_no_scheduler_is_closed_before_garbage_is_collected() -> None:
    """Collected while the next client starts, it would wait for a lock that this one holds."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            visitor, _ = server.accept()
            with visitor:
                visitor.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(InvalidInput, match="--dask cannot be reached"):
            summed(f"tcp://127.0.0.1:{server.getsockname()[1]}", 100)
    left = [each for each in gc.get_objects() if isinstance(each, Client)]
    with LoopRunner._lock:  # as while the next client starts
        assert [each.status for each in left if each.status != "closed"] == []
        left.clear()
        gc.collect()


@pytest.mark.long
def test_workers_of_another_version_are_refused_by_name(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name in ("executors", "sizing", "tests/executors"):
        shutil.copytree(REPOSITORY / name, other / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "tests" / "__init__.py", other / "tests")
    (other / "sizing" / "version.py").write_text('"""Another."""\n\n__version__ = "0.0.9"\n')
    sentence = (
        r"--dask must have workers with checkpoint-sizing 0\.1\.0\+\w{8}, as here, got '?0\.0\.9\+\w{8} on tcp://"
    )
    with (
        scheduler(tmp_path) as running,
        workers(tmp_path, number=1, source=other),
        pytest.raises(InvalidInput, match=sentence),
    ):
        summed(running.address, 100)


@pytest.mark.long
def test_with_certificates_chunks_are_sent_over_tls(tmp_path: Path) -> None:
    made = Security.temporary()
    files = {"ca-file": tmp_path / "ca.pem", "key": tmp_path / "key.pem", "cert": tmp_path / "cert.pem"}
    files["ca-file"].write_text(made.tls_ca_file)
    files["key"].write_text(made.tls_client_key)
    files["cert"].write_text(made.tls_client_cert)
    options = [word for name, path in files.items() for word in (f"--tls-{name}", path)]
    config = {
        "distributed.comm.tls.ca-file": str(files["ca-file"]),
        "distributed.comm.tls.client.key": str(files["key"]),
        "distributed.comm.tls.client.cert": str(files["cert"]),
    }
    with scheduler(tmp_path, "--protocol", "tls", *options) as running, workers(tmp_path, *options, number=1):
        assert running.address.startswith("tls://")
        with pytest.raises(InvalidInput, match="--dask needs certificates for tls"):
            DaskWorkers(running.address)
        with dask.config.set(config):
            assert summed(running.address, 100).total == sum(range(100))
        stranger = Security.temporary()
        files["key"].write_text(stranger.tls_client_key)
        files["cert"].write_text(stranger.tls_client_cert)
        with dask.config.set(config), pytest.MonkeyPatch.context() as patch:
            patch.setattr(dask_workers, "SECONDS_TO_REACH", 2.0)
            with pytest.raises(InvalidInput, match="--dask cannot be reached"):
                summed(running.address, 100)


def test_the_command_line_asks_dask(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "_ROWS_PER_CHUNK", 100)
    flags = "--model llama-3-8b --gpus 16 --node dgx-h100 --interval 60s..3600s:400 --write-bandwidth 9GB/s --json"
    alone = ckpt_size("sweep", *flags.split())
    assert ckpt_size("sweep", *flags.split(), "--dask", address).stdout == alone.stdout
    assert alone.stdout.count('"') > 2
    both = ckpt_size("sweep", *flags.split(), "--dask", address, "--workers", "2")
    assert (both.returncode, both.stdout) == (2, "")
    assert "--dask cannot stand beside --workers" in both.stderr


@pytest.mark.long
def test_at_a_terminal_one_sentence_says_that_nobody_answers() -> None:
    program = (
        "from sizing.questions.sweep import axes; axes._ROWS_PER_CHUNK = 100; from sizing.cli.main import main; main()"
    )
    flags = "--model llama-3-8b --gpus 16 --node dgx-h100 --interval 60s..3600s:400 --write-bandwidth 9GB/s"
    with socket.socket() as held:  # bound, so that nobody else takes the port, and deaf
        held.bind(("127.0.0.1", 0))
        nobody = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        command = [sys.executable, "-c", program, "sweep", *flags.split(), "--dask", nobody]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert ended.returncode == EXIT_BAD_INPUT
    assert ended.stdout == ""
    assert "--dask cannot be reached within 10.00 s" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 3, ended.stderr


@pytest.mark.parametrize(
    "address", ["", "scheduler", "http://127.0.0.1:8786", "tcp://127.0.0.1", "tcp://h:port", "tcp://h:1/x"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="--dask must be tcp:// or tls://, a host and a port"):
        DaskWorkers(address)


def test_without_the_library_the_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    sentence = r"--dask needs the library distributed: pip install 'checkpoint-sizing\[cluster\]'"
    with pytest.raises(NotInstalled, match=sentence):
        DaskWorkers("tcp://127.0.0.1:8786")
