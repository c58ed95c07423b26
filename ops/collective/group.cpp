#include <cotangent/ops/collective/group.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>

#include <cotangent/core/base/version.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/collective/group_internal.h>
#include <cotangent/ops/collective/reduce_internal.h>

namespace ct::dist {
namespace detail {
namespace {

// Groups by number: an op's attributes are plain bytes.
struct Groups {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<GroupState>> list;
  std::uint64_t next = 1;
};
Groups& groups() {
  static Groups& all = *new Groups;
  return all;
}
std::uint64_t next_id() {
  const std::lock_guard lock(groups().mutex);
  return groups().next++;
}
const std::shared_ptr<GroupState>& lone_group() {
  static const auto& alone = *new std::shared_ptr<GroupState>(std::make_shared<GroupState>());
  return alone;
}

const char* const kOps[] = {"sum", "mean", "max", "min", "prod"};

std::string text_of(const Intent& i) {
  if (i.kind == Kind::barrier) return "barrier";
  std::string text = ct::detail::cat(name(i.kind), ' ', ct::name(static_cast<DType>(i.dtype)), '[');
  for (int d = 0; d < kMaxRank && i.sizes[d] >= 0; ++d)
    text += ct::detail::cat(d > 0 ? ", " : "", i.sizes[d]);
  text += ']';
  if (i.kind == Kind::all_reduce || i.kind == Kind::reduce_scatter)
    text += ct::detail::cat(" (", kOps[static_cast<int>(i.op)], ')');
  if (i.kind == Kind::broadcast) text += ct::detail::cat(" from rank ", i.root);
  return text;
}

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() > 1 ? "ranks " : "rank ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += ct::detail::cat(i > 0 ? ", " : "", ranks[i]);
  return text;
}

}  // namespace

const char* name(Kind kind) {
  constexpr const char* names[] = {"all_reduce", "broadcast", "reduce_scatter", "all_gather", "barrier"};
  return names[static_cast<int>(kind)];
}

std::shared_ptr<GroupState> group_of(const char* op, std::uint64_t id) {
  if (id == 0) return lone_group();
  const std::lock_guard lock(groups().mutex);
  const auto found = groups().list.find(id);
  std::shared_ptr<GroupState> group = found == groups().list.end() ? nullptr : found->second.lock();
  CT_CHECK(group, Error, op,
           "a call of a group that has ended; keep a handle of the Group as long as its calls");
  return group;
}

GroupState::GroupState() : id(0) {}

GroupState::GroupState(std::unique_ptr<Transport> how, int the_rank, int the_size, Device where,
                       std::chrono::milliseconds limit)
    : rank(the_rank),
      size(the_size),
      device(where),
      timeout(limit),
      id(next_id()),
      transport(std::move(how)) {
  CT_CHECK(timeout.count() > 0, ValueError, "dist", "timeout is ", timeout.count(), " ms; it must be > 0");
}

GroupState::~GroupState() {
  if (id != 0) {
    const std::lock_guard lock(groups().mutex);
    groups().list.erase(id);
  }
  if (!transport) return;
  if (std::uncaught_exceptions() > 0 && !failed_)
    fail(ct::detail::cat("rank ", rank, " ends by an exception"));
  if (nccl) nccl->finish();
  transport->close(failed_);
  nccl.reset();
}

double GroupState::now_ms() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
}

GroupCall& GroupState::enter(const std::string& what, double bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t at = calls_++ % kLog;
  GroupCall call{calls_, what, bytes, now_ms(), -1};
  if (at < log_.size()) return log_[at] = std::move(call);
  if (log_.capacity() == 0) log_.reserve(kLog);  // references stay
  return log_.emplace_back(std::move(call));
}

std::vector<GroupCall> GroupState::log() const {
  const std::lock_guard lock(mutex_);
  std::vector<GroupCall> list = log_;
  std::ranges::sort(list, {}, &GroupCall::number);
  return list;
}

void GroupState::fail(const std::string& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = why;
    failed_ = true;
  }
  if (transport) transport->abort(why);
  if (nccl) nccl->abort();
}

void GroupState::check(const std::string& what) {
  if (!failed_ && transport)
    if (const std::string why = transport->failure(); !why.empty()) fail(why);
  if (!failed_) [[likely]]
    return;
  const std::lock_guard lock(mutex_);
  const bool says = what.empty() || failure_.find("call ") != std::string::npos;
  throw PeerError(ct::detail::cat(
      "[dist] rank ", rank, " of ", size, ": ", failure_,
      says ? std::string() : ct::detail::cat(", in call ", calls_, ", ", what),
      "; the group can't go on: end the program, and start it anew from its last checkpoint"));
}

