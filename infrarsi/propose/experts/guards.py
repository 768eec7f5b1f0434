"""Which experts a loop visits, and which of them it passes over."""

from __future__ import annotations

import libcst as cst

from infrarsi.propose.experts.origins import one_hot_axes, origin
from infrarsi.propose.experts.reader import Reader
from infrarsi.propose.experts.values import Choice, Index, Mask, Places, Round, Selected, Value
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.source import argument, literal, method_call, text_of, walk


class Guards:
    """Reads the tests of one loop."""

    def __init__(self, reader: Reader) -> None:
        self.repository, self.source, self.loop = reader.repository, reader.source, reader.loop
        self.known = reader.known

    def says_empty(self, test: cst.BaseExpression) -> bool | None:
        """Tell whether a test is true where no token chose the expert, or where one did."""
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                known = self.says_empty(inner)
                return None if known is None else not known
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
                if not self._is_count(left):
                    return None
                match operator, literal(right):
                    case (cst.Equal(), 0) | (cst.LessThan(), 1) | (cst.LessThanEqual(), 0):
                        return True
                    case (cst.NotEqual(), 0) | (cst.GreaterThan(), 0) | (cst.GreaterThanEqual(), 1):
                        return False
                return None
        return False if self._is_count(test) else None

    def _is_count(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression counts the tokens of the round, or says if there are any."""
        found = method_call(node)
        if found and found[1] == "item":
            return self._is_count(found[0])
        known = self.known
        match node:
            case cst.Call(func=cst.Name(value="len"), args=[only]):
                return _has_rows(known(only.value))
            case cst.Call(args=[only]) if self.source.qualified(node.func) in {
                "torch.any", "torch.sum", "torch.count_nonzero"
            }:  # fmt: skip
                return isinstance(known(only.value), Mask)
            case cst.Subscript(
                value=cst.Attribute(value=inner, attr=cst.Name(value="shape")),
                slice=[cst.SubscriptElement(cst.Index(cst.Integer(value="0")))],
            ):
                return _has_rows(known(inner))
            case cst.Subscript(value=base, slice=[cst.SubscriptElement(cst.Index(index))]):
                return isinstance(known(index), Round) and self._is_histogram(base)
        if not found:
            return False
        value = known(found[0])
        if found[1] in {"any", "sum", "count_nonzero"} and not found[2].args:
            return isinstance(value, Mask)
        if found[1] in {"numel", "nelement"}:
            return isinstance(value, Index)
        size = found[1] == "size" and [literal(each.value) for each in found[2].args] == [0]
        return size and _has_rows(value)

    def _is_histogram(self, node: cst.BaseExpression) -> bool:
        """Tell whether a list holds the number of choices of each expert, by ``bincount``."""
        if not isinstance(node, cst.Name):
            return False
        found = origin(self.source, node.value, self.loop)
        if found is None or found.element is not None:
            return False
        value = found.value
        inner = method_call(value)
        while inner and inner[1] in {"tolist", "cpu", "to", "numpy"}:
            value = inner[0]
            inner = method_call(value)
        if not isinstance(value, cst.Call):
            return False
        full = self.source.qualified(value.func)
        if full != "torch.bincount" and not (inner and inner[1] == "bincount"):
            return False
        counted = argument(value, 0, "input") if full == "torch.bincount" else inner and inner[0]
        chosen = text_of(counted).split(".")[0] if counted is not None else ""
        then = origin(self.source, chosen, found.statement)
        now = origin(self.source, chosen, self.loop)
        same = then is not None and now is not None and then.statement is now.statement
        return same and chosen in self._choices()

    def _choices(self) -> set[str]:
        """Give the tensors that the loop compares with the expert's number."""
        found = set()
        for node in walk(self.loop.body):
            if isinstance(node, cst.Comparison | cst.Call | cst.Subscript):
                value = self.known(node)
                if isinstance(value, Mask | Places):
                    found.add(value.choice.chosen)
        return found

    def check_visits(self, choice: Choice) -> None:
        """Make sure that a loop over some experts visits just those that were chosen.

        Raises
        ------
        DoesNotApply
            It cannot be seen.
        """
        node: cst.BaseExpression = self.loop.iter
        if isinstance(node, cst.Name):
            found = origin(self.source, node.value, self.loop)
            if found is None or found.element is not None:
                raise DoesNotApply("which experts the loop visits cannot be seen")
            node = found.value
        if not self._names_hits(node, choice):
            raise DoesNotApply("which experts the loop visits cannot be seen")

    def _names_hits(self, node: cst.BaseExpression, choice: Choice) -> bool:
        found = method_call(node)
        while found and found[1] in {"tolist", "flatten", "squeeze", "view", "item"}:
            node = found[0]
            found = method_call(node)
        full = self.source.qualified(node.func) if isinstance(node, cst.Call) else None
        first = argument(node, 0, "input") if isinstance(node, cst.Call) else None
        if full == "torch.unique" or (found and found[1] == "unique"):
            inner = first if full == "torch.unique" else found and found[0]
            return inner is not None and text_of(inner).split(".")[0] == choice.chosen
        if full == "torch.nonzero" or (found and found[1] == "nonzero"):
            inner = first if full == "torch.nonzero" else found and found[0]
            return inner is not None and self._counts(inner, choice)
        return False

    def _counts(self, node: cst.BaseExpression, choice: Choice) -> bool:
        """Tell whether an expression says which experts have tokens: ``mask.sum(...) > 0``."""
        match node:
            case cst.Comparison(
                left=left, comparisons=[cst.ComparisonTarget(cst.GreaterThan(), right)]
            ):
                pass
            case cst.Call(args=[one, two]) if self.source.qualified(node.func) in {
                "torch.greater",
                "torch.gt",
            }:
                left, right = one.value, two.value
            case _:
                return False
        found = method_call(left)
        if literal(right) != 0 or found is None or found[1] != "sum":
            return False
        axes = one_hot_axes(self.source, found[0], self.loop)
        dims = literal(argument(found[2], 0, "dim"))
        last = len(axes[1]) - 1 if axes else 0
        return (
            axes is not None and axes[0] == choice.chosen and isinstance(dims, tuple | list)
            and {each % len(axes[1]) for each in dims}
            == {at for at, axis in enumerate(axes[1]) if axis != last}
        )  # fmt: skip


def _has_rows(value: Value | None) -> bool:
    """Tell whether a tensor's first axis is the tokens that chose the expert."""
    return isinstance(value, Index) or (isinstance(value, Selected) and not value.lead)
