#include "bindings_internal.h"

// Modules. A layer is a line: its kind, what its constructor takes, and its options struct, whose own defaults hold.
// Modules of a program's own, Sequential and ModuleList are Python (cotangent/nn.py) on the Module that is bound here.

namespace ct::python {
namespace {

using nn::Module;

// A member as Python sees it: its kind, its tensor, and whether it is saved.
nb::tuple to_python(const nn::Member& member) {
  static constexpr const char* kKinds[] = {"parameter", "buffer", "module"};
  const nb::object tensor = member.tensor.defined() ? nb::cast(member.tensor) : nb::none();
  return nb::make_tuple(kKinds[static_cast<int>(member.kind)], tensor, member.persistent);
}

// A parameter keeps the flag that Python gave it.
void set_tensor(Module& module, const std::string& name, const std::string& kind, std::optional<Tensor> given,
                bool persistent) {
  Tensor tensor = given.value_or(Tensor());
  const bool frozen = kind == "parameter" && tensor.defined() && !tensor.requires_grad();
  if (module.member(name)) {
    module.set_tensor(name, tensor);
  } else if (kind == "buffer") {
    module.buffer(name, tensor, {.persistent = persistent});
  } else {
    module.parameter(name, tensor);
  }
  if (frozen) tensor.set_requires_grad(false);
}

// to(device), to(dtype), to(tensor), in any order.
void move_to(Module& module, nb::args where) {
  std::optional<Device> device;
  std::optional<DType> dtype;
  for (nb::handle one : where) {
    if (one.is_none()) continue;
    if (nb::isinstance<Tensor>(one)) {
      const auto& like = nb::cast<const Tensor&>(one);
      device = like.device(), dtype = like.dtype();
    } else if (nb::isinstance<DType>(one)) {
      dtype = nb::cast<DType>(one);
    } else {
      device = read_as<Device>({"to", "where it goes"}, one);
    }
  }
  const nb::gil_scoped_release unlocked;
  if (device && dtype) {
    module.to(*device, *dtype);
  } else if (device) {
    module.to(*device);
  } else if (dtype) {
    module.to(*dtype);
  }
}

Module& ready(nb::handle module) {
  CT_CHECK(nb::inst_ready(module), Error, nb::cast<std::string>(module.type().attr("__name__")).c_str(),
           "the module is used before its __init__() has called super().__init__()");
  return nb::cast<Module&>(module);
}

// The class of C++ that a class of Python's is derived from.
nb::object bound_class(nb::handle type) {
  nb::handle found = type;
  for (nb::handle base : type.attr("__mro__"))
    if (nb::type_check(base) && nb::type_info(base) == nb::type_info(type)) found = base;
  return nb::borrow(found);
}

void bind_module(nb::module_& m) {
  nb::class_<Module>(m, "Module", nb::dynamic_attr(), nb::is_weak_referenceable(),
                     "A part of a network: parameters, buffers and modules, each with a name.")
      .def(nb::init<>())
      .def("num_parameters", &Module::num_parameters, nb::arg("trainable_only") = false)
      .def(
          "state_dict", [](nb::handle module) { return python::to_python(ready(module).state_dict()); },
          "Every parameter and persistent buffer by its path; memory is shared with the module.")
      .def_prop_rw(
          "training", [](nb::handle module) { return ready(module).is_training(); },
          [](nb::handle module, bool on) { ready(module).set_training(on); })
      // What cotangent/nn.py builds attributes of modules on.
      .def("_members",
           [](nb::handle module) {
             nb::dict found;
             for (const nn::Member& one : ready(module).members()) found[one.name.c_str()] = to_python(one);
             return found;
           })
      .def("_member",
           [](nb::handle module, const std::string& name) -> nb::object {
             const auto found =
                 nb::inst_ready(module) ? nb::cast<Module&>(module).member(name) : std::nullopt;
             return found ? nb::object(to_python(*found)) : nb::none();
           })
      .def("_set_tensor", &set_tensor, nb::arg("name"), nb::arg("kind"), nb::arg("tensor").none(),
           nb::arg("persistent") = true)
      .def("_set_child",
           [](Module& module, const std::string& name, nb::handle given) {
             Module& child = ready(given);
             if (child.kind().empty())
               child.describe_as(nb::cast<std::string>(given.type().attr("__name__")));
             module.set_child(name, child);
           })
      .def("_child", &Module::child)
      .def("_remove", &Module::remove)
      .def("_get", &Module::get)
      .def("_load",
           [](Module& module, const nb::dict& state, bool strict) {
             auto report = module.load_state_dict(read_state("load_state_dict", state), {.strict = strict});
             return std::pair(std::move(report.missing), std::move(report.unexpected));
           })
      .def("_to", &move_to)
      .def("zero_grad", &Module::zero_grad, nb::arg("set_to_none") = true,
           "Clears all gradients, or fills them with zeros.")
      .def("_requires_grad_", [](Module& module, bool value) { module.requires_grad(value); })
      .def("_kind", &Module::kind)
      .def("_describe", &Module::settings);
  m.def("_is_ready", [](nb::handle module) { return nb::inst_ready(module); });
  m.def("_key", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.impl()); });
  m.def(
      "_as",
      [](nb::handle type, const Tensor& t) {
        nb::object made = nb::inst_alloc(type);
        new (nb::inst_ptr<Tensor>(made)) Tensor(t);
        nb::inst_mark_ready(made);
        return made;
      },
      "The tensor as an object of a class derived from Tensor.");
  m.def(
      "_rebuild",
      [](nb::handle type, nb::handle args, nb::handle named) {
        nb::object module = type.attr("__new__")(type);
        const nn::init::Skip skip;
        bound_class(type).attr("__init__")(module, *nb::borrow<nb::tuple>(args),
                                           **nb::borrow<nb::dict>(named));
        return module;
      },
      "A module as it was made, without values and without draws.");
  m.def("_bound_class", &bound_class);
}

