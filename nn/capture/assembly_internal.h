#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <cotangent/nn/capture/fusion_internal.h>
#include <cotangent/ops/fusion/build_internal.h>

// One group of calls while it is put together (fusion.cpp says which calls are tried).

namespace ct::detail {

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
    return calls_[i].backward ? add_backward(calls_[i]) : add_forward(calls_[i]);
  }
  // Makes the group; once.
  bool finish(FusedCalls& group);

  const std::string& why() const { return why_; }
  std::size_t steps() const { return steps_.size(); }
  std::int64_t numel() const { return ct::numel(*shape_); }

 private:
  struct Value {
    const Place* place;
    int value;
    std::size_t first;  // the call that reads or writes it first
  };

  bool fail(const char* why) {
    why_ = why;
    return false;
  }
  bool add_forward(const RecordedCall& c);
  bool add_backward(const RecordedCall& c);
  bool covers(const Place& result);
  bool read(const Place& p, int& value, AssemblyStep& step);
  bool write(const Place& p, int value);
  bool add_step(AssemblyStep step, DType dtype);
  bool set_lanes(fusion::Builder& b, const AssemblyStep& step);
  bool build(fusion::Builder& b, std::vector<int>& values);
  bool is_needed(const Value& written) const;
  bool stays_in_order(std::span<const Place* const> outputs, std::span<const std::size_t> firsts);

  const std::vector<RecordedCall>& calls_;
  const std::unordered_set<std::uint64_t>& passing_;
  const Accesses& accesses_;
  std::size_t at_ = 0;
  std::vector<std::size_t> members_;
  const Shape* shape_ = nullptr;
  std::vector<DType> dtypes_;  // of the values
  std::vector<Value> inputs_, written_;
  std::vector<AssemblyStep> steps_;
  std::string why_;
};

}  // namespace ct::detail
