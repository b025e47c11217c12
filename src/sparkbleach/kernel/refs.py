"""Stores by reference: a compiled function passes the address of a named tuple on, not all of its arrays.

Numba passes a named tuple by value, each array as seven numbers: with a store of fifty arrays a call has
hundreds of arguments. To spare them, everything had to be compiled into its caller, and the search became a
single function of 280 KB. An entry, which Python calls, takes named tuples as they are and turns each into
a reference; `store.groups` and `store.values.table` are written as before. A named tuple within another one
is a reference, too.

References end with the call of the entry. Arrays must not be replaced meanwhile; their contents may be.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending as _extending
from numba.core import cgutils as _cgutils
from numba.core import types as _types
from numba.core.typing import templates as _templates

# Not all of it has types.
extending: Any = _extending
cgutils: Any = _cgutils
types: Any = _types
templates: Any = _templates

T = TypeVar("T")

_ADDRESS = ir.IntType(8).as_pointer()


class _Reference(types.Type):  # type: ignore[misc]
    """The type of a reference to a named tuple."""

    def __init__(self, target: Any) -> None:
        self.target = target
        # The name is part of the name of each function that is called with it: a short one is read sooner.
        super().__init__(f"reference_{hashlib.sha256(target.name.encode()).hexdigest()[:16]}")


extending.register_model(_Reference)(extending.models.OpaqueModel)


@extending.infer_getattr
class _ReferenceAttributes(templates.AttributeTemplate):  # type: ignore[misc]
    key = _Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:
        """Return the type of a field."""
        target = reference.target
        if name not in target.fields:
            return None
        found = target.types[target.fields.index(name)]
        return _Reference(found) if isinstance(found, types.BaseNamedTuple) else found


@extending.lower_getattr_generic(_Reference)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, reference: Any, address: Any, name: str) -> Any:
    """Write the instructions that read a field."""
    target = reference.target
    at = target.fields.index(name)
    pointer = builder.bitcast(address, context.get_value_type(target).as_pointer())
    field = cgutils.gep_inbounds(builder, pointer, 0, at)
    if isinstance(target.types[at], types.BaseNamedTuple):
        return builder.bitcast(field, _ADDRESS)
    return _read(builder, field)


def _read(builder: Any, pointer: Any) -> Any:
    """Read an array part by part: parts that nobody asks for are then not read at all."""
    type = pointer.type.pointee
    if isinstance(type, ir.LiteralStructType | ir.ArrayType):
        value = ir.Constant(type, ir.Undefined)
        for at in range(len(type)):
            value = builder.insert_value(
                value, _read(builder, cgutils.gep_inbounds(builder, pointer, 0, at)), at
            )
        return value
    load = builder.load(pointer)
    # It is the same at each point of the call: it need not be read again after something was written.
    load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


def _write_reference(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
    slot = builder.bitcast(cgutils.alloca_once_value(builder, arguments[0]), _ADDRESS)
    # Empty, but the compiler does not know that: nothing is read before it, or taken for known after it.
    return builder.asm(ir.FunctionType(_ADDRESS, [_ADDRESS]), "", "=r,0,~{memory}", [slot], True)


if TYPE_CHECKING or numba.config.DISABLE_JIT:

    def ref(target: T) -> T:
        """Return a reference to a named tuple; without compilation, the named tuple itself."""
        return target
else:

    @extending.intrinsic
    def ref(typing: Any, target: Any) -> Any:  # noqa: ARG001
        """Return a reference to a named tuple."""
        return _Reference(target)(target), _write_reference


def _write_prefetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array_type = signature.args[0]
    array = context.make_array(array_type)(context, builder, arguments[0])
    # In bytes from the beginning: the rows of an array with several dimensions are as long as they are.
    stride = cgutils.unpack_tuple(builder, array.strides)[0]
    at = builder.add(builder.mul(arguments[1], stride), arguments[2])
    address = builder.gep(builder.bitcast(array.data, _ADDRESS), [at])
    i32 = ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [_ADDRESS, i32, i32, i32]),
        "llvm.prefetch.p0" if context.get_value_type(types.voidptr).is_opaque else "llvm.prefetch.p0i8",
    )
    builder.call(function, [address, i32(0), i32(3), i32(1)])
    return context.get_dummy_value()


if TYPE_CHECKING or numba.config.DISABLE_JIT:

    def prefetch(array: Any, row: int, byte: int) -> None:
        """Have the processor read a byte of a row, which will be needed soon; it is a hint, no more."""
else:

    @extending.intrinsic
    def prefetch(typing: Any, array: Any, row: Any, byte: Any) -> Any:  # noqa: ARG001
        """Have the processor read a byte of a row, which will be needed soon; it is a hint, no more."""
        return types.none(array, types.int64, types.int64), _write_prefetch
