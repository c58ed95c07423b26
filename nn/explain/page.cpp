#include <cotangent/nn/explain/explain_internal.h>
#include <cotangent/nn/io/json.h>

namespace ct {
namespace explain_impl {

std::string source_of(std::string_view op, Device device, DType dtype) {
  // The first kind of file that names the op: its kernels, the table of formulas that they are made of, its OpDef.
  const bool plain = device.is_cpu() && dtype == DType::f64;
  for (const std::string_view kind :
       {std::string_view(plain ? "_plain.cpp:" : "_table.inc:"),
        std::string_view(device.is_cuda() ? "_cuda.cu:" : "_cpu.cpp:"), std::string_view("_table.inc:"),
        std::string_view("_internal.h:"), std::string_view(".cpp:")})
    for (std::size_t i = 0; i < k_source_count; ++i)
      if (k_sources[i].op == op && k_sources[i].place.find(kind) != std::string_view::npos)
        return std::string(k_sources[i].place);
  return {};
}

namespace {

io::Json optional_number(const std::optional<double>& value) { return value ? io::Json(*value) : io::Json(); }

io::Json::List texts(const std::vector<TensorMeta>& metas) {
  io::Json::List list;
  for (const TensorMeta& meta : metas) list.emplace_back(describe(meta));
  return list;
}

io::Json page_node(const Explanation::Node& node) {
  io::Json::List kept, to;
  for (const Explanation::Kept& k : node.kept)
    kept.push_back(io::Json::object(
        {{"name", k.name}, {"from", origin(k)}, {"meta", describe(k.meta)}, {"bytes", k.bytes}}));
  for (const Explanation::Target& t : node.targets)
    to.push_back(t.node ? io::Json::object({{"input", t.input}, {"node", t.node}})
                        : io::Json::object({{"input", t.input}, {"leaf", t.place}}));
  return io::Json::object({{"n", node.number},
                           {"op", node.op},
                           {"formula", node.formula},
                           {"attributes", node.attributes},
                           {"module", node.module},
                           {"source", node.source},
                           {"site", node.call_site},
                           {"results", texts(node.results)},
                           {"kept", std::move(kept)},
                           {"to", std::move(to)},
                           {"bytes", node.bytes},
                           {"g", optional_number(node.grad_norm)},
                           {"forward", optional_number(node.forward_us)},
                           {"backward", optional_number(node.backward_us)},
                           {"share", optional_number(node.share)}});
}

}  // namespace
}  // namespace explain_impl

std::string Explanation::to_html() const {
  using explain_impl::optional_number;
  io::Json::List shown, named, runs, moments;
  for (const Node& node : nodes) shown.push_back(explain_impl::page_node(node));
  for (const Leaf& leaf : leaves)
    named.push_back(io::Json::object({{"name", leaf.name},
                                      {"meta", describe(leaf.meta)},
                                      {"bytes", explain_impl::bytes_of(leaf.meta)},
                                      {"g", optional_number(leaf.grad_norm)}}));
  for (const explain_impl::Run& run : explain_impl::runs_of(*this))
    runs.push_back(io::Json::object(
        {{"block", run.block}, {"youngest", run.youngest}, {"oldest", run.oldest}, {"copy", run.copy}}));
  for (const Moment& m : memory)
    moments.push_back(
        io::Json::object({{"node", m.node},
                          {"backward", m.backward},
                          {"bytes", io::Json::List{m.leaves, m.kept, m.cotangents, m.gradients}}}));
  std::string json = io::Json::object({{"nodes", std::move(shown)},
                                       {"leaves", std::move(named)},
                                       {"runs", std::move(runs)},
                                       {"memory", std::move(moments)},
                                       {"peak", peak},
                                       {"peakText", explain_impl::peak_text(*this)}})
                         .dump("explain");
  // "</script" ends a script, and after "<!--" and "<script" its end is no end: no name may write a "<".
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  std::string page = explain_impl::k_page;
  constexpr std::string_view kPlace = "/*TAPE*/null";
  return page.replace(page.find(kPlace), kPlace.size(), json);
}

}  // namespace ct
