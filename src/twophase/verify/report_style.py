"""The style sheet of the report: light and dark, with contrast enough to be read."""

from typing import Final

STYLE: Final = """
:root { --paper: #ffffff; --ink: #1f2328; --soft: #57606a; --line: #d0d7de; --rows: #0b5cad;
  --bad: #b42318; --good: #1a6b30; --encode: #0b5cad; --send: #a85a00; --commit: #1f7a3d;
  --open: #7a44c9; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --soft: #a9b4c0;
  --line: #30363d; --rows: #6cb6ff; --bad: #ff8a80; --good: #57c76f; --encode: #6cb6ff;
  --send: #f2a65a; --commit: #57c76f; --open: #c6a2ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1500px; margin: 0 auto; padding: 24px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 .25rem; }
.about, .legend, figcaption, caption { color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .5rem; }
th, td { padding: .35rem 1rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child { text-align: left; padding-left: 0; }
tbody th { font-weight: 400; }
.bad { color: var(--bad); font-weight: 700; }
.good { color: var(--good); font-weight: 700; }
code { font-size: .9em; overflow-wrap: anywhere; }
.plots { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); }
figure { margin: 0; }
figcaption { font-size: .9rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.y-tick { text-anchor: end; }
.x-tick, .y-label, .note, svg .fault-number { text-anchor: middle; }
svg .note, svg .level-name { fill: var(--soft); }
.grid { stroke: var(--line); stroke-width: 1; }
.axis { stroke: var(--ink); stroke-width: 1; }
.level { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 6 4; }
.line { fill: none; stroke-width: 2; }
.rows { stroke: var(--rows); }
.fault { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 3 3; }
svg .fault-number { fill: var(--bad); font-weight: 700; }
.encode { fill: var(--encode); background: var(--encode); }
.send { fill: var(--send); background: var(--send); }
.commit { fill: var(--commit); background: var(--commit); }
.open { fill: var(--open); background: var(--open); }
.key { display: inline-block; width: .9em; height: .9em; vertical-align: -.1em; }
.key:not(:first-child) { margin-left: 1rem; }
.fault-key { width: 0; border-left: 2px dashed var(--bad); }
"""  # noqa: E501
