"""Editable installs in a trial that runs elsewhere: they mean the trial's tree, not the checkout.

A package that was installed in editable mode is found by an entry of ``sys.path`` (from a
``.pth`` file) or by a finder with a mapping (setuptools). Both name the user's checkout. Where a
trial cannot be mounted there, the entries are pointed at its own tree, in their own places, so
that nothing else is found in another order.
"""

from __future__ import annotations

import os
import sys


def point_at(tree, checkout):
    """Point everything that imports from the checkout at the same place in the tree.

    Parameters
    ----------
    tree, checkout : str
        Absolute folders. What the tree does not hold (a virtual environment, prepared data)
        stays where it is.
    """
    sys.path[:] = [_moved(each, tree, checkout) for each in sys.path]
    for finder in list(sys.meta_path):
        module = sys.modules.get(getattr(finder, "__module__", None) or "")
        for holder in (finder, module):
            for name in ("MAPPING", "NAMESPACES", "known_source_files"):
                _move_values(getattr(holder, name, None), tree, checkout)
    sys.path_importer_cache.clear()


def _move_values(mapping, tree, checkout):
    if not isinstance(mapping, dict):
        return
    for key, value in list(mapping.items()):
        if isinstance(value, str):
            mapping[key] = _moved(value, tree, checkout)
        elif isinstance(value, list):
            mapping[key] = [_moved(each, tree, checkout) for each in value]


def _moved(place, tree, checkout):
    if not isinstance(place, str) or not os.path.isabs(place):
        return place
    for root in {checkout, os.path.realpath(checkout)}:
        if place == root:
            return tree
        if place.startswith(root + os.sep) and not place.startswith(tree + os.sep):
            there = os.path.join(tree, place[len(root) + 1 :])
            return there if os.path.exists(there) else place
    return place
