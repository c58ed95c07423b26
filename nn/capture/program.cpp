#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/jit/kernel_internal.h>
#include <cotangent/nn/capture/program_internal.h>
#include <cotangent/ops/creation/creation.h>

namespace ct::capture_impl {
namespace {

// Everything that a recording holds for and the call shows, as words to compare; the rest is asked by Recorded::obstacle().
const Recorded::Key& key_of(StepProgram::Inputs inputs, const std::string& values) {
  struct Buffer {
    Recorded::Key words;
  };
  Recorded::Key& key = per_thread<Buffer>().words;  // keeps its memory
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto pack = [](auto... parts) {  // 16 bits each
    std::uint64_t word = 0;
    ((word = word << 16 | static_cast<std::uint16_t>(parts)), ...);
    return word;
  };
  const AutocastMode& mode = autocast_mode();
  std::size_t count = 2 + (values.size() + kWord - 1) / kWord;
  for (const Tensor* const t : inputs)
    count += t->defined() ? 1 + 2 * static_cast<std::size_t>(t->impl()->shape.size()) : 1;
  key.resize(count);
  std::uint64_t* to = key.data();
  *to++ = pack(grad_enabled(), mode.enabled, mode.enabled ? static_cast<int>(mode.dtype) : 0,
               mode.enabled && mode.cache_weights);
  *to++ = values.size();
  if (!values.empty()) {
    to[(values.size() - 1) / kWord] = 0;
    std::memcpy(to, values.data(), values.size());
    to += (values.size() + kWord - 1) / kWord;
  }
  for (const Tensor* const given : inputs) {
    if (!given->defined()) {
      *to++ = ~std::uint64_t{0};
      continue;
    }
    const TensorImpl& t = *given->impl();
    const Device device = t.storage->device();
    *to++ = pack(t.shape.size(), t.dtype, device.type, device.index);
    to = std::copy(t.shape.begin(), t.shape.end(), to);
    to = std::copy(t.strides.begin(), t.strides.end(), to);
  }
  return key;
}

// A copy in the same layout, where elements have a place each.
Tensor like(const Tensor& t) {
  if (!t.defined()) return {};
  Tensor copy = empty_like(t);
  copy.copy_(t);
  return copy;
}

}  // namespace

std::optional<Worth> worth_fusing(bool wanted, Device device) {
  const char* const variable = std::getenv("COTANGENT_FUSION");
  const std::string_view how = variable ? variable : "";
  if (!wanted || how == "off") return {};
  return how == "all" ? Worth{} : Worth::on(device);
}

std::vector<Tensor> tensors_of(StepProgram::Inputs inputs) {
  std::vector<Tensor> list;
  for (const Tensor* const t : inputs) list.push_back(*t);
  return list;
}

StepProgram::Impl::Impl(const CaptureOptions& the_options, std::shared_ptr<StepMemory> the_memory)
    : options(the_options), memory(std::move(the_memory)), check_every(the_options.check_every) {
  const auto check_at_least = [](int value, const char* what) {
    CT_CHECK(value >= 1, ValueError, kOp, what, " is ", value, "; it must be at least 1");
  };
  check_at_least(options.warmup, "warmup");
  check_at_least(options.recordings, "recordings");
  CT_CHECK(options.check_every >= 0, ValueError, kOp, "check_every is ", options.check_every, "; 0 is never");
  if (const char* const every = std::getenv("COTANGENT_CHECK_CAPTURE"); every && check_every == 0)
    check_every = std::max(0, std::atoi(every));
  watcher.on_gpu = [this] {
    if (worth_fusing(options.fuse, watcher.device)) compiler = std::jthread(jit::prepare, watcher.device);
  };
}

void StepProgram::Impl::clear() {
  if (device.is_cuda() && mailbox) {
    try {
      synchronize(device);
    } catch (...) {  // NOLINT: a kernel's bad index is told by the next call that waits
    }
  }
  recorded.clear();
  last = nullptr;
  mailbox.reset();
  memory->trim(device);
  warm.clear(), shapes.clear(), failure.clear();
  since_replay = 0;
}

void StepProgram::Impl::place(Device where) {
  if (mailbox) {
    CT_CHECK(device == where, CaptureError, kOp, "the step was recorded on ", device, " and works on ", where,
             " now; reset() forgets what was recorded");
    return;
  }
  device = where;
  mailbox.emplace(device);
}

Recorded* StepProgram::Impl::find(const Recorded::Key& key) {
  changed = nullptr;
  for (std::size_t i = 0; i < recorded.size();) {
    Recorded& r = *recorded[i];
    if (r.shared && !r.alone && r.shared != memory->pools(device)) {  // something lies in it that stays
      warm[r.key] = 0;
      drop(r);
      continue;
    }
    const Recorded::Obstacle obstacle = r.key == key ? r.obstacle() : Recorded::Obstacle{""};
    if (!obstacle.what) return &r;
    if (r.key == key) changed = obstacle.what;
    if (obstacle.returns) {
      ++i;
    } else {
      drop(r);
      warm[key] = 0;
    }
  }
  return nullptr;
}

void StepProgram::Impl::drop(const Recorded& r) {
  if (last == &r) last = nullptr;
  if (device.is_cuda()) synchronize(device);  // its last replay may still run
  std::erase_if(recorded, [&](const auto& other) { return other.get() == &r; });
}

// Throws where arguments or the state at the start keep changing.
void StepProgram::Impl::make_room(const Recorded::Key& key, Inputs inputs, bool again) {
  const auto limit = static_cast<std::size_t>(options.recordings);
  if (!shapes.contains(key)) {
    std::string varying;
    if (shapes.size() >= limit)
      for (std::size_t i = 0; i < inputs.size() && varying.empty(); ++i) {
        const Tensor& t = *inputs[i];
        if (!t.defined()) continue;
        for (const auto& [other, sizes] : shapes) {
          if (i >= sizes.size() || sizes[i].size() != t.dim()) continue;
          for (int d = 0; d < t.dim() && varying.empty(); ++d)
            if (sizes[i][d] != t.size(d))
              varying =
                  cat("axis ", d, " of argument ", i, " has sizes ", sizes[i][d], ", ", t.size(d), ", ...");
        }
      }
    CT_CHECK(shapes.size() < limit, CaptureError, kOp, "there are recordings for ", limit,
             " kinds of arguments: ",
             varying.empty() ? std::string("their layouts, numbers or modes vary") : varying,
             "; pad them to a few sizes (drop_last of a loader), or raise CaptureOptions::recordings");
    std::vector<Shape>& list = shapes[key];
    for (const Tensor* t : inputs) list.push_back(t->defined() ? t->shape() : Shape());
  }
  CT_CHECK(since_replay < 2 * options.recordings + 4, CaptureError, kOp, "the step was recorded ",
           since_replay, " times without a replay, the last time since it was recorded with ",
           changed ? changed : "other arguments", "; let each step begin as the one before");
  while (!again && recorded.size() >= 2 * limit) {
    const auto oldest = std::ranges::min_element(recorded, {}, [](const auto& r) { return r->used; });
    drop(**oldest);
  }
}

std::vector<Tensor> StepProgram::Impl::run(Inputs inputs, const std::string& values, Body body) {
  if (Recording* const outer = recording())
    outer->refuse(kOp, "is a captured step within another; capture the outer one alone");
  CT_CHECK(!busy.exchange(true), CaptureError, kOp,
           "called while a call of the same captured step runs, by itself or by another thread; give each "
           "thread its own");
  struct Free {
    std::atomic<bool>& busy;
    ~Free() { busy = false; }
  } free{busy};
  if (!failure.empty())
    fail<CaptureError>(kOp, "two steps in a row were not the same: ", std::exchange(failure, {}));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    CT_CHECK(
        !inputs[i]->defined() || !inputs[i]->requires_grad(), CaptureError, kOp, "argument ", i, ", ",
        describe(*inputs[i]),
        ", requires a gradient, which would be that of a copy; make the leaf in the step, or detach() it");
  const auto detached = [&](const std::vector<Tensor>& with) {
    std::vector<Tensor> results = body(with);
    for (Tensor& t : results)
      if (t.defined()) t = t.detach();
    return results;
  };

  number = 0;
  const auto plain = [&] { return detached(tensors_of(inputs)); };
  if (!options.enabled) return plain();
  std::optional<StepMemory::Turn> turn;
  if (mailbox) turn.emplace(*memory, device);
  Recorded* const found = find(key_of(inputs, values));
  if (found && found->confirmed) {
    replay(*found, inputs, detached);
    return found->results;
  }
  const Recorded::Key key = key_of(inputs, values);
  make_room(key, inputs, found != nullptr);
  if (warm[key] < options.warmup) {
    turn.reset();
    std::vector<Tensor> results;
    {
      const TracerScope scope(watcher);
      results = plain();
    }
    ++warm[key];
    return results;
  }
  place(watcher.device);
  if (!turn) turn.emplace(*memory, device);
  std::vector<Tensor> slots;
  {
    const NoGrad off;
    if (found) {
      slots = found->inputs;
      found->results.clear();
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i]->defined()) slots[i].copy_(*inputs[i]);
    } else {
      for (const Tensor& t : tensors_of(inputs)) {
        CT_CHECK(!t.defined() || t.device() == device, CaptureError, kOp, "an argument is on ", t.device(),
                 ", the step works on ", device, "; move it before the step");
        slots.push_back(like(t));
      }
    }
  }
  return record(key, std::move(slots), detached, found);
}

