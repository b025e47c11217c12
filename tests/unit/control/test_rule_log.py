"""The rule log in a directory is for its owner, and leads nowhere else."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path

import pytest

from sparkbleach import RuleController, RuleUpdate, SparkbleachError
from sparkbleach.control.outcome import Outcome
from sparkbleach.control.record import ControlRecord
from sparkbleach.control.rule_log import DirectoryLog

OUTCOME = Outcome(0, "started", 0, 1, [], "", [], "id")


def test_only_the_owner_reads_its_files(tmp_path: Path) -> None:
    """Whatever the process creates otherwise, control records and outcomes have the mode 0600."""
    before = os.umask(0)
    try:
        log = DirectoryLog(tmp_path)
        log.publish(RuleUpdate(delete="r"), "ann")
        log.record(0, [OUTCOME])
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == ["00000001.json", "batch-000000000000.jsonl"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    """A link in place of a record or of outcomes, or something that is no file, is never opened."""
    log = DirectoryLog(tmp_path / "log")
    log.create()
    secret = tmp_path / "secret"
    secret.write_text('{"op": "delete", "id": "hunter2"}')
    (log.directory / "00000001.json").symlink_to(secret)
    os.mkfifo(log.directory / "00000002.json")
    (log.directory / "00000003.json").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    records = log.published()
    assert len(os.listdir("/proc/self/fd")) == before
    assert [(one.update, "no text that may be read" in str(one.problem)) for one in records] == [
        (None, True)
    ] * 3
    assert "hunter2" not in str(records)

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (log.directory / "_outcomes").symlink_to(elsewhere)
    with pytest.raises(SparkbleachError, match="_outcomes is a symbolic link"):
        log.record(0, [OUTCOME])
    assert list(elsewhere.iterdir()) == []
    (log.directory / "_outcomes").unlink()
    log.record(0, [OUTCOME])
    (log.directory / "_outcomes" / "batch-000000000001.jsonl").symlink_to(secret)
    with pytest.raises(SparkbleachError, match=r"the outcomes in .* cannot be read"):
        log.outcomes()
    log.record(1, [OUTCOME])
    assert log.outcomes() == [OUTCOME, OUTCOME]
    assert "hunter2" in secret.read_text()


def test_a_passing_error_refuses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that cannot be read now is read later; it is not refused for good."""
    log = DirectoryLog(tmp_path / "log")
    log.publish(RuleUpdate(delete="r"), "me")

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fail)
        with pytest.raises(SparkbleachError, match=r"00000001.json cannot be read \(Input/output error\)"):
            log.text_of("00000001")
    assert [record.update for record in log.published()] == [RuleUpdate(delete="r")]


@pytest.mark.parametrize("text", ["root:hunter2:0:0", '["hunter2"]', '{"password": "hunter2"}', None])
def test_a_record_that_is_no_update_is_not_quoted(text: str | None) -> None:
    """The reason, which others may read, does not repeat what the record has."""
    record = ControlRecord.read("1", text)
    assert record.update is None
    assert record.problem is not None
    assert "hunter2" not in record.problem


def test_the_publisher_is_the_user_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody is named, the history has the user that the system knows, not that of the environment."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert RuleController(str(tmp_path)).by.startswith(f"{user}@")
    assert RuleController(str(tmp_path), by="ann").by == "ann"
