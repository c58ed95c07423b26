#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/device_limits.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/module.h>

// The tape, for people: the recorded ops, the tensors kept for backward, the targets of gradients, their order, and the
// memory. In Cotangent::io.

namespace ct {

class ForwardWatch;
namespace explain_impl {
struct Tape;
}

struct ExplainOptions {
  /// Names of leaves, and from them the modules that nodes belong to: `model.named_parameters()`.
  std::vector<nn::Named<Tensor>> names = {};
  /// Goes back once, without touching grad(), and notes the norm of the cotangent that arrives at each node. Hooks and
  /// retain_grad() are left out of it; backward() of the user's own functions runs once more.
  bool grads = false;
  /// The same, and measures how long each node's backward takes. On a GPU it waits after every node. Work that
  /// recompute() repeats counts for the node before it, and copies that hooks need are in it.
  bool times = false;
  /// Its measurements of the forward pass become columns.
  const ForwardWatch* watch = nullptr;
};

/// Result of explain(), to print, to draw, and for programs to read.
class CT_API Explanation {
 public:
  /// A tensor that a node keeps for backward.
  struct Kept {
    std::string name;  ///< among the op's inputs and outputs: "x"
    std::string
        from;  ///< of which it is an output: that output's name; a leaf's name; empty: the node's own, or from outside
    int node = 0;  ///< the number of the node that made it; 0: none
    TensorMeta meta;
    std::int64_t bytes = 0;  ///< that are kept alive by it; 0 where a leaf or an older node keeps them anyway
  };
  /// Target of an input's gradient: a node or a leaf.
  struct Target {
    std::string input;
    int node = 0;           ///< its number; 0: a leaf
    std::size_t place = 0;  ///< in `leaves`, or the output of the node
  };
  /// One recorded op.
  struct Node {
    int number = 0;  ///< from 1 on in the order of recording; backward goes down
    std::string op, formula, attributes;
    std::string module;     ///< "transformer.h.0.attn", as far as names tell
    std::string source;     ///< "ops/linear/linear_cpu.cpp:31", of an op of the library
    std::string call_site;  ///< where forward was called, if anomaly mode was on
    std::vector<TensorMeta> results;
    std::vector<Kept> kept;
    std::vector<Target> targets;
    std::int64_t bytes = 0;             ///< the sum over `kept`
    std::optional<double> grad_norm;    ///< of the cotangent that arrives, the root of the sum of squares
    std::optional<double> backward_us;  ///< microseconds, with what is done to hand the results on
    std::optional<double> forward_us;   ///< microseconds of the kernel
    std::optional<double> share;        ///< of the limit, see ForwardWatch
  };
  struct Leaf {
    std::string name;
    TensorMeta meta;
    std::optional<double> grad_norm;
  };
  /// Bytes that are alive when a node's forward has run, or while its backward runs: of leaves, kept for
  /// backward, of cotangents under way, of leaves' gradients. Counted from shapes, without the workspace of kernels and
  /// what recompute() records again.
  struct Moment {
    int node = 0;
    bool backward = false;
    std::int64_t leaves = 0, kept = 0, cotangents = 0, gradients = 0;
    std::int64_t sum() const { return leaves + kept + cotangents + gradients; }
  };

  std::vector<Node> nodes;     ///< in the order of recording: number k at k - 1
  std::vector<Leaf> leaves;    ///< in the order of their names, then as they were made
  std::vector<Moment> memory;  ///< in the order of time: as often forward as backward
  std::size_t peak = 0;        ///< the largest of `memory`
  std::int64_t bytes = 0;      ///< kept for backward, each byte counted once

  /// A table, the youngest node first: the order of the walk. Blocks of modules that are the same (the layers of a
  /// transformer) are shown once.
  std::string to_string() const;
  /// Text for Graphviz: `dot -Tsvg tape.dot`.
  std::string to_dot() const;
  /// A page that needs nothing from elsewhere: the tape as a picture to walk through, and memory over the step.
  std::string to_html() const;
  /// Write to_dot() and to_html() to a file that appears as a whole or not at all. Throw IoError.
  void write_dot(const std::string& path) const { io::write_file(path, to_dot()); }
  void write_html(const std::string& path) const { io::write_file(path, to_html()); }
};
/// Prints to_string().
CT_API std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

/// The tape behind `loss`, as it lies there before backward(); nothing of it is changed, and the gradients that follow
/// have the same bits. Throws AutogradError for a tensor without a tape, and for a tape that was walked already; with
/// options.grads or .times what backward() throws.
CT_API Explanation explain(const Tensor& loss, const ExplainOptions& options = {});

/// While one lives, the kernels of forward are timed, of the whole process, for explain(). It takes the place of
/// another observer (core/op/op_observer.h).
///
///     ct::ForwardWatch watch;
///     ct::Tensor loss = model.loss(x, y);
///     std::cout << ct::explain(loss, {.names = model.named_parameters(), .times = true, .watch = &watch});
///
/// With `limits` (device_limits(), nn/profile/profile.h) a node's share of the limit is the least time that its operations and bytes (OpDef::cost) would take
/// over the time it took. On a GPU it waits before and after every kernel.
class CT_API ForwardWatch {
 public:
  explicit ForwardWatch(const DeviceLimits& limits = {});
  ~ForwardWatch();
  ForwardWatch(const ForwardWatch&) = delete;
  ForwardWatch& operator=(const ForwardWatch&) = delete;

 private:
  friend CT_API Explanation explain(const Tensor& loss, const ExplainOptions& options);
  void add_to(Explanation& explanation, const explain_impl::Tape& tape) const;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ct
