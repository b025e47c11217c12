"""Rules: their forms (Python, text, dict, YAML) and the checks against a schema."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import json
import pickle
import re
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbleach.config import Options
from sparkbleach.errors import ConfigError, RuleError, RuleWarning, SparkbleachError
from sparkbleach.rules.check import check_rules, warn_of_twins
from sparkbleach.rules.constants import WILDCARD
from sparkbleach.rules.file import load_options, load_rules
from sparkbleach.rules.rule import Rule

HOSPITAL = """\
# Functional dependencies used for this table in the repair literature; not all hold on the clean table.
rules:
  - {id: r0, lhs: [HospitalName], rhs: ZipCode, nulls: fill}
  - {id: r1, lhs: [HospitalName], rhs: PhoneNumber, nulls: fill}
  - {id: r2, lhs: [MeasureCode], rhs: MeasureName, nulls: fill}
  - {id: r3, lhs: [MeasureCode], rhs: Stateavg, nulls: fill}
  - {id: r4, lhs: [MeasureName], rhs: MeasureCode, nulls: fill}
  - {id: r5, lhs: [ProviderNumber], rhs: HospitalName, nulls: fill}
  - {id: r6, lhs: [MeasureCode], rhs: Condition, nulls: fill}
  - {id: r7, lhs: [HospitalName], rhs: Address1, nulls: fill}
  - {id: r8, lhs: [HospitalName], rhs: HospitalOwner, nulls: fill}
  - {id: r9, lhs: [HospitalName], rhs: ProviderNumber, nulls: fill}
  - {id: r10, lhs: [City], rhs: CountyName, nulls: fill}
  - {id: r11, lhs: [ZipCode], rhs: EmergencyService, nulls: fill}
  - {id: r12, lhs: [HospitalName], rhs: City, nulls: fill}
"""

FLIGHTS = """\
# Functional dependencies used for this table in the repair literature; not all hold on the clean table.
rules:
  - {id: r0, lhs: [flight], rhs: act_arr_time, nulls: fill}
  - {id: r1, lhs: [flight], rhs: sched_arr_time, nulls: fill}
  - {id: r2, lhs: [flight], rhs: act_dep_time, nulls: fill}
  - {id: r3, lhs: [flight], rhs: sched_dep_time, nulls: fill}
  - {id: r4, lhs: [sched_arr_time], rhs: act_arr_time, nulls: fill}
  - {id: r5, lhs: [sched_dep_time], rhs: act_dep_time, nulls: fill}
