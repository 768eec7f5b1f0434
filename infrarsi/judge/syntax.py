"""Reading what a Python text uses, by its syntax tree."""

from __future__ import annotations

import ast
import math
import textwrap
from dataclasses import dataclass

from infrarsi.judge import audit_rules as rules
from infrarsi.judge.audit_rules import Severity
from infrarsi.judge.expressions import fold_number, fold_text, meanings, terms_of

_REPLACES = "replaces what training or its clock relies on"
_WRITES = "writes outside its tree"
_WRITERS = {"write_text", "write_bytes", "symlink_to", "hardlink_to", "touch", "mkdir", "unlink"}
_OUTSIDE = ("/", "~", "../")
_CUT = 3
"""Lines at either end of a fragment that may be left unparsed."""


@dataclass(frozen=True)
class Use:
    """Something that a text uses."""

    severity: Severity
    why: str
    what: str
    line: int
    update: int | None = None
    """The update from which on it acts, where it compares the number of the update with one."""

    @property
    def kind(self) -> tuple[str, str]:
        """What makes two uses the same, wherever they stand."""
        return (self.why, self.what)


def uses_in_python(text: str) -> tuple[list[Use], str] | None:
    """Give all that a Python text uses of what the audit looks for, and the lines left unread.

    ``None`` where no part of the text can be parsed, see `parse_leniently`.
    """
    read = parse_leniently(text)
    if read is None:
        return None
    tree, unread = read
    reader = _Reader()
    reader.learn(tree)
    reader.visit(tree)
    return reader.found, unread


def parse_leniently(text: str) -> tuple[ast.Module, str] | None:
    """Parse a Python text, or a piece of one, and give the tree and the lines left unread.

    An edit may begin or end within an expression: a few lines at its ends are then left out, and
    the rest is parsed. ``None`` where no such part of the text is Python that can be parsed, not
    even as the body of a function.
    """
    lines = text.splitlines(keepends=True)
    cuts = [(head, tail) for head in range(_CUT + 1) for tail in range(_CUT + 1)]
    for head, tail in sorted(cuts, key=sum):
        if head + tail and head + tail >= len(lines):
            continue
        tree = _parse("".join(lines[head : len(lines) - tail]))
        if tree is not None:
            return tree, "".join(lines[:head] + lines[len(lines) - tail :])
    return None


def _parse(text: str) -> ast.Module | None:
    """Parse a program, or a fragment of one at any indentation."""
    body = textwrap.dedent(text).strip("\n")
    stem = body.rstrip()
    attempts = [
        text, body, f"if 1:\n{textwrap.indent(body, ' ')}",
        f"{stem}\n    pass", f"{stem}\n{' ' * 16}pass", f"if 1: pass\n{body}",
        f"try: pass\n{body}", f"({stem}\n)", f"f({stem}\n)",
    ]  # fmt: skip
    for attempt in attempts:
        try:
            return ast.parse(attempt)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


