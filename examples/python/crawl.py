# SPDX-License-Identifier: Apache-2.0
"""What a crawler remembers: pages fetched this week are not fetched again, older ones are.

Each day a crawler finds links, most of them to pages that it fetched a short while ago. A set of all their addresses
answers exactly, and outgrows memory. A plain Bloom filter is small, but never forgets: it fills up, calls more and
more new pages known, and can only be thrown away as a whole. A counting filter forgets page by page. The crawler
keeps a log of what it fetched each day, on disk, and when a day is too old, it removes that day's addresses.

The example runs some weeks of such a crawl, with a set of addresses beside the filter to check each answer: no page
of the last days is fetched twice, and the share of new pages that are skipped by mistake stays where the formulas
put it. At the end, the filter is equal, counter by counter, to one that never saw the days that were removed.

    python crawl.py --days 28 --plot crawl.svg

needs: scbf (`pip install .` in a checkout); pip install pyarrow matplotlib
"""

import argparse
import sys
import tempfile
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import scbf

SECTIONS = ("news", "sport", "recipes", "archive", "forum", "shop", "travel", "science")


def addresses(numbers: np.ndarray) -> pa.Array:
    """The address of each page, n of int64 to n strings. Some sites have many pages, most have few."""
    sites = (numbers * 2654435761 % 1000) ** 2 // 1000
    return pa.array([f"https://www.site-{site}.example/{SECTIONS[number % 8]}/{number // 8:x}/page-{number}.html"
                     for number, site in zip(numbers.tolist(), sites.tolist(), strict=True)])


class Web:
    """Links that a crawler finds: new pages, and pages of the last days, the newest most often."""

    def __init__(self, links_per_day: int, share_new: float, seed: int) -> None:
        self.links, self.new = links_per_day, int(links_per_day * share_new)
        self.random = np.random.default_rng(seed)
        self.pages = 0

    def links_of_a_day(self) -> pa.Array:
        fresh = np.arange(self.pages, self.pages + self.new)
        self.pages += self.new
        age = self.random.exponential(3 * self.new, self.links - self.new).astype(np.int64)
        old = self.pages - 1 - np.minimum(age, self.pages - 1)
        return addresses(self.random.permutation(np.concatenate([fresh, old])))


class Crawler:
    """Remembers in a counting filter what it fetched, and in a file for each day what to forget one day."""

    def __init__(self, folder: Path, days_kept: int, pages_per_day: int, fpr: float) -> None:
        self.folder, self.days_kept = folder, days_kept
        self.fetched = scbf.Filter(capacity=days_kept * pages_per_day, fpr=fpr)

    def log(self, day: int) -> Path:
        return self.folder / f"fetched-{day}.parquet"

    def forget(self, day: int) -> None:
        """Removes a day's pages from the filter. All of them are in it, because they were inserted then."""
        if self.log(day).exists():
            self.fetched.remove(pq.read_table(self.log(day))["address"], most_absent=0)
            self.log(day).unlink()

    def crawl(self, day: int, links: pa.Array) -> pa.Array:
        """Fetches what it does not remember, and returns that."""
        self.forget(day - self.days_kept)
        found = pc.unique(links)  # each page once, also in the filter: then it can be removed by one removal
        known = self.fetched.contains(found)
        fresh = found.filter(~known)
        self.fetched.insert(fresh)
        pq.write_table(pa.table({"address": fresh}), self.log(day))
        return fresh


@dataclass
class Day:
    """What happened: numbers of pages."""

    found: int
    fetched: int
    fetched_again: int  # of those that were fetched in the last days
    remembered: int  # when the crawler was asked
    new: int  # never found before
    missed: int  # new, but taken for known
    missed_without_removal: int
    predicted: float  # false-positive rate


def run(web: Web, crawler: Crawler, days: int) -> tuple[list[Day], int]:
    """Crawls, and checks each day against sets. Also returns the bytes of the largest set that was remembered."""
    never_forgets = scbf.BloomFilter(geometry=crawler.fetched.geometry)
    ever_found: set[str] = set()
    last_days: deque[set[str]] = deque(maxlen=crawler.days_kept)  # what was fetched on each
    history, most_bytes = [], 0
    for day in range(days):
        links = web.links_of_a_day()
        found = pc.unique(links).to_pylist()
        is_new = np.array([address not in ever_found for address in found])
        ever_found.update(found)
        known_without_removal = never_forgets.contains(found)
        if len(last_days) == crawler.days_kept:
            last_days.popleft()
        remembered = set().union(*last_days)

        fresh = crawler.crawl(day, links)
        never_forgets.insert(fresh)

        fetched = set(fresh.to_pylist())
        is_missed = np.array([address not in fetched for address in found])
        history.append(Day(len(found), len(fetched), len(fetched & remembered), len(remembered),
                           np.count_nonzero(is_new), np.count_nonzero(is_new & is_missed),
                           np.count_nonzero(is_new & known_without_removal),
                           crawler.fetched.geometry.predicted_fpr(len(remembered))))
        last_days.append(fetched)
        remembered |= fetched
        most_bytes = max(most_bytes, sys.getsizeof(remembered) + sum(map(sys.getsizeof, remembered)))
    return history, most_bytes


