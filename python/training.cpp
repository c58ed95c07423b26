#include "optimizers_internal.h"

#include <span>

// Optimizers by their options structs; the loader of batches; files.

namespace ct::python {
namespace {

using optim::Optimizer;

void bind_optimizer_base(nb::module_& m) {
  nb::class_<Optimizer>(m, "Optimizer", "What all optimizers have.")
      .def("step", &Optimizer::step, Unlocked(), "One update of every parameter that has a gradient.")
      .def("zero_grad", &Optimizer::zero_grad, nb::arg("set_to_none") = true)
      .def_prop_rw(
          "lr", [](const Optimizer& o) { return o.lr(); }, [](Optimizer& o, double lr) { o.set_lr(lr); })
      .def("state_dict", [](const Optimizer& o) { return to_python(o.state_dict()); })
      .def("load_state_dict",
           [](Optimizer& o, const nb::dict& state) {
             o.load_state_dict(read_state("load_state_dict", state));
           })
      .def("__repr__", [](const Optimizer& o) { return detail::cat('<', o.name(), ", lr ", o.lr(), '>'); });
  using namespace optim;
  nb::class_<LBFGS, Optimizer>(m, "LBFGS")
      .def(
          "__init__",
          [](LBFGS* self, const std::vector<Tensor>& params, const nb::kwargs& options) {
            new (self) LBFGS(
                params, read_options<LBFGSOptions>(
                            "LBFGS", options, CT_FIELD(LBFGSOptions, lr), CT_FIELD(LBFGSOptions, max_iter),
                            CT_FIELD(LBFGSOptions, max_eval), CT_FIELD(LBFGSOptions, tolerance_grad),
                            CT_FIELD(LBFGSOptions, tolerance_change), CT_FIELD(LBFGSOptions, history_size),
                            CT_FIELD(LBFGSOptions, line_search)));
          },
          "L-BFGS, as torch.optim.LBFGS; line_search is \"none\" or \"strong_wolfe\".")
      .def("step", &LBFGS::step, nb::arg("closure"), Unlocked(),
           "closure() clears the gradients, computes the loss, calls backward() and gives the loss. Gives "
           "the loss of "
           "before.")
      .def_prop_ro("iterations", &LBFGS::iterations)
      .def_prop_ro("evaluations", &LBFGS::evaluations)
      .def("state_dict", [](const LBFGS& o) { return to_python(o.state_dict()); })
      .def("load_state_dict",
           [](LBFGS& o, const nb::dict& state) { o.load_state_dict(read_state("load_state_dict", state)); });
  m.def(
      "clip_grad_norm_",
      [](const std::vector<Tensor>& params, double max_norm) { return clip_grad_norm_(params, max_norm); },
      nb::arg("params"), nb::arg("max_norm"), Unlocked(),
      "Scales all gradients so that their norm is at most max_norm; gives the norm before.");
}

void bind_schedule_base(nb::module_& m) {
  using namespace optim;
  nb::class_<LRScheduler>(m, "LRScheduler", "What all schedules of learning rates have.")
      .def("step", &LRScheduler::step, "Moves the clock on by one and sets the rates.")
      .def_prop_ro("time", &LRScheduler::time)
      .def_prop_ro("last_lr", &LRScheduler::last_lr)
      .def("lr_at", &LRScheduler::lr_at, nb::arg("time"), nb::arg("group") = 0)
      .def("state_dict", [](const LRScheduler& s) { return to_python(s.state_dict()); })
      .def("load_state_dict", [](LRScheduler& s, const nb::dict& state) {
        s.load_state_dict(read_state("load_state_dict", state));
      });
  nb::class_<LambdaLR, LRScheduler>(m, "LambdaLR", nb::type_slots(owner_slots))
      .def(
          "__init__",
          [](LambdaLR* self, Optimizer& optimizer, nb::handle factor) {
            const Owner owner(self);
            new (self) LambdaLR(optimizer, read_as<LambdaLR::Factor>({"LambdaLR", "factor"}, factor));
          },
          nb::arg("optimizer"), nb::arg("factor"), nb::keep_alive<1, 2>(), "base * factor(t)");
}

using Loader = data::detail::LoaderCore;

void bind_loader(nb::module_& m) {
  using data::LoaderOptions;
  nb::class_<Loader>(m, "Loader", "What cotangent.data.DataLoader stands on.")
      .def("__init__",
           [](Loader* self, const std::vector<Tensor>& tensors, const nb::kwargs& options) {
             const std::int64_t examples = tensors.empty() ? 0 : tensors[0].size(0);
             for (const Tensor& t : tensors)
               CT_CHECK(t.size(0) == examples, ShapeError, "DataLoader", "the tensors have ", examples,
                        " and ", t.size(0), " examples; all want as many along axis 0");
             const auto fetch = [tensors](std::span<const std::int64_t> rows) {
               const Tensor index = from_vector(std::vector<std::int64_t>(rows.begin(), rows.end()));
               std::vector<Tensor> batch;
               for (const Tensor& t : tensors) batch.push_back(t.index_select(0, index.to(t.device())));
               return batch;
             };
             new (self) Loader(examples, fetch,
                               read_options<LoaderOptions>(
                                   "DataLoader", options, CT_FIELD(LoaderOptions, batch_size),
                                   CT_FIELD(LoaderOptions, shuffle), CT_FIELD(LoaderOptions, drop_last),
                                   CT_FIELD(LoaderOptions, workers), CT_FIELD(LoaderOptions, prefetch),
                                   CT_FIELD(LoaderOptions, prefetch_batches)));
           })
      .def("__len__", &Loader::batch_count)
      .def("begin", &Loader::begin)
      .def("end", &Loader::end)
      .def("next",
           [](Loader& loader) -> std::optional<std::vector<Tensor>> {
             std::vector<Tensor> batch;
             const Released unlocked;
             return loader.next(batch) ? std::optional(std::move(batch)) : std::nullopt;
           })
      .def("state_dict", [](const Loader& loader) { return to_python(loader.state_dict()); })
      .def("load_state_dict", [](Loader& loader, const nb::dict& state) {
        loader.load_state_dict(read_state("load_state_dict", state));
      });
}

void bind_files(nb::module_& m) {
  m.def(
      "save",
      [](const std::string& path, const nb::dict& state) {
        const StateDict dict = read_state("save", state);
        const Released unlocked;
        io::save(path, dict);
      },
      nb::arg("path"), nb::arg("state"),
      "Writes a dict of tensors and values as safetensors; all of the file, or none.");
  m.def(
      "load", [](const std::string& path) { return to_python(io::load(path)); }, nb::arg("path"),
      "Reads a safetensors file as a dict. Throws IoError for one that is missing, damaged or malformed.");
  m.def("save_npy", &io::save_npy, nb::arg("path"), nb::arg("tensor"), Unlocked());
  m.def("load_npy", &io::load_npy, nb::arg("path"), Unlocked());
  m.def(
      "load_npz", [](const std::string& path) { return to_python(io::load_npz(path)); }, nb::arg("path"));
}

}  // namespace

void bind_training(nb::module_& m) {
  auto optim = m.def_submodule("_optim", "Optimizers");
  bind_optimizer_base(optim);
  bind_schedule_base(optim);
  bind_optimizers(optim);
  auto data = m.def_submodule("_data", "Batches");
  bind_loader(data);
  auto io = m.def_submodule("_io", "Files");
  bind_files(io);
}

}  // namespace ct::python
