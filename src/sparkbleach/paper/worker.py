"""What workers with state share: a state for each attribute, cut into segments, saved and loaded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

import pyarrow as pa

from ..config import Window
from .messages import Envelope, Inbox, Segment

State = TypeVar("State")
Saved = dict[str, pa.RecordBatch]


class StatefulWorker(ABC, Generic[State]):
    """A worker with state: the same envelopes always lead it to the same state."""

    def __init__(self, window: Window | None, windowing: str) -> None:
        self.window = window
        self.basic = windowing == "basic"
        self.states: dict[str, State] = {}  #: by attribute

    def process(self, envelopes: Iterable[Envelope]) -> list[Envelope]:
        """Take in the messages of a micro-batch."""
        inbox = Inbox(envelopes)
        segments = list(inbox.clock.segments(self.window))
        sent = []
        for attribute in sorted({*inbox.attributes, *self.states}):
            sent += self.process_attribute(attribute, inbox, segments)
        return sent

    def save(self) -> Saved:
        """Return all state, as record batches by attribute and name."""
        return {
            f"{attribute}/{name}": batch
            for attribute, state in self.states.items()
            for name, batch in self.save_state(state).items()
        }

    def load(self, saved: Saved) -> None:
        """Put saved state in place of this one."""
        by_attribute: dict[str, Saved] = {}
        for key, batch in saved.items():
            attribute, _, name = key.rpartition("/")
            by_attribute.setdefault(attribute, {})[name] = batch
        self.states = {attribute: self.load_state(batches) for attribute, batches in by_attribute.items()}

    @abstractmethod
    def process_attribute(self, attribute: str, inbox: Inbox, segments: list[Segment]) -> list[Envelope]:
        """Take in the messages about an attribute."""

    @abstractmethod
    def save_state(self, state: State) -> Saved:
        """Return the state of an attribute, as record batches by name."""

    @abstractmethod
    def load_state(self, saved: Saved) -> State:
        """Return the state of an attribute as it was saved."""
