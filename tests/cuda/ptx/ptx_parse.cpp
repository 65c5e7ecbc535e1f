// SPDX-License-Identifier: Apache-2.0
// Reads PTX: the part that nvcc writes for the project's kernels and for those of CUB. What is not
// known here is refused, so that nothing is executed with another meaning than it has.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "ptx_program.hpp"
#include "ptx_registers.hpp"
#include "ptx_text.hpp"

namespace ptx {

namespace {

/// Instructions that are their operands and a type, and the modifiers that they may have.
struct Form {
  Op op;
  unsigned operands;
};
const std::unordered_map<std::string_view, Form>& simple_forms() {
  static const std::unordered_map<std::string_view, Form> kForms = {
      {"add", {Op::add, 2}},
      {"sub", {Op::subtract, 2}},
      {"mul.lo", {Op::multiply_low, 2}},
      {"mul.hi", {Op::multiply_high, 2}},
      {"mul.wide", {Op::multiply_wide, 2}},
      {"mad.lo", {Op::multiply_add_low, 3}},
      {"mad.wide", {Op::multiply_add_wide, 3}},
      {"div", {Op::divide, 2}},
      {"rem", {Op::remainder, 2}},
      {"min", {Op::minimum, 2}},
      {"max", {Op::maximum, 2}},
      {"and", {Op::bit_and, 2}},
      {"or", {Op::bit_or, 2}},
      {"xor", {Op::bit_xor, 2}},
      {"not", {Op::bit_not, 1}},
      {"neg", {Op::negate, 1}},
      {"shl", {Op::shift_left, 2}},
      {"shr", {Op::shift_right, 2}},
      {"bfi", {Op::insert_bits, 4}},
      {"bmsk.clamp", {Op::mask_bits, 2}},
      {"prmt", {Op::permute_bytes, 3}},
      {"brev", {Op::reverse_bits, 1}},
      {"clz", {Op::leading_zeros, 1}},
      {"popc", {Op::count_bits, 1}},
      {"selp", {Op::select, 3}},
      {"cvta.to.global", {Op::move, 1}}};
  return kForms;
}

class Parser : private Reader {
 public:
  Parser(std::string_view text, std::string_view only) : Reader(text), only_(only) {}

  Module module() {
    while (!has_ended()) {
      const std::string_view word = next();
      if (word == ".version" || word == ".target" || word == ".address_size") {
        next();
      } else if (word == ".visible" || word == ".weak") {
        continue;
      } else if (word == ".extern") {
        want(".shared");
        dynamic_shared_ = declaration().name;
        want(";");
      } else if (word == ".global" || word == ".const") {
        variable();
      } else if (word == ".entry") {
        kernel();
      } else {
        back();
        refuse("what stands here in a module");
      }
    }
    return std::move(module_);
  }

 private:
  // ---- declarations -----------------------------------------------------------------------------

  struct Declared {
    std::string_view name;
    std::size_t bytes, alignment, element_bytes;
  };
  /// `.align 8 .b8 name[16]`
  Declared declaration() {
    Declared it{"", 0, 1, 1};
    for (it.name = next(); it.name.starts_with('.'); it.name = next()) {
      if (it.name == ".align") {
        it.alignment = number();
      } else if (const auto type = type_named(it.name.substr(1))) {
        it.element_bytes = bytes_of(*type);
        it.alignment = std::max(it.alignment, it.element_bytes);
      } else {
        refuse("the declaration before this");
      }
    }
    it.bytes = it.element_bytes;
    if (take("[")) {
      it.bytes = peek() == "]" ? 0 : it.element_bytes * number();
      want("]");
    }
    return it;
  }

  void variable() {
    const Declared it = declaration();
    Variable made{it.bytes, std::make_unique<std::uint64_t[]>(it.bytes / 8 + 1)};
    if (take("=")) {
      want("{");
      auto* to = reinterpret_cast<std::byte*>(made.words.get());
      for (std::size_t i = 0; !take("}"); i += it.element_bytes) {
        const std::uint64_t value = number();
        if (i + it.element_bytes > it.bytes) refuse("a value behind the end of a variable");
        std::memcpy(to + i, &value, it.element_bytes);
        take(",");
      }
    }
    want(";");
    variables_[it.name] = reinterpret_cast<std::uintptr_t>(made.words.get());
    module_.variables.push_back(std::move(made));
  }

  std::size_t placed(const Declared& it, std::size_t& end) {
    const std::size_t offset = (end + it.alignment - 1) / it.alignment * it.alignment;
    end = offset + it.bytes;
    return offset;
  }

  // ---- kernels ----------------------------------------------------------------------------------

