#include "bindings_internal.h"

// Modules. A layer is a line: its kind, what its constructor takes, and its options struct, whose own defaults hold.
// Modules of a program's own, Sequential and ModuleList are Python (cotangent/nn.py) on the Module that is bound here.

namespace ct::python {
namespace {

using nn::Module;

nb::dict by_name(const std::vector<nn::Named<Tensor>>& list) {
  nb::dict result;
  for (const auto& [name, tensor] : list) result[nb::cast(name)] = nb::cast(tensor);
  return result;
}

void bind_module(nb::module_& m) {
  nb::class_<Module>(m, "Module", nb::dynamic_attr(), nb::is_weak_referenceable(),
                     "A part of a network: parameters, buffers and modules, each with a name.")
      .def(nb::init<>())
      .def("parameters", &Module::parameters)
      .def("buffers", &Module::buffers)
      .def("named_parameters", [](const Module& module) { return by_name(module.named_parameters()); })
      .def("named_buffers", [](const Module& module) { return by_name(module.named_buffers()); })
      .def("get", &Module::get, nb::arg("path"), "The parameter or buffer of this path (\"in.weight\").")
      .def("num_parameters", &Module::num_parameters, nb::arg("trainable_only") = false)
      .def(
          "state_dict", [](const Module& module) { return to_python(module.state_dict()); },
          "Every parameter and persistent buffer by its path; memory is shared with the module.")
      .def(
          "load_state_dict",
          [](Module& module, const nb::dict& state, bool strict) {
            nn::LoadReport report =
                module.load_state_dict(read_state("load_state_dict", state), {.strict = strict});
            return std::pair(std::move(report.missing), std::move(report.unexpected));
          },
          nb::arg("state"), nb::arg("strict") = true,
          "Copies values in. Gives the names of what is missing and unexpected, which unless `strict` is off "
          "are errors.")
      .def("train", &Module::train, nb::arg("on") = true)
      .def("eval", &Module::eval)
      .def_prop_ro("training", &Module::is_training)
      .def(
          "to",
          [](Module& module, nb::handle where) {
            if (nb::isinstance<nb::str>(where)) {
              module.to(read_as<Device>({"to", "the device"}, where));
            } else {
              module.to(read_as<DType>({"to", "the dtype"}, where));
            }
          },
          "Moves everything to a device, or what is floating to a dtype; optimizers made before stay valid.")
      .def("zero_grad", &Module::zero_grad, nb::arg("set_to_none") = true)
      .def("requires_grad_", &Module::requires_grad_, nb::arg("value") = true)
      .def("_describe", [](const Module& module, const std::string& kind) { return to_string(module, kind); })
      // What cotangent/nn.py builds attributes of modules on: the handles that give a name a new module or tensor.
      .def("_add", [](Module& module, std::string name,
                      const Module& child) { return module.add(std::move(name), child); })
      .def("_assign", [](Module& seat, const Module& child) { seat = child; })
      .def("_parameter",
           [](Module& module, std::string name, const Tensor& t) { module.parameter(std::move(name), t); })
      .def("_buffer",
           [](Module& module, std::string name, const Tensor& t) { module.buffer(std::move(name), t); });
}

// A layer of one tensor, or of several.
template <class L, class... Inputs>
nb::class_<L, Module> bind_layer(nb::module_& m, const char* name) {
  return nb::class_<L, Module>(m, name, nb::dynamic_attr())
      .def(
          "forward", [](const L& layer, const Inputs&... x) { return Tensor(layer.forward(x...)); },
          Unlocked())
      .def(
          "__call__", [](const L& layer, const Inputs&... x) { return Tensor(layer(x...)); }, Unlocked());
}
// A layer without arguments, or with numbers alone.
template <class L, class... Numbers>
void bind_plain(nb::module_& m, const char* name, const char* doc, const Numbers&... numbers) {
  bind_layer<L, Tensor>(m, name).def(nb::init<decltype(Numbers::value)...>(), numbers.argument()..., doc);
}
template <class T>
struct Number {
  const char* name;
  T value;
  nb::arg_v argument() const { return nb::arg(name) = value; }
};
template <class T>
Number(const char*, T) -> Number<T>;

// What the constructor of a layer takes in front of its options.
template <class... Args>
struct Takes {};
template <class... Args>
constexpr Takes<Args...> takes() {
  return {};
}

// A layer L(args..., options).
template <class L, class Options, class... Inputs>
struct Layer {
  template <class... Args, class... Types>
  static void bind(nb::module_& m, const char* name, const char* doc, Takes<Args...>,
                   const Field<Options, Types>&... fields) {
    bind_layer<L, Inputs...>(m, name).def(
        "__init__",
        [name, fields...](L* self, nb::args given, const nb::kwargs& options) {
          if (given.size() != sizeof...(Args))
            throw nb::type_error(detail::cat('[', name, "] got ", given.size(),
                                             " arguments without a name; it takes ", sizeof...(Args))
                                     .c_str());
          make(self, name, given, read_options<Options>(name, options, fields...), Takes<Args...>(),
               std::index_sequence_for<Args...>{});
        },
        doc);
  }