"""

SCHEMA = pa.schema(
    [
        ("zipcode", pa.string()),
        ("street", pa.large_string()),
        ("city", pa.string_view()),
        ("country", pa.string()),
        ("n", pa.int8()),
        ("tags", pa.list_(pa.string())),
        ("coded", pa.dictionary(pa.int8(), pa.string())),
        ("nothing", pa.null()),
        ("twice", pa.string()),
        ("twice", pa.string()),
    ]
)


#: what PyYAML raises all kinds of errors for
UNREADABLE_VALUES = (
    '!!int ""', '!!int "_"', '!!float ""', "!!bool x", "!!timestamp x", f"1{':0' * 300}:0.5",
)  # fmt: skip


def refused(error: SparkbleachError, *parts: str) -> None:
    """Assert that a message has these parts, in this order."""
    assert re.search(".*".join(map(re.escape, parts)), str(error)), str(error)


def test_rule_has_the_form_of_the_readme() -> None:
    """A rule is written with its id first; lists become tuples, and a bare text is one attribute."""
    rule = Rule("zip_city", lhs=["zipcode"], rhs="city", when=" zipcode IS NOT NULL ", nulls="ignore")
    assert rule == Rule("zip_city", "zipcode", "city", "zipcode IS NOT NULL")
    assert (rule.lhs, rule.when, rule.nulls, rule.tableau) == (
        ("zipcode",),
        "zipcode IS NOT NULL",
        "ignore",
        (),
    )
    assert Rule("r", ("a",), "b", tableau=[["x", WILDCARD]]).tableau == (("x", "_"),)


def test_rule_is_a_value() -> None:
    """Rules can be hashed, copied and pickled, and cannot be changed; where one was read does not matter."""
    rule = Rule("r", ["a", "b"], "c", tableau=[[1, "_", dt.date(2024, 5, 1)]], origin="rules.yml:3")
    assert len({rule, copy.deepcopy(rule), pickle.loads(pickle.dumps(rule))}) == 1  # noqa: S301 - our own bytes
    assert rule == Rule("r", ["a", "b"], "c", tableau=[[1, "_", dt.date(2024, 5, 1)]])
    with pytest.raises(AttributeError):
        rule.id = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "place", "problem", "remedy"),
    [
        ({"id": ""}, "id", "empty", "write a name"),
        ({"id": 3}, "id", "3 is not a text", "in quotes"),
        ({"lhs": []}, "lhs", "empty", "at least one attribute"),
        ({"lhs": 3}, "lhs", "3 is not a list", "write a list"),
        ({"lhs": ["a", 3]}, "lhs", "3 is not a text", "in quotes"),
        ({"lhs": ["a", " "]}, "lhs", "empty", "write a name"),
        ({"lhs": ["a", "b", "a"]}, "lhs", "'a' is repeated", "each attribute once"),
        ({"rhs": "a"}, "rhs", "'a' is on the LHS", "leave it out"),
        ({"rhs": ["c"]}, "rhs", "['c'] is not one attribute", "a rule for each"),
        ({"rhs": ""}, "rhs", "empty", "write a name"),
        ({"when": "  "}, "when", "blank", "leave it out"),
        ({"when": True}, "when", "True is not a text", "SQL predicate"),
        ({"nulls": "keep"}, "nulls", "'keep' is not an option", "ignore or fill"),
        ({"tableau": "_"}, "tableau", "'_' is not a list", "list of lists"),
        ({"tableau": ["_"]}, "tableau row 1", "'_' is not a list", "each row as a list"),
        ({"tableau": [["_", "_"], ["_"]]}, "tableau row 2", "1 items, not 2", "one for each LHS"),
        ({"tableau": [["_", None]]}, "tableau row 1", "null", "_ for any value"),
        ({"tableau": [["_", float("nan")]]}, "tableau row 1", "nan is not a number", "write a number"),
        ({"tableau": [["_", Decimal("sNaN")]]}, "tableau row 1", "not a number", "write a number"),
        ({"tableau": [["_", []]]}, "tableau row 1", "[] is of type list", "write a plain"),
        ({"tableau": [["_", np.float64(1)]]}, "tableau row 1", "of type float64", "write a plain"),
        ({"id": "x\ud800"}, "id", "'\\ud800', which is half of a character", "whole characters"),
        ({"lhs": ["\ud800"]}, "lhs", "half of a character", "whole characters"),
        ({"rhs": "\udfff"}, "rhs", "half of a character", "whole characters"),
        ({"when": "a = '\ud800'"}, "when", "half of a character", "whole characters"),
        ({"tableau": [["_", "\ud800"]]}, "tableau row 1", "half of a character", "whole characters"),
    ],
)
def test_structural_mistakes_are_refused(
    arguments: dict[str, Any], place: str, problem: str, remedy: str
) -> None:
    """A rule that makes no sense under any schema cannot be made, from Python or from a dict."""
    arguments = {"id": "zip_city", "lhs": ["a"], "rhs": "c", **arguments}
    with pytest.raises(RuleError) as caught:
        Rule(**arguments)
    refused(caught.value, f"rule {arguments['id']!r}, {place}: ", problem, "; ", remedy)
    with pytest.raises(RuleError, match=re.escape(str(caught.value))):
        Rule.from_dict(arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zipcode -> city", Rule("zipcode -> city", "zipcode", "city")),
        ("  a ,b->c ", Rule("a, b -> c", ["a", "b"], "c")),
        (
            "ca_state, ca_city -> ca_zip where country = 'FR'",
            Rule(
                "ca_state, ca_city -> ca_zip WHERE country = 'FR'",
                ["ca_state", "ca_city"],
                "ca_zip",
                "country = 'FR'",
            ),
        ),
        ("zip_city: zipcode -> city WHERE(n>1)", Rule("zip_city", "zipcode", "city", "(n>1)")),
        ("r-1.b:a->b", Rule("r-1.b", "a", "b")),
        ('"my rule": "my ""col""", é -> "where"', Rule("my rule", ['my "col"', "é"], "where")),
        ("a -> b WHERE x: y -> z", Rule("a -> b WHERE x: y -> z", "a", "b", "x: y -> z")),
        ("a\n->\nb\nWHERE\n c", Rule("a -> b WHERE c", "a", "b", "c")),
    ],
)
def test_parse(text: str, expected: Rule) -> None:
    """The short form gives the rule; without a name, its id is the text in its tidy form."""
    assert Rule.parse(text) == expected


def test_parse_takes_an_id() -> None:
    """An id given beside the text names the rule; it must not contradict a name in the text."""
    assert Rule.parse("a -> b", id="r") == Rule.parse("r: a -> b", id="r") == Rule("r", "a", "b")
    with pytest.raises(RuleError, match=r"rule 'q', id: the text names it 'r'; leave out"):
        Rule.parse("r: a -> b", id="q")
    with pytest.raises(RuleError, match=r"rule '', id: it is empty; write a name"):
        Rule.parse("a -> b", id="")


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "an attribute is expected"),
        ("zipcode", 8, "',' or '->' is expected"),
        ("zipcode city -> x", 9, "',' or '->' is expected"),
        ("zipcode ->", 11, "an attribute is expected"),
        ("zipcode -> WHERE n = 1", 12, "an attribute is expected"),
        ("a, -> b", 4, "an attribute is expected"),
        ("a -> b, c", 7, "WHERE or the end is expected"),
        ("a -> b WHEN c", 8, "WHERE or the end is expected"),
        ("a -> b WHERE  ", 15, "a predicate is expected"),
        ("r: 1a -> b", 4, "an attribute is expected"),
        ('"a -> b', 1, "an attribute is expected"),
        ('"" -> b', 1, "an attribute is expected"),
    ],
)
def test_parse_points_to_the_column(text: str, column: int, problem: str) -> None:
    """A text that is not a rule is refused with the column where it goes wrong."""
    with pytest.raises(RuleError) as caught:
        Rule.parse(text)
    refused(caught.value, f"rule {text!r}, text, column {column}: {problem}", "; write [name:] a, b -> c")


