# SPDX-License-Identifier: Apache-2.0
"""Requests for what does not exist, stopped in front of Redis and the database.

A cache answers what was asked before. What does not exist is never in the cache, so each such request goes through to
the database: *cache penetration*. Links to products that were withdrawn, crawlers that guess numbers, or somebody
who means harm, can make that most of the load. A filter with the keys of all products stands in front: what it says
is absent is absent, and neither Redis nor the database hears of it. Products come and go, so the filter counts.

The order of changes keeps "no" certain at every moment: a new product is inserted into the filter *before* it is
stored, and a withdrawn one is removed *after* it is gone.

The example starts a Redis server of its own, on a free port and in a temporary folder, and stops it at the end. It
sends the same requests twice, without and with the filter, while products come and go and, for a while, most
requests are for products that never were. It counts what reached Redis by Redis' own statistics, and checks that
both ways give the same answers.

    python cache_penetration.py --requests 500000 --plot cache_penetration.svg

needs: scbf (`pip install .` in a checkout); pip install redis matplotlib, and redis-server (Debian: apt install redis-server)
"""

import argparse
import contextlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import redis

import scbf

BATCH = 500  # requests that are answered together


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[redis.Redis]:
    """A Redis server that keeps nothing on disk, for as long as the block runs."""
    command = shutil.which("redis-server")
    if command is None:
        sys.exit("cache_penetration.py needs redis-server; on Debian: apt install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([command, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "",
                               "--appendonly", "no"], stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port) as client:
            for _ in range(100):
                with contextlib.suppress(redis.ConnectionError):
                    client.ping()
                    break
                if server.poll() is not None:
                    sys.exit(f"redis-server ended with {server.returncode}, perhaps because port {port} was taken")
                time.sleep(0.05)
            yield client
    finally:
        server.terminate()
        server.wait(timeout=10)


class Database:
    """The products, in SQLite. Counts the queries."""

    def __init__(self, products: int) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute("CREATE TABLE product (id INTEGER PRIMARY KEY, page TEXT)")
        self.store(range(products))
        self.queries = 0

    def page(self, product: int) -> str | None:
        self.queries += 1
        row = self.connection.execute("SELECT page FROM product WHERE id = ?", (product,)).fetchone()
        return row and row[0]

    def store(self, products: range | list[int]) -> None:
        self.connection.executemany("INSERT INTO product VALUES (?, ?)", ((p, f"page of {p}") for p in products))

    def withdraw(self, products: list[int]) -> None:
        self.connection.executemany("DELETE FROM product WHERE id = ?", ((p,) for p in products))


