#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/primer.md into docs/img/. Needs nothing but Python.

Every position and every counter is computed by model.py with the formulas of the library; the
words were picked, the outcome was not.

  docs/draw.py               draw all pictures
  docs/draw.py --check       fail when a picture on disk is not what would be drawn
  docs/draw.py --positions   print where the words of the pictures lie, for the test
"""
import pathlib
import sys

import curves
import model
from svg import BLUE, CELL, FAINT, GREEN, INK, LINE, MUTED, ORANGE, RED, TINTS, Picture

WORDS = ("lemon", "orange", "grape", "guava", "cherry")


def answer(picture, x, y, text, color):
    picture.text(x, y, text, 13, color, bold=True)


def bloom():
    """One bit array of 32, k = 3; a true negative and a false positive."""
    m, k, w, left, top = 32, 3, 25, 30, 130
    p = Picture(860, 300, "A Bloom filter of 32 bits: two keys inserted, two asked for")
    at = {word: model.split_positions(word, k, m) for word in WORDS}
    bits = [0] * m
    for word in ("lemon", "orange"):
        for position in at[word]:
            bits[position] = 1

    def centre(position):
        return left + (position + 0.5) * w

    p.text(30, 40, "insert", 13, MUTED, "start")
    for word, x, color in (("lemon", 330, BLUE), ("orange", 560, ORANGE)):
        p.pill(x, 24, word, color)
        for position in at[word]:
            p.arrow(x, 48, centre(position), top - 2, color)
    p.cells(left, top, bits)

    p.text(30, 258, "ask", 13, MUTED, "start")
    for word, x in (("grape", 250), ("guava", 600)):
        missed = [q for q in at[word] if not bits[q]]
        color = GREEN if missed else RED
        p.pill(x, 242, word, color)
        for position in at[word]:
            p.arrow(x, 242, centre(position), top + 36, color)
        answer(p, x, 286, f"bit {missed[0]} is 0: surely absent" if missed
               else "all ones: a false positive", color)
    return p


def counting():
    """The same array with counters: two keys share two counters, one of the keys leaves."""
    m, k, left = 32, 3, 30
    p = Picture(860, 270, "Counters instead of bits: a key can be taken out again")
    counters = [0] * m
    y = 42
    for verb, word, color in (("insert", "lemon", BLUE), ("insert", "grape", GREEN),
                              ("remove", "lemon", BLUE)):
        marks = model.split_positions(word, k, m)
        for position in marks:
            counters[position] += 1 if verb == "insert" else -1
        p.text(left, y - 8, f"{verb} {word}", 13, color, "start", bold=True)
        p.cells(left, y, counters, color=color, marks=marks)
        y += 72
    shared = sorted(set(model.split_positions("lemon", k, m)) &
                    set(model.split_positions("grape", k, m)))
    p.text(left, 256, f"lemon and grape share the counters {shared[0]} and {shared[1]}: "
           "they fall from 2 to 1, and grape is still found.", 13, MUTED, "start")
    return p


def split():
    """k = 4 slices of m = 16 counters, three keys."""
    k, m, w, left = 4, 16, 26, 300
    p = Picture(860, 300, "Layout split: each hash function owns a slice")
    filter_ = model.Split(k, m)
    keys = (("lemon", BLUE), ("orange", ORANGE), ("grape", GREEN))
    for word, _ in keys:
        filter_.insert(word)
    tops = [40 + 62 * i for i in range(k)]
    for i, top in enumerate(tops):
        p.text(left - 12, top + 18, f"slice {i}", 13, MUTED, "end")
        for position in range(m):
            owners = [c for word, c in keys if model.split_positions(word, k, m)[i] == position]
            value = filter_.slices[i][position]
            x = left + position * w
            p.rect(x, top, w, 28, TINTS[owners[0]] if owners else CELL, LINE, 0)
            if len(owners) == 2:
                p.polygon([(x + w - 0.5, top + 0.5), (x + w - 0.5, top + 27.5),
                           (x + 0.5, top + 27.5)], TINTS[owners[1]])
            p.text(x + w / 2, top + 19, str(value), 12, INK if value else FAINT, mono=True)
        p.text(left + m * w + 12, top + 18, f"h{i}", 13, MUTED, "start")
    for row, (word, color) in enumerate(keys):
        y = 70 + 66 * row
        p.pill(90, y, word, color)
        positions = model.split_positions(word, k, m)
        p.text(90, y + 42, "counters " + " ".join(map(str, positions)), 11.5, color)
    p.text(left, 288, "k = 4 slices of m = 16 counters; a key counts once in every slice",
           12.5, MUTED, "start")
    return p


def block():
    """How a hash becomes a block and eight counters in it."""
    blocks, word = 6, "lemon"
    p = Picture(860, 400, "Layout split_block: one key, one cache line")
    h = model.xxh3_64(word)
    where = model.place(h, blocks)
    chosen, nibbles = model.block_of(where), model.nibbles_of(where)
    p.pill(80, 22, word, BLUE)
    p.text(130, 39, f"XXH3-64 = {h:016x}", 13, INK, "start", mono=True)
    p.text(450, 39, f"× {blocks} blocks  =", 13, INK, "start", mono=True)
    product = f"{h * blocks:024x}"
    x = 600
    for part, color in ((product[:8], BLUE), (product[8:16], ORANGE), (product[16:], MUTED)):
        p.text(x, 39, part, 13, color, "start", bold=color != MUTED, mono=True)
        x += 72
    p.text(632, 58, f"block {chosen}", 11.5, BLUE)
    p.text(707, 58, "8 nibbles", 11.5, ORANGE)
    p.text(776, 58, "not used", 11.5, MUTED)

    w, top = 132, 84
    for b in range(blocks):
        here = b == chosen
        p.rect(34 + b * w, top, w, 30, TINTS[BLUE] if here else CELL, BLUE if here else LINE, 0,
               2 if here else 1)
        p.text(34 + (b + 0.5) * w, top + 20, f"block {b}", 12, BLUE if here else MUTED, bold=here)
    cw, ch, left, grid = 34, 26, 200, 168
    p.path([(34 + chosen * w, top + 31), (left, grid - 22)], LINE, 1.2)
    p.path([(34 + (chosen + 1) * w, top + 31), (left + 16 * cw, grid - 22)], LINE, 1.2)
    for c in range(16):
        p.text(left + (c + 0.5) * cw, grid - 7, f"{c:x}", 11, MUTED, mono=True)
    for i, nibble in enumerate(nibbles):
        y = grid + i * ch
        p.text(left - 12, y + 18, f"word {i} = slice {i}", 11.5, MUTED, "end")
        for c in range(16):
            hit = c == nibble
            p.rect(left + c * cw, y, cw, ch, TINTS[ORANGE] if hit else CELL, LINE, 0)
            if hit:
                p.text(left + (c + 0.5) * cw, y + 18, "+1", 12, ORANGE, bold=True)
        p.text(left + 16 * cw + 12, y + 18, f"nibble {nibble:x}", 11.5, ORANGE, "start", mono=True)
    return p


def ranked():
    """One slice of sixteen positions: the bitmap, and the list of counts in unary."""
    positions, w, left = 16, 34, 200
    p = Picture(860, 300, "Layout ranked: a bitmap, and the counts of what it shows in unary")
    keys = (("lemon", BLUE, 1), ("orange", ORANGE, 3), ("grape", GREEN, 1), ("guava", RED, 2))
    at = {word: model.ranked_place(model.xxh3_64(word), 1, positions)[1][0] for word, *_ in keys}
    for row, (word, color, copies) in enumerate(keys):
        x = left + 70 + 150 * row
        p.pill(x, 20, word, color)
        p.text(x, 62, "once" if copies == 1 else f"{copies} times", 11.5, color)
        p.arrow(x, 68, left + (at[word] + 0.5) * w, 106, color)
    p.text(left - 14, 128, "bitmap", 13, MUTED, "end")
    used = sorted((at[word], color, copies) for word, color, copies in keys)
    counts = {}
    for position, color, copies in used:
        before = counts.get(position, (0, color))
        counts[position] = (before[0] + copies, before[1])
    for position in range(positions):
        here = counts.get(position)
        x = left + position * w
        p.rect(x, 108, w, 30, TINTS[here[1]] if here else CELL, LINE, 0)
        p.text(x + w / 2, 128, "1" if here else "0", 13, INK if here else FAINT, mono=True)
        p.text(x + w / 2, 152, str(position), 9, MUTED)
    p.text(left - 14, 214, "list", 13, MUTED, "end")
    x = left
    for position in sorted(counts):
        count, color = counts[position]
        p.arrow(left + (position + 0.5) * w, 158, x + count * w / 2, 190, color, 1.2)
        for i in range(count):
            p.rect(x + i * w, 194, w, 30, TINTS[color], LINE, 0)
            p.text(x + (i + 0.5) * w, 214, "1" if i == count - 1 else "0", 13, INK, mono=True)
        p.text(x + count * w / 2, 242, f"count {count}", 10.5, color)
        x += count * w
    p.text(left, 282, "a one ends each count: the third in use is what follows the second one", 12.5,
           MUTED, "start")
    return p


def groups():
    """g = 2: one block in each of two groups."""
    blocks, count = 6, 2
    p = Picture(860, 260, "Two groups: one block in each, sixteen probes")
    w, left, tops = 110, 170, (92, 190)
    for j in range(count):
        p.text(left - 14, tops[j] + 28, f"group {j}", 13, MUTED, "end")
        for b in range(blocks):
            p.rect(left + b * w, tops[j], w, 44, CELL, LINE, 0)
            p.text(left + b * w + 6, tops[j] + 13, str(b), 10, MUTED, "start")
    for word, x, color in (("lemon", 640, BLUE), ("cherry", 330, ORANGE)):
        p.pill(x, 18, word, color)
        for j in range(count):
            where = model.place(model.xxh3_64(word), blocks, j)
            cell = left + model.block_of(where) * w
            p.rect(cell, tops[j], w, 44, TINTS[color], color, 0, 2)
            p.text(cell + 6, tops[j] + 13, str(model.block_of(where)), 10, color, "start")
            p.text(cell + w / 2, tops[j] + 32,
                   " ".join(f"{n:x}" for n in model.nibbles_of(where)), 11, color, mono=True)
            if j == 0:
                p.arrow(x, 42, cell + w / 2, tops[0] - 2, color)
    for word, color in (("lemon", BLUE), ("cherry", ORANGE)):
        first, second = (left + (model.block_of(model.place(model.xxh3_64(word), blocks, j)) + 0.5)
                         * w for j in range(count))
        p.arrow(first, tops[0] + 44, second, tops[1] - 2, color)
    p.text(left, 252, "in each block: the counter chosen in each of its eight words", 12, MUTED,
           "start")
    return p


PICTURES = {"bloom": bloom, "counting": counting, "split": split, "block": block, "ranked": ranked,
            "groups": groups, "saturation": curves.saturation, "fpr": curves.fpr,
            "layouts": curves.layouts}


def print_positions():
    """One line per word and filter: the counters it touches."""
    for word in WORDS:
        for k, m in ((3, 32), (4, 16), (7, 1000003)):
            print("split", word, k, m, *model.split_positions(word, k, m))
        for blocks in (6, 64, 4294967295):
            for j in range(3):
                where = model.place(model.xxh3_64(word), blocks, j)
                print("split_block", word, blocks, j, model.block_of(where),
                      *model.nibbles_of(where))
        for blocks, size in ((1, 16), (6, 82), (4294967295, 112)):
            block, positions = model.ranked_place(model.xxh3_64(word), blocks, size)
            print("ranked", word, blocks, size, block, *positions)


def main(arguments):
    folder = pathlib.Path(__file__).resolve().parent / "img"
    if arguments == ["--positions"]:
        return print_positions()
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__.strip())
    stale = []
    for name, draw in PICTURES.items():
        path, content = folder / f"primer-{name}.svg", str(draw()).encode()
        if not arguments:
            folder.mkdir(exist_ok=True)
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            stale.append(path.name)
    if stale:
        sys.exit(f"not what docs/draw.py draws: {', '.join(stale)}; run docs/draw.py")
    if arguments:
        print(f"{len(PICTURES)} pictures are what docs/draw.py draws")


if __name__ == "__main__":
    main(sys.argv[1:])