// A function that fills its tensor, and gives that very object.
template <class... T, class... Names>
void bind_fill(nb::module_& m, const char* name, const char* doc, const Tensor& (*f)(const Tensor&, T...),
               const Names&... names) {
  m.def(
      name,
      [name, f](nb::object tensor, T... values) {
        f(read_as<Tensor>({name, "tensor"}, tensor), values...);
        return tensor;
      },
      nb::arg("tensor"), names..., doc);
}

nn::init::Nonlinearity read_nonlinearity(const char* op, nb::handle given) {
  std::uint64_t index = 0;
  read_choice({op, "nonlinearity"}, given, "linear sigmoid tanh relu leaky_relu selu", index);
  return static_cast<nn::init::Nonlinearity>(index);
}

void bind_kaiming(nb::module_& m, const char* name, const char* doc,
                  const Tensor& (*f)(const Tensor&, nn::init::KaimingOptions)) {
  m.def(
      name,
      [name, f](nb::object tensor, double a, nb::handle mode, nb::handle nonlinearity) {
        std::uint64_t fan = 0;
        read_choice({name, "mode"}, mode, "fan_in fan_out", fan);
        f(read_as<Tensor>({name, "tensor"}, tensor),
          {a, static_cast<nn::init::FanMode>(fan), read_nonlinearity(name, nonlinearity)});
        return tensor;
      },
      nb::arg("tensor"), nb::arg("a") = 0.0, nb::arg("mode") = "fan_in",
      nb::arg("nonlinearity") = "leaky_relu", doc);
}

const Tensor& fill_eye(const Tensor& t) {
  CT_CHECK(t.dim() == 2, ShapeError, "eye_", "got ", describe(t), "; a matrix is wanted");
  const NoGrad guard;
  Tensor(t).copy_(eye(t.size(0), t.size(1), {.dtype = t.dtype(), .device = t.device()}));
  return t;
}

