"""How many random cases a run of the tests draws: HYPOTHESIS_PROFILE chooses."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: by profile, the number of cases per property: `make test-fast`, `make test`, `make test-nightly`, and the
#: kernel without compilation
_EXAMPLES = {"fast": 10, "default": 300, "nightly": 5_000, "interpreted": 30}
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
FAST = _PROFILE == "fast"
NIGHTLY = _PROFILE == "nightly"


def load_profile() -> None:
    """Have Hypothesis draw as many cases as the profile says."""
    for name, max_examples in _EXAMPLES.items():
        settings.register_profile(
            name,
            max_examples=max_examples,
            deadline=None,  # the first case compiles
            suppress_health_check=list(HealthCheck),  # a case is a whole stream
            print_blob=True,
        )
    settings.load_profile(_PROFILE)


def one_in(n: int) -> settings:
    """Return settings that draw the n-th part of the profile's cases, for properties whose cases are slow."""
    return settings(max_examples=max(3, settings().max_examples // n))
