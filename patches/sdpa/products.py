"""Matrix products, transposed keys, and the layouts that einsums name."""

from __future__ import annotations

import re

import libcst as cst

from infrarsi.propose.flow import definition
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.source import (
    Source,
    argument,
    dotted,
    keywords,
    literal,
    method_call,
    text_of,
)

PRODUCTS = frozenset({"torch.matmul", "torch.bmm"})
_SOFTMAX = frozenset({"torch.softmax", "torch.nn.functional.softmax", "torch.special.softmax"})


def is_atom(node: cst.CSTNode) -> bool:
    """Tell whether a node needs no parentheses as a part of something larger."""
    atoms = cst.Name | cst.Attribute | cst.Call | cst.Subscript | cst.Integer | cst.Float
    return isinstance(node, atoms) or bool(getattr(node, "lpar", ()))


def bracketed(node: cst.BaseExpression) -> cst.BaseExpression:
    """Put parentheses around what needs them as an operand."""
    if is_atom(node):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def operands(
    source: Source, node: cst.CSTNode
) -> tuple[cst.BaseExpression, cst.BaseExpression, str] | None:
    """Give the two sides of a matrix product, and the equation where it is an einsum."""
    match node:
        case cst.BinaryOperation(left=left, operator=cst.MatrixMultiply(), right=right):
            return left, right, ""
        case cst.Call(func=func, args=[first, second]) if source.qualified(func) in PRODUCTS:
            return first.value, second.value, ""
        case cst.Call(func=func, args=[equation, first, second]) if (
            source.qualified(func) == "torch.einsum"
        ):
            text = literal(equation.value)
            return (first.value, second.value, text) if isinstance(text, str) else None
        case cst.Call(
            func=cst.Attribute(value=left, attr=cst.Name(value="matmul" | "bmm")), args=[right]
        ):
            return left, right.value, ""
    return None


def is_batched(node: cst.CSTNode) -> bool:
    """Tell whether a product is a ``bmm``, of which both sides have three axes."""
    return isinstance(node, cst.Call) and (dotted(node.func) or "bmm").endswith("bmm")


def untransposed(node: cst.CSTNode, *, flat: bool) -> cst.BaseExpression | None:
    """Give ``k`` of any spelling of ``k`` with its last two axes exchanged.

    ``flat`` says that ``k`` has three axes; otherwise it is taken to have four.
    """
    match node:
        case cst.Attribute(value=value, attr=cst.Name(value="mT")):
            return value
    found = method_call(node)
    if found is None:
        return None
    receiver, name, call = found
    if dotted(call.func) in {"torch.transpose", "torch.swapaxes"}:
        receiver, values = call.args[0].value, [literal(each.value) for each in call.args[1:]]
    else:
        values = [literal(each.value) for each in call.args]
    if name in {"transpose", "swapaxes", "swapdims"} and len(values) == 2:
        return receiver if set(values) in ({-1, -2}, {1, 2} if flat else {2, 3}) else None
    last_two = (0, 2, 1) if flat else (0, 1, 3, 2)
    if name == "permute" and values in ([*last_two], [last_two]):
        return receiver
    return None


def is_transposed(source: Source, node: cst.CSTNode, at: cst.CSTNode) -> bool:
    """Tell whether the right side of the scores is a transposed key, made here or above."""
    text = text_of(node)
    if isinstance(node, cst.Name):
        above = definition(source, node.value, at)
        text = text_of(above.value) if above else ""
    return bool(re.search(r"\.(transpose|permute|swapaxes)\(|\.mT\b|rearrange\(", text))


def negated(source: Source, node: cst.CSTNode) -> str:
    """Give the text of a boolean tensor's negation."""
    code = source.module.code_for_node
    match node:
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=inner):
            return code(inner)
        case cst.Comparison(left=left, comparisons=[comparison]):
            for operator, opposite in ((cst.Equal, "!="), (cst.NotEqual, "==")):
                if isinstance(comparison.operator, operator):
                    return f"({code(left)} {opposite} {code(comparison.comparator)})"
    return f"~({code(node)})" if not isinstance(node, cst.Name) else f"~{node.value}"


def layout(inner: str, outer: str) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """Give the permutations of query, key, value and output to and from SDPA's layout."""
    matched = re.fullmatch(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]+)", inner.replace(" ", ""))
    weighed = re.fullmatch(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]+)", outer.replace(" ", ""))
    if not matched or not weighed:
        return None
    query, key, scores = matched.groups()
    weights, value, output = weighed.groups()
    if len(scores) != len(weights) or any(
        len(set(each)) != len(each) for each in (*matched.groups(), *weighed.groups())
    ):
        return None
    names = str.maketrans(weights, scores)
    contracted = set(query) & set(key) - set(scores)
    batch, row, column = scores[:-2], scores[-2], scores[-1]
    fresh = [letter for letter in value if letter not in weights]
    if len(contracted) != 1 or len(fresh) != 1:
        return None
    depth, width = contracted.pop(), "~"
    names = {**names, ord(fresh[0]): width}
    value, output = value.translate(names), output.translate(names)
    wanted = [batch + row + depth, batch + column + depth, batch + column + width]
    if any(
        sorted(have) != sorted(want) for have, want in zip((query, key, value), wanted, strict=True)
    ):
        return None
    made = batch + row + width
    if sorted(output) != sorted(made):
        return None
    orders = [
        [have.index(letter) for letter in want]
        for have, want in zip((query, key, value), wanted, strict=True)
    ]
    return orders[0], orders[1], orders[2], [made.index(letter) for letter in output]


def permuted(text: str, order: list[int]) -> str:
    """Give the text of a tensor with its axes in another order."""
    if order == sorted(order):
        return text
    moved = [n for n, place in enumerate(order) if n != place]
    if len(moved) == 2:
        return f"{text}.transpose({moved[0]}, {moved[1]})"
    return f"{text}.permute({', '.join(map(str, order))})"


def softmax_input(
    repository: Repository, source: Source, call: cst.Call
) -> cst.BaseExpression | None:
    """Give what a call takes the softmax of, over the last axis."""
    full = source.qualified(call.func) or ""
    found = method_call(call)
    module = repository.module_kind(source, call.func)
    if full in _SOFTMAX:
        inner, dim = argument(call, 0, "input"), argument(call, 1, "dim")
    elif module is not None and module[0] == "torch.nn.Softmax":
        construction = module[1].node
        assert isinstance(construction, cst.Call)
        inner, dim = argument(call, 0), argument(construction, 0, "dim")
    elif isinstance(call.func, cst.Call) and (
        source.qualified(call.func.func) == "torch.nn.Softmax"
    ):
        inner, dim = argument(call, 0), argument(call.func, 0, "dim")
    elif found is not None and found[1] == "softmax":
        inner, dim = found[0], argument(call, 0, "dim")
    else:
        return None
    if literal(dim) not in (-1, 3):
        return None
    dtype = keywords(call).get("dtype")
    if dtype is not None and source.qualified(dtype) != "torch.float32":
        raise DoesNotApply(f"the softmax is taken in {text_of(dtype)}")
    return inner
