"""Finds out what the expressions in a loop over experts are worth."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from infrarsi.propose.experts.origins import one_hot_axes
from infrarsi.propose.experts.values import (
    Choice,
    Code,
    Index,
    Mask,
    Masked,
    Places,
    Product,
    Round,
    Selected,
    Value,
)
from infrarsi.propose.flow import loads, stores
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.source import Source, argument, children_of, literal, method_call

_NUMBERS = frozenset({"float", "to", "type_as", "type", "long", "int", "half", "bfloat16"})
_FLAT = frozenset({"flatten", "squeeze", "view", "reshape", "long", "tolist", "contiguous"})
_CASTS = frozenset({"to", "type_as", "float", "half", "bfloat16", "type"})


class Reader:
    """The names of one loop, and what they are worth so far."""

    def __init__(self, repository: Repository, source: Source, loop: cst.For) -> None:
        self.repository, self.source, self.loop = repository, source, loop
        self.bound = frozenset(name.value for name in stores(loop))
        self.names: dict[str, Value] = {}
        used = self.bound | {name.value for name in loads(loop)}
        self.rows = next(name for name in ("rows", "its_rows", "expert_rows") if name not in used)
        """The name that an expert's rows get."""
        self.held: str | None = None
        """Text of the list that is indexed by the expert's number, as far as one was seen."""

    def varies(self, node: cst.CSTNode) -> bool:
        """Tell whether an expression depends on the round."""
        return any(name.value in self.bound for name in loads(node))

    def value(self, node: cst.BaseExpression) -> Value:
        """Give what an expression that depends on the round is worth.

        Raises
        ------
        DoesNotApply
            It is nothing that the rewriting understands.
        """
        known = self.known(node)
        return known if known is not None else self._code(node)

    def known(self, node: cst.CSTNode) -> Value | None:
        """Give what an expression is worth, where it belongs to the choice of tokens."""
        match node:
            case cst.Name(value=name):
                return self.names.get(name)
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(cst.Equal(), right)]):
                return self._equal(left, right)
            case cst.Call():
                return self._call(node)
            case cst.Subscript():
                return self._subscript(node)
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                return self._times(left, right) or self._times(right, left)
        return None

    def _equal(self, left: cst.BaseExpression, right: cst.BaseExpression) -> Mask | None:
        for chosen, number in ((left, right), (right, left)):
            if isinstance(self.known(number), Round) and not self.varies(chosen):
                return Mask(Choice(self.source.code(chosen)))
        return None

    # Calls.

    def _call(self, call: cst.Call) -> Value | None:
        full = self.source.qualified(call.func) or ""
        plain = [each.value for each in call.args if each.keyword is None]
        match full, plain:
            case "torch.eq", [left, right]:
                return self._equal(left, right)
            case (("torch.where" | "torch.nonzero" | "torch.any" | "torch.squeeze"), [first, *_]):
                if full == "torch.where" and len(call.args) != 1:
                    return None
                return self._method(first, full.removeprefix("torch."), call, shift=1)
            case ("int", [first]) if isinstance(self.known(first), Round):
                return Round()
        found = method_call(call)
        return self._method(found[0], found[1], call, shift=0) if found else None

    def _method(
        self, receiver: cst.BaseExpression, name: str, call: cst.Call, *, shift: int
    ) -> Value | None:
        if not self.varies(receiver):
            return self._equal_method(receiver, name, call)
        value = self.known(receiver)
        match value:
            case Round():
                return value if name == "item" else None
            case Mask():
                return self._of_mask(value, name, call, shift)
            case Places(table=True, choice=choice) if name in _FLAT:
                return Index(choice, "row")
            case Index() if name in _FLAT | {"to"}:
                return value
            case Selected() | Masked():
                return _reshaped(value, name, call)
            case Product():
                if name in _CASTS or (name == "squeeze" and call.args):
                    return value
                raise DoesNotApply(f"the weighted outputs go through {name!r}")
        return None

    def _equal_method(
        self, receiver: cst.BaseExpression, name: str, call: cst.Call
    ) -> Value | None:
        if name == "eq" and len(call.args) == 1:
            return self._equal(receiver, call.args[0].value)
        return None

    def _of_mask(self, mask: Mask, name: str, call: cst.Call, shift: int) -> Value | None:
        if name == "any":
            axis = literal(argument(call, shift, "dim"))
            wanted = (0,) if mask.choice.by_slot else (-1, 1, 2)
            if axis in wanted and not mask.by_row:
                return Mask(Choice(mask.choice.chosen), by_row=True)
            return None
        if name in {"nonzero", "where"}:
            as_tuple = literal(argument(call, None, "as_tuple"))
            return Places(mask.choice, table=name == "nonzero" and as_tuple is not True)
        if name in _FLAT | {"bool"} and name != "tolist":
            return mask
        if name in _NUMBERS:
            return Masked(mask.choice, "") if not mask.by_row else None
        return None

    # Subscripts.

    def _subscript(self, node: cst.Subscript) -> Value | None:
        parts = [each.slice for each in node.slice]
        if self.varies(node.value):
            return self._within(self.known(node.value), parts)
        base = self.source.code(node.value)
        tags = [self._tag(part) for part in parts]
        while tags and tags[-1] in (":", "..."):
            tags.pop()
        if "e" in tags and (mask := self._one_hot(node.value, tags)):
            return mask
        column = len(tags) > 1 and tags[-1] == "None"
        tags = tags[:-1] if column else tags
        match tags:
            case [Index(axis="row", choice=choice)]:
                return Selected(choice, base, column=column)
            case [Mask(choice=choice) as mask] if not choice.by_slot:
                return Selected(choice, base, by_mask=not mask.by_row, column=column)
            case ["None", Index(axis="row", choice=choice)] if not column:
                return Selected(choice, base, lead=True)
            case [Index(axis="row", choice=one), Index(axis="slot", choice=other)] if one == other:
                return Selected(one, base, cells=True, column=column)
            case [(Index(axis="row") | Mask(by_row=True)) as rows, "e"]:
                return Selected(rows.choice, base, dense=True, column=column)
            case [(Index(axis="row") | Mask()) as rows, cst.Index(value=fixed)]:
                text = f"{base}[..., {self.source.code(fixed)}]"
                return Selected(rows.choice, text, column=column)
        return None

    def _tag(self, part: cst.BaseSlice) -> Value | str | cst.BaseSlice:
        match part:
            case cst.Slice(lower=None, upper=None, step=None):
                return ":"
            case cst.Index(value=cst.Ellipsis()):
                return "..."
            case cst.Index(value=cst.Name(value="None")):
                return "None"
            case cst.Index(value=value) if self.varies(value):
                known = self.known(value)
                if isinstance(known, Places) and not known.table:
                    return Mask(known.choice)  # all indices of a mask select what the mask does
                return "e" if isinstance(known, Round) else known or "?"
        return part

    def _within(self, value: Value | None, parts: list[cst.BaseSlice]) -> Value | None:
        """Give a subscript of something that depends on the round."""
        texts = [cst.Module(body=()).code_for_node(part).strip() for part in parts]
        match value:
            case Round() if texts == ["0"]:
                return value
            case Places(table=False, choice=choice) if texts in (["0"], ["1"]):
                return Index(choice, _axis(choice, int(texts[0])))
            case Places(table=True, choice=choice) if texts in ([":", "0"], [":", "1"]):
                return Index(choice, _axis(choice, int(texts[1])))
            case Selected(column=False) if texts in ([":", "None"], ["...", "None"]):
                return replace(value, column=True)
            case Masked(summed=True, column=False, choice=choice, base=base):
                if texts in ([":", "None"], ["...", "None"]):
                    return Masked(choice, base, summed=True, column=True)
                return self._of_masked(value, parts)
            case Masked(summed=True, column=True):
                return self._of_masked(value, parts)
        return None

    def _of_masked(self, value: Masked, parts: list[cst.BaseSlice]) -> Selected | None:
        tags = [self._tag(part) for part in parts]
        column = value.column or (len(tags) == 2 and tags[1] == "None")
        match tags[0]:
            case (Index(axis="row") | Mask()) as rows if rows.choice == value.choice and len(
                tags
            ) == 1 + (column and not value.column):
                return Selected(value.choice, value.base, column=column)
        return None

    def _one_hot(
        self, base: cst.BaseExpression, tags: list[Value | str | cst.BaseSlice]
    ) -> Mask | None:
        found = one_hot_axes(self.source, base, self.loop)
        if found is None:
            return None
        chosen, axes = found
        at = tags.index("e")
        if tags[0] == "..." or at + 1 == len(axes):
            at = len(axes) - 1
        if axes[at] != len(axes) - 1 or any(tag not in ("e", ":", "...") for tag in tags):
            return None
        rest = tuple(axis for axis in axes if axis != axes[at])
        return Mask(Choice(chosen, by_slot=rest == (1, 0))) if len(rest) <= 2 else None

    # Weights, and code.

    def _times(self, left: cst.BaseExpression, right: cst.BaseExpression) -> Value | None:
        """Give a product in which the right side is the weight, or the mask."""
        if not self.varies(right):
            return None
        factor = self.known(right)
        match factor:
            case Mask(choice=choice, by_row=False) | Masked(choice=choice, base="", summed=False):
                if not self.varies(left):
                    return Masked(choice, self.source.code(left))
            case Selected(column=True) if self.varies(left):
                inner = self.value(left)
                if isinstance(inner, Code) and inner.tokens is not None:
                    return Product(inner, factor)
                raise DoesNotApply("what the weights are multiplied with cannot be read")
        return None

    def _code(self, node: cst.BaseExpression) -> Code:
        """Give an expression as code that gets the expert's number and its rows."""
        leaves: dict[cst.CSTNode, str] = {}
        tokens: list[Selected] = []
        self._collect(node, leaves, tokens)
        if len(set(tokens)) > 1:
            raise DoesNotApply("an expert gets more than its tokens")
        changed = node.visit(_Leaves(leaves))
        assert isinstance(changed, cst.BaseExpression)
        text = self.source.module.code_for_node(changed).strip()
        return Code(text, tokens[0] if tokens else None)

    def _collect(
        self, node: cst.CSTNode, leaves: dict[cst.CSTNode, str], tokens: list[Selected]
    ) -> None:
        if isinstance(node, cst.Annotation) or not self.varies(node):
            return
        value = self.known(node)
        match value:
            case Round():
                return
            case Selected(column=False, lead=False, dense=False):
                leaves[node] = self.rows
                tokens.append(value)
            case Code(text=text, tokens=given):
                leaves[node] = text
                tokens += [given] if given is not None else []
            case None:
                self._note_held(node)
                for child in children_of(node):
                    if child is not getattr(node, "attr", None) and child is not getattr(
                        node, "keyword", None
                    ):
                        self._collect(child, leaves, tokens)
            case _:
                code = self.source.code(node)
                raise DoesNotApply(f"{code[:60]!r} is used in a way that cannot be read")

    def _note_held(self, node: cst.CSTNode) -> None:
        """Note what is indexed by the expert's number; refuse what cannot be followed."""
        match node:
            case cst.Subscript(value=base, slice=[cst.SubscriptElement(cst.Index(index))]):
                if isinstance(self.known(index), Round) and not self.varies(base):
                    self.held = self.source.code(base)
            case cst.Name() | cst.Lambda() | cst.NamedExpr():
                raise DoesNotApply(f"what {self.source.code(node)[:60]!r} holds is not certain")


