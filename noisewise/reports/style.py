"""How a page looks: dark on white, one column, no scripts, nothing from elsewhere."""

from noisewise.assessment.assessment import COLOURS
from noisewise.assessment.reasons import Level

CLASSES = {Level.TRUST: "trust", Level.CARE: "care", Level.DISTRUST: "distrust"}
_BADGES = "\n".join(f".{CLASSES[level]} {{ background: {COLOURS[level]}; }}" for level in Level)

CSS = (
    f"""
{_BADGES}"""
    + """
:root { color-scheme: light; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.2rem 1rem 3rem; max-width: 50rem; background: #fff;
  color: #1a1a1a;
  font: 1rem/1.55 "Source Serif 4", "Source Serif Pro", Charter, Georgia, "DejaVu Serif", serif;
  overflow-wrap: break-word; }
h1, h2, h3, table, dl, figcaption, .badge, footer {
  font-family: "Source Sans 3", "Source Sans Pro", "Helvetica Neue", Arial, "DejaVu Sans",
  sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .8rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.4rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid #ccc; }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .3rem; }
p, ul, dl, figure { margin: .6rem 0; }
ul { padding-left: 1.3rem; }
li { margin: .25rem 0; }
.lead { border-left: .35rem solid #0072b2; background: #f3f7fa; padding: .7rem 1rem;
  margin: 0 0 1rem; }
.lead p { margin: .35rem 0; }
.lead .sentence { font-size: 1.15rem; line-height: 1.45; }
.badge { display: inline-block; font-weight: 700; padding: .1rem .6rem; border-radius: .3rem;
  color: #fff; margin-right: .35rem; }
.scroll { overflow-x: auto; max-width: 100%; }
.scroll:focus-visible { outline: 2px solid #0072b2; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums;
  line-height: 1.35; }
th, td { padding: .3rem .8rem .3rem 0; text-align: right; white-space: nowrap; vertical-align: top;
  }
thead th { border-bottom: 1.5px solid #1a1a1a; font-weight: 600; vertical-align: bottom; }
tbody th { text-align: left; font-weight: 600; position: sticky; left: 0; background: #fff; }
tbody tr + tr th, tbody tr + tr td { border-top: 1px solid #ddd; }
thead th:first-child { text-align: left; }
dl { display: grid; grid-template-columns: fit-content(55%) minmax(8rem, 1fr);
  gap: .35rem 1.2rem; font-size: .95rem; }
dt { font-weight: 600; }
dd { margin: 0; min-width: 0; }
img { display: block; height: auto; max-width: 100%; }
.panels { display: flex; flex-wrap: wrap; gap: .6rem 1rem; }
.panel { flex: 0 1 auto; max-width: 100%; }
figcaption { color: #444; font-size: .9rem; line-height: 1.4; margin-top: .3rem; }
pre { background: #f4f4f4; border: 1px solid #ddd; padding: .6rem .8rem; margin: .6rem 0;
  overflow-x: auto;
  font-size: .85rem; line-height: 1.4; }
code { font-family: "Source Code Pro", "DejaVu Sans Mono", Menlo, Consolas, monospace; }
footer { margin-top: 3rem; padding-top: .6rem; border-top: 1px solid #ccc; color: #444;
  font-size: .85rem; }
@media (max-width: 34rem) {
  h1 { font-size: clamp(1.1rem, 5vw, 1.45rem); }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin: 0 0 .5rem; }
  .panels { gap: .4rem; }
  .panels .panel { flex: 0 0 calc(50% - .2rem); }
}
@media print {
  @page { margin: 18mm 16mm; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  h2, h3, p:has(+ figure) { break-after: avoid; }
  .scroll img { max-width: 120mm; min-width: 0 !important; }
  figure, tr, dl > *, .lead, pre { break-inside: avoid; }
  .scroll { overflow: visible; }
  tbody th { position: static; }
  .badge { color: #000; background: none; border: 1.5px solid #000; }
  .lead { background: none; }
  pre { white-space: pre-wrap; }
}
"""
)
