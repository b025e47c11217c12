"""Windows in time: panes by a column of times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkbleach import ConfigError, Engine, SchemaError, Window
from sparkbleach.engine.panes import PaneClock
from sparkbleach.paper.in_process import DistributedEngine

MINUTE = 60_000_000
SCHEMA = pa.schema([("at", pa.timestamp("us")), ("a", pa.int64()), ("z", pa.int64()), ("b", pa.string())])
WINDOW = Window.time("at", "4 minutes", "2 minutes")


def tuples(minutes: Sequence[float | None], values: str) -> pa.RecordBatch:
    """Return tuples of one group, some minutes before or after 1970."""
    rows = [
        {
            "at": None if at is None else dt.datetime(1970, 1, 1) + dt.timedelta(minutes=at),
            "a": 1,
            "z": 1,
            "b": b,
        }
        for at, b in zip(minutes, values, strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


class TestOptions:
    """What a window in time may be."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1 microsecond", 1),
            ("10 minutes", 10 * MINUTE),
            ("1 hour", 60 * MINUTE),
            ("2 days", 2880 * MINUTE),
        ],
    )
    def test_durations(self, text: str, expected: int) -> None:
        """A text is as good as a timedelta; without a slide the window moves by its size."""
        assert Window.time("at", text) == Window(expected, expected, "at")
        assert Window.time("at", dt.timedelta(microseconds=expected)) == Window(expected, expected, "at")

    def test_tuples_have_no_column(self) -> None:
        """A window in tuples is what it was."""
        assert Window.tuples(4, slide=2) == Window(4, 2)
        assert Window.tuples(4).column is None

    @pytest.mark.parametrize(
        "wrong", ["", "ten minutes", "0 hours", "5", 5, None, dt.timedelta(0), "9999999999 days"]
    )
    def test_wrong_durations(self, wrong: Any) -> None:
        """A number has no unit."""
        with pytest.raises(ConfigError, match=r"window, size: .* must be a positive duration"):
            Window.time("at", wrong)

    def test_not_a_multiple(self) -> None:
        """The size is a multiple of the slide."""
        with pytest.raises(ConfigError, match="is not a multiple of slide"):
            Window.time("at", "5 minutes", "2 minutes")

    @pytest.mark.parametrize(
        ("column", "why"), [("b", "is of type string"), ("q", "no single attribute 'q'")]
    )
    def test_wrong_column(self, column: str, why: str) -> None:
        """The column has timestamps or dates."""
        with pytest.raises(ConfigError, match=f"window: .*{why}"):
            Engine(SCHEMA, ["a -> b"], window=Window.time(column, "1 hour"))

    @pytest.mark.parametrize("remember", [4, "3 minutes", "2 minutes", "5 minutes", "long"])
    def test_wrong_remember(self, remember: Any) -> None:
        """It is a duration, too: a multiple of the slide, and no less than the window."""
        with pytest.raises(ConfigError, match="remember: "):
            Engine(SCHEMA, ["a -> b"], window=WINDOW, remember=remember)

    def test_paper(self) -> None:
        """The paper's topology refuses it."""
        with pytest.raises(ConfigError, match="paper's topology has windows in tuples only"):
            DistributedEngine(SCHEMA, [], window=WINDOW)

    def test_the_column_is_read(self) -> None:
        """It is among the columns read, and cannot go away."""
        engine = Engine(SCHEMA, ["a -> b"], window=WINDOW)
        assert engine.columns_read == ["at", "a", "b"]
        with pytest.raises(SchemaError, match="column 'at', which the window reads"):
            engine.adopt_schema(SCHEMA.remove(0))


