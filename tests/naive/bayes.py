"""`repair: bayes`, as slowly and as plainly as it can be written.

Lists of what arrived, dictionaries, and loops over everything; nothing of the package is imported. What the
text calls a count is counted anew from the arrivals when it is asked for; what it calls a running sum is one.
Whatever the engine does must equal what this does.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any

from tests.naive.reference import NaiveRule, Tuple, canonical

Value = Any  # canonical, None is null
Row = dict[str, Value]
Left = tuple[Value, ...]

FIRST_ERROR_RATE, ERROR_WEIGHT = 0.05, 20  # e0, k0
KEY_ERROR_MIN = 0.001
REPUTATION_WEIGHT = 2
ETA_MAX = 0.01
USER_PRIOR, IMPLIED_PRIOR = (9, 1), (1, 9)  # a, b
UNKNOWN_ACCURACY = 0.8
REFRESH_EVERY = 100
EM_ROUNDS, EM_GROUPS = 10, 512
MOVES = 12
TOP = 3
EQUAL = 1e-9  # gains and scores that are no further apart are equal
#: Rounding is far below the first number. Whether two numbers are equal is the same for everybody below it,
#: and above the second one.
SURELY_EQUAL, SURELY_DIFFERENT = 1e-11, 1e-7


class TooClose(Exception):  # noqa: N818 - it is no error
    """Two numbers are so close that rounding decides."""


@dataclass(frozen=True)
class Term:
    """One of the amounts whose sum is a score."""

    kind: str
    amount: float
    rule: str | None = None
    key: str | None = None
    count: int | None = None
    of: int | None = None
    share: float | None = None


@dataclass(frozen=True)
class Candidate:
    """A value that a cell might have, and why."""

    value: Value
    count: int
    score: float
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class BayesRepair:
    """One row of the audit."""

    position: int
    attribute: str
    old: Any
    new: Value
    rules: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    confidence: float
    groups: int
    decided_by: str
    overruled: tuple[str, ...]
    version: int
    applied: bool
    step: int | None


@dataclass(frozen=True)
class Acceptance:
    """A change of a group's truth: key and values as text."""

    rule: str
    key: dict[str, str]
    attribute: str
    old: str
    new: str
    position: int


@dataclass(frozen=True)
class Options:
    """The options of a stream."""

    attributes: tuple[str, ...]
    accept_after: int | None
    confidence: float
    trust: str | None
    implied: bool
    left: str
    id: str | None
    text: Callable[[Any], str]
    watch_rounding: bool

    @property
    def threshold(self) -> float:
        """The gain that a first move needs."""
        return log(self.confidence / (1 - self.confidence))

    def is_close(self, x: float, y: float) -> bool:
        """Whether rounding may decide which of two probabilities is larger."""
        return self.watch_rounding and abs(x - y) < SURELY_DIFFERENT * max(x, y)

    def greater(self, x: float, y: float) -> bool:
        """Whether x is greater than y; gains within 1e-9 are equal."""
        if self.watch_rounding and SURELY_EQUAL < abs(x - y) < SURELY_DIFFERENT:
            raise TooClose
        return x > y + EQUAL

    def beats(self, x: float, y: float) -> bool:
        """Whether a candidate's x is greater than the y of an earlier one."""
        # With trust, rounding may decide which of two equally probable candidates is the earlier one.
        if self.watch_rounding and self.trust is not None and abs(x - y) < SURELY_DIFFERENT:
            raise TooClose
        return self.greater(x, y)

    def above(self, x: float, limit: float) -> bool:
        """Whether x is greater than a limit that it is not expected to meet."""
        if self.watch_rounding and abs(x - limit) < SURELY_DIFFERENT:
            raise TooClose
        return x > limit + EQUAL


def log_gamma(x: float) -> float:
    """Return ln of the gamma function of x > 0, by logarithms only, so that everybody can do the same."""
    shifted = 0.0
    while x < 8:
        shifted += log(x)
        x += 1
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
    return (x - 0.5) * log(x) - x + 0.9189385332046727 + series - shifted


def sigma(x: float) -> float:
    """Return the logistic function of x."""
    return 1 / (1 + exp(-x)) if x > -700 else 0.0


@functools.lru_cache(maxsize=1 << 19)
def is_sampled(position: int) -> bool:
    """Whether the values of a tuple are compared with those of others."""
    h = position + 1
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        h = (h ^ h >> 33) * factor % 2**64
    return (h ^ h >> 33) % 4 == 0


def like(a: str, b: str) -> int:
    """Return how alike two different values are as text: 0 (unlike) to 4 (one edit)."""
    a, b = a[:64], b[:64]
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        now = [i]
        for j, y in enumerate(b, 1):
            now.append(min(before[j - 1] + (x != y), before[j] + 1, now[j - 1] + 1))
        before = now
    distance = before[-1]
    likeness = 1 - distance / max(1, len(a), len(b))
    if distance <= 1:
        return 4
    if distance == 2 or likeness >= 0.85:
        return 3
    if likeness >= 0.6:
        return 2
    return 1 if likeness >= 0.3 else 0


@dataclass(frozen=True)
class Counts:
    """What a group has of each value."""

    c: Counter[Value]

    @property
    def n(self) -> int:
        """Its cells."""
        return sum(self.c.values())

    @functools.cached_property
    def mode(self) -> Value:
        """The most frequent value, of equals the smallest."""
        return min(self.c, key=lambda v: (-self.c[v], v))

    @property
    def mx(self) -> int:
        """The largest count."""
        return self.c[self.mode]

    @property
    def lf(self) -> float:
        """The sum of ln(1·2·…·c) over its values."""
        return sum(log(i) for count in self.c.values() for i in range(2, count + 1))

    @property
    def contradicts(self) -> bool:
        """Whether its second value has at least 2 cells and a share of at least .2."""
        if len(self.c) < 2:
            return False
        second = sorted(self.c.values(), reverse=True)[1]
        return second >= 2 and second >= 0.2 * self.n


@dataclass
class Group:
    """The cells of a cell group in the horizon, as they arrived."""

    arrivals: list[tuple[int, Value, Any]] = field(default_factory=list)  # (pane, value, source)
    z: float | None = None
    held: Value = None
    seen: int = 0
    challenger: Value = None
    lead: int = 0
    counted: Counts | None = None  # of all arrivals, until one is added or taken away

    @property
    def counts(self) -> Counts:
        """The counts of all arrivals."""
        if self.counted is None:
            self.counted = Counts(Counter(value for _, value, _ in self.arrivals))
        return self.counted

    def without(self, own: tuple[Value, Any] | None) -> list[tuple[Value, Any]]:
        """Return values and their sources, without a tuple's own cell if the group (still) has it."""
        cells = [(value, source) for _, value, source in self.arrivals]
        if own in cells:
            cells.remove(own)
        return cells


def _votes(cells: Iterable[tuple[Value, Any]]) -> dict[Value, Counter[Any]]:
    votes: dict[Value, Counter[Any]] = {}
    for value, source in cells:
        votes.setdefault(value, Counter())[source] += 1
    return votes


