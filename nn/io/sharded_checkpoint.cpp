#include <cotangent/nn/io/sharded_checkpoint.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/stream.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/safetensors.h>
#include <cotangent/ops/collective/collective.h>
#include <cotangent/ops/creation/creation.h>

namespace ct::io {
namespace {

namespace fs = std::filesystem;
constexpr char kSharded[] = "ShardedCheckpoint";
constexpr char kBegin[] = "@begin", kShape[] = "@shape", kStep[] = "@step";

std::string text_of_shape(const Shape& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += ct::detail::cat(text.empty() ? "" : "x", n);
  return text;
}
Shape shape_of_text(const std::string& text) {
  Shape shape;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('x', at), text.size());
    shape.push_back(std::strtoll(text.c_str() + at, nullptr, 10));
    at = end + 1;
  }
  return shape;
}

std::string file_of_rank(int rank, int size) {
  return ct::detail::cat("rank-", rank, "-of-", size, ".safetensors");
}

// A tensor of which pieces have come.
struct Whole {
  Tensor tensor;
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
};

}  // namespace

struct ShardedCheckpoint::Impl {
  Impl(std::string where, const dist::Group& the_group, const ShardedCheckpointOptions& the_options)
      : folder(std::move(where)), group(the_group), options(the_options) {
    CT_CHECK(options.keep >= 1, ValueError, kSharded, "keep is ", options.keep, "; it must be >= 1");
  }
  ~Impl() {
    if (writer.joinable()) writer.join();
  }