class TestPanes:
    """The pane is the greatest of the tuple's and those before, counted from the first one."""

    def test_late_null_and_negative(self) -> None:
        """Late tuples and nulls stay where the stream is; what is before the first time is with it."""
        clock = PaneClock("at", 2 * MINUTE)
        times = [None, -3, -5, None, -0.5, 0, -9, 7.9, None, 8]
        panes, clock = clock.read([tuples(times[:5], "xxxxx"), tuples([], ""), tuples(times[5:], "xxxxx")])
        assert np.concatenate(panes).tolist() == [0, 0, 0, 0, 1, 2, 2, 5, 5, 6]
        assert (clock.first, clock.pane) == (-2, 6)

    @pytest.mark.parametrize(
        "type",
        [
            pa.timestamp("s"),
            pa.timestamp("ms", "Europe/Paris"),
            pa.timestamp("us"),
            pa.timestamp("ns"),
            pa.date64(),
        ],
    )
    def test_units(self, type: pa.DataType) -> None:
        """Times of any unit, zoned or not, are the same instants."""
        per_day = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
        unit = per_day[type.unit] if pa.types.is_timestamp(type) else per_day["ms"]
        column = pa.array([-unit, -1 if pa.types.is_timestamp(type) else -unit, 0, 3 * unit]).cast(type)
        batch = pa.RecordBatch.from_arrays([column.dictionary_encode()], names=["at"])
        (panes,), clock = PaneClock("at", 86_400_000_000).read([batch])
        assert panes.tolist() == [0, 0, 1, 4]
        assert clock.first == -1

    def test_days(self) -> None:
        """A date is its midnight."""
        column = pa.array([dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1970, 1, 3)])
        batch = pa.RecordBatch.from_arrays([column], names=["at"])
        (panes,), _ = PaneClock("at", 86_400_000_000 // 2).read([batch])
        assert panes.tolist() == [0, 2, 6]

    def test_the_end_of_the_world(self) -> None:
        """A time that no calendar has does not overflow."""
        column = pa.array([2**63 - 1, -(2**63)]).cast(pa.timestamp("s"))
        batch = pa.RecordBatch.from_arrays([column], names=["at"])
        (panes,), _ = PaneClock("at", 7).read([batch])
        assert panes.tolist() == [0, 0]


@pytest.mark.parametrize("rules", [["a -> b"], ["a -> b", "z -> b"]])
@pytest.mark.parametrize("n_batches", [1, 5])
class TestCleaning:
    """A window of four minutes that moves by two; all tuples are of one group."""

    def clean(
        self, minutes: Sequence[float | None], values: str, rules: list[str], n_batches: int, **options: Any
    ) -> str:
        """Clean tuples in some batches, with a restored engine for each; return the values."""
        engine = Engine(SCHEMA, rules, window=WINDOW, repair="class", accept_after=None, **options)
        cells: list[str] = []
        batch = tuples(minutes, values)
        for part in np.array_split(np.arange(len(values)), n_batches):
            engine = Engine.restore(engine.snapshot())
            cells += engine.process(batch.take(pa.array(part)))[0].column("b").to_pylist()
        return "".join(cells)

    def test_basic(self, rules: list[str], n_batches: int) -> None:
        """The fifth tuple begins pane 2: the window has b c c with it. An hour later it has nothing."""
        times = [0, 1, 2, 3, 4, 64]
        assert self.clean(times, "bbbccb", rules, n_batches, windowing="basic") == "bbbbcb"

    def test_bleach(self, rules: list[str], n_batches: int) -> None:
        """Counts are cumulative, until the group is gone."""
        assert self.clean([0, 1, 2, 3, 4, 64], "bbbccc", rules, n_batches) == "bbbbbc"

    def test_late_tuples(self, rules: list[str], n_batches: int) -> None:
        """A late tuple counts where the stream is."""
        times = [0, 4, 0, None, 1, 6]
        assert self.clean(times, "bcccbb", rules, n_batches, windowing="basic") == "bccccc"

    def test_remember(self, rules: list[str], n_batches: int) -> None:
        """With R = W the two b of pane 0 are forgotten in pane 2, where the c of pane 1 and d tie."""
        times = [0, 0, 2, 4]
        assert self.clean(times, "bbcd", rules, n_batches, remember=dt.timedelta(minutes=4)) == "bbbd"
        assert self.clean(times, "bbcd", rules, n_batches, remember=None) == "bbbb"
        assert self.clean(times, "bbcd", rules, n_batches, remember="8 minutes") == "bbbb"
