"""Files of rules and options, in YAML, and of rule updates, in JSON lines."""

from __future__ import annotations

import gc
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor

from ..config import FILE_OPTIONS, OptionValues, check_option, read_option
from ..errors import ConfigError, RuleError
from .placed_error import PlacedError, near_matches
from .rule import KEYS, Rule, read_fields
from .update import RuleUpdate

# YAML 1.1 reads 01234 as octal, and 12:30 as a number in base 60.
_AMBIGUOUS_NUMBER = re.compile(r"[-+]?0[0-9_]+|.*:.*")
#: no type of a column holds a number that is longer
_NUMBER_LENGTH_MAX = 1_000
_INT_TAG = "tag:yaml.org,2002:int"
_WRITE_RULES = "write rules: and a list of rules"
#: by key of a file of rules: what to do if it is there twice
_SECTIONS = {"rules": "put all rules in one list", "options": "put all options in one mapping"}


def load_rules(path: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """Read all rules of a YAML file, or none.

    The file has the key `rules`: a list of mappings with the keys id, lhs, rhs, when, nulls, tableau, mode,
    certain and accept_after, or of texts such as `"zip_city: zipcode -> city WHERE country = 'FR'"`. It may
    have the key `options`, which `load_options` reads.

    Raises:
        RuleError: If the file cannot be read or is wrong anywhere; the message names the file, line and rule.
    """
    items = _items(path, _composed(path))
    rules: list[Rule] = []
    lines: dict[str, int] = {}
    for node in items:
        rule = _rule(path, node)
        if rule.id in lines:
            fault = PlacedError(
                "id", f"line {lines[rule.id]} has a rule of this id, too", "give each rule its own id"
            )
            raise fault.error(rule.id, _at(path, node))
        lines[rule.id] = _line(node)
        rules.append(rule)
    return tuple(rules)


def load_options(path: str | os.PathLike[str]) -> OptionValues:
    """Read the options that a YAML file of rules gives for its stream: keywords of `Engine` and `clean`.

    They are the mapping under the key `options`; without it there are none.

    Raises:
        RuleError: If the file cannot be read, or is not a mapping with the key `rules`.
        ConfigError: If an option is unknown or wrong; the message names the file and line.
    """
    found = _sections(path, _composed(path)).get("options")
    if found is None:
        return {}
    if not isinstance(found, yaml.MappingNode):
        raise ConfigError(
            f"{_at(path, found)}: options is not a mapping; write options: and lines such as repair: vote"
        )
    values: dict[str, Any] = {}
    for key, node in found.value:
        try:
            name = _key(key, values, FILE_OPTIONS)
            values[name] = read_option(name, _constructed(name, node))
            check_option(name, values[name])
        except _NodeError as placed:
            fault = placed.fault
            raise ConfigError(
                f"{_at(path, placed.node)}: options, {fault.place}: {fault.problem}; {fault.remedy}"
            ) from None
        except ConfigError as error:
            raise ConfigError(f"{_at(path, node)}: options, {error}") from None
    return cast(OptionValues, values)


def load_updates(path: str | os.PathLike[str]) -> list[RuleUpdate]:
    """Read all rule updates of a file with a JSON object per line, or none."""
    updates = []
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            updates.append(RuleUpdate.from_dict(json.loads(line)))
        except RuleError as error:
            raise RuleError(f"{os.fspath(path)}:{number}: {error}") from error
        except (ValueError, RecursionError) as error:
            problem = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise RuleError(
                f"{os.fspath(path)}:{number}: it is not valid JSON: {problem}; write one object per line"
            ) from error
    return updates


def _read_text(path: str | os.PathLike[str]) -> str:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise RuleError(
            f"{os.fspath(path)}: cannot read it ({error.strerror}); check the path and its permissions"
        ) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise RuleError(f"{os.fspath(path)}:{line}: it is not valid UTF-8; save it as UTF-8") from error


class _AliasError(Exception):
    """A file has an alias: a few of them that name each other would stand for billions of values."""

    def __init__(self, line: int, name: str) -> None:
        super().__init__(line, name)
        self.line = line
        self.name = name


_FASTEST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, where PyYAML has it


class _Composer(Composer):
    """Makes nodes of what a parser finds, and refuses aliases.

    The composer in C would overflow the stack where values are nested deeply.
    """

    def compose_node(self: Any, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise _AliasError(event.start_mark.line + 1, event.anchor)
        return Composer.compose_node(self, parent, index)


class _Loader(_Composer, _FASTEST_LOADER):  # type: ignore[misc]
    """Reads YAML as far as its nodes."""

    def __init__(self, text: str) -> None:
        _Composer.__init__(self)
        _FASTEST_LOADER.__init__(self, text)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from looking at all nodes again and again while new ones are made."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _composed(path: str | os.PathLike[str]) -> yaml.Node:
    text = _read_text(path)
    try:
        with _collector_paused():
            root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except _AliasError as alias:
        raise RuleError(
            f"{os.fspath(path)}:{alias.line}: *{alias.name} is an alias, which is not read; "
            f"write out what &{alias.name} stands for"
        ) from None
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        remedy = "check brackets, quotes and indentation"
        raise RuleError(
            f"{os.fspath(path)}:{line}: it is not valid YAML: {error.problem}; {remedy}"
        ) from error
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise RuleError(
            f"{os.fspath(path)}:{line}: it holds a control character ({error.character:#x}); remove it"
        ) from error
    except RecursionError:
        raise RuleError(
            f"{os.fspath(path)}:1: it is nested too deeply; write plain lists and mappings"
        ) from None
    if root is None:
        raise RuleError(f"{os.fspath(path)}:1: it is empty; write rules: and a list of rules")
    return root


def _sections(path: str | os.PathLike[str], root: yaml.Node) -> dict[str, yaml.Node]:
    """Return what stands under each key of a file of rules: `rules`, and perhaps `options`."""
    if not isinstance(root, yaml.MappingNode):
        raise RuleError(f"{_at(path, root)}: it is not a mapping with the key 'rules'; {_WRITE_RULES}")
    found: dict[str, yaml.Node] = {}
    for key, value in root.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else "(not a text)"
        if name not in _SECTIONS:
            raise RuleError(f"{_at(path, key)}: unknown key {name!r}; {near_matches(name, list(_SECTIONS))}")
        if name in found:
            raise RuleError(f"{_at(path, key)}: the key {name!r} is there twice; {_SECTIONS[name]}")
        found[name] = value
    if "rules" not in found:
        raise RuleError(f"{_at(path, root)}: the key 'rules' is missing; {_WRITE_RULES}")
    return found


def _items(path: str | os.PathLike[str], root: yaml.Node) -> list[yaml.Node]:
    rules = _sections(path, root)["rules"]
    if not isinstance(rules, yaml.SequenceNode):
        raise RuleError(f"{_at(path, rules)}: rules is not a list; {_WRITE_RULES}")
    return list(rules.value)


def _rule(path: str | os.PathLike[str], node: yaml.Node) -> Rule:
    origin = _at(path, node)
    if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str":
        return Rule.parse(node.value, origin=origin)
    if not isinstance(node, yaml.MappingNode):
        raise RuleError(
            f"{origin}: this item is not a rule; write a mapping, or a text such as zipcode -> city"
        )
    if len(node.value) == 1 and "->" in str(node.value[0][1].value):
        raise RuleError(
            f"{origin}: to YAML a text with a colon is a mapping; "
            f'put the rule in quotes: "{node.value[0][0].value}: {node.value[0][1].value}"'
        )
    values: dict[str, Any] = {}
    nodes: dict[str, yaml.Node] = {}
    ids = [
        value.value for key, value in node.value if key.value == "id" and isinstance(value, yaml.ScalarNode)
    ]
    label = ids[0] if ids else "(no id)"
    for key, value in node.value:
        try:
            name = _key(key, values, KEYS)
            nodes[name] = value
            values[name] = _constructed(name, value)
        except _NodeError as placed:
            raise placed.fault.error(label, _at(path, placed.node)) from None
    try:
        fields = read_fields(values)
    except PlacedError as fault:
        # `tableau row 2` is a place in the value of the key `tableau`.
        culprit = nodes.get(fault.place.split()[0], node)
        raise fault.error(label, _at(path, culprit)) from None
    return Rule(**fields, origin=origin)


class _NodeError(Exception):
    """A fault of a rule or an option, and the node of the file that it is in."""

    def __init__(self, node: yaml.Node, fault: PlacedError) -> None:
        super().__init__(node, fault)
        self.node = node
        self.fault = fault


def _key(key: yaml.Node, seen: dict[str, Any], known: Sequence[str]) -> str:
    if not isinstance(key, yaml.ScalarNode):
        raise _NodeError(key, PlacedError("keys", "a key is not a text", f"use the keys {', '.join(known)}"))
    name = str(key.value)
    if name not in known:
        raise _NodeError(key, PlacedError("keys", f"unknown key {name!r}", near_matches(name, known)))
    if name in seen:
        raise _NodeError(
            key, PlacedError("keys", f"the key {name!r} is there twice", "leave one of them out")
        )
    return name


def _constructed(name: str, node: yaml.Node) -> Any:
    """Return a key's value as plain Python values."""
    for scalar in _scalars(node):
        if scalar.tag == _INT_TAG and len(scalar.value) > _NUMBER_LENGTH_MAX:
            problem = f"a number has {len(scalar.value)} characters"
            raise _NodeError(scalar, PlacedError(name, problem, "write a shorter one, or put it in quotes"))
        if scalar.tag == _INT_TAG and _AMBIGUOUS_NUMBER.fullmatch(scalar.value):
            problem = f"YAML reads {scalar.value} as octal or base 60"
            raise _NodeError(
                scalar, PlacedError(name, problem, "put it in quotes, or drop the leading zeros")
            )
    value = _plain(name, node)
    if value is None and name != "tableau":
        raise _NodeError(node, PlacedError(name, "it has no value", "write one, or leave the key out"))
    return value


def _plain(name: str, node: yaml.Node) -> Any:
    try:
        return SafeConstructor().construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        problem = getattr(error, "problem", None) or str(error)
    except (LookupError, AttributeError, ArithmeticError):  # as for !!bool x
        problem = "it is not of the type that its tag or its form says"
    raise _NodeError(node, PlacedError(name, f"YAML cannot read the value: {problem}", "write it plainly"))


def _scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.ScalarNode):
            yield node
        elif isinstance(node, yaml.MappingNode):
            pending.extend(child for pair in reversed(node.value) for child in reversed(pair))
        else:
            pending.extend(reversed(node.value))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _at(path: str | os.PathLike[str], node: yaml.Node) -> str:
    return f"{os.fspath(path)}:{_line(node)}"
