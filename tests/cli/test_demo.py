"""The demo works, and what it shows is true."""

from __future__ import annotations

import re

from sparkbleach.cli.shopping import RULES, shopping
from sparkbleach.evaluate.measures import dirty_ratios, ratio
from sparkbleach.rules.rule import Rule
from tests.support.commands import Run


def test_demo(run: Run) -> None:
    """The demo shows a dirty table and a clean one, and for each rule how dirty the stream was and is."""
    done = run("demo", "--tuples", 3_000, "--files", 2)
    assert done.exit_code == 0, done.output
    assert "tuple 3: city Pariss -> Paris" in done.output
    shares = re.findall(r"(\d+\.\d\d)%", done.output)
    assert len(shares) == 2 * len(RULES)
    assert all(5 < float(before) < 15 for before in shares[::2])
    assert float(shares[1]) < float(shares[0])


def test_the_stream_is_as_dirty_as_it_should_be() -> None:
    """A tenth of the cells on the right of each rule is wrong."""
    stream = shopping(20_000, seed=1, dirt=0.1)
    rules = [Rule.parse(text) for text in RULES]
    ratios = dirty_ratios(stream.truth, stream.dirty, stream.dirty, rules, 20_000)
    assert all(0.08 < ratio(ratios, rule.id).before < 0.12 for rule in rules)
