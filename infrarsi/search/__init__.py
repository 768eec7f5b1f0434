"""NEXT: which candidate to try next, from what was learnt so far. Pure."""

from infrarsi.search.ablation import ablation_arms
from infrarsi.search.batches import suggest_batch
from infrarsi.search.ranking import best_so_far, rank
from infrarsi.search.strategies import STRATEGIES, suggest_next

__all__ = ["STRATEGIES", "ablation_arms", "best_so_far", "rank", "suggest_batch", "suggest_next"]
