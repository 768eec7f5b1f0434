"""The voice: reports in HTML, Markdown and SVG, and tables for a terminal.

Every number goes through :mod:`infrarsi.render.numbers`, and every report through one
:class:`~infrarsi.render.document.Document`, so that no two formats can tell different stories.
"""

from infrarsi.render.html import render_html
from infrarsi.render.markdown import render_markdown
from infrarsi.render.summary import render_svg_summary

__all__ = ["render_html", "render_markdown", "render_svg_summary"]