names = st.text(min_size=1, max_size=8).filter(str.strip) | st.sampled_from(
    ["where", "a b", 'q"q', "été", "a:b"]
)
constants = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(dt.UTC)).map(lambda value: value.replace(fold=0)),
    st.times().map(lambda value: value.replace(fold=0)),
    st.timedeltas(),
    st.sampled_from([float("inf"), float("-inf")]),
)


@st.composite
def rules(draw: st.DrawFn, *, plain: bool) -> Rule:
    """Draw a rule; a plain one has all that the short form can say."""
    *lhs, rhs = draw(st.lists(names, min_size=2, max_size=5, unique=True))
    when = draw(st.none() | st.text(min_size=1).filter(str.strip))
    if plain:
        return Rule(draw(names), lhs, rhs, when)
    row = st.lists(st.just(WILDCARD) | constants, min_size=len(lhs) + 1, max_size=len(lhs) + 1)
    return Rule(
        draw(names),
        lhs,
        rhs,
        when,
        draw(st.sampled_from(["ignore", "fill"])),
        draw(st.lists(row, max_size=3)),
        certain=draw(st.booleans()),
        accept_after=draw(st.sampled_from([None, 2, 7, "never"])),
    )


@given(rules(plain=True))
def test_text_round_trip(rule: Rule) -> None:
    """The text of a rule parses back to an equal rule, with a name or without."""
    assert Rule.parse(str(rule)) == rule
    text = str(dataclasses.replace(rule, id="x")).removeprefix("x: ")
    unnamed = Rule.parse(text)
    assert unnamed.id == str(unnamed) == text
    assert dataclasses.replace(unnamed, id=rule.id) == rule


@given(rules(plain=False))
def test_dict_round_trip(rule: Rule) -> None:
    """A rule goes through strict JSON and comes back equal, each constant of the type that it had."""
    back = Rule.from_dict(json.loads(json.dumps(rule.to_dict(), allow_nan=False)))
    assert back == rule
    assert repr(back) == repr(rule)


@pytest.mark.parametrize(
    ("change", "place", "problem", "remedy"),
    [
        ({"lsh": ["a"]}, "keys", "unknown key 'lsh'", "did you mean 'lhs'?"),
        ({"certain": "yes"}, "certain", "'yes' is not an option", "write true or false"),
        (
            {"accept_after": 1},
            "accept_after",
            "1 is not an option",
            "write an integer of 2 or more, or never",
        ),
        ({"accept_after": True}, "accept_after", "True is not an option", "write an integer of 2 or more"),
        ({"accept_after": "always"}, "accept_after", "'always' is not an option", "or never"),
        ({"zzzzzz": 1}, "keys", "unknown key 'zzzzzz'", "there are 'id', 'lhs'"),
        ({"rhs": ...}, "keys", "'rhs' is missing", "add rhs:"),
        ({"tableau": [[{"$date": "x"}, "_"]]}, "tableau row 1", "not a valid date", "to_dict()"),
        ({"tableau": [["_", {"$datum": 1}]]}, "tableau row 1", "not a constant", "$date"),
        ({"tableau": [["_", {}]]}, "tableau row 1", "not a constant", "$date"),
        ({"tableau": [["_", {"$bytes": 3}]]}, "tableau row 1", "not a valid bytes", "to_dict()"),
    ],
)
def test_from_dict_refuses(change: dict[str, Any], place: str, problem: str, remedy: str) -> None:
    """Unknown and missing keys, and constants that cannot be decoded, are refused by name."""
    mapping = {"id": "zip_city", "lhs": ["a"], "rhs": "b", **change}
    mapping = {key: value for key, value in mapping.items() if value is not ...}
    with pytest.raises(RuleError) as caught:
        Rule.from_dict(mapping)
    refused(caught.value, f"rule 'zip_city', {place}: ", problem, "; ", remedy)


def test_a_long_rule_is_read_in_time_that_grows_with_its_length() -> None:
    """Many attributes cost as much each as few do, in a text and in a list."""
    names = [f"a{n}" for n in range(200_000)]
    began = time.process_time()
    assert len(Rule.parse(f"{', '.join(names)} -> b").lhs) == len(names)
    with pytest.raises(RuleError, match="'a7' is repeated"):
        Rule("r", [*names, "a7"], "b")
    assert time.process_time() - began < 30  # what grows with the square of the length takes minutes


def written(folder: Path, content: str | bytes) -> Path:
    """Write a file of rules."""
    path = folder / "rules.yml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(("content", "count"), [(HOSPITAL, 13), (FLIGHTS, 6)])
def test_rule_files_of_the_literature_load(tmp_path: Path, content: str, count: int) -> None:
    """The rule files of the hospital and flights tables load, and fit a schema of texts."""
    loaded = load_rules(written(tmp_path, content))
    assert [rule.id for rule in loaded] == [f"r{n}" for n in range(count)]
    assert all(rule.nulls == "fill" for rule in loaded)
    attributes = {name for rule in loaded for name in (*rule.lhs, rule.rhs)}
    assert len(check_rules(loaded, pa.schema([(name, pa.string()) for name in attributes]))) == count


