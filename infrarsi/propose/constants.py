"""What stays the same from one forward pass to the next.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

import libcst as cst

from infrarsi.propose.flow import binds, only_value
from infrarsi.propose.repository import Class
from infrarsi.propose.source import Source, argument, dotted, literal, text_of, walk


def is_plain(owner: Class, value: cst.BaseExpression, depth: int = 4) -> bool:
    """Tell whether what a constructor stores is a number: a setting, or arithmetic on settings."""
    match value:
        case cst.Integer() | cst.Float():
            return True
        case cst.BinaryOperation(left=left, right=right):
            return depth > 0 and all(is_plain(owner, each, depth - 1) for each in (left, right))
        case cst.Call(func=cst.Name(value="int" | "float" | "len" | "max" | "min")):
            return True
        case cst.Attribute():
            return not (dotted(value) or "self.").startswith("self.")
        case cst.Name(value=name):
            found = only_value(owner.source, name, value)
            if found is not None:
                return depth > 0 and is_plain(owner, found[0], depth - 1)
            function = owner.source.nearest(value, cst.FunctionDef)
            return function is not None and not binds(function.body, name)
    return False


def is_constant_buffer(owner: Class, name: str) -> bool:
    """Tell whether an attribute is a buffer that only its registration gives a value."""
    registered = [
        call for call in owner.source.every(cst.Call, owner.node)
        if dotted(call.func) == "self.register_buffer"
        and literal(argument(call, 0, "name")) == name
    ]  # fmt: skip
    return len(registered) == 1 and len(owner.attribute(name)) == 1


def changes_in_place(function: cst.CSTNode, name: str) -> bool:
    """Tell whether a function changes what a name holds, or may hand it to something that does."""
    for node in walk(function):
        match node:
            case cst.Call(
                func=cst.Attribute(value=cst.Name(value=value), attr=cst.Name(value=method))
            ):
                if value == name and method.endswith("_") and not method.startswith("_"):
                    return True
            case cst.AugAssign(target=target):
                if dotted(target) == name or _base(target) == name:
                    return True
            case cst.AssignTarget(target=cst.Subscript() as target):
                if _base(target) == name:
                    return True
            case cst.Arg(keyword=cst.Name(value="out"), value=cst.Name(value=value)):
                if value == name:
                    return True
    return False


def _base(node: cst.CSTNode) -> str | None:
    return dotted(node.value) if isinstance(node, cst.Subscript) else None


def only_computes(source: Source, value: cst.BaseExpression) -> bool:
    """Tell whether leaving an expression out changes nothing: only torch makes and shapes here."""
    for node in walk(value):
        if isinstance(node, cst.Call):
            full = source.qualified(node.func) or ""
            method = isinstance(node.func, cst.Attribute) and not text_of(node).endswith("_()")
            own = (dotted(node.func) or "").startswith("self.")
            if (
                not full.startswith(("torch.", "math."))
                and full not in {"float", "int"}
                and (not method or own)
            ):
                return False
    return True
