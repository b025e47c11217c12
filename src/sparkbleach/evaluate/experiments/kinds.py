"""Kinds of errors: how well each is repaired."""

from __future__ import annotations

from dataclasses import replace

from ...config import COUNTING_REPAIRS
from ...rules.rule import Rule
from ..dirt import Error, Kind, paper_errors
from ..engine_run import run_engine
from ..laboratory import DIRT, Laboratory
from ..measures import Score, score
from ..ratios import score_panel
from ..result import Claim, Figure, Result
from ..sales import SALES_RULES
from ..spoil import spoil

_RHS = tuple(dict.fromkeys(rule.rhs for rule in SALES_RULES))
_LHS = tuple(dict.fromkeys(name for rule in SALES_RULES for name in rule.lhs))


def run(lab: Laboratory) -> Result:
    """Clean a stream with each kind of error in it, and score the repairs."""
    truth = lab.truth.slice(0, 2 * lab.profile.scaling_tuples).drop_null()
    truth = truth.slice(0, lab.profile.scaling_tuples)
    kinds = _kinds(truth.num_rows)
    found: dict[tuple[str, str], Score] = {}
    with lab.progress("cleaning", truth.num_rows * len(kinds) * len(COUNTING_REPAIRS)) as advance:
        for name, errors in kinds.items():
            spoilt = spoil(truth, errors, lab.seed)
            rules = [_filling(rule) for rule in SALES_RULES] if name == "missing" else SALES_RULES
            for repair in COUNTING_REPAIRS:
                done = run_engine(spoilt.dirty, rules, None, repair=repair, advance=advance)
                found[name, repair] = score(spoilt.truth, spoilt.dirty, done.cleaned, _RHS)
    claim = Claim(
        "goal",
        "where keys are wrong, too, vote repairs better than class",
        ", ".join(f"{one}: F1 {found['keys', one].f1:.3f}" for one in COUNTING_REPAIRS),
        found["keys", "vote"].f1 > found["keys", "class"].f1,
    )
    panels = [
        score_panel(
            f"repair: {repair}", "kind of error", {name: found[name, repair].values for name in kinds}
        )
        for repair in COUNTING_REPAIRS
    ]
    return Result(
        title="Kinds of errors",
        question=(
            "Not all errors are alike. Precision is the share of repairs that give the truth, recall the "
            "share of wrong cells that are repaired to the truth, F1 their harmonic mean."
        ),
        method=(
            f"{truth.num_rows:,} tuples without nulls, of {lab.stream_name}; rules r0 to r7, no window; 10 "
            "% of the right-hand cells are hit, with each kind by itself (in the burst half of them, in a "
            "tenth of the stream). Missing cells are filled (`nulls: fill`). Duplicates and delays come on "
            "top of 10 % other values. `keys` are wrong values on the left of rules as well, where "
            "`repair: vote` is meant to be better than `repair: class`. The first tuples of a group cannot "
            "be repaired, which bounds the recall of a short stream. Run in this process."
        ),
        claims=[claim],
        figures=[Figure("kinds", "Precision, recall and F1 of repairs by kind of error.", panels)],
        tables={
            "scores": [
                {"kind": name, "repair": repair, **one.to_dict()} for (name, repair), one in found.items()
            ]
        },
    )


def _kinds(n: int) -> dict[str, list[Error]]:
    wrong = Error(Kind.domain, DIRT, _RHS)
    return {
        "paper": paper_errors(SALES_RULES, DIRT),
        "domain": [wrong],
        "typo": [Error(Kind.typo, DIRT, _RHS)],
        "systematic": [Error(Kind.systematic, DIRT, _RHS)],
        "missing": [Error(Kind.missing, DIRT, _RHS)],
        "swap tuples": [Error(Kind.swap_tuples, DIRT, _RHS)],
        "swap attributes": [
            Error(Kind.swap_attributes, DIRT, ("i_brand", "i_category")),
            Error(Kind.swap_attributes, DIRT, ("s_store_name", "c_email_address")),
        ],
        "burst": [replace(wrong, p=0.5, burst=(n // 2, n // 2 + max(1, n // 10)))],
        "periodic": [replace(wrong, p=0.5, period=(1_000, 200))],
        "correlated": [replace(wrong, together=True)],
        "duplicates": [wrong, Error(Kind.duplicate, DIRT)],
        "delays": [wrong, Error(Kind.delay, DIRT, lag=1_000)],
        "keys": [wrong, Error(Kind.domain, 0.02, _LHS)],
    }


def _filling(rule: Rule) -> Rule:
    return Rule(id=rule.id, lhs=rule.lhs, rhs=rule.rhs, nulls="fill")
