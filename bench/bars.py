"""Bars as an SVG file of its own, readable on light and dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _ROW, _LABEL, _NUMBER = 640, 30, 110, 90
_TOP = 34
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#57606a}.name{text-anchor:end}"
    "rect{fill:#3b82c4}.title{font-weight:600}"
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: what stands before it, and how long it is."""

    name: str
    value: float


def bars(title: str, found: Sequence[Bar]) -> str:
    """Return the plot: one bar below the other, the longest over the whole width."""
    most = max(bar.value for bar in found) or 1
    room = _WIDTH - _LABEL - _NUMBER
    drawn = []
    for at, bar in enumerate(found):
        top, width = _TOP + at * _ROW, max(1.0, room * bar.value / most)
        drawn.append(
            f'<text class="name" x="{_LABEL - 8}" y="{top + 17}">{escape(bar.name)}</text>'
            f'<rect x="{_LABEL}" y="{top + 3}" width="{width:.1f}" height="{_ROW - 10}"/>'
            f'<text x="{_LABEL + width + 6:.1f}" y="{top + 17}">{bar.value:,.0f}</text>'
        )
    height = _TOP + len(found) * _ROW + 6
    told = "; ".join(f"{bar.name}: {bar.value:,.0f}" for bar in found)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(told)}</desc><style>{_STYLE}</style>"
        f'<text class="title" x="8" y="20">{escape(title)}</text>{"".join(drawn)}</svg>\n'
    )
