"""Two real tables, scored against published systems."""

from __future__ import annotations

from ...config import COUNTING_REPAIRS, OptionValues
from ..engine_run import BAYES, run_engine
from ..laboratory import Laboratory
from ..measures import score
from ..ratios import score_panel
from ..result import Claim, Figure, Result
from ..tables import KNOWS_ERRORS, PUBLISHED, real_table

Scores = tuple[float, float, float]

LOOK_AHEADS = (1, 1000)
#: by table: what else `bayes` may know about it: a name, and the options
VARIANTS: dict[str, dict[str, OptionValues]] = {
    "hospital": {"bayes": {}, "bayes, implied": {"implied": True}},
    "flights": {"bayes": {}, "bayes, trust": {"trust": "src"}},
}
#: by table and system: the scores of a single pass under the semantics
EXPECTED: dict[tuple[str, str], Scores] = {
    ("hospital", "class"): (0.947, 0.703, 0.807),
    ("hospital", "vote"): (0.947, 0.703, 0.807),
    ("flights", "class"): (0.541, 0.461, 0.498),
    ("flights", "vote"): (0.608, 0.476, 0.534),
    ("hospital", "bayes, look-ahead 1"): (0.930, 0.760, 0.837),
    ("hospital", "bayes, look-ahead 1000"): (0.947, 0.780, 0.856),
    ("hospital", "bayes, implied, look-ahead 1"): (0.935, 0.855, 0.893),
    ("hospital", "bayes, implied, look-ahead 1000"): (0.954, 0.894, 0.923),
    ("flights", "bayes, look-ahead 1"): (0.879, 0.380, 0.530),
    ("flights", "bayes, look-ahead 1000"): (0.941, 0.420, 0.581),
    ("flights", "bayes, trust, look-ahead 1"): (0.773, 0.634, 0.697),
    ("flights", "bayes, trust, look-ahead 1000"): (0.875, 0.842, 0.859),
}


def systems(table: str) -> dict[str, OptionValues]:
    """Return the options of each of our systems for a table, by name."""
    found: dict[str, OptionValues] = {repair: {"repair": repair} for repair in COUNTING_REPAIRS}
    for name, more in VARIANTS[table].items():
        for look_ahead in LOOK_AHEADS:
            found[f"{name}, look-ahead {look_ahead}"] = {**BAYES, **more, "look_ahead": look_ahead}
    return found


def run(lab: Laboratory) -> Result:
    """Clean both tables in one pass, in the order of the file."""
    ours: dict[str, dict[str, Scores]] = {}
    with lab.progress("cleaning", len(EXPECTED)) as advance:
        for name in PUBLISHED:
            table = real_table(name)
            ours[name] = {}
            for system, options in systems(name).items():
                cleaned = run_engine(table.dirty, table.rules, None, **options).cleaned
                one = score(table.truth, table.dirty, cleaned, table.dirty.column_names)
                precision, recall, f1 = (round(value, 3) for value in one.values)
                ours[name][system] = precision, recall, f1
                advance(1)
    claims = [
        Claim(
            "goal",
            f"a single pass under the semantics gives exactly {_joined(expected)} on {name} ({system})",
            _joined(ours[name][system]),
            ours[name][system] == expected,
        )
        for (name, system), expected in EXPECTED.items()
    ]
    panels = [
        score_panel(
            name, "system", {**found, **{_marked(one): scores for one, scores in PUBLISHED[name].items()}}
        )
        for name, found in ours.items()
    ]
    caption = (
        "Precision, recall and F1 by system; ours in one pass over the stream, the others (capitals) over "
        "the table. A system with a star knew the errors of some tuples."
    )
    rows = [
        {
            "table": name,
            "system": system,
            "where": "here" if system in ours[name] else "published",
            "knows_where_errors_are": KNOWS_ERRORS.get(system, "no"),
            **dict(zip(("precision", "recall", "f1"), scores, strict=True)),
        }
        for name in PUBLISHED
        for system, scores in {**ours[name], **PUBLISHED[name]}.items()
    ]
    return Result(
        title="Real tables: hospital and flights",
        question=(
            "Two tables with real errors, and the truth for each cell, that many systems for data repair "
            "are scored on. They read the whole table, some of them several times, and learn from it; a "
            "stream is read once, and each tuple is decided when it comes, or, with a look-ahead, when its "
            "block has come. How much does that cost?"
        ),
        method=(
            "hospital: 1,000 tuples, 509 wrong cells; flights: 2,376 tuples, 4,920 wrong cells "
            "(BigDaMa/raha). One pass in the order of the file, no window, `nulls: fill`, the rules that "
            "the literature uses; `class` and `vote` by the paper's letter, `bayes` with its defaults and "
            "the look-ahead named. `implied` also counts what the keys of rules say of attributes without a "
            "rule; `trust` names the column with the source of a tuple. None of ours knows where errors "
            "are. Run in this process. The other systems' scores are published reruns on the same cells by "
            "Uniclean's benchmark; they were not run here. Its HoloClean looks for errors by itself (nulls "
            "and violations); Raha and Baran ask a user about some tuples, and the truth answers. Scores "
            "of repair with given errors, as many papers have them, are not comparable and not here."
        ),
        claims=claims,
        figures=[Figure("tables", caption, panels)],
        tables={"scores": rows},
    )


def _marked(system: str) -> str:
    return f"{system}*" if KNOWS_ERRORS.get(system, "").startswith("in ") else system


def _joined(scores: Scores) -> str:
    return "/".join(f"{one:.3f}" for one in scores)
