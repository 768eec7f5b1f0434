"""Mixtures of experts: the loop that dispatches tokens, and its work in another order.

Only codemods import this package (it loads libcst).
"""
