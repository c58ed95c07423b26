#include "optimizers_internal.h"

#include <span>

#include <cotangent/core/base/philox.h>

// C++ part of cotangent.data.DataLoader.

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

}  // namespace

void bind_training(nb::module_& core) {
  nb::module_ m = core.attr("_data");
  nb::class_<Loader>(m, "Loader", "What cotangent.data.DataLoader stands on.")
      .def(
          "__init__",
          [](Loader* self, nb::handle source, std::int64_t examples, std::optional<std::int64_t> chosen,
             Generator* generator, const nb::kwargs& more) {
            auto options = options_from<data::LoaderOptions>("DataLoader", more);
            if (generator != nullptr && options.shuffle)
              options.seed = philox_word64(detail::on_host("DataLoader", generator->reserve()), 0);
            const auto order = std::make_shared<std::vector<std::int64_t>>();
            if (chosen) options.sampler = GivenOrder{*chosen, order};
            new (self) Loader(examples, fetch_of(source, examples), options, order);
          },
          nb::arg("source").none(), nb::arg("examples"), nb::arg("chosen").none(),
          nb::arg("generator").none(), nb::arg("options"))
      .def("state_dict", [](const Loader& l) { return to_python(l.state_dict()); })
      .def("load_state_dict",
           [](Loader& l, nb::handle state) {
             l.load_state_dict(read_as<StateDict>({"load_state_dict", "the state"}, state));
           })
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
  m.def(
      "random_split_indices",
      [](std::int64_t size, const std::vector<double>& lengths, std::uint64_t seed, Generator* generator) {
        const std::vector<Real> parts(lengths.begin(), lengths.end());
        if (generator != nullptr)
          seed = philox_word64(detail::on_host("random_split", generator->reserve()), 0);
        return data::random_split_indices(size, parts, seed);
      },
      nb::arg("size"), nb::arg("lengths"), nb::arg("seed"), nb::arg("generator").none());
}

}  // namespace ct::python