StepProgram::StepProgram(const CaptureOptions& options)
    : impl_(std::make_unique<Impl>(options, options.pool.memory_)) {}
StepProgram::~StepProgram() = default;

std::vector<Tensor> StepProgram::run(Inputs inputs, const std::string& values, Body body) {
  return impl_->run(inputs, values, body);
}

bool StepProgram::ready(Inputs inputs, const std::string& values) const {
  const Recorded::Key& key = key_of(inputs, values);
  return impl_->options.enabled && std::ranges::any_of(impl_->recorded, [&](const auto& r) {
           return r->confirmed && r->key == key && !r->obstacle().what;
         });
}

std::int64_t StepProgram::number() const { return impl_->number; }
bool StepProgram::captured() const {
  return std::ranges::any_of(impl_->recorded, [](const auto& r) { return r->confirmed; });
}
std::int64_t StepProgram::replays() const { return impl_->replayed; }
std::int64_t StepProgram::recordings() const { return impl_->made; }
void StepProgram::reset() { impl_->clear(); }

std::vector<std::string> StepProgram::kernels() const {
  std::vector<std::string> names;
  if (!impl_->last) return names;
  const FusionPlan* const plan = impl_->plan();
  for (std::size_t i = 0; i < impl_->last->calls.size(); ++i) {
    if (impl_->last->calls[i].runs != RecordedCall::Runs::each) continue;
    if (!plan || plan->group_of[i] == FusionPlan::kNone)
      names.push_back(impl_->last->calls[i].name());
    else if (const FusedCalls* const group = plan->ending_with(i))
      names.push_back(group->name(impl_->last->calls));
  }
  return names;
}

