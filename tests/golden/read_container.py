#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads scbf containers. It was written from docs/file_format.md alone, to show that the page is
complete. read_filter.py reads the filter files inside.

  read_container.py FILE                 verifies the whole file and prints its header as JSON
  read_container.py FILE count < KEYS    also prints the count of each key, as read_filter.py does

Needs the package `xxhash` (Debian: python3-xxhash). Exit codes: 0 good, 1 damaged, 3 no xxhash.
"""

import struct

from read_filter import PACKED, RANKED, SPLIT, SPLIT_BLOCK, Filter, require, run, xxhash

MAGIC = bytes([0x89, 0x53, 0x43, 0x42, 0x53, 0x0D, 0x0A, 0x1A])
FIXED_FIELDS = struct.Struct("<8s4IQ2IQ3d2I6Q")
FIELDS = (
    "magic version fixed_bytes policy layout seed stages most_stages first_capacity fpr growth "
    "tightening probes groups extent payload header_bytes file_bytes metadata_bytes checksum"
).split()
ENTRY = struct.Struct("<3Qd2IQ")
ENTRY_FIELDS = "offset bytes full_at fpr index reserved header_checksum".split()
FIXED, TIGHTENING = 1, 2
MOST_STAGES, FOREIGN = 256, (1 << 32) - 1
MOST_COUNT = 15


def aligned(n):
    return (n + 4095) // 4096 * 4096


class Container:
    def __init__(self, data, last=True):
        """Reads the container at the beginning of `data`; if `last`, nothing may follow it."""
        require(data[:8] == MAGIC, "not a container")
        require(len(data) >= FIXED_FIELDS.size, "truncated")
        self.header = dict(zip(FIELDS, FIXED_FIELDS.unpack_from(data)))
        h = self.header
        require(h["version"] in (1, 2) and h["fixed_bytes"] == 128, "version or fixed_bytes")
        require(h["payload"] in ((0,) if h["version"] == 1 else (1, 2)), "payload")
        packed = h["payload"] == PACKED
        require(1 <= h["stages"] <= MOST_STAGES, "stages")
        require(h["metadata_bytes"] <= 1 << 20, "metadata_bytes")
        used = 128 + ENTRY.size * h["stages"] + h["metadata_bytes"]
        require(h["header_bytes"] == ((used + 7) // 8 * 8 if packed else aligned(used)), "header_bytes")
        require(packed or not last or len(data) == h["file_bytes"], "file length")
        require(len(data) >= h["header_bytes"], "truncated")
        signed = data[:120] + bytes(8) + data[128:h["header_bytes"]]
        require(xxhash.xxh3_64_intdigest(signed) == h["checksum"], "header checksum")
        require(not any(data[used:h["header_bytes"]]), "header padding")
        self.check_growth()
        require(h["stages"] <= h["most_stages"], "more stages than there may be")

        self.metadata = data[used - h["metadata_bytes"]:used]
        self.entries = [dict(zip(ENTRY_FIELDS, ENTRY.unpack_from(data, 128 + ENTRY.size * i)))
                        for i in range(h["stages"])]
        self.stages = []
        end = h["header_bytes"]
        for i, entry in enumerate(self.entries):
            require(entry["reserved"] == 0, f"entry of stage {i}")
            if packed:
                require(entry["offset"] == entry["bytes"] == 0, f"entry of stage {i}")
                stage = Filter(data[end:], last=False)
                end += stage.file_bytes
            else:
                offset = aligned(end)
                require(entry["offset"] == offset, f"entry of stage {i}")
                require(not any(data[end:offset]), f"padding before stage {i}")
                end = offset + entry["bytes"]
                stage = Filter(data[offset:end])
            s, first = stage.header, (self.stages or [stage])[0].header
            require(s["version"] == h["version"], f"stage {i}: version")
            require(all(s[f] == first[f] for f in ("content", "payload", "epoch", "history")),
                    f"stage {i}: content, payload or epoch")
            require(s["since"] in (0, first["since"]), f"stage {i}: since")
            require(stage.header["checksum"] == entry["header_checksum"], f"stage {i}: exchanged")
            require(stage.header["seed"] == h["seed"], f"stage {i}: seed")
            counters = stage.header["probes"] * stage.header["extent"]
            if stage.header["layout"] == RANKED:
                counters = stage.header["probes"] * stage.blocks_of_ranked
            if stage.header["layout"] == SPLIT_BLOCK:
                counters *= 16  # for each probe, every block has a word of 16
            if stage.header["layout"] == RANKED:
                counters *= stage.header["groups"]
            require(1 <= entry["full_at"] <= counters, f"stage {i}: full_at")
            require(0 < entry["fpr"] < 1, f"stage {i}: fpr")
            require(entry["index"] < h["most_stages"] or entry["index"] == FOREIGN, f"stage {i}: index")
            self.stages.append(stage)
        self.file_bytes = end
        require(h["file_bytes"] == (0 if packed else end) and (not last or end == len(data)), "file_bytes")

    def check_growth(self):
        h = self.header
        require(h["layout"] in (SPLIT, SPLIT_BLOCK) or (h["layout"], h["policy"]) == (RANKED, TIGHTENING), "layout")
        require(h["first_capacity"] >= 1, "first_capacity")
        if h["policy"] == TIGHTENING:
            require(0 < h["fpr"] < 1, "fpr")
            require(h["most_stages"] == MOST_STAGES, "most_stages")
            require(1 <= h["growth"] <= 1024 and 0 < h["tightening"] < 1, "growth or tightening")
            require(h["probes"] == h["groups"] == h["extent"] == 0, "geometry")
            return
        require(h["policy"] == FIXED, "policy")
        require(0 < h["fpr"] <= 1, "fpr")
        require(1 <= h["most_stages"] <= MOST_STAGES, "most_stages")
        require(h["growth"] == h["tightening"] == 1, "growth or tightening")
        probes, groups = h["probes"], h["groups"]
        if h["layout"] == SPLIT:
            require(1 <= probes <= 64 and groups == 0 and 1 <= h["extent"] <= 1 << 40, "geometry")
        else:
            require(1 <= groups <= 8 and probes == 8 * groups and 1 <= h["extent"] < 1 << 32,
                    "geometry")

    def all_stages(self):
        return self.stages

    apply = Filter.apply

    def further_fields(self):
        return {"stages": self.entries}

    def count(self, key):
        most = MOST_COUNT if self.stages[0].bits == 4 else 1
        return min(most, sum(stage.count(key) for stage in self.stages))


if __name__ == "__main__":
    run(Container, __doc__)