class RuleState:
    """What is remembered of a rule."""

    def __init__(self, rule: NaiveRule, *, implied: bool) -> None:
        self.rule = rule
        self.implied = implied
        self.groups: dict[Left, Group] = {}  # in the order in which they began
        self.rep: dict[Value, tuple[int, int]] = {}  # value -> (out, seen)
        self.s1 = (0, 0)
        self.zs = 0.0
        self.zn = 0
        self.settled: float | None = None  # trust as of the windows before
        self.compared = 0  # cells that came to a group with others
        self.foreign = 0  # of these, outvoted ones whose value is at home elsewhere
        self.explained = [0] * len(rule.lhs)  # by place: outvoted ones that another key there explains
        #: what was counted from the groups since one of them changed
        self.memo: dict[str, Any] = {}

    @property
    def id(self) -> str:
        """Its id."""
        return self.rule.id

    def changed(self, group: Group | None = None) -> None:
        """Forget what was counted from the groups."""
        self.memo.clear()
        if group is not None:
            group.counted = None

    def sums(self) -> tuple[int, int, int, int, int]:
        """Return tot, maj, G, big, con."""
        if "sums" not in self.memo:
            counts = [group.counts for group in self.groups.values()]
            repeated = [c for c in counts if c.n >= 2]
            big = [c for c in counts if c.n >= 5]
            self.memo["sums"] = (
                sum(c.n for c in repeated),
                sum(c.mx for c in repeated),
                len(repeated),
                sum(c.n for c in big),
                sum(c.n for c in big if c.contradicts),
            )
        found: tuple[int, int, int, int, int] = self.memo["sums"]
        return found

    def rev(self, j: int, rest: Left, value: Value) -> Counter[Value]:
        """Count the j-th left values given the others and the right value."""
        if "rev" not in self.memo:
            rev: dict[tuple[int, Left, Value], Counter[Value]] = {}
            for x, group in self.groups.items():
                for v, count in group.counts.c.items():
                    for i in range(len(x)):
                        rev.setdefault((i, x[:i] + x[i + 1 :], v), Counter())[x[i]] += count
            self.memo["rev"] = rev
        found: Counter[Value] = self.memo["rev"].get((j, rest, value), Counter())
        return found

    def may_apply(self, t: Tuple) -> bool:
        """Whether its condition is TRUE, and the left side matches a wildcard row, of t as it arrived."""
        if self.rule.when(t) is not True:
            return False
        rows = [row for row in self.rule.tableau if row[-1] is None]
        return not self.rule.tableau or any(_matches(row, t, self.rule.lhs) for row in rows)

    def constants(self, t: Tuple) -> list[Value]:
        """Return what its matching constant rows say about t as it arrived."""
        rule = self.rule
        if rule.when(t) is not True or any(t[x] is None for x in rule.lhs):
            return []
        if t[rule.rhs] is None and not rule.fill:
            return []
        rows = [row for row in rule.tableau if row[-1] is not None]
        return [canonical(row[-1]) for row in rows if _matches(row, t, rule.lhs)]


def _matches(row: tuple[Any, ...], t: Tuple, lhs: tuple[str, ...]) -> bool:
    """Whether a left side matches a row of a tableau; a null does not match a constant."""
    return all(
        p is None or (t[x] is not None and canonical(p) == canonical(t[x]))
        for p, x in zip(row[:-1], lhs, strict=True)
    )


@dataclass(frozen=True)
class Counted:
    """A tuple that was counted."""

    t: Tuple  # as it arrived
    row: Row  # likewise, canonical
    source: Any
    may_apply: set[str]
    own_out: dict[str, int]  # by rule: its own contribution to reputations, if it made one
    violated: set[str]  # rules, broken constants included
    constants: dict[str, list[tuple[str, Value]]]  # by attribute: (rule, constant), the winner first


@dataclass(frozen=True)
class Said:
    """What a group says about a cell."""

    p: dict[Value, float]
    background: float  # B
    z: float
    counts: Counts  # without the tuple's own cell


