#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <cotangent/core/base/export.h>  // says so below C++20

namespace ct {

/// A borrowed callable: two words, no allocation. It refers to the callable it was made from, so it is for
/// parameters that are called before the function returns, never for something that is stored.
template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& callable) {
    using Callable = std::remove_reference_t<F>;
    if constexpr (std::is_function_v<Callable>) {
      object_.function = reinterpret_cast<void (*)()>(&callable);
      invoke_ = [](Target target, Args... args) -> R {
        return reinterpret_cast<Callable*>(target.function)(std::forward<Args>(args)...);
      };
    } else {
      object_.data = const_cast<void*>(static_cast<const void*>(std::addressof(callable)));
      invoke_ = [](Target target, Args... args) -> R {
        return (*static_cast<Callable*>(target.data))(std::forward<Args>(args)...);
      };
    }
  }

  R operator()(Args... args) const { return invoke_(object_, std::forward<Args>(args)...); }

 private:
  // A pointer to a function need not fit in void*, hence the union.
  union Target {
    void* data;
    void (*function)();
  };
  Target object_;
  R (*invoke_)(Target, Args...);
};

}  // namespace ct
