// SPDX-License-Identifier: Apache-2.0
// Attenuated filters, with which OceanStore routes queries. For every neighbour and distance, each
// node keeps the union of the filters of the nodes at that distance in that direction. It forwards
// a query to the neighbour with the nearest match. The filters of a node are members of one bank,
// so one lookup covers all neighbours and distances. First the survey's figure, then a network of
// 1,000 nodes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "scbf/bank.hpp"
#include "scbf/detail/positions.hpp"
#include "scbf/sizing.hpp"

namespace {

constexpr scbf::BatchOptions kOneThread{.threads = 1};

int failures = 0;
void expect(bool holds, const char* what) {
  std::printf("%s  %s\n", holds ? "yes" : "NO ", what);
  failures += !holds;
}

// ---- the figure ---------------------------------------------------------------------------------
// Vectors of five bits and three hash functions. x has the bits 1, 2 and 4. Node n1 holds V0 =
// 00101. In the direction of n2, V1 = 11100 is at one hop and V2 = 11011 at two; V2 is the union of
// n3 = 11010 and n4 = 00011. V0 and V1 lack a bit of x, and V2 has all three. So n1 forwards the
// query to n2, which finds that n3 matches.

/// One slice of five counters, so that counters are the figure's bits, and a hash for each counter.
const scbf::Geometry kFigure = scbf::Geometry::split(1, 5);
std::uint64_t hash_at(unsigned bit) {
  std::uint64_t hash = 0;
  while (scbf::detail::probe(kFigure, hash, 0).shift / scbf::kCounterBits != bit - 1) ++hash;
  return hash;
}
scbf::Filter vector_of(std::string_view bits) {
  scbf::Filter filter(kFigure);
  for (unsigned bit = 1; bit <= bits.size(); ++bit) {
    const std::array hash{hash_at(bit)};
    if (bits[bit - 1] == '1') filter.insert(scbf::KeyBatch::from_hashes(hash));
  }
  return filter;
}
/// The members that have all bits of x: the AND of three one-bit lookups.
unsigned have_x(const scbf::Bank& bank) {
  const std::array x{hash_at(1), hash_at(2), hash_at(4)};
  std::vector<std::uint8_t> answers(x.size() * bank.answer_bytes());
  bank.contains_bits(scbf::KeyBatch::from_hashes(x), answers);
  return answers[0] & answers[1] & answers[2];  // eight members at most: one byte each
}

void figure() {
  scbf::Filter two_hops = vector_of("11010");
  two_hops.merge(vector_of("00011"));
  scbf::Bank n1(scbf::Growth::one(kFigure)), n2(scbf::Growth::one(kFigure));
  n1.add_members({vector_of("00101"), vector_of("11100"), two_hops});
  expect(have_x(n1) == 0b100,
         "figure: of V0, V1 and V2 only V2 = BF-union(11010, 00011) matches x");
  n2.add_members({vector_of("11100"), vector_of("11010"), vector_of("00011")});
  expect(have_x(n2) == 0b010, "figure: n2 forwards to n3, not to n4, and does not hold x itself");
}

// ---- a network ----------------------------------------------------------------------------------

using Node = std::uint32_t;
using Shells = std::vector<std::vector<Node>>;

constexpr Node kNodes = 1000;
constexpr unsigned kDepth = 3;  // hops that a node sees and that a query may take
constexpr std::uint64_t kObjects = 20;

struct Network {
  std::vector<std::vector<Node>> neighbours{kNodes};

  Network() {
    std::uint64_t state = 7;
    const auto link = [&](Node a, Node b) {
      if (a == b || std::ranges::count(neighbours[a], b) > 0) return;
      neighbours[a].push_back(b);
      neighbours[b].push_back(a);
    };
    for (Node node = 0; node < kNodes; ++node) {
      link(node, (node + 1) % kNodes);
      state = state * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u;
      link(node, static_cast<Node>((state >> 33) % kNodes));
    }
  }

  /// The nodes 1, 2 … kDepth hops away from `from` when the first hop is to `first`.
  Shells in_direction(Node from, Node first) const {
    std::vector<bool> seen(kNodes);
    seen[from] = seen[first] = true;
    Shells shells{{first}};
    while (shells.size() < kDepth) {
      std::vector<Node> next;
      for (const Node node : shells.back()) {
        for (const Node other : neighbours[node]) {
          if (!seen[other]) next.push_back(other);
          seen[other] = true;
        }
      }
      shells.push_back(std::move(next));
    }
    return shells;
  }
};

/// Objects are numbers; node n holds kObjects of them, from n · kObjects on.
Node holder(std::uint64_t object) { return static_cast<Node>(object / kObjects); }

/// Member 0 of a node's bank holds the node's own objects. Member 1 + direction · kDepth + hops − 1
/// holds the objects that are `hops` hops away in `direction`.
struct Direction {
  std::size_t neighbour;
  unsigned hops;
};
Direction direction_of(std::uint32_t member) {
  return {(member - 1) / kDepth, (member - 1) % kDepth + 1};
}

struct Tally {
  std::uint64_t found = 0, hops = 0, detours = 0, forwards = 0, false_forwards = 0, flooded = 0;
};

class Router {
 public:
  explicit Router(const Network& network) : network_(network) {
    // The farthest shells hold the most objects: those of about 10 nodes.
    const auto geometry = scbf::geometry_for(scbf::Layout::split_block, 10 * kObjects, 0.01);
    std::vector<scbf::Filter> own;
    for (Node node = 0; node < kNodes; ++node) {
      std::vector<std::uint64_t> objects(kObjects);
      for (std::uint64_t i = 0; i < kObjects; ++i) objects[i] = node * kObjects + i;
      own.emplace_back(geometry).insert(objects, kOneThread);
    }
    for (Node node = 0; node < kNodes; ++node) {
      std::vector<scbf::Filter> members{own[node]};
      for (const Node first : network.neighbours[node]) {
        shells_.push_back(network.in_direction(node, first));
        for (const auto& shell : shells_.back()) {
          scbf::Filter& sum = members.emplace_back(geometry);
          for (const Node other : shell) sum.merge(own[other], kOneThread);
        }
      }
      first_shell_.push_back(shells_.size() - network.neighbours[node].size());
      scbf::Bank& bank = banks_.emplace_back(
          scbf::Growth::one(geometry),
          scbf::BankOptions{.capacity = static_cast<std::uint32_t>(members.size())});
      bank.add_members(std::move(members), kOneThread);
    }
  }

