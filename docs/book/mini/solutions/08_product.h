// Chapter 8: a product that reads each number seldom.

namespace mini {

/// c(i, j, sum_p a(i, p) b(p, j)), once for each i < m and j < n, where p < k: for each number of a or b that is read at least
/// four multiply-adds are made, where m, n and k allow it.
template <class A, class B, class C>
void product(Size m, Size n, Size k, const A& a, const B& b, const C& c) {
  constexpr Size kRows = 8, kColumns = 16;  // of sums that stay in registers
  std::vector<Real> panel_a((m + kRows - 1) / kRows * kRows * k), panel_b(k * kColumns);
  for (Size i0 = 0; i0 < m; i0 += kRows)  // copied into the order in which the tiles read it
    for (Size i = 0; i < std::min(kRows, m - i0); ++i)
      for (Size p = 0; p < k; ++p) panel_a[i0 * k + p * kRows + i] = a(i0 + i, p);
  for (Size j0 = 0; j0 < n; j0 += kColumns) {
    const Size columns = std::min(kColumns, n - j0);
    for (Size p = 0; p < k; ++p)
      for (Size j = 0; j < columns; ++j) panel_b[p * kColumns + j] = b(p, j0 + j);
    for (Size i0 = 0; i0 < m; i0 += kRows) {
      const Real *x = panel_a.data() + i0 * k, *y = panel_b.data();
      Real tile[kRows][kColumns] = {};
      for (Size p = 0; p < k; ++p, x += kRows, y += kColumns)
#pragma GCC unroll 8  // each sum then has a register, which a loop over them could not name
        for (Size i = 0; i < kRows; ++i)
          for (Size j = 0; j < kColumns; ++j) tile[i][j] += x[i] * y[j];
      for (Size i = 0; i < std::min(kRows, m - i0); ++i)
        for (Size j = 0; j < columns; ++j) c(i0 + i, j0 + j, tile[i][j]);
    }
  }
}

}  // namespace mini
