"""Control records: rule updates as text, on their way to a stream."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass

from ..errors import RuleError
from ..rules.placed_error import PlacedError, check_text
from ..rules.update import RuleUpdate


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A rule update that somebody published, or a record that cannot be read as one."""

    number: str  #: names the record in its log; a later record has a greater number
    update: RuleUpdate | None  #: the update; None if the record cannot be read as one
    problem: str | None = None  #: why it cannot be read
    by: str | None = None  #: who published it, if it says so
    published: str | None = None  #: when it was published, in ISO 8601

    @classmethod
    def read(cls, number: str, text: str | None) -> ControlRecord:
        """Parse the text of a record; a text that is no update gives a record with a problem."""
        by = published = None
        if text is None:
            problem = (
                "control record: it has no text that may be read; write one JSON object, into a plain file "
                "that only its owner, the user of the stream, can read"
            )
            return cls(number, None, problem)
        try:
            data = json.loads(text)
            if not isinstance(data, dict):
                raise RuleError(  # noqa: TRY301
                    'control record: it is not a JSON object; write one such as {"op": "delete", "id": "r5"}'
                )
            given = [data.pop(key, None) for key in ("by", "published")]
            by, published = map(_text, given)
            _check_origin(*given)
            update = RuleUpdate.from_dict(data)
            if update.at is not None:
                raise RuleError(  # noqa: TRY301
                    "control record, at: a control record takes effect when it is read; leave at out, "
                    "or give the update to rule_updates"
                )
        except RuleError as error:
            return cls(number, None, str(error), by, published)
        except (ValueError, TypeError, RecursionError) as error:
            # Its text is not repeated: whoever made it may have had no right to read it.
            problem = f"control record: it cannot be read ({error}); write one JSON object"
            return cls(number, None, problem, by, published)
        return cls(number, update, None, by, published)


def record_text(update: RuleUpdate, by: str) -> str:
    """Return the text of a control record that is published now.

    Raises:
        RuleError: If `by` is not valid Unicode.
    """
    _check_origin(by)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return json.dumps({**update.to_dict(), "by": by, "published": now}, ensure_ascii=False)


def _check_origin(*texts: object) -> None:
    """Check what says who published a record, and when."""
    try:
        for text in texts:
            check_text("by or published", str(text))
    except PlacedError as fault:
        raise RuleError(f"control record, {fault.place}: {fault.problem}; {fault.remedy}") from None


def _text(value: object) -> str | None:
    """Return a value as a text that can be shown: with ? for each half of a character."""
    return None if value is None else str(value).encode(errors="replace").decode()