  /// Looks for an object; returns whether it is found. At a dead end the query goes back.
  bool look(Node node, std::uint64_t object, unsigned hops_left, std::vector<bool>& visited,
            Tally& tally) const {
    visited[node] = true;
    if (holder(object) == node) return true;
    auto answers = banks_[node].find(object);
    std::erase(answers, 0u);  // the node itself: a false positive
    std::ranges::stable_sort(answers, {}, [](std::uint32_t m) { return direction_of(m).hops; });
    for (const std::uint32_t member : answers) {
      const Direction to = direction_of(member);
      const Node next = network_.neighbours[node][to.neighbour];
      if (to.hops > hops_left || visited[next]) continue;
      ++tally.forwards;
      const auto& shell = shells_[first_shell_[node] + to.neighbour][to.hops - 1];
      tally.false_forwards += std::ranges::count(shell, holder(object)) == 0;
      if (look(next, object, hops_left - 1, visited, tally)) {
        ++tally.hops;
        return true;
      }
      ++tally.detours;
    }
    return false;
  }

 private:
  const Network& network_;
  std::vector<scbf::Bank> banks_;
  std::vector<Shells> shells_;  // of all nodes and directions
  std::vector<std::size_t> first_shell_;
};

void thousand_nodes() {
  const Network network;
  const Router router(network);
  Tally tally;
  std::uint64_t near = 0, far = 0, found_far = 0, shortest = 0;
  for (std::uint64_t query = 0; query < 2000; ++query) {
    const auto from = static_cast<Node>(query * 37 % kNodes);
    // Every second object is within reach, at a distance of 1, 2 or 3.
    const auto& around = network.neighbours[from];
    const Shells shells = network.in_direction(from, around[query % around.size()]);
    const auto& shell = shells[query / 2 % kDepth];
    const Node where = query % 2 == 0 && !shell.empty() ? shell[query % shell.size()]
                                                        : static_cast<Node>((from + 500) % kNodes);
    unsigned distance = 0;  // by the shortest way; 0 where it is out of reach
    std::size_t reached = 1;
    std::vector<Node> ring{from};
    std::vector<bool> seen(kNodes), visited(kNodes);
    seen[from] = true;
    for (unsigned hops = 1; hops <= kDepth && distance == 0; ++hops) {
      std::vector<Node> next;
      for (const Node node : ring) {
        for (const Node other : network.neighbours[node]) {
          if (!seen[other]) next.push_back(other);
          seen[other] = true;
        }
      }
      reached += next.size();
      ring = std::move(next);
      if (std::ranges::count(ring, where) > 0) distance = hops;
    }
    const bool found =
        router.look(from, where * kObjects + query % kObjects, kDepth, visited, tally);
    (distance > 0 ? near : far) += 1;
    if (distance == 0) {
      found_far += found;
      continue;
    }
    tally.found += found;
    shortest += distance;
    tally.flooded += reached - 1;
  }
  const auto ratio = [](std::uint64_t a, std::uint64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  std::printf("%u nodes, %llu objects within %u hops: %llu found, %.2f hops each (shortest %.2f)\n",
              kNodes, static_cast<unsigned long long>(near), kDepth,
              static_cast<unsigned long long>(tally.found), ratio(tally.hops, near),
              ratio(shortest, near));
  std::printf("%.2f forwards per query, %.1f %% of them false; flooding sends at least %.1f\n",
              ratio(tally.forwards, near + far), 100 * ratio(tally.false_forwards, tally.forwards),
              ratio(tally.flooded, near));
  expect(tally.found == near, "every object within reach is found");
  expect(found_far == 0, "none is found out of reach: that is left to the second phase");
  expect(tally.hops < shortest + near / 20, "by the shortest way, but for false matches");
  expect(tally.forwards * 4 < tally.flooded, "with a fraction of the messages of flooding");
}

}  // namespace

int main() {
  figure();
  thousand_nodes();
  return failures == 0 ? 0 : 1;
}
