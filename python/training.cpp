#include "optimizers_internal.h"

#include <span>

#include <nanobind/stl/shared_ptr.h>

#include <cotangent/core/philox.h>
#include <cotangent/nn/data/cifar.h>
#include <cotangent/nn/data/csv.h>

// Optimizers by their options structs; loaders, samplers and readers of data; files.

namespace ct::python {
namespace {

using Core = data::detail::LoaderCore;

// The order of an epoch, which Python gives when it begins.
struct GivenOrder {
  std::int64_t count;
  std::shared_ptr<std::vector<std::int64_t>> next;
  std::int64_t size() const { return count; }
  std::vector<std::int64_t> order(std::int64_t) const { return *next; }
};
struct Loader : Core {
  Loader(std::int64_t examples, Fetch fetch, const data::LoaderOptions& options,
         std::shared_ptr<std::vector<std::int64_t>> given)
      : Core(examples, std::move(fetch), options), order(std::move(given)) {}
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
  bind_state(nb::class_<Loader>(m, "Loader", "What cotangent.data.DataLoader stands on."))
      .def(
          "__init__",
          [](Loader* self, nb::handle source, std::int64_t examples, std::optional<std::int64_t> chosen,
             std::optional<std::uint64_t> seed, Generator* generator, const nb::kwargs& more) {
            auto options = read_options<LoaderOptions>(
                "DataLoader", more, CT_FIELD(LoaderOptions, batch_size), CT_FIELD(LoaderOptions, shuffle),
                CT_FIELD(LoaderOptions, drop_last), CT_FIELD(LoaderOptions, workers),
                CT_FIELD(LoaderOptions, prefetch), CT_FIELD(LoaderOptions, prefetch_batches));
            options.seed =
                generator != nullptr && options.shuffle ? philox_word64(generator->reserve(), 0) : seed;
            const auto order = std::make_shared<std::vector<std::int64_t>>();
            if (chosen) options.sampler = GivenOrder{*chosen, order};
            new (self) Loader(examples, fetch_of(source, examples), options, order);
          },
          nb::arg("source").none(), nb::arg("examples"), nb::arg("chosen").none(), nb::arg("seed").none(),
          nb::arg("generator").none(), nb::arg("options"))
      .def("__len__", &Loader::batch_count)
      .def_prop_ro("epoch", &Loader::epoch)
      .def_prop_ro("position", &Loader::position)
      .def("begin",
           [](Loader& l, const std::vector<std::int64_t>& order) {
             *l.order = order;
             l.begin();
           })
      .def("end", &Loader::end)
      .def("next", [](Loader& l) -> std::optional<std::vector<Tensor>> {
        std::vector<Tensor> batch;
        const Released unlocked;
        return l.next(batch) ? std::optional(std::move(batch)) : std::nullopt;
      });
  m.def("stack_examples", [](const std::vector<Tensor>& examples) { return data::stack_examples(examples); });
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
// A class of `S`, made of (data, options of S..): of a dataset it is the size that counts.
template <class S, class... Args, class... Names>
void bind_sampler(nb::module_& m, const char* doc, S (*make)(Args...), const char* name,
                  const Names&... names) {
  nb::class_<OrderOf<S>, AnyOrder>(m, name, doc)
      .def(
          "__init__", [make](OrderOf<S>* self, Args... given) { new (self) OrderOf<S>(make(given...)); },
          names...);
}
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
  bind_sampler(
      m, "Examples of a dataset (or of so many) drawn uniformly, as torch.utils.data.RandomSampler.",
      +[](nb::handle data, bool replacement, std::optional<std::int64_t> count, std::uint64_t seed) {
        return RandomSampler(size_of(data), {replacement, count, seed});
      },
      "RandomSampler", nb::arg("data_source"), nb::arg("replacement") = false,
      nb::arg("num_samples") = nb::none(), nb::arg("seed") = 0);
  bind_sampler(
      m, "Examples drawn in proportion to their weights, as torch.utils.data.WeightedRandomSampler.",
      +[](nb::handle weights, std::int64_t count, bool replacement, std::uint64_t seed) {
        std::vector<double> all;
        for (nb::handle one : nb::hasattr(weights, "tolist") ? weights.attr("tolist")() : nb::borrow(weights))
          all.push_back(read_as<double>({"WeightedRandomSampler", "a weight"}, one));
        return WeightedRandomSampler(all, count, {replacement, seed});
      },
      "WeightedRandomSampler", nb::arg("weights"), nb::arg("num_samples"), nb::arg("replacement") = true,
      nb::arg("seed") = 0);
  bind_sampler(
      m, "The share of one of several processes that train together, as torch.utils.data.DistributedSampler.",
      +[](nb::handle data, std::int64_t replicas, std::int64_t rank, bool shuffle, std::uint64_t seed,
          bool drop_last) {
        return DistributedSampler(size_of(data), {replicas, rank, shuffle, seed, drop_last});
      },
      "DistributedSampler", nb::arg("dataset"), nb::arg("num_replicas") = 1, nb::arg("rank") = 0,
      nb::arg("shuffle") = true, nb::arg("seed") = 0, nb::arg("drop_last") = false);
}

using data::ImageDataset;
void bind_images(nb::module_& m, const char* name, const char* doc,
                 ImageDataset (*read)(const std::string&, data::Split, data::IdxOptions)) {
  m.def(
      name,
      [name, read](nb::handle folder, bool train, double mean, double std) {
        return read(read_path(name, folder), train ? data::train : data::test, {mean, std});
      },
      nb::arg("folder"), nb::arg("train") = true, nb::arg("mean") = 0.0, nb::arg("std") = 1.0, doc);
}
// A function of a file.
template <class R, class... Args, class... Extra>
void bind_file(nb::module_& m, const char* name, R (*f)(const std::string&, Args...), const Extra&... extra) {
  const auto call = [name, f](nb::handle path, Args... more) {
    const std::string where = read_path(name, path);
    if constexpr (std::is_same_v<R, StateDict>) {
      return to_python(f(where));
    } else {
      return f(where, more...);
    }
  };
  m.def(name, call, nb::arg("path"), extra...);
}

void bind_datasets(nb::module_& m) {
  using data::CsvTable;
  nb::class_<ImageDataset>(
      m, "ImageDataset",
      "Images with labels: examples are (f32 [channels, height, width], i64 []), pixels (value / 255 - mean) "
      "/ std. `images`, u8 [n, channels, height, width], and `labels` are the tensors.")
      .def(
          "__init__",
          [](ImageDataset* self, const Tensor& images, const Tensor& labels, double mean, double std) {
            new (self) ImageDataset(images, labels, {mean, std});
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
              &data::idx);
  bind_images(m, "cifar10", "The data set of a folder in CIFAR-10's binary layout. Throws IoError.",
              &data::cifar10);
  bind_file(m, "read_idx", &data::read_idx,
            "The tensor of a file in the IDX format, packed by gzip or not. Throws IoError.");
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
        return data::read_csv(read_path("read_csv", path), {delimiter, quote, header});
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
  bind_file(
      m, "load", static_cast<StateDict (*)(const std::string&)>(&io::load),
      "Reads a safetensors file as a dict. Throws IoError for one that is missing, damaged or malformed.");
  bind_file(m, "save_npy", &io::save_npy, nb::arg("tensor"),
            "Writes NumPy's format, as a whole or not at all.");
  bind_file(m, "load_npy", &io::load_npy, "Reads NumPy's format. Throws IoError.");
  bind_file(m, "load_npz", &io::load_npz,
            "All arrays of an archive of NumPy's by their names. Throws IoError.");
}

}  // namespace

void bind_training(nb::module_& m) {
  auto optim = m.def_submodule("_optim", "Optimizers");
  bind_optim(optim);
  bind_optimizers(optim);
  auto data = m.def_submodule("_data", "Batches");
  bind_loader(data);
  bind_samplers(data);
  bind_datasets(data);
  auto io = m.def_submodule("_io", "Files");
  bind_files(io);
}

}  // namespace ct::python
