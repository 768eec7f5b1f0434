"""The loss, in a file of its own so that a test can protect it."""

import torch.nn.functional as F


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
