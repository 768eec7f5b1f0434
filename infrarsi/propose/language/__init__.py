"""Ideas of a language model: what it is told, how it is asked, and what its reply is worth.

Nothing of a reply is trusted. Ideas are read one by one, and each is checked as any patch is;
what does not hold is refused whole, with the reason. The two clients stand inside functions.
"""
