"""Profiles: `make test` draws some hundreds of cases, `make test-nightly` thousands."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
NIGHTLY = PROFILE == "nightly"

for name, max_examples in {"default": 300, "nightly": 5_000, "interpreted": 30}.items():
    settings.register_profile(
        name,
        max_examples=max_examples,
        deadline=None,  # the first case compiles
        suppress_health_check=list(HealthCheck),  # a case is a whole stream
        print_blob=True,
    )
settings.load_profile(PROFILE)
