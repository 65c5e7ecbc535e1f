# SPDX-License-Identifier: Apache-2.0
"""The tables of filters on a GPU, as functions of a result of gpu_bench. Figures are 10^9 keys a second."""

from tables import NOTHING, footnotes, keys, number, table

SMALL, AROUND, LARGE = 4_000_000, 12_000_000, 1_000_000_000
FILTERS = {
    "split_block_direct": "`split_block`, direct",
    "split_block_partitioned": "`split_block`, partitioned",
    "split_block_partitioned_alone": "`split_block`, partitioned, alone",
    "split_block_bits_direct": "`split_block`, bits, direct",
    "split_block_bits_partitioned": "`split_block`, bits, partitioned",
    "split_direct": "`split`, direct",
    "split_partitioned": "`split`, partitioned",
    "ranked": "`ranked`",
    "bit_filter": "plain blocked Bloom filter",
    "textbook": "textbook counting",
}


def rate(row):
    """Medians of times to 10^9 a second."""
    return NOTHING if row is None else number(1 / row["ns"][1])


def notes(results, texts):
    c = results.context
    memory = int(c["device_memory_bytes"]) / 2**30
    return footnotes(texts + [f"{c['device']}, {memory:.0f} GiB, commit {c['commit']}, {c['date'][:10]}; "
                              f"`bench/results/{results.file_name}`"])


def gpu(results):
    """Filters on the device beside the floors of memory as large."""
    def floor(access, n):
        # As in gpu_bench: as large as the filters.
        mib = {SMALL: 22, AROUND: 65, LARGE: 5450}[n]
        return rate(results.one(op="floor", access=access, mib=mib))

    def of(name, operation, n):
        return rate(results.one(op=operation, filter=name, n=n, keys="uniform", keys_per_call=None))

    if results.one(op="hit", filter="split_block_direct", n=LARGE, keys="uniform") is None:
        return ""
    rows = []
    for access, what in (("line_read", "*floor:* a random line read"),
                         ("line_update", "*floor:* a random line updated")):
        cells = [floor(access, n) for n in (SMALL, AROUND, LARGE)]
        reads = access == "line_read"
        rows.append([what, ""] + [cell if wanted == reads else ""
                                  for cell in cells for wanted in (False, True, False)])
    for name, what in FILTERS.items():
        large = results.one(op="hit", filter=name, n=LARGE, keys="uniform")
        if large is None:  # the result is older than the filter
            continue
        rows.append([what, number(large["bits_per_key"])] +
                    [of(name, operation, n) for n in (SMALL, AROUND, LARGE)
                     for operation in ("insert", "hit", "remove")])
    head = ["filter", "bits/key", "|"]
    for n in (SMALL, AROUND, LARGE):
        head += [f"{keys(n)}: insert", "hit", "remove"]
    return table(head, rows) + notes(results, [
        "10<sup>9</sup> keys a second; medians of five; 64-bit keys on the device, in calls of up to 2<sup>28</sup>; a "
        "filter of `split_block` takes 23 MB, 69 MB and 5.7 GB, the second-level cache has 60 MiB. A miss takes as "
        "long as a hit in blocks; in `split` and in textbook filters it stops at the first counter that is 0, at "
        f"{of('split_direct', 'miss', LARGE)} and {of('textbook', 'miss', LARGE)} for 10<sup>9</sup> keys",
        "*alone*: `DeviceOptions::alone`, nothing else changes the filter meanwhile",
        "*plain blocked Bloom filter*: 32 bytes a block, 10.5 bits a key, atomic OR; *textbook counting*: 9.6 counters "
        "of 32 bits a key, seven `atomicAdd`. Both are in `bench/cuda/gpu_kernels.cu`"])


def gpu_new(results):
    """insert_new, beside a lookup and an insertion."""
    rows = []
    for name in ("split_block_direct", "split_block_bits_direct", "split_direct", "ranked"):
        def of(operation, n, keys="uniform"):
            return results.one(op=operation, filter=name, n=n, keys=keys, keys_per_call=None)

        if of("new", SMALL) is None:  # the result is older than these rows
            return ""
        cells = [FILTERS[name].removesuffix(", direct")]
        for n in (SMALL, AROUND, LARGE):
            by_both = number(1 / (of("miss", n)["ns"][1] + of("insert", n)["ns"][1]))
            cells += [rate(of("new", n)), by_both, rate(of("again", n))]
        rows.append(cells + [rate(of("new", LARGE, "zipf1.2"))])
    head = ["filter", "|"]
    for n in (SMALL, AROUND, LARGE):
        head += [f"{keys(n)}: new", "two calls", "again"]
    return table(head + ["Zipf 1.2: new"], rows) + notes(results, [
        "10<sup>9</sup> keys a second, filters at 1 %, direct. *New*: `insert_new` of distinct keys into an empty filter, as "
        "many as it is for, 2<sup>28</sup> at most; *again*: the same once more. *Two calls*: computed from `contains` of absent "
        "keys and `insert` of all. *Zipf 1.2*: into the empty filter for 10<sup>9</sup> keys"])


