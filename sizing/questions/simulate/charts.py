"""How far luck alone spreads equal runs: simulated runs by their goodput, with the formula's marked."""

from __future__ import annotations

from sizing.present.chart import COLORS, WIDTH, Chart, chart, quantity
from sizing.run.simulation import SimulationReport
from sizing.units import percent_text


def simulation_chart(report: SimulationReport) -> Chart:
    """A bar for each range of goodput, as high as the runs that had it, and a line at the formula's goodput."""
    formula = report.formula_goodput_fraction
    said = f"{'at most ' if report.leaves_out_restore else ''}{percent_text(formula)}"
    goodput = quantity("from_fraction", "goodput of a run") | {"scale": {"zero": False}}
    return chart(
        "How many runs had which goodput",
        subtitle=f"{report.num_runs:,} runs that differ by luck alone; dashed: by formula, {said}",
        rows=[
            {"from_fraction": each.from_fraction, "to_fraction": each.to_fraction, "runs": each.num_runs}
            for each in report.histogram
        ],
        height=WIDTH // 3,
        layer=[
            {
                "mark": {"type": "bar", "color": COLORS[0], "stroke": "white"},
                "encoding": {
                    "x": goodput | {"bin": "binned"},
                    "x2": {"field": "to_fraction"},
                    "y": {"field": "runs", "type": "quantitative", "title": "runs"},
                },
            },
            {
                "data": {"values": [{"from_fraction": formula}]},
                "mark": {"type": "rule", "strokeDash": [4, 4]},
                "encoding": {"x": goodput},
            },
        ],
    )
