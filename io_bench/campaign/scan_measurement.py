"""The measuring part of a scan: every configuration that is not done yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from io_bench.campaign.books import Books
from io_bench.campaign.campaign import Campaign, Planned, repeat_of
from io_bench.campaign.corrupt_data import raise_where_corrupt
from io_bench.campaign.grid import configurations_of
from io_bench.errors import explained_io_errors
from io_bench.planning.configuration import Configuration
from io_bench.ranks.process_group import ProcessGroup
from io_bench.request.agreed_request import Request
from io_bench.request.options import ScanOptions
from io_bench.results.scan_progress import ScanProgress
from io_bench.target.lifecycle import run_place
from io_bench.target.run_files import RunFiles
from io_bench.terminal import Terminal
from sizing.units import bytes_text


def measure(request: Request[ScanOptions], group: ProcessGroup, terminal: Terminal, books: Books | None) -> None:
    """Measure what is left, as far as the caps allow, into the books, which rank 0 alone has.

    Raises InvalidInput where a configuration does not fit, before the first is measured; otherwise as Part, and as
    ProcessGroup.
    """
    campaign = Campaign.of(request, group)
    todo, num_done = _todo(request, group, books)
    planned = [campaign.planned(configuration) for configuration in todo]
    if books:
        books.environment, books.num_configurations = campaign.environment, len(todo) + num_done
    _say_what_comes(planned, num_done, terminal)
    repeat = repeat_of(request.options)
    weights = [sum(each.plan.payload_bytes) for each in planned]
    progress = ScanProgress(weights, num_steps=2 * (repeat.min_repetitions + 1), num_done=num_done)
    with (
        terminal.live(progress),
        run_place.opened(
            request.target, group, run_id=request.run_id, files_of=_files_of(planned), keep=False
        ) as files,
    ):
        for number, each in enumerate(planned):
            reached = campaign.caps.reached() if number else ""
            stopped_by = group.told(reached, doing="checking the caps")
            if stopped_by:
                if books:
                    books.stopped_by = stopped_by
                break
            progress.begin_configuration(each.plan.configuration.title)
            measured = campaign.measured(each, files, repeat=repeat, progress=progress)
            if books and measured:
                books.journal.append(measured)
                terminal.say(progress.end_configuration(measured.measurements))
            raise_where_corrupt(measured.corruption if measured else None, group)
            _clear(files, group)


def _todo(request: Request[ScanOptions], group: ProcessGroup, books: Books | None) -> tuple[list[Configuration], int]:
    """What is left to measure, and how many configurations are done, the same on all ranks."""
    own = (books.journal.header.seed, [each.model_dump() for each in books.journal.done]) if books else None
    seed, rows = group.told(own, doing="reading the journal")
    done = {Configuration.model_validate(row) for row in rows}
    configurations = group.agree(lambda: configurations_of(request.options, group, seed=seed), doing="reading the scan")
    return [each for each in configurations if each not in done], len(done)


def _say_what_comes(planned: Sequence[Planned], num_done: int, terminal: Terminal) -> None:
    if not planned:
        return
    largest = max(planned, key=lambda each: each.plan.max_disk_bytes).plan
    before = f"{num_done} already done; " if num_done else ""
    terminal.say(
        f"{before}{len(planned)} configurations to measure. Max requirements: {largest.needs()} "
        f"One repetition of all writes {bytes_text(sum(sum(each.plan.payload_bytes) for each in planned))}."
    )


def _files_of(planned: Sequence[Planned]) -> Callable[[int], tuple[str, ...]]:
    """The files that a rank makes in any of the configurations."""
    return lambda rank: tuple(dict.fromkeys(name for each in planned for name in each.plan.files_of(rank)))


def _clear(files: RunFiles, group: ProcessGroup) -> None:
    """Remove the last checkpoint of a configuration: in the next, another rank may write a file of that name."""
    with explained_io_errors("removing the last checkpoint", rank=group.rank):
        files.remove_created()
    group.meet(doing="removing the last checkpoint")
