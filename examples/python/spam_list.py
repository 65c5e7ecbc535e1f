# SPDX-License-Identifier: Apache-2.0
"""A list of senders of spam: asked by many mail servers, and with appeals.

A provider keeps the addresses that sent spam. Its mail servers ask for each message: is the sender on the list? They
hold the list as bits, not two bytes for each address instead of about thirty, and get what changes as deltas. No is
certain, so most mail passes at once; a yes is looked up in the list itself, which costs time, but no mail is lost
by a false positive.

Senders appeal. Whoever is cleared is taken off the list again, which needs counters: a filter of counters stands
beside the list, and the servers' bits are made from it. One rule matters here: *remove only what was inserted*. A
filter cannot tell a false positive from a listed address, and removing one takes counters away from others. So an
appeal is looked up in the list first. The example also shows what becomes of a filter from which appeals are
removed blindly.

    python spam_list.py --listed 1000000 --plot spam_list.svg

needs: scbf (`pip install .` in a checkout); pip install numpy matplotlib
"""

import argparse
from pathlib import Path

import numpy as np

import scbf

FIRST = ("ann ben chloe dan ella finn grace hugo ida jack kira leo mia noah olga paul quinn rosa sam tara uma victor "
         "wendy xaver yara zoe").split()
LAST = ("adams baker carter diaz evans fischer garcia hansen ito jones kim lopez meyer novak olsen patel quist rossi "
        "schmidt tanaka usman vega weber xu young zhang").split()
DOMAINS = ("mail.example", "post.example", "inbox.example", "office.example", "letters.example", "webpost.example",
           "company.example", "university.example")


def senders(count: int, random: np.random.Generator) -> list[str]:
    """So many distinct addresses that look like people's, as they stand in mails: in any case."""
    made: dict[str, str] = {}
    while len(made) < count:
        picks = zip(*(random.integers(size, size=count) for size in (len(FIRST), len(LAST), 10_000, len(DOMAINS), 4)),
                    strict=True)
        for first, last, number, domain, style in picks:
            name = (f"{FIRST[first]}.{LAST[last]}", f"{FIRST[first][0]}{LAST[last]}", f"{LAST[last]}_{FIRST[first]}",
                    f"{FIRST[first].title()}.{LAST[last].title()}")[style]
            address = f"{name}{number}@{DOMAINS[domain]}"
            made.setdefault(key(address), address)
    return list(made.values())[:count]


def key(address: str) -> str:
    """What is asked for: an address in one spelling. Equal keys must be equal bytes."""
    return address.strip().lower()


def false_positives(filter: scbf.Filter | scbf.BloomFilter | scbf.Replica, addresses: list[str]) -> int:
    return int(np.count_nonzero(filter.contains([key(address) for address in addresses])))


def check_rate(seen: int, asked: int, predicted: float) -> None:
    spread = 5 * (asked * predicted + 1) ** 0.5 + 0.05 * asked * predicted
    assert abs(seen - asked * predicted) < spread, f"{seen} of {asked}, {predicted:.3%} predicted"


class SpamList:
    """The list itself, and its counters; publishes bits for mail servers."""

    def __init__(self, capacity: int, fpr: float) -> None:
        self.addresses: set[str] = set()  # in practice, a table of a database
        self.counters = scbf.Filter(capacity=capacity, fpr=fpr)
        self.bits = scbf.BloomFilter.of(self.counters)

    def add(self, addresses: list[str]) -> None:
        new = {key(address) for address in addresses} - self.addresses
        self.addresses |= new
        self.counters.insert(new)

    def clear(self, appeals: list[str]) -> int:
        """Takes the listed ones of these addresses off the list, and returns how many."""
        listed = {key(address) for address in appeals} & self.addresses
        self.addresses -= listed
        self.counters.remove(listed, most_absent=0)  # all of them are there, or there is a mistake in this program
        return len(listed)

    def publish(self) -> scbf.Delta:
        """What changed since the last time, for the mail servers."""
        return self.bits.advance(self.counters)


