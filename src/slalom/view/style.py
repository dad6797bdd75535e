"""The styles of the HTML view. Colours are laid over whatever lies below, so every theme works."""

from __future__ import annotations

LEVELS = 10
"""Shades of each colour."""

_BLUE, _ORANGE = "37,99,235", "234,88,12"


def _shades(kind: str, colour: str) -> str:
    steps = ((level, 0.06 + 0.5 * level / LEVELS) for level in range(1, LEVELS + 1))
    return "".join(f".{kind}{level}{{background:rgba({colour},{a:.2f})}}" for level, a in steps)


def _scoped(rules: str) -> str:
    """The same rules, for what stands inside an explanation only."""
    scoped = []
    for rule in rules.split("}")[:-1]:
        selectors, _, body = rule.partition("{")
        inside = ",".join(f".slalom-explanation {one.strip()}".strip() for one in selectors.split(","))
        scoped.append(f"{inside}{{{body}}}")
    return "\n".join(scoped)


PAGE = """
:root{color-scheme:light dark}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:60rem;background:#fff;color:#1c2330}
@media (prefers-color-scheme:dark){body{background:#14171d;color:#e4e7ec}}
"""

_RULES = """
{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;color:inherit}
h2{font-size:1.25em;font-weight:600;margin:1.2em 0 .4em}
h3{font-size:1em;font-weight:600;margin:1.6em 0 .4em}
.labels{display:flex;flex-wrap:wrap;gap:.4em 1.4em;list-style:none;margin:0;padding:0}
.labels li{min-width:9em;opacity:.75;margin:0}
.labels li.first{opacity:1}
.labels svg{display:block;width:100%;height:4px;margin-top:2px}
.rail{fill:rgba(128,128,128,.25)}
.fill{fill:rgb(110,118,135)}
.text{font-size:1.12em;line-height:1.9;white-space:pre-wrap;overflow-wrap:anywhere;margin:.4em 0}
.text span{border-radius:3px;padding:.1em 0;cursor:default}
.text span:hover{outline:1px solid currentColor}
.text del{opacity:.5}
.legend{opacity:.75;font-size:.9em}
.legend span{border-radius:3px;padding:.05em .4em}
.verdict{border-left:4px solid rgb(128,128,128);padding:.35em .8em;
margin:1em 0;background:rgba(128,128,128,.08)}
.good{border-color:#16a34a}
.fair{border-color:#65a30d}
.rough{border-color:#d97706}
.poor{border-color:#dc2626}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:0;font-size:.93em}
th, td{padding:.22em .6em;text-align:start;border:0;
border-bottom:1px solid rgba(128,128,128,.22);background:none;white-space:nowrap}
th{font-weight:600}
.number{text-align:right}
.place{opacity:.55}
small{opacity:.65;font-size:.86em}
.bar{display:block;width:9em;height:.9em}
rect.p{fill:rgb(59,130,246)}
rect.n{fill:rgb(240,120,40)}
.middle{fill:currentColor;opacity:.45}
.scatter{display:block;width:100%;max-width:45rem;height:auto;font-size:12px}
.scatter text{fill:currentColor}
.tick{opacity:.65}
.axis{opacity:.85}
.name{font-weight:600}
.grid{stroke:rgba(128,128,128,.18)}
.zero{stroke:rgba(128,128,128,.7)}
circle{fill-opacity:.75}
circle.p{fill:rgb(59,130,246)}
circle.n{fill:rgb(240,120,40)}
details{margin:.8em 0}
summary{cursor:pointer;opacity:.85}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1em;margin:.5em 0;font-size:.9em}
dt{opacity:.65;font-weight:400;margin:0}
dd{margin:0;overflow-wrap:anywhere}
.note{border-left:4px solid #d97706;padding:.2em .8em;margin:.6em 0}
.cost{opacity:.75;font-size:.9em}
"""

FRAGMENT = _scoped(_RULES + _shades("p", _BLUE) + _shades("n", _ORANGE))