@dataclass(frozen=True)
class Move:
    """A move of a cell, and why it was made."""

    new: Value
    gain: float
    rules: tuple[str, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Outcome:
    """What a state decides about one cell."""

    attribute: str
    new: Value
    changed: bool  # otherwise it is flagged
    move: Move | None  # None: a constant
    step: int | None


class State:
    """A model of the stream: rules in force and all that was counted."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.user: list[RuleState] = []
        self.implied: list[RuleState] = []
        self.cells: dict[str, list[tuple[int, Value]]] = {}  # by attribute: (pane, value) in the horizon
        self.u: dict[str, list[int]] = {}
        self.last: dict[str, Value] = {}
        self.w: dict[str, list[int]] = {}
        self.y: dict[str, list[float]] = {}
        #: by key: how often a rule has compared its right side, and another key explained all
        self.keys: dict[str, tuple[int, int]] = {}
        self.settled_keys: dict[str, float] = {}  # their error rates as of the windows before
        self.pair: dict[frozenset[Any], tuple[int, int]] = {}  # (same, shared)
        #: (names on the left, left side) -> source -> (pane, its last right sides)
        self.rows: dict[tuple[tuple[str, ...], Left], dict[Any, tuple[int, Left]]] = {}
        self.memo: dict[Hashable, Any] = {}  # what was counted from cells and pairs since they changed
        # What a refresh computes:
        self.eps: dict[str, float] = {}
        self.witness: dict[str, RuleState] = {}
        self.active: list[RuleState] = []
        self.accuracy: dict[Any, float] = {}

    # ------------------------------------------------------------------------------------------ rules

    @property
    def rules(self) -> list[RuleState]:
        """User rules in the order they were added, then implied ones."""
        return [*self.user, *self.implied]

    @property
    def attributes(self) -> list[str]:
        """All that a rule in use mentions, in schema order."""
        mentioned = {a for r in self.rules for a in (*r.rule.lhs, r.rule.rhs)}
        return [a for a in self.options.attributes if a in mentioned]

    @property
    def shared_lefts(self) -> dict[tuple[str, ...], list[str]]:
        """By left side of two or more user rules: their right sides."""
        rights: dict[tuple[str, ...], list[str]] = {}
        for r in self.user:
            rights.setdefault(r.rule.lhs, []).append(r.rule.rhs)
        return {lhs: rhs for lhs, rhs in rights.items() if len(rhs) >= 2}

    def set_rules(self, rules: Iterable[NaiveRule]) -> None:
        """Put these user rules in force: those there are stay as they are, new ones begin with nothing."""
        before = {r.id: r for r in self.rules}
        same = [*before]
        self.user = []
        for rule in rules:
            state = before.get(rule.id, RuleState(rule, implied=False))
            state.rule = rule
            self.user.append(state)
        # Implied rules are derived anew: those that are derived before and after stay as they are.
        self.implied = [before.get(r.id, RuleState(r, implied=True)) for r in self._derive()]
        # Attributes that become part of the model begin with nothing counted; others are dropped.
        self.cells = {a: self.cells.get(a, []) for a in self.attributes}
        self.u = {a: self.u.get(a, [1] * 5 + [0]) for a in self.attributes}
        self.w = {a: self.w.get(a, [0] * 5) for a in self.attributes}
        self.y = {a: self.y.get(a, [0.0] * 5) for a in self.attributes}
        self.last = {a: v for a, v in self.last.items() if a in self.attributes}
        self.keys = {a: self.keys.get(a, (0, 0)) for a in self.attributes}
        self.settled_keys = {a: e for a, e in self.settled_keys.items() if a in self.attributes}
        if [r.id for r in self.rules] == same and same:
            return
        # The last rows of sources begin anew.
        self.rows = {}
        self.memo.clear()
        self.refresh()

    def _derive(self) -> list[NaiveRule]:
        """X -> A for each left side X of rules without condition and tableau, and each A none mentions."""
        if not self.options.implied:
            return []
        rules = [r.rule for r in self.user]
        mentioned = {a for rule in rules for a in (*rule.lhs, rule.rhs, *rule.reads)}
        mentioned |= {name for name in (self.options.trust, self.options.id) if name is not None}
        plain = [rule for rule in rules if not rule.reads and not rule.tableau]
        return [
            NaiveRule(f"{', '.join(lhs)} -> {a} (implied)", lhs, a)
            for lhs in dict.fromkeys(rule.lhs for rule in plain)
            for a in self.options.attributes
            if a not in mentioned
        ]

    def components(self) -> list[set[str]]:
        """Return the attributes of rules that share one, directly or through other rules, together."""
        found: list[set[str]] = []
        for r in self.rules:
            joined = {*r.rule.lhs, r.rule.rhs}
            for component in [component for component in found if component & joined]:
                found.remove(component)
                joined |= component
            found.append(joined)
        return found

    def rules_on(self, a: str) -> list[RuleState]:
        """Return the rules with this right side."""
        return [r for r in self.rules if r.rule.rhs == a]

    def is_key(self, a: str) -> bool:
        """Whether an attribute stands on left sides only."""
        return not self.rules_on(a)

    def active_on(self, a: str) -> list[RuleState]:
        """Return the active rules with this right side."""
        return [r for r in self.active if r.rule.rhs == a]

    def active_from(self, a: str) -> list[RuleState]:
        """Return the active rules with this attribute on the left."""
        return [r for r in self.active if a in r.rule.lhs]

    def accept_after(self, r: RuleState) -> int | None:
        """Return how often a value must come for a rule's groups to accept it; user rules only."""
        if r.implied or r.rule.accept_after == "never":
            return None
        return r.rule.accept_after if r.rule.accept_after is not None else self.options.accept_after

    # ------------------------------------------------------------------------------------------ counts

    def dom(self, a: str) -> Counter[Value]:
        """Return the count of each value of an attribute."""
        if ("dom", a) not in self.memo:
            self.memo["dom", a] = Counter(value for _, value in self.cells[a])
        found: Counter[Value] = self.memo["dom", a]
        return found

    def nd(self, a: str) -> int:
        """Return the number of cells of an attribute."""
        return len(self.cells[a])

    def n1(self, a: str) -> int:
        """Return the number of values with a count of 1."""
        return sum(count == 1 for count in self.dom(a).values())

    def background(self, a: str, v: Value, own: Value) -> float:
        """P0: how frequent a value is, without the tuple's own cell."""
        return (self.dom(a)[v] - int(v == own) + 0.5) / (self.nd(a) + 1)

    def new_values(self, a: str) -> float:
        """Pnew: how frequent values are that were never seen."""
        return min(0.99, (self.n1(a) + 0.5) / (self.nd(a) + 1))

    def like(self, a: Value, b: Value) -> int:
        """Return the likeness class of two values: 5 if they are equal."""
        return 5 if a == b else like(self.options.text(a), self.options.text(b))

    def m(self, a: str) -> list[int]:
        """Return the likeness classes of wrong values in the component of an attribute."""
        return [1 + sum(counts) for counts in zip(*(self.w[b] for b in self._component(a)), strict=True)]

    def x(self, a: str) -> list[float]:
        """Return the same, if wrong values were as alike as values that follow each other."""
        return [1 + sum(shares) for shares in zip(*(self.y[b] for b in self._component(a)), strict=True)]

    def _component(self, a: str) -> list[str]:
        (found,) = (component for component in self.components() if a in component)
        return sorted(found)

    def copies(self, s: Any) -> set[Any]:
        """Return the sources that are copies of s (or s of them)."""
        if "copies" not in self.memo:
            self.memo["copies"] = [
                pair for pair, (same, shared) in self.pair.items() if shared >= 10 and same >= 0.95 * shared
            ]
        return {t for pair in self.memo["copies"] if s in pair for t in pair if t != s}

    # ------------------------------------------------------------------------------------------ slide

    def slide(self, pane_before: int, pane: int, first: int, panes_per_window: int) -> None:
        """Let the cells of panes before the first one of the horizon leave."""
        # Cells of expired panes leave dom.
        for a, cells in self.cells.items():
            gone = {v for p, v in cells if p < first} - {v for p, v in cells if p >= first}
            self.cells[a] = [(p, v) for p, v in cells if p >= first]
            # A value with dom 0 loses its reputation, with all rules.
            for r in self.rules_on(a):
                r.rep = {v: numbers for v, numbers in r.rep.items() if v not in gone}
        # They leave groups (and so rev and votes); a group with n = 0 is gone with all that belongs to it.
        for r in self.rules:
            for group in r.groups.values():
                group.arrivals = [arrival for arrival in group.arrivals if arrival[0] >= first]
                r.changed(group)
            r.groups = {x: group for x, group in r.groups.items() if group.arrivals}
        # The last row of a source lives while its newest arrival is in the horizon.
        for key, rows in self.rows.items():
            self.rows[key] = {s: row for s, row in rows.items() if row[0] >= first}
        # Running sums are halved at every window's worth of panes.
        for _ in range(pane // panes_per_window - pane_before // panes_per_window):
            self._halve()
        self.memo.clear()

    def _halve(self) -> None:
        # Trust moves slowly, over windows: a burst of errors does not discredit a rule.
        for r in self.user:
            live = self._live_rho(r)
            r.settled = live if r.settled is None else r.settled + (live - r.settled) / 8
        for a in self.attributes:
            if self.is_key(a):
                now = self._key_error_rate(a)
                before = self.settled_keys.get(a, now)
                self.settled_keys[a] = before + (now - before) / 8
        for r in self.rules:
            r.rep = {v: (out // 2, seen // 2) for v, (out, seen) in r.rep.items()}
            r.s1 = (r.s1[0] // 2, r.s1[1] // 2)
            r.compared //= 2
            r.foreign //= 2
            r.explained = [n // 2 for n in r.explained]
            r.zn //= 2
            r.zs /= 2
        # m and u above their starting values.
        self.w = {a: [x // 2 for x in w] for a, w in self.w.items()}
        self.y = {a: [x / 2 for x in y] for a, y in self.y.items()}
        for a, u in self.u.items():
            self.u[a] = [1 + (x - 1) // 2 for x in u[:5]] + [u[5] // 2]
        self.keys = {a: (n // 2, explains // 2) for a, (n, explains) in self.keys.items()}
        self.pair = {pair: (same // 2, shared // 2) for pair, (same, shared) in self.pair.items()}

    # ------------------------------------------------------------------------------------------ counting

    def count(
        self, t: Tuple, position: int, pane: int, first_in_window: int
    ) -> tuple[Counted, list[Acceptance]]:
        """Count a tuple as it arrived."""
        self.memo.clear()
        row = {a: canonical(t[a]) for a in self.options.attributes}
        source = None
        if self.options.trust is not None:
            # A null source is the source "".
            source = "" if row[self.options.trust] is None else row[self.options.trust]
        # 1. For each attribute with a value: dom, nd, n1.
        for a in self.attributes:
            v = row[a]
            if v is None:
                continue
            self.cells[a].append((pane, v))
            self.memo.clear()
            # If it became 2, the value's reputation is no longer one of values that came once.
            if self.dom(a)[v] == 2:
                for r in self.rules_on(a):
                    out, seen = r.rep.get(v, (0, 0))
                    r.s1 = (max(0, r.s1[0] - out), max(0, r.s1[1] - seen))
            # A fourth of all tuples: how alike are two values that follow each other?
            if is_sampled(position):
                if a in self.last:
                    self.u[a][self.like(self.last[a], v)] += 1
                self.last[a] = v
        # 2. Each rule.
        counted = Counted(t, row, source, set(), {}, set(), {})
        accepted = []
        for r in self.rules:
            if r.may_apply(t):
                counted.may_apply.add(r.id)
            a = r.rule.rhs
            constants = r.constants(t)
            for constant in constants:
                counted.constants.setdefault(a, []).append((r.id, constant))
            if any(constant != row[a] for constant in constants):
                counted.violated.add(r.id)
            x = tuple(row[b] for b in r.rule.lhs)
            if r.id not in counted.may_apply or None in x:
                continue
            if row[a] is not None:
                accepted += self._count_cell(r, x, counted, position, pane, first_in_window)
                continue
            # A null cell violates a group with any cell in the window.
            arrivals = r.groups[x].arrivals if x in r.groups else []
            if r.rule.fill and any(p >= first_in_window for p, _, _ in arrivals):
                counted.violated.add(r.id)
        self._count_keys(counted)
        # 3. With trust: which sources are copies?
        if self.options.trust is not None:
            self._compare_sources(row, source, pane)
        return counted, accepted

    def _count_keys(self, counted: Counted) -> None:
        """Count where another key would explain what rules have against the one at hand."""
        row = counted.row
        explained: dict[tuple[str, str], bool] = {}  # by rule and key
        for r in self.user:
            if r.id not in counted.own_out:
                continue
            r.compared += 1
            x, v = tuple(row[b] for b in r.rule.lhs), row[r.rule.rhs]
            count = r.groups[x].counts.c[v]
            out = counted.own_out[r.id] == 1
            r.foreign += out and self.dom(r.rule.rhs)[v] - count >= count
            for j, a in enumerate(r.rule.lhs):
                # Is it a wrong key? Then no rule without it outvotes the cell, too.
                others = [o for o in self.user if o.rule.rhs == r.rule.rhs and a not in o.rule.lhs]
                found = out and not any(counted.own_out.get(other.id) == 1 for other in others)
                found = found and self._is_at_home_elsewhere(r, j, x, v)
                r.explained[j] += found
                explained[r.id, a] = found
        for a in self.attributes:
            said = [found for (_, key), found in explained.items() if key == a]
            if self.is_key(a) and said:
                n, explains = self.keys[a]
                self.keys[a] = (n + 1, explains + all(said))

    def _is_at_home_elsewhere(self, r: RuleState, j: int, x: Left, v: Value) -> bool:
        """Whether another left value at a place has a value most often, and has no other one more often."""
        rev = r.rev(j, x[:j] + x[j + 1 :], v)
        others = [y for y in rev if y != x[j]]
        if not others:
            return False
        best = min(others, key=lambda y: (-rev[y], y))
        return rev[best] >= rev[x[j]] and r.groups[(*x[:j], best, *x[j + 1 :])].counts.mode == v

    def _count_cell(
        self, r: RuleState, x: Left, counted: Counted, position: int, pane: int, first_in_window: int
    ) -> list[Acceptance]:
        """Let a cell join its group."""
        a, source = r.rule.rhs, counted.source
        v = counted.row[a]
        group = r.groups.setdefault(x, Group())
        accepted = []
        # Before anything else: is this a truth that changes?
        h = self.accept_after(r)
        old = group.held
        if h is not None and self._accepts(group, v, h):
            # The group's cells and votes are dropped; it begins with v at a count of h.
            group.arrivals = [(pane, v, source)] * h
            group.z = None
            key = {b: self.options.text(y) for b, y in zip(r.rule.lhs, x, strict=True)}
            text = self.options.text
            accepted.append(Acceptance(r.id, key, a, text(old), text(v), position))
        else:
            # Detect: another value in the window among earlier tuples.
            if any(p >= first_in_window and value != v for p, value, _ in group.arrivals):
                counted.violated.add(r.id)
            if self.options.trust is not None and not r.implied:
                # Does the source repeat its most frequent vote, of equals the smallest value?
                mine = Counter(value for _, value, s in group.arrivals if s == source)
                if mine:
                    r.zn += 1
                    r.zs += min(mine, key=lambda value: (-mine[value], value)) == v
            group.arrivals.append((pane, v, source))
        r.changed(group)
        counts = group.counts
        if counts.n < 2:
            return accepted
        # Reputation: was it outvoted?
        out = int(counts.c[v] < counts.mx)
        counted.own_out[r.id] = out
        before = r.rep.get(v, (0, 0))
        r.rep[v] = (before[0] + out, before[1] + 1)
        if self.dom(a)[v] == 1:
            r.s1 = (r.s1[0] + out, r.s1[1] + 1)
        # How alike are wrong values and what they should be?
        if out and not r.implied and counts.mx >= 2:
            self.w[a][self.like(v, counts.mode)] += 1
            u = self.u[a][:5]
            self.y[a] = [y + x / sum(u) for y, x in zip(self.y[a], u, strict=True)]
        # Implied rules: is there one true value?
        if r.implied:
            z = sigma(self._logit_rho(r) + min(self._free(r, counts), self._back(r, counts)))
            if group.z is None:
                r.zn += 2
                r.zs += 2 * z
            else:
                r.zn += 1
                r.zs += counts.n * z - (counts.n - 1) * group.z
            group.z = z
        return accepted

    def _accepts(self, group: Group, v: Value, h: int) -> bool:
        """Move held, seen, challenger and lead; return whether the group accepts v as its new truth."""
        if not group.arrivals:  # the first cell of a group is held
            group.held, group.seen = v, 1
        elif v == group.held:
            group.seen = min(30_000, group.seen + 1)
            group.lead = max(0, group.lead - 3)
        elif group.lead == 0 or v == group.challenger:
            group.challenger = v
            group.lead += 1
            established = group.seen >= h
            # Two more each time that what is known has doubled, from 8·h on.
            needed = h + 2 * max(0, (group.seen // (8 * h)).bit_length() - 1)
            if group.lead >= needed:
                # Nothing was established: counts decide. Otherwise the change is accepted.
                group.held, group.seen, group.challenger, group.lead = v, h, None, 0
                return established
        else:
            group.lead -= 1
        return False

    def _compare_sources(self, row: Row, source: Any, pane: int) -> None:
        for lhs, rights in self.shared_lefts.items():
            x = tuple(row[b] for b in lhs)
            if None in x:
                continue
            mine = tuple(row[a] for a in rights)
            rows = self.rows.setdefault((lhs, x), {})
            for other, (_, theirs) in rows.items():
                if other != source:
                    same, shared = self.pair.get(frozenset((source, other)), (0, 0))
                    self.pair[frozenset((source, other))] = (same + (mine == theirs), shared + 1)
            rows[source] = (pane, mine)

    # ------------------------------------------------------------------------------------------ parameters

    def refresh(self) -> None:
        """Compute error rates, witnesses, active rules and the accuracy of sources."""
        self.eps, self.witness, self.active = {}, {}, list(self.user)
        for a in dict.fromkeys(r.rule.rhs for r in self.rules):
            user = [r for r in self.rules_on(a) if not r.implied]
            # Error rate: the smallest share of cells that are not their group's most frequent value.
            if user:
                self.eps[a] = min(0.5, *(self._disagreement(r) for r in user))
            # Witness: the rule with the smallest share, of those that have seen enough.
            witnesses = [r for r in self.rules_on(a) if self._may_be_witness(r)]
            if witnesses:
                self.witness[a] = min(witnesses, key=lambda r: 1 - r.sums()[1] / r.sums()[0])
                if self.witness[a].implied and not user:
                    self.active.append(self.witness[a])
        for a in self.attributes:
            if self.is_key(a):
                self.eps[a] = self.settled_keys.get(a, self._key_error_rate(a))
        self.active.sort(key=self.rules.index)
        if self.options.trust is not None:
            self._learn_sources()

    def _key_error_rate(self, a: str) -> float:
        return min(FIRST_ERROR_RATE, max(KEY_ERROR_MIN, self._share_of_wrong_keys(a)))

    def _share_of_wrong_keys(self, a: str) -> float:
        def share(part: int, all: int) -> float:
            return (part + FIRST_ERROR_RATE * ERROR_WEIGHT) / (all + ERROR_WEIGHT)

        rules = [r for r in self.user if a in r.rule.lhs]
        n, explains = self.keys[a]
        found = share(explains, n)
        # Of the violations with a value that is at home elsewhere, the share that another key explains.
        foreign = min(share(r.foreign, r.compared) for r in rules)
        if len(rules) == 1:
            return FIRST_ERROR_RATE * (found / foreign) ** 2
        # All rules of a wrong key are violated together, more often than by chance.
        found -= math.prod(r.explained[r.rule.lhs.index(a)] / max(1, r.compared) for r in rules)
        return max(2 * found, FIRST_ERROR_RATE * max(0.0, found / foreign) ** 2)

    def _disagreement(self, r: RuleState) -> float:
        tot, maj, *_ = r.sums()
        return (tot - maj + FIRST_ERROR_RATE * ERROR_WEIGHT) / (tot + ERROR_WEIGHT)

    def _may_be_witness(self, r: RuleState) -> bool:
        tot, maj, *_ = r.sums()
        if tot < 30:
            return False
        if not r.implied or maj >= 0.9 * tot:
            return True
        return self.options.above(self.rho(r), 0.8)

    def error_rate(self, a: str) -> float:
        """Return ε of an attribute."""
        return self.eps.get(a, FIRST_ERROR_RATE)

    def rho(self, r: RuleState) -> float:
        """Return how much a rule is trusted."""
        if r.implied or self.options.trust is not None:
            a, b = IMPLIED_PRIOR if r.implied else USER_PRIOR
            return (a + r.zs) / (a + b + r.zn)
        return self._live_rho(r) if r.settled is None else r.settled

    def _live_rho(self, r: RuleState) -> float:
        """Return how much the cells of the horizon bear a user rule out."""
        tot, maj, groups, big, con = r.sums()
        # Of the cells beyond the first in their group, the share that agrees with it.
        s = (maj - groups + 8) / (tot - groups + 10)
        # The share of cells in groups with a second value that repeats.
        kappa = (con + 0.2) / (big + 10)
        return min(0.99, max(0.01, min((s - 0.3) / 0.4, 1 - 1.5 * kappa)))

    def _logit_rho(self, r: RuleState) -> float:
        rho = min(max(self.rho(r), 1e-6), 1 - 1e-6)
        return log(rho / (1 - rho))

    def _one_truth(self, r: RuleState, counts: Counts) -> float:
        """Return ln of how probable the counts are if the group has one true value."""
        beta = 1 / self.error_rate(r.rule.rhs) - 1
        n, t = counts.n, counts.mx
        return log_gamma(1 + n - t) + log_gamma(beta + t) - log_gamma(1 + beta + n) + log(beta)

    def _free(self, r: RuleState, counts: Counts) -> float:
        """Return the evidence that a group has one true value, against any distribution."""
        n, t, K = counts.n, counts.mx, len(counts.c)
        any_distribution = log_gamma(K + 1) - log_gamma(K + 1 + n) + counts.lf
        return self._one_truth(r, counts) - (n - t) * log(K) - log(K + 1) - any_distribution

    def _back(self, r: RuleState, counts: Counts) -> float:
        """Return the evidence that a group has one true value, against a left side that says nothing."""
        background = self.background(r.rule.rhs, counts.mode, None)
        return self._one_truth(r, counts) - (counts.mx - 1) * log(background)

    def _learn_sources(self) -> None:
        """Compute the accuracy of each source, by EM over the first groups of trusted user rules."""
        groups = [g for r in self.user if self.rho(r) > 0.5 for g in r.groups.values() if g.counts.n >= 2]
        votes = [_votes((v, s) for _, v, s in group.arrivals) for group in groups[:EM_GROUPS]]
        weights = [
            {
                v: {s: count * self._weight(s, voters) for s, count in voters.items()}
                for v, voters in g.items()
            }
            for g in votes
        ]
        posteriors = [_normalised({v: sum(w.values()) for v, w in g.items()}) for g in weights]
        for round in range(EM_ROUNDS):
            right: dict[Any, float] = defaultdict(float)
            cast: Counter[Any] = Counter()
            for group, posterior in zip(votes, posteriors, strict=True):
                for v, voters in group.items():
                    for s, count in voters.items():
                        right[s] += count * posterior[v]
                        cast[s] += count
            self.accuracy = {s: (right[s] + 4) / (cast[s] + 5) for s in cast}
            if round == EM_ROUNDS - 1:  # the last computes q only
                break
            for i, g in enumerate(weights):
                K = len(g)
                if K < 2:
                    continue
                scores = {
                    v: sum(w * (log(self._q(s) / (1 - self._q(s))) + log(K - 1)) for s, w in voters.items())
                    for v, voters in g.items()
                }
                best = max(scores.values())
                posteriors[i] = _normalised({v: exp(score - best) for v, score in scores.items()})

    def _q(self, source: Any) -> float:
        return self.accuracy.get(source, UNKNOWN_ACCURACY)

    def _weight(self, s: Any, voters: Iterable[Any]) -> float:
        """Return what one vote of s weighs: the copies of s that vote the same share it."""
        return 1 / (1 + len(self.copies(s) & set(voters)))

    # ------------------------------------------------------------------------------------------ a group

    def said(self, r: RuleState, reading: Row, counted: Counted) -> Said | None:
        """Return what a rule's group says of a reading; None if it says nothing: a constant may decide."""
        return None if r.rule.rhs in counted.constants else self.said_by_group(r, reading, counted)

    def said_by_group(self, r: RuleState, reading: Row, counted: Counted) -> Said | None:
        """Return what a rule's group says; None if the rule does not apply, or the group is empty."""
        x = tuple(reading[b] for b in r.rule.lhs)
        a = r.rule.rhs
        if r.id not in counted.may_apply or None in x or x not in r.groups:
            return None
        # The tuple's own cell is left out where the left side is the one that it arrived with.
        arrived = tuple(counted.row[b] for b in r.rule.lhs)
        own = (counted.row[a], counted.source) if x == arrived and counted.row[a] is not None else None
        cells = r.groups[x].without(own)
        counts = Counts(Counter(v for v, _ in cells))
        if counts.n == 0:
            return None
        by_source = self.options.trust is not None and not r.implied
        if by_source:
            scores = self._scores_of_votes(_votes(cells), r.groups[x], max(2, len(counts.c)))
        else:
            eps = self.error_rate(a)
            scores = {v: count * log((1 - eps) * len(counts.c) / eps) for v, count in counts.c.items()}
        # "A value not seen here" has a score of 0.
        most = max(0.0, *scores.values())
        odds = {v: exp(score - most) for v, score in scores.items()}
        Z = sum(odds.values()) + exp(-most)
        if r.rule.certain:
            z = 1.0
        elif by_source:
            z = self.rho(r)
        else:
            z = sigma(self._logit_rho(r) + self._evidence(r, counts))
        # The more cells a group has, the less it may be surprised.
        eta = min(ETA_MAX, 1 / counts.n)
        p = {v: z * (1 - eta) * x / Z for v, x in odds.items()}
        return Said(p, z * ((1 - eta) * exp(-most) / Z + eta) + 1 - z, z, counts)

    def _evidence(self, r: RuleState, counts: Counts) -> float:
        if counts.n == 1:
            return 0.0
        back, free = self._back(r, counts), self._free(r, counts)
        if r.implied:
            return min(back, free)
        return back if back < 0 else max(0.0, min(back, free))

    def _scores_of_votes(self, votes: dict[Value, Counter[Any]], group: Group, K: int) -> dict[Value, float]:
        scores = {}
        for v, voters in votes.items():
            # Copies share a vote; the tuple's own source counts as one, though its vote is left out.
            all_voters = {s for _, value, s in group.arrivals if value == v}
            scores[v] = math.fsum(
                count * self._weight(s, all_voters) * log(self._q(s) * (K - 1) / (1 - self._q(s)))
                for s, count in voters.items()
            )
        return scores

    def ranked(self, said: Said) -> list[Value]:
        """Return the values of a group, the most probable first; of equals the smallest."""
        return sorted(said.p, key=lambda v: (-said.p[v], v))

    def most_probable(self, r: RuleState, said: Said) -> list[Value]:
        """Return the values of a group that are candidates."""
        ranked = self.ranked(said)
        # The order in which votes are added, and the rounds of EM, may make equals differ.
        by_source = self.options.trust is not None and not r.implied
        pairs = itertools.pairwise(ranked) if by_source and len(ranked) > TOP else ()
        if any(self.options.is_close(said.p[v], said.p[w]) for v, w in pairs):
            raise TooClose
        return ranked[:TOP]

    def lift(self, r: RuleState, reading: Row, counted: Counted) -> tuple[float, Said] | None:
        """Return how much more probable a rule makes the right side of a reading; None: it says nothing."""
        a = r.rule.rhs
        if reading[a] is None:
            return None
        said = self.said(r, reading, counted)
        if said is None:
            return None
        background = self.background(a, reading[a], counted.row[a])
        return log(said.p.get(reading[a], 0.0) / background + said.background), said

    # ------------------------------------------------------------------------------------------ a tuple

    def is_suspicious(self, component: set[str], counted: Counted) -> bool | None:
        """Whether the cells of a component need a search; None if rounding decides."""
        in_doubt = False
        for r in self.active:
            if r.rule.rhs not in component:
                continue
            x = tuple(counted.row[b] for b in r.rule.lhs)
            if r.id not in counted.may_apply or None in x or x not in r.groups:
                continue
            v = counted.row[r.rule.rhs]
            if v is None:
                return True
            if self.options.trust is not None and not r.implied:
                # Is some other value more probable?
                said = self.said_by_group(r, counted.row, counted)
                if said is not None and self.ranked(said)[0] != v:
                    best, own = max(said.p.values()), said.p.get(v, 0.0)
                    if self.options.is_close(best, own):
                        in_doubt = True
                    elif best > own:
                        return True
            else:
                counts = r.groups[x].counts.c
                if any(count >= counts[v] for other, count in counts.items() if other != v):
                    return True
        return None if in_doubt else False

    def candidates(self, a: str, reading: Row, counted: Counted) -> list[Value]:
        """Return the values that the rules suggest for a cell, without the observed one."""
        found: list[Value] = []
        # For each active rule on A: the most probable values.
        for r in self.active_on(a):
            said = self.said(r, reading, counted)
            if said is not None:
                found += self.most_probable(r, said)
        # For each active rule with A on its left: the most frequent ones given the other cells.
        for r in self.active_from(a):
            j = r.rule.lhs.index(a)
            rest = tuple(reading[b] for b in r.rule.lhs if b != a)
            if r.id in counted.may_apply and None not in rest and reading[r.rule.rhs] is not None:
                rev = r.rev(j, rest, reading[r.rule.rhs])
                found += sorted(rev, key=lambda v: (-rev[v], v))[:TOP]
        # A key that its rules speak against may be another one, whichever it is: it is read as none.
        observed = counted.row[a]
        if self.is_key(a) and reading[a] == observed is not None and self.options.trust is None:
            lifts = [term.amount for term in self.score(a, observed, reading, counted).terms if term.rule]
            if self.options.greater(0.0, sum(lifts)):
                found.append(None)
        return [v for v in dict.fromkeys(found) if v != counted.row[a]]

    def prior(self, a: str, v: Value, reading: Row, counted: Counted) -> list[Term]:
        """Return ln of how probable it is that a cell observed as it was is truly v, in terms."""
        observed = counted.row[a]
        if observed is None:
            return [Term("background", log(self.background(a, v, None)))]
        e, out, seen = self.observed_error_rate(a, counted)
        if v == observed:
            return [Term("error", log(1 - e), count=out, of=seen, share=e)]
        if v is None:
            return [Term("error", log(e), count=out, of=seen, share=e)]
        # A typo is like the truth, or: the same wrong value came before.
        k = self.like(observed, v)
        # Of an attribute on left sides only no wrong values are known: those of right sides say how much more
        # alike these are than values that follow each other there.
        m = self.m(a)
        u = self.u[a] if self.rules_on(a) else self.x(a)
        likeness = max(0.0, log(m[k] / sum(m)) - log(u[k] / sum(u)))
        recurrence = 0.0
        for r in self.active_on(a):
            said = self.said(r, reading, counted)
            if said is None or len(said.p) < 2 or observed not in said.p:
                continue
            if self.options.above(said.z, 0.5):
                other_values = len(said.p) - 1
                recurrence = max(recurrence, -log(other_values * self.background(a, observed, observed)))
        repeats = recurrence > 0 and self.options.greater(recurrence, likeness)
        return [
            Term("error", log(e), count=out, of=seen, share=e),
            Term("recurrence", recurrence) if repeats else Term("likeness", likeness),
            Term("background", log(self.background(a, v, observed))),
        ]

    def observed_error_rate(self, a: str, counted: Counted) -> tuple[float, int | None, int | None]:
        """Return the error rate of an observed cell, and the out and seen that it is from, if any."""
        observed, eps = counted.row[a], self.error_rate(a)
        # With trust, the cell is as good as its source.
        if self.options.trust is not None and any(r.rule.rhs == a for r in self.user):
            return 1 - self._q(counted.source), None, None
        occurs_elsewhere = self.dom(a)[observed] > 1
        if a not in self.witness:
            if occurs_elsewhere:
                return eps, None, None
            return min(0.9, max(1e-4, eps / (2 * self.new_values(a)))), None, None
        # By the value's reputation with the witness, or that of all values that came once.
        witness = self.witness[a]
        if occurs_elsewhere:
            out, seen = witness.rep.get(observed, (0, 0))
            weight = REPUTATION_WEIGHT
        else:
            out, seen = witness.s1
            weight = ERROR_WEIGHT
        # Without its own contribution.
        if witness.id in counted.own_out:
            out -= counted.own_out[witness.id]
            seen -= 1
        return min(0.9, max(eps, (out + weight * eps) / (seen + weight))), out, seen

    def score(self, a: str, v: Value, reading: Row, counted: Counted) -> Candidate:
        """Return what speaks for a value of a cell, given the other cells of a reading."""
        reading = {**reading, a: v}
        terms = self.prior(a, v, reading, counted)
        count = 0
        # The lifts of the rules on A.
        for r in self.active_on(a):
            lift = self.lift(r, reading, counted)
            if lift is not None:
                terms.append(self._rule_term(r, lift, reading))
                count += lift[1].counts.c[v]
        # Of the rules with A on the left: the negative lifts, and the largest positive one.
        largest = None
        for r in self.active_from(a):
            lift = self.lift(r, reading, counted)
            if lift is None:
                continue
            if lift[0] < 0:
                terms.append(self._rule_term(r, lift, reading))
            elif lift[0] > 0 and (largest is None or self.options.greater(lift[0], largest.amount)):
                largest = self._rule_term(r, lift, reading)
        if largest is not None:
            terms.append(largest)
        return Candidate(v, count, sum(term.amount for term in terms), tuple(terms))

    def _rule_term(self, r: RuleState, lift: tuple[float, Said], reading: Row) -> Term:
        amount, said = lift
        key = ", ".join(f"{b}={self.options.text(reading[b])}" for b in r.rule.lhs)
        return Term("rule", amount, r.id, key, said.counts.c[reading[r.rule.rhs]], said.counts.n, said.z)

    def decide(self, counted: Counted) -> list[Outcome]:
        """Search the most probable reading of a tuple; return what it says of the cells it moved."""
        row = counted.row
        # Constants act first and fix their cell.
        fixed = {a: constants[0][1] for a, constants in counted.constants.items()}
        outcomes = [Outcome(a, new, True, None, None) for a, new in fixed.items() if new != row[a]]
        for component in self.components():
            suspicious = self.is_suspicious(component, counted)
            if suspicious is not False:
                moves = self._search({**row, **fixed}, component - set(fixed), counted)
                if suspicious is None and moves:
                    raise TooClose
                outcomes += self._outcomes(counted, moves)
        return sorted(outcomes, key=lambda outcome: self.options.attributes.index(outcome.attribute))

    def _search(self, reading: Row, open_cells: set[str], counted: Counted) -> dict[str, Move]:
        """Make the best move until none is left; return each moved cell's last move, the latest last."""
        movable = [
            a
            for a in self.attributes
            if (self.active_on(a) or self.active_from(a))
            and a not in (self.options.trust, self.options.id)
            and a in open_cells
        ]
        moves: dict[str, Move] = {}
        for _ in range(MOVES):
            best: tuple[str, float, Value] | None = None
            allowed = {a: self._moves(a, reading, counted) for a in movable}
            for a in self._losers(movable, allowed, reading, counted):
                allowed[a] = []
            for a in movable:
                for gain, v in allowed[a]:
                    # Of equal gains the earlier attribute, then the earlier candidate.
                    if best is None or self.options.beats(gain, best[1]):
                        best = (a, gain, v)
            if best is None:
                break
            a, gain, v = best
            moves.pop(a, None)
            moves[a] = self._explained(a, gain, v, reading, counted)
            reading = {**reading, a: v}
        # A cell that was moved back has not moved.
        return {a: move for a, move in moves.items() if move.new != counted.row[a]}

    def _losers(
        self,
        movable: list[str],
        allowed: dict[str, list[tuple[float, Value]]],
        reading: Row,
        counted: Counted,
    ) -> set[str]:
        """Return the attributes that may not move: a key, or the right sides that it makes needless."""
        losers: set[str] = set()
        for key in movable:
            if not allowed[key] or not self.is_key(key) or reading[key] != counted.row[key]:
                continue
            rights = {r.rule.rhs for r in self.active_from(key) if r.id in counted.may_apply}
            rights = {a for a in rights if allowed.get(a)}
            together = 0.0
            for a in sorted(rights):
                gain, v = self._best(allowed[a])
                together += gain + self._unlike(a, v, reading, counted)
            if self.options.above(self._best(allowed[key])[0], together):
                losers |= rights
            else:
                losers.add(key)
        return losers

    def _best(self, moves: list[tuple[float, Value]]) -> tuple[float, Value]:
        best = moves[0]
        for move in moves[1:]:
            if self.options.beats(move[0], best[0]):
                best = move
        return best

    def _unlike(self, a: str, v: Value, reading: Row, counted: Counted) -> float:
        """Return what speaks against a move because the values are unlike, which its gain leaves out."""
        observed = counted.row[a]
        if observed is None or v == observed:
            return 0.0
        if any(term.kind == "recurrence" for term in self.prior(a, v, reading, counted)):
            return 0.0
        k = self.like(observed, v)
        m, x = self.m(a), self.x(a)
        return min(0.0, log(m[k] / sum(m)) - log(x[k] / sum(x)))

    def _moves(self, a: str, reading: Row, counted: Counted) -> list[tuple[float, Value]]:
        """Return the allowed moves of a cell: their gains and the new values."""
        observed = counted.row[a]
        candidates = self.candidates(a, reading, counted)
        if observed is None:
            return self._fills(a, candidates, reading, counted)
        now = self.score(a, reading[a], reading, counted).score
        if reading[a] != observed:
            candidates.append(observed)
        allowed = []
        for v in candidates:
            if v == reading[a]:
                continue
            gain = self.score(a, v, reading, counted).score - now
            if reading[a] == observed:
                good = self.options.above(gain, self.options.threshold)
            else:
                good = self.options.greater(gain, 0.0)
            if good:
                allowed.append((gain, v))
        return allowed

    def _fills(
        self, a: str, candidates: list[Value], reading: Row, counted: Counted
    ) -> list[tuple[float, Value]]:
        """Return the best candidate for a null cell, if it is allowed."""
        if not candidates:
            return []
        scores = {v: self.score(a, v, reading, counted).score for v in candidates}
        most = max(scores.values())
        # The best one by score, of equals the smallest.
        new = min(v for v, score in scores.items() if not self.options.greater(most, score))
        # Against all others, and all values that nobody suggests.
        others = [score for v, score in scores.items() if v != new]
        said = [self.said(r, reading, counted) for r in self.active_on(a)]
        others.append(sum(log(s.background) for s in said if s is not None))
        top = max(others)
        gain = scores[new] - top - log(sum(exp(score - top) for score in others))
        if new != reading[a] and self.options.above(gain, self.options.threshold):
            return [(gain, new)]
        return []

    def _explained(self, a: str, gain: float, new: Value, reading: Row, counted: Counted) -> Move:
        """Return a move with the rules and candidates behind it."""
        observed = counted.row[a]
        said_by = self.active_on(a) or self.active_from(a)
        rules = tuple(r.id for r in said_by if self.said(r, reading, counted) is not None)
        scored = [self.score(a, v, reading, counted) for v in self.candidates(a, reading, counted)]
        # The best three; the observed value is one of them.
        shown = self._by_score(scored)[:TOP]
        if observed is not None:
            shown = self._by_score([*shown[: TOP - 1], self.score(a, observed, reading, counted)])
        return Move(new, gain, rules, tuple(shown))

    def _by_score(self, candidates: list[Candidate]) -> list[Candidate]:
        """Sort by score, the highest first; equals stay in their order."""
        found: list[Candidate] = []
        for candidate in candidates:
            better = [other for other in found if not self.options.beats(candidate.score, other.score)]
            found = [*better, candidate, *(other for other in found if other not in better)]
        return found

    def _outcomes(self, counted: Counted, moves: dict[str, Move]) -> list[Outcome]:
        """Return which moved cells change, and which are flagged."""
        row = counted.row
        changes: dict[str, bool] = {}
        rights = {r.rule.rhs for r in self.active}
        for a in moves:
            if row[a] is None:
                # A null cell changes only if a user rule that may apply fills it.
                fills = [r for r in self.user if r.rule.rhs == a and r.rule.fill]
                if any(r.id in counted.may_apply for r in fills):
                    changes[a] = True
            else:
                # A cell on left sides only is flagged; so is one of which it is not known what it should be.
                changes[a] = a in rights or (self.options.left == "repair" and moves[a].new is not None)
        # The right sides of rules with a flagged attribute on the left keep their value, too.
        flagged = {a for a, change in changes.items() if not change}
        for r in self.active:
            if r.id in counted.may_apply and flagged & set(r.rule.lhs) and r.rule.rhs in changes:
                changes[r.rule.rhs] = False
        steps = [a for a in moves if a in changes]
        return [Outcome(a, moves[a].new, changes[a], moves[a], steps.index(a) + 1) for a in steps]


def _normalised(weights: dict[Value, float]) -> dict[Value, float]:
    total = sum(weights.values())
    return {v: weight / total for v, weight in weights.items()}


class BayesReference:
    """A cleaner of one stream, call by call."""

    def __init__(
        self,
        attributes: Iterable[str],
        rules: Iterable[NaiveRule],
        window: tuple[int, int] | None,
        windowing: str = "bleach",
        *,
        remember: int | None,
        accept_after: int | None,
        look_ahead: int,
        confidence: float,
        trust: str | None,
        implied: bool,
        left: str,
        id: str | None,
        text: Callable[[Any], str] = str,
        watch_rounding: bool = False,
    ) -> None:
        self.window = window
        self.windowing = windowing
        self.remember = remember
        self.look_ahead = look_ahead
        self.position = 0
        self.version = 1
        self.due = REFRESH_EVERY
        self.violations: Counter[str] = Counter()
        self.rules: dict[str, NaiveRule] = {}
        self.options = Options(
            tuple(attributes), accept_after, confidence, trust, implied, left, id, text, watch_rounding
        )
        self.live = State(self.options)
        #: with live and shadow rules, while there are shadow rules
        self.shadow: State | None = None
        for rule in rules:
            self._add(rule)

    # ------------------------------------------------------------------------------------------ rules

    def _add(self, rule: NaiveRule) -> None:
        assert rule.id not in self.rules
        assert self.options.trust not in (*rule.lhs, rule.rhs)
        self.rules[rule.id] = rule
        if rule.shadow and self.shadow is None:
            # The second state begins as a copy of the live one.
            self.shadow = copy.deepcopy(self.live)
        self._update(live=not rule.shadow)

    def _update(self, *, live: bool) -> None:
        """Put the rules in force; results are as if shadow rules did not exist."""
        if live:
            self.live.set_rules(rule for rule in self.rules.values() if not rule.shadow)
        if not any(rule.shadow for rule in self.rules.values()):
            self.shadow = None
        if self.shadow is not None:
            self.shadow.set_rules(self.rules.values())

    def add_rule(self, rule: NaiveRule) -> None:
        """Let a rule begin, with no groups and sums."""
        self._add(rule)
        self.version += 1

    def delete_rule(self, id: str) -> None:
        """Let a rule's groups and sums go."""
        rule = self.rules.pop(id)
        self._update(live=not rule.shadow)
        self.version += 1

    def promote_rule(self, id: str) -> None:
        """Let the live state be a copy of the second one without the other shadow rules."""
        assert self.rules[id].shadow
        assert self.shadow is not None
        self.rules[id] = replace(self.rules[id], shadow=False)
        self.live = copy.deepcopy(self.shadow)
        self._update(live=True)
        self.version += 1

    # ------------------------------------------------------------------------------------------ tuples

    def process_batch(
        self, tuples: Iterable[Tuple]
    ) -> tuple[list[dict[str, Any]], list[BayesRepair], list[Acceptance]]:
        """Clean the tuples of one call; blocks never span calls."""
        left = list(tuples)
        clean: list[dict[str, Any]] = []
        repairs: list[BayesRepair] = []
        accepted: list[Acceptance] = []
        while left:
            # A block ends after B tuples, at a slide of the window, or with the call.
            n = self.look_ahead
            if self.window is not None:
                slide = self.window[1]
                n = min(n, slide - self.position % slide)
            block, left = left[:n], left[n:]
            cells, rows, changes = self._process_block(block)
            clean += cells
            repairs += rows
            accepted += changes
        return clean, repairs, accepted

    def _process_block(
        self, block: list[Tuple]
    ) -> tuple[list[dict[str, Any]], list[BayesRepair], list[Acceptance]]:
        position, pane, first_in_window = self.position, 0, 0
        if self.window is not None:
            size, slide = self.window
            pane = position // slide
            first_in_window = pane - size // slide + 1
            if position % slide == 0 and position > 0:
                # The horizon: the window's panes, or the remembered ones.
                first = first_in_window
                if self.windowing == "bleach":
                    first = 0 if self.remember is None else pane - self.remember // slide + 1
                for state in self._states():
                    state.slide(pane - 1, pane, first, size // slide)
        # All tuples of a block are counted first.
        counted, shadowed = [], []
        accepted: list[Acceptance] = []
        for i, t in enumerate(block):
            one, changes = self.live.count(t, position + i, pane, first_in_window)
            counted.append(one)
            accepted += changes
            self.violations.update(one.violated)
            if self.shadow is not None:
                other, _ = self.shadow.count(t, position + i, pane, first_in_window)
                shadowed.append(other)
                self.violations.update(id for id in other.violated if self._is_shadow(id))
        self.position += len(block)
        # Then parameters are computed, if enough tuples have come since the last time.
        if self.position >= self.due:
            for state in self._states():
                state.refresh()
            self.due = self.position + REFRESH_EVERY
        # Then all are decided, in order.
        clean, repairs = [], []
        for i, t in enumerate(block):
            outcomes = self.live.decide(counted[i])
            changed = {outcome.attribute: outcome.new for outcome in outcomes if outcome.changed}
            clean.append({**t, **changed})
            rows = [self._audit(self.live, counted[i], o, position + i, applied=o.changed) for o in outcomes]
            if self.shadow is not None:
                rows += [
                    self._audit(self.shadow, shadowed[i], outcome, position + i, applied=False)
                    for outcome in self.shadow.decide(shadowed[i])
                    if outcome.changed and self._violates_shadow_rule(shadowed[i], outcome.attribute)
                ]
            repairs += sorted(rows, key=lambda row: self.options.attributes.index(row.attribute))
        return clean, repairs, accepted

    def _states(self) -> list[State]:
        return [self.live] if self.shadow is None else [self.live, self.shadow]

    def _is_shadow(self, id: str) -> bool:
        return id in self.rules and self.rules[id].shadow

    def _violates_shadow_rule(self, counted: Counted, attribute: str) -> bool:
        return any(self._is_shadow(id) and self.rules[id].rhs == attribute for id in counted.violated)

    def _audit(
        self, state: State, counted: Counted, outcome: Outcome, position: int, *, applied: bool
    ) -> BayesRepair:
        """Return the audit row of a cell that is changed, flagged, or would be changed."""
        a = outcome.attribute
        move = outcome.move
        if move is not None:
            return BayesRepair(
                position=position,
                attribute=a,
                old=counted.t[a],
                new=outcome.new,
                rules=move.rules,
                candidates=move.candidates,
                confidence=sigma(move.gain),
                groups=len(move.rules),
                decided_by="probability",
                overruled=(),
                version=self.version,
                applied=applied,
                step=outcome.step,
            )
        losers = {id for id, constant in counted.constants[a] if constant != outcome.new}
        on_a = [r.id for r in state.user if r.rule.rhs == a]
        return BayesRepair(
            position=position,
            attribute=a,
            old=counted.t[a],
            new=outcome.new,
            rules=tuple(id for id in on_a if id in counted.violated),
            candidates=(),
            confidence=1.0,
            groups=0,
            decided_by="constant",
            overruled=tuple(id for id in on_a if id in losers),
            version=self.version,
            applied=applied,
            step=None,
        )

    # ------------------------------------------------------------------------------------------ for tests

    def trust_of(self, id: str) -> float:
        """Return how much a live rule is trusted."""
        (rule,) = (r for r in self.live.rules if r.id == id)
        return self.live.rho(rule)

    @property
    def error_rates(self) -> dict[str, float]:
        """The error rates of attributes: ε."""
        return dict(self.live.eps)

    @property
    def source_accuracy(self) -> dict[Any, float]:
        """The accuracy of sources: q."""
        return dict(self.live.accuracy)