void bind_init(nb::module_& parent) {
  namespace init = nn::init;
  using nb::arg;
  auto m =
      parent.def_submodule("init", "Initial values: functions that fill a tensor in place and return it.");
  bind_fill(m, "constant_", "Every element is val.", &init::constant_, arg("val"));
  bind_fill(m, "zeros_", "Zeros.", &init::zeros_);
  bind_fill(m, "ones_", "Ones.", &init::ones_);
  bind_fill(m, "eye_", "A matrix with ones on the diagonal, else zeros.", &fill_eye);
  bind_fill(m, "uniform_", "U(a, b)", &init::uniform_, arg("a") = 0.0, arg("b") = 1.0);
  bind_fill(m, "normal_", "N(mean, std^2)", &init::normal_, arg("mean") = 0.0, arg("std") = 1.0);
  bind_fill(m, "trunc_normal_", "N(mean, std^2) within [a, b]", &init::trunc_normal_, arg("mean") = 0.0,
            arg("std") = 1.0, arg("a") = -2.0, arg("b") = 2.0);
  bind_fill(m, "xavier_uniform_", "U(-b, b), b = gain sqrt(6 / (fan_in + fan_out))", &init::xavier_uniform_,
            arg("gain") = 1.0);
  bind_fill(m, "xavier_normal_", "N(0, s^2), s = gain sqrt(2 / (fan_in + fan_out))", &init::xavier_normal_,
            arg("gain") = 1.0);
  bind_fill(m, "orthogonal_", "Orthonormal rows or columns, whichever are fewer, times gain.",
            &init::orthogonal_, arg("gain") = 1.0);
  bind_kaiming(m, "kaiming_uniform_", "U(-b, b), b = gain sqrt(3 / fan)", &init::kaiming_uniform_);
  bind_kaiming(m, "kaiming_normal_", "N(0, s^2), s = gain / sqrt(fan)", &init::kaiming_normal_);
  m.def(
      "calculate_gain",
      [](nb::handle nonlinearity, std::optional<double> param) {
        return init::gain(read_nonlinearity("calculate_gain", nonlinearity), param.value_or(0.01));
      },
      arg("nonlinearity"), arg("param") = nb::none(), "The factor that keeps the variance.");
}

// One tensor, or any iterable of them.
std::vector<Tensor> read_parameters(const char* op, nb::handle given) {
  if (nb::isinstance<Tensor>(given)) return {nb::cast<Tensor>(given)};
  std::vector<Tensor> list;
  for (nb::handle one : given) list.push_back(read_as<Tensor>({op, "a parameter"}, one));
  return list;
}

void bind_utils(nb::module_& parent) {
  using nb::arg;
  auto m = parent.def_submodule("utils", "Functions on the parameters of modules.");
  m.def(
      "clip_grad_norm_",
      [](nb::handle parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
        return optim::clip_grad_norm_(read_parameters("clip_grad_norm_", parameters), max_norm,
                                      {.norm_type = norm_type, .error_if_nonfinite = error_if_nonfinite});
      },
      arg("parameters"), arg("max_norm"), arg("norm_type") = 2.0, arg("error_if_nonfinite") = false,
      "Scales all gradients so that their norm is at most max_norm; gives the norm before.");
  m.def(
      "clip_grad_value_",
      [](nb::handle parameters, double clip_value) {
        optim::clip_grad_value_(read_parameters("clip_grad_value_", parameters), clip_value);
      },
      arg("parameters"), arg("clip_value"), "Clamps every element of every gradient to +-clip_value.");
  m.def(
      "parameters_to_vector",
      [](nb::handle parameters) {
        std::vector<Tensor> flat;
        for (const Tensor& p : read_parameters("parameters_to_vector", parameters))
          flat.push_back(p.reshape({-1}));
        return cat(flat, 0);
      },
      arg("parameters"), "All elements one after the other.");
  m.def(
      "vector_to_parameters",
      [](const Tensor& vec, nb::handle parameters) {
        const NoGrad guard;
        std::vector<Tensor> list = read_parameters("vector_to_parameters", parameters);
        std::int64_t wanted = 0, at = 0;
        for (const Tensor& p : list) wanted += p.numel();
        CT_CHECK(vec.dim() == 1 && vec.size(0) == wanted, ShapeError, "vector_to_parameters", "vec is ",
                 describe(vec), "; the parameters have ", wanted, " elements");
        for (Tensor& p : list) {
          p.copy_(vec.narrow(0, at, p.numel()).reshape(p.shape()));
          at += p.numel();
        }
      },
      arg("vec"), arg("parameters"), "Writes the elements of vec into the parameters.");
}

