#include "optimizers_internal.h"

#include <span>

#include <nanobind/stl/shared_ptr.h>

#include <cotangent/core/philox.h>
#include <cotangent/nn/data/cifar.h>
#include <cotangent/nn/data/csv.h>

// Optimizers by their options structs; loaders, samplers and readers of data; files.

namespace ct::python {
namespace {

void bind_lbfgs(nb::module_& m) {
  using namespace optim;
  nb::class_<LBFGS, Optimizer>(m, "LBFGS", nb::dynamic_attr(),
                               "L-BFGS, as torch.optim.LBFGS; line_search is \"none\" or \"strong_wolfe\".")
      .def(
          "__init__",
          [](nb::pointer_and_handle<LBFGS> self, nb::handle params, const nb::args& more,
             const nb::kwargs& given) {
            const auto with_fields = [&](const auto& f) {
              return f(CT_FIELD(LBFGSOptions, lr), CT_FIELD(LBFGSOptions, max_iter),
                       CT_FIELD(LBFGSOptions, max_eval), CT_FIELD(LBFGSOptions, tolerance_grad),
                       CT_FIELD(LBFGSOptions, tolerance_change), CT_FIELD(LBFGSOptions, history_size),
                       CT_FIELD(LBFGSOptions, line_search));
            };
            with_fields([&](const auto&... fields) {
              const nb::dict named = own_names("LBFGS", given, more, {fields.name...});
              const auto options =
                  read_options<LBFGSOptions>("LBFGS", nb::borrow<nb::kwargs>(named), fields...);
              new (self.p) LBFGS(read_params("LBFGS", params), options);
              self.h.attr("defaults") = options_of(options, fields...);
              self.h.attr("_options") = nb::make_tuple(self.h.attr("defaults"));
            });
          },
          nb::arg("params"), nb::arg("more"), nb::arg("options"))
      .def("step", &LBFGS::step, nb::arg("closure"), Unlocked(),
           "closure() clears the gradients, computes the loss, calls backward() and gives the loss. Gives "
           "the loss of "
           "before.")
      .def_prop_ro("iterations", &LBFGS::iterations)
      .def_prop_ro("evaluations", &LBFGS::evaluations)
      .def("state_dict", [](const LBFGS& o) { return to_python(o.state_dict()); })
      .def("load_state_dict",
           [](LBFGS& o, const nb::dict& state) { o.load_state_dict(read_state("load_state_dict", state)); });
}

using Core = data::detail::LoaderCore;

// The order of an epoch, which Python gives when it begins.
struct GivenOrder {
  std::int64_t count;
  std::shared_ptr<std::vector<std::int64_t>> next;
  std::int64_t size() const { return count; }
  std::vector<std::int64_t> order(std::int64_t) const { return *next; }
};
struct Loader {
  Loader(std::int64_t examples, Core::Fetch fetch, const data::LoaderOptions& options,
         std::shared_ptr<std::vector<std::int64_t>> given)
      : core(examples, std::move(fetch), options), order(std::move(given)) {}
  Core core;
  std::shared_ptr<std::vector<std::int64_t>> order;
};

// Batches of C++'s own datasets; of Python's, the numbers of their examples.
Core::Fetch fetch_of(nb::handle source, std::int64_t examples) {
  if (source.is_none())
    return [](std::span<const std::int64_t> rows) {
      return std::vector{from_vector(std::vector(rows.begin(), rows.end()))};
    };
  if (nb::isinstance<data::ImageDataset>(source))
    return [images = nb::cast<data::ImageDataset>(source)](std::span<const std::int64_t> rows) {
      const auto [x, y] = images.get_batch(rows);
      return std::vector{x, y};
    };
  const auto tensors = nb::cast<std::vector<Tensor>>(source);
  for (const Tensor& t : tensors)
    CT_CHECK(t.dim() > 0 && t.size(0) == examples, ShapeError, "DataLoader", "the tensors are ",
             describe(tensors[0]), " and ", describe(t), "; all want as many examples along axis 0");
  return [tensors](std::span<const std::int64_t> rows) {
    const Tensor index = from_vector(std::vector<std::int64_t>(rows.begin(), rows.end()));
    std::vector<Tensor> batch;
    for (const Tensor& t : tensors) batch.push_back(t.index_select(0, index.to(t.device())));
    return batch;
  };
}

void bind_loader(nb::module_& m) {
  using data::LoaderOptions;
  nb::class_<Loader>(m, "Loader", "What cotangent.data.DataLoader stands on.")
      .def(
          "__init__",
          [](Loader* self, nb::handle source, std::int64_t examples, std::optional<std::int64_t> chosen,
             std::optional<std::uint64_t> seed, Generator* generator, const nb::kwargs& more) {
            auto options = read_options<LoaderOptions>(
                "DataLoader", more, CT_FIELD(LoaderOptions, batch_size), CT_FIELD(LoaderOptions, shuffle),
                CT_FIELD(LoaderOptions, drop_last), CT_FIELD(LoaderOptions, workers),
                CT_FIELD(LoaderOptions, prefetch), CT_FIELD(LoaderOptions, prefetch_batches));
            options.seed = seed;
            if (generator != nullptr && options.shuffle)
              options.seed = philox_word64(generator->reserve(), 0);
            const auto order = std::make_shared<std::vector<std::int64_t>>();
            if (chosen) options.sampler = GivenOrder{*chosen, order};
            new (self) Loader(examples, fetch_of(source, examples), options, order);
          },
          nb::arg("source").none(), nb::arg("examples"), nb::arg("chosen").none(), nb::arg("seed").none(),
          nb::arg("generator").none(), nb::arg("options"))
      .def("__len__", [](const Loader& l) { return l.core.batch_count(); })
      .def_prop_ro("epoch", [](const Loader& l) { return l.core.epoch(); })
      .def_prop_ro("position", [](const Loader& l) { return l.core.position(); })
      .def(
          "begin",
          [](Loader& l, const std::vector<std::int64_t>& order) {
            *l.order = order;
            l.core.begin();
          },
          nb::arg("order") = std::vector<std::int64_t>())
      .def("end", [](Loader& l) { l.core.end(); })
      .def("next",
           [](Loader& l) -> std::optional<std::vector<Tensor>> {
             std::vector<Tensor> batch;
             const Released unlocked;
             return l.core.next(batch) ? std::optional(std::move(batch)) : std::nullopt;
           })
      .def("state_dict", [](const Loader& l) { return to_python(l.core.state_dict()); })
      .def("load_state_dict", [](Loader& l, const nb::dict& state) {
        l.core.load_state_dict(read_state("load_state_dict", state));
      });
  m.def(
      "stack_examples", [](const std::vector<Tensor>& examples) { return data::stack_examples(examples); },
      nb::arg("examples"), "Tensors of one shape and dtype along a new first axis, not recorded.");
  m.def(
      "random_split_indices",
      [](std::int64_t size, const std::vector<double>& lengths, std::uint64_t seed, Generator* generator) {
        const std::vector<Real> parts(lengths.begin(), lengths.end());
        if (generator != nullptr) seed = philox_word64(generator->reserve(), 0);
        return data::random_split_indices(size, parts, seed);
      },
      nb::arg("size"), nb::arg("lengths"), nb::arg("seed"), nb::arg("generator").none());
}

// A sampler, and the epoch that iter() is at.
struct AnyOrder {
  data::AnySampler it;
  std::int64_t epoch = 0;
};
template <class S>
struct OrderOf : AnyOrder {
  explicit OrderOf(S sampler) : AnyOrder{std::move(sampler)} {}
};
std::int64_t size_of(nb::handle data) {
  return nb::hasattr(data, "__len__") ? static_cast<std::int64_t>(nb::len(data))
                                      : read_as<std::int64_t>({"Sampler", "the dataset"}, data);
}

void bind_samplers(nb::module_& m) {
  using data::RandomSampler, data::WeightedRandomSampler, data::DistributedSampler;
  nb::class_<AnyOrder>(m, "OrderOfEpoch",
                       "What C++'s samplers have: the order of an epoch, a function of seed and epoch.")
      .def("__len__", [](const AnyOrder& s) { return s.it.size(); })
      .def(
          "order", [](const AnyOrder& s, std::int64_t epoch) { return s.it.order(epoch); }, nb::arg("epoch"),
          "The numbers of the examples of this epoch.")
      .def(
          "set_epoch", [](AnyOrder& s, std::int64_t epoch) { s.epoch = epoch; }, nb::arg("epoch"))
      .def("__iter__", [](AnyOrder& s) { return nb::iter(nb::cast(s.it.order(s.epoch++))); });
  nb::class_<OrderOf<RandomSampler>, AnyOrder>(
      m, "RandomSampler",
      "Examples of a dataset (or of so many) drawn uniformly, as torch.utils.data.RandomSampler.")
      .def(
          "__init__",
          [](OrderOf<RandomSampler>* self, nb::handle data, bool replacement,
             std::optional<std::int64_t> num_samples, std::uint64_t seed) {
            new (self) OrderOf(RandomSampler(
                size_of(data), {.replacement = replacement, .num_samples = num_samples, .seed = seed}));
          },
          nb::arg("data_source"), nb::arg("replacement") = false, nb::arg("num_samples") = nb::none(),
          nb::arg("seed") = 0);
  nb::class_<OrderOf<WeightedRandomSampler>, AnyOrder>(
      m, "WeightedRandomSampler",
      "Examples drawn in proportion to their weights, as torch.utils.data.WeightedRandomSampler.")
      .def(
          "__init__",
          [](OrderOf<WeightedRandomSampler>* self, nb::handle weights, std::int64_t num_samples,
             bool replacement, std::uint64_t seed) {
            std::vector<double> all;
            for (nb::handle one :
                 nb::hasattr(weights, "tolist") ? nb::object(weights.attr("tolist")()) : nb::borrow(weights))
              all.push_back(read_as<double>({"WeightedRandomSampler", "a weight"}, one));
            new (self)
                OrderOf(WeightedRandomSampler(all, num_samples, {.replacement = replacement, .seed = seed}));
          },
          nb::arg("weights"), nb::arg("num_samples"), nb::arg("replacement") = true, nb::arg("seed") = 0);
  nb::class_<OrderOf<DistributedSampler>, AnyOrder>(
      m, "DistributedSampler",
      "The share of one of several processes that train together, as torch.utils.data.DistributedSampler.")
      .def(
          "__init__",
          [](OrderOf<DistributedSampler>* self, nb::handle data, std::int64_t num_replicas, std::int64_t rank,
             bool shuffle, std::uint64_t seed, bool drop_last) {
            new (self) OrderOf(DistributedSampler(size_of(data), {.num_replicas = num_replicas,
                                                                  .rank = rank,
                                                                  .shuffle = shuffle,
                                                                  .seed = seed,
                                                                  .drop_last = drop_last}));
          },
          nb::arg("dataset"), nb::arg("num_replicas") = 1, nb::arg("rank") = 0, nb::arg("shuffle") = true,
          nb::arg("seed") = 0, nb::arg("drop_last") = false);
}

template <class Read>
void bind_images(nb::module_& m, const char* name, const char* doc, Read read) {
  m.def(
      name,
      [name, read](nb::handle folder, bool train, double mean, double std) {
        return read(read_path(name, folder), train ? data::train : data::test,
                    data::IdxOptions{.mean = mean, .std = std});
      },
      nb::arg("folder"), nb::arg("train") = true, nb::arg("mean") = 0.0, nb::arg("std") = 1.0, doc);
}

void bind_datasets(nb::module_& m) {
  using data::ImageDataset, data::CsvTable;
  nb::class_<ImageDataset>(m, "ImageDataset",
                           "Images with labels: examples are (f32 [channels, height, width], i64 []), pixels "
                           "(value / 255 - mean) / std. "
                           "`images`, u8 [n, channels, height, width], and `labels` are the tensors.")
      .def(
          "__init__",
          [](ImageDataset* self, const Tensor& images, const Tensor& labels, double mean, double std) {
            new (self) ImageDataset(images, labels, {.mean = mean, .std = std});
          },
          nb::arg("images"), nb::arg("labels"), nb::arg("mean") = 0.0, nb::arg("std") = 1.0)
      .def("__len__", &ImageDataset::size)
      .def("__getitem__",
           [](const ImageDataset& d, std::int64_t i) { return d.get(i < 0 ? i + d.size() : i); })
      .def_prop_ro("images", &ImageDataset::images)
      .def_prop_ro("labels", &ImageDataset::labels)
      .def_prop_ro("classes", &ImageDataset::classes, "The largest label + 1.");
  bind_images(m, "idx",
              "The data set of a folder in MNIST's layout, packed or not: an ImageDataset. Throws IoError.",
              [](const auto&... arguments) { return data::idx(arguments...); });
  bind_images(m, "cifar10", "The data set of a folder in CIFAR-10's binary layout. Throws IoError.",
              [](const auto&... arguments) { return data::cifar10(arguments...); });
  m.def(
      "read_idx", [](nb::handle path) { return data::read_idx(read_path("read_idx", path)); },
      nb::arg("path"), "The tensor of a file in the IDX format, packed by gzip or not. Throws IoError.");
  nb::class_<CsvTable>(m, "CsvTable", "A table out of a text file, with its cells as they stand there.")
      .def("__len__", &CsvTable::rows)
      .def_prop_ro("columns", &CsvTable::columns)
      .def("text", &CsvTable::text, nb::arg("row"), nb::arg("column"))
      .def("numbers", &CsvTable::numbers, nb::arg("names") = std::vector<std::string>(),
           nb::arg("dtype") = f32,
           "The columns of these names, or all, [rows, columns]; an empty cell is NaN. Throws IoError for "
           "text.")
      .def(
          "classes", &CsvTable::classes, nb::arg("name"),
          "A column of names as numbers i64 [rows] into the sorted list of those that occur, and that list.");
  m.def(
      "read_csv",
      [](nb::handle path, char delimiter, char quote, bool header) {
        return data::read_csv(read_path("read_csv", path),
                              {.delimiter = delimiter, .quote = quote, .header = header});
      },
      nb::arg("path"), nb::arg("delimiter") = ',', nb::arg("quote") = '"', nb::arg("header") = true,
      "Comma-separated values (RFC 4180). Throws IoError, with line and column, for what is none.");
}

void bind_files(nb::module_& m) {
  m.def(
      "save",
      [](nb::handle path, const nb::dict& state) {
        const StateDict dict = read_state("save", state);
        const std::string where = read_path("save", path);
        const Released unlocked;
        io::save(where, dict);
      },
      nb::arg("path"), nb::arg("state"),
      "Writes a dict of tensors and values as safetensors; all of the file, or none.");
  m.def(
      "load", [](nb::handle path) { return to_python(io::load(read_path("load", path))); }, nb::arg("path"),
      "Reads a safetensors file as a dict. Throws IoError for one that is missing, damaged or malformed.");
  m.def(
      "save_npy",
      [](nb::handle path, const Tensor& tensor) { io::save_npy(read_path("save_npy", path), tensor); },
      nb::arg("path"), nb::arg("tensor"), "Writes NumPy's format, as a whole or not at all.");
  m.def(
      "load_npy", [](nb::handle path) { return io::load_npy(read_path("load_npy", path)); }, nb::arg("path"),
      "Reads NumPy's format. Throws IoError.");
  m.def(
      "load_npz", [](nb::handle path) { return to_python(io::load_npz(read_path("load_npz", path))); },
      nb::arg("path"), "All arrays of an archive of NumPy's by their names. Throws IoError.");
}

}  // namespace

void bind_training(nb::module_& m) {
  auto optim = m.def_submodule("_optim", "Optimizers");
  bind_optim(optim);
  bind_lbfgs(optim);
  bind_optimizers(optim);
  auto data = m.def_submodule("_data", "Batches");
  bind_loader(data);
  bind_samplers(data);
  bind_datasets(data);
  auto io = m.def_submodule("_io", "Files");
  bind_files(io);
}

}  // namespace ct::python