def test_load_rules_reads_every_form(tmp_path: Path) -> None:
    """An item is a mapping or a text; a byte order mark, comments and block texts are fine."""
    content = """\
rules:
  - zipcode -> city
  - "named: zipcode -> city WHERE country = 'FR'"
  - id: full
    lhs: [zipcode, street]
    rhs: city
    when: |
      country = 'FR'   -- only there
      AND n > 1
    nulls: fill
    tableau:
      - ["75001", _, Paris]
      - [_, 2024-05-01, 3]
      - [_, 1.5, {$decimal: "1.50"}]
  - {id: flow, lhs: [zipcode, street], rhs: n, certain: true, accept_after: never}
  - {id: single, lhs: zipcode, rhs: n, tableau: }
"""
    when = "country = 'FR'   -- only there\nAND n > 1"
    tableau: list[list[object]] = [
        ["75001", "_", "Paris"],
        ["_", dt.date(2024, 5, 1), 3],
        ["_", 1.5, Decimal("1.50")],
    ]
    path = written(tmp_path, b"\xef\xbb\xbf" + content.encode())
    loaded = load_rules(str(path))
    assert loaded == (
        Rule("zipcode -> city", "zipcode", "city"),
        Rule("named", "zipcode", "city", "country = 'FR'"),
        Rule("full", ["zipcode", "street"], "city", when, "fill", tableau),
        Rule("flow", ["zipcode", "street"], "n", certain=True, accept_after="never"),
        Rule("single", "zipcode", "n"),
    )
    assert [rule.origin for rule in loaded] == [f"{path}:{line}" for line in (2, 3, 4, 15, 16)]
    assert load_rules(written(tmp_path, "rules: []")) == ()


