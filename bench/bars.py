"""Bars as an SVG file of its own, readable on light and dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _ROW, _LABEL, _NUMBER = 640, 26, 110, 90
_TOP, _GAP = 34, 12
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#57606a}.name{text-anchor:end}"
    "rect{fill:#3b82c4}.title{font-weight:600}"
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: what stands before it, and how long it is."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars of one kind, one below the other."""

    title: str
    bars: Sequence[Bar]

    @property
    def height(self) -> int:
        """How much room it takes."""
        return _TOP + len(self.bars) * _ROW + _GAP

    def drawn(self, top: int) -> str:
        """Return its lines from this height on; the longest bar takes the whole width."""
        most = max(bar.value for bar in self.bars) or 1
        lines = [f'<text class="title" x="8" y="{top + 20}">{escape(self.title)}</text>']
        for at, bar in enumerate(self.bars):
            y = top + _TOP + at * _ROW
            width = max(1.0, (_WIDTH - _LABEL - _NUMBER) * bar.value / most)
            lines.append(
                f'<text class="name" x="{_LABEL - 8}" y="{y + 15}">{escape(bar.name)}</text>'
                f'<rect x="{_LABEL}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 6}"/>'
                f'<text x="{_LABEL + width + 6:.1f}" y="{y + 15}">{bar.value:,.0f}</text>'
            )
        return "\n".join(lines)

    def told(self) -> str:
        """Return what it shows in words."""
        return f"{self.title}: " + ", ".join(f"{bar.name}: {bar.value:,.0f}" for bar in self.bars)


def picture(plots: Sequence[Plot]) -> str:
    """Return the plots as one picture, one below the other."""
    parts, top = [], 0
    for plot in plots:
        parts.append(plot.drawn(top))
        top += plot.height
    title, told = escape(plots[0].title), escape("; ".join(plot.told() for plot in plots))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img">\n'
        f"<title>{title}</title><desc>{told}</desc><style>{_STYLE}</style>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )
