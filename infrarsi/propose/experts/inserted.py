"""The code that goes into a program in the place of its loop over experts."""

from __future__ import annotations

from infrarsi.propose.experts.values import Dispatch
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite

NAME = "run_by_expert"

_HEAD = '''
def run_by_expert(
    out, expert, numbers, tokens, chosen, weights=None,
    dense=False, adds=True, by_slot=False, skips_empty=True{parameters},
):
    """Run each expert on the tokens that chose it, and put what it makes of them into ``out``.

    The choices are sorted by expert, so that an expert's tokens lie side by side and the device is
    waited for once, not once an expert. Every expert sees the rows that it would see otherwise.
    """
    tokens = tokens.flatten(0, -2)
    num_tokens = len(tokens)
    chosen = chosen.reshape(num_tokens, -1)
    num_slots = chosen.shape[1]
    found, order = (chosen.t() if by_slot else chosen).flatten().sort(stable=True)
    edges = {torch}.arange(numbers.start, numbers.stop + 1, device=found.device, dtype=found.dtype)
    starts = {torch}.searchsorted(found, edges)
    bounds = starts.tolist()
    order = order[bounds[0] : bounds[-1]]
    row = order % num_tokens if by_slot else order // num_slots
    sizes = [end - start for start, end in zip(bounds, bounds[1:])]
    mine = tokens.index_select(0, row)
'''

_ONE_BY_ONE = """
    pieces = [
        expert(number, part)
        for number, part in zip(numbers, mine.split(sizes))
        if len(part) or not skips_empty
    ]
    if not pieces:
        return
    outputs = {torch}.cat(pieces)
"""

_ALL_AT_ONCE = """
    largest = max(sizes)
    if alone or largest == 0 or largest > 2 * len(order) // len(sizes) + 64:
        pieces = [
            expert(number, part)
            for number, part in zip(numbers, mine.split(sizes))
            if len(part) or not skips_empty
        ]
        if not pieces:
            return
        outputs = {torch}.cat(pieces)
    else:
        # The rows of all experts that run, filled up with zeros to the same number.
        number = found[bounds[0] : bounds[-1]] - numbers.start
        place = {torch}.arange(len(order), device=order.device) - (starts - bounds[0])[number]
        if skips_empty:
            layers = [layer for layer, size in zip(layers, sizes) if size]
            number = ((starts.diff() > 0).cumsum(0) - 1)[number]
        place = place + number * largest
        filled = mine.new_zeros(len(layers) * largest, mine.shape[-1]).index_copy(0, place, mine)
        outputs = together(layers, filled.view(len(layers), largest, -1))
        outputs = outputs.flatten(0, 1).index_select(0, place)
"""

_TAIL = """
    if weights is not None:
        weights = weights.reshape(num_tokens, -1)
        weights = weights.gather(1, chosen) if dense else weights.expand(num_tokens, num_slots)
        cell = row * num_slots + order // num_tokens if by_slot else order
        outputs = outputs * weights.reshape(-1).index_select(0, cell).unsqueeze(-1)
    if adds:
        total = outputs.new_zeros(num_tokens, outputs.shape[-1])
        out += total.index_add_(0, row, outputs).view_as(out)
    else:
        out.view(-1, out.shape[-1]).index_copy_(0, row, outputs.to(out.dtype))
"""


def one_by_one(repository: Repository, rewrite: Rewrite, found: Dispatch) -> str:
    """Give the statements that run the experts one after the other, on sorted tokens."""
    define(rewrite, found, _HEAD.replace("{parameters}", "") + _ONE_BY_ONE.lstrip("\n") + _TAIL[1:])
    expert, before = _expert(found)
    return before + call_text([found.out, expert, *arguments(found)])


def all_at_once_text() -> str:
    """Give the definition that can also run all experts together."""
    parameters = ", layers=(), together=None, alone=False"
    return _HEAD.replace("{parameters}", parameters) + _ALL_AT_ONCE.lstrip("\n") + _TAIL[1:]


def define(rewrite: Rewrite, found: Dispatch, text: str) -> None:
    """Put a definition into the file, above the loop's class."""
    torch_name = rewrite.name_for("torch.searchsorted").removesuffix(".searchsorted")
    rewrite.define(found.loop, text.replace("{torch}", torch_name))


def arguments(found: Dispatch) -> list[str]:
    """Give what the call passes after the expert."""
    tokens = found.code.tokens
    assert tokens is not None
    parts = [found.experts, tokens.base, found.choice.chosen]
    if found.weights is not None:
        parts.append(found.weights.base)
        parts += ["dense=True"] if found.weights.dense else []
    parts += [] if found.adds else ["adds=False"]
    parts += ["by_slot=True"] if found.choice.by_slot else []
    parts += [] if found.skips_empty else ["skips_empty=False"]
    return parts


def call_text(parts: list[str]) -> str:
    """Give the text of the call, on several lines where one is too short."""
    text = f"{NAME}({', '.join(parts)})"
    if len(text) <= 80:
        return text
    lines = "".join(f"    {part},\n" for part in parts)
    return f"{NAME}(\n{lines})"


def _expert(found: Dispatch) -> tuple[str, str]:
    """Give the function that runs one expert, and its definition where it needs one."""
    if not found.steps:
        return f"lambda {found.number}, {found.rows}: {found.code.text}", ""
    body = "".join(f"    {step}\n" for step in found.steps)
    head = f"def one_expert({found.number}, {found.rows}):\n"
    return "one_expert", f"{head}{body}    return {found.code.text}\n\n"
