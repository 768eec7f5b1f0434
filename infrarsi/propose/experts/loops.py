"""Reads a loop over experts, statement by statement."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from infrarsi.propose.experts.guards import Guards
from infrarsi.propose.experts.origins import Origins, origin
from infrarsi.propose.experts.reader import Reader, places
from infrarsi.propose.experts.values import (
    Code,
    Dispatch,
    Index,
    Places,
    Product,
    Round,
    Selected,
    Value,
)
from infrarsi.propose.flow import reads
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.source import (
    Source,
    argument,
    dotted,
    literal,
    method_call,
    sole,
    text_of,
)


@dataclass(frozen=True)
class Head:
    """The head of a loop over experts."""

    number: str
    experts: str | None
    """A range of numbers; none where only the experts that were chosen are visited."""
    member: str | None = None
    """The loop's name for the expert itself."""
    held: str | None = None
    """The list that holds the experts, where the head names it."""


def read_head(source: Source, loop: cst.For) -> Head | None:
    """Read the head of a loop that numbers its rounds; nothing for any other."""
    match loop.target, loop.iter:
        case cst.Name(value=number), cst.Call(func=cst.Name(value="range"), args=[*args]):
            plain = all(each.keyword is None and not each.star for each in args)
            if len(args) in (1, 2) and plain:
                return Head(number, source.code(loop.iter))
        case (
            cst.Tuple(elements=[
                cst.Element(value=cst.Name(value=number)),
                cst.Element(value=cst.Name(value=member)),
            ]),
            cst.Call(func=cst.Name(value="enumerate"), args=[only]),
        ) if dotted(only.value) is not None:  # fmt: skip
            held = source.code(only.value)
            return Head(number, f"range(len({held}))", member, held)
        case cst.Name(value=number), _:
            return Head(number, None)
    return None


