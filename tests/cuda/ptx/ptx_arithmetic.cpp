// SPDX-License-Identifier: Apache-2.0
#include "ptx_arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace ptx {

namespace {

/// An integer of twice the width, as products need.
template <class T>
struct Wide;
template <>
struct Wide<std::uint8_t> {
  using type = std::uint16_t;
};
template <>
struct Wide<std::int8_t> {
  using type = std::int16_t;
};
template <>
struct Wide<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct Wide<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct Wide<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct Wide<std::int32_t> {
  using type = std::int64_t;
};
__extension__ typedef unsigned __int128 Unsigned128;
__extension__ typedef __int128 Signed128;
template <>
struct Wide<std::uint64_t> {
  using type = Unsigned128;
};
template <>
struct Wide<std::int64_t> {
  using type = Signed128;
};
template <class T>
using WideOf = typename Wide<T>::type;

/// As rows hold it: zero-extended.
template <class T>
std::uint64_t held(T value) {
  if constexpr (sizeof(T) > 8) {
    return static_cast<std::uint64_t>(value);
  } else {
    return static_cast<std::make_unsigned_t<T>>(value);
  }
}

template <class Work>
void with_type(Type type, Work work) {
  switch (type) {
    case Type::pred:
    case Type::u8:
      return work(std::uint8_t{});
    case Type::u16:
      return work(std::uint16_t{});
    case Type::u32:
      return work(std::uint32_t{});
    case Type::u64:
      return work(std::uint64_t{});
    case Type::s8:
      return work(std::int8_t{});
    case Type::s16:
      return work(std::int16_t{});
    case Type::s32:
      return work(std::int32_t{});
    case Type::s64:
      return work(std::int64_t{});
  }
}

/// Predicates are held as 0 or 1, so that only their complement needs care.
std::uint64_t complement(Type type, std::uint64_t value) {
  return type == Type::pred ? value ^ 1 : ~value;
}

template <class T>
std::uint64_t inserted(T what, T into, std::uint64_t position, std::uint64_t length) {
  constexpr unsigned kBits = 8 * sizeof(T);
  position &= 255;
  length &= 255;
  if (position >= kBits || length == 0) return held(into);
  const std::uint64_t ones = length >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << length) - 1;
  const std::uint64_t mask = ones << position;
  return held(static_cast<T>((held(into) & ~mask) | (held(what) << position & mask)));
}

/// `length` ones, the lowest of them bit `position`, as far as they lie among 32.
std::uint64_t mask_of_bits(std::uint64_t position, std::uint64_t length) {
  if (position >= 32) return 0;
  const std::uint64_t ones = length >= 32 ? 0xFFFF'FFFFu : (std::uint64_t{1} << length) - 1;
  return ones << position & 0xFFFF'FFFFu;
}

std::uint64_t permuted(std::uint64_t a, std::uint64_t b, std::uint64_t selectors) {
  const std::uint64_t bytes = (a & 0xFFFF'FFFF) | b << 32;
  std::uint64_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const auto selector = static_cast<unsigned>(selectors >> (4 * i) & 15);
    std::uint64_t byte = bytes >> (8 * (selector & 7)) & 0xFF;
    if (selector & 8) byte = byte & 0x80 ? 0xFF : 0;  // the sign of that byte
    result |= byte << (8 * i);
  }
  return result;
}

template <class T>
std::uint64_t reversed(T value) {
  std::uint64_t result = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) result = result << 1 | (held(value) >> i & 1);
  return result;
}

template <class T>
bool compared(Comparison how, T a, T b) {
  switch (how) {
    case Comparison::eq:
      return a == b;
    case Comparison::ne:
      return a != b;
    case Comparison::lt:
      return a < b;
    case Comparison::le:
      return a <= b;
    case Comparison::gt:
      return a > b;
    case Comparison::ge:
      return a >= b;
  }
  return false;
}

