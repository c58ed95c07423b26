// A consumer that loads an op of its own while it runs. usage: loader FOLDER
#include <cstdio>

#include <cotangent/core/op/registry.h>
#include <cotangent/nn/plugin/load_op.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/reduce/reduce.h>

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const ct::LoadedOp bump = ct::load_op(argv[1]);
  const ct::Tensor x = ct::ones({3}).set_requires_grad();
  ct::sum(bump({x}, ct::AttrsView(double{3}))).backward();
  // y = 1 / (1 + 3) and dx = -2 * 3 y^2
  const bool right = ct::find_op("bump") == bump.op && x.grad().to_vector<double>()[2] == -6. / 16;
  std::printf("bump: %s in %s\n", right ? "right" : "WRONG", bump.library.c_str());
  return right ? 0 : 1;
} catch (const std::exception& e) {
  std::printf("%s\n", e.what());
  return 1;
}
