// Chapter 1: sums that keep their digits.

namespace mini {

/// x(first) + ... + x(last - 1) in pairs: a half and the other half, each summed apart; up to eight terms one after the other.
template <class Terms>
auto sum(Size first, Size last, const Terms& x) -> std::decay_t<decltype(x(first))> {
  (void)last;
  gap("sum");  // yours
}

/// log(e^x(0) + ... + e^x(n - 1)) for n > 0 finite numbers of any size.
template <class Terms>
auto log_sum_exp(Size n, const Terms& x) -> std::decay_t<decltype(x(n))> {
  gap("log_sum_exp");  // yours
}

}  // namespace mini