  void skip_kernel() {
    while (!take("{")) next();
    for (int depth = 1; depth > 0;) {
      const std::string_view word = next();
      depth += word == "{" ? 1 : word == "}" ? -1 : 0;
    }
  }

  void kernel() {
    const std::string name(next());
    if (name.find(only_) == std::string::npos) return skip_kernel();
    kernel_ = {};
    kernel_.name = name;
    scopes_.assign(1, {});
    symbols_.clear();
    labels_.clear();
    branches_.clear();
    constants_.clear();
    dynamic_rows_.clear();
    std::size_t parameters_end = 0;
    if (take("(")) {
      while (!take(")")) {
        want(".param");
        const Declared it = declaration();
        const std::size_t offset = placed(it, parameters_end);
        kernel_.parameters.push_back({offset, it.bytes});
        symbols_[it.name] = offset;
        take(",");
      }
    }
    kernel_.parameter_bytes = parameters_end;
    while (!take("{")) {
      if (next() == ".maxntid") kernel_.most_threads = static_cast<unsigned>(number());
    }
    while (!scopes_.empty()) statement();
    finish_kernel();
  }

  void finish_kernel() {
    kernel_.code.push_back({.op = Op::finish});
    for (const auto& [at, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) refuse("the label " + std::string(label));
      kernel_.code[at].target = found->second;
      kernel_.code[static_cast<std::size_t>(found->second)].labelled = true;
    }
    kernel_.shared_bytes = (kernel_.shared_bytes + 15) / 16 * 16;
    for (const RowNumber row : dynamic_rows_) {
      kernel_.constants[static_cast<std::size_t>(~row)].fill(kernel_.shared_bytes);
    }
    share_registers(kernel_);
    module_.kernels[kernel_.name] = std::move(kernel_);
  }

  void statement() {
    if (take("}")) {
      scopes_.pop_back();
    } else if (take("{")) {
      scopes_.emplace_back();
    } else if (take(".reg")) {
      registers();
    } else if (take(".shared")) {
      const Declared it = declaration();
      symbols_[it.name] = placed(it, kernel_.shared_bytes);
      want(";");
    } else if (take(".pragma")) {
      while (next() != ";") {
      }
    } else if (peek_second() == ":") {
      labels_[next()] = static_cast<std::int32_t>(kernel_.code.size());
      next();
    } else {
      instruction();
    }
  }

  void registers() {
    next();  // the type: instructions say theirs
    do {
      const std::string_view name = next();
      unsigned count = 1;
      bool numbered = false;
      if (take("<")) {
        count = static_cast<unsigned>(number());
        numbered = true;
        want(">");
      }
      scopes_.back()[name] = {static_cast<RowNumber>(kernel_.registers), count, numbered};
      kernel_.registers += count;
    } while (take(","));
    want(";");
  }

  struct Registers {
    RowNumber first;
    unsigned count;
    bool numbered;
  };
  std::optional<RowNumber> register_named(std::string_view name) const {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    const std::string_view prefix = name.substr(0, digits);
    unsigned number = 0;
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) {
        if (!found->second.numbered) return found->second.first;
      }
      if (digits == name.size()) continue;
      const auto found = scope->find(prefix);
      if (found != scope->end() && found->second.numbered && number < found->second.count) {
        return found->second.first + static_cast<RowNumber>(number);
      }
    }
    return std::nullopt;
  }

  // ---- operands ---------------------------------------------------------------------------------

  RowNumber constant(std::uint64_t value) {
    const auto [found, is_new] =
        constants_.try_emplace(value, ~static_cast<RowNumber>(kernel_.constants.size()));
    if (is_new) kernel_.constants.emplace_back().fill(value);
    return found->second;
  }
  RowNumber operand() {
    const std::string_view word = peek();
    if (word == "-" || std::isdigit(static_cast<unsigned char>(word[0]))) return constant(number());
    next();
    if (const auto row = register_named(word)) return *row;
    if (const auto special = special_named(word)) {
      const auto [found, is_new] = kernel_.specials.try_emplace(*special, 0);
      if (is_new) found->second = static_cast<RowNumber>(kernel_.registers++);
      return found->second;
    }
    if (const auto found = symbols_.find(word); found != symbols_.end()) {
      return constant(found->second);
    }
    if (const auto found = variables_.find(word); found != variables_.end()) {
      return constant(found->second);
    }
    if (word == dynamic_shared_) {  // its address is known when all other shared memory is
      const auto row = ~static_cast<RowNumber>(kernel_.constants.size());
      kernel_.constants.emplace_back();
      dynamic_rows_.push_back(row);
      return row;
    }
    back();
    refuse("an operand");
  }
  RowNumber result() {
    const std::string_view word = next();
    if (word == "_") return kNoRow;
    if (const auto row = register_named(word)) return *row;
    back();
    refuse("a result");
  }
  /// `{a, b}` or `a`; returns how many there are.
  template <class Rows, class Read>
  std::uint8_t list(Rows& rows, std::size_t first, Read read) {
    std::size_t i = first;
    if (!take("{")) {
      rows[i++] = read();
    } else {
      do {
        if (i == rows.size()) refuse("a longer vector");
        rows[i++] = read();
      } while (take(","));
      want("}");
    }
    return static_cast<std::uint8_t>(i - first);
  }
  void operands(Instruction& i, unsigned count) {
    for (unsigned o = 0; o < count; ++o) {
      if (o > 0) want(",");
      i.from_rows[o] = operand();
    }
  }
  void address(Instruction& i) {
    want("[");
    i.from_rows[0] = operand();
    if (take("+") || peek() == "-") i.offset = static_cast<std::int64_t>(number());
    want("]");
  }

