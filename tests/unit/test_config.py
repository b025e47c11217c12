"""Options: each is checked, alone and with the others, and goes through JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from sparkbleach import ConfigError, Engine, Options, Rule, RuleError, SchemaError, Window
from sparkbleach.config import DEFAULT_REPAIR, OptionValues, lane_options
from sparkbleach.engine.check import check_trust
from sparkbleach.engine.placement import Placement, Share
from sparkbleach.paper.in_process import DistributedEngine
from sparkbleach.paper.topology import paper_options
from sparkbleach.rules.active import ActiveRules

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("source", pa.string())])
BAYES = {"look_ahead": 5, "confidence": 0.9, "trust": "source", "implied": True, "left": "repair"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"window": 5}, "window: 5 is not a window; write Window.tuples"),
        ({"windowing": "none"}, "windowing: 'none' is unknown; choose one of bleach, basic"),
        ({"repair": "best"}, "repair: 'best' is unknown; choose one of bayes, class, vote"),
        ({"accept_after": 1}, "accept_after: 1 must be an integer from 2 to 30,000, or never"),
        ({"accept_after": True}, "accept_after: True must be an integer from 2 to 30,000"),
        ({"accept_after": "never"}, r"accept_after: 'never' must be .* \(in Python: None\)"),
        ({"remember": 0}, "remember: 0 must be a positive integer, or forever"),
        ({"remember": "5 windows"}, "remember: '5 windows' must be a positive duration"),
        ({"remember": 25}, "remember: 25 is not a multiple of the window's slide 10; give"),
        ({"remember": 10}, "remember: 10 is less than the window's size 20; give at least 20"),
        ({"remember": 40, "window": None}, "remember: without a window all counts stay; leave it out"),
        ({"remember": 40, "windowing": "basic"}, "remember: it is for windowing='bleach', this is 'basic'"),
        ({"look_ahead": 0}, "look_ahead: 0 must be a positive integer"),
        ({"confidence": 0.4}, "confidence: 0.4 must be a number from 0.5 to below 1"),
        ({"confidence": 1}, "confidence: 1 must be a number from 0.5 to below 1"),
        ({"confidence": float("nan")}, "confidence: nan must be a number"),
        ({"confidence": "high"}, "confidence: 'high' must be a number"),
        ({"trust": ""}, "trust: '' must be the name of a column; leave it out"),
        ({"trust": 3}, "trust: 3 must be the name of a column"),
        ({"implied": "yes"}, "implied: 'yes' must be true or false"),
        ({"left": "drop"}, "left: 'drop' is unknown; choose one of flag, repair"),
    ],
)
def test_a_wrong_option_is_refused(values: dict[str, Any], message: str) -> None:
    """The error names the option, and says what it must be."""
    with pytest.raises(ConfigError, match=f"^{message}"):
        Options(**{"repair": "bayes", "window": Window(20, 10), **values})


@pytest.mark.parametrize("repair", ["class", "vote"])
@pytest.mark.parametrize("name", BAYES)
def test_options_of_bayes_are_for_bayes(repair: str, name: str) -> None:
    """An option that only `bayes` reads is refused with another repair, unless it is the default."""
    values: Any = {name: BAYES[name]}
    with pytest.raises(ConfigError, match=f"^{name}: it is for repair='bayes', this is '{repair}'; leave it"):
        Options(repair=repair, **values)
    Options(repair="bayes", **values)
    Options(repair=repair, confidence=0.6, look_ahead=1000)


@pytest.mark.parametrize(
    ("options", "panes"),
    [
        (Options(window=Window(20, 10)), 8),
        (Options(window=Window(20, 20)), 4),
        (Options(window=Window(20, 10), remember=20), 2),
        (Options(window=Window(20, 10), remember=50), 5),
        (Options(window=Window(20, 10), remember=None), None),
        (Options(window=None), None),
        (Options(), 8),
    ],
)
def test_how_long_counts_are_kept(options: Options, panes: int | None) -> None:
    """Counts are kept for four windows, or for the tuples that are given, or for ever."""
    assert options.remember_panes == panes


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(window=None, accept_after=None, remember=None, windowing="basic", repair="vote"),
        Options(window=Window(20, 10), remember=40, accept_after=3, repair="bayes", trust="s", implied=True),
    ],
)
def test_options_go_through_json(options: Options) -> None:
    """Options come back equal, and what is None reads as in a file of rules."""
    saved = options.to_dict()
    assert Options.from_dict(json.loads(json.dumps(saved))) == options
    assert (saved["accept_after"] == "never") == (options.accept_after is None)
    assert (saved["remember"] == "forever") == (options.remember is None)
    assert (saved["trust"] is None) == (options.trust is None)


def test_an_engine_keeps_its_options() -> None:
    """An engine takes options as keywords, and a restored one has the same."""
    engine = Engine(SCHEMA, ["a -> b"], window=Window(20, 10), accept_after=3, remember=60, repair="vote")
    assert engine.options == Options(window=Window(20, 10), accept_after=3, remember=60, repair="vote")
    assert Engine.restore(engine.snapshot()).options == engine.options
    with pytest.raises(TypeError, match="'windw'"):
        Engine(SCHEMA, ["a -> b"], windw=None)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"^trust: it is for repair='bayes', this is 'class'"):
        Engine(SCHEMA, ["a -> b"], repair="class", trust="source")


def test_several_lanes_count() -> None:
    """Several lanes take `class`, which is their default, and `vote`; one lane takes all."""
    assert lane_options({}, 1).repair == DEFAULT_REPAIR
    assert lane_options({}, 2) == Options(repair="class")
    assert lane_options({"repair": "vote", "accept_after": 5}, 2) == Options(repair="vote", accept_after=5)
    assert lane_options({"repair": "bayes"}, 1).repair == "bayes"
    with pytest.raises(ConfigError, match=r"^repair: 'bayes' needs a single lane, there are 3; give lanes=1"):
        lane_options({"repair": "bayes"}, 3)
    share = Share(Placement((("b",), ())), 0)
    with pytest.raises(ConfigError, match=r"^repair: 'bayes' needs a single lane, there are 2"):
        Engine(SCHEMA, ["a -> b"], share=share, repair="bayes")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"repair": "bayes"}, "repair: 'bayes' is not for the paper's topology; choose one of class, vote"),
        ({"accept_after": 10}, "accept_after: the paper's topology accepts no new truths; leave it out"),
        ({"remember": 4_000_000}, "remember: the paper's topology keeps counts for ever; leave it out"),
        ({"remember": "4 windows"}, "remember: the paper's topology keeps counts for ever"),
    ],
)
def test_the_papers_topology_follows_the_paper(given: OptionValues, message: str) -> None:
    """It takes `class` and `vote`, keeps counts for ever and accepts no new truths."""
    with pytest.raises(ConfigError, match=f"^{message}") as caught:
        paper_options(given)
    assert "topology='fused'" in str(caught.value)
    with pytest.raises(ConfigError, match=f"^{message}"):
        DistributedEngine(SCHEMA, [], **given)


def test_defaults_of_the_papers_topology() -> None:
    """What a user does not choose is as in the paper; what says the same may be given."""
    plain = Options(repair="class", accept_after=None, remember=None)
    assert paper_options({}) == plain == DistributedEngine(SCHEMA, []).options
    assert paper_options({"accept_after": None, "remember": None, "repair": "class"}) == plain
    with pytest.raises(RuleError, match="rule 'r', accept_after: new truths are not accepted here; leave"):
        DistributedEngine(SCHEMA, [Rule("r", "a", "b", accept_after=3)])
    DistributedEngine(SCHEMA, [Rule("r", "a", "b", accept_after="never")])


def test_the_column_of_sources_is_one_of_the_stream() -> None:
    """`trust` names a column of a plain type, which stays."""
    with pytest.raises(
        ConfigError, match=r"^trust: the schema has no single attribute 'x'; choose one of a, b"
    ):
        Engine(SCHEMA, ["a -> b"], repair="bayes", trust="x")
    nested = pa.schema([("a", pa.int64()), ("source", pa.list_(pa.string()))])
    with pytest.raises(ConfigError, match=r"^trust: 'source' is of type list<.*; cast it"):
        check_trust(Options(repair="bayes", trust="source"), nested)
    active = ActiveRules(SCHEMA, [Rule("r", "a", "b")])
    with pytest.raises(SchemaError, match="column 'source', which trust reads, was string and is gone"):
        active.adopt_schema(SCHEMA.remove(2), 0, "source")
    active.adopt_schema(SCHEMA.remove(2), 0)


def test_a_rule_overrides_when_a_new_truth_is_accepted() -> None:
    """The stream's option holds for rules that say nothing of their own."""
    assert Rule("r", "a", "b").accept_after_or(10) == 10
    assert Rule("r", "a", "b").accept_after_or(None) is None
    assert Rule("r", "a", "b", accept_after=3).accept_after_or(None) == 3
    assert Rule("r", "a", "b", accept_after="never").accept_after_or(10) is None
