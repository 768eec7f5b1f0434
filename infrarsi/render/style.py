"""The look: colours for light and dark, the page, and the plots. No font or script is fetched."""

from __future__ import annotations

_LIGHT = """
--paper:#ffffff;--card:#f6f7f9;--ink:#1a1f27;--soft:#59636f;--line:#d9dde3;--grid:#e8ebef;
--pass:#0b7a5b;--fail:#c2321f;--warn:#9a6200;--memory:#8b3fa8;--reference:#49627f;--mute:#8a94a1;
--pass-wash:#e6f4ef;--fail-wash:#fbeae7;--warn-wash:#fbf1dd;--none-wash:#eef1f5;
"""
_DARK = """
--paper:#11151b;--card:#1a2029;--ink:#e8ebf0;--soft:#a3adba;--line:#333c49;--grid:#252c37;
--pass:#43c59e;--fail:#ff7d6b;--warn:#e5ad45;--memory:#cf8ee8;--reference:#93b0d3;--mute:#7d8896;
--pass-wash:#12302a;--fail-wash:#3a1d1a;--warn-wash:#35290f;--none-wash:#222a35;
"""

THEME = (
    f":root{{color-scheme:light dark;{_LIGHT}}}\n"
    f"@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}\n"
    f"@media print{{:root{{color-scheme:light;{_LIGHT}}}}}\n"
)

# Paul Tol's "light" scheme: told apart by colour-blind readers, and black text is legible on it.
_FILLS = (
    "#77aadd", "#ee8866", "#eedd88", "#44bb99", "#ffaabb", "#99ddff", "#bbcc33", "#aaaa00",
    "#dddddd",
)  # fmt: skip

PLOT = """
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif;
 fill:var(--ink)}
svg .tick,svg .axis-title{fill:var(--soft);font-size:11.5px}
svg .value{font-variant-numeric:tabular-nums}
svg .strong{font-weight:650}
svg .quiet{fill:var(--mute)}
svg .halo{paint-order:stroke;stroke:var(--halo,var(--paper));stroke-width:4px;stroke-linejoin:round}
svg .inside{fill:#14181d;font-size:11.5px}
svg .hit{fill:transparent}
svg line,svg path{fill:none;stroke-linecap:round}
svg .grid{stroke:var(--grid);stroke-linecap:butt}
svg .axis{stroke:var(--line)}
svg .lane{stroke:var(--line);stroke-dasharray:1 5}
svg .reference{stroke:var(--reference);stroke-width:1.5;stroke-dasharray:5 4}
svg .threshold{stroke:var(--fail);stroke-width:1.5}
svg .capacity{stroke:var(--memory);stroke-width:1.5}
svg .capacity.faint{stroke-width:1;stroke-dasharray:2 5}
svg .diagonal{stroke:var(--mute);stroke-dasharray:2 4}
svg .best{stroke:var(--pass);stroke-width:2;stroke-linejoin:round}
svg .ring{fill:none;stroke:var(--pass);stroke-width:1.5}
svg .mark{stroke-width:1.8}
svg .mark.pass{fill:var(--pass);stroke:var(--pass)}
svg .mark.fail{fill:var(--fail);stroke:var(--fail)}
svg .mark.warn{fill:var(--warn);stroke:var(--warn)}
svg .mark.mute{fill:var(--mute);stroke:var(--mute)}
svg .mark.reference-mark{fill:var(--reference);stroke:var(--reference)}
svg .mark.dropped{fill:var(--mute);stroke:var(--mute);opacity:.75}
svg .mark.memory{stroke:var(--memory)}
svg .mark.hollow{fill:var(--paper)}
svg .mark.stroke{fill:none;stroke-width:2.2}
svg .whisker{stroke-width:1.8;stroke-linecap:butt}
svg .whisker.pass{stroke:var(--pass)}
svg .whisker.fail{stroke:var(--fail)}
svg .whisker.warn{stroke:var(--warn)}
svg .whisker.faint{stroke:var(--pass);opacity:.35}
svg .whisker.thick{stroke-width:5}
svg .segment{stroke:var(--paper);stroke-width:1}
""" + "".join(f"svg .fill-{index}{{fill:{colour}}}\n" for index, colour in enumerate(_FILLS))

PAGE = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main,header,footer{max-width:66rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2rem}
h1{font-size:1.75rem;line-height:1.25;font-weight:650;letter-spacing:-.01em;margin:.6rem 0 .5rem;
 text-wrap:balance}
h2{font-size:1.3rem;line-height:1.3;margin:0 0 .5rem;letter-spacing:-.005em}
h3{font-size:1rem;margin:0}
p{margin:.4rem 0 .9rem;max-width:46rem}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;
 overflow-wrap:anywhere}
