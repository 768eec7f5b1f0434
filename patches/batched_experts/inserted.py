"""The code that the recipe puts into a program."""

from __future__ import annotations

from infrarsi.propose.rewrite import Rewrite

from .values import Dispatch

NAME = "run_by_expert"

TEXT = '''
def run_by_expert(
    out, expert, numbers, tokens, chosen, weights=None,
    dense=False, adds=True, by_slot=False, skips_empty=True,
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
    bounds = {torch}.searchsorted(found, edges).tolist()
    order = order[bounds[0] : bounds[-1]]
    row = order % num_tokens if by_slot else order // num_slots
    sizes = [end - start for start, end in zip(bounds, bounds[1:])]
    parts = tokens.index_select(0, row).split(sizes)
    pieces = [
        expert(number, part)
        for number, part in zip(numbers, parts)
        if len(part) or not skips_empty
    ]
    if not pieces:
        return
    outputs = {torch}.cat(pieces)
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
'''


def dispatch_call(rewrite: Rewrite, found: Dispatch) -> str:
    """Give the statement that does a loop's work, and put the definition into the file."""
    torch_name = rewrite.name_for("torch.searchsorted").removesuffix(".searchsorted")
    rewrite.define(found.loop, TEXT.replace("{torch}", torch_name))
    tokens = found.code.tokens
    assert tokens is not None
    expert, before = _expert(found)
    parts = [
        found.out, expert, found.experts,
        tokens.base, found.choice.chosen,
    ]  # fmt: skip
    if found.weights is not None:
        parts.append(found.weights.base)
        parts += ["dense=True"] if found.weights.dense else []
    parts += [] if found.adds else ["adds=False"]
    parts += ["by_slot=True"] if found.choice.by_slot else []
    parts += [] if found.skips_empty else ["skips_empty=False"]
    text = f"{NAME}({', '.join(parts)})"
    if len(text) > 80:
        lines = "".join(f"    {part},\n" for part in parts)
        text = f"{NAME}(\n{lines})"
    return before + text


def _expert(found: Dispatch) -> tuple[str, str]:
    """Give the function that runs one expert, and its definition where it needs one."""
    if not found.steps:
        return f"lambda {found.number}, {found.rows}: {found.code.text}", ""
    body = "".join(f"    {step}\n" for step in found.steps)
    head = f"def one_expert({found.number}, {found.rows}):\n"
    return "one_expert", f"{head}{body}    return {found.code.text}\n\n"
