"""A few updates of transformers' Trainer, one fork a variant; prints what the Trainer logged."""

import json
import os
import sys
import tempfile

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments, set_seed

UPDATES = 3


class Rows(torch.utils.data.Dataset):
    """Rows of random ids, of one length or of several."""

    def __init__(self, *, ragged):
        draw = torch.Generator().manual_seed(5)
        lengths = [12 - 3 * (i % 4) if ragged else 12 for i in range(40)]
        self.rows = [torch.randint(1, 40, (length,), generator=draw) for length in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def padded(rows):
    """Pad to the longest, as data collators do."""
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([[len(row)] for row in rows])
    mask = (torch.arange(ids.shape[1]) < lengths).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def stacked(rows):
    """Stack rows of one length, without a mask."""
    ids = torch.stack(rows)
    return {"input_ids": ids, "labels": ids.clone()}


def train(*, ragged=False, attention="eager", **flags):
    """Train, and give what was logged for each update."""
    set_seed(3)
    config = Qwen3Config(
        vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, attn_implementation=attention,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=UPDATES, logging_steps=1, save_strategy="no",
            report_to="none", disable_tqdm=True, use_cpu=True, learning_rate=1e-2, seed=3, **flags,
        )  # fmt: skip
        trainer = Trainer(
            model=Qwen3ForCausalLM(config), args=arguments, train_dataset=Rows(ragged=ragged),
            data_collator=padded if ragged else stacked,
        )  # fmt: skip
        trainer.train()
    return [row for row in trainer.state.log_history if "grad_norm" in row]


if __name__ == "__main__":
    for name, options in json.loads(sys.argv[1]).items():
        child = os.fork()
        if child == 0:
            logged = train(**options)
            said = {"name": name, "pid": os.getpid(), "logged": logged}
            sys.stdout.write(json.dumps(said) + "\n")
            sys.exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{name} failed")