  // ---- instructions -----------------------------------------------------------------------------

  void instruction() {
    Instruction i{.line = line()};
    if (take("@")) {
      i.if_not = take("!");
      i.guard = result();
    }
    const std::size_t began = place();
    Opcode opcode(next());
    const std::vector<Type> types = opcode.types();
    if (!types.empty()) i.type = i.from = types[0];
    rest_of(i, opcode, types);
    if (const auto word = opcode.not_understood()) {
      go_to(began);
      refuse("the modifier " + std::string(*word));
    }
    want(";");
    kernel_.code.push_back(i);
  }

  void rest_of(Instruction& i, Opcode& opcode, const std::vector<Type>& types) {
    const std::string_view base = opcode.base();
    const auto simple = simple_forms().find(opcode.without_types());
    if (simple != simple_forms().end()) {
      opcode.use_all();
      i.op = simple->second.op;
      i.to[0] = result();
      want(",");
      operands(i, simple->second.operands);
    } else if (base == "mov") {
      move(i);
    } else if (base == "setp") {
      i.op = Op::compare;
      i.mode = static_cast<std::uint8_t>(comparison(opcode));
      i.to[0] = result();
      want(",");
      operands(i, 2);
    } else if (base == "cvt" && types.size() == 2) {
      i.op = Op::convert;
      i.from = types[1];
      i.to[0] = result();
      want(",");
      operands(i, 1);
    } else if (base == "ld" || base == "st" || base == "atom" || base == "red") {
      access(i, opcode);
    } else if (base == "bra") {
      opcode.has("uni");
      i.op = Op::branch;
      branches_.emplace_back(kernel_.code.size(), next());
    } else if (base == "ret" || base == "exit") {
      i.op = Op::finish;
    } else if (base == "membar" || base == "fence") {
      i.op = Op::fence;
      for (const char* kind : {"gl", "gpu", "sys", "sc", "acq_rel"}) opcode.has(kind);
      i.acquires = i.releases = !opcode.has("cta");
    } else if (base == "nanosleep") {
      i.op = Op::pause;
      operands(i, 1);
    } else if (base == "trap") {
      i.op = Op::trap;
    } else {
      together(i, opcode);
    }
  }

  void move(Instruction& i) {
    if (peek() == "{") {
      i.op = Op::unpack;
      i.vector = list(i.to, 0, [&] { return result(); });
      want(",");
      operands(i, 1);
      return;
    }
    i.to[0] = result();
    want(",");
    const bool packs = peek() == "{";
    i.vector = list(i.from_rows, 0, [&] { return operand(); });
    i.op = packs ? Op::pack : Op::move;
  }

  Comparison comparison(Opcode& opcode) {
    static constexpr std::pair<std::string_view, Comparison> kNames[] = {
        {"eq", Comparison::eq}, {"ne", Comparison::ne}, {"lt", Comparison::lt},
        {"le", Comparison::le}, {"gt", Comparison::gt}, {"ge", Comparison::ge},
        {"lo", Comparison::lt}, {"ls", Comparison::le}, {"hi", Comparison::gt},
        {"hs", Comparison::ge}};
    for (const auto& [name, how] : kNames) {
      if (opcode.has(name)) return how;
    }
    refuse("a comparison before this");
  }

