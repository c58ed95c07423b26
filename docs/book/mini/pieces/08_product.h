// Chapter 8: a product that reads each number seldom.

namespace mini {

/// c(i, j, sum_p a(i, p) b(p, j)), once for each i < m and j < n, where p < k: for each number of a or b that is read at least
/// four multiply-adds are made, where m, n and k allow it.
template <class A, class B, class C>
void product(Size m, Size n, Size k, const A& a, const B& b, const C& c) {
  gap("product");  // yours: in tiles. The three plain loops are right and read twice for each multiply-add:
  for (Size i = 0; i < m; ++i)
    for (Size j = 0; j < n; ++j) {
      Real total = 0;
      for (Size p = 0; p < k; ++p) total += a(i, p) * b(p, j);
      c(i, j, total);
    }
}

}  // namespace mini