void GroupState::exchange(std::span<const Part> give, std::span<const Part> take, const std::string& what) {
  const auto me = static_cast<std::size_t>(rank);
  if (take[me].bytes > 0 && take[me].data != give[me].data)
    std::memcpy(take[me].data, give[me].data, take[me].bytes);
  try {
    const std::vector<int> missing =
        transport->exchange(give, take, std::chrono::steady_clock::now() + timeout);
    if (!missing.empty())
      fail(ct::detail::cat(list_ranks(missing), " did not come to call ", calls_, ", ", what, ", within ",
                           static_cast<double>(timeout.count()) / 1000, " s"));
  } catch (const PeerError& e) { fail(e.what()); }
  if (failed_) check(what);  // a call that is done is done, whatever others have met with since
}

void GroupState::compare(const Intent& mine, const std::string& what) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<Intent> all(n);
  const Intent copy = mine;
  std::vector<Part> give(n, Part{const_cast<Intent*>(&copy), sizeof copy}), take;
  for (Intent& i : all) take.push_back({&i, sizeof i});
  exchange(give, take, what);
  for (std::size_t q = 1; q < n; ++q) {
    Intent a = all[0], b = all[q];
    a.rank = b.rank = 0;
    if (std::memcmp(a.version, b.version, sizeof a.version) != 0)
      fail(ct::detail::cat("rank ", q, " runs version ", b.version, " of the library, rank 0 version ",
                           a.version));
    if (std::memcmp(&a, &b, sizeof a) != 0)
      fail(ct::detail::cat("in call ", mine.number, " rank ", q, " makes ", text_of(b),
                           a.gpu == b.gpu ? ""
                           : b.gpu        ? " on a GPU"
                                          : " on the CPU",
                           " where rank 0 makes ", text_of(a),
                           a.number == b.number ? "" : ", and has made another number of calls"));
    if (failed_) check();
  }
}

void GroupState::run(Kind kind, const Tensor& x, const Tensor& y, ReduceOp op, int root, bool later) {
  if (size == 1) {
    if (x.defined() && x.raw_data() != y.raw_data())
      copy_bytes(y.raw_data(), y.device(), x.raw_data(), x.device(), static_cast<std::size_t>(x.nbytes()));
    return;
  }
  const bool gpu = x.defined() && x.device().is_cuda();
  CT_CHECK(!gpu || nccl, DeviceError, name(kind), "the tensor is on ", x.device(),
           ", the group's ranks work on the CPU; move it with .to(cpu), or make the group with that device");
  CT_CHECK(!gpu || x.device() == device, DeviceError, name(kind), "the tensor is on ", x.device(),
           ", this rank of the group works on ", device, "; move it with .to(device)");
  Intent mine;
  mine.kind = kind, mine.op = op, mine.root = root, mine.gpu = gpu;
  mine.dtype = x.defined() ? static_cast<std::uint8_t>(x.dtype()) : 0;
  for (int d = 0; d < kMaxRank; ++d) mine.sizes[d] = x.defined() && d < x.dim() ? x.size(d) : -1;
  std::strncpy(mine.version, version(), sizeof mine.version - 1);
  const std::string what = text_of(mine);
  GroupCall& call = enter(what, x.defined() ? static_cast<double>(x.nbytes()) : 0);
  const std::uint64_t number = call.number;
  mine.number = number;
  check(what);
  if (gpu || !transport->compares() ? known_.insert(what + (gpu ? " gpu" : "")).second : true)
    compare(mine, what);
  if (gpu) {
    try {
      nccl->run(kind, x, y, op, root, later, what);
    } catch (const PeerError& e) { fail(e.what()); }
    check(what);
  } else {
    on_host(kind, x, y, op, root, what);
  }
  const std::lock_guard lock(mutex_);
  if (call.number == number) call.ms = now_ms() - call.start_ms;
}

bool GroupState::before_replay() {
  if (failed_) return false;
  if (nccl) nccl->before_replay();
  return true;
}

void GroupState::join() {
  if (nccl) nccl->join();
  check();
}

