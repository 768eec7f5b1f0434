"""What the model was fed: an order-free digest of the rows of one training forward."""

from __future__ import annotations

import torch

from .inputs import find_inputs

_MASK = (1 << 64) - 1


def _signed(number):
    """Give a 64-bit pattern as the Python integer that an int64 tensor holds."""
    number &= _MASK
    return number - (1 << 64) if number >> 63 else number


_MIX_A = _signed(0xBF58476D1CE4E5B9)
_MIX_B = _signed(0x94D049BB133111EB)
_STEP = 0x9E3779B97F4A7C15
_TARGET = _signed(0xD6E8FEB86659FD93)
_LENGTH = _signed(0xA0761D6478BD642F)
IGNORED = -100


class Fed:
    """One forward's batch, as numbers that may still be on the device.

    Attributes
    ----------
    joint, ids : torch.Tensor or None
        int64, 0-dim: the digest of (ids, targets) rows, and of the ids alone.
    sequences, tokens, targets : int, torch.Tensor or None
        Rows (or packed segments); id elements, the mask applied; targets that count.
    """

    __slots__ = ("ids", "ignored", "joint", "sequences", "targets", "tokens")

    def __init__(self):
        self.joint = self.ids = None
        self.sequences = self.tokens = self.targets = None
        self.ignored = ()


class Digester:
    """Hashes the multiset of rows that a forward was fed.

    A row's hash is a polynomial in pseudo-random odd multipliers by position, finished by a
    nonlinear mix; the digest is the sum over rows modulo 2**64. So it does not move when rows
    are permuted or split over other micro-batches, and two digests agree by accident with a
    chance near 2**-64. It is no cryptographic hash: do not trust it against a program that
    searches for collisions.
    """

    def __init__(self):
        self.multipliers = {}

    def read(self, args, kwargs, names):
        """Digest the integer inputs of one outermost forward.

        Parameters
        ----------
        args, kwargs : tuple, dict
            The call's own.
        names : list of str
            Names of the positional parameters, where known.

        Returns
        -------
        Fed or None
            ``None`` where a float input requires grad: that call is not fed data, it
            continues another call.
        """
        found = find_inputs(args, kwargs, names)
        fed = Fed()
        fed.ignored = tuple(found.ignored)
        with torch.no_grad():
            if found.continues or found.ids is None:
                for target in found.targets:
                    fed.targets = _plus(fed.targets, _count(target, None))
                return None if found.continues and fed.targets is None else _mark(fed, found)
            self._digest(fed, found)
        return fed

    def _digest(self, fed, found):
        ids = _rows(found.ids)
        mask = _like(found.mask, ids)
        positions = _like(found.positions, ids)
        target = None
        for each in found.targets:
            counted = _like(each, ids)
            fed.targets = _plus(fed.targets, _count(each, mask if counted is not None else None))
            target = counted if target is None else target
        keep = None if mask is None else mask.ne(0)
        fed.tokens = ids.numel() if keep is None else keep.sum()
        where = self._where(ids, keep, positions)
        first = ids.long() + 1
        ones = torch.ones_like(first) if keep is None else keep.long()
        of_ids = first * where * ones
        starts = None if positions is None else _starts(positions, keep)
        lengths = _gather(ones, starts)
        row_ids = _gather(of_ids, starts) + lengths * _LENGTH
        fed.ids = _mix(row_ids).sum()
        whole_row = [_signed_rows(each, ids) for each in found.targets if target is None]
        if target is None and not any(each is not None for each in whole_row):
            fed.joint = fed.ids
        elif target is None:  # one label a row: a classifier's
            labels = next(each for each in whole_row if each is not None)
            fed.joint = fed.ids if starts is not None else _mix(row_ids + labels * _TARGET).sum()
        else:
            of_targets = (target.long() + 101) * (where * _TARGET) * ones
            fed.joint = _mix(row_ids + _gather(of_targets, starts)).sum()
        fed.sequences = ids.shape[0] if starts is None else starts.sum()

    def _where(self, ids, keep, positions):
        """Give each element's multiplier: by column, by count of kept ones, or by position."""
        width = ids.shape[1]
        if positions is not None:
            table = self._table(max(width, 1 << 16), ids.device)
            return table[positions.long().remainder(table.shape[0])]
        table = self._table(width, ids.device)
        if keep is None:
            return table[:width]
        return table[(keep.long().cumsum(1) - 1).clamp_(min=0)]

    def _table(self, width, device):
        table = self.multipliers.get(device)
        if table is None or table.shape[0] < width:
            size = max(1024, 1 << (width - 1).bit_length())
            seed = torch.arange(1, size + 1, dtype=torch.int64, device=device)
            table = _mix(seed * _signed(_STEP)) | 1
            self.multipliers[device] = table
        return table


def _mark(fed, found):
    return fed if fed.targets is not None or fed.ignored or found.ids is not None else None


def _rows(tensor):
    tensor = tensor.detach()
    if tensor.dim() < 2:
        return tensor.reshape(1, -1)
    return tensor.reshape(-1, tensor.shape[-1])


def _like(tensor, ids):
    """Give a tensor the rows of ``ids``, or ``None`` where it does not have their size."""
    if tensor is None or tensor.device != ids.device:
        return None
    if tensor.numel() == ids.numel():
        return tensor.detach().reshape(ids.shape)
    if tensor.dim() >= 1 and tensor.numel() == ids.shape[1]:  # one row said for all of them
        return tensor.detach().reshape(1, -1).expand(ids.shape)
    return None


def _signed_rows(target, ids):
    if target.numel() != ids.shape[0] or target.device != ids.device:
        return None
    return target.detach().reshape(-1).long() + 101


def _count(target, mask):
    counted = target.detach().ne(IGNORED)
    if mask is not None:
        counted = counted.reshape(mask.shape) & mask.ne(0)
    return counted.sum()


def _plus(left, right):
    return right if left is None else left + right


def _starts(positions, keep):
    """Tell where a packed row begins: where positions do not go on, and at each row's head."""
    starts = torch.ones_like(positions, dtype=torch.bool)
    starts[:, 1:] = positions[:, 1:] <= positions[:, :-1]
    if keep is not None:
        # Only a kept element begins a segment; padding has no sequence of its own.
        before = torch.zeros_like(keep)
        before[:, 1:] = keep[:, :-1]
        starts = keep & (starts | ~before)
    return starts


def _gather(elements, starts):
    """Sum elements by row, or by packed segment (empty segments sum to 0, which mixes to 0)."""
    if starts is None:
        return elements.sum(1)
    segment = starts.reshape(-1).long().cumsum(0).sub_(1).clamp_(min=0)
    sums = torch.zeros(segment.shape[0], dtype=torch.int64, device=elements.device)
    return sums.index_add_(0, segment, elements.reshape(-1))


def _mix(rows):
    rows = (rows ^ (rows >> 30)) * _MIX_A
    rows = (rows ^ (rows >> 27)) * _MIX_B
    return rows ^ (rows >> 31)