class Shop:
    """Answers requests: from Redis, else from the database, whose answers it keeps in Redis."""

    def __init__(self, products: int, cache: redis.Redis, fpr: float | None) -> None:
        self.database, self.cache = Database(products), cache
        self.filter = None
        if fpr is not None:
            self.filter = scbf.Filter(capacity=products + products // 10, fpr=fpr)
            self.filter.insert(range(products))
        cache.flushall()
        cache.config_resetstat()

    def pages(self, products: np.ndarray) -> list[str | None]:
        """n product numbers of int64 to n pages; None for what does not exist."""
        answers: list[str | None] = [None] * len(products)
        places = range(len(products)) if self.filter is None else self.filter.find(products).tolist()
        if len(places) == 0:
            return answers
        asked = [int(products[place]) for place in places]
        found = {}
        for place, product, page in zip(places, asked, self.cache.mget(asked), strict=True):
            answers[place] = page.decode() if page is not None else self.database.page(product)
            if page is None and answers[place] is not None:
                found[product] = answers[place]
        if found:
            self.cache.mset(found)
        return answers

    def change(self, new: list[int], withdrawn: list[int]) -> None:
        if self.filter is not None:
            self.filter.insert(new)  # before they are stored
        self.database.store(new)
        self.database.withdraw(withdrawn)
        self.cache.delete(*withdrawn)
        if self.filter is not None:
            self.filter.remove(withdrawn, most_absent=0)  # after they are gone

    def reached_redis(self) -> tuple[int, int]:
        """Requests that Redis could answer, and that it could not, by its own statistics."""
        statistics = self.cache.info("stats")
        return statistics["keyspace_hits"], statistics["keyspace_misses"]


class Day:
    """Requests and changes, the same for each shop that lives through it."""

    def __init__(self, products: int, requests: int, attack: float) -> None:
        random = np.random.default_rng(3)
        self.batches, self.changes = [], []
        absent, batches = 10 * products, max(3, requests // BATCH)
        next_product, oldest = products, 0
        for batch in range(batches):
            # Popular products are asked for most, and a few that were withdrawn. In the middle third comes the
            # attack: requests for numbers that never were products.
            popular = np.minimum(random.exponential(products / 20, BATCH).astype(np.int64), products - 1)
            asked = next_product - 1 - popular
            asked[: 10 if oldest > 0 else 0] = random.integers(max(1, oldest), size=10 if oldest > 0 else 0)
            if batches / 3 <= batch < 2 * batches / 3:
                never = random.random(BATCH) < attack
                asked[never] = absent + random.integers(10 * products, size=np.count_nonzero(never))
            self.batches.append(asked)
            # Ten products a batch are new, and ten old ones are withdrawn.
            self.changes.append((list(range(next_product, next_product + 10)), list(range(oldest, oldest + 10))))
            next_product, oldest = next_product + 10, oldest + 10


def live(day: Day, shop: Shop) -> tuple[list[list[str | None]], list[int], float]:
    """All answers, the database's queries for each batch, and seconds."""
    answers, queries = [], []
    began = time.perf_counter()
    for products, (new, withdrawn) in zip(day.batches, day.changes, strict=True):
        before = shop.database.queries
        answers.append(shop.pages(products))
        queries.append(shop.database.queries - before)
        shop.change(new, withdrawn)
    return answers, queries, time.perf_counter() - began


def plot(without: list[int], with_filter: list[int], file: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    batches = BATCH * np.arange(1, len(without) + 1)
    axes.plot(batches, 100 * np.array(without) / BATCH, label="without a filter")
    axes.plot(batches, 100 * np.array(with_filter) / BATCH, label="with a filter")
    axes.set(title="Requests that reach the database", xlabel="requests so far (number)", ylabel="share (%)",
             ylim=(0, None))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend()
    figure.savefig(file)


def main() -> None:
    options = argparse.ArgumentParser(description="a filter in front of Redis")
    options.add_argument("--products", type=int, default=50_000)
    options.add_argument("--requests", type=int, default=100_000)
    options.add_argument("--attack", type=float, default=0.8, help="share of requests for what never was")
    options.add_argument("--fpr", type=float, default=0.01)
    options.add_argument("--plot", type=Path, metavar="FILE")
    args = options.parse_args()
    day = Day(args.products, args.requests, args.attack)
    if 10 * len(day.batches) > args.products:
        options.error(f"--products {args.products}: too few, {10 * len(day.batches)} will be withdrawn")

    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as cache:
        plain = Shop(args.products, cache, fpr=None)
        answers, queries, seconds = live(day, plain)
        plain_hits, plain_misses = plain.reached_redis()

        guarded = Shop(args.products, cache, args.fpr)
        guarded_answers, guarded_queries, guarded_seconds = live(day, guarded)
        hits, misses = guarded.reached_redis()

    assert answers == guarded_answers, "the filter changed an answer"
    requests = BATCH * len(day.batches)
    absent = sum(page is None for batch in answers for page in batch)
    assert plain_hits + plain_misses == requests and hits == plain_hits
    assert guarded.filter is not None
    passed = absent - (requests - hits - misses)  # absent, and not stopped
    predicted = guarded.filter.geometry.predicted_fpr(args.products) * absent
    assert abs(passed - predicted) < 5 * (predicted + 1) ** 0.5 + 0.05 * predicted, f"{passed}, not {predicted:.0f}"
    assert len(guarded.filter) == args.products

    print(f"{requests:,} requests, {absent:,} of them for what does not exist; the filter has "
          f"{guarded.filter.nbytes:,} bytes\n")
    print(f"{'':<28} {'without':>10} {'with a filter':>14}")
    print(f"{'stopped by the filter':<28} {requests - plain_hits - plain_misses:>10,} {requests - hits - misses:>14,}")
    print(f"{'reached Redis':<28} {plain_hits + plain_misses:>10,} {hits + misses:>14,}")
    print(f"{'reached the database':<28} {sum(queries):>10,} {sum(guarded_queries):>14,}")
    print(f"{'  for what does not exist':<28} {absent:>10,} {passed:>14,}")
    print(f"{'seconds':<28} {seconds:>10.2f} {guarded_seconds:>14.2f}\n")
    print(f"both ways gave the same answers; {10 * len(day.changes):,} products came and as many went meanwhile")
    if args.plot:
        plot(queries, guarded_queries, args.plot)


if __name__ == "__main__":
    main()