  void wait() {
    if (writer.joinable()) writer.join();
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

  // A copy on the host, in memory that the next save() takes again. A GPU's is there when `copied` is reached: the device makes
  // it between two steps, and the host does not wait.
  Tensor snapshot(const std::string& name, const Tensor& t) {
    Tensor& copy = copies[name];
    if (!copy.defined() || copy.shape() != t.shape() || copy.dtype() != t.dtype()) {
      copy = empty(t.shape(), {.dtype = t.dtype()});
      if (t.device().is_cuda()) copy = copy.pin_memory();
    }
    const Tensor whole = t.contiguous();
    copy_bytes(copy.raw_data(), cpu, whole.raw_data(), t.device(), static_cast<std::size_t>(whole.nbytes()),
               true);
    return copy;
  }

  StateDict take(std::int64_t step, const StateDict& common, const StateDict& shared) {
    StateDict mine;
    for (const StateDict* part : {&common, &shared})
      for (const auto& [name, value] : part->values()) mine.set_value(name, value);
    mine.set_value(kStep, step);
    for (const auto& [name, t] : common) {
      const std::int64_t n = t.numel(), begin = n * group.rank() / group.size(),
                         end = n * (group.rank() + 1) / group.size();
      mine.set(name, snapshot(name, t.detach().reshape({-1}).narrow(0, begin, end - begin)));
      mine.set_value(name + kBegin, begin);
      mine.set_value(name + kShape, text_of_shape(t.shape()));
    }
    for (const auto& [name, t] : shared) mine.set(name, snapshot(name, t.detach().reshape({-1})));
    if (group.device().is_cuda()) copied.record(current_stream(group.device()));
    return mine;
  }

  void write(const std::string& name, const StateDict& mine) {
    if (group.device().is_cuda()) copied.synchronize();
    const fs::path place = fs::path(folder) / name;
    io::save((place / file_of_rank(group.rank(), group.size())).string(), mine);
    if (group.rank() != 0) return;
    const auto start = std::chrono::steady_clock::now();
    for (int q = 0; q < group.size();) {
      if (fs::is_regular_file(place / file_of_rank(q, group.size()))) {
        ++q;
        continue;
      }
      CT_CHECK(std::chrono::steady_clock::now() - start < limit, IoError, kSharded, "the file of rank ", q,
               " in ", place.string(), " has not come; the checkpoint before is the newest");
      group.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    write_file((fs::path(folder) / "LATEST").string(), ct::detail::cat(name, ' ', group.size(), '\n'));
    remove_old(name);
  }

  void remove_old(const std::string& newest) const {
    std::vector<std::pair<std::int64_t, fs::path>> list;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-") && name != newest)
        list.emplace_back(std::atoll(name.c_str() + 5), entry.path());
    }
    std::ranges::sort(list, std::ranges::greater());
    for (std::size_t i = static_cast<std::size_t>(options.keep) - 1; i < list.size(); ++i) {
      std::error_code ignored;
      fs::remove_all(list[i].second, ignored);
    }
  }

  const std::string folder;
  const dist::Group group;
  // Rank 0 waits so long for the files of others.
  static constexpr std::chrono::minutes limit{10};
  const ShardedCheckpointOptions options;
  std::map<std::string, Tensor> copies;
  Event copied;
  std::thread writer;
  std::exception_ptr error;
};

ShardedCheckpoint::ShardedCheckpoint(std::string folder, const dist::Group& group,
                                     const ShardedCheckpointOptions& options)
    : impl_(std::make_unique<Impl>(std::move(folder), group, options)) {}
ShardedCheckpoint::~ShardedCheckpoint() = default;

void ShardedCheckpoint::wait() { impl_->wait(); }

void ShardedCheckpoint::save(std::int64_t step, const StateDict& common, const StateDict& shared) {
  CT_CHECK(step >= 0, ValueError, kSharded, "step is ", step, "; it must be >= 0");
  const NoGrad off_tape;
  impl_->wait();
  const std::string name = ct::detail::cat("step-", step);
  const fs::path place = fs::path(impl_->folder) / name;
  StateDict mine = impl_->take(step, common, shared);
  std::error_code error;
  fs::create_directories(place, error);
  CT_CHECK(!error, IoError, kSharded, "can't make the folder ", place.string(), ": ", error.message());
  // A file of this step that a killed run has left is not to be taken for this run's.
  const fs::path own = place / file_of_rank(impl_->group.rank(), impl_->group.size());
  if (fs::is_regular_file(own)) fs::remove(own, error);
  dist::barrier(impl_->group);
  impl_->writer = std::thread([impl = impl_.get(), name, mine = std::move(mine)] {
    try {
      impl->write(name, mine);
    } catch (...) { impl->error = std::current_exception(); }
  });
}

std::optional<ShardedCheckpoint::Loaded> ShardedCheckpoint::load() const {
  const fs::path latest = fs::path(impl_->folder) / "LATEST";
  std::ifstream in(latest);
  if (!in) return {};
  std::string name;
  int size = 0;
  CT_CHECK(
      in >> name >> size && size >= 1 && name.starts_with("step-") && name.find('/') == std::string::npos,
      IoError, kSharded, latest.string(),
      " is no list of a checkpoint; remove it, or write 'step-N RANKS' into it");
  const fs::path place = fs::path(impl_->folder) / name;
  const NoGrad off_tape;
  Loaded loaded{-1, {}};
  std::map<std::string, Whole> found;
  std::vector<std::string> order;
  for (int rank = 0; rank < size; ++rank) {
    const std::string path = (place / file_of_rank(rank, size)).string();
    const StateDict part = io::load(path);
    for (const auto& [key, value] : part.values())
      if (!key.ends_with(kBegin) && !key.ends_with(kShape) && key != kStep)
        loaded.state.set_value(key, value);
    loaded.step = part.value<std::int64_t>(kStep);
    for (const auto& [key, piece] : part) {
      const Shape shape = shape_of_text(part.value<std::string>(key + kShape));
      const auto begin = part.value<std::int64_t>(key + kBegin);
      Whole& whole = found[key];
      if (!whole.tensor.defined())
        whole.tensor = empty(shape, {.dtype = piece.dtype()}), order.push_back(key);
      const std::int64_t n = whole.tensor.numel();
      CT_CHECK(whole.tensor.shape() == shape && whole.tensor.dtype() == piece.dtype() && piece.dim() == 1 &&
                   begin >= 0 && begin <= n && piece.numel() <= n - begin,
               IoError, kSharded, path, ": '", key, "' is ", describe(piece), " from ", begin, " on, of ",
               describe(whole.tensor), "; the file is damaged, or another checkpoint's");
      if (piece.numel() == 0) continue;
      whole.tensor.reshape({-1}).narrow(0, begin, piece.numel()).copy_(piece);
      whole.pieces.emplace_back(begin, begin + piece.numel());
    }
  }
  for (const std::string& key : order) {
    Whole& whole = found[key];
    std::ranges::sort(whole.pieces);
    std::int64_t at = 0;
    for (const auto& [begin, end] : whole.pieces) at = begin == at ? end : -1;
    CT_CHECK(at == whole.tensor.numel(), IoError, kSharded, place.string(), ": the pieces of '", key,
             "' don't make up ", describe(whole.tensor), "; the checkpoint is damaged");
    loaded.state.set(key, whole.tensor);
  }
  return loaded;
}

}  // namespace ct::io
