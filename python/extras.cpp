#include "bindings_internal.h"

#include <cotangent/autograd/functional.h>
#include <cotangent/autograd/recompute.h>
#include <cotangent/nn/capture/capture.h>
#include <cotangent/nn/explain/explain.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/profile/profile.h>

// Modes of a thread, generators, derivatives of functions, recomputing, explanations, profiles, captured steps: what
// cotangent/_grad.py and cotangent/_capture.py publish.

namespace ct::python {

std::string read_path(const Argument& argument, nb::handle path) {
  const auto text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid() || !nb::isinstance<nb::str>(text)) {
    PyErr_Clear();
    argument.refuse(path, "a str or an os.PathLike");
  }
  return nb::cast<std::string>(text);
}

namespace {

void bind_modes(nb::module_& m) {
  using GradMode = Scope<GradModeGuard, bool>;
  GradMode::bind(m, "GradMode", "Whether ops are recorded in here.").def(nb::init<bool>(), nb::arg("on"));
  using Anomaly = Scope<AnomalyGuard, bool>;
  Anomaly::bind(m, "detect_anomaly",
                "with detect_anomaly(): the first NaN or infinity, forward or backward, is an AutogradError "
                "with the op's name. Slow.")
      .def(nb::init<bool>(), nb::arg("mode") = true);
  using Cast = Scope<detail::AutocastModeGuard, detail::AutocastMode>;
  Cast::bind(m, "autocast",
             "with autocast(ct.bf16): ops pick the dtype that suits them (docs/autocast.md). With "
             "enabled=False they take their inputs as they are, inside of another autocast too.")
      .def(
          "__init__",
          [](Cast* self, DType dtype, bool enabled, bool cache_weights) {
            const Autocast checked(dtype);
            new (self) Cast({.enabled = enabled, .dtype = dtype, .cache_weights = cache_weights});
          },
          nb::arg("dtype") = bf16, nb::arg("enabled") = true, nb::arg("cache_weights") = true);
}

using State = std::pair<std::uint64_t, std::uint64_t>;
State state_of(const Generator& g) {
  const GeneratorState s = detail::on_host("Generator.get_state", g.state());
  return {s.seed, s.offset};
}

void bind_generator(nb::module_& m) {
  const auto set_state = [](Generator& g, State s) { g.set_state({s.first, s.second}); };
  nb::class_<Generator>(m, "Generator", "A stream of draws: a seed, and how many draws were taken.")
      .def(nb::init<std::uint64_t>(), nb::arg("seed") = Generator::kDefaultSeed)
      .def(
          "manual_seed",
          [](nb::handle self, std::uint64_t seed) {
            nb::cast<Generator&>(self).seed(seed);
            return nb::borrow(self);
          },
          nb::arg("seed"), nb::sig("def manual_seed(self, seed: int) -> Generator"),
          "Starts the stream `seed` at its first draw, and gives the generator.")
      .def("initial_seed", [](const Generator& g) { return g.seed(); })
      .def("get_state", &state_of, "(seed, draws taken)")
      .def("set_state", set_state, nb::arg("state"))
      .def("__getstate__", &state_of)
      .def("__setstate__", [=](Generator& g, State s) { set_state(*new (&g) Generator(), s); })
      .def("__repr__", [](const Generator& g) {
        return detail::cat("Generator(seed=", g.seed(), ", draws=", g.offset(), ')');
      });
  m.attr("default_generator") = nb::cast(&default_generator(), nb::rv_policy::reference);
}

using Tensors = std::vector<Tensor>;

void bind_functional(nb::module_& m) {
  m.def("recompute", [](nb::handle f, const Tensors& x) {
    // The collector sees the function through what it made, once that is there.
    const auto held = std::make_shared<std::shared_ptr<Held>>(std::make_shared<Held>(nullptr, f));
    Tensors results = recompute(
        [held](const Tensors& inputs) {
          const Acquired lock;
          return nb::cast<Tensors>((*held)->call(nb::make_tuple(inputs)));
        },
        x);
    for (const Tensor& t : results)
      if (const RefCounted* node = t.impl()->grad_fn.get()) *held = std::make_shared<Held>(node, f);
    return results;
  });
}

void bind_explain(nb::module_& m) {
  nb::borrow<nb::class_<Explanation>>(m.attr("Explanation"))
      .def("_repr_html_",
           [](const Explanation& e) {
             const nb::object page = nb::module_::import_("html").attr("escape")(e.to_html());
             return detail::cat("<iframe srcdoc=\"", nb::cast<std::string>(page),
                                "\" style=\"width:100%;height:700px;border:0\"></iframe>");
           })
      .def(
          "save",
          [](const Explanation& e, nb::handle path) {
            const std::string where = read_path({"save", "path"}, path);
            io::write_file(where, where.ends_with(".html")  ? e.to_html()
                                  : where.ends_with(".dot") ? e.to_dot()
                                                            : e.to_string());
          },
          nb::arg("path"), "Writes what the path's end says: .html, .dot, or text.")
      .def_prop_ro("peak_bytes",
                   [](const Explanation& e) { return e.memory.empty() ? 0 : e.memory[e.peak].sum(); })
      .def_prop_ro("ops", [](const Explanation& e) {
        std::vector<std::string> ops;
        for (const auto& node : e.nodes) ops.push_back(node.op);
        return ops;
      });
  m.def(
      "explain",
      [](const Tensor& loss, const std::vector<std::pair<std::string, Tensor>>& names, bool grads,
         bool times) {
        ExplainOptions options{.grads = grads, .times = times};
        for (const auto& [name, tensor] : names) options.names.push_back({name, tensor});
        return explain(loss, options);
      },
      Unlocked());
}

std::string table_of(const Profile& p) {
  std::ostringstream out = detail::text_stream();
  p.table(out);
  return std::move(out).str();
}

nb::list rows_of(const Profile& p) {
  nb::list rows;
  for (const ProfileRow& row : p.rows()) {
    nb::dict d;
    d["op"] = row.op, d["backward"] = row.backward, d["device"] = to_string(row.device);
    d["calls"] = row.calls, d["kernels"] = row.kernels, d["self_us"] = row.self_us,
    d["total_us"] = row.total_us;
    d["share"] = row.share, d["flops"] = row.flops, d["bytes"] = row.bytes, d["limit"] = row.limit;
    d["memory_bound"] = row.memory_bound, d["kept"] = row.kept;
    rows.append(d);
  }
  return rows;
}

void bind_profile(nb::module_& m) {
  nb::class_<Profile>(m, "Profile", "What profile() saw: print() it, or take rows().")
      .def("table", &table_of,
           "The table, as print() shows it. The first one takes some seconds to measure limits.")
      .def("__str__", &table_of)
      .def("rows", &rows_of, nb::sig("def rows(self) -> list[dict[str, Any]]"), "The table's lines.")
      .def(
          "trace",
          [](const Profile& p, nb::handle path) {
            p.trace(read_path({"trace", "path"}, path));
          },
          nb::arg("path"), "Writes the calls as a trace that ui.perfetto.dev opens.")
      .def_ro("seconds", &Profile::seconds)
      .def_ro("waits", &Profile::waits);
  m.def("profile", [](const nb::callable& function, bool memory) {
    Profiler profiler({.memory = memory});
    function();
    const Released others;
    return profiler.stop();
  });
  m.def("time_of", [](const nb::callable& function, int warmup, int runs, bool flush) {
    return time_of([&] { function(); }, {.warmup = warmup, .runs = runs, .flush = flush});
  });
}

// A body that fails throws Python's exception through the recording, which C++ unwinds. Who waits for another thread's turn in
// a pool lets it run Python.
void bind_capture(nb::module_& m) {
  using capture_impl::StepProgram;
  nb::class_<CapturePool>(
      m, "CapturePool",
      "Memory that captured functions share: capture(f, pool=pool). Those of one program, "
      "which take turns, need as much as the largest of their steps.")
      .def(nb::init<>());
  using Body = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  nb::class_<StepProgram>(m, "StepProgram")
      .def(
          "__init__",
          [](StepProgram* self, int warmup, int recordings, bool enabled, bool fuse,
             const CapturePool& pool) {
            new (self) StepProgram(
                {.warmup = warmup, .recordings = recordings, .enabled = enabled, .fuse = fuse, .pool = pool});
          })
      .def("run",
           [](StepProgram& self, const std::vector<Tensor>& inputs, const std::string& values,
              const Body& body) {
             const Released others;
             std::vector<const Tensor*> given;
             for (const Tensor& t : inputs) given.push_back(&t);
             return self.run(given, values, [&](const std::vector<Tensor>& with) { return body(with); });
           })
      .def("number", &StepProgram::number)
      .def("captured", &StepProgram::captured)
      .def("replays", &StepProgram::replays)
      .def("recordings", &StepProgram::recordings)
      .def("kernels", &StepProgram::kernels)
      .def("memory", &StepProgram::memory)
      .def("dot", &StepProgram::dot)
      .def("write_dot",
           [](const StepProgram& self, nb::handle path) {
             io::write_file(read_path({"write_dot", "path"}, path), self.dot());
           })
      .def("explain_fusion", &StepProgram::explain_fusion)
      .def("reset", &StepProgram::reset);
  m.def("at_replay", [](std::function<void()> effect) { at_replay(std::move(effect)); });
}

}  // namespace

void bind_extras(nb::module_& m) {
  nb::module_ grad = m.attr("_grad");
  bind_modes(grad);
  bind_generator(grad);
  bind_functional(grad);
  bind_explain(grad);
  bind_profile(grad);
  bind_capture(grad);
}

}  // namespace ct::python
