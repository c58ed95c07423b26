#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace ct {

/// A growable array that keeps its first N elements inside itself, so that the common short list costs no
/// heap allocation. Elements never move out of order; growing moves all of them to the heap.
template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;
  ~InlineVector() {
    clear();
    release_heap();
  }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) grow();
    T* const place = data_ + size_++;
    if constexpr (sizeof...(Args) == 0 && std::is_class_v<T>)
      return *::new (place) T;  // T() would fill all of it with zeros before its members are initialised
    else
      return *std::construct_at(place, std::forward<Args>(args)...);
  }
  void clear() {
    while (size_ > 0) std::destroy_at(data_ + --size_);
  }
  void resize(std::size_t size) {
    while (size_ > size) std::destroy_at(data_ + --size_);
    while (size_ < size) emplace_back();
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  operator std::span<T>() { return {data_, size_}; }
  operator std::span<const T>() const { return {data_, size_}; }

 private:
  T* inline_data() { return std::launder(reinterpret_cast<T*>(storage_)); }
  void release_heap() {
    if (capacity_ > N) ::operator delete (static_cast<void*>(data_), std::align_val_t{alignof(T)});
  }
  void grow() {
    const std::size_t capacity = 2 * capacity_;
    T* moved = static_cast<T*>(::operator new (capacity * sizeof(T), std::align_val_t{alignof(T)}));
    for (std::size_t i = 0; i < size_; ++i) {
      std::construct_at(moved + i, std::move(data_[i]));
      std::destroy_at(data_ + i);
    }
    release_heap();
    data_ = moved;
    capacity_ = capacity;
  }

  alignas(T) std::byte storage_[N * sizeof(T)];
  T* data_ = inline_data();
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace ct
