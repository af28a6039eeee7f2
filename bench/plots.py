"""Renders bar and line charts as SVG, without a library."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from pathlib import Path

WIDTH, LABELS, ROW, TOP = 760, 300, 26, 44
OURS_COLOUR, PEER_COLOUR, LIMIT_COLOUR = "#0b7a75", "#b8bec6", "#e3c77b"
COLOURS = {"Counterfoil": OURS_COLOUR, "nginx": LIMIT_COLOUR, "our HTTP server": LIMIT_COLOUR}
STYLE = "font-family:system-ui,sans-serif;font-size:13px"


def bars(path: Path, title: str, values: Mapping[str, float]) -> None:
    """Render one bar per name, longest first, with its value. Our bars and the upper limits have their own colours."""
    ordered = sorted(values.items(), key=lambda pair: -pair[1])
    most = max(values.values(), default=1.0)
    body = []
    for place, (name, value) in enumerate(ordered):
        y = TOP + place * ROW
        length = max(1.0, (WIDTH - LABELS - 90) * value / most)
        body.append(_text(LABELS - 8, y + 15, name, "end"))
        colour = next((colour for start, colour in COLOURS.items() if name.startswith(start)), PEER_COLOUR)
        body.append(f'<rect x="{LABELS}" y="{y + 3}" width="{length:.1f}" height="18" fill="{colour}"/>')
        body.append(_text(LABELS + length + 6, y + 15, f"{value:,.0f}" if value >= 10 else f"{value:.1f}"))
    _write(path, title, TOP + len(ordered) * ROW + 10, body)


def line(path: Path, title: str, points: Sequence[tuple[float, float]], unit: str) -> None:
    """Plot values against sizes. The axis of sizes is logarithmic, and each point is labelled with its value."""
    left, right = log10(points[0][0]), log10(points[-1][0])
    most, height = max(value for _, value in points) * 1.15, 240
    body, placed = [], []
    for size, value in points:
        x = 90 + (WIDTH - 180) * (log10(size) - left) / ((right - left) or 1)
        y = TOP + height * (1 - value / most)
        placed.append(f"{x:.1f},{y:.1f}")
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{OURS_COLOUR}"/>')
        body.append(_text(x, y - 9, f"{value:,.0f} {unit}", "middle"))
        body.append(_text(x, TOP + height + 20, f"{size:,.0f}", "middle"))
    trace = f'<polyline points="{" ".join(placed)}" fill="none" stroke="{OURS_COLOUR}" stroke-width="2"/>'
    _write(path, title, TOP + height + 34, [trace, *body])


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222">{escape(text)}</text>'


def _write(path: Path, title: str, height: float, body: list[str]) -> None:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" style="{STYLE}">'
    ground = f'<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>'
    heading = f'<text x="16" y="26" font-weight="600" fill="#222">{escape(title)}</text>'
    path.write_text("\n".join((head, ground, heading, *body, "</svg>")) + "\n", "utf-8")