 private:
  template <class... Args, std::size_t... I>
  static void make(L* self, const char* name, nb::args given, const Options& options, Takes<Args...>,
                   std::index_sequence<I...>) {
    new (self) L(read_as<Args>({name, "an argument"}, given[I])..., options);
  }
};

using Int = std::int64_t;
#define CT_PLACED(Options) CT_FIELD(Options, dtype), CT_FIELD(Options, device)

template <class L, class Options>
void bind_convolution(nb::module_& m, const char* name, const char* doc) {
  using Size = decltype(Options{}.stride);
  if constexpr (requires(Options o) { o.output_padding; }) {
    Layer<L, Options, Tensor>::bind(m, name, doc, takes<Int, Int, Size>(), CT_FIELD(Options, stride),
                                    CT_FIELD(Options, padding), CT_FIELD(Options, output_padding),
                                    CT_FIELD(Options, groups), CT_FIELD(Options, bias),
                                    CT_FIELD(Options, dilation), CT_PLACED(Options));
  } else {
    Layer<L, Options, Tensor>::bind(m, name, doc, takes<Int, Int, Size>(), CT_FIELD(Options, stride),
                                    CT_FIELD(Options, padding), CT_FIELD(Options, dilation),
                                    CT_FIELD(Options, groups), CT_FIELD(Options, bias), CT_PLACED(Options));
  }
}

void bind_activations(nb::module_& m) {
  bind_plain<nn::ReLU>(m, "ReLU", "max(x, 0)");
  bind_plain<nn::SiLU>(m, "SiLU", "x sigmoid(x)");
  bind_plain<nn::Tanh>(m, "Tanh", "tanh(x)");
  bind_plain<nn::Sigmoid>(m, "Sigmoid", "1 / (1 + e^-x)");
  bind_plain<nn::SELU>(m, "SELU", "elu(x) times a scale, under which activations normalise themselves");
  bind_plain<nn::ReLU6>(m, "ReLU6", "min(max(x, 0), 6)");
  bind_plain<nn::Hardsigmoid>(m, "Hardsigmoid", "min(max(x + 3, 0), 6) / 6");
  bind_plain<nn::Hardswish>(m, "Hardswish", "x hardsigmoid(x)");
  bind_plain<nn::Mish>(m, "Mish", "x tanh(softplus(x))");
  bind_plain<nn::Softsign>(m, "Softsign", "x / (1 + |x|)");
  bind_plain<nn::LogSigmoid>(m, "LogSigmoid", "ln(sigmoid(x))");
  bind_plain<nn::ELU>(m, "ELU", "x where x > 0, else alpha (e^x - 1)", Number{"alpha", 1.0});
  bind_plain<nn::Hardtanh>(m, "Hardtanh", "min(max(x, low), high)", Number{"low", -1.0}, Number{"high", 1.0});
  bind_plain<nn::LeakyReLU>(m, "LeakyReLU", "x where x > 0, else slope x", Number{"slope", 0.01});
  bind_plain<nn::Softplus>(m, "Softplus", "ln(1 + e^(beta x)) / beta", Number{"beta", 1.0},
                           Number{"threshold", 20.0});
  bind_plain<nn::Softmax>(m, "Softmax", "e^x / sum(e^x) along an axis", Number{"axis", Int{-1}});
  bind_plain<nn::LogSoftmax>(m, "LogSoftmax", "log(softmax(x)) along an axis", Number{"axis", Int{-1}});
  bind_plain<nn::Dropout>(m, "Dropout",
                          "In training zeroes elements with probability p, and scales the others.",
                          Number{"p", 0.5});
  bind_plain<nn::Identity>(m, "Identity", "Gives its input back.");
  bind_plain<nn::Flatten>(m, "Flatten", "Joins the axes first..last into one.", Number{"first_axis", Int{1}},
                          Number{"last_axis", Int{-1}});
  bind_layer<nn::GELU, Tensor>(m, "GELU").def(
      "__init__",
      [](nn::GELU* self, nb::handle approximate) {
        std::uint64_t index = 0;
        read_choice({"GELU", "approximate"}, approximate, "none tanh", index);
        new (self) nn::GELU(index == 0 ? Gelu::exact : Gelu::tanh);
      },
      nb::arg("approximate") = "none", "x Phi(x), or its approximation by tanh");
}

void bind_layers(nb::module_& m) {
  using nn::LinearOptions;
  Layer<nn::Linear, LinearOptions, Tensor>::bind(
      m, "Linear", "Linear(in_features, out_features): y = x w^T + b", takes<Int, Int>(),
      CT_FIELD(LinearOptions, bias), CT_PLACED(LinearOptions));
  Layer<nn::Bilinear, LinearOptions, Tensor, Tensor>::bind(
      m, "Bilinear", "Bilinear(in1_features, in2_features, out_features)", takes<Int, Int, Int>(),
      CT_FIELD(LinearOptions, bias), CT_PLACED(LinearOptions));
  using nn::EmbeddingOptions;
  Layer<nn::Embedding, EmbeddingOptions, Tensor>::bind(
      m, "Embedding", "Embedding(count, dim): a vector per index", takes<Int, Int>(),
      CT_FIELD(EmbeddingOptions, padding_idx), CT_PLACED(EmbeddingOptions));
  bind_convolution<nn::Conv1d, nn::Conv1dOptions>(m, "Conv1d",
                                                  "Conv1d(in_channels, out_channels, kernel_size)");
  bind_convolution<nn::Conv2d, nn::Conv2dOptions>(m, "Conv2d",
                                                  "Conv2d(in_channels, out_channels, kernel_size)");
  bind_convolution<nn::ConvTranspose1d, nn::ConvTranspose1dOptions>(
      m, "ConvTranspose1d", "ConvTranspose1d(in_channels, out_channels, kernel_size)");
  bind_convolution<nn::ConvTranspose2d, nn::ConvTranspose2dOptions>(
      m, "ConvTranspose2d", "ConvTranspose2d(in_channels, out_channels, kernel_size)");
  Layer<nn::MaxPool2d, MaxPool2dOptions, Tensor>::bind(
      m, "MaxPool2d", "MaxPool2d(kernel_size)", takes<Size2d>(), CT_FIELD(MaxPool2dOptions, stride),
      CT_FIELD(MaxPool2dOptions, padding), CT_FIELD(MaxPool2dOptions, dilation),
      CT_FIELD(MaxPool2dOptions, ceil_mode));
  Layer<nn::AvgPool2d, AvgPool2dOptions, Tensor>::bind(
      m, "AvgPool2d", "AvgPool2d(kernel_size)", takes<Size2d>(), CT_FIELD(AvgPool2dOptions, stride),
      CT_FIELD(AvgPool2dOptions, padding), CT_FIELD(AvgPool2dOptions, ceil_mode),
      CT_FIELD(AvgPool2dOptions, count_include_pad));
  bind_layer<nn::AdaptiveAvgPool2d, Tensor>(m, "AdaptiveAvgPool2d")
      .def("__init__", [](nn::AdaptiveAvgPool2d* self, nb::handle size) {
        new (self) nn::AdaptiveAvgPool2d(read_as<Size2d>({"AdaptiveAvgPool2d", "output_size"}, size));
      });
  using nn::LayerNormOptions, nn::RMSNormOptions, nn::BatchNormOptions;
  Layer<nn::LayerNorm, LayerNormOptions, Tensor>::bind(
      m, "LayerNorm", "LayerNorm(normalized_shape)", takes<Dims>(), CT_FIELD(LayerNormOptions, eps),
      CT_FIELD(LayerNormOptions, affine), CT_FIELD(LayerNormOptions, bias), CT_PLACED(LayerNormOptions));
  Layer<nn::RMSNorm, RMSNormOptions, Tensor>::bind(
      m, "RMSNorm", "RMSNorm(size)", takes<Int>(), CT_FIELD(RMSNormOptions, eps),
      CT_FIELD(RMSNormOptions, affine), CT_PLACED(RMSNormOptions));
  const auto bind_batch_norm = [&]<class L>(const char* name, L*) {
    Layer<L, BatchNormOptions, Tensor>::bind(
        m, name,
        "Batch normalisation (num_features): its own statistics in training, the running ones in evaluation",
        takes<Int>(), CT_FIELD(BatchNormOptions, eps), CT_FIELD(BatchNormOptions, momentum),
        CT_FIELD(BatchNormOptions, affine), CT_FIELD(BatchNormOptions, track_running_stats),
        CT_PLACED(BatchNormOptions));
  };
  bind_batch_norm("BatchNorm1d", static_cast<nn::BatchNorm1d*>(nullptr));
  bind_batch_norm("BatchNorm2d", static_cast<nn::BatchNorm2d*>(nullptr));
  using nn::MultiheadAttentionOptions;
  Layer<nn::MultiheadAttention, MultiheadAttentionOptions, Tensor, Tensor, Tensor>::bind(
      m, "MultiheadAttention", "MultiheadAttention(embed_dim, num_heads): of query, key and value",
      takes<Int, Int>(), CT_FIELD(MultiheadAttentionOptions, dropout),
      CT_FIELD(MultiheadAttentionOptions, bias), CT_FIELD(MultiheadAttentionOptions, kdim),
      CT_FIELD(MultiheadAttentionOptions, vdim), CT_FIELD(MultiheadAttentionOptions, batch_first),
      CT_PLACED(MultiheadAttentionOptions));
  using nn::RecurrentOptions;
  const auto bind_recurrent = [&]<class L>(const char* name, L*) {
    nb::class_<L, Module>(m, name, nb::dynamic_attr())
        .def("__init__",
             [name](L* self, std::int64_t input_size, std::int64_t hidden_size, const nb::kwargs& options) {
               new (self) L(input_size, hidden_size,
                            read_options<RecurrentOptions>(
                                name, options, CT_FIELD(RecurrentOptions, num_layers),
                                CT_FIELD(RecurrentOptions, bias), CT_FIELD(RecurrentOptions, batch_first),
                                CT_FIELD(RecurrentOptions, dropout),
                                CT_FIELD(RecurrentOptions, bidirectional), CT_PLACED(RecurrentOptions)));
             })
        .def(
            "forward", [](const L& layer, const Tensor& x) { return Tensor(layer.forward(x).output); },
            Unlocked(), "The outputs of all steps.")
        .def(
            "__call__", [](const L& layer, const Tensor& x) { return Tensor(layer(x).output); }, Unlocked());
  };
  bind_recurrent("GRU", static_cast<nn::GRU*>(nullptr));
  bind_recurrent("LSTM", static_cast<nn::LSTM*>(nullptr));
}

}  // namespace

void bind_nn(nb::module_& m) {
  auto nn = m.def_submodule("_nn", "Modules");
  bind_module(nn);
  bind_activations(nn);
  bind_layers(nn);
}

}  // namespace ct::python
