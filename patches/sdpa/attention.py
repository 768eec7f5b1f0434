"""Reads hand-written attention: softmax(q k^T, scaled and masked) v, from the output inwards."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import libcst as cst

from infrarsi.propose.flow import definition
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.source import (
    Source,
    argument,
    method_call,
    text_of,
    walk,
)

from .fills import Where
from .masks import MaskProof
from .numbers import is_number
from .products import (
    PRODUCTS,
    bracketed,
    is_atom,
    is_batched,
    is_transposed,
    layout,
    negated,
    operands,
    permuted,
    softmax_input,
    untransposed,
)

_CASTS = frozenset({"to", "type_as", "float", "type", "half", "bfloat16", "contiguous"})


@dataclass(frozen=True)
class Mask:
    """One mask: the text of what SDPA needs, and whether it is causal."""

    text: str
    kind: str
    """``keep`` (true where attended) or ``add``."""
    causal: bool
    condition: str | None
    parts: tuple[cst.CSTNode, ...]


@dataclass
class Attention:
    """What was read of one attention."""

    product: cst.BaseExpression
    """The outer product, in whose place the call will stand."""
    statement: cst.CSTNode
    value: str = ""
    query: str = ""
    key: str = ""
    scale: str = "1.0"
    default_scale: bool = False
    dropout: str | None = None
    masks: list[Mask] = field(default_factory=list)
    consumed: dict[cst.CSTNode, str] = field(default_factory=dict)
    """Statements that the call replaces, with the name that each of them gives a value."""
    back: str = ""
    """A permutation of the output, where an einsum asks for one."""


class AttentionReader:
    """Reads the attention around one outer product, or finds that it is none."""

    def __init__(self, repository: Repository, source: Source, product: cst.BaseExpression) -> None:
        self.repository, self.source = repository, source
        self.proof = MaskProof(repository)
        self.found = Attention(product, source.statement(product))
        self.factors: list[str] = []
        self.factor_nodes: list[tuple[cst.CSTNode, bool, cst.CSTNode]] = []
        self.must_be_infinite = False

    def read(self) -> Attention | None:
        """Give the attention; nothing where the product is no attention at all.

        Raises
        ------
        DoesNotApply
            It is attention, but with something that SDPA does not do.
        """
        sides = operands(self.source, self.found.product)
        if sides is None:
            return None
        weights, value, equation = sides
        self.found.value = self._text(value)
        scores = self._weights(weights, self.found.statement)
        if scores is None:
            return None
        inner = self._scores(*scores)
        if inner is None:
            return None
        if equation or inner[2]:
            self._permute(inner, equation)
        self._finish_scale()
        return self.found

    def _text(self, node: cst.CSTNode) -> str:
        code = self.source.module.code_for_node(node).strip()
        return code if is_atom(node) else f"({code})"

    def _follow(
        self, node: cst.CSTNode, at: cst.CSTNode
    ) -> tuple[cst.BaseExpression, cst.CSTNode, str | None] | None:
        """Go from a name to its value, and note that the statement there is used up."""
        assert isinstance(node, cst.Name)
        above = definition(self.source, node.value, at)
        if above is None:
            return None
        self.found.consumed[above.statement] = node.value
        condition = text_of(above.condition) if above.condition is not None else None
        return above.value, above.statement, condition

    # The weights: casts and dropout around a softmax.

    def _weights(
        self, node: cst.CSTNode, at: cst.CSTNode
    ) -> tuple[cst.BaseExpression, cst.CSTNode] | None:
        condition: str | None = None
        for _ in range(12):
            if isinstance(node, cst.Name):
                above = self._follow(node, at)
                if above is None or (condition and above[2]):
                    return None
                node, at = above[0], above[1]
                condition = above[2] or condition
                continue
            if not isinstance(node, cst.Call):
                return None
            inner = softmax_input(self.repository, self.source, node)
            if inner is not None:
                return None if condition else (inner, at)
            inner = self._dropout(node, condition)
            if inner is not None:
                node, condition = inner, None
                continue
            found = method_call(node)
            if found is None or found[1] not in _CASTS or condition:
                return None
            node = found[0]
        return None

    def _dropout(self, call: cst.Call, condition: str | None) -> cst.BaseExpression | None:
        full = self.source.qualified(call.func) or ""
        if full in {"torch.nn.functional.dropout", "torch.dropout"}:
            rate = argument(call, 1, "p")
            training = argument(call, 2, "training") or argument(call, 2, "train")
            text = self._text(rate) if rate is not None else "0.5"
            wanted = self._text(training) if training is not None else "True"
            if wanted != "True":
                text = f"{text} if {wanted} else 0.0"
        else:
            module = self.repository.module_kind(self.source, call.func)
            if module is None or module[0] != "torch.nn.Dropout" or len(call.args) != 1:
                return None
            name = self._text(call.func)
            text = f"{name}.p if {name}.training else 0.0"
        if condition:
            text = f"({text}) if {condition} else 0.0"
        if self.found.dropout is not None:
            raise DoesNotApply("dropout is applied twice to the attention weights")
        self.found.dropout = text
        return argument(call, 0, "input")

    # The scores: masks and scales around the inner product.

    def _scores(
        self, node: cst.CSTNode, at: cst.CSTNode
    ) -> tuple[cst.CSTNode, cst.CSTNode, str | None] | None:
        condition: str | None = None
        for _ in range(24):
            if isinstance(node, cst.Name):
                above = self._follow(node, at)
                if above is None or (condition and above[2]):
                    return None
                node, at = above[0], above[1]
                condition = above[2] or condition
                continue
            sides = operands(self.source, node)
            if sides is not None and not condition:
                return self._query_and_key(*sides, at, flat=is_batched(node))
            step = self._masked(node, at, condition) or (
                None if condition else self._scaled(node, at)
            )
            if step is None:
                return None
            node, condition = step, None
        return None

    def _holds_product(self, node: cst.CSTNode, at: cst.CSTNode, depth: int = 12) -> bool:
        if depth == 0:
            return False
        if operands(self.source, node) is not None:
            return True
        match node:
            case cst.Name(value=name):
                above = definition(self.source, name, at)
                return above is not None and self._holds_product(
                    above.value, above.statement, depth - 1
                )
            case cst.BinaryOperation(left=left, right=right):
                return any(self._holds_product(each, at, depth - 1) for each in (left, right))
            case cst.Call(func=func):
                inner = [each.value for each in node.args]
                inner += [func.value] if isinstance(func, cst.Attribute) else []
                return any(self._holds_product(each, at, depth - 1) for each in inner)
        return False

    def _scaled(self, node: cst.CSTNode, at: cst.CSTNode) -> cst.BaseExpression | None:
        """Peel a factor, or a cast, off the scores."""
        match node:
            case cst.BinaryOperation(left=left, right=right, operator=cst.Multiply()):
                if not self._holds_product(left, at):
                    left, right = right, left
                self.factor_nodes.append((right, False, at))
                return left
            case cst.BinaryOperation(left=left, right=right, operator=cst.Divide()):
                self.factor_nodes.append((right, True, at))
                return left if self._holds_product(left, at) else None
        found = method_call(node)
        if found is None:
            return None
        receiver, name, call = found
        full = self.source.qualified(call.func)
        other = argument(call, 0)
        if full in {"torch.mul", "torch.div"}:
            receiver, name, other = call.args[0].value, full.rpartition(".")[2], argument(call, 1)
        if name in {"mul", "div"} and other is not None:
            self.factor_nodes.append((other, name == "div", at))
            return receiver
        return receiver if name in _CASTS and full not in PRODUCTS else None

    def _masked(
        self, node: cst.CSTNode, at: cst.CSTNode, condition: str | None
    ) -> cst.BaseExpression | None:
        """Peel a mask off the scores."""
        match node:
            case cst.BinaryOperation(left=left, right=right, operator=cst.Add()):
                scores, other = (left, right) if self._holds_product(left, at) else (right, left)
                return self._added(scores, other, at, condition)
            case cst.BinaryOperation(left=left, right=right, operator=cst.Subtract()):
                negated = cst.UnaryOperation(cst.Minus(), bracketed(right))
                return self._added(left, negated, at, condition)
        found = method_call(node)
        if found is None:
            return None
        receiver, name, call = found
        shift = 0
        if self.source.qualified(call.func) in {"torch.masked_fill", "torch.where", "torch.add"}:
            receiver, shift = call.args[0].value, 1
        values = [argument(call, position) for position in range(3)]
        if name == "masked_fill":
            mask = values[shift] or argument(call, None, "mask")
            fill = values[shift + 1] or argument(call, None, "value")
            return (
                None
                if mask is None or fill is None
                else self._filled(receiver, mask, fill, at, condition, keep=False)
            )
        if name == "where" and shift and values[1] is not None and values[2] is not None:
            if self._holds_product(values[1], at):
                return self._filled(values[1], receiver, values[2], at, condition, keep=True)
            return self._filled(values[2], receiver, values[1], at, condition, keep=False)
        if name == "add" and values[shift] is not None:
            return self._added(receiver, values[shift], at, condition)
        return None

    def _added(
        self, scores: cst.BaseExpression, mask: cst.CSTNode, at: cst.CSTNode, condition: str | None
    ) -> cst.BaseExpression:
        causal = self.proof.kind(mask, Where(self.source, at)) == "add"
        if self.factor_nodes and not causal:
            raise DoesNotApply(f"the scores are scaled after {text_of(mask)} is added to them")
        self.found.masks.append(
            Mask(
                self._text(mask),
                "add",
                causal,
                self._condition(condition, mask, causal, at),
                (mask,),
            )
        )
        return scores

    def _filled(
        self, scores: cst.BaseExpression, mask: cst.CSTNode, fill: cst.CSTNode, at: cst.CSTNode,
        condition: str | None, *, keep: bool,
    ) -> cst.BaseExpression:  # fmt: skip
        value = self.proof.fills.low(fill, Where(self.source, at))
        kind = self.proof.kind(mask, Where(self.source, at))
        causal = kind == ("keep" if keep else "drop")
        if value is None:
            raise DoesNotApply(f"masked scores become {text_of(fill)}, which is not very negative")
        holds = self._condition(condition, mask, causal, at)
        text = self._text(mask) if keep else negated(self.source, mask)
        if causal or math.isinf(value):
            self.found.masks.append(Mask(text, "keep", causal, holds, (mask,)))
            return scores
        # Where a row is masked everywhere, a finite fill gives an even average that sends no
        # gradient to the scores; no mask of SDPA does that.
        raise DoesNotApply(
            f"masked scores become {text_of(fill)}, and the mask is not provably causal, so a row "
            "that is masked everywhere would come out otherwise"
        )

    def _condition(
        self, condition: str | None, mask: cst.CSTNode, causal: bool, at: cst.CSTNode
    ) -> str | None:
        """Drop the condition ``mask is not None`` of a mask that every caller provably passes."""
        if condition is None or not causal:
            return condition
        bare = condition.strip("()")
        names = {each.value for each in walk(mask) if isinstance(each, cst.Name)}
        match = re.fullmatch(r"(\w+) is not None", bare)
        return None if match and match[1] in names else condition

    # Query, key and scale.

    def _query_and_key(
        self, left: cst.CSTNode, right: cst.CSTNode, equation: str, at: cst.CSTNode, *, flat: bool
    ) -> tuple[cst.CSTNode, cst.CSTNode, str | None] | None:
        self.found.query = self._text(left)
        if equation:
            self.found.key = self._text(right)
            return left, right, equation
        key = untransposed(right, flat=flat)
        if key is not None:
            self.found.key = self._text(key)
        elif is_transposed(self.source, right, at):
            self.found.key = f"{self._text(right)}.transpose(-2, -1)"
        else:
            return None
        texts = self.found.query + self.found.key
        if ".float()" in texts and ".float()" not in self.found.value:
            raise DoesNotApply("query and key are cast to float32 but the values are not")
        return left, right, None

    def _permute(self, inner: tuple[cst.CSTNode, cst.CSTNode, str | None], outer: str) -> None:
        """Bring the layouts that the einsums name into the one that SDPA wants."""
        if not inner[2] or not outer:
            # One of the two is a plain product, so that layout must be the usual one already.
            plan = layout(inner[2] or "bhid,bhjd->bhij", outer or "bhij,bhjd->bhid")
            usual = plan is not None and all(order == sorted(order) for order in plan)
            if not usual:
                raise DoesNotApply("an einsum and a product use different layouts")
            return
        plan = layout(inner[2], outer)
        if plan is None:
            raise DoesNotApply(f"the layout of einsum {inner[2]!r} and {outer!r} is not attention")
        texts = [self.found.query, self.found.key, self.found.value]
        self.found.query, self.found.key, self.found.value = (
            permuted(text, order) for text, order in zip(texts, plan[:3], strict=True)
        )
        self.found.back = permuted("", plan[3])

    def _finish_scale(self) -> None:
        texts = []
        for node, divides, at in self.factor_nodes:
            if not is_number(self.repository, self.source, node, at):
                raise DoesNotApply(f"the scale {text_of(node)} may be a tensor")
            texts.append(f"1.0 / {self._text(node)}" if divides else self._text(node))
            self.found.default_scale = self._is_default(node, divides=divides)
        self.found.scale = " * ".join(texts[:1] + [f"({each})" for each in texts[1:]]) or "1.0"
        self.found.default_scale = self.found.default_scale and len(texts) == 1

    def _is_default(self, node: cst.CSTNode, *, divides: bool) -> bool:
        """Tell whether a factor is one over the root of the head's width, as SDPA's own is."""
        for side in (self.found.key, self.found.query):
            for width in (f"{side}.size(-1)", f"{side}.shape[-1]"):
                roots = (f"math.sqrt({width})", f"{width} ** 0.5")
                usual = roots if divides else (
                    *(f"1 / {root}" for root in roots), *(f"1.0 / {root}" for root in roots),
                    f"1 / ({width} ** 0.5)", f"{width} ** -0.5",
                )  # fmt: skip
                if text_of(node) in {text_of(cst.parse_expression(each)) for each in usual}:
                    return True
        return False
