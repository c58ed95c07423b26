#include <cotangent/nn/capture/assembly_internal.h>

#include <algorithm>
#include <set>
#include <utility>

#include <cotangent/core/base/error.h>

namespace ct::capture_impl {
namespace {

constexpr std::int64_t kLeastRun = 1 << 12;

// Groups that grow call by call.
class Planner {
 public:
  Planner(const std::vector<RecordedCall>& calls, const std::unordered_set<std::uint64_t>& passing,
          Worth worth)
      : calls_(calls), passing_(passing), worth_(worth) {
    for (std::size_t i = 0; i < calls.size(); ++i)
      calls[i].for_each_place([&](const Place& p) {
        std::vector<std::size_t>& list = accesses_[p.storage];
        if (calls[i].runs == RecordedCall::Runs::each && (list.empty() || list.back() != i))
          list.push_back(i);
      });
    plan_.group_of.assign(calls.size(), FusionPlan::kNone);
    plan_.reasons.resize(calls.size());
  }

  FusionPlan run() && {
    for (std::size_t i = 0; i < calls_.size(); ++i) place(i);
    for (const std::vector<std::size_t>& members : groups_) keep(members);
    return std::move(plan_);
  }

 private:
  bool assemble(const std::vector<std::size_t>& members, FusedCalls& group, std::string& why) const {
    Assembly a(calls_, passing_, accesses_);
    const bool fits =
        std::ranges::all_of(members, [&](std::size_t i) { return a.add(i); }) && a.finish(group);
    if (!fits) why = a.why();
    return fits;
  }

  void place(std::size_t i) {
    if (calls_[i].runs != RecordedCall::Runs::each) {
      plan_.reasons[i] = calls_[i].runs == RecordedCall::Runs::once ? "is made once, before the first replay"
                                                                    : "is a part of a later call";
      return;
    }
    {
      Assembly alone(calls_, passing_, accesses_);
      FusedCalls group;
      if (!alone.add(i) || (alone.steps() > 0 && !alone.finish(group))) {
        plan_.reasons[i] = alone.why();
        return;
      }
      if (alone.numel() < worth_.elements) {
        plan_.reasons[i] = cat("has ", alone.numel(), " elements, which is too few to gain");
        return;
      }
      if (worth_.elements > 1 && alone.run_length() < kLeastRun) {
        plan_.reasons[i] = "has too few elements along the axis that is cut into runs of rows";
        return;
      }
      bool low = false;
      calls_[i].for_each_place([&](const Place& p) { low = low || is_low_precision(p.dtype); });
      if (low && !worth_.low) {
        plan_.reasons[i] = "is of 16 bits, whose rounding takes a CPU as long as a pass over memory";
        return;
      }
    }
    std::set<std::size_t> related;
    calls_[i].for_each_place([&](const Place& p) {
      if (ct::numel(p.shape) == 1) return;
      if (const auto at = of_storage_.find(p.storage); at != of_storage_.end()) related.insert(at->second);
    });
    std::vector<std::vector<std::size_t>> tries{{related.begin(), related.end()}};
    if (related.size() > 1)
      for (auto g = related.rbegin(); g != related.rend(); ++g) tries.push_back({*g});
    std::size_t into = groups_.size();
    for (const std::vector<std::size_t>& of : tries) {
      if (of.empty()) continue;
      std::vector<std::size_t> members{i};
      for (const std::size_t g : of) members.insert(members.end(), groups_[g].begin(), groups_[g].end());
      std::ranges::sort(members);
      FusedCalls group;
      if (!assemble(members, group, plan_.reasons[i])) continue;
      into = of.front();
      for (const std::size_t g : of) groups_[g].clear();
      groups_[into] = std::move(members);
      break;
    }
    if (into == groups_.size()) groups_.push_back({i});
    for (const std::size_t member : groups_[into])
      calls_[member].for_each_place([&](const Place& p) { of_storage_[p.storage] = into; });
    of_storage_.erase(0);
  }

  void keep(const std::vector<std::size_t>& members) {
    if (members.empty()) return;
    FusedCalls group;
    std::string why;
    if (members.size() < 2 || !assemble(members, group, why) || group.steps() < 2) {
      for (const std::size_t i : members)
        plan_.reasons[i] = plan_.reasons[i].empty()
                               ? "has no neighbour that it could run with"
                               : "stays apart from its neighbours, as one " + plan_.reasons[i];
      return;
    }
    for (const std::size_t i : members) plan_.group_of[i] = plan_.groups.size(), plan_.reasons[i].clear();
    plan_.groups.push_back(std::move(group));
  }

  const std::vector<RecordedCall>& calls_;
  const std::unordered_set<std::uint64_t>& passing_;
  const Worth worth_;
  Accesses accesses_;
  std::vector<std::vector<std::size_t>> groups_;  // calls; those that were taken into others are empty
  std::unordered_map<std::uint64_t, std::size_t> of_storage_;  // the group that touched it last
  FusionPlan plan_;
};

}  // namespace

FusionPlan plan_fusion(const std::vector<RecordedCall>& calls,
                       const std::unordered_set<std::uint64_t>& passing, Worth worth) {
  return Planner(calls, passing, worth).run();
}

}  // namespace ct::capture_impl
