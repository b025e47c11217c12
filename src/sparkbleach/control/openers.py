"""Who opens a rule log: rule logs in topics are in kafka/, which this room does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .rule_log import RuleLog

#: by the scheme of a target: opens a log there, with options to connect
OPENERS: dict[str, Callable[[str, Mapping[str, str] | None], RuleLog]] = {}
