"""A stream through ingress, lanes and egress in one process, on state stores in dictionaries."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sparkbleach import Engine, Rule, RuleUpdate, Window
from sparkbleach.config import Options
from sparkbleach.control.outcome import Outcome
from sparkbleach.control.record import ControlRecord, record_text
from sparkbleach.engine.placement import place
from sparkbleach.rules.active import ActiveRules
from sparkbleach.rules.check import check_rules
from sparkbleach.spark import replica as replica_module
from sparkbleach.spark.egress import egress
from sparkbleach.spark.ingress import ingress
from sparkbleach.spark.lane import MicroBatch
from sparkbleach.spark.lanes import cells_by_lane
from sparkbleach.spark.limits import Limits
from sparkbleach.spark.plan import Plan
from sparkbleach.spark.rows import IngressRow, LaneRow, rows_from_batch, rows_to_batch
from tests.naive.reference import canonical
from tests.support.cases import Case, count_rules
from tests.support.store import Store

#: so that a short stream has many chunks and parts
SMALL = Limits(
    blobs_decided_at_once=2,
    snapshot_batch_bytes=600,
    snapshot_bytes_per_delta_byte=0,
    snapshot_chunk_bytes=256,
)


class LaneStream:
    """A stream through ingress, lanes and egress, beside an engine that sees the same tuples."""

    def __init__(self, case: Case, seed: int, by_order: bool, live: bool, n_lanes: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 -- not for secrets
        self.by_order = by_order
        #: whether rules change by control records, or by restarts
        self.live = live
        #: number and text of those that come with the next micro-batch
        self.records: list[tuple[str, str]] = []
        self.n_records = 0
        self.rules = [rule for rule, _ in case.rules]
        self.columns = (*case.types, "n", "_order_0") if by_order else (*case.types, "n")
        schema = case.schema
        window = Window(*case.window) if case.window else None
        more: dict[str, Any] = {}
        if case.repair == "bayes" and not by_order:
            more["look_ahead"] = 1  # elsewhere no decision waits for the next blob, and the engine has none
        self.plan = Plan(
            schema=schema,
            id="n",
            rules=tuple(self.rules),
            updates=(),
            order_by=("_order_0",) if by_order else (),
            cells=(),
            options=Options(window=window, windowing=case.windowing, repair=case.repair, **more),
            audit=True,
            quarantine=False,
            control=live,
            unreadable=None,
            limits=replace(SMALL, snapshot_bytes=self.random.choice([1, 1_000, 1 << 40])),
            placement=place(count_rules(self.rules), n_lanes),
        )
        self.plan = self.new_plan()
        self.begun = False
        self.engine = self.new_engine()
        #: by lane
        self.stores: list[Any] = [Store() for _ in range(n_lanes)]
        self.other_worker: OrderedDict[str, Any] = OrderedDict()

    def new_plan(self) -> Plan:
        """Return a plan with the rules as they are, and a place for those that are new."""
        plan = self.plan
        placement = plan.placement.with_attributes(count_rules(self.rules))
        checked = [check_rules([rule], plan.schema)[0] for rule in self.rules]
        always = self.columns if self.live else plan.order_by
        lane_cells = cells_by_lane(placement, checked, self.columns, always)
        cells = tuple(name for name in self.columns if any(name in own for own in lane_cells))
        return replace(plan, rules=tuple(self.rules), placement=placement, cells=cells, lane_cells=lane_cells)

    def can_add(self, rule: Rule, rules: list[Rule]) -> bool:
        """Return whether a rule can come: if its attribute is split, it must be the only one."""
        return not self.plan.placement.is_split(rule.rhs) or rule.rhs not in count_rules(rules)

    def new_engine(self) -> Engine:
        """Return an engine that has seen nothing."""
        plan = self.plan
        return Engine.of(ActiveRules(plan.schema, self.rules, "n"), plan.options)

    def tuples(self, rows: list[dict[str, Any]]) -> None:
        """Send a micro-batch, disturbed at random, and compare with the engine."""
        if not rows:
            return
        self.update_engine()
        disturbance = self.random.choice(["none", "none", "lost", "retry", "other", "twice", "abandoned"])
        if disturbance == "lost":
            replica_module._cached.clear()
        if disturbance == "abandoned":
            self.abandon(rows)
        if disturbance in ("retry", "twice"):
            before = [store.copy() for store in self.stores]
            for _ in range(1 if disturbance == "retry" else 2):
                self.run(rows)
                self.stores = [store.copy() for store in before]
        if disturbance == "other":
            here = OrderedDict(replica_module._cached)
            replica_module._cached.clear()
            replica_module._cached.update(self.other_worker)
            self.other_worker = here
        got, audit = self.run(rows)
        clean, expected_audit = self.engine.process(pa.RecordBatch.from_pylist(rows, self.plan.schema))
        assert got == [canonical_row(row) for row in clean.to_pylist()]
        assert audit == expected_audit.to_pylist()
        self.records.clear()

    def run(self, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Send a micro-batch; return clean rows and audit in the order of the stream."""
        plan = self.plan
        order, by_lane = self.packed(rows)
        sent = self.send([[blob.cells for blob in own] for own in by_lane])
        out = [
            rows_to_batch([LaneRow(lane, number, cells, blob.rest, blob.quarantined, message)])
            for lane, (own, messages) in enumerate(zip(by_lane, sent, strict=True))
            for number, (blob, message) in enumerate(zip(own, messages, strict=True))
            for cells in [blob.cells if plan.carries(lane) else None]
        ]
        result = [row for part in egress(plan)(out) for row in part.to_pylist()]
        assert len(result) == len(rows)
        in_order: list[dict[str, Any]] = [{}] * len(rows)
        for at, row in zip(order, result, strict=True):
            in_order[at] = row
        clean = [{name: row[name] for name in plan.schema.names} for row in in_order]
        return [canonical_row(row) for row in clean], [
            repair for row in in_order for repair in row["_repairs"]
        ]

    def packed(self, rows: list[dict[str, Any]]) -> tuple[list[int], list[list[IngressRow]]]:
        """Pack a micro-batch; return the order of its rows, and for each lane the blobs."""
        plan = self.plan
        order = list(range(len(rows)))
        schema = plan.schema
        if self.by_order:
            self.random.shuffle(order)
            schema = schema.append(pa.field("_order_0", pa.int64()))
        batch = pa.RecordBatch.from_pylist([{**rows[i], "_order_0": i} for i in order], schema)
        blobs = []
        cuts = sorted(self.random.choices(range(len(rows) + 1), k=self.random.randrange(4)))
        for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            blobs += list(ingress(plan, batch.schema.names)([batch.slice(begin, end - begin)]))
        came = [
            row._replace(cells=row.cells.to_pybytes())
            for blob in blobs
            for row in rows_from_batch(IngressRow, blob)
        ]
        return order, [[row for row in came if row.lane == key] for key in plan.keys]

    def abandon(self, rows: list[dict[str, Any]]) -> None:
        """Begin the micro-batch in each lane, and stop after some blobs: nothing is committed."""
        _, by_lane = self.packed(rows)
        records = [ControlRecord.read(*record) for record in self.records]
        for number, own in enumerate(by_lane):
            before = self.stores[number].state.read_head()
            batch = MicroBatch(
                self.plan, self.stores[number].state, number, [blob.cells for blob in own], records
            )
            repairs = batch.decide()
            for _ in range(self.random.randrange(len(own) + 1)):
                next(repairs)
            repairs.close()
            assert self.stores[number].state.read_head() == before

    def control(self, update: RuleUpdate) -> None:
        """Have an update come with the next micro-batch, or with one of its own."""
        self.engine.apply(update)
        self.n_records += 1
        self.records.append((f"{self.n_records:05}", record_text(update, "somebody")))
        if self.random.random() < 0.3:
            self.send([[]] * self.plan.n_lanes)
            self.records.clear()

    def send(self, cells: list[list[bytes]]) -> list[list[pa.Buffer | None]]:
        """Send each lane its blobs with all control records that have come; return the repairs."""
        repairs = []
        position = self.engine.position
        for lane, own in enumerate(cells):
            messages, sent = self.process(own, lane)
            outcomes = [one for one in sent if one.kind != "accepted"]
            found = [(one.number, one.kind, one.position) for one in outcomes if one.kind != "started"]
            assert found == [(number, "applied", position) for number, _ in self.records]
            if found:
                assert outcomes[-1].version == self.engine.version
                assert outcomes[-1].rules == [rule.to_dict() for rule in self.engine.rules]
            repairs.append(messages)
        return repairs

    def process(self, cells: list[bytes], number: int) -> tuple[list[pa.Buffer | None], list[Outcome]]:
        """Have a lane read what was sent."""
        records = [ControlRecord.read(*record) for record in self.records]
        with MicroBatch(self.plan, self.stores[number].state, number, cells, records) as batch:
            messages = list(batch.decide())
            return messages, batch.commit().outcomes

    def update_engine(self) -> None:
        """Let the rules that differ come and go: a lane learns of it with the micro-batch."""
        if self.live:
            return
        if not self.begun:
            self.engine = self.new_engine()
            self.begun = True
        for rule in self.engine.rules:
            if rule not in self.rules:
                if rule.with_mode("live") in self.rules:
                    self.engine.promote_rule(rule.id)
                else:
                    self.engine.delete_rule(rule.id)
        for rule in self.rules:
            if rule not in self.engine.rules:
                self.engine.add_rule(rule)

    def step(self, step: Any) -> None:
        """Do one step of a case; rules change by a control record, or by a restart with other rules."""
        rules = list(self.engine.rules) if self.live else self.rules
        shadow = [rule for rule in rules if rule.is_shadow]
        match step:
            case ("tuples", rows):
                self.tuples(rows)
            case ("restore",):
                replica_module._cached.clear()
            case ("add", (rule, _)) if self.can_add(rule, rules):
                if self.live:
                    self.control(RuleUpdate(rule=rule))
                else:
                    self.rules.append(rule)
            case ("delete", which) if rules:
                if self.live:
                    self.control(RuleUpdate(delete=rules[which % len(rules)].id))
                else:
                    del self.rules[which % len(rules)]
            case ("promote", which) if shadow:
                rule = shadow[which % len(shadow)]
                if self.live:
                    self.control(RuleUpdate(promote=rule.id))
                else:
                    self.rules[self.rules.index(rule)] = rule.with_mode("live")
        self.plan = self.new_plan()


def canonical_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose cells compare as the semantics say."""
    return {name: canonical(value) for name, value in row.items()}