std::size_t StepProgram::launches() const { return impl_->last ? impl_->last->launches : 0; }

std::string StepProgram::explain_fusion() const {
  const FusionPlan* const plan = impl_->plan();
  if (plan) return explain(*plan, impl_->last->calls);
  return impl_->last && impl_->last->confirmed ? "fusion is off\n" : "not captured yet\n";
}

std::string StepProgram::dot() const {
  std::string text = "digraph step {\n  node [shape=box];\n";
  std::unordered_map<std::uint64_t, std::size_t> writers;
  for (std::size_t i = 0; impl_->last && i < impl_->last->calls.size(); ++i) {
    const RecordedCall& call = impl_->last->calls[i];
    if (call.runs != RecordedCall::Runs::each) continue;
    text += cat("  c", i, " [label=\"", call.name(), "\"];\n");
    std::set<std::size_t> from;
    for (const auto* list : {&call.inputs, &call.outputs, &call.grads})
      for (const Place& p : *list)
        if (const auto writer = writers.find(p.storage); writer != writers.end()) from.insert(writer->second);
    for (const std::size_t w : from) text += cat("  c", w, " -> c", i, ";\n");
    for (const Place& p : call.results)
      if (p.storage != 0) writers[p.storage] = i;
  }
  return text + "}\n";
}

std::size_t StepProgram::memory() const {
  std::size_t bytes = 0;
  std::set<MemoryPoolId> pools;
  for (const auto& r : impl_->recorded) {
    pools.insert(r->pool);
    if (r->shared) pools.insert({r->shared->step, r->shared->kernels});
  }
  for (const MemoryPoolId pool : pools) bytes += memory_pool_bytes(impl_->device, pool);
  return bytes;
}

}  // namespace ct::capture_impl