template <class T>
void compute_as(const Instruction& i, Lanes lanes, Row& to, const std::array<const Row*, 4>& from) {
  using U = std::make_unsigned_t<T>;
  constexpr unsigned kBits = 8 * sizeof(T);
  const Row *a = from[0], *b = from[1], *c = from[2], *d = from[3];
  const auto x = [&](unsigned lane) { return static_cast<T>((*a)[lane]); };
  const auto y = [&](unsigned lane) { return static_cast<T>((*b)[lane]); };
  const auto z = [&](unsigned lane) { return static_cast<T>((*c)[lane]); };
  const auto each = [&](auto value) {
    for_each_lane(lanes, [&](unsigned lane) { to[lane] = held(value(lane)); });
  };
  // Unsigned, because PTX wraps where C++ has undefined behaviour.
  const auto ux = [&](unsigned lane) { return static_cast<U>((*a)[lane]); };
  const auto uy = [&](unsigned lane) { return static_cast<U>((*b)[lane]); };
  const auto product = [&](unsigned lane) {
    using W = WideOf<T>;
    return static_cast<W>(static_cast<W>(x(lane)) * static_cast<W>(y(lane)));
  };
  const auto nonzero = [&](unsigned lane) {
    if (y(lane) == 0) throw std::domain_error("division by zero");
    return y(lane);
  };
  switch (i.op) {
    case Op::move:  // a true predicate is written as −1
      if (i.type == Type::pred) return each([&](unsigned l) { return static_cast<T>(x(l) != 0); });
      return each([&](unsigned l) { return x(l); });
    case Op::add:
      return each([&](unsigned l) { return static_cast<U>(ux(l) + uy(l)); });
    case Op::subtract:
      return each([&](unsigned l) { return static_cast<U>(ux(l) - uy(l)); });
    case Op::multiply_low:
      return each([&](unsigned l) { return static_cast<U>(std::uint64_t{ux(l)} * uy(l)); });
    case Op::multiply_high:
      return each([&](unsigned l) { return static_cast<T>(product(l) >> kBits); });
    case Op::multiply_wide:
      return each(product);
    case Op::multiply_add_low:
      return each([&](unsigned l) {
        return static_cast<U>(std::uint64_t{ux(l)} * uy(l) + static_cast<U>(z(l)));
      });
    case Op::multiply_add_wide:
      return each([&](unsigned l) {
        using W = decltype(held(product(l)));
        const W sum = held(product(l)) + (*c)[l];
        return kBits >= 32 ? sum : sum & ((W{1} << (2 * kBits % 64)) - 1);
      });
    case Op::divide:
      return each([&](unsigned l) { return static_cast<T>(x(l) / nonzero(l)); });
    case Op::remainder:
      return each([&](unsigned l) { return static_cast<T>(x(l) % nonzero(l)); });
    case Op::minimum:
      return each([&](unsigned l) { return std::min(x(l), y(l)); });
    case Op::maximum:
      return each([&](unsigned l) { return std::max(x(l), y(l)); });
    case Op::bit_and:
      return each([&](unsigned l) { return static_cast<U>(ux(l) & uy(l)); });
    case Op::bit_or:
      return each([&](unsigned l) { return static_cast<U>(ux(l) | uy(l)); });
    case Op::bit_xor:
      return each([&](unsigned l) { return static_cast<U>(ux(l) ^ uy(l)); });
    case Op::bit_not:
      return each([&](unsigned l) { return static_cast<U>(complement(i.type, ux(l))); });
    case Op::negate:
      return each([&](unsigned l) { return static_cast<U>(U{0} - ux(l)); });
    case Op::shift_left:
      return each([&](unsigned l) {
        const auto by = static_cast<std::uint32_t>((*b)[l]);
        return by >= kBits ? U{0} : static_cast<U>(ux(l) << by);
      });
    case Op::shift_right:
      return each([&](unsigned l) {
        const auto by = static_cast<std::uint32_t>((*b)[l]);
        if (by >= kBits) return static_cast<T>(x(l) < 0 ? -1 : 0);
        return static_cast<T>(x(l) >> by);
      });
    case Op::insert_bits:
      return each([&](unsigned l) { return inserted<U>(ux(l), uy(l), (*c)[l], (*d)[l]); });
    case Op::mask_bits:
      return each([&](unsigned l) { return mask_of_bits((*a)[l], (*b)[l]); });
    case Op::permute_bytes:
      return each([&](unsigned l) { return permuted((*a)[l], (*b)[l], (*c)[l]); });
    case Op::reverse_bits:
      return each([&](unsigned l) { return reversed<U>(ux(l)); });
    case Op::leading_zeros:
      return each([&](unsigned l) { return std::countl_zero(ux(l)); });
    case Op::count_bits:
      return each([&](unsigned l) { return std::popcount(ux(l)); });
    case Op::compare: {
      const auto how = static_cast<Comparison>(i.mode);
      return each([&](unsigned l) { return std::uint8_t{compared(how, x(l), y(l))}; });
    }
    case Op::select:
      return each([&](unsigned l) { return (*c)[l] != 0 ? x(l) : y(l); });
    default:
      throw std::logic_error("not arithmetic");
  }
}

}  // namespace

void compute(const Instruction& instruction, Lanes lanes, Row& to,
             const std::array<const Row*, 4>& from) {
  if (instruction.op == Op::convert) {
    with_type(instruction.from, [&](auto source) {
      with_type(instruction.type, [&](auto result) {
        for_each_lane(lanes, [&](unsigned lane) {
          // Widens by the sign of the source, narrows by dropping bits.
          const auto value = static_cast<decltype(source)>((*from[0])[lane]);
          to[lane] = held(static_cast<decltype(result)>(value));
        });
      });
    });
    return;
  }
  with_type(instruction.type,
            [&](auto value) { compute_as<decltype(value)>(instruction, lanes, to, from); });
}

}  // namespace ptx
