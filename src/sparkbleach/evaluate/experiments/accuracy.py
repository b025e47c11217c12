"""How clean a stream becomes: the paper's dirty ratio by rule."""

from __future__ import annotations

from ..engine_run import BAYES, run_engine
from ..laboratory import DIRT, Laboratory
from ..measures import dirty_ratios, ratio, score
from ..ratios import POSITION, by_rule, over_position, percent, ratio_panel, ratio_table
from ..result import Claim, Figure, Mark, Result
from ..sales import SIX_RULES

_PAPER = 0.005


def run(lab: Laboratory) -> Result:
    """Clean a stream that is 10 % dirty; compare it with the truth."""
    spoilt = lab.spoilt()
    n = lab.truth.num_rows
    with lab.progress("cleaning", 2 * n) as advance:
        done = run_engine(spoilt.dirty, SIX_RULES, lab.window, advance=advance)
        probable = run_engine(spoilt.dirty, SIX_RULES, lab.window, advance=advance, **BAYES)
    ratios, of_bayes = (
        dirty_ratios(spoilt.truth, spoilt.dirty, one.cleaned, SIX_RULES, lab.profile.bin_tuples)
        for one in (done, probable)
    )
    first = lab.window.size
    found = {rule.id: ratio(ratios, rule.id, first).after for rule in SIX_RULES}
    with_bayes = {rule.id: ratio(of_bayes, rule.id, first).after for rule in SIX_RULES}
    five = [found[rule.id] for rule in SIX_RULES[:5]]
    attributes = list(dict.fromkeys(rule.rhs for rule in SIX_RULES))
    scores = [
        {
            "attribute": name,
            "repair": repair,
            **score(spoilt.truth, spoilt.dirty, one.cleaned, [name]).to_dict(),
        }
        for name in attributes
        for repair, one in (("class", done), ("bayes", probable))
    ]
    marks = [Mark("y", DIRT, "on the way in"), Mark("y", _PAPER, "paper: at most 0.5 %")]
    claims = [
        Claim(
            "goal",
            "at most 0.5 % dirty for r0 to r4 after the first window",
            ", ".join(f"{rule.id} {percent(found[rule.id])}" for rule in SIX_RULES[:5]),
            max(five) <= _PAPER,
        ),
        Claim(
            "paper",
            "from 10 % to at most 0.5 % for each rule",
            f"at most {percent(max(found.values()))} after the first window",
            max(found.values()) <= _PAPER,
        ),
        Claim(
            "paper",
            "nothing dirty is left for two of six rules",
            f"less than 0.001 % for {sum(one < 1e-5 for one in found.values())} of six",
            sum(one < 1e-5 for one in found.values()) >= 2,
        ),
        Claim(
            "goal",
            "with bayes, too, at most 0.5 % dirty for r0 to r5 after the first window",
            ", ".join(f"{id} {percent(one)}" for id, one in with_bayes.items()),
            max(with_bayes.values()) <= _PAPER,
        ),
    ]
    panels = [
        ratio_panel(
            "Dirty ratio over the stream (class)",
            POSITION,
            [over_position(ratios, rule.id, rule.id) for rule in SIX_RULES],
            marks,
        ),
        ratio_panel(
            "After the first window",
            "rule",
            [
                by_rule(ratios, SIX_RULES, "class, by the letter", first),
                by_rule(of_bayes, SIX_RULES, "bayes, by default", first),
            ],
            marks,
        ),
    ]
    caption = "Dirty ratio by rule. The first tuples of each group cannot be repaired: nothing is known yet."
    return Result(
        title="How clean does the stream become?",
        question=(
            "A tenth of the cells on the right of a rule is wrong, and a tenth of those on the left is "
            "missing. A rule can only help where it applies: its left side is there. Of these tuples, how "
            "many leave with a wrong right-hand cell? (The dirty ratio; on the way in it is 10 %.)"
        ),
        method=(
            f"{lab.stream_name}; rules r0 to r5; each right-hand cell replaced with p = 10 % by another "
            f"value of its column, each left-hand cell nulled with p = 10 %; {lab.window_name}. `class` by "
            "the paper's letter, and beside it `bayes` by default. Run in this process: Spark's output "
            "is the engine's, cell for cell, which the tests check."
        ),
        claims=claims,
        figures=[Figure("accuracy", caption, panels)],
        tables={
            "ratios": ratios,
            "ratios-bayes": of_bayes,
            "after-first-window": ratio_table(ratios, SIX_RULES, first),
            "after-first-window-bayes": ratio_table(of_bayes, SIX_RULES, first),
            "scores": scores,
        },
        shown=["after-first-window", "after-first-window-bayes", "scores"],
    )
