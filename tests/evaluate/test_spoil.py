"""Dirt: every kind does what it says, and the log has all of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparkbleach import ConfigError
from sparkbleach.evaluate.dirt import Error, Kind, load_errors, paper_errors
from sparkbleach.evaluate.measures import differ
from sparkbleach.evaluate.spoil import Spoilt, spoil
from tests.support.sales import SALES_RULES, sales

N = 4_000
TRUTH = sales(N)


def rows_changed(spoilt: Spoilt, attribute: str) -> list[int]:
    """Return where an attribute is dirty."""
    return [int(row) for row in np.flatnonzero(differ(spoilt.dirty[attribute], spoilt.truth[attribute]))]


EVERY = [
    [Error(Kind.typo, 0.2, ("i_brand", "ca_city"))],
    [Error(Kind.domain, 0.2, ("i_category", "ss_item_sk"))],
    [Error(Kind.systematic, 0.2, ("i_category",))],
    [Error(Kind.missing, 0.2, ("i_brand", "ss_item_sk"))],
    [Error(Kind.swap_tuples, 0.2, ("s_store_name", "ss_store_sk"))],
    [Error(Kind.swap_attributes, 0.2, ("ca_city", "ca_state"))],
    [Error(Kind.missing, 0.2, ("ca_city", "ca_zip"), together=True)],
    [Error(Kind.missing, 0.3, ("ca_city",), where="ca_state < 'S20'", period=(100, 30))],
    [Error(Kind.duplicate, 0.1, lag=7), Error(Kind.delay, 0.1, lag=20), Error(Kind.typo, 0.1, ("ca_zip",))],
    [*paper_errors(SALES_RULES, 0.1, burst=(1_000, 2_000)), Error(Kind.typo, 0.5, ("i_brand",))],
]


@pytest.mark.parametrize("errors", EVERY)
def test_the_log_turns_dirt_into_truth(errors: list[Error]) -> None:
    """The log has every changed cell once, with its old and its new value, and nothing else."""
    spoilt = spoil(TRUTH, errors, seed=5)
    cells = spoilt.log().to_pylist()
    assert [row["position"] for row in cells] == sorted(row["position"] for row in cells)
    logged = {(row["position"], row["attribute"]): row for row in cells if row["attribute"]}
    assert len(logged) == sum(row["attribute"] is not None for row in cells)
    for name in TRUTH.column_names:
        rows = rows_changed(spoilt, name)
        assert rows == sorted(position for position, attribute in logged if attribute == name)
        old, new = spoilt.truth[name].to_pylist(), spoilt.dirty[name].to_pylist()
        for row in rows:
            entry = logged[row, name]
            assert entry["old"] == str(old[row])
            assert entry["new"] == (None if new[row] is None else str(new[row]))
            assert entry["origin"] == spoilt.origin[row]
    assert spoilt.truth.equals(TRUTH.take(pa.array(spoilt.origin)))


@pytest.mark.parametrize("errors", EVERY)
def test_a_seed_gives_the_same_dirt(errors: list[Error]) -> None:
    """The same seed gives the same stream, another seed another one."""
    assert spoil(TRUTH, errors, seed=5).dirty.equals(spoil(TRUTH, errors, seed=5).dirty)
    assert not spoil(TRUTH, errors, seed=5).dirty.equals(spoil(TRUTH, errors, seed=6).dirty)


def test_domain_values_and_typos() -> None:
    """A domain error is another value of the column; a typo is a value that it does not have."""
    truth = TRUTH.set_column(0, "id", pa.array(range(N)))
    spoilt = spoil(truth, [Error(Kind.domain, 0.3, ("i_category",)), Error(Kind.typo, 0.3, ("i_brand",))])
    categories = set(truth["i_category"].to_pylist())
    assert {
        spoilt.dirty["i_category"][row].as_py() for row in rows_changed(spoilt, "i_category")
    } == categories
    wrong = [spoilt.dirty["i_brand"][row].as_py() for row in rows_changed(spoilt, "i_brand")]
    lengths = {len(new) - len(spoilt.truth["i_brand"][row].as_py())
               for new, row in zip(wrong, rows_changed(spoilt, "i_brand"), strict=True)}  # fmt: skip
    assert lengths == {-1, 0, 1}
    assert len(rows_changed(spoilt, "i_category")) == pytest.approx(0.3 * N, rel=0.15)


def test_systematic_errors_are_always_the_same() -> None:
    """A true value has one wrong one, in and out of a burst."""
    errors = paper_errors(SALES_RULES, 0.2, burst=(1_000, 2_000), burst_p=0.6, kind=Kind.systematic)
    spoilt = spoil(TRUTH, errors)
    old, new = spoilt.truth["i_category"].to_pylist(), spoilt.dirty["i_category"].to_pylist()
    pairs = {(old[row], new[row]) for row in rows_changed(spoilt, "i_category")}
    assert len(pairs) == 10
    assert len({one for one, _ in pairs}) == 10


def test_swaps_keep_all_values() -> None:
    """What tuples or attributes exchange is still there, in another place."""
    spoilt = spoil(TRUTH, [Error(Kind.swap_tuples, 0.5, ("c_email_address",))])
    assert sorted(spoilt.dirty["c_email_address"].to_pylist()) == sorted(TRUTH["c_email_address"].to_pylist())
    assert len(rows_changed(spoilt, "c_email_address")) > N / 4
    spoilt = spoil(TRUTH, [Error(Kind.swap_attributes, 0.5, ("ca_city", "ca_state"))])
    for row in rows_changed(spoilt, "ca_city"):
        assert spoilt.dirty["ca_city"][row] == TRUTH["ca_state"][row]
        assert spoilt.dirty["ca_state"][row] == TRUTH["ca_city"][row]


def test_when() -> None:
    """Bursts, periods, predicates and correlation say where errors happen, also in later batches."""
    burst = spoil(TRUTH, [Error(Kind.missing, 1, ("ca_zip",), burst=(10, 20))])
    assert rows_changed(burst, "ca_zip") == list(range(10, 20))
    later = spoil(TRUTH, [Error(Kind.missing, 1, ("ca_zip",), burst=(1_010, 1_020))], first=1_000)
    assert rows_changed(later, "ca_zip") == list(range(10, 20))
    period = spoil(TRUTH, [Error(Kind.missing, 1, ("ca_zip",), period=(1_000, 2))])
    assert rows_changed(period, "ca_zip") == [0, 1, 1_000, 1_001, 2_000, 2_001, 3_000, 3_001]
    where = spoil(TRUTH, [Error(Kind.missing, 1, ("ca_zip",), where="ca_state = 'S07'")])
    states = TRUTH["ca_state"].to_pylist()
    assert rows_changed(where, "ca_zip") == [row for row in range(N) if states[row] == "S07"]
    both = spoil(TRUTH, [Error(Kind.missing, 0.1, ("ca_zip", "ca_city"), together=True)])
    assert rows_changed(both, "ca_zip") == rows_changed(both, "ca_city") != []


def test_duplicates_and_delays() -> None:
    """A duplicate comes a second time within its lag, a delayed tuple later; no tuple is lost."""
    double = spoil(TRUTH, [Error(Kind.duplicate, 0.1, lag=5)])
    assert double.dirty.num_rows == N + double.log().num_rows > N
    assert set(double.origin) == set(range(N))
    late = spoil(TRUTH, [Error(Kind.delay, 0.1, lag=5)])
    assert sorted(late.origin) == list(range(N))
    moved = late.log().to_pylist()
    assert moved
    assert {row["kind"] for row in moved} == {"delay"}
    assert all(row["attribute"] is None for row in moved)


def test_a_burst_reaches_its_rate() -> None:
    """In a burst of 50 % half of the right-hand cells are wrong, elsewhere a tenth."""
    spoilt = spoil(TRUTH, paper_errors(SALES_RULES, 0.1, burst=(1_000, 3_000)))
    wrong = np.array(rows_changed(spoilt, "c_email_address"))
    inside = ((wrong >= 1_000) & (wrong < 3_000)).sum()
    assert inside / 2_000 == pytest.approx(0.5, abs=0.05)
    assert (wrong.size - inside) / 2_000 == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{kind: typos, p: 0.1, attributes: [a]}", "kind is 'typos'; choose one of typo"),
        ("{kind: typo, attributes: [a]}", "p is missing"),
        ("{kind: typo, p: 2, attributes: [a]}", "probability from 0 to 1"),
        ("{kind: typo, p: 0.1}", "name the columns to hit"),
        ("{kind: delay, p: 0.1, attributes: [a]}", "leave attributes out"),
        ("{kind: swap_attributes, p: 0.1, attributes: [a]}", "exactly two"),
        ("{kind: typo, p: 0.1, attributes: [a], burst: [5, 5]}", "burst is"),
        ("{kind: typo, p: 0.1, attributes: [a], burst: 5}", "burst and period are pairs"),
        ("{kind: typo, p: 0.1, attributes: [a], period: [5, 6]}", "period is"),
        ("{kind: delay, p: 0.1, lag: 0}", "lag is 0"),
        ("{kind: typo, p: 0.1, attributes: [a], size: 1}", "'size' is unknown"),
        ("typo", "must be a mapping"),
    ],
)
def test_wrong_files_are_reported(entry: str, message: str, tmp_path: Path) -> None:
    """A mistake in a file of errors is reported with the file and the remedy."""
    path = tmp_path / "errors.yml"
    path.write_text(f"errors:\n  - {entry}\n")
    with pytest.raises(ConfigError, match=message):
        load_errors(path)
    path.write_text("typos: 3")
    with pytest.raises(ConfigError, match="must have a list `errors`"):
        load_errors(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_errors(tmp_path / "none.yml")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Error(Kind.typo, 0.1, ("zip",)), "'zip' is not a column"),
        (Error(Kind.typo, 0.1, ("ss_item_sk",)), "int64, not text"),
        (Error(Kind.swap_attributes, 0.1, ("ss_item_sk", "i_brand")), "do not mix"),
        (Error(Kind.missing, 0.1, ("i_brand",), where="nothing > 1"), "unknown attribute 'nothing'"),
    ],
)
def test_errors_must_fit_the_tuples(error: Error, message: str) -> None:
    """A process that does not fit the schema is refused."""
    with pytest.raises(ConfigError, match=message):
        spoil(TRUTH, [error])