def test_a_file_whose_aliases_multiply_is_refused_at_once(tmp_path: Path) -> None:
    """Aliases that stand for billions of values are refused where the first one is; none is expanded."""
    levels = "".join(f"  - &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    path = written(tmp_path, f"rules:\n  - &l0 [x, x]\n{levels}")
    for load in (load_rules, load_options):
        with pytest.raises(RuleError) as caught:
            load(path)
        refused(caught.value, f"{path}:3: ", "*l0 is an alias", "; ", "write out what &l0 stands for")


def test_load_options_reads_what_a_file_gives(tmp_path: Path) -> None:
    """A file of rules may have options, which are keywords; the rules do not depend on them."""
    content = """\
rules:
  - zipcode -> city
options:
  repair: bayes
  windowing: basic
  accept_after: never
  remember: forever
  look_ahead: 50
  confidence: 0.75
  trust: source
  implied: true
  left: repair
"""
    path = written(tmp_path, content)
    assert load_rules(path) == (Rule("zipcode -> city", "zipcode", "city"),)
    assert load_options(path) == {
        "repair": "bayes",
        "windowing": "basic",
        "accept_after": None,
        "remember": None,
        "look_ahead": 50,
        "confidence": 0.75,
        "trust": "source",
        "implied": True,
        "left": "repair",
    }
    assert Options(**load_options(path)).look_ahead == 50
    assert load_options(
        written(tmp_path, "options: {accept_after: 5, remember: 4 windows}\nrules: []\n")
    ) == {"accept_after": 5, "remember": "4 windows"}
    assert load_options(written(tmp_path, "rules: []\n")) == {}


@pytest.mark.parametrize(
    ("content", "line", "problem", "remedy"),
    [
        ("options: [vote]\n", 2, "options is not a mapping", "write options: and lines such as repair: vote"),
        ("options:\n  repiar: vote\n", 3, "options, keys: unknown key 'repiar'", "did you mean 'repair'?"),
        ("options:\n  ? [x]\n  : y\n", 3, "options, keys: a key is not a text", "use the keys windowing, "),
        ("options:\n  left: flag\n  left: flag\n", 4, "the key 'left' is there twice", "leave one"),
        ("options:\n  trust:\n", 3, "options, trust: it has no value", "leave the key out"),
        ("options:\n  look_ahead: 010\n", 3, "options, look_ahead: YAML reads 010 as octal", "in quotes"),
        ("options:\n  repair: best\n", 3, "options, repair: 'best' is unknown", "choose one of bayes, class"),
        ("options:\n  left: flag\n  accept_after: 1\n", 4, "options, accept_after: 1 must be", "or never"),
        ("options:\n  remember: no\n", 3, "options, remember: False must be a positive", "or forever"),
        ("options:\n  confidence: 2\n", 3, "options, confidence: 2 must be a number", "from 0.5 to below 1"),
    ],
)
def test_load_options_refuses(tmp_path: Path, content: str, line: int, problem: str, remedy: str) -> None:
    """Errors in the options of a file name the file, the line, the option and the remedy."""
    path = written(tmp_path, "rules: []\n" + content)
    with pytest.raises(ConfigError) as caught:
        load_options(path)
    refused(caught.value, f"{path}:{line}: ", problem, remedy)
    assert load_rules(path) == ()


GOOD = "rules:\n  - {id: good, lhs: [a], rhs: b}\n"


@pytest.mark.parametrize(
    ("content", "line", "problem", "remedy"),
    [
        ("", 1, "it is empty", "write rules:"),
        ("# nothing\n", 1, "it is empty", "write rules:"),
        ("- a -> b\n", 1, "not a mapping", "write rules:"),
        ("{}\n", 1, "the key 'rules' is missing", "write rules:"),
        ("ruels:\n  - a -> b\n", 1, "unknown key 'ruels'", "did you mean 'rules'?"),
        ("rules: []\nrules: []\n", 2, "twice", "in one list"),
        ("options: {}\nrules: []\noptions: {}\n", 3, "the key 'options' is there twice", "in one mapping"),
        ("options: {}\n", 1, "the key 'rules' is missing", "write rules:"),
        ("rules: []\nother: 1\n", 2, "unknown key 'other'", "there are 'rules', 'options'"),
        ("rules:\n", 1, "rules is not a list", "write rules:"),
        ("rules:\n  id: r\n", 2, "rules is not a list", "write rules:"),
        ("rules: [\n  a -> b\n", 3, "not valid YAML", "check brackets"),
        ("rules:\n  - a: b: c\n", 2, "not valid YAML", "check brackets"),
        ("rules: []\n---\nrules: []\n", 2, "not valid YAML", "check brackets"),
        ("rules: *nowhere\n", 1, "*nowhere is an alias", "write out"),
        ("rules: []\n# éééé\n\x07\n\n\n\n\n", 3, "control character", "remove"),
        (b"rules:\n  - caf\xe9 -> b\n", 2, "not valid UTF-8", "save it as UTF-8"),
        ("rules:\n  - a -> b\x07\n", 2, "control character", "remove it"),
        ("[" * 5000, 1, "nested too deeply", "plain lists"),
        (GOOD + "  - 3\n", 3, "not a rule", "write a mapping"),
        (GOOD + "  - [a, b]\n", 3, "not a rule", "write a mapping"),
        (GOOD + "  -\n", 3, "not a rule", "write a mapping"),
        (GOOD + "  - a - b\n", 3, "rule 'a - b', text, column 3", "write [name:]"),
        (GOOD + "  - a -> a\n", 3, "rule 'a -> a', rhs: attribute 'a' is on the LHS", "leave it out"),
        (GOOD + "  - {id: good, lhs: a, rhs: c}\n", 3, "rule 'good', id: line 2", "its own id"),
        (GOOD + "  - id: r\n    lsh: a\n    rhs: b\n", 4, "rule 'r', keys: unknown key 'lsh'", "'lhs'?"),
        (
            GOOD + "  - id: r\n    lhs: a\n    lhs: c\n",
            5,
            "rule 'r', keys: the key 'lhs' is there twice",
            "leave",
        ),
        (GOOD + "  - id: r\n    ? [x]\n    : y\n", 4, "rule 'r', keys: a key is not a text", "id, lhs"),
        (GOOD + "  - id: r\n    lhs: a\n", 3, "rule 'r', keys: 'rhs' is missing", "add rhs:"),
        (GOOD + "  - lhs: a\n    rhs: b\n", 3, "rule '(no id)', keys: 'id' is missing", "add id:"),
        (GOOD + "  - id: 7\n    lhs: a\n    rhs: b\n", 3, "rule '7', id: 7 is not a text", "in quotes"),
        (
            GOOD + "  - id: [x]\n    lhs: a\n    rhs: b\n",
            3,
            "rule '(no id)', id: ['x'] is not a text",
            "quotes",
        ),
        (
            GOOD + "  - id: r\n    lhs: [a, no]\n    rhs: b\n",
            4,
            "rule 'r', lhs: False is not a text",
            "in quotes",
        ),
        (
            GOOD + "  - id: r\n    lhs: {a: b}\n    rhs: b\n",
            4,
            "rule 'r', lhs: {'a': 'b'} is not a list",
            "write",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs:\n      - b\n",
            6,
            "rule 'r', rhs: ['b'] is not one",
            "name one",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    when:\n",
            6,
            "rule 'r', when: it has no value",
            "leave",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    when: ''\n",
            6,
            "rule 'r', when: it is blank",
            "leave",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    nulls: no\n",
            6,
            "rule 'r', nulls: False is not",
            "or fill",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    tableau: [[x]]\n",
            6,
            "rule 'r', tableau row 1: ",
            "LHS",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    tableau: [[x, ~]]\n",
            6,
            "row 1: it has a null",
            "_ for",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    tableau:\n    - [x, 01234]\n",
            7,
            "01234 as octal",
            "quotes",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    tableau:\n    - [x, 12:30]\n",
            7,
            "base 60",
            "in quotes",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    tableau:\n    - [x, 2024-13-01]\n",
            7,
            "cannot read",
            "write",
        ),
        *(
            (
                GOOD + f"  - id: r\n    lhs: a\n    rhs: b\n    {key}:\n    - [x, {value}]\n",
                7,
                problem,
                "write",
            )
            for key in ("when", "tableau", "accept_after")
            for value, problem in (
                *((value, "YAML cannot read the value") for value in UNREADABLE_VALUES),
                (f"0x{'f' * 5_000}", "a number has 5002 characters"),
            )
        ),
        (
            GOOD + "  - id: r\n    lhs: !!python/name:os.system\n    rhs: b\n",
            4,
            "rule 'r', lhs: YAML cannot",
            "write",
        ),
        (
            GOOD + "  - id: r\n    lhs: a\n    rhs: b\n    tableau: &x [*x]\n",
            6,
            "*x is an alias",
            "write out",
        ),
        ("rules:\n  - " + "[" * 100_000, 1, "nested too deeply", "plain lists"),
    ],
)
def test_load_rules_refuses(
    tmp_path: Path, content: str | bytes, line: int, problem: str, remedy: str
) -> None:
    """A file that is wrong anywhere gives no rule, and an error that names file, line, rule and remedy."""
    path = written(tmp_path, content)
    with pytest.raises(RuleError) as caught:
        load_rules(path)
    refused(caught.value, f"{path}:{line}: ", problem, "; ", remedy)


def test_load_rules_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, or a folder, is an error that names the path."""
    for path in (tmp_path / "missing.yml", tmp_path):
        with pytest.raises(RuleError, match=rf"{re.escape(str(path))}: cannot read it .*; check the path"):
            load_rules(path)


def test_check_rules_gives_what_the_engine_needs() -> None:
    """A checked rule has its condition compiled, and its constants in the types of the attributes."""
    plain, conditional, patterned = check_rules(
        [
            Rule("plain", "zipcode", "city"),
            Rule("conditional", ["zipcode", "street"], "n", "Country = 'FR'"),
            Rule(
                "patterned",
                ["street", "n"],
                "city",
                tableau=[["x", 3, "_"], ["_", 4, "Lyon"], ["_", "_", "_"]],
            ),
        ],
        SCHEMA,
    )
    assert (plain.condition, plain.tableau, plain.has_constants) == (None, None, False)
    assert conditional.condition is not None
    assert conditional.condition.columns == ("country",)
    assert patterned.tableau is not None
    assert patterned.tableau.lhs == (
        pa.array(["x", None, None], pa.large_string()),
        pa.array([3, 4, None], pa.int8()),
    )
    assert patterned.tableau.rhs == pa.array([None, "Lyon", None], pa.string_view())
    assert patterned.has_constants
    [wildcard_only] = check_rules([Rule("r", "n", "city", tableau=[[1, "_"]])], SCHEMA)
    assert not wildcard_only.has_constants


@pytest.mark.parametrize(
    ("rule", "place", "problem", "remedy"),
    [
        (
            Rule("r", ["zipcode", "sreet"], "city"),
            "lhs",
            "unknown attribute 'sreet'",
            "did you mean 'street'?",
        ),
        (Rule("r", "zipcode", "City"), "rhs", "unknown attribute 'City'", "did you mean 'city'?"),
        (Rule("r", "zipcode", "qqqqqq"), "rhs", "unknown attribute 'qqqqqq'", "there are 'zipcode'"),
        (Rule("r", "twice", "city"), "lhs", "2 columns 'twice'", "rename"),
        (Rule("r", "tags", "city"), "lhs", "unsupported type list<", "flatten"),
        (Rule("r", "zipcode", "coded"), "rhs", "unsupported type dictionary<", "cast the column to string"),
        (Rule("r", "zipcode", "nothing"), "rhs", "unsupported type null", "cast the column"),
        (Rule("live", "zipcode", "n"), "id", "already", "another id"),
        (
            Rule("r", "zipcode", "city", "n >"),
            "when, character 3",
            "cannot parse",
            "write one SQL expression",
        ),
        (Rule("r", "zipcode", "city", "n"), "when", "gives TINYINT, not BOOLEAN", "write a comparison"),
        (Rule("r", "zipcode", "city", "n = 1 AND ctry = ''"), "when, character 11", "'ctry'", "'country'?"),
        (Rule("r", "zipcode", "city", "twice = ''"), "when, character 1", "ambiguous", "rename"),
        (
            Rule("r", "n", "city", tableau=[["_", "_"], [300, "_"]]),
            "tableau row 2, 'n'",
            "300 does not fit int8",
            "int8",
        ),
    ],
)
def test_check_rules_refuses(rule: Rule, place: str, problem: str, remedy: str) -> None:
    """A rule that does not fit the schema is refused with its id, its place and a remedy."""
    with pytest.raises(RuleError) as caught:
        check_rules([Rule("first", "zipcode", "country"), rule], SCHEMA, active=["live"])
    refused(caught.value, f"rule {rule.id!r}, {place}: ", problem, "; ", remedy)


def test_check_rules_names_the_line_of_the_file(tmp_path: Path) -> None:
    """An error found against the schema still names the file and line that the rule came from."""
    path = written(
        tmp_path, "rules:\n  - zipcode -> city\n  - {id: r, lhs: zipcode, rhs: n, when: 'x = 1'}\n"
    )
    with pytest.raises(RuleError) as caught:
        check_rules(load_rules(path), SCHEMA)
    refused(caught.value, f"{path}:3: rule 'r', when, character 1: unknown attribute 'x'; ")


def test_check_rules_refuses_an_id_twice() -> None:
    """Two rules of one set cannot have the same id."""
    with pytest.raises(
        RuleError, match=r"rule 'r', id: there is a rule of this id already; give it another id"
    ):
        check_rules([Rule("r", "zipcode", "city"), Rule("r", "zipcode", "n")], SCHEMA)


@pytest.mark.parametrize(
    "type",
    [
        *(
            pa.null(),
            pa.list_(pa.int8()),
            pa.large_list(pa.int8()),
            pa.list_(pa.int8(), 2),
            pa.list_view(pa.int8()),
        ),
        *(pa.struct([("x", pa.int8())]), pa.map_(pa.string(), pa.int8()), pa.month_day_nano_interval()),
        *(
            pa.dense_union([pa.field("x", pa.int8())]),
            pa.dictionary(pa.int8(), pa.string()),
            pa.uuid(),
            pa.bool8(),
        ),
        pa.run_end_encoded(pa.int32(), pa.int8()),
    ],
)
def test_types_without_plain_values_are_refused(type: pa.DataType) -> None:
    """Nested, dictionary, null, interval and extension types are refused on either side."""
    for lhs, rhs, place in (("x", "y", "lhs"), ("y", "x", "rhs")):
        with pytest.raises(RuleError) as caught:
            check_rules([Rule("r", lhs, rhs)], pa.schema([("x", type), ("y", pa.int8())]))
        refused(
            caught.value,
            f"rule 'r', {place}: attribute 'x' is of the unsupported type {type}; ",
            "before cleaning",
        )


UTC = dt.UTC


@pytest.mark.parametrize(
    ("type", "constant", "expected"),
    [
        (pa.bool_(), True, True),
        (pa.int8(), -128, -128),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.int32(), 3.0, 3),
        (pa.int32(), Decimal("3.00"), 3),
        (pa.float16(), 1.5, 1.5),
        (pa.float32(), 0.1, float(np.float32(0.1))),
        (pa.float64(), Decimal("0.1"), 0.1),
        (pa.float64(), 3, 3.0),
        (pa.float32(), float("inf"), float("inf")),
        (pa.decimal32(5, 2), Decimal("1.5"), Decimal("1.50")),
        (pa.decimal64(12, 2), "1.5", Decimal("1.50")),
        (pa.decimal128(20, 2), 1.1, Decimal("1.10")),
        (pa.decimal256(50, 2), 7, Decimal("7.00")),
        (pa.decimal128(5, 2), Decimal(f"1.{'0' * 300}"), Decimal("1.00")),
        (pa.decimal128(5, -2), 1200, Decimal("1.2E+3")),
        (pa.string(), "x", "x"),
        (pa.large_string(), "", ""),
        (pa.string_view(), "é", "é"),
        (pa.binary(), b"\0", b"\0"),
        (pa.large_binary(), b"x", b"x"),
        (pa.binary_view(), b"x", b"x"),
        (pa.binary(2), b"xy", b"xy"),
        (pa.date32(), dt.date(2024, 5, 1), dt.date(2024, 5, 1)),
        (pa.date64(), "2024-05-01", dt.date(2024, 5, 1)),
        (pa.time32("s"), "12:30", dt.time(12, 30)),
        (pa.time64("us"), dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
        (pa.timestamp("s"), "2024-05-01T12:00:00", dt.datetime(2024, 5, 1, 12)),
        (pa.timestamp("ms"), "2024-05-01", dt.datetime(2024, 5, 1)),
        (pa.timestamp("us"), dt.date(2024, 5, 1), dt.datetime(2024, 5, 1)),
        (pa.timestamp("us"), dt.datetime(2024, 5, 1, 0, 0, 0, 7), dt.datetime(2024, 5, 1, 0, 0, 0, 7)),
        (pa.timestamp("us", "UTC"), "2024-05-01T12:00:00+02:00", dt.datetime(2024, 5, 1, 10, tzinfo=UTC)),
        (
            pa.timestamp("ms", "Europe/Paris"),
            dt.datetime(2024, 5, 1, tzinfo=UTC),
            dt.datetime(2024, 5, 1, tzinfo=UTC),
        ),
        (pa.duration("s"), dt.timedelta(minutes=1), dt.timedelta(minutes=1)),
    ],
)
def test_constants_take_the_type_of_the_attribute(
    type: pa.DataType, constant: object, expected: object
) -> None:
    """A constant that fits takes the attribute's type, on either side; ISO texts are dates and times."""
    schema = pa.schema([("x", type), ("y", pa.int8())])
    [left] = check_rules([Rule("r", "x", "y", tableau=[[constant, "_"]])], schema)
    [right] = check_rules([Rule("r", "y", "x", tableau=[["_", constant]])], schema)
    assert left.tableau is not None
    assert right.tableau is not None
    for scalar in (left.tableau.lhs[0][0], right.tableau.rhs[0]):
        assert scalar.is_valid
        assert scalar.type == type
        assert scalar.as_py() == expected


@pytest.mark.parametrize(
    ("type", "constant", "remedy"),
    [
        (pa.bool_(), 1, "true or false"),
        (pa.bool_(), "true", "true or false"),
        (pa.int32(), "abc", "without quotes"),
        (pa.int32(), "12", "without quotes"),
        (pa.int32(), True, "without quotes"),
        (pa.int32(), 1.5, "whole number"),
        (pa.int32(), float("inf"), "can hold exactly"),
        (pa.int8(), 300, "can hold exactly"),
        (pa.uint8(), -1, "can hold exactly"),
        (pa.int64(), 2**70, "can hold exactly"),
        (pa.uint64(), Decimal("1e100000000"), "within the range"),
        (pa.int8(), Decimal("0.5"), "write a whole number"),
        (pa.float64(), Decimal("-1e100000000"), "within the range"),
        (pa.decimal128(5, 2), Decimal("1e100000000"), "can hold exactly"),
        (pa.decimal128(5, 2), Decimal("-1e-100000000"), "can hold exactly"),
        (pa.decimal256(50, 2), "1e-100000000", "can hold exactly"),
        (pa.float64(), "1.5", "without quotes"),
        (pa.float64(), 2**53 + 1, "can hold exactly"),
        (pa.float64(), 10**400, "can hold exactly"),
        (pa.float32(), 1e300, "within the range"),
        (pa.float16(), 70000, "within the range"),
        (pa.decimal128(5, 2), Decimal("1.001"), "can hold exactly"),
        (pa.decimal128(5, 2), 100000, "can hold exactly"),
        (pa.decimal128(5, 2), "abc", "write a number"),
        (pa.decimal128(5, 2), "NaN", "can hold exactly"),
        (pa.decimal128(5, 2), float("inf"), "can hold exactly"),
        (pa.string(), 75001, "in quotes"),
        (pa.binary(), "x", "write bytes"),
        (pa.binary(2), b"x", "can hold exactly"),
        (pa.date32(), "1 May", "YYYY-MM-DD"),
        (pa.date32(), dt.datetime(2024, 5, 1), "YYYY-MM-DD"),
        (pa.date32(), 3, "YYYY-MM-DD"),
        (pa.time32("s"), dt.time(1, 2, 3, 4), "can hold exactly"),
        (pa.time32("s"), "noon", "HH:MM:SS"),
        (pa.time64("us"), dt.time(1, tzinfo=UTC), "without a zone"),
        (pa.timestamp("s"), dt.datetime(2024, 5, 1, 0, 0, 0, 7), "can hold exactly"),
        (pa.timestamp("ns"), dt.datetime(3000, 1, 1), "can hold exactly"),
        (pa.timestamp("s"), "2024-05-01T12:00:00Z", "without a zone"),
        (pa.timestamp("s"), dt.datetime(2024, 5, 1, tzinfo=UTC), "without a zone"),
        (pa.timestamp("s", "UTC"), "2024-05-01T12:00:00", "with its zone"),
        (pa.timestamp("s", "UTC"), dt.datetime(2024, 5, 1), "with its zone"),
        (pa.timestamp("s"), "yesterday", "without a zone"),
        (pa.duration("s"), 3, "timedelta"),
        (pa.duration("s"), dt.timedelta(microseconds=1), "can hold exactly"),
    ],
)
def test_constants_that_do_not_fit_are_refused(type: pa.DataType, constant: object, remedy: str) -> None:
    """A constant of another kind, out of range, or that would lose something is refused."""
    with pytest.raises(RuleError) as caught:
        check_rules(
            [Rule("r", "y", "x", tableau=[["_", constant]])], pa.schema([("x", type), ("y", pa.int8())])
        )
    refused(
        caught.value, f"rule 'r', tableau row 1, 'x': the constant {constant!r} does not fit {type}; ", remedy
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Rule("one", "zipcode", "city"), Rule("other", ["zipcode"], "city")),
        (Rule("one", ["zipcode", "street"], "city"), Rule("other", ["street", "zipcode"], "city")),
        (
            Rule("one", "zipcode", "city", "n > 1 AND n < 9"),
            Rule("other", "zipcode", "city", "(N>1) and (n <  9)"),
        ),
        (
            Rule("one", ["zipcode", "n"], "city", tableau=[["x", 1, "_"], ["_", 2, "y"]]),
            Rule("other", ["n", "zipcode"], "city", tableau=[[1.0, "x", "_"], [2, "_", "y"]]),
        ),
    ],
)
def test_rules_that_say_the_same_give_a_warning(one: Rule, other: Rule) -> None:
    """Two rules that differ in id and spelling only give one warning that names both, if one is new."""
    checked = check_rules([one, Rule("far", "zipcode", "n"), other], SCHEMA)
    for new in (None, ["other"]):
        with pytest.warns(RuleWarning, match=r"'one' and 'other' say the same.*delete one") as caught:
            warn_of_twins(checked, new, stacklevel=2)
        assert len(caught) == 1
        assert caught[0].filename == __file__
    warn_of_twins(checked, ["one", "far"])


