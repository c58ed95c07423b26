#include "tests/random_programs/program.h"

// Views, copies to other places, indices.

namespace ct::random_programs {
namespace {

// A shape of as many elements, with a -1 in it.
Shape reshaped(Draw& d, const Tensor& x) {
  Shape shape;
  std::int64_t left = x.numel();
  for (const std::int64_t n : {2, 3, 4})
    if (left % n == 0 && d.number(0, 1) == 1) {
      shape.push_back(n);
      left /= n;
    }
  shape.push_back(-1);
  return shape;
}

std::vector<std::int64_t> vector_of(const Shape& s) { return {s.begin(), s.end()}; }

}  // namespace

void add_shapes(std::vector<Op>& ops) {
  const auto add = [&](const char* name, std::function<Results(Draw&)> run) {
    ops.push_back({name, std::move(run)});
  };

  add("reshape", [](Draw& d) {
    const Tensor x = d.x();
    const Shape shape = reshaped(d, x);
    d.list("shape", vector_of(shape));
    return x.reshape(shape);
  });
  add("flatten", [](Draw& d) {
    const Tensor x = d.x(2);
    const std::int64_t first = d.whole("start_dim", 0, x.dim() - 1);
    return x.flatten(first, d.whole("end_dim", first, x.dim() - 1));
  });
  for (const char* name : {"transpose", "swapaxes"})
    add(name, [swap = name[0] == 's'](Draw& d) {
      const Tensor x = d.x(1);
      const std::int64_t a = d.dim(swap ? "axis0" : "dim0", x), b = d.dim(swap ? "axis1" : "dim1", x);
      return swap ? x.swapaxes(a, b) : x.transpose(a, b);
    });
  add("permute", [](Draw& d) {
    const Tensor x = d.x(1);
    std::vector<std::int64_t> axes;
    for (int i = 0; i < x.dim(); ++i) axes.insert(axes.begin() + d.number(0, i), i);
    d.list("dims", axes);
    Dims order;
    for (const std::int64_t axis : axes) order.push_back(axis);
    return x.permute(order);
  });
  add("movedim", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t from = d.dim("source", x);
    return x.movedim(from, d.dim("destination", x));
  });
  add("narrow", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t axis = d.dim("dim", x), start = d.whole("start", 0, x.size(axis) - 1);
    return x.narrow(axis, start, d.whole("length", 1, x.size(axis) - start));
  });
  add("slice", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t axis = d.dim("dim", x), start = d.whole("start", -x.size(axis), x.size(axis) - 1);
    const std::int64_t stop = d.whole("stop", -1, x.size(axis) + 1);
    return x.slice(axis, start, stop, d.whole("step", 1, 3));
  });
  add("select", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t axis = d.dim("dim", x);
    return x.select(axis, d.whole("index", -x.size(axis), x.size(axis) - 1));
  });
  add("unsqueeze", [](Draw& d) {
    const Tensor x = d.x();
    return x.unsqueeze(d.whole("dim", -x.dim() - 1, x.dim()));
  });
  add("squeeze", [](Draw& d) { return d.x().squeeze(); });
  add("expand_new", [](Draw& d) {
    const Tensor x = d.x(0, 3);
    Shape shape{d.whole("count", 1, 3)};
    for (const std::int64_t n : x.shape()) shape.push_back(n);
    return x.expand(shape);
  });
  add("expand_as", [](Draw& d) {
    const Tensor x = d.x();
    return x.expand_as(d.any([&](const Tensor& t) {
      if (t.dtype() != f64 || t.dim() < x.dim()) return false;
      for (int i = 1; i <= x.dim(); ++i)
        if (x.size(-i) != 1 && x.size(-i) != t.size(-i)) return false;
      return true;
    }));
  });
  add("diagonal", [](Draw& d) {
    const Tensor x = d.x(2);
    const std::int64_t offset = d.whole("offset", -1, 1), first = d.whole("dim1", 0, 0);
    return x.diagonal(offset, first, d.whole("dim2", 1, x.dim() - 1));
  });
  add("unfold", [](Draw& d) {
    const Tensor x = d.x(1, 4);
    const std::int64_t axis = d.dim("dimension", x), size = d.whole("size", 1, x.size(axis));
    return x.unfold(axis, size, d.whole("step", 1, 2));
  });
  add("unbind", [](Draw& d) {
    const Tensor x = d.x(1);
    return x.unbind(d.dim("dim", x));
  });
  add("chunk", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t count = d.whole("chunks", 1, 3);
    return x.chunk(count, d.dim("dim", x));
  });
  add("clone", [](Draw& d) { return d.x().clone(); });

  add("flip", [](Draw& d) {
    const Tensor x = d.x(1);
    return ct::flip(x, d.dims("dims", x));
  });
  add("roll", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t shift = d.whole("shifts", -3, 3);
    return ct::roll(x, Dims{shift}, Dims{d.dim("dims", x)});
  });
  for (const char* name : {"repeat", "tile"})
    add(name, [whole = name[0] == 'r'](Draw& d) {
      const Tensor x = d.x(0, 2);
      std::vector<std::int64_t> counts;
      Dims repeats;
      for (std::int64_t n = d.number(x.dim(), x.dim() + 1); n > 0; --n) {
        counts.push_back(d.number(1, 2));
        repeats.push_back(counts.back());
      }
      d.list(whole ? "repeats" : "dims", counts);
      return whole ? ct::repeat(x, repeats) : ct::tile(x, repeats);
    });
  add("repeat_interleave", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t repeats = d.whole("repeats", 1, 3);
    return ct::repeat_interleave(x, repeats, d.dim("dim", x));
  });
  for (const char* name : {"tril", "triu"})
    add(name, [lower = name[3] == 'l'](Draw& d) {
      const Tensor x = d.x(2);
      const std::int64_t diagonal = d.whole("diagonal", -2, 2);
      return lower ? ct::tril(x, diagonal) : ct::triu(x, diagonal);
    });
  add("diag_embed", [](Draw& d) {
    const Tensor x = d.x(1, 3);
    return ct::diag_embed(x, d.whole("offset", -1, 1));
  });
  add("diag", [](Draw& d) {
    const Tensor x = d.x(1, 2);
    return ct::diag(x, d.whole("diagonal", -1, 1));
  });
  add("concat", [](Draw& d) {
    const Tensor a = d.x(1);
    const Tensor b = d.like(a), c = d.like(a);
    return ct::concat({a, b, c}, d.dim("dim", a));
  });
  add("stack", [](Draw& d) {
    const Tensor a = d.x(0, 3);
    const Tensor b = d.like(a);
    return ct::stack({a, b}, d.whole("dim", -a.dim() - 1, a.dim()));
  });
  add("meshgrid", [](Draw& d) {
    const Tensor a = d.x(1, 1), b = d.x(1, 1);
    return ct::meshgrid({a, b}, d.choice("indexing", {"ij", "xy"}) == 0 ? Indexing::ij : Indexing::xy);
  });
  add("pad", [](Draw& d) {
    const Tensor x = d.x(2, 3);
    const std::int64_t mode = d.choice("mode", {"constant", "reflect", "replicate", "circular"});
    if (mode == 3 && x.dim() != 3) throw Skip{};  // PyTorch wants an axis more
    const std::int64_t most = mode == 1 ? x.size(-1) - 1 : mode == 3 ? x.size(-1) : 2;
    const std::vector<std::int64_t> padding = {d.number(0, most), d.number(0, most)};
    d.list("pad", padding);
    return ct::pad(x, padding, static_cast<Pad>(mode));
  });

  // By indices.
  const auto row_list = [](Draw& d, const Tensor& x, std::int64_t axis, bool distinct = false) {
    return d.indices({d.number(1, distinct ? x.size(axis) : 4)}, x.size(axis), distinct);
  };
  add("index_select", [row_list](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t axis = d.dim("dim", x);
    return ct::index_select(x, axis, row_list(d, x, axis));
  });
  add("gather", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t axis = d.dim("dim", x);
    return ct::gather(x, axis, d.indices(x.shape(), x.size(axis)));
  });
  add("take_along_dim", [](Draw& d) {
    const Tensor x = d.x(1);
    const Tensor index = d.indices(x.shape(), x.size(0));
    return ct::take_along_dim(x, index, d.whole("dim", 0, 0));
  });
  const auto with_rows = [&](const char* name, auto f, bool distinct) {
    add(name, [=](Draw& d) {
      const Tensor x = d.x(1);
      const std::int64_t axis = d.dim("dim", x);
      const Tensor index = row_list(d, x, axis, distinct);
      Shape shape = x.shape();
      shape[static_cast<int>(axis < 0 ? axis + x.dim() : axis)] = index.size(0);
      return f(x, axis, index, d.leaf(shape));
    });
  };
  with_rows(
      "index_add",
      [](const Tensor& x, std::int64_t axis, const Tensor& i, const Tensor& s) {
        return ct::index_add(x, axis, i, s);
      },
      false);
  with_rows(
      "index_copy",
      [](const Tensor& x, std::int64_t axis, const Tensor& i, const Tensor& s) {
        return ct::index_copy(x, axis, i, s);
      },
      true);
  with_rows(
      "index_add_",
      [](const Tensor& x, std::int64_t axis, const Tensor& i, const Tensor& s) {
        Tensor copy = x.clone();
        ct::index_add_(copy, axis, i, s);
        return copy;
      },
      false);
  add("scatter_add", [](Draw& d) {
    const Tensor x = d.x(1);
    const std::int64_t axis = d.dim("dim", x);
    const Tensor index = d.indices(x.shape(), x.size(axis));
    return ct::scatter_add(x, axis, index, d.like(x));
  });
  add("masked_select", [](Draw& d) {
    const Tensor x = d.x();
    return ct::masked_select(x, d.mask_for(x));
  });
  add("nonzero",
      [](Draw& d) { return ct::nonzero(d.any([](const Tensor& t) { return t.dtype() == boolean; })); });
  add("index", [](Draw& d) {
    const Tensor x = d.x(2);
    const std::int64_t n = d.number(1, 3);
    const Tensor rows = d.indices({n, 1}, x.size(0)), columns = d.indices({2}, x.size(1));
    return x.index({rows, columns});
  });
  add("index_last", [](Draw& d) {
    const Tensor x = d.x(2);
    return x.index({Ellipsis, None, d.indices({3}, x.size(-1))});
  });
  add("index_put_", [](Draw& d) {
    const Tensor x = d.x(2);
    const Tensor rows = d.indices({3}, x.size(0)), columns = d.indices({3}, x.size(1));
    Shape shape = x.shape();
    Shape values{3};
    for (int i = 2; i < shape.size(); ++i) values.push_back(shape[i]);
    const Tensor source = d.leaf(values);
    Tensor copy = x.clone();
    copy.index_put_({rows, columns}, source, true);
    return copy;
  });
  add("embedding", [](Draw& d) {
    const std::int64_t rows = d.number(2, 4);
    const Tensor table = d.leaf({rows, 3});
    return ct::embedding(d.indices({2, 3}, rows), table);
  });
}

}  // namespace ct::random_programs
