"""The voice: reports in HTML, Markdown and SVG, and tables for a terminal.

Every number goes through :mod:`infrarsi.render.numbers`, and every report through one
:class:`~infrarsi.render.document.Document`, so that no two formats can tell different stories.
"""
