"""What is written instead of everything, and beside the checkpoint: reduction, export, publication."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.report import SizingReport
from sizing.run.export.exported import Exported
from sizing.run.publication import Published
from sizing.run.savings import Savings, savings_text
from sizing.summary.rows import UNKNOWN, Row
from sizing.units import counted_text, decimal_bytes_text, percent_text, rate_text, seconds_text


def beside_rows(report: SizingReport) -> Iterator[Row]:
    """Rows of each of the three that the scenario has."""
    if report.reduction is not None:
        yield from _reduction_rows(report.reduction)
    yield from written_beside(report)


def written_beside(report: SizingReport) -> Iterator[Row]:
    """A row for the export and for the publication, where the scenario has them."""
    if report.export is not None:
        yield _export_row(report.export)
    if report.publication is not None:
        yield _publication_row(report.publication)


def _reduction_rows(savings: Savings) -> Iterator[Row]:
    yield Row("save with reduction", decimal_bytes_text(savings.mean_bytes), savings_text(savings))
    if savings.restore_seconds is not None and savings.whole_restore_seconds is not None:
        longest = savings.max_restore_seconds or 0.0
        at_most = f", at most {seconds_text(longest)}" if longest > savings.restore_seconds else ""
        meaning = f"on average{at_most}; {seconds_text(savings.whole_restore_seconds)} from a save of everything"
        yield Row("restore with reduction", seconds_text(savings.restore_seconds), meaning)
    if savings.pays is not None:
        edge = savings.break_even_run_write_bytes_per_second
        pays = "pays" if savings.pays else "does not pay"
        text = "at every rate or at none" if edge is None else f"below {rate_text(edge)}"
        meaning = f"write bandwidth below which the run loses less time; here the reduction {pays}"
        if edge is None:
            meaning = f"the write bandwidth does not decide; here the reduction {pays}"
        yield Row("reduction pays", text, meaning + _goodputs(savings))


def _goodputs(savings: Savings) -> str:
    if savings.goodput_fraction is None or savings.whole_goodput_fraction is None:
        return ""
    less, whole = percent_text(savings.goodput_fraction), percent_text(savings.whole_goodput_fraction)
    return f": goodput {less}, without it {whole}"


def _export_row(export: Exported) -> Row:
    files = f"{decimal_bytes_text(export.num_bytes)} in {counted_text(export.num_files, 'file')}"
    if export.seconds is None or export.stall_seconds is None:
        return Row("export", UNKNOWN, f"{files}; give write and read rates")
    stall = f"stalls training for {seconds_text(export.stall_seconds)}" if export.stall_seconds else "in the background"
    unknown = "" if export.is_writer_rate_known else " (rate of one not known)"
    writers = f"{counted_text(export.num_writers, 'writer')}{unknown}"
    return Row("export", seconds_text(export.seconds), f"{files} by {writers}; {stall}")


def _publication_row(published: Published) -> Row:
    sent = f"{published.content}: {decimal_bytes_text(published.replica_bytes)} to each inference engine"
    if published.seconds is None or published.step_fraction is None:
        return Row("publication", UNKNOWN, f"{sent}; give replica_bytes_per_second")
    meaning = f"{sent}; {percent_text(published.step_fraction)} of the interval between publications"
    return Row("publication", seconds_text(published.seconds), meaning)
