# SPDX-License-Identifier: Apache-2.0
"""The position formulas and the sizing maths in plain Python, for the pictures of the primer.

A port of core/include/scbf/detail/{hash,positions}.hpp, of the false-positive rates of core/src/maths/sizing.cpp, and
of the sizes of `ranked` in core/src/maths/ranked.cpp, for short keys. A test compares its positions with those of
the library (examples/primer_positions.cpp). Nothing here is used by the library.
"""
import math

MASK64 = (1 << 64) - 1
COUNTER_MAX = 15
WORDS_PER_BLOCK = 8
COUNTERS_PER_WORD = 16
COUNTERS_PER_BLOCK = WORDS_PER_BLOCK * COUNTERS_PER_WORD


def multiplier(i):
    """The i-th output of SplitMix64 from state 0, made odd."""
    z = (i + 1) * 0x9E3779B97F4A7C15 & MASK64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK64
    return (z ^ (z >> 31)) | 1


def rotated(x, n):
    return (x << n | x >> (64 - n)) & MASK64


def xxh3_64(word):
    """XXH3-64 with seed 0 of a string of 4 to 8 bytes: enough for the words in the pictures."""
    data = word.encode()
    if not 4 <= len(data) <= 8:
        raise ValueError(f"{word!r}: only words of 4 to 8 bytes are hashed here")
    first = int.from_bytes(data[:4], "little")
    last = int.from_bytes(data[-4:], "little")
    h = (last + (first << 32)) ^ 0xC73AB174C5ECD5A2
    h ^= rotated(h, 49) ^ rotated(h, 24)
    h = h * 0x9FB21C651E98DF25 & MASK64
    h ^= (h >> 35) + len(data)
    h = h * 0x9FB21C651E98DF25 & MASK64
    return h ^ (h >> 28)


def slice_position(hash_value, i, m):
    """`split`: the counter of slice i, in 0 … m − 1."""
    return (hash_value * multiplier(i) & MASK64) * m >> 64


def split_positions(word, k, m):
    return [slice_position(xxh3_64(word), i, m) for i in range(k)]


def place(hash_value, blocks, group=0):
    """`split_block`: block in the upper 32 bits, eight nibbles in the lower 32."""
    h = hash_value
    if group:
        h ^= h >> 32
        h = h * multiplier(group) & MASK64
        h ^= h >> 29
    return h * blocks >> 32


def block_of(a_place):
    return a_place >> 32


def nibbles_of(a_place):
    """Counter in word i of the block, for i = 0 … 7."""
    return [a_place >> (4 * i) & 15 for i in range(WORDS_PER_BLOCK)]


def ranked_place(hash_value, blocks, positions):
    """`ranked`: block, and the position in each of its four slices."""
    where = place(hash_value, blocks)
    rest, chosen = where & 0xFFFFFFFF, []
    for _ in range(4):
        rest *= positions
        chosen.append(rest >> 32)
        rest &= 0xFFFFFFFF
    return block_of(where), chosen


class Split:
    """A small filter of the layout `split`, counters as lists."""

    def __init__(self, k, m):
        self.k, self.m = k, m
        self.slices = [[0] * m for _ in range(k)]

    def insert(self, word):
        for counters, p in zip(self.slices, split_positions(word, self.k, self.m)):
            counters[p] = min(counters[p] + 1, COUNTER_MAX)

    def contains(self, word):
        probes = zip(self.slices, split_positions(word, self.k, self.m))
        return all(counters[p] for counters, p in probes)

    def remove(self, word):
        if not self.contains(word):
            return False
        for counters, p in zip(self.slices, split_positions(word, self.k, self.m)):
            counters[p] -= counters[p] != COUNTER_MAX
        return True


def split_fpr(n, k, m):
    return (-math.expm1(n * math.log1p(-1 / m))) ** k


def block_fpr(load):
    """One group: Σ_j Poisson(j; load) · (1 − (15/16)^j)^8, load in keys per block."""
    total, mass, j = 0.0, math.exp(-load), 0
    while j < load or mass > 1e-18:
        total += mass * (1 - (15 / 16) ** j) ** 8
        j += 1
        mass *= load / j
    return total


def ranked_fpr(load, positions):
    """Four slices of so many positions in each block, load in keys per block. For P above 10^-6."""
    q = math.log1p(-1 / positions)
    return sum(sign * math.expm1(load * math.expm1(i * q)) for i, sign in ((1, -4), (2, 6), (3, -4), (4, 1)))


def ranked_load(fpr, positions):
    """The most keys per block that meet the rate."""
    low, high = 0.0, 200.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if ranked_fpr(middle, positions) <= fpr else (low, middle)
    return low


def ranked_bits_per_key(load, positions, n=10**8):
    """With the table of spilled blocks, whose lists hold 128 − S keys. Six of its slots in ten are used."""
    mass, fits = math.exp(-load), 0.0
    for j in range(128 - positions + 1):
        fits += mass
        mass *= load / (j + 1)
    blocks = n / load
    spilled = blocks * max(0.0, 1 - fits)
    slots = (spilled + 6 * math.sqrt(spilled) + 6) / 0.6 + 31
    return 64 * (8 * blocks + slots * (1 + (4 * positions + 7) // 8)) / n


def best_ranked(fpr):
    """(bits per key, keys per block, positions) of the cheapest number of positions. A few more blocks than
    the rate needs, of which fewer spill, may take less."""
    found = []
    for positions in range(65, 113):
        most = ranked_load(fpr, positions)
        found += [(ranked_bits_per_key(most / 1.01 ** i, positions), most / 1.01 ** i, positions) for i in range(30)]
    return min(found)


def split_counters_per_key(fpr, k):
    """k · m/n of a large filter that meets the rate."""
    return k / -math.log1p(-(fpr ** (1 / k)))


def best_split(fpr):
    """(counters per key, k) of the cheapest k."""
    return min((split_counters_per_key(fpr, k), k) for k in range(1, 65))


def block_counters_per_key(fpr, groups):
    """128 · g blocks' worth of counters per key of a large filter that meets the rate."""
    low, high = 1e-3, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if block_fpr(middle) ** groups <= fpr else (low, middle)
    return COUNTERS_PER_BLOCK * groups / low