// A layer of one tensor, or of several.
template <class L, class... Inputs>
nb::class_<L, Module> bind_layer(nb::module_& m, const char* name) {
  static_assert(!std::is_polymorphic_v<L>,
                "it would not begin where its Module does, as Python's classes must");
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
  static void make(L* self, [[maybe_unused]] const char* name, [[maybe_unused]] nb::args given,
                   const Options& options, Takes<Args...>, std::index_sequence<I...>) {
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
        new (self) nn::GELU(read_as<Gelu>({"GELU", "approximate"}, approximate));
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
}

void bind_attention(nb::module_& m) {
  using nn::MultiheadAttention, nn::MultiheadAttentionOptions, nn::AttentionMasks;
  using Layers = Layer<MultiheadAttention, MultiheadAttentionOptions, Tensor, Tensor, Tensor>;
  Layers::bind(m, "MultiheadAttention", "MultiheadAttention(embed_dim, num_heads): of query, key and value",
               takes<Int, Int>(), CT_FIELD(MultiheadAttentionOptions, dropout),
               CT_FIELD(MultiheadAttentionOptions, bias), CT_FIELD(MultiheadAttentionOptions, kdim),
               CT_FIELD(MultiheadAttentionOptions, vdim), CT_FIELD(MultiheadAttentionOptions, batch_first),
               CT_PLACED(MultiheadAttentionOptions));
  const auto with = [](auto run) {
    return [run](const MultiheadAttention& layer, const Tensor& query, const Tensor& key, const Tensor& value,
                 const nb::kwargs& more) {
      const auto masks = read_options<AttentionMasks>(
          "MultiheadAttention", more, CT_FIELD(AttentionMasks, key_padding_mask),
          CT_FIELD(AttentionMasks, attn_mask), CT_FIELD(AttentionMasks, is_causal));
      const nb::gil_scoped_release unlocked;
      return run(layer, query, key, value, masks);
    };
  };
  const auto forward = with([](const auto& layer, const auto&... x) { return Tensor(layer(x...)); });
  nb::borrow<nb::class_<MultiheadAttention>>(m.attr("MultiheadAttention"))
      .def("forward", forward,
           "forward(query, key, value, key_padding_mask=None, attn_mask=None, is_causal=False); as in "
           "PyTorch, True "
           "in a mask of bools is: not this key.")
      .def("__call__", forward)
      .def("forward_with_weights", with([](const auto& layer, const auto&... x) {
             auto made = layer.forward_with_weights(x...);
             return std::pair(std::move(made[0]), std::move(made[1]));
           }),
           "(output, weights [B, Tq, Tk] averaged over the heads)");
}

// What goes from one call of a recurrent layer or cell to the next, in Python: h, or of an LSTM (h, c).
using Memory = std::pair<Tensor, Tensor>;
Tensor undefined_or(const std::optional<Tensor>& t) { return t.value_or(Tensor()); }
nn::LSTMState state_of(const std::optional<Memory>& state) {
  return state ? nn::LSTMState{state->first, state->second} : nn::LSTMState{};
}

template <class L, class Options, class... Types>
void bind_recurrent(nb::module_& m, const char* name, const Field<Options, Types>&... fields) {
  using State = std::conditional_t<std::is_same_v<L, nn::LSTM>, Memory, Tensor>;
  const auto forward = [](const L& layer, const Tensor& x, const std::optional<State>& state,
                          const std::optional<Tensor>& lengths) {
    if constexpr (std::is_same_v<L, nn::LSTM>) {
      auto [output, last] = layer(x, state_of(state), undefined_or(lengths));
      return std::pair(std::move(output), Memory(last.h, last.c));
    } else {
      auto [output, h] = layer(x, undefined_or(state), undefined_or(lengths));
      return std::pair(std::move(output), std::move(h));
    }
  };
  nb::class_<L, Module>(m, name, nb::dynamic_attr())
      .def(
          "__init__",
          [name, fields...](L* self, std::int64_t input_size, std::int64_t hidden_size,
                            const nb::kwargs& more) {
            new (self) L(input_size, hidden_size, read_options<Options>(name, more, fields...));
          },
          "(input_size, hidden_size, ..)")
      .def("forward", forward, nb::arg("x"), nb::arg("state") = nb::none(), nb::arg("lengths") = nb::none(),
           Unlocked(),
           "(the outputs of all steps, the state after the last): a state is h, or of an LSTM (h, c), and "
           "zeros where "
           "it is left out; `lengths` are how many steps of each sequence count.")
      .def("__call__", forward, nb::arg("x"), nb::arg("state") = nb::none(), nb::arg("lengths") = nb::none(),
           Unlocked());
}
template <class L, class Options, class... Types>
void bind_cell(nb::module_& m, const char* name, const Field<Options, Types>&... fields) {
  using State = std::conditional_t<std::is_same_v<L, nn::LSTMCell>, Memory, Tensor>;
  const auto forward = [](const L& cell, const Tensor& x, const std::optional<State>& state) {
    if constexpr (std::is_same_v<L, nn::LSTMCell>) {
      auto [h, c] = cell(x, state_of(state));
      return Memory(std::move(h), std::move(c));
    } else {
      return Tensor(cell(x, undefined_or(state)));
    }
  };
  nb::class_<L, Module>(m, name, nb::dynamic_attr())
      .def("__init__",
           [name, fields...](L* self, std::int64_t input_size, std::int64_t hidden_size,
                             const nb::kwargs& more) {
             new (self) L(input_size, hidden_size, read_options<Options>(name, more, fields...));
           })
      .def("forward", forward, nb::arg("x"), nb::arg("state") = nb::none(), Unlocked(),
           "One step: the next h, or of an LSTMCell the next (h, c).")
      .def("__call__", forward, nb::arg("x"), nb::arg("state") = nb::none(), Unlocked());
}

#define CT_LAYERED(Options)                                                               \
  CT_FIELD(Options, num_layers), CT_FIELD(Options, bias), CT_FIELD(Options, batch_first), \
      CT_FIELD(Options, dropout), CT_FIELD(Options, bidirectional), CT_PLACED(Options)

void bind_recurrence(nb::module_& m) {
  using nn::RNNOptions, nn::RecurrentOptions, nn::RNNCellOptions, nn::RecurrentCellOptions;
  bind_recurrent<nn::RNN>(m, "RNN", CT_FIELD(RNNOptions, nonlinearity), CT_LAYERED(RNNOptions));
  bind_recurrent<nn::GRU>(m, "GRU", CT_LAYERED(RecurrentOptions));
  bind_recurrent<nn::LSTM>(m, "LSTM", CT_LAYERED(RecurrentOptions));
  bind_cell<nn::RNNCell>(m, "RNNCell", CT_FIELD(RNNCellOptions, nonlinearity), CT_FIELD(RNNCellOptions, bias),
                         CT_PLACED(RNNCellOptions));
  bind_cell<nn::GRUCell>(m, "GRUCell", CT_FIELD(RecurrentCellOptions, bias), CT_PLACED(RecurrentCellOptions));
  bind_cell<nn::LSTMCell>(m, "LSTMCell", CT_FIELD(RecurrentCellOptions, bias),
                          CT_PLACED(RecurrentCellOptions));
}

void bind_more_layers(nb::module_& m) {
  using nn::GroupNormOptions, nn::InstanceNormOptions;
  Layer<nn::GroupNorm, GroupNormOptions, Tensor>::bind(
      m, "GroupNorm", "GroupNorm(num_groups, num_channels)", takes<Int, Int>(),
      CT_FIELD(GroupNormOptions, eps), CT_FIELD(GroupNormOptions, affine), CT_PLACED(GroupNormOptions));
  const auto bind_instance_norm = [&]<class L>(const char* name, L*) {
    Layer<L, InstanceNormOptions, Tensor>::bind(
        m, name, "Normalises each channel of each example (num_features)", takes<Int>(),
        CT_FIELD(InstanceNormOptions, eps), CT_FIELD(InstanceNormOptions, momentum),
        CT_FIELD(InstanceNormOptions, affine), CT_FIELD(InstanceNormOptions, track_running_stats),
        CT_PLACED(InstanceNormOptions));
  };
  bind_instance_norm("InstanceNorm1d", static_cast<nn::InstanceNorm1d*>(nullptr));
  bind_instance_norm("InstanceNorm2d", static_cast<nn::InstanceNorm2d*>(nullptr));
  Layer<nn::MaxPool1d, MaxPool1dOptions, Tensor>::bind(
      m, "MaxPool1d", "MaxPool1d(kernel_size)", takes<Int>(), CT_FIELD(MaxPool1dOptions, stride),
      CT_FIELD(MaxPool1dOptions, padding), CT_FIELD(MaxPool1dOptions, dilation),
      CT_FIELD(MaxPool1dOptions, ceil_mode));
  Layer<nn::AvgPool1d, AvgPool1dOptions, Tensor>::bind(
      m, "AvgPool1d", "AvgPool1d(kernel_size)", takes<Int>(), CT_FIELD(AvgPool1dOptions, stride),
      CT_FIELD(AvgPool1dOptions, padding), CT_FIELD(AvgPool1dOptions, ceil_mode),
      CT_FIELD(AvgPool1dOptions, count_include_pad));
}

template <class L, class Options, class... Types>
void bind_loss(nb::module_& m, const char* name, const Field<Options, Types>&... fields) {
  Layer<L, Options, Tensor, Tensor>::bind(
      m, name, "Of inputs and targets; reduction is \"mean\", \"sum\" or \"none\"", takes<>(), fields...);
}
void bind_losses(nb::module_& m) {
  bind_loss<nn::L1Loss>(m, "L1Loss", CT_FIELD(L1LossOptions, reduction));
  bind_loss<nn::SmoothL1Loss>(m, "SmoothL1Loss", CT_FIELD(SmoothL1LossOptions, reduction),
                              CT_FIELD(SmoothL1LossOptions, beta));
  bind_loss<nn::HuberLoss>(m, "HuberLoss", CT_FIELD(HuberLossOptions, reduction),
                           CT_FIELD(HuberLossOptions, delta));
  bind_loss<nn::KLDivLoss>(m, "KLDivLoss", CT_FIELD(KlDivOptions, reduction),
                           CT_FIELD(KlDivOptions, batch_mean), CT_FIELD(KlDivOptions, log_target));
  bind_loss<nn::BCEWithLogitsLoss>(m, "BCEWithLogitsLoss", CT_FIELD(BceWithLogitsOptions, reduction),
                                   CT_FIELD(BceWithLogitsOptions, weight),
                                   CT_FIELD(BceWithLogitsOptions, pos_weight));
  bind_loss<nn::NLLLoss>(m, "NLLLoss", CT_FIELD(NllLossOptions, reduction), CT_FIELD(NllLossOptions, weight),
                         CT_FIELD(NllLossOptions, ignore_index));
}

}  // namespace

void bind_nn(nb::module_& m) {
  auto nn = m.def_submodule("_nn", "Modules");
  bind_module(nn);
  bind_init(nn);
  bind_utils(nn);
  bind_activations(nn);
  bind_layers(nn);
  bind_attention(nn);
  bind_recurrence(nn);
  bind_more_layers(nn);
  bind_losses(nn);
}

}  // namespace ct::python
