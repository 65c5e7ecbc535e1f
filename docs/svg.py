# SPDX-License-Identifier: Apache-2.0
"""A few shapes as SVG text: just what the pictures of the primer need, always the same bytes."""
from xml.sax.saxutils import escape

INK, MUTED, FAINT = "#1f2933", "#6b7785", "#a3adb8"
LINE, CELL, USED, CARD = "#c3ccd6", "#f4f6f9", "#dfe6ef", "#ffffff"
BLUE, ORANGE, GREEN, RED = "#2f6fde", "#dd7a1f", "#23946a", "#cc3b3b"
TINTS = {BLUE: "#d9e6fb", ORANGE: "#fbe5cd", GREEN: "#d3efe2", RED: "#f8d9d9"}
SANS = "DejaVu Sans, Verdana, sans-serif"
MONO = "DejaVu Sans Mono, Menlo, monospace"


def number(x):
    """Coordinates to a tenth of a pixel, so that the last bit of a logarithm does not show."""
    return f"{x:.1f}".rstrip("0").rstrip(".")


class Picture:
    """Collects shapes; str() is the SVG document. Coordinates in pixels from the upper left."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.shapes = []

    def rect(self, x, y, w, h, fill=CELL, stroke=LINE, radius=2, width=1):
        self.shapes.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}" '
            f'rx="{number(radius)}" fill="{fill}" stroke="{stroke}" '
            f'stroke-width="{number(width)}"/>')

    def text(self, x, y, text, size=13, fill=INK, anchor="middle", bold=False, mono=False):
        self.shapes.append(
            f'<text x="{number(x)}" y="{number(y)}" font-family="{MONO if mono else SANS}" '
            f'font-size="{number(size)}" fill="{fill}" text-anchor="{anchor}"'
            + (' font-weight="bold"' if bold else "") + f'>{escape(text)}</text>')

    def path(self, points, stroke=INK, width=1.5, dash=None, closed=False):
        d = "M" + " L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.shapes.append(
            f'<path d="{d}{"Z" if closed else ""}" fill="none" stroke="{stroke}" '
            f'stroke-width="{number(width)}" stroke-linejoin="round"'
            + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")

    def polygon(self, points, fill):
        d = "M" + " L".join(f"{number(x)} {number(y)}" for x, y in points) + "Z"
        self.shapes.append(f'<path d="{d}" fill="{fill}"/>')

    def arrow(self, x1, y1, x2, y2, stroke=INK, width=1.5):
        """An S-curve from the first point down (or up) to the second, with a head."""
        sign = 1 if y2 > y1 else -1
        tip = y2 - sign * 6
        bend = (tip - y1) * 0.5
        self.shapes.append(
            f'<path d="M{number(x1)} {number(y1)} C{number(x1)} {number(y1 + bend)} '
            f'{number(x2)} {number(tip - bend)} {number(x2)} {number(tip)}" fill="none" '
            f'stroke="{stroke}" stroke-width="{number(width)}"/>')
        self.polygon([(x2, y2), (x2 - 4, tip - sign), (x2 + 4, tip - sign)], stroke)

    def pill(self, x, y, text, color, w=None):
        """A key: a tinted capsule centred on x, its upper edge at y, 24 high."""
        w = w or 9 * len(text) + 22
        self.rect(x - w / 2, y, w, 24, TINTS[color], color, 12, 1.3)
        self.text(x, y + 16.5, text, 13, color, bold=True)

    def cells(self, x, y, values, w=25, h=34, color=BLUE, marks=()):
        """A row of counters, each with its number below it; those in `marks` are framed."""
        for i, value in enumerate(values):
            middle = x + (i + 0.5) * w
            self.rect(x + i * w, y, w, h, TINTS[color] if i in marks and value else
                      USED if value else CELL, LINE, 0)
            self.text(middle, y + 17, str(value), 12.5, INK if value else FAINT, mono=True)
            self.text(middle, y + h - 5, str(i), 8, MUTED if value else FAINT)
        for i in marks:
            self.rect(x + i * w, y, w, h, "none", color, 0, 2.2)

    def __str__(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" role="img">\n'
                f'<title>{escape(self.title)}</title>\n'
                f'<rect width="{self.width}" height="{self.height}" rx="8" fill="{CARD}"/>\n')
        return head + "\n".join(self.shapes) + "\n</svg>\n"