def run(args: argparse.Namespace) -> list[tuple[int, float, float]]:
    """Returns addresses on the list, measured rate and predicted rate, month by month."""
    random = np.random.default_rng(7)
    everyone = senders(args.listed + args.honest, random)
    spammers, honest = everyone[: args.listed], everyone[args.listed:]

    # ---- the list grows
    spam = SpamList(args.listed, args.fpr)
    geometry = spam.counters.geometry
    first = spam.publish()
    server = scbf.Replica(first)
    months = []
    for part in np.array_split(np.arange(len(spammers)), args.months):
        spam.add([spammers[i] for i in part])
        server.apply(spam.publish())
        wrong, predicted = false_positives(server, honest), geometry.predicted_fpr(len(spam.addresses))
        check_rate(wrong, len(honest), predicted)
        months.append((len(spam.addresses), wrong / len(honest), predicted))
    assert server.contains([key(address) for address in spammers]).all(), "a listed address was let through"
    text_bytes = sum(map(len, spam.addresses))
    print(f"{len(spam.addresses):,} addresses are listed, {text_bytes:,} bytes of text")
    print(f"the provider's counters {spam.counters.nbytes:>10,} bytes")
    print(f"a mail server's bits    {spam.bits.nbytes:>10,} bytes")
    print(f"of {len(honest):,} honest senders, {wrong:,} are looked up in the list: {wrong / len(honest):.3%}; "
          f"predicted {predicted:.3%}\n")

    # ---- appeals, some of them from senders who never were listed
    appeals = spammers[: args.appeals] + honest[: args.appeals]
    blind = spam.counters.copy()
    cleared = spam.clear(appeals)
    delta = spam.publish()
    server.apply(scbf.Delta.from_bytes(delta.to_bytes()))
    assert cleared == args.appeals
    remaining = [key(address) for address in spammers[args.appeals:]]
    let_through = len(remaining) - int(np.count_nonzero(server.contains(remaining)))
    assert let_through == 0
    still = false_positives(server, spammers[: args.appeals])
    check_rate(still, args.appeals, geometry.predicted_fpr(len(spam.addresses)))
    print(f"{len(appeals):,} appeals, {cleared:,} of senders who are listed: the delta has {delta.nbytes:,} bytes")
    print(f"  cleared, and still looked up      {still:>8,}  {still / cleared:.3%}, false positives like any other")
    print(f"  listed, and let through           {let_through:>8,}  of {len(remaining):,}")

    # ---- the same appeals, removed without a look at the list
    report = blind.remove([key(address) for address in appeals])
    let_through = len(remaining) - int(np.count_nonzero(blind.contains(remaining)))
    assert report.absent + report.removed == len(appeals)
    assert report.removed >= args.appeals
    print("the same appeals, removed blindly")
    print(f"  refused, because surely absent    {report.absent:>8,}")
    print(f"  removed, though never inserted    {report.removed - args.appeals:>8,}")
    print(f"  listed, and let through           {let_through:>8,}  of {len(remaining):,}")
    return months


def plot(months: list[tuple[int, float, float]], file: Path) -> None:
    import matplotlib.pyplot as plt

    listed, measured, predicted = np.array(months).T
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.plot(listed, 100 * predicted, label="predicted")
    axes.plot(listed, 100 * measured, "o", label="measured")
    axes.set(title="Honest senders who are looked up in the list", xlabel="addresses on the list (number)",
             ylabel="false-positive rate (%)", ylim=(0, None))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend()
    figure.savefig(file)


def main() -> None:
    options = argparse.ArgumentParser(description="a list of senders of spam, with appeals")
    options.add_argument("--listed", type=int, default=200_000, help="addresses on the list")
    options.add_argument("--honest", type=int, default=200_000, help="other senders")
    options.add_argument("--appeals", type=int, default=4_000, help="of listed senders, and of as many others")
    options.add_argument("--months", type=int, default=12, help="in which the list grows")
    options.add_argument("--fpr", type=float, default=0.005)
    options.add_argument("--plot", type=Path, metavar="FILE")
    args = options.parse_args()
    if args.appeals > min(args.listed, args.honest):
        options.error(f"--appeals {args.appeals}: there are only {min(args.listed, args.honest)} senders")
    months = run(args)
    if args.plot:
        plot(months, args.plot)


if __name__ == "__main__":
    main()
