#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads scbf bank files. It was written from docs/file_format.md alone, to show that the page is
complete. read_filter.py and read_container.py read the members inside.

  read_bank.py FILE                verifies the whole file and prints its header as JSON
  read_bank.py FILE find < KEYS    prints for each key the members that may hold it

Needs the package `xxhash` (Debian: python3-xxhash). Exit codes: 0 good, 1 damaged, 3 no xxhash.
"""

import struct

from read_container import FIXED_FIELDS, TIGHTENING, Container, aligned
from read_container import FIELDS as CONTAINER_FIELDS
from read_filter import PACKED, RANKED, SPLIT, SPLIT_BLOCK, Filter, require, run, xxhash

MAGIC = bytes([0x89, 0x53, 0x43, 0x42, 0x4B, 0x0D, 0x0A, 0x1A])
FIELDS = [{"stages": "members", "file_bytes": "capacity"}.get(name, name) for name in CONTAINER_FIELDS]
ENTRY = struct.Struct("<2I3Q")
ENTRY_FIELDS = "number asked_always offset bytes header_checksum".split()
ONE = 0
MOST_MEMBERS = 1 << 20


class Bank:
    def __init__(self, data):
        require(data[:8] == MAGIC, "not a bank file")
        require(len(data) >= FIXED_FIELDS.size, "truncated")
        self.header = dict(zip(FIELDS, FIXED_FIELDS.unpack_from(data)))
        h = self.header
        require(h["version"] == 1 and h["fixed_bytes"] == 128, "version or fixed_bytes")
        require(h["payload"] in (1, 2), "payload")
        packed = h["payload"] == PACKED
        require(h["members"] <= h["capacity"] <= MOST_MEMBERS, "members or capacity")
        require(h["capacity"] in (8, 16, 32, 64, 128, 256, 512) or h["capacity"] % 256 == 0 < h["capacity"], "capacity")
        require(h["metadata_bytes"] <= 1 << 20, "metadata_bytes")
        used = 128 + ENTRY.size * h["members"] + h["metadata_bytes"]
        require(h["header_bytes"] == ((used + 7) // 8 * 8 if packed else aligned(used)), "header_bytes")
        require(len(data) >= h["header_bytes"], "truncated")
        signed = data[:120] + bytes(8) + data[128:h["header_bytes"]]
        require(xxhash.xxh3_64_intdigest(signed) == h["checksum"], "header checksum")
        require(not any(data[used:h["header_bytes"]]), "header padding")
        self.check_growth()

        self.metadata = data[used - h["metadata_bytes"]:used]
        self.entries = [dict(zip(ENTRY_FIELDS, ENTRY.unpack_from(data, 128 + ENTRY.size * i)))
                        for i in range(h["members"])]
        self.members = {}
        end, least = h["header_bytes"], 0
        kind = Filter if h["policy"] == ONE else Container
        for entry in self.entries:
            number = entry["number"]
            require(least <= number < h["capacity"], f"number {number}")
            require(entry["asked_always"] in (0, 1), f"member {number}: asked_always")
            least = number + 1
            if packed:
                require(entry["offset"] == entry["bytes"] == 0, f"entry of member {number}")
                member = kind(data[end:], last=False)
                end += member.file_bytes
            else:
                offset = aligned(end)
                require(entry["offset"] == offset, f"entry of member {number}")
                require(not any(data[end:offset]), f"padding before member {number}")
                end = offset + entry["bytes"]
                member = kind(data[offset:end])
            self.check_member(number, member, entry)
            self.members[number] = member
        require(end == len(data), "file length")

    def check_growth(self):
        h = self.header
        if h["policy"] != ONE:
            Container.check_growth(self)
            return
        require((h["most_stages"], h["first_capacity"], h["fpr"], h["growth"], h["tightening"]) == (1, 0, 1, 1, 1),
                "growth")
        probes, groups, extent = h["probes"], h["groups"], h["extent"]
        if h["layout"] == SPLIT:
            require(1 <= probes <= 64 and groups == 0 and 1 <= extent <= 1 << 40, "geometry")
        elif h["layout"] == SPLIT_BLOCK:
            require(1 <= groups <= 8 and probes == 8 * groups and 1 <= extent < 1 << 32, "geometry")
        else:
            require(h["layout"] == RANKED and probes == 4 and 65 <= groups <= 112 and extent % (1 << 32), "geometry")

    def check_member(self, number, member, entry):
        h, m = self.header, member.header
        require(m["checksum"] == entry["header_checksum"], f"member {number}: exchanged")
        require(m["seed"] == h["seed"], f"member {number}: seed")
        stages = member.all_stages()
        require(all(s.bits == 4 and s.header["content"] == 1 for s in stages), f"member {number}: no counters")
        require(all(s.header["payload"] == h["payload"] for s in stages), f"member {number}: payload")
        shape = ("layout", "probes", "groups", "extent")
        if h["policy"] == ONE:
            extent = m["extent"] + (member.slots << 32 if h["layout"] == RANKED else 0)
            require([m[f] for f in shape[:3]] + [extent] == [h[f] for f in shape], f"member {number}: geometry")
            return
        require(all(m[field] == h[field] for field in ("policy", "most_stages", "growth", "tightening", *shape)),
                f"member {number}: growth")
        require(abs(m["first_capacity"] - h["first_capacity"]) <= 1 and abs(m["fpr"] - h["fpr"]) <= 1e-9 * h["fpr"],
                f"member {number}: growth")
        indexes = [stage["index"] for stage in member.entries]
        require(indexes[0] == 0 and all(i < h["most_stages"] for i in indexes), f"member {number}: stages")
        for stage in stages:
            require(stage.header["layout"] == h["layout"], f"member {number}: layout of a stage")
            require(h["policy"] == TIGHTENING or all(stage.header[f] == h[f] for f in shape),
                    f"member {number}: geometry of a stage")

    def further_fields(self):
        return {"members": self.entries}

    def find(self, key):
        """The numbers of the members that may hold the key, in ascending order."""
        always = {entry["number"] for entry in self.entries if entry["asked_always"]}
        found = [n for n, member in self.members.items() if n in always or member.count(key) > 0]
        return " ".join(map(str, found))


if __name__ == "__main__":
    run(Bank, __doc__, "find")