// A sum is cut into a part for each rank, which adds up what all give of it, in the order of the ranks, and sends it to all. Few
// elements are added up by every rank, in the same order.
void GroupState::on_host(Kind kind, const Tensor& x, const Tensor& y, ReduceOp op, int root,
                         const std::string& what) {
  const auto n = static_cast<std::size_t>(size), me = static_cast<std::size_t>(rank);
  std::vector<Part> give(n), take(n);
  if (kind == Kind::barrier) return exchange(give, take, what);
  auto* const from = static_cast<std::byte*>(x.raw_data());
  auto* const to = static_cast<std::byte*>(y.raw_data());
  const std::size_t bytes = static_cast<std::size_t>(x.nbytes()), each = size_of(x.dtype());
  if (kind == Kind::broadcast) {
    if (rank == root)
      for (Part& part : give) part = {from, bytes};
    take[static_cast<std::size_t>(root)] = {to, bytes};
    return exchange(give, take, what);
  }
  if (kind == Kind::all_gather) {
    for (std::size_t q = 0; q < n; ++q) give[q] = {from, bytes}, take[q] = {to + q * bytes, bytes};
    return exchange(give, take, what);
  }
  const auto count = static_cast<std::size_t>(x.numel());
  const bool scatter = kind == Kind::reduce_scatter, few = !scatter && count <= 1024;
  const std::size_t most = few ? count : (count + n - 1) / n;
  const auto part = [&](std::byte* base, std::size_t q) {
    if (few) return Part{base, bytes};
    const std::size_t begin = std::min(q * most, count), end = std::min(begin + most, count);
    return Part{base + begin * each, (end - begin) * each};
  };
  const std::size_t own = part(from, me).bytes;
  if (room_.size() < n * own) room_.resize(n * own);
  std::vector<const void*> operands(n, part(from, me).data);
  for (std::size_t q = 0; q < n; ++q) {
    if (q == me) continue;
    give[q] = part(from, q), take[q] = {room_.data() + q * own, own};
    operands[q] = take[q].data;
  }
  exchange(give, take, what);
  const Part sum = scatter ? Part{to, own} : part(to, me);
  reduce(x.dtype(), op, operands, own / each, sum.data);
  if (scatter || few) return;
  for (std::size_t q = 0; q < n; ++q) give[q] = sum, take[q] = part(to, q);
  exchange(give, take, what);
}

std::shared_ptr<GroupState> make_group(std::unique_ptr<Transport> how, int rank, int size, Device device,
                                       std::chrono::milliseconds timeout) {
  auto group = std::make_shared<GroupState>(std::move(how), rank, size, device, timeout);
  {
    const std::lock_guard lock(groups().mutex);
    groups().list[group->id] = group;
  }
  return group;
}

void meet(GroupState& group) {
  group.run(Kind::barrier, {}, {}, ReduceOp::sum, 0, false);
  if (group.device.is_cuda() && group.size > 1) group.nccl = open_nccl(group);
}

}  // namespace detail

using detail::GroupState;

Group::Group() : state_(detail::group_of("dist", 0)) {}
int Group::rank() const { return state_->rank; }
int Group::size() const { return state_->size; }
Device Group::device() const { return state_->device; }
std::string Group::backend() const {
  if (!state_->transport) return "alone";
  return std::string(state_->transport->name()) + (state_->nccl ? " + nccl" : "");
}
std::vector<GroupCall> Group::log() const { return state_->log(); }
void Group::abort(const std::string& why) const noexcept {
  if (state_->size > 1) state_->fail(why);
}
void Group::check() const { state_->check(); }

void run_threads(Integer ranks, const std::function<void(Group)>& f, const GroupOptions& options,
                 const std::vector<Device>& devices) {
  constexpr char op[] = "run_threads";
  const std::int64_t n = ranks;
  CT_CHECK(n >= 1 && n <= 1024, ValueError, op, "ranks is ", n, "; it must lie in [1, 1024]");
  CT_CHECK(devices.empty() || devices.size() == static_cast<std::size_t>(n), ValueError, op, "got ",
           devices.size(), " devices for ", n, " ranks; name one for each");
  for (const Device d : devices) check_device(op, d);
  const auto meeting = detail::make_meeting(static_cast<int>(n));
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    std::shared_ptr<GroupState> group;
    try {
      const Device device = devices.empty() ? cpu : devices[static_cast<std::size_t>(rank)];
      const DeviceGuard guard(device);
      group = detail::make_group(detail::threads_transport(meeting, rank), rank, static_cast<int>(n), device,
                                 options.timeout);
      detail::meet(*group);
      f(Group(group));
      if (device.is_cuda()) synchronize(device);
    } catch (...) {
      std::string what = "an exception";
      try {
        throw;
      } catch (const std::exception& e) {
        what = e.what();
      } catch (...) {  // NOLINT: it is thrown again below
      }
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      if (group) group->fail(ct::detail::cat("rank ", rank, " ended with: ", what));
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back(run, rank);
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace ct::dist

namespace ct {
CT_COMPOSED(group)
}  // namespace ct