  void access(Instruction& i, Opcode& opcode) {
    const std::string_view base = opcode.base();
    i.space = opcode.has("shared")  ? Space::shared
              : opcode.has("param") ? Space::param
                                    : Space::global;
    opcode.has("global");  // an address without a space is a global one here
    i.vector = opcode.has("v4") ? 4 : opcode.has("v2") ? 2 : 1;
    const bool volatile_ = opcode.has("volatile"), relaxed = opcode.has("relaxed");
    const bool both = opcode.has("acq_rel");
    i.acquires = opcode.has("acquire") || both;
    i.releases = opcode.has("release") || both;
    for (const char* scope : {"gpu", "sys"}) opcode.has(scope);
    const bool of_block = opcode.has("cta");
    if (volatile_ || relaxed || i.acquires || i.releases) i.order = Order::strong;
    if (base == "ld") {
      i.op = Op::load;
      if (of_block && relaxed) i.order = Order::of_block;
      opcode.has("L1::no_allocate");  // hints
      opcode.has("cs");
      if (opcode.has("nc")) i.order = Order::read_only;
      list(i.to, 0, [&] { return result(); });
      want(",");
      address(i);
    } else if (base == "st") {
      i.op = Op::store;
      opcode.has("cs");  // a hint
      address(i);
      want(",");
      list(i.from_rows, 1, [&] { return operand(); });
    } else {
      atomic(i, opcode);
    }
  }

  void atomic(Instruction& i, Opcode& opcode) {
    static constexpr std::pair<std::string_view, AtomicOp> kNames[] = {
        {"add", AtomicOp::add},     {"cas", AtomicOp::cas},      {"min", AtomicOp::min},
        {"max", AtomicOp::max},     {"or", AtomicOp::bit_or},    {"and", AtomicOp::bit_and},
        {"xor", AtomicOp::bit_xor}, {"exch", AtomicOp::exchange}};
    i.op = Op::atomic;
    i.order = Order::strong;
    const auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                     [&](const auto& name) { return opcode.has(name.first); });
    if (found == std::end(kNames)) refuse("an atomic operation before this");
    i.mode = static_cast<std::uint8_t>(found->second);
    if (opcode.base() == "atom") {
      i.to[0] = result();
      want(",");
    }
    address(i);
    for (std::size_t o = 1; take(","); ++o) i.from_rows[o] = operand();
  }

  /// Instructions that threads execute together.
  void together(Instruction& i, Opcode& opcode) {
    const std::string_view base = opcode.base();
    opcode.has("sync");
    if (base == "bar" && opcode.has("warp")) {
      i.op = Op::sync_warp;
      operands(i, 1);
    } else if (base == "bar" || base == "barrier") {
      i.op = Op::barrier;
      i.aligned = base == "bar" || opcode.has("aligned");
      opcode.has("cta");
      const bool reduces = opcode.has("red");
      const BarrierMode mode = !reduces            ? BarrierMode::sync
                               : opcode.has("or")  ? BarrierMode::reduce_or
                               : opcode.has("and") ? BarrierMode::reduce_and
                                                   : BarrierMode::sync;
      i.mode = static_cast<std::uint8_t>(mode);
      if (reduces) {
        i.to[0] = result();
        want(",");
      }
      operands(i, reduces ? 2 : 1);
    } else if (base == "shfl") {
      i.op = Op::shuffle;
      const ShuffleMode mode = opcode.has("up")     ? ShuffleMode::up
                               : opcode.has("down") ? ShuffleMode::down
                               : opcode.has("bfly") ? ShuffleMode::butterfly
                                                    : ShuffleMode::index;
      opcode.has("idx");
      i.mode = static_cast<std::uint8_t>(mode);
      i.to[0] = result();
      if (take("|")) i.to[1] = result();
      want(",");
      operands(i, 4);
    } else if (base == "vote") {
      i.op = Op::vote;
      const VoteMode mode = opcode.has("ballot") ? VoteMode::ballot
                            : opcode.has("any")  ? VoteMode::any
                                                 : VoteMode::all;
      opcode.has("all");
      i.mode = static_cast<std::uint8_t>(mode);
      i.to[0] = result();
      want(",");
      operands(i, 2);
    } else if (base == "redux") {
      i.op = Op::sum_lanes;
      if (!opcode.has("add")) refuse("the operation of redux");
      i.to[0] = result();
      want(",");
      operands(i, 2);
    } else {
      back();
      refuse("the instruction");
    }
  }

  std::string_view only_;
  Module module_;
  std::unordered_map<std::string_view, std::uint64_t> variables_;
  std::string_view dynamic_shared_ = "(none)";
  // of the kernel that is being read:
  Kernel kernel_;
  std::vector<std::unordered_map<std::string_view, Registers>> scopes_;
  std::unordered_map<std::string_view, std::uint64_t> symbols_;
  std::unordered_map<std::string_view, std::int32_t> labels_;
  std::vector<std::pair<std::size_t, std::string_view>> branches_;
  std::unordered_map<std::uint64_t, RowNumber> constants_;
  std::vector<RowNumber> dynamic_rows_;
};

}  // namespace

Module parse(std::string_view text, std::string_view only) { return Parser(text, only).module(); }

}  // namespace ptx
