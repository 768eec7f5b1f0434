"""What older torch does otherwise is met by what is there, not by its version."""

import sys

import pytest

pytestmark = pytest.mark.training

AS_IN_2_2 = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.Linear(4, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
# What dynamo of torch 2.2 does to torch's own optimizers: it takes off what calls their hooks.
torch.optim.AdamW.step = torch.optim.AdamW.step.__wrapped__
torch.optim.AdamW.step.hooked = True
model.compile(backend="eager")
for _ in range(3):
    x = torch.randint(0, 8, (2, 5))
    torch.nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_an_optimizer_whose_hooks_were_taken_away_is_heard(launch):
    done = launch([sys.executable, "-c", AS_IN_2_2])
    assert done.code == 0, done.stderr
    assert len(done.evidence.updates) == 3
    assert not [note for note in done.evidence.notes if "inferred" in note or "failed" in note]
    census = done.evidence.mark_at(2).census
    assert census["optimizer_state"] == {"float32": 2 * census["parameters"]["float32"]}
