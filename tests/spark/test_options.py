"""Which options go with which lanes and topology."""

from __future__ import annotations

import pytest

from sparkbleach import ConfigError, PaperTopology
from sparkbleach.config import OptionValues
from sparkbleach.spark.check import choose_options


def test_lanes_and_topology_choose_options() -> None:
    """One lane takes all algorithms; several lanes, and the paper's topology, take those that count."""
    assert choose_options({"repair": "bayes"}, n_lanes=1).repair == "bayes"
    with pytest.raises(ConfigError, match=r"^repair: 'bayes' needs a single lane, there are 3; give lanes=1"):
        choose_options({"repair": "bayes"}, n_lanes=3)
    assert choose_options({"repair": "vote"}, n_lanes=1, topology="paper").repair == "vote"
    with pytest.raises(ConfigError, match=r"^lanes: must be 1 with topology='paper'"):
        choose_options({}, n_lanes=2, topology="paper")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"repair": "bayes"}, "repair: 'bayes' is not for the paper's topology"),
        ({"accept_after": 10}, "accept_after: the paper's topology accepts no new truths"),
        ({"remember": 4_000_000}, "remember: the paper's topology keeps counts for ever"),
    ],
)
def test_the_papers_topology_refuses(given: OptionValues, message: str) -> None:
    """What the paper does not have is refused with the remedy."""
    with pytest.raises(ConfigError, match=f"^{message}") as caught:
        choose_options(given, n_lanes=1, topology=PaperTopology())
    assert "topology='fused'" in str(caught.value)
