"""Options of the command and of the file of rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkbleach import ConfigError, Options, Window
from sparkbleach.cli.options import Cleaning
from tests.support.commands import Run

FILE = 'rules:\n  - "zip_city: zip -> city"\noptions:\n'


@pytest.mark.parametrize(
    ("given", "of_file", "chosen"),
    [
        ({}, {}, Options()),
        ({}, {"repair": "vote", "accept_after": None}, Options(repair="vote", accept_after=None)),
        ({"repair": "vote"}, {"repair": "bayes", "remember": None}, Options(repair="vote", remember=None)),
        ({"accept_after": "never"}, {"accept_after": 5}, Options(accept_after=None)),
        ({"accept_after": "7"}, {"accept_after": None}, Options(accept_after=7)),
        ({"remember": "forever"}, {"remember": 4_000_000}, Options(remember=None)),
        ({"remember": "4 windows"}, {"remember": None}, Options()),
        ({"window": "20", "remember": "60"}, {"remember": 40}, Options(window=Window(20, 10), remember=60)),
        ({"window": "9", "slide": "3"}, {}, Options(window=Window(9, 3))),
        ({"slide": "500000"}, {}, Options(window=Window(2_000_000, 500_000))),
        (
            {"window": "1 hour", "slide": "10 minutes", "window_column": "at"},
            {},
            Options(window=Window.time("at", "1 hour", "10 minutes")),
        ),
        (
            {"window": "1 hour", "window_column": "at", "remember": "2 hours"},
            {},
            Options(window=Window.time("at", "1 hour", "30 minutes"), remember="2 hours"),
        ),
        ({"window": "1 microsecond", "window_column": "at"}, {}, Options(window=Window(1, 1, "at"))),
        ({"no_window": True}, {"windowing": "basic"}, Options(window=None, windowing="basic")),
        (
            {"repair": "bayes", "implied": False, "left": "repair", "look_ahead": 9},
            {"implied": True, "trust": "source", "confidence": 0.9, "look_ahead": 8},
            Options(repair="bayes", left="repair", look_ahead=9, trust="source", confidence=0.9),
        ),
    ],
)
def test_the_command_line_wins(given: dict[str, Any], of_file: Any, chosen: Options) -> None:
    """Options of the command line win over those of the file, which win over the defaults."""
    assert Options(**Cleaning(**given).over(of_file)) == chosen


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"accept_after": "often"}, "accept_after: 'often' must be an integer from 2 to 30,000, or never"),
        ({"accept_after": "1"}, "accept_after: 1 must be an integer from 2 to 30,000, or never"),
        ({"remember": "-5"}, "remember: '-5' must be a positive duration"),
        (
            {"window": "1 hour"},
            "window: '1 hour' is not a number of tuples; a duration needs --window-column",
        ),
        ({"slide": "a lot"}, "slide: 'a lot' is not a number of tuples"),
        ({"window": "0"}, "window, size: 0 must be a positive integer"),
        ({"window_column": "at"}, "window: --window-column needs a duration"),
        ({"window": "5", "window_column": "at"}, "window: '5' must be a positive duration"),
        ({"window": "1 day", "slide": "5", "window_column": "at"}, "slide: '5' must be a positive duration"),
        ({"no_window": True, "slide": "5"}, "window: --no-window does not go with --slide"),
        ({"no_window": True, "window_column": "at"}, "window: --no-window does not go with --window-column"),
    ],
)
def test_texts_are_numbers_or_words(given: dict[str, Any], message: str) -> None:
    """A text that is no number is one of the words that the help names."""
    with pytest.raises(ConfigError, match=f"^{message}"):
        Options(**Cleaning(**given).over({}))


@pytest.mark.parametrize(
    ("of_file", "options", "message"),
    [
        ("  repair: vote\n", [], None),
        ("  repair: vote\n", ["--trust", "zip"], "trust: it is for repair='bayes', this is 'vote'"),
        ("  trust: zip\n", ["--repair", "class"], "trust: it is for repair='bayes', this is 'class'"),
        ("  trust: zip\n  repair: vote\n", ["--repair", "bayes"], None),
        ("  repair: best\n", [], "rules.yml:4: options, repair: 'best' is unknown; choose"),
        ("  accept_after: never\n", ["--accept-after", 1], "accept_after: 1 must be an integer"),
        ("  remember: 30\n", ["--window", 20], None),
        ("  remember: 30\n", [], "remember: 30 is not a multiple of the window's slide 1000000"),
    ],
)
def test_check_reads_all_options(
    run: Run, rules: Path, of_file: str, options: list[object], message: str | None
) -> None:
    """`check` checks the options of the file and of the command line together."""
    rules.write_text(FILE + of_file)
    result = run("check", "--rules", rules, *options)
    assert result.exit_code == (0 if message is None else 2), result.output
    assert (message or "1 rule: well formed") in result.output


@pytest.mark.parametrize(
    ("of_file", "options", "message"),
    [
        ("  repair: bayes\n", ["--lanes", 2], "repair: 'bayes' needs a single lane, there are 2"),
        ("  repair: class\n", ["--lanes", 2, "--repair", "bayes"], "repair: 'bayes' needs a single lane"),
        ("  repair: bayes\n", ["--topology", "paper"], "repair: 'bayes' is not for the paper's topology"),
        ("  accept_after: 5\n", ["--topology", "paper"], "accept_after: the paper's topology accepts no"),
        ("  left: flag\n", ["--topology", "paper", "--remember", 5], "remember: the paper's topology"),
        ("  left: flag\n", ["--topology", "paper", "--lanes", 2], "lanes: must be 1 with topology='paper'"),
    ],
)
def test_what_lanes_and_the_papers_topology_take(
    run: Run, rules: Path, tmp_path: Path, of_file: str, options: list[object], message: str
) -> None:
    """Several lanes and the paper's topology refuse in one line what they do not take."""
    rules.write_text(FILE + of_file)
    result = run(
        "clean", "--rules", rules, "--input", tmp_path, "--id", "id", "--output", tmp_path / "out", *options
    )
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")
    assert len(result.stderr.splitlines()) == 1