def test_rules_that_differ_give_no_warning() -> None:
    """Another condition, another treatment of nulls or another tableau makes another rule."""
    different = [
        Rule("1", "zipcode", "city"),
        Rule("2", "zipcode", "city", nulls="fill"),
        Rule("3", "zipcode", "city", "country = 'FR'"),
        Rule("4", "zipcode", "city", "country = 'fr'"),
        Rule("5", "zipcode", "city", tableau=[["x", "_"]]),
        Rule("6", "zipcode", "city", tableau=[["x", "y"]]),
        Rule("7", ["zipcode", "n"], "city"),
    ]
    different.append(Rule("8", "city", "zipcode"))
    checked = check_rules(different, SCHEMA)
    warn_of_twins(checked)
    assert [one.rule for one in checked] == different


def test_check_rules_takes_any_iterable() -> None:
    """Rules may come from a generator, and no rules give no checked rules."""
    assert check_rules(iter(()), SCHEMA) == ()
    assert len(check_rules(iter([Rule("r", "zipcode", "city")]), SCHEMA)) == 1


def test_a_text_with_an_id_wants_quotes_in_yaml(tmp_path: Path) -> None:
    """A text form with an id, written without quotes, is refused with the quoted form as the remedy."""
    path = tmp_path / "rules.yml"
    path.write_text("rules:\n  - zc: zipcode -> city\n")
    with pytest.raises(RuleError, match=r'rules\.yml:2: .*put the rule in quotes: "zc: zipcode -> city"'):
        load_rules(path)