def check(history: list[Day], crawler: Crawler) -> None:
    """Nothing fetched again too early, rates as predicted, and a filter as if it had never held what was removed."""
    assert all(day.fetched_again == 0 for day in history)
    missed, expected = sum(day.missed for day in history), sum(day.new * day.predicted for day in history)
    spread = 5 * (expected + 1) ** 0.5 + 0.05 * expected
    assert abs(missed - expected) < spread, f"{missed} missed, {expected:.0f} expected"
    assert crawler.fetched.statistics().saturated == 0

    afresh = scbf.Filter(geometry=crawler.fetched.geometry)
    for day in range(len(history) - crawler.days_kept, len(history)):
        if crawler.log(day).exists():
            afresh.insert(pq.read_table(crawler.log(day))["address"])
    assert afresh == crawler.fetched and len(afresh) == len(crawler.fetched)


def plot(history: list[Day], file: Path) -> None:
    import matplotlib.pyplot as plt

    days = range(1, len(history) + 1)
    figure, (pages, rates) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    pages.plot(days, [day.found for day in history], label="found")
    pages.plot(days, [day.fetched for day in history], label="fetched")
    pages.plot(days, [day.remembered for day in history], "--", label="remembered")
    pages.set(title="A crawl", xlabel="time (days)", ylabel="pages (number)")
    pages.yaxis.set_major_formatter("{x:,.0f}")
    rates.plot(days, [100 * day.missed_without_removal / day.new for day in history], "o", label="never forgets")
    rates.plot(days, [100 * day.missed / day.new for day in history], "o", label="forgets old days")
    rates.plot(days, [100 * day.predicted for day in history], label="predicted")
    rates.set(title="New pages that are taken for known", xlabel="time (days)", ylabel="share of the new pages (%)")
    for panel in (pages, rates):
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set_ylim(bottom=0)
        panel.legend()
    figure.savefig(file)


def main() -> None:
    options = argparse.ArgumentParser(description="a crawl whose old pages are forgotten")
    options.add_argument("--days", type=int, default=21)
    options.add_argument("--days-kept", type=int, default=7, help="how long a page is not fetched again")
    options.add_argument("--links", type=int, default=30_000, help="found each day")
    options.add_argument("--share-new", type=float, default=0.3, help="links to pages that never were found before")
    options.add_argument("--fpr", type=float, default=0.01)
    options.add_argument("--plot", type=Path, metavar="FILE")
    args = options.parse_args()

    web = Web(args.links, args.share_new, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        # About a third of the links lead to pages that are new, or were forgotten.
        crawler = Crawler(Path(folder), args.days_kept, args.links // 3, args.fpr)
        history, set_bytes = run(web, crawler, args.days)
        check(history, crawler)

        last = history[-1]
        new, missed = sum(day.new for day in history), sum(day.missed for day in history)
        predicted = sum(day.new * day.predicted for day in history) / new
        print(f"{args.days} days, {sum(day.found for day in history):,} pages found, "
              f"{sum(day.fetched for day in history):,} fetched")
        print(f"for {args.days_kept} days a page is not fetched again: {last.remembered:,} are remembered in the end\n")
        print(f"fetched again within that time   {sum(day.fetched_again for day in history):>10,}")
        print(f"new pages                        {new:>10,}")
        print(f"  taken for known                {missed:>10,}  {missed / new:7.2%}; predicted {predicted:.2%}")
        print(f"new pages of the last day        {last.new:>10,}")
        print(f"  taken for known                {last.missed:>10,}  {last.missed / last.new:7.2%}; predicted "
              f"{last.predicted:.2%}")
        print(f"  by a filter that never forgets {last.missed_without_removal:>10,}  "
              f"{last.missed_without_removal / last.new:7.2%}")
        print(f"bytes of the filter              {crawler.fetched.nbytes:>10,}")
        print(f"bytes of a set of the addresses  {set_bytes:>10,}  {set_bytes / crawler.fetched.nbytes:.0f} times "
              "as many")
        print("\nthe filter equals one that never held the pages that were removed")
        if args.plot:
            plot(history, args.plot)


if __name__ == "__main__":
    main()
