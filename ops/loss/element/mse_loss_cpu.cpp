#include <cotangent/ops/loss/element/element_loss_cpu.h>
#include <cotangent/ops/loss/element/mse_loss_internal.h>

namespace ct::loss::mse {
namespace {

using namespace map;

void run_forward(const Forward& f, const rows::Passes* passes) {
  loss::forward_cpu<SquaredError>(f, f.attrs<MseLossAttrs>().reduction, passes);
}
void forward_cpu(const Forward& f) { run_forward(f, nullptr); }
void backward_cpu(const Backward& b) {
  loss::backward_cpu<SquaredErrorGradients>(b, b.attrs<MseLossAttrs>().reduction);
}

Reduction reduction_of(AttrsView attrs) { return static_cast<const MseLossAttrs*>(attrs.data)->reduction; }
void read_call(AttrsView attrs, std::int64_t count, Parameters& numbers, Draw&) {
  numbers.p = share_of(reduction_of(attrs), count);
}
constexpr MapRecord kFormulas{formula_record<SquaredError, tiles_of<SquaredError>>(),
                              2,
                              {{formula_record<SquaredErrorDx, tiles_of<SquaredErrorDx>>(), "g01"},
                               {formula_record<SquaredErrorDt, tiles_of<SquaredErrorDt>>(), "g01"}},
                              read_call,
                              [](AttrsView attrs) { return reduction_of(attrs) != Reduction::none; }};

}  // namespace
}  // namespace ct::loss::mse

CT_KERNELS(cpu, mse_loss, {"mse_loss", loss::mse::forward_cpu, loss::mse::backward_cpu},
           forward_only("mse_loss formulas", hand_out<loss::mse::kFormulas>),
           forward_only("mse_loss rows", hand_out<loss::kSummed<MseLossAttrs, loss::mse::run_forward>>))