def gpu_keys(results):
    """Skewed keys, and small calls, for a filter of 10^9 keys."""
    rows = []
    for name in ("split_block_direct", "split_block_partitioned"):
        some = [results.one(op=op, filter=name, n=LARGE, keys=skew) for skew in ("zipf1.2", "one")
                for op in ("insert", "hit", "remove")]
        if None in some:
            return ""
        calls = [results.one(op="insert", filter=name, n=LARGE, keys_per_call=n)
                 for n in (65536, 524288, 4194304, 33554432)]
        rows.append([FILTERS[name]] + [rate(r) for r in some + calls])
    head = ["filter", "|", "Zipf 1.2: insert", "hit", "remove", "one key: insert", "hit", "remove",
            "insert 2<sup>16</sup> a call", "2<sup>19</sup>", "2<sup>22</sup>", "2<sup>25</sup>"]
    return table(head, rows) + notes(results, [
        "10<sup>9</sup> keys a second, filters for 10<sup>9</sup> keys at 1 %. The automatic path depends on the number of keys "
        "and the size of the filter, not on the keys. Lookups have one path: where their figures differ between the "
        "rows, the same kernel took that long in another filter with the same content"])


def gpu_host(results):
    """Batches on the host from end to end, beside the copy of the keys alone."""
    rows = []
    for memory in ("pinned", "pageable"):
        some = [results.one(op="host", operation=op, memory=memory)
                for op in ("copy", "insert", "contains", "remove")]
        if None in some:
            return ""
        rows.append([memory] + [rate(r) for r in some])
    return table(["keys and answers in memory that is", "|", "copy of the keys, alone", "insert", "contains", "remove"],
                 rows) + notes(results, [
        "10<sup>9</sup> keys a second, wall time, a batch of 2<sup>27</sup> keys, a `Filter` with backend `cuda`; *copy*: one "
        "`cudaMemcpy` and the wait for it. A batch goes in windows, several of them under way at once, which gets more of "
        "the bus than one copy"])


def gpu_aims(results):
    """The project's aims for an H200, what was measured, and whether it meets them."""
    def ns(**wanted):
        return results.one(**wanted)["ns"][1]

    def of(name, operation, n=LARGE):
        return ns(op=operation, filter=name, n=n, keys="uniform", keys_per_call=None)

    if results.one(op="insert", filter="split_block_partitioned_alone", n=LARGE) is None:
        return ""
    hit, copy = of("split_block_direct", "hit"), ns(op="host", operation="copy", memory="pinned")

    rows = []

    def judge(what, aim, value, show=number):
        rows.append([what, f"≥ {show(aim)}", f"{show(value)}, {'met' if value >= aim else '**missed**'}"])

    def share(value):
        return f"{100 * value:.0f} %"

    def plain(value):
        return f"{value}" if isinstance(value, int) else number(value)

    billion = keys(LARGE)
    judge(f"contains, {billion} keys, share of the floor", 0.9, ns(op="floor", access="line_read", mib=5450) / hit, share)
    judge(f"contains, {billion} keys", 35, 1 / hit, plain)
    judge("contains, filter in the cache", 60, 1 / of("split_block_direct", "hit", SMALL), plain)
    judge(f"insert, {billion} keys", 25, 1 / of("split_block_partitioned", "insert"), plain)
    judge(f"insert, {billion} keys, alone", 25, 1 / of("split_block_partitioned_alone", "insert"), plain)
    judge(f"remove, {billion} keys", 15, 1 / of("split_block_partitioned", "remove"), plain)
    for operation in ("insert", "hit"):
        judge(f"`split`, {billion} keys: {operation}, times textbook counting", 3,
              of("textbook", operation) / of("split_partitioned", operation), plain)
    for operation in ("insert", "contains", "remove"):
        judge(f"batches of the host: {operation}, share of the rate at which their keys are copied", 0.9,
              copy / ns(op="host", operation=operation, memory="pinned"), share)
    return table(["aim for an H200: `split_block`, 1 %, keys on the device, 10<sup>9</sup> a second", "|", "aim",
                  "measured"], rows) + notes(results, [])


TABLES = {"gpu": gpu, "gpu_keys": gpu_keys, "gpu_new": gpu_new, "gpu_host": gpu_host,
          "gpu_aims": gpu_aims}
