import textwrap

import pytest

from infrarsi.judge.audit import judge_audit
from infrarsi.judge.facts import ChangedFile

TRAINING = textwrap.dedent('''
    def learning_rate(step, args):
        """Warm up, then follow a cosine."""
        if step < args.warmup_steps:
            return args.lr * (step + 1) / args.warmup_steps
        progress = (step - args.warmup_steps) / (args.steps - args.warmup_steps)
        return args.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))

    def attention(q, k, v, dropout):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        return F.dropout(scores.softmax(-1), dropout) @ v

    class OwnAdam(torch.optim.Optimizer):
        def step(self):
            for p in self.parameters():
                lr = self.lr * math.sqrt(1 - self.beta2 ** self.step_num)
                p.add_(self.direction(p), alpha=-lr)

    def main(args):
        parser.add_argument("--warmup-steps", type=int, default=20)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        trainer = TrainingArguments(warmup_ratio=0.1, fp16=False)
        for step in range(args.steps):
            lr = learning_rate(step, args)
            for group in optimizer.param_groups:
                group["lr"] = lr
                group["weight_decay"] = 0.1 * (1 - step / args.steps)
            loss.backward()
''')


def ruling(before, after, reach=13):
    changed = ChangedFile(path="train.py", before=before, after=after)
    found = [f for f in judge_audit([changed], reach=reach) if f.check == "schedule"]
    return found[0].ruling.value if found else None


@pytest.mark.parametrize(("search", "replace"), [
    ("return args.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))", "return args.lr"),
    ("* (0.1 + 0.45", "* (0.2 + 0.45"),
    ("if step < args.warmup_steps", "if step < 2 * args.warmup_steps"),
    ("default=20", "default=5"),
    ("lambda step: 1.0", "lambda step: 2.0"),
    ("LambdaLR(optimizer, lambda step: 1.0)", "ConstantLR(optimizer)"),
    ("warmup_ratio=0.1", "warmup_ratio=0.01"),
    ("lr = learning_rate(step, args)", "lr = max(learning_rate(step, args), 1e-4)"),
    ("0.1 * (1 - step / args.steps)", "0.1"),
])  # fmt: skip
def test_a_change_of_what_varies_with_the_updates_is_inconclusive(search, replace):
    assert search in TRAINING
    assert ruling(TRAINING, TRAINING.replace(search, replace)) == "inconclusive"


@pytest.mark.parametrize(("search", "replace"), [
    ('"""Warm up, then follow a cosine."""', '"""Another text."""'),
    ("    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))\n", ""),
    ("lr = self.lr * math.sqrt(1 - self.beta2 ** self.step_num)", "lr = self.fused_lr"),
    ("loss.backward()", "loss.backward()\n        if step + 1 < args.steps: fetch(step + 1)"),
    ('group["lr"] = lr', 'group["lr"].fill_(lr)'),
    ("fp16=False", "fp16=False, dataloader_num_workers=2"),
    ("def attention", "def pipeline_schedule(step):\n    return step\n\ndef attention"),
])  # fmt: skip
def test_a_change_of_how_the_work_is_done_is_not(search, replace):
    assert search in TRAINING
    assert ruling(TRAINING, TRAINING.replace(search, replace)) is None


def test_a_piece_of_a_file_is_read_as_well():
    before = (
        "    return args.lr * (0.1 + 0.9 * (1 - progress))\n\ndef warmup(step):\n    return step"
    )
    assert ruling(before, before.replace("return step", "return step + 1")) == "inconclusive"


def test_the_reason_names_the_place_and_how_far_anyone_saw():
    after = TRAINING.replace("0.45", "0.40")
    (found,) = [
        each
        for each in judge_audit([ChangedFile(path="a.py", before=TRAINING, after=after)], reach=13)
        if each.check == "schedule"
    ]
    assert "learning_rate at a.py, line 7" in found.reason
    assert "more than 13" in found.reason


def test_an_edit_is_read_in_the_file_that_it_stands_in():
    def rulings(search, replace):
        edit = ChangedFile(path="train.py", before=search, after=replace)
        whole = ChangedFile(
            path="train.py", before=TRAINING, after=TRAINING.replace(search, replace)
        )
        found = judge_audit([edit], whole=[whole], reach=13)
        return [each.ruling.value for each in found if each.check == "schedule"]

    assert rulings("return args.lr * (0.1 + 0.45", "return args.lr * (0.9 + 0.05") == [
        "inconclusive"
    ]
    correction = "lr = self.lr * math.sqrt(1 - self.beta2 ** self.step_num)"
    assert rulings(correction, "lr = self.lr * self.correction") == []
