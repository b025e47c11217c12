"""Options in groups: a command takes a dataclass instead of a parameter for each option."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, get_args, get_type_hints

from typer.models import OptionInfo


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let Typer see the fields of each parameter that is a dataclass as options of the command.

    The class attribute `panel` of the dataclass names the part of the help text for its options.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _options(groups[parameter.name])
        else:
            kind = Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=hints[parameter.name]))

    @wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options(group: Any) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        for info in get_args(hints[field.name]):
            if isinstance(info, OptionInfo) and info.rich_help_panel is None:
                info.rich_help_panel = group.panel
        default = Parameter.empty if field.default is MISSING else field.default
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name])
