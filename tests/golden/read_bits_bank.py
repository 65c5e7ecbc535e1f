#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads scbf bank files of version 2, banks of bits. It was written from docs/file_format.md alone,
to show that the page is complete.

  read_bits_bank.py FILE                verifies the whole file and prints its header as JSON
  read_bits_bank.py FILE find < KEYS    prints for each key the members that may hold it

Needs the package `xxhash` (Debian: python3-xxhash), and for some compressed files `zstandard`
(python3-zstandard). Exit codes: 0 good, 1 damaged, 3 no xxhash.
"""

import struct

from read_bank import FIELDS, MAGIC, MOST_MEMBERS, Bank
from read_container import FIXED_FIELDS, TIGHTENING, aligned
from read_filter import CHUNK, PACKED, RANKED, SPLIT, U64, Filter, require, run, unpacked, xxhash

FURTHER = struct.Struct("<4I3Q")
FURTHER_FIELDS = "hash hash_version levels reserved stages chunks members_metadata_bytes".split()
LEVEL = struct.Struct("<4I3Q")
LEVEL_FIELDS = "index slots probes groups extent bytes offset".split()
MEMBER = struct.Struct("<4I2Q")
MEMBER_FIELDS = "number asked_always stages metadata_bytes epoch history".split()
STAGE = struct.Struct("<2I3Q")
STAGE_FIELDS = "level slot keys_inserted keys_removed metadata_bytes".split()


class Level:
    """The rows of the first stages, or of later ones of one index. What Filter knows of a key's counters, it knows, too."""

    counters, positions = Filter.counters, Filter.positions

    def __init__(self, fields, bank):
        self.fields = fields
        self.header = {"layout": bank["layout"], "seed": bank["seed"],
                       **{name: fields[name] for name in ("probes", "groups", "extent")}}
        probes, groups, extent = fields["probes"], fields["groups"], fields["extent"]
        self.row_bytes = fields["slots"] // 8
        if bank["layout"] == SPLIT:
            self.stride = (extent + 127) // 128 * 128
            self.rows = self.stride * probes
        elif bank["layout"] == RANKED:
            self.blocks_of_ranked = extent & 0xFFFFFFFF
            self.rows = 4 * groups * self.blocks_of_ranked
        else:
            self.rows = 128 * extent * groups
        require(fields["bytes"] == (self.rows * self.row_bytes + 15) // 16 * 16, "bytes of a level")
        self.used = 0  # a row with a one for every stage
        self.owners = {}

    def row(self, n):
        return int.from_bytes(self.payload[n * self.row_bytes:(n + 1) * self.row_bytes], "little")

    def check(self):
        require(not any(self.payload[self.rows * self.row_bytes:]), "bytes behind the last row")
        padding = ()
        if self.header["layout"] == SPLIT:
            slices = range(0, self.rows, self.stride)
            padding = {s + i for s in slices for i in range(self.header["extent"], self.stride)}
        for n in range(self.rows):
            require(not self.row(n) & ~self.used, f"row {n}: a slot without a stage")
            require(n not in padding or not self.row(n), f"row {n}: padding")

    def find(self, key):
        both = self.used
        for n in self.counters(key):
            both &= self.row(n)
        return {owner for slot, owner in self.owners.items() if both >> slot & 1}


class BitsBank:
    def __init__(self, data):
        require(data[:8] == MAGIC, "not a bank file")
        require(len(data) >= FIXED_FIELDS.size + FURTHER.size, "truncated")
        self.header = h = dict(zip(FIELDS, FIXED_FIELDS.unpack_from(data)))
        require(h["version"] == 2 and h["fixed_bytes"] == 168, "version or fixed_bytes")
        require(h["payload"] in (1, 2), "payload")
        packed = h["payload"] == PACKED
        require(h["members"] <= h["capacity"] <= MOST_MEMBERS, "members or capacity")
        require(h["metadata_bytes"] <= 1 << 20, "metadata_bytes")
        require(len(data) >= h["header_bytes"], "truncated")
        signed = data[:120] + bytes(8) + data[128:h["header_bytes"]]
        require(xxhash.xxh3_64_intdigest(signed) == h["checksum"], "header checksum")
        Bank.check_growth(self)
        h.update(zip(FURTHER_FIELDS, FURTHER.unpack_from(data, 128)))
        require(h["hash"] == h["hash_version"] == 1 and h["reserved"] == 0, "hash or reserved field")
        require(1 <= h["levels"] <= 257, "levels")

        self.at = 168
        levels = self.table(data, LEVEL, LEVEL_FIELDS, h["levels"])
        self.members = self.table(data, MEMBER, MEMBER_FIELDS, h["members"])
        stages = self.table(data, STAGE, STAGE_FIELDS, h["stages"])
        chunks = sum((level["bytes"] + CHUNK - 1) // CHUNK for level in levels)
        require(h["chunks"] == (0 if packed else chunks), "chunks")
        checksums = struct.unpack_from(f"<{h['chunks']}Q", data, self.at)
        self.at += 8 * h["chunks"]
        self.take_levels(levels)
        texts_end = self.at + h["members_metadata_bytes"]
        self.take_members(stages, data)
        require(self.at == texts_end, "members_metadata_bytes")
        self.metadata = data[texts_end:texts_end + h["metadata_bytes"]]
        used = texts_end + h["metadata_bytes"]
        require(h["header_bytes"] == ((used + 7) // 8 * 8 if packed else aligned(used)), "header_bytes")
        require(not any(data[used:h["header_bytes"]]), "header padding")

        end, chunk = h["header_bytes"], 0
        for level in self.levels:
            if packed:
                require(level.fields["offset"] == 0, "offset")
                end, chunk = self.unpack(level, data, end, chunk)
            else:
                require(level.fields["offset"] == aligned(end), "offset")
                require(not any(data[end:aligned(end)]), "padding before a level")
                end = aligned(end) + level.fields["bytes"]
                level.payload = data[aligned(end - level.fields["bytes"]):end]
                require(len(level.payload) == level.fields["bytes"], "truncated")
                for first in range(0, len(level.payload), CHUNK):
                    computed = xxhash.xxh3_64_intdigest(level.payload[first:first + CHUNK])
                    require(computed == checksums[chunk], f"chunk {chunk}")
                    chunk += 1
            level.check()
        require(end == len(data), "file length")

    def table(self, data, entry, names, count):
        require(len(data) >= self.at + entry.size * count, "truncated")
        rows = [dict(zip(names, entry.unpack_from(data, self.at + entry.size * i))) for i in range(count)]
        self.at += entry.size * count
        return rows

    def take_levels(self, levels):
        h = self.header
        indexes = [level["index"] for level in levels]
        require(indexes[0] == 0 and max(indexes) < h["most_stages"], "indexes")
        require(indexes[1:] == sorted(set(indexes[1:])), "indexes")
        for level in levels:
            slots = level["slots"]
            require(slots in (8, 16, 32, 64, 128, 256, 512) or 0 < slots <= MOST_MEMBERS and slots % 256 == 0, "slots")
            shape = ("probes", "groups", "extent")
            require(h["policy"] == TIGHTENING or all(level[f] == h[f] for f in shape), "geometry")
        require(levels[0]["slots"] == h["capacity"], "capacity")
        self.levels = [Level(level, h) for level in levels]

    def take_members(self, stages, data):
        least, left = 0, iter(stages)
        for member in self.members:
            number = member["number"]
            require(least <= number < self.header["capacity"], f"number {number}")
            require(member["asked_always"] in (0, 1), f"member {number}: asked_always")
            require(1 <= member["stages"] <= self.header["most_stages"], f"member {number}: stages")
            least = number + 1
            require(member["epoch"] <= 1 << 62, f"member {number}: epoch")
            require(member["epoch"] or not member["history"], f"member {number}: history of no epoch")
            require(member["metadata_bytes"] <= 1 << 20, f"member {number}: metadata")
            self.at += member["metadata_bytes"]
            member["metadata"] = data[self.at - member["metadata_bytes"]:self.at].decode("utf-8", "backslashreplace")
            for i in range(member["stages"]):
                stage = next(left, None)
                require(stage, f"member {number}: stages")
                where = (stage["level"], stage["slot"])
                require(where == (0, number) if i == 0 else 0 < where[0] < len(self.levels), f"member {number}: level")
                level = self.levels[stage["level"]]
                require(stage["slot"] < level.fields["slots"] and stage["slot"] not in level.owners,
                        f"member {number}: slot")
                level.owners[stage["slot"]] = number
                level.used |= 1 << stage["slot"]
                require(stage["metadata_bytes"] <= 1 << 20, f"member {number}: metadata of a stage")
                self.at += stage["metadata_bytes"]
        require(next(left, None) is None, "stages")
        require(all(level.owners for level in self.levels[1:]), "a level without stages")

    def unpack(self, level, data, end, chunk):
        level.payload = b""
        while len(level.payload) < level.fields["bytes"]:
            require(len(data) >= end + 16, "truncated")
            coding, size, expected = struct.unpack_from("<2IQ", data, end)
            packed = data[end + 16:end + 16 + size]
            require(len(packed) == size, "truncated")
            seed = self.header["checksum"] + chunk & U64
            require(xxhash.xxh3_64_intdigest(data[end:end + 8] + packed, seed=seed) == expected, f"chunk {chunk}")
            whole = min(CHUNK, level.fields["bytes"] - len(level.payload))
            require(size <= whole, f"chunk {chunk}: too long")
            level.payload += unpacked(coding, packed, whole, True)
            end, chunk = end + 16 + size, chunk + 1
        return end, chunk

    def further_fields(self):
        return {"level_table": [level.fields for level in self.levels], "member_table": self.members}

    def find(self, key):
        """The numbers of the members that may hold the key, in ascending order."""
        found = {member["number"] for member in self.members if member["asked_always"]}
        for level in self.levels:
            found |= level.find(key)
        return " ".join(map(str, sorted(found)))


if __name__ == "__main__":
    run(BitsBank, __doc__, "find")