.about{color:var(--soft);font-size:.9rem;margin:0 0 1.2rem;max-width:none}
.verdict{border-radius:12px;padding:1.35rem 1.5rem 1rem;border:1px solid var(--line);
 border-left:6px solid var(--tone);background:var(--halo)}
.verdict.pass{--tone:var(--pass);--halo:var(--pass-wash)}
.verdict.fail{--tone:var(--fail);--halo:var(--fail-wash)}
.verdict.inconclusive{--tone:var(--warn);--halo:var(--warn-wash)}
.verdict.none{--tone:var(--soft);--halo:var(--none-wash)}
.verdict .label{display:inline-block;font-weight:700;font-size:.82rem;letter-spacing:.06em;
 text-transform:uppercase;color:var(--tone)}
.verdict .top{display:flex;gap:1.75rem;align-items:center}
.verdict .big{font-size:3.6rem;line-height:1;font-weight:700;letter-spacing:-.03em;
 color:var(--tone);font-variant-numeric:tabular-nums}
.verdict .support{margin:.2rem 0 .6rem;max-width:none}
.warning{border:1px solid var(--fail);background:var(--fail-wash);border-radius:8px;
 padding:.6rem 1rem;margin:1rem 0;max-width:none}
.facts{display:grid;grid-template-columns:repeat(4,1fr);gap:1px;margin:1.1rem 0 0;
 background:var(--line);border:1px solid var(--line);border-radius:12px;overflow:hidden}
.facts>div{background:var(--paper);padding:.75rem .95rem .8rem}
.facts>div.wide{grid-column:1/-1}
.facts dt{color:var(--soft);font-size:.82rem}
.facts dd{margin:0;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.facts .wide dd{font-weight:400;font-size:.95rem}
.facts dd.note{font-weight:400;font-size:.82rem;color:var(--soft);line-height:1.4}
nav{margin:1.4rem 0 0;font-size:.9rem;color:var(--soft)}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;margin:0;padding:0}
a{color:inherit;text-underline-offset:.2em;text-decoration-color:var(--mute)}
section{margin-top:2.6rem;padding-top:1.5rem;border-top:1px solid var(--line)}
figure{margin:1rem 0 1.5rem}
figcaption{color:var(--soft);font-size:.88rem;margin-top:.3rem;max-width:46rem}
figure h3{margin-bottom:.4rem}
.scroll{overflow-x:auto}
svg.plot{display:block;width:100%;height:auto;max-width:60rem}
figure .scroll svg{min-width:36rem}
.verdict .scroll svg{min-width:30rem}
table{border-collapse:collapse;width:100%;font-size:.88rem;line-height:1.45;margin:0}
table.narrow{width:auto;min-width:min(18rem,80vw)}
.tables{display:flex;flex-wrap:wrap;gap:0 3rem;align-items:flex-start}
.tables>.block{max-width:100%}.tables>.block.wide{flex:1 0 100%}
.block{margin:1rem 0 1.5rem}
caption{text-align:left;font-weight:650;padding:0 0 .45rem;font-size:.95rem}
th{text-align:left;font-weight:600;color:var(--soft);font-size:.8rem;white-space:nowrap;
 vertical-align:bottom}
th,td{padding:.42rem 1rem .42rem 0;border-bottom:1px solid var(--line)}
td{vertical-align:top}
th.number,td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td:last-child,th:last-child{padding-right:0}
td.wide{min-width:15rem}
tr.dropped td,tr.dropped code{color:var(--mute)}
td div+div{margin-top:.1rem}
.muted{color:var(--soft)}
td .muted{font-size:.94em}
.ruling{font-weight:600;white-space:nowrap}
.ruling.pass{color:var(--pass)}.ruling.fail{color:var(--fail)}.ruling.inconclusive{
 color:var(--warn)}
summary{cursor:pointer;font-weight:650;font-size:.95rem}
footer{color:var(--soft);font-size:.85rem;padding-bottom:3rem;margin-top:2.5rem}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
@media (max-width:52rem){.facts{grid-template-columns:repeat(2,1fr)}.verdict .top{display:block}
 .verdict .big{font-size:2.9rem;margin:.3rem 0}h1{font-size:1.4rem}}
@media print{body{font-size:10.5pt}nav,.skip{display:none}section{break-inside:auto;
 margin-top:1.4rem}
 figure,tr,.verdict,.facts>div{break-inside:avoid}h2{break-after:avoid}
 .scroll{overflow:visible}figure .scroll svg,.verdict .scroll svg{min-width:0}
 *{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
