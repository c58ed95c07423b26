#include <cotangent/nn/container.h>

namespace ct::nn {

Sequential::Sequential() {
  describe_as("Sequential");
  set_extra(std::make_unique<Layers>());
}

Sequential& Sequential::append(AnyModule module) { return append(std::to_string(size()), std::move(module)); }

Sequential& Sequential::append(std::string name, AnyModule module) {
  module.add_to(*this, std::move(name));
  layers().items.push_back(std::move(module));
  return *this;
}

std::size_t Sequential::size() const { return layers().items.size(); }

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  for (const AnyModule& layer : layers().items) y = layer(y);
  return y;
}

}  // namespace ct::nn
