#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads scbf filter files. It was written from docs/file_format.md alone, to show that the page is
complete.

  read_filter.py FILE                 verifies the whole file and prints its header as JSON
  read_filter.py FILE count < KEYS    also prints the count of each key, one per line; a key is
                                      "u64 NUMBER" or "hex BYTES" on a line of its own

Needs the package `xxhash` (Debian: python3-xxhash). Exit codes: 0 good, 1 damaged, 3 no xxhash.
It shares no code with the library; the tests compare the two.
"""

import json
import struct
import sys

try:
    import xxhash
except ImportError:
    print("read_filter.py: the Python package xxhash is not installed", file=sys.stderr)
    sys.exit(3)

U64 = (1 << 64) - 1
MAGIC = bytes([0x89, 0x53, 0x43, 0x42, 0x46, 0x0D, 0x0A, 0x1A])
FIXED = struct.Struct("<8s4IQ4I10Q")
FIELDS = (
    "magic version fixed_bytes hash hash_version seed layout probes groups counter_bits extent "
    "keys_inserted keys_removed saturated payload_offset payload_bytes chunk_bytes chunks "
    "metadata_bytes checksum"
).split()
CHUNK = 1 << 20
SPLIT, SPLIT_BLOCK = 1, 2


class Damaged(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Damaged(message)


def multiplier(i):
    """Output i of SplitMix64 from state 0, made odd."""
    z = (i + 1) * 0x9E3779B97F4A7C15 & U64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & U64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & U64
    return (z ^ z >> 31) | 1


class Filter:
    def __init__(self, data):
        require(data[:8] == MAGIC, "not a filter file")
        require(len(data) >= FIXED.size, "truncated")
        self.header = dict(zip(FIELDS, FIXED.unpack_from(data)))
        h = self.header
        for field, value in (("version", 1), ("fixed_bytes", 128), ("hash", 1),
                             ("hash_version", 1), ("chunk_bytes", CHUNK)):
            require(h[field] == value, f"{field} {h[field]}: must be {value}")
        self.bits = h["counter_bits"]
        require(self.bits in (1, 4), "counter_bits")
        line = 128 * self.bits // 8  # bytes of 128 counters
        if h["layout"] == SPLIT:
            require(1 <= h["probes"] <= 64 and h["groups"] == 0, "probes or groups")
            require(1 <= h["extent"] <= 1 << 40, "extent")
            self.stride = (h["extent"] + 127) // 128 * 128  # counters from slice to slice
            payload_bytes = self.stride // 128 * line * h["probes"]
        else:
            require(h["layout"] == SPLIT_BLOCK, "layout")
            require(1 <= h["groups"] <= 8 and h["probes"] == 8 * h["groups"], "probes or groups")
            require(1 <= h["extent"] < 1 << 32, "extent")
            payload_bytes = h["extent"] * line * h["groups"]
        chunks = (payload_bytes + CHUNK - 1) // CHUNK
        require(h["payload_bytes"] == payload_bytes, "payload_bytes")
        require(h["chunks"] == chunks, "chunks")
        require(h["metadata_bytes"] <= 1 << 20, "metadata_bytes")
        used = 128 + 8 * chunks + h["metadata_bytes"]
        offset = (used + 4095) // 4096 * 4096
        require(h["payload_offset"] == offset, "payload_offset")
        require(len(data) == offset + payload_bytes, "file length")
        signed = data[:120] + bytes(8) + data[128:offset]
        require(xxhash.xxh3_64_intdigest(signed) == h["checksum"], "header checksum")
        require(not any(data[used:offset]), "header padding")

        self.metadata = data[128 + 8 * chunks:used]
        self.payload = data[offset:]
        for i, expected in enumerate(struct.unpack_from(f"<{chunks}Q", data, 128)):
            computed = xxhash.xxh3_64_intdigest(self.payload[i * CHUNK:(i + 1) * CHUNK])
            require(computed == expected, f"payload chunk {i}")
        saturated = sum((b & 15 == 15) + (b >> 4 == 15) for b in self.payload) if self.bits == 4 else 0
        require(saturated == h["saturated"], "saturated")
        if h["layout"] == SPLIT:
            for i in range(h["probes"]):
                for c in range(h["extent"], self.stride):
                    require(self.counter(i * self.stride + c) == 0, f"padding of slice {i}")

    def counter(self, n):
        """Counter n of the payload, or the bit that stands for it; lower ones in lower bits."""
        first = n * self.bits
        return self.payload[first // 8] >> first % 8 & (1 << self.bits) - 1

    def counters(self, key):
        """Where the k counters of a key (bytes) lie."""
        h = self.header
        key_hash = xxhash.xxh3_64_intdigest(key, seed=h["seed"])
        if h["layout"] == SPLIT:
            for i in range(h["probes"]):
                position = (key_hash * multiplier(i) & U64) * h["extent"] >> 64
                yield i * self.stride + position
            return
        for j in range(h["groups"]):
            x = key_hash
            if j > 0:
                x ^= x >> 32
                x = x * multiplier(j) & U64
                x ^= x >> 29
            product = x * h["extent"]
            block = j * h["extent"] + (product >> 64)
            for i in range(8):
                yield (block * 8 + i) * 16 + (product >> 32 + 4 * i & 15)

    def further_fields(self):
        return {}

    def count(self, key):
        return min(self.counter(n) for n in self.counters(key))


def parse_key(line):
    kind, _, text = line.rstrip("\n").partition(" ")
    return struct.pack("<Q", int(text)) if kind == "u64" else bytes.fromhex(text)


def run(read, usage):
    """Runs the command on what read(data) returns, a Filter or a Container."""
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["count"]):
        sys.exit(usage)
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    try:
        of_file = read(data)
    except Damaged as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        sys.exit(1)
    if len(sys.argv) == 3:
        for line in sys.stdin:
            print(of_file.count(parse_key(line)))
        return
    shown = {k: v for k, v in of_file.header.items() if k != "magic"}
    shown.update(of_file.further_fields())
    shown["metadata"] = of_file.metadata.decode("utf-8", "backslashreplace")
    print(json.dumps(shown, indent=2))


if __name__ == "__main__":
    run(Filter, __doc__)
