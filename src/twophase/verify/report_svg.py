"""Plots as inline SVG: one panel with axes, into which lines, bars and marks are drawn.

Colours are classes of the page's style sheet, so that a plot follows light and dark. Every plot has
a title and a description for readers who do not see it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

_WIDTH, _HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 16, 30, 46
_TICKS: Final = 5
_POINTS_MAX: Final = 1_000


@dataclass(slots=True)
class Panel:
    """A plot from (0, 0) to (x_max, y_max)."""

    title: str
    description: str
    x_label: str
    y_label: str
    x_max: float
    y_max: float
    x_text: Callable[[float], str] = field(default=lambda value: f"{value:,g}")
    y_text: Callable[[float], str] = field(default=lambda value: f"{value:,g}")
    _parts: list[str] = field(default_factory=list)

    def steps(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Draw a line that keeps each value until the next point."""
        kept = _thinned(points)
        path = [f"M{self._x(kept[0][0]):.1f} {self._y(kept[0][1]):.1f}"] if kept else []
        path += [f"H{self._x(x):.1f}V{self._y(y):.1f}" for x, y in kept[1:]]
        self._parts.append(f'<path class="line {style}" d="{"".join(path)}"/>')

    def stack(self, at: float, width: float, parts: Sequence[tuple[float, str]], tip: str) -> None:
        """Draw one bar, from `at` on, of parts that stand on each other."""
        left, right = self._x(at), self._x(at + width)
        drawn, base = [], 0.0
        for value, style in parts:
            low, high = self._y(base), self._y(base + value)
            drawn.append(
                f'<rect class="{style}" x="{left:.1f}" y="{high:.1f}"'
                f' width="{max(0.8, right - left):.1f}" height="{low - high:.1f}"/>'
            )
            base += value
        self._parts.append(f"<g><title>{escape(tip)}</title>{''.join(drawn)}</g>")

    def mark(self, x: float, number: int, tip: str) -> None:
        """Draw a numbered line from top to bottom."""
        at = f"{self._x(x):.1f}"
        self._parts.append(
            f'<g><title>{escape(tip)}</title><path class="fault" d="M{at} {_TOP}V{_floor()}"/>'
            f'<text class="fault-number" x="{at}" y="{_TOP - 5}">{number}</text></g>'
        )

    def level(self, y: float, text: str) -> None:
        """Draw a line from left to right, with its name."""
        at = self._y(y)
        self._parts.append(
            f'<path class="level" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>'
            f'<text class="level-name" x="{_LEFT + 6}" y="{at - 5:.1f}">{escape(text)}</text>'
        )

    def note(self, text: str) -> None:
        """Write in the middle, where there is nothing to draw."""
        self._parts.append(
            f'<text class="note" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{(_TOP + _floor()) / 2}">'
            f"{escape(text)}</text>"
        )

    def svg(self, ident: str) -> str:
        """Return the plot; `ident` is unique on its page."""
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-labelledby="{ident}-title {ident}-text">'
            f'<title id="{ident}-title">{escape(self.title)}</title>'
            f'<desc id="{ident}-text">{escape(self.description)}</desc>'
            f"{self._axes()}{''.join(self._parts)}</svg>"
        )

    def _axes(self) -> str:
        drawn = []
        for value in ticks(self.y_max):
            at = self._y(value)
            drawn.append(
                f'<path class="grid" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/><text class="y-tick"'
                f' x="{_LEFT - 8}" y="{at + 4:.1f}">{escape(self.y_text(value))}</text>'
            )
        drawn += [
            f'<text class="x-tick" x="{self._x(value):.1f}" y="{_floor() + 17}">'
            f"{escape(self.x_text(value))}</text>"
            for value in ticks(self.x_max)
        ]
        middle = (_TOP + _floor()) / 2
        drawn.append(
            f'<path class="axis" d="M{_LEFT} {_floor()}H{_WIDTH - _RIGHT}"/>'
            f'<text class="x-tick" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 8}">'
            f"{escape(self.x_label)}</text>"
            f'<text class="y-label" transform="translate(14 {middle}) rotate(-90)">'
            f"{escape(self.y_label)}</text>"
        )
        return "".join(drawn)

    def _x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / (self.x_max or 1)

    def _y(self, value: float) -> float:
        return _floor() - (_floor() - _TOP) * value / (self.y_max or 1)


def ticks(most: float) -> list[float]:
    """Return 0 and a few round numbers up to `most`."""
    if most <= 0:
        return [0.0]
    rough = most / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.8)
    return [round(step * at, 10) for at in range(int(most / step * 1.0001) + 1)]


def _floor() -> int:
    return _HEIGHT - _BOTTOM


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep every k-th point and the last, so that a long run makes no huge file."""
    every = -(-len(points) // _POINTS_MAX) or 1
    kept = list(points[::every])
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]
