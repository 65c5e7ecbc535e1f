#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads scbf filter files. It was written from docs/file_format.md alone, to show that the page is
complete.

  read_filter.py FILE                 verifies the whole file and prints its header as JSON
  read_filter.py FILE count < KEYS    also prints the count of each key, one per line; a key is
                                      "u64 NUMBER" or "hex BYTES" on a line of its own
  read_filter.py FILE after DELTA     applies a delta to a filter of bits and prints the header of
  read_filter.py FILE after DELTA count < KEYS    the delta, or the counts of keys after it

Needs the package `xxhash` (Debian: python3-xxhash), and for some compressed files `zstandard`
(python3-zstandard). Exit codes: 0 good, 1 damaged or not applicable, 3 no xxhash.
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
try:
    import zstandard
except ImportError:
    zstandard = None

U64 = (1 << 64) - 1
MAGIC = bytes([0x89, 0x53, 0x43, 0x42, 0x46, 0x0D, 0x0A, 0x1A])
FIXED = struct.Struct("<8s4IQ4I10Q")
FIELDS = (
    "magic version fixed_bytes hash hash_version seed layout probes groups counter_bits extent "
    "keys_inserted keys_removed saturated payload_offset payload_bytes chunk_bytes chunks "
    "metadata_bytes checksum"
).split()
FIXED_2 = struct.Struct("<2I5Q")
FIELDS_2 = "content payload epoch history since since_history changes".split()
CHUNK = 1 << 20
SPLIT, SPLIT_BLOCK, RANKED = 1, 2, 3
FILTER, DELTA = 1, 2
PLAIN, PACKED = 1, 2


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


class Bits:
    """A stream of bits, from the least significant one of each byte on."""

    def __init__(self, data):
        self.value, self.left = int.from_bytes(data, "little"), 8 * len(data)

    def get(self, width):
        require(width <= self.left, "the bits end within a number")
        self.left -= width
        value = self.value & (1 << width) - 1
        self.value >>= width
        return value

    def rice(self, k):
        require(self.value, "the bits end within a Rice code")
        zeros = (self.value & -self.value).bit_length() - 1
        self.get(zeros + 1)
        return zeros << k | self.get(k)


