#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include <cotangent/core/base/export.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

// Counted objects and the handles that share them.

namespace ct {

namespace detail {
/// Whether the process has no other thread, as the C library knows it: what is counted needs no locked instruction then.
inline bool only_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded;
#else
  return false;
#endif
}
/// Adds `by` to a count that several threads may change; returns what it was.
template <class T>
T count(std::atomic<T>& n, T by, std::memory_order order) noexcept {
  if (!only_thread()) return n.fetch_add(by, order);
  const T before = n.load(std::memory_order_relaxed);
  n.store(before + by, std::memory_order_relaxed);
  return before;
}
}  // namespace detail

/// Base of objects that Ref<T> shares. The count lies in the object, so a handle is one pointer and
/// making an object is one allocation. A new object has count 0; the first Ref makes it 1.
class CT_API RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const noexcept { detail::count(count_, 1u, std::memory_order_relaxed); }
  void release() const noexcept {
    // The holder of the only handle needs no atomic read-modify-write: nobody else can copy it meanwhile.
    // Otherwise release: our writes come before the destruction; acquire: it sees everyone's writes.
    if (count_.load(std::memory_order_acquire) == 1 ||
        detail::count(count_, ~0u, std::memory_order_acq_rel) == 1)
      const_cast<RefCounted*>(this)->release_zero();
  }
  /// The number of handles at this moment. Only 1 is reliable, and only for the holder of that handle.
  std::uint32_t use_count() const noexcept { return count_.load(std::memory_order_acquire); }

 protected:
  virtual ~RefCounted() = default;
  /// Called when the last handle is gone: deletes the object, unless a class has something better to do
  /// (a long chain of nodes is taken apart by a loop, not by recursion).
  virtual void release_zero() noexcept { delete this; }

 private:
  template <class T>
  friend class Ref;
  mutable std::atomic<std::uint32_t> count_{0};
};

/// A handle to a shared T derived from RefCounted; may be null. Handles of different threads may share an
/// object; one handle is not to be changed by two threads at once.
template <class T>
class Ref {
 public:
  constexpr Ref() noexcept = default;
  constexpr Ref(std::nullptr_t) noexcept {}
  /// Shares the object: its count goes up.
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_) object_->retain();
  }
  /// Takes over a count that someone else holds (see detach()).
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// The first handle to an object that no one else knows yet: counts without an atomic addition.
  static Ref first(T* object) noexcept {
    static_cast<const RefCounted*>(object)->count_.store(1, std::memory_order_relaxed);
    return adopt(object);
  }
  /// Same as the constructor, by name.
  static Ref share(T* object) noexcept { return Ref(object); }

  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Ref(const Ref<U>& other)
  noexcept : Ref(static_cast<T*>(other.get())) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Ref(Ref<U>&& other)
  noexcept : object_(other.detach()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// True when this is the only handle to its object.
  bool unique() const noexcept { return object_ && object_->use_count() == 1; }
  void reset() noexcept { Ref().swap(*this); }
  /// Gives the count to the caller, who hands it to adopt() later; this handle becomes null.
  T* detach() noexcept { return std::exchange(object_, nullptr); }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }

  template <class U>
  friend bool operator==(const Ref& a, const Ref<U>& b) noexcept {
    return a.get() == b.get();
  }
  friend bool operator==(const Ref& a, std::nullptr_t) noexcept { return a.object_ == nullptr; }
  friend bool operator<(const Ref& a, const Ref& b) noexcept { return std::less<T*>()(a.object_, b.object_); }

 private:
  T* object_ = nullptr;
};

/// Makes a T and the first handle to it.
template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  if constexpr (sizeof...(Args) == 0)
    return Ref<T>::first(new T);  // T() would fill all of it with zeros before its members are initialised
  else
    return Ref<T>::first(new T(std::forward<Args>(args)...));
}

}  // namespace ct

template <class T>
struct std::hash<ct::Ref<T>> {
  std::size_t operator()(const ct::Ref<T>& ref) const noexcept { return std::hash<T*>()(ref.get()); }
};
