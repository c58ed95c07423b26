#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <cotangent/nn/capture/fusion_internal.h>
#include <cotangent/ops/engine/rows/record.h>
#include <cotangent/ops/fusion/build_internal.h>

// One group of calls while it is put together (fusion.cpp says which calls are tried).

namespace ct::capture_impl {

// Calls that touch each storage, in order.
using Accesses = std::unordered_map<std::uint64_t, std::vector<std::size_t>>;

// Whether two tensors have memory in common.
bool meet(const Place& a, const Place& b);

struct AssemblyStep {
  const RecordedCall* call = nullptr;
  const Place* written = nullptr;
  int operand = -1;  // whose gradient it is; -1: forward
  int y = -1, cotangent = -1, value = -1;
  std::vector<int> operands{};
  std::vector<const Place*> read{};
};

class Assembly {
 public:
  Assembly(const std::vector<RecordedCall>& calls, const std::unordered_set<std::uint64_t>& passing,
           const Accesses& accesses)
      : calls_(calls), passing_(passing), accesses_(accesses) {}

  // Takes call i in, which comes behind those before. False leaves why().
  bool add(std::size_t i) {
    at_ = i;
    members_.push_back(i);
    const RecordedCall& c = calls_[i];
    const rows::RowRecord* const record = rows::rows_of(*c.op);
    if (record && !(map::formulas_of(*c.op) && axes_of(c, *record) == 0)) return add_rows(c, *record);
    return c.backward ? add_backward(c) : add_forward(c);
  }
  // Makes the group; once.
  bool finish(FusedCalls& group);

  const std::string& why() const { return why_; }
  // Formulas, and the call that goes over rows.
  std::size_t steps() const { return parts_[0].steps.size() + parts_[1].steps.size() + (row_ != nullptr); }
  std::int64_t numel() const { return ct::numel(row_ ? rows_.shape : *parts_[0].shape); }
  // Elements of the rows that lie along the axis that is cut.
  std::int64_t run_length() const {
    std::int64_t n = numel();
    for (int d = 0; row_ && !whole_ && d + 1 < rows_.lead; ++d) n /= rows_.shape[d];
    return n;
  }

 private:
  enum Phase : std::uint8_t { load, row, store };
  struct Value {
    const Place* place;
    int value;
    std::size_t first;  // the call that reads or writes it first
    Phase phase;
    bool shared = false;  // read by all rows
  };
  // Formulas on elements of one shape.
  struct Part {
    const Shape* shape = nullptr;
    std::vector<DType> dtypes{};  // of the values
    std::vector<Value> inputs{}, written{};
    std::vector<AssemblyStep> steps{};
  };

  bool fail(const char* why) {
    why_ = why;
    return false;
  }
  bool add_forward(const RecordedCall& c);
  bool add_backward(const RecordedCall& c);
  bool add_rows(const RecordedCall& c, const rows::RowRecord& record);
  static int axes_of(const RecordedCall& c, const rows::RowRecord& record);
  bool add_row_tensor(const Place& p, bool result, bool shared);
  bool leads(const Shape& shape) const;
  Part& part() { return parts_[row_ != nullptr]; }
  Phase phase() const { return row_ ? store : load; }
  const Value* made(std::uint64_t storage) const;
  bool covers(const Place& result);
  bool read(const Place& p, int& value, AssemblyStep& step);
  bool write(const Place& p, int value);
  bool add_step(AssemblyStep step, DType dtype);
  bool set_lanes(fusion::Builder& b, const AssemblyStep& step, const Part& of);
  bool build(const Part& part, const std::vector<const Place*>& kept, map::chain::Program& program);
  bool is_needed(const Value& written) const;
  bool is_read_inside(const Value& written) const;
  bool is_passed(const Value& written) const;
  bool is_written_over(const Place& result) const;
  bool is_read_behind(const Place& p) const;
  bool fits(const FusedCalls& group);
  bool do_not_meet(const std::vector<Value>& inputs, const std::vector<Value>& outputs);
  bool stays_in_order(const std::vector<Value>& inputs, const std::vector<Value>& outputs);
  void set_sources(FusedCalls& group, std::span<const std::vector<const Place*>> kept);

  const std::vector<RecordedCall>& calls_;
  const std::unordered_set<std::uint64_t>& passing_;
  const Accesses& accesses_;
  std::size_t at_ = 0;
  std::vector<std::size_t> members_;
  Part parts_[2];  // before the call that goes over rows, and behind it
  const RecordedCall* row_ = nullptr;
  // The call that goes over rows: whether its kernel is not cut, and whether results are of all rows.
  bool on_gpu_ = false, whole_ = false, sums_ = false;
  const Place *loaded_ = nullptr,
              *stored_ = nullptr;  // what its kernel takes from the formulas before it, and gives on
  bool loads_memory_ = false;      // and what it takes lies in memory
  RowCalls rows_;
  std::vector<Value> row_inputs_, row_results_;
  bool in_chunks_ = false;  // of the program that is built: map::chain::Program::in_chunks
  std::string why_;
};

}  // namespace ct::capture_impl
