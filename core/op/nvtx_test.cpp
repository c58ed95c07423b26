#include <cotangent/core/op/nvtx.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>

#include "tests/catch.h"

namespace {

struct Counter final : ct::OpObserver {
  int begun = 0;
  void begin(const ct::KernelCall&) override { ++begun; }
  void end(const ct::KernelCall&) override {}
};

}  // namespace

TEST_CASE("NVTX ranges give the place of another observer back", "[dispatch]") {
  const ct::Tensor x = ct::ones({2});
  Counter counter;
  ct::OpObserver* const before = ct::set_op_observer(&counter);
  CHECK_FALSE(ct::set_nvtx_ranges(true));
  CHECK(ct::set_nvtx_ranges(true));
  ct::add(x, x);
  CHECK(counter.begun == 0);
  CHECK(ct::set_nvtx_ranges(false));
  ct::add(x, x);
  CHECK(counter.begun == 1);
  CHECK_FALSE(ct::set_nvtx_ranges(false));  // already off: the other observer stays
  ct::add(x, x);
  CHECK(counter.begun == 2);
  ct::set_op_observer(before);
}