def _axis(choice: Choice, position: int) -> str:
    return "slot" if (position == 1) != choice.by_slot else "row"


def places(choice: Choice, count: int) -> list[Index]:
    """Give the indices that unpacking ``nonzero(as_tuple=True)`` gives."""
    return [Index(choice, _axis(choice, position)) for position in range(count)]


def _reshaped(value: Selected | Masked, name: str, call: cst.Call) -> Value | None:
    """Give what a method that only reshapes makes of entries that were picked."""
    given = [literal(each.value) for each in call.args if each.keyword is None]
    if isinstance(value, Masked):
        axis = literal(argument(call, 0, "dim"))
        if name == "sum" and value.base and not value.summed and axis in (-1, 1):
            keeps = literal(argument(call, 1, "keepdim")) is True
            return Masked(value.choice, value.base, summed=True, column=keeps)
        if name == "unsqueeze" and value.summed and given in ([-1], [1]):
            return Masked(value.choice, value.base, summed=True, column=True)
        return None
    rows = name in {"reshape", "view"} and len(given) == 2 and given[0] == -1
    if value.lead:
        clears = rows or (name == "squeeze" and given == [0])
        return replace(value, lead=False) if clears else None
    if not value.column and (
        (name == "unsqueeze" and given in ([-1], [1])) or (rows and given[1] == 1)
    ):
        return replace(value, column=True)
    return value if value.column and name in _CASTS else None


class _Leaves(cst.CSTTransformer):
    """Puts other expressions in the place of some."""

    def __init__(self, leaves: dict[cst.CSTNode, str]) -> None:
        super().__init__()
        self.leaves = leaves

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        text = self.leaves.get(original_node)
        return updated_node if text is None else cst.parse_expression(text)