class _Reader(ast.NodeVisitor):
    """Collects uses, with aliases resolved."""

    def __init__(self) -> None:
        self.found: list[Use] = []
        self.aliases: dict[str, str] = {}
        self.numbers: dict[str, float] = {}
        """Names that stand for one number in all of the text."""
        self.bound: set[str] = set()
        """Names that the text gives a meaning of its own."""
        self._called: set[int] = set()

    def learn(self, tree: ast.AST) -> None:
        """Learn what names stand for, wherever in the text that is said."""
        self._learn_imports(tree)
        stored: list[str] = []
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    stored.append(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    stored.append(name)
        self.bound = set(stored)
        for node in ast.walk(tree):
            for target, value in meanings(node):
                dotted = self.dotted(value) or ""
                if dotted in rules.REACHING_CALLS or (
                    not dotted.startswith("?")
                    and ("." in dotted or dotted in self.aliases.values())
                ):
                    self.aliases.setdefault(target, dotted)
                number = fold_number(value, {})
                if number is not None and stored.count(target) == 1:
                    self.numbers[target] = number
        for name in rules.STEP_NAMES:
            self.numbers.pop(name, None)

    def _learn_imports(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    for name in names:
                        top = name.name.partition(".")[0]
                        self.aliases[name.asname or top] = name.name if name.asname else top
                case ast.ImportFrom(module=str() as module, names=members, level=0):
                    for member in members:
                        self.aliases[member.asname or member.name] = f"{module}.{member.name}"

    def dotted(self, node: ast.AST) -> str | None:
        """Give the dotted name of an expression, aliases resolved."""
        match node:
            case ast.Name(id=name):
                return self.aliases.get(name, name)
            case ast.Attribute(value=value, attr=attr):
                return f"{self.dotted(value) or '?'}.{attr}"
            case ast.Call(func=called, args=[value, name, *_]) if self._names(called, "getattr"):
                return f"{self.dotted(value) or '?'}.{fold_text(name) or '?'}"
            case ast.Call(func=called, args=[name, *_]) if (
                isinstance(called, ast.Attribute) and called.attr == "import_module"
            ) or self._names(called, "__import__"):
                return fold_text(name)
            case ast.NamedExpr(value=value):
                return self.dotted(value)
            case ast.Subscript(value=value, slice=key) if self.dotted(value) == "sys.modules":
                return fold_text(key) or "?"
        return None

    def _names(self, node: ast.AST, builtin: str) -> bool:
        """Tell whether an expression is a builtin, by whatever name."""
        return (self.dotted(node) or "").removeprefix("builtins.") == builtin

    def add(
        self, severity: Severity, why: str, what: str, node: ast.AST, *, update: int | None = None
    ) -> None:
        self.found.append(Use(severity, why, what, getattr(node, "lineno", 0), update))

    def look_up(self, dotted: str, node: ast.AST) -> None:
        """Note a dotted name that the rules speak of, by its longest match."""
        for name, (severity, why) in rules.USES.items():
            inside = dotted.startswith(name) if name.endswith(".") else False
            if inside or dotted == name or dotted.startswith(f"{name}."):
                self.add(severity, why, name.rstrip("."), node)

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            self.look_up(name.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for name in node.names:
            if node.module:
                self.look_up(f"{node.module}.{name.name}", node)
            self._look_up_attribute(name.name, node)

    def visit_Name(self, node: ast.Name) -> None:
        dotted = self.aliases.get(node.id)
        if dotted and "." in dotted:
            self.look_up(dotted, node)
        elif dotted is None and node.id in {"__builtins__", "__loader__"}:
            self.add("refuse", "reaches into the interpreter", node.id, node)
        is_own = node.id in self.bound and node.id not in self.aliases
        if isinstance(node.ctx, ast.Load) and id(node) not in self._called and not is_own:
            plain = (dotted or node.id).removeprefix("builtins.")
            if plain in rules.HANDED_ON:
                self.add("refuse", rules.HANDED_ON[plain], plain, node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted = self.dotted(node) or ""
        self.look_up(dotted, node)
        self._look_up_attribute(node.attr, node)
        if node.attr == "__dict__" and self._is_frozen(node.value):
            self.add("refuse", _REPLACES, dotted, node)
        plain = dotted.removeprefix("builtins.")
        if not isinstance(node.ctx, ast.Load):
            self._judge_replacement(dotted, node)
        elif plain != dotted and plain in rules.HANDED_ON and id(node) not in self._called:
            self.add("refuse", rules.HANDED_ON[plain], plain, node)
        if not isinstance(node.value, ast.Name):
            self.visit(node.value)

    def _look_up_attribute(self, attr: str, node: ast.AST) -> None:
        if attr in rules.ATTRIBUTES:
            self.add("refuse", rules.ATTRIBUTES[attr], attr, node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._read_text(fold_text(node), node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = fold_text(node)
        if text is None:
            self.generic_visit(node)
        else:
            self._read_text(text, node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._read_text(fold_text(node), node)
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                self.visit(value.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._read_text(fold_text(node), node)
        dotted = self.dotted(node.value) or ""
        if not isinstance(node.ctx, ast.Load) and (
            dotted == "sys.modules" or dotted.endswith(".__dict__")
        ):
            self.add("refuse", _REPLACES, dotted, node)
        self.generic_visit(node)

    def _read_text(self, text: str | None, node: ast.AST) -> None:
        lowered = (text or "").lower()
        for word, why in rules.REFUSED_WORDS.items():
            if word in lowered:
                self.add("refuse", why, word, node)

    def visit_Expr(self, node: ast.Expr) -> None:
        # A docstring is prose: it may speak of anything.
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.generic_visit(node)

    def _judge_replacement(self, dotted: str, node: ast.AST) -> None:
        if dotted.startswith(rules.SETTINGS):
            return
        owner, _, attr = dotted.rpartition(".")
        if dotted.startswith(rules.FROZEN_MODULES) or (attr in rules.CLOCKS and owner != "self"):
            self.add("refuse", _REPLACES, dotted, node)
        elif dotted.startswith("torch."):
            self.add("note", "replaces a part of torch", dotted, node)

    def visit_Call(self, node: ast.Call) -> None:
        self._called.add(id(node.func))
        name = self.dotted(node.func) or ""
        plain = name.removeprefix("builtins.")
        if plain in rules.HIDING_CALLS:
            self.add("refuse", "runs text that cannot be read", plain, node)
        elif plain in {"setattr", "delattr"} and len(node.args) >= 2:
            attr = fold_text(node.args[1]) or "?"
            self._judge_replacement(f"{self.dotted(node.args[0]) or ''}.{attr}", node)
        elif plain == "getattr" and len(node.args) >= 2:
            self.look_up(self.dotted(node) or "", node)
            self._look_up_attribute(fold_text(node.args[1]) or "", node)
        elif plain.endswith("import_module") and node.args and fold_text(node.args[0]) is None:
            self.add("refuse", "imports what cannot be read", plain, node)
        elif plain.endswith(("import_module", "patch.object", "mock.patch")):
            self.look_up(self.dotted(node) or "", node)
        if plain == "vars" and node.args and self._is_frozen(node.args[0]):
            self.add("refuse", _REPLACES, f"vars({self.dotted(node.args[0])})", node)
        elif plain in {"vars", "globals"} and node.args:
            self.add("note", "reaches into a namespace", plain, node)
        if plain.endswith(".join"):
            self._read_text(fold_text(node), node)
        self._judge_write(node, plain)
        self._judge_installing(node, plain)
        self.generic_visit(node)

    def _judge_installing(self, node: ast.Call, name: str) -> None:
        """Refuse starting an installer, and importing from a place that is not in the tree."""
        if name.startswith(rules.STARTS_PROGRAMS):
            words = " ".join(
                fold_text(each) or "" for each in ast.walk(node) if isinstance(each, ast.Constant)
            )
            found = rules.INSTALLS.search(words)
            if found:
                self.add("refuse", "installs packages", found.group(0)[:60], node)
        elif name in rules.IMPORTED_FROM:
            for argument in node.args:
                listed = argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]
                for place in filter(None, map(fold_text, listed)):
                    if place.startswith(("/", "~")):
                        self.add("refuse", "imports from outside its tree", place, node)

    def _judge_write(self, node: ast.Call, name: str) -> None:
        """Refuse writing to a place that is plainly not in the tree."""
        if name in {"open", "io.open", "os.open"} and node.args:
            modes = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]
            mode = fold_text(modes[0]) if modes else "r"
            place, writes = fold_text(node.args[0]), mode is None or set(mode) & set("wax+")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _WRITERS:
            inner = node.func.value
            arguments = inner.args if isinstance(inner, ast.Call) else []
            place, writes = fold_text(arguments[0]) if arguments else None, True
        else:
            return
        if place is not None and writes and place.startswith(_OUTSIDE):
            self.add("refuse", _WRITES, place, node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = (node.left, *node.comparators)
        terms = [each for side in sides for each in terms_of(side, self.numbers)]
        names = {each.id for each in terms if isinstance(each, ast.Name)}
        names |= {each.attr for each in terms if isinstance(each, ast.Attribute)}
        counts = [
            math.floor(abs(number))
            for each in terms
            if (number := fold_number(each, self.numbers)) is not None and abs(number) > 1
        ]
        if names & rules.STEP_NAMES and counts:
            what = f"{sorted(names & rules.STEP_NAMES)[0]} against {max(counts)}"
            self.add("note", "acts by the number of the update", what, node, update=max(counts))
        self.generic_visit(node)

    def _is_frozen(self, node: ast.AST) -> bool:
        return f"{self.dotted(node) or ''}.".startswith(rules.FROZEN_MODULES)
