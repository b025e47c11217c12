"""Windowing strategies in a burst of errors: what basic windowing forgets, Bleach windowing remembers."""

from __future__ import annotations

import pyarrow as pa

from ...config import OptionValues, Window
from ..dirt import Kind, paper_errors
from ..engine_run import BAYES, run_engine
from ..laboratory import DIRT, Laboratory
from ..measures import dirty_ratios, ratio
from ..ratios import POSITION, by_rule, over_position, percent, ratio_panel
from ..result import Claim, Figure, Mark, Result
from ..sales import SIX_RULES
from ..spoil import spoil

_BURST_DIRT = 0.5
_KINDS = {Kind.systematic: "always the same wrong value", Kind.domain: "each time another wrong value"}
_CASES = {
    "class": "Bleach windowing",
    "basic": "basic windowing",
    "vote": "vote, Bleach windowing",
    "bayes": "bayes, by default",
}
#: what is run for each: both windowings by the paper's letter, and what a user of bayes gets
_OPTIONS: dict[str, OptionValues] = {
    "class": {"repair": "class"},
    "basic": {"repair": "class", "windowing": "basic"},
    "vote": {"repair": "vote"},
    "bayes": BAYES,
}
_WORSE_THAN_CLASS, _WORSE_THAN_VOTE = 0.02, 0.03


def run(lab: Laboratory) -> Result:
    """Clean a stream with a burst of errors in it, with both windowings."""
    profile, n = lab.profile, lab.truth.num_rows
    size = profile.burst_window
    window = Window.tuples(size, slide=size // 2)
    begin = n // 2 // profile.bin_tuples * profile.bin_tuples
    end = begin + max(1, int(size * 1.5) // profile.bin_tuples) * profile.bin_tuples
    found: dict[tuple[Kind, str], pa.Table] = {}
    with lab.progress("cleaning", n * len(_KINDS) * len(_CASES)) as advance:
        for kind in _KINDS:
            errors = paper_errors(SIX_RULES, DIRT, burst=(begin, end), burst_p=_BURST_DIRT, kind=kind)
            spoilt = spoil(lab.truth, errors, lab.seed)
            for case, options in _OPTIONS.items():
                done = run_engine(spoilt.dirty, SIX_RULES, window, advance=advance, **options)
                found[kind, case] = dirty_ratios(
                    spoilt.truth, spoilt.dirty, done.cleaned, SIX_RULES, profile.bin_tuples
                )
    rows = [
        {
            "wrong_values": str(kind),
            "windowing": _OPTIONS[case].get("windowing", "bleach"),
            "repair": _OPTIONS[case]["repair"],
            "rule": rule.id,
            "before_burst": ratio(ratios, rule.id, size, begin).after,
            "in_burst": ratio(ratios, rule.id, begin, end).after,
            "after_burst": ratio(ratios, rule.id, end).after,
        }
        for (kind, case), ratios in found.items()
        for rule in SIX_RULES
    ]
    return Result(
        title="A burst of errors: Bleach windowing against basic windowing",
        question=(
            "Memory is bounded by a window. Basic windowing counts only what is in the window, so that a "
            "long burst of errors outvotes the truth. Bleach windowing keeps counting while a group has "
            "violations: what was known before the burst still counts. How much does that help?"
        ),
        method=(
            f"{lab.stream_name}; rules r0 to r5; 10 % dirt, and 50 % of right-hand cells from position "
            f"{begin:,} to {end:,}; windows of {size:,} tuples that slide by {size // 2:,}: the burst is "
            "longer than the window, and the window is short enough for it to matter. Errors are "
            "systematic (the same true value always becomes the same wrong one, as from a wrong master "
            "record) or drawn anew each time. `class` by the paper's letter with both windowings, `vote` "
            "with Bleach windowing, and `bayes` with its defaults. Run in this process."
        ),
        claims=_claims(found, begin, end),
        figures=[
            Figure(
                f"windowing-{kind}",
                f"A burst in which half of the cells are wrong; {description}.",
                [
                    ratio_panel(
                        "r0 (item to brand) over the stream",
                        POSITION,
                        [over_position(found[kind, one], "r0", label) for one, label in _CASES.items()],
                        [Mark("x", begin, "burst begins"), Mark("x", end, "burst ends")],
                    ),
                    ratio_panel(
                        "All rules, in the burst",
                        "rule",
                        [
                            by_rule(found[kind, one], SIX_RULES, label, begin, end)
                            for one, label in _CASES.items()
                        ],
                        [Mark("y", _BURST_DIRT, "on the way in")],
                    ),
                ],
            )
            for kind, description in _KINDS.items()
        ],
        tables={"by-rule": rows},
    )


def _claims(found: dict[tuple[Kind, str], pa.Table], begin: int, end: int) -> list[Claim]:
    claims = []
    for kind, description in _KINDS.items():
        bleach, basic, vote, bayes = (
            {rule.id: ratio(found[kind, one], rule.id, begin, end).after for rule in SIX_RULES}
            for one in _CASES
        )
        measured = "; ".join(f"{id} {percent(bleach[id])} for {percent(basic[id])}" for id in bleach)
        if kind is Kind.systematic:
            says = "Bleach windowing leaves less dirt than basic, for every rule"
            holds = all(bleach[id] < basic[id] for id in bleach)
        else:
            says = "Bleach windowing leaves no more dirt than basic, for any rule"
            holds = all(bleach[id] <= basic[id] for id in bleach)
        claims.append(Claim("goal", f"in the burst, {says} ({description})", measured, holds))
        claims.append(
            Claim(
                "goal",
                "in the burst, bayes is for no rule more than 3 points worse than vote, and for r0 to r4 not "
                f"more than 2 points worse than class ({description})",
                "; ".join(
                    f"{id} {percent(bayes[id])} (vote {percent(vote[id])}, class {percent(bleach[id])})"
                    for id in bleach
                ),
                all(
                    bayes[id] <= vote[id] + _WORSE_THAN_VOTE
                    and (id == "r5" or bayes[id] <= bleach[id] + _WORSE_THAN_CLASS)
                    for id in bleach
                ),
            )
        )
        factors = [basic[id] / bleach[id] for id in ("r0", "r1") if bleach[id] > 0]
        claims.append(
            Claim(
                "paper",
                f"an order of magnitude fewer dirty cells than basic windowing ({description})",
                "for r0 and r1 "
                + (" and ".join(f"{one:.0f}" if one >= 3 else f"{one:.1f}" for one in factors) or "all")
                + " times fewer",
                bool(all(one >= 10 for one in factors)),
            )
        )
    return claims
