"""Draw figures, all in one style."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SparkbleachError
from .result import Figure, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito, which colour-blind readers can distinguish.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#8B6914")
_MARK_STYLES = ("--", ":", "-.", (0, (1, 3)))
_WIDTH_IN, _NARROW_IN, _HEIGHT_IN = 6.0, 4.6, 4.2
_DPI = 130


def check_matplotlib() -> None:
    """Raise a SparkbleachError if matplotlib is missing."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise SparkbleachError("figures: matplotlib is missing; install sparkbleach[evaluate]") from error


def draw(figure: Figure, directory: Path) -> None:
    """Write a figure to a directory, as SVG and as PNG."""
    check_matplotlib()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    n = len(figure.panels)
    with rc_context({"svg.hashsalt": figure.name, "font.size": 10, "axes.titlesize": 11}):
        canvas = Canvas(figsize=((_WIDTH_IN if n < 3 else _NARROW_IN) * n, _HEIGHT_IN), layout="constrained")
        FigureCanvasAgg(canvas)
        for axes, panel in zip(np.atleast_1d(canvas.subplots(1, n)), figure.panels, strict=True):
            _draw_panel(axes, panel)
        canvas.savefig(directory / f"{figure.name}.svg", metadata={"Date": None})
        canvas.savefig(directory / f"{figure.name}.png", dpi=_DPI)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    bars = [series for series in panel.series if series.style == "bars"]
    slanted = False
    for number, series in enumerate(panel.series):
        colour = _COLOURS[number % len(_COLOURS)]
        if series.style == "bars":
            slanted = _draw_bars(axes, panel, series, bars.index(series), len(bars), colour)
        else:
            axes.plot(
                np.asarray(series.x, float),
                _shown(panel, series.y),
                label=series.label,
                color=colour,
                drawstyle="steps-post" if series.style == "steps" else "default",
                marker="o" if series.style == "dots" else None,
                markersize=4,
                linewidth=1.5,
            )
    for number, mark in enumerate(panel.marks):
        style: Any = _MARK_STYLES[number % len(_MARK_STYLES)]
        line = axes.axvline if mark.axis == "x" else axes.axhline
        at = mark.at if mark.axis == "x" else _shown(panel, mark.at)
        line(at, color="black", linewidth=1.1, linestyle=style, label=mark.label)
    if not panel.log_y:
        axes.set_ylim(0, panel.y_max or axes.get_ylim()[1] * 1.05)
    if panel.x_min is not None:
        axes.set_xlim(left=panel.x_min)
    _format_numbers(axes, panel, has_bars=bool(bars))
    labels = axes.get_legend_handles_labels()[1]
    if labels:
        longest = max(map(len, labels))
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.42 if slanted else -0.17),
            ncols=3 if longest <= 20 else 2 if longest <= 30 else 1,
            frameon=False,
            fontsize=9,
            columnspacing=1.2,
            handlelength=1.8,
        )


def _shown(panel: Panel, y: Any) -> Any:
    """Return the heights at which values are drawn: not below the floor."""
    values = np.asarray(y, float)
    return values if panel.y_floor is None else np.maximum(values, panel.y_floor)


def _draw_bars(axes: Axes, panel: Panel, series: Series, number: int, n: int, colour: str) -> bool:
    """Draw the bars of one series beside those of the others; return whether long names are slanted.

    With a floor, a zero is written instead of a bar for nothing.
    """
    width = 0.8 / n
    at = np.arange(len(series.x)) + (number - (n - 1) / 2) * width
    heights = np.where(np.equal(series.y, 0), 0.0, _shown(panel, series.y))
    axes.bar(at, heights, width * 0.92, label=series.label, color=colour)
    if panel.y_floor is not None:
        for x in at[heights == 0]:
            axes.text(x, panel.y_floor, "0", ha="center", va="center", color=colour)
    axes.set_xticks(np.arange(len(series.x)), [str(name) for name in series.x])
    longest = max((len(str(name)) for name in series.x), default=0)
    if longest * len(series.x) <= 60:
        return False
    axes.tick_params(axis="x", labelrotation=30)
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right")
    return True


def _format_numbers(axes: Axes, panel: Panel, *, has_bars: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

    def tick_label(y: float, _: object) -> str:
        sign = "≤ " if panel.y_floor is not None and np.isclose(y, panel.y_floor, atol=0) else ""
        return sign + (f"{y * 100:g} %" if panel.percent_y else _short(y))

    if panel.y_floor is not None:
        top = max(axes.get_ylim()[1], 10 * panel.y_floor)
        decades = int(np.log10(top / panel.y_floor) + 1e-9)
        axes.yaxis.set_major_locator(FixedLocator([panel.y_floor * 10.0**n for n in range(decades + 1)]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(panel.y_floor / 1.5, top)
    axes.yaxis.set_major_formatter(FuncFormatter(tick_label))
    if panel.percent_y:
        axes.yaxis.set_minor_formatter(NullFormatter())
    if not has_bars:
        axes.xaxis.set_major_formatter(FuncFormatter(_short))
        if not panel.log_x and all(np.asarray(series.x).dtype.kind == "i" for series in panel.series):
            axes.xaxis.set_major_locator(MaxNLocator("auto", steps=(1, 2, 2.5, 5, 10), integer=True))


def _short(value: float, _: object = None) -> str:
    """Return a number in short form: 1.5 M, 200 K, 0.1."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"
