// Chapter 1: sums that keep their digits.

namespace mini {

/// x(first) + ... + x(last - 1) in pairs: a half and the other half, each summed apart; up to eight terms one after the other.
template <class Terms>
auto sum(Size first, Size last, const Terms& x) -> std::decay_t<decltype(x(first))> {
  if (last - first > 8) {
    const Size middle = first + (last - first) / 2;
    return sum(first, middle, x) + sum(middle, last, x);
  }
  std::decay_t<decltype(x(first))> total = 0;
  for (Size i = first; i < last; ++i) total += x(i);
  return total;
}

/// log(e^x(0) + ... + e^x(n - 1)) for n > 0 finite numbers of any size.
template <class Terms>
auto log_sum_exp(Size n, const Terms& x) {
  auto largest = x(0);
  for (Size i = 1; i < n; ++i) largest = std::max(largest, x(i));
  return largest + std::log(sum(0, n, [&](Size i) { return std::exp(x(i) - largest); }));
}

}  // namespace mini