def unpacked(coding, packed, size, bits):
    """A chunk of `size` bytes; `bits` says whether it has bits."""
    if coding == 0:
        require(not packed, "bytes of zeros")
        return bytes(size)
    if coding == 1:
        require(len(packed) == size, "plain chunk")
        return packed
    if coding == 2:
        if zstandard is None:
            sys.exit("read_filter.py: the Python package zstandard is not installed")
        chunk = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
        require(len(chunk) == size, "zstd chunk")
        return chunk
    require(coding in (3, 4) and bits and len(packed) >= 5, "coding")
    count, k = struct.unpack_from("<IB", packed)
    require(k <= 24, "Rice parameter")
    ones, stream, place = 0, Bits(packed[5:]), -1
    for _ in range(count):
        place += 1 + stream.rice(k)
        if coding == 3:
            require(place < 8 * size, "a one behind the end")
            ones |= 1 << place
            continue
        require(place < size // 16, "a block behind the end")
        lanes = stream.get(8)
        require(lanes, "an empty block")
        for lane in range(8):
            if lanes >> lane & 1:
                one = stream.get(16) if stream.get(1) else 1 << stream.get(4)
                ones |= one << 128 * place + 16 * lane
    require(stream.left < 8 and stream.value == 0, "bits left over")
    return ones.to_bytes(size, "little")


class Filter:
    def __init__(self, data, last=True):
        """Reads the filter at the beginning of `data`; if `last`, nothing may follow it."""
        require(data[:8] == MAGIC, "not a filter file")
        require(len(data) >= FIXED.size, "truncated")
        self.header = dict(zip(FIELDS, FIXED.unpack_from(data)))
        h = self.header
        require(h["version"] in (1, 2), "version")
        fixed_bytes = 128 if h["version"] == 1 else 176
        for field, value in (("fixed_bytes", fixed_bytes), ("hash", 1),
                             ("hash_version", 1), ("chunk_bytes", CHUNK)):
            require(h[field] == value, f"{field} {h[field]}: must be {value}")
        require(len(data) >= fixed_bytes, "truncated")
        more = FIXED_2.unpack_from(data, 128) if h["version"] == 2 else (FILTER, PLAIN, 0, 0, 0, 0, 0)
        h.update(zip(FIELDS_2, more))
        self.bits = h["counter_bits"]
        require(self.bits in (1, 4), "counter_bits")
        line = 128 * self.bits // 8  # bytes of 128 counters
        if h["layout"] == SPLIT:
            require(1 <= h["probes"] <= 64 and h["groups"] == 0, "probes or groups")
            require(1 <= h["extent"] <= 1 << 40, "extent")
            self.stride = (h["extent"] + 127) // 128 * 128  # counters from slice to slice
            payload_bytes = self.stride // 128 * line * h["probes"]
        elif h["layout"] == RANKED:
            require(h["probes"] == 4 and 65 <= h["groups"] <= 112, "probes or groups")
            self.blocks_of_ranked = h["extent"] & 0xFFFFFFFF if self.bits == 1 else h["extent"]
            require(1 <= self.blocks_of_ranked < 1 << 32, "extent")
            self.entry = 1 + (h["groups"] + 1) // 2  # words
            self.slots = max(h["payload_bytes"] // 8 - 8 * h["extent"], 0) // self.entry
            require(self.slots < 1 << 32, "slots")
            if self.bits == 1:
                payload_bytes = (4 * h["groups"] * self.blocks_of_ranked + 127) // 128 * 16
            else:
                payload_bytes = 64 * h["extent"] + (self.slots * self.entry + 7) // 8 * 64
        else:
            require(h["layout"] == SPLIT_BLOCK, "layout")
            require(1 <= h["groups"] <= 8 and h["probes"] == 8 * h["groups"], "probes or groups")
            require(1 <= h["extent"] < 1 << 32, "extent")
            payload_bytes = h["extent"] * line * h["groups"]
        chunks = (payload_bytes + CHUNK - 1) // CHUNK
        require(h["payload_bytes"] == payload_bytes, "payload_bytes")
        require(h["chunks"] == chunks, "chunks")
        require(h["metadata_bytes"] <= 1 << 20, "metadata_bytes")
        packed = h["payload"] == PACKED
        table = fixed_bytes + (0 if packed else 8 * chunks)
        used = table + h["metadata_bytes"]
        unit = 8 if packed else 4096
        offset = (used + unit - 1) // unit * unit
        require(h["payload_offset"] == offset, "payload_offset")
        signed = data[:120] + bytes(8) + data[128:offset]
        require(xxhash.xxh3_64_intdigest(signed) == h["checksum"], "header checksum")
        require(not any(data[used:offset]), "header padding")
        if h["version"] == 2:
            self.check_version_2()

        self.metadata = data[table:used]
        self.packed_chunks = b""  # as the history of a delta covers them
        if packed:
            self.payload = b""
            end = offset
            for i in range(chunks):
                require(len(data) >= end + 16, "truncated")
                coding, size, expected = struct.unpack_from("<2IQ", data, end)
                chunk = data[end + 16:end + 16 + size]
                require(len(chunk) == size, "truncated")
                covered = data[end:end + 8] + chunk
                seed = h["checksum"] + i & U64
                require(xxhash.xxh3_64_intdigest(covered, seed=seed) == expected, f"chunk {i}")
                whole = min(CHUNK, payload_bytes - i * CHUNK)
                require(size <= whole, f"chunk {i}: too long")
                self.payload += unpacked(coding, chunk, whole, self.bits == 1)
                self.packed_chunks += covered
                end += 16 + size
        else:
            end = offset + payload_bytes
            self.payload = data[offset:end]
            require(len(self.payload) == payload_bytes, "truncated")
            for i, expected in enumerate(struct.unpack_from(f"<{chunks}Q", data, fixed_bytes)):
                computed = xxhash.xxh3_64_intdigest(self.payload[i * CHUNK:(i + 1) * CHUNK])
                require(computed == expected, f"payload chunk {i}")
        self.file_bytes = end
        require(not last or end == len(data), "file length")
        if h["content"] == DELTA:
            changes = int.from_bytes(self.payload, "little")
            require(bin(changes).count("1") == h["changes"], "changes")
        if h["layout"] == RANKED and self.bits == 4:
            self.read_ranked()
            return
        saturated = sum((b & 15 == 15) + (b >> 4 == 15) for b in self.payload) if self.bits == 4 else 0
        require(saturated == h["saturated"], "saturated")
        if h["layout"] == SPLIT:
            for i in range(h["probes"]):
                for c in range(h["extent"], self.stride):
                    require(self.counter(i * self.stride + c) == 0, f"padding of slice {i}")
        if h["layout"] == RANKED:
            for n in range(4 * h["groups"] * self.blocks_of_ranked, 8 * payload_bytes):
                require(self.counter(n) == 0, "padding")

    def read_ranked(self):
        """Reads the counts: blocks[b] is a list of four dictionaries, position → count, and `stuck`
        the blocks that have lost theirs."""
        h, size = self.header, self.header["groups"]
        words = struct.unpack(f"<{len(self.payload) // 8}Q", self.payload)
        self.blocks, self.stuck = [], set()
        for b in range(h["extent"]):
            slices = [words[8 * b + i] | words[8 * b + 4 + i] << 64 for i in range(4)]
            maps = [[p for p in range(size) if s >> p & 1] for s in slices]
            lists = [s >> size for s in slices]
            last = 1 << 127 - size
            if lists[0] & last and not lists[1] & last:  # spilled
                require(lists == [last, 0, 0, 0] and any(maps), f"block {b}: lists")
                self.stuck.add(b)  # until its entry is found
                self.blocks.append([dict.fromkeys(m, 15) for m in maps])
                continue
            self.blocks.append([])
            for m, rest in zip(maps, lists):
                require(rest.bit_length() == lists[0].bit_length(), f"block {b}: lengths")
                counts = {}
                for p in m:
                    require(rest, f"block {b}: a list is too short")
                    counts[p] = (rest & -rest).bit_length()
                    rest >>= counts[p]
                require(not rest, f"block {b}: a list is too long")
                self.blocks[-1].append(counts)
        first, before, end = 8 * h["extent"], 0, 0
        reach = min(self.slots, 32)
        for slot in range(self.slots):
            entry = words[first + slot * self.entry:first + (slot + 1) * self.entry]
            b = (entry[0] >> 32) - 1
            require(not entry[0] & 0xFFFFFFFF, f"slot {slot}: lower half")
            if b < 0:
                require(not any(entry), f"slot {slot}: not zero")
                continue
            require(before <= b < h["extent"] and b in self.stuck, f"slot {slot}: block")
            home = b * (self.slots - reach + 1) // h["extent"]
            require(slot == max(home, end) and slot < home + reach, f"slot {slot}: place")
            counts = struct.pack(f"<{self.entry - 1}Q", *entry[1:])
            require(not any(counts[4 * size:]), f"slot {slot}: padding")
            found = [{p: c for p, c in enumerate(counts[i * size:(i + 1) * size]) if c} for i in range(4)]
            require([set(m) for m in found] == [set(m) for m in self.blocks[b]], f"slot {slot}: counts")
            self.blocks[b] = found
            self.stuck.remove(b)
            before, end = b + 1, slot + 1
        require(not any(words[first + self.slots * self.entry:]), "padding")
        stays = sum(len(m) for b in self.stuck for m in self.blocks[b])
        stays += sum(c == 255 for m in (m for b in self.blocks for m in b) for c in m.values())
        require(stays == h["saturated"], "saturated")

    def positions(self, key):
        """The block of a key, and its position in each of the four slices there."""
        h = self.header
        product = xxhash.xxh3_64_intdigest(key, seed=h["seed"]) * self.blocks_of_ranked
        positions, rest = [], product >> 32 & 0xFFFFFFFF
        for _ in range(4):
            rest *= h["groups"]
            positions.append(rest >> 32)
            rest &= 0xFFFFFFFF
        return product >> 64, positions

    def count_ranked(self, key):
        block, positions = self.positions(key)
        return min([self.blocks[block][i].get(p, 0) for i, p in enumerate(positions)] + [15])

    def check_version_2(self):
        h = self.header
        require(h["content"] in (FILTER, DELTA) and h["payload"] in (PLAIN, PACKED), "content or payload")
        require(h["epoch"] or not h["history"], "history")
        require(h["since"] or not h["since_history"], "since_history")
        if h["content"] == DELTA:
            require(h["payload"] == PACKED and h["since"] < h["epoch"], "delta")
        else:
            require(h["payload"] == PACKED or h["epoch"], "version")
            require(not h["since"] and not h["changes"], "since or changes of a filter")
        require(self.bits == 1 or not h["epoch"], "epoch of counters")

    # What a container has, too.

    def all_stages(self):
        return [self]

    def apply(self, delta):
        """Turns this filter into the one that a delta leads to."""
        old, new = self.all_stages(), delta.all_stages()
        h, d = old[0].header, new[0].header
        require(d["content"] == DELTA, "not a delta")
        require(h["epoch"] == d["since"] and h["history"] == d["since_history"],
                f"has epoch {h['epoch']}, the delta begins at {d['since']}")
        chunks = b"".join(stage.packed_chunks for stage in new)
        require(xxhash.xxh3_64_intdigest(chunks, seed=d["since_history"]) == d["history"], "history")
        for stage, change in zip(old, new):
            size = len(stage.payload)
            require(len(change.payload) == size, "a stage of another shape")
            flipped = int.from_bytes(stage.payload, "little") ^ int.from_bytes(change.payload, "little")
            change.payload = flipped.to_bytes(size, "little")
        return delta

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
        if h["layout"] == RANKED:  # bits
            block, positions = self.positions(key)
            for i, position in enumerate(positions):
                yield (4 * block + i) * h["groups"] + position
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
        if self.header["layout"] == RANKED and self.bits == 4:
            return self.count_ranked(key)
        return min(self.counter(n) for n in self.counters(key))


def parse_key(line):
    kind, _, text = line.rstrip("\n").partition(" ")
    return struct.pack("<Q", int(text)) if kind == "u64" else bytes.fromhex(text)


def run(read, usage, question="count"):
    """Runs the command on what read(data) returns: an object that has the question as a method of a key."""
    arguments = sys.argv[1:]
    name, delta = arguments.pop(0) if arguments else "", None
    if arguments[:1] == ["after"] and len(arguments) > 1:
        delta, arguments = arguments[1], arguments[2:]
    if not name or arguments not in ([], [question]):
        sys.exit(usage)

    def read_path(path):
        with open(path, "rb") as file:
            return read(file.read())

    try:
        of_file = read_path(name)
        if delta:
            of_file = of_file.apply(read_path(delta))
    except Damaged as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    if arguments:
        for line in sys.stdin:
            print(getattr(of_file, question)(parse_key(line)))
        return
    shown = {k: v for k, v in of_file.header.items() if k != "magic"}
    shown.update(of_file.further_fields())
    shown["metadata"] = of_file.metadata.decode("utf-8", "backslashreplace")
    print(json.dumps(shown, indent=2))


if __name__ == "__main__":
    run(Filter, __doc__)