class LoopReader:
    """Reads one loop; the last statement must put the outputs in their places."""

    def __init__(self, repository: Repository, source: Source, loop: cst.For, head: Head) -> None:
        self.repository, self.source, self.loop, self.head = repository, source, loop, head
        self.reader = Reader(repository, source, loop)
        self.guards = Guards(self.reader)
        self.reader.names[head.number] = Round()
        if head.member is not None:
            self.reader.names[head.member] = Code(f"{head.held}[{head.number}]")
        self.skips_empty = head.experts is None
        self.ran = False
        """Whether an expert has run before."""
        self.tokens: Selected | None = None
        self.steps: list[tuple[tuple[str, ...], str]] = []
        self.effect: tuple[str, Value, Selected, bool, bool] | None = None

    def read(self) -> Dispatch:
        """Give the loop's meaning.

        Raises
        ------
        DoesNotApply
            It does something that the rewriting does not understand.
        """
        if self.loop.orelse is not None:
            raise DoesNotApply("the loop over experts has an else")
        self._block(self.loop.body)
        if self.effect is None:
            raise DoesNotApply("the loop over experts puts its outputs nowhere that can be seen")
        out, value, place, adds, sums_repeats = self.effect
        code, weights = (value.code, value.weights) if isinstance(value, Product) else (value, None)
        if not isinstance(code, Code) or code.tokens is None:
            raise DoesNotApply("no expert is seen to run on the tokens that chose it")
        if self.tokens not in (None, code.tokens):
            raise DoesNotApply("an expert gets more than its tokens")
        tokens = code.tokens
        self._check_places(tokens, weights, place)
        if self.head.experts is None:
            self.guards.check_visits(tokens.choice)
        if not sums_repeats:
            self._check_repeats(tokens)
        steps = self.steps
        if steps and steps[-1][0] == (code.text,):
            code = Code(steps[-1][1], tokens)
            steps = steps[:-1]
        return Dispatch(
            loop=self.loop, out=out, adds=adds, number=self.head.number,
            experts=self._numbers(), rows=self.reader.rows, code=code,
            steps=tuple(f"{', '.join(names)} = {text}" for names, text in steps),
            weights=weights, skips_empty=self.skips_empty, choice=tokens.choice,
        )  # fmt: skip

    def _numbers(self) -> str:
        """Give the range of the experts' numbers."""
        if self.head.experts is not None:
            return self.head.experts
        if self.reader.held is None:
            raise DoesNotApply("how many experts there are cannot be seen")
        return f"range(len({self.reader.held}))"

    def _check_repeats(self, tokens: Selected) -> None:
        """Where rows are written by index, a row that stands twice would count once."""
        chosen = tokens.choice.chosen
        if tokens.by_mask:
            return
        if not Origins(self.repository).is_distinct(
            self.source, cst.parse_expression(chosen), self.loop
        ):
            raise DoesNotApply(
                f"it cannot be seen that {chosen!r} never names an expert twice for a token"
            )

    def _check_places(self, tokens: Selected, weights: Selected | None, place: Selected) -> None:
        for other in (weights, place):
            if other is not None and other.choice != tokens.choice:
                raise DoesNotApply("tokens, weights and outputs are not chosen in one way")
        if place.cells != tokens.cells or place.column or place.lead or place.dense:
            raise DoesNotApply("the outputs do not go back to where the tokens came from")
        if tokens.base == place.base:
            raise DoesNotApply("the experts read what they write to")

    # Statements.

    def _block(self, block: cst.BaseSuite) -> None:
        for statement in block.body:
            if self.effect is not None:
                raise DoesNotApply(
                    "the loop over experts goes on after the outputs are in their places: "
                    f"{self._shown(statement)!r}"
                )
            if isinstance(statement, cst.If):
                self._if(statement)
            else:
                small = sole(statement)
                if small is None:
                    raise DoesNotApply(
                        f"the loop over experts also does {self._shown(statement)!r}"
                    )
                self._small(small)

    def _shown(self, node: cst.CSTNode) -> str:
        return self.source.code(node).splitlines()[0][:60]

    def _if(self, statement: cst.If) -> None:
        empty = self.guards.says_empty(statement.test)
        if empty is None or statement.orelse is not None:
            raise DoesNotApply(f"the loop over experts also does {self._shown(statement)!r}")
        if self.ran:
            raise DoesNotApply("an expert runs before the loop looks whether it has tokens")
        self.skips_empty = True
        if not empty:
            self._block(statement.body)
            return
        rest = [sole(each) for each in statement.body.body]
        if isinstance(statement.body, cst.SimpleStatementSuite):
            rest = list(statement.body.body)
        if len(rest) != 1 or not isinstance(rest[0], cst.Continue):
            raise DoesNotApply(f"the loop over experts also does {self._shown(statement)!r}")

    def _small(self, small: cst.BaseSmallStatement) -> None:
        match small:
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                self._assign(target, value)
            case cst.AugAssign(
                target=cst.Subscript() as target, operator=cst.AddAssign(), value=value
            ):
                self._put(target, value, adds=True)
            case cst.Expr(value=cst.Call() as call) if self._adds_by_index(call):
                pass
            case cst.Expr(value=cst.SimpleString()) | cst.Pass():
                pass
            case _:
                raise DoesNotApply(f"the loop over experts also does {self._shown(small)!r}")

    def _assign(self, target: cst.BaseAssignTargetExpression, value: cst.BaseExpression) -> None:
        reader = self.reader
        match target:
            case cst.Name(value=name):
                if isinstance(value, cst.Call) and self._adds_by_index(value, into=name):
                    return
                if reader.varies(value):
                    self._name((name,), reader.value(value))
                else:
                    reader.names[name] = Code(f"({self.source.code(value)})")
                return
            case cst.Tuple(elements=elements):
                names = [dotted(each.value) for each in elements]
                found = reader.known(value)
                plain = all(name is not None and "." not in name for name in names)
                if isinstance(found, Places) and not found.table and len(names) <= 2 and plain:
                    indices = places(found.choice, len(names))
                    reader.names |= dict(zip(map(str, names), indices, strict=True))
                    return
                if plain and reader.varies(value):
                    self._name(tuple(map(str, names)), reader.value(value))
                    return
            case cst.Subscript():
                self._set(target, value)
                return
        raise DoesNotApply(f"the loop over experts also does {self._shown(value)!r}")

    def _name(self, names: tuple[str, ...], value: Value) -> None:
        """Give names a value; what an expert computes on the way stays a statement of its own."""
        if isinstance(value, Product) or (isinstance(value, Code) and value.tokens is not None):
            self.ran = True
        if isinstance(value, Code) and value.tokens is not None:
            if self.tokens not in (None, value.tokens):
                raise DoesNotApply("an expert gets more than its tokens")
            self.tokens = value.tokens
            self.steps.append((names, value.text))
            for name in names:
                self.reader.names[name] = Code(name, value.tokens)
            return
        if len(names) > 1:
            raise DoesNotApply(f"what {names[0]!r} holds is not certain")
        self.reader.names[names[0]] = value

    def _set(self, target: cst.Subscript, value: cst.BaseExpression) -> None:
        match value:
            case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
                for old, new in ((left, right), (right, left)):
                    if text_of(old) == text_of(target):
                        self._put(target, new, adds=True)
                        return
        self._put(target, value, adds=False)

    def _put(self, target: cst.Subscript, value: cst.BaseExpression, *, adds: bool) -> None:
        place = self.reader.known(target)
        if not isinstance(place, Selected):
            raise DoesNotApply(f"the loop over experts also writes to {self._shown(target)!r}")
        self.effect = (place.base, self.reader.value(value), place, adds, False)

    def _adds_by_index(self, call: cst.Call, into: str | None = None) -> bool:
        """Read ``out.index_add_(0, rows, outputs)``, or ``index_add`` into the same name."""
        found = method_call(call)
        if found is None or found[1] != ("index_add" if into else "index_add_"):
            return False
        out = dotted(found[0])
        dim, index, values = (
            argument(call, n, word) for n, word in enumerate(("dim", "index", "source"))
        )
        if len(call.args) != 3 or out is None or index is None or values is None:
            return False
        place = self.reader.known(index)
        if literal(dim) != 0 or not isinstance(place, Index) or place.axis != "row":
            raise DoesNotApply(f"where {self._shown(call)!r} adds cannot be read")
        if into is not None and not (into == out and self._is_fresh(out)):
            raise DoesNotApply(f"{out!r} may be read elsewhere while the sum goes on")
        self.effect = (out, self.reader.value(values), Selected(place.choice, out), True, True)
        return True

    def _is_fresh(self, name: str) -> bool:
        """Tell whether a name holds a tensor of zeros that nothing else holds."""
        found = origin(self.source, name, self.loop)
        if found is None or not isinstance(found.value, cst.Call):
            return False
        last = (dotted(found.value.func) or "").rpartition(".")[2]
        scope = self.source.scope(self.loop)
        return last in {"zeros", "zeros_like", "new_zeros"} and not any(
            self.source.order[found.statement]
            < self.source.order[use]
            < self.source.order[self.loop]
            for use in reads(scope, name)
        )
