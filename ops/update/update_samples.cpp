#include <cotangent/ops/testing/samples.h>

// No samples: the conformance suite calls functions of their inputs, and these ops write theirs. update_test.cpp holds them
// to update_plain.h.

namespace ct::op_tests {
extern const std::span<const OpTests> update;
const std::span<const OpTests> update{};
}  // namespace ct::op_tests
