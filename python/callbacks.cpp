#include "bindings_internal.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <unordered_map>

#include <cotangent/autograd/node.h>

// The interpreter's lock and its end; the garbage collector's view of functions that C++ holds; hooks of tensors.

namespace ct::python {
namespace {

// ---- The end of the interpreter

std::atomic<bool> closing{false};
std::atomic<int> outside{0};  // threads between letting go of the lock and having it again
std::atomic<std::thread::id> closer;
thread_local bool counted = false;  // whether this thread is one of them

void leave() noexcept {
  ++outside;
  counted = true;
}
void arrive() noexcept {
  --outside;
  counted = false;
}
[[noreturn]] void park() noexcept {
  if (counted) arrive();
  for (;;) pause();
}

// The thread's own state, if it has the lock. Unlike PyGILState_Check() this holds with subinterpreters, too.
bool has_lock() noexcept {
  PyThreadState* own = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return own != nullptr && own == PyThreadState_GetUnchecked();
#else
  return own != nullptr && own == _PyThreadState_UncheckedGet();
#endif
}

// A thread that the interpreter kills is unwound by force, with no exception of C++'s to speak of.
std::terminate_handler terminate_before = nullptr;
[[noreturn]] void on_terminate() {
  if (closed() && !std::current_exception()) park();
  terminate_before();
  std::abort();
}

// Runs as the interpreter begins to end: from here on no thread but this one enters it. Ops that they still run are
// waited for, as the library's own memory goes soon.
void close() {
  closer = std::this_thread::get_id();
  closing = true;
  terminate_before = std::set_terminate(&on_terminate);
  PyThreadState* state = PyEval_SaveThread();
  using namespace std::chrono;
  for (const auto start = steady_clock::now(); outside != 0 && steady_clock::now() - start < 2s;)
    std::this_thread::sleep_for(1ms);
  PyEval_RestoreThread(state);
}

}  // namespace

bool closed() noexcept { return closing && closer.load() != std::this_thread::get_id(); }

Released::Released() noexcept {
  if (counted) return;
  leave();
  state_ = PyEval_SaveThread();
  if (closed()) park();
}
Released::~Released() {
  if (state_ == nullptr) return;
  if (closed()) park();
  try {
    PyEval_RestoreThread(state_);
  } catch (...) { park(); }
  arrive();
}

Acquired::Acquired() : Acquired(std::nothrow) {
  if (*this) return;
  if (counted) park();
  ct::detail::fail<Error>("python", "the interpreter is closing; nothing of Python's can be called");
}
Acquired::Acquired(std::nothrow_t) noexcept {
  if (!nb::is_alive()) return;
  if (has_lock()) how_ = How::had;
  if (*this) return;
  const bool back = counted;
  if (!back) leave();
  if (!closed()) {
    try {
      state_ = PyGILState_Ensure();
    } catch (...) { park(); }
    how_ = back ? How::taken_back : How::taken;
  }
  if (*this || !back) arrive();
}
Acquired::~Acquired() {
  if (how_ == How::had || how_ == How::refused) return;
  if (how_ == How::taken_back) leave();
  PyGILState_Release(state_);
  if (how_ == How::taken_back && closed()) park();
}

nb::object call_python(nb::handle f, const nb::tuple& arguments) {
  PyObject* made = nullptr;
  try {
    made = PyObject_CallObject(f.ptr(), arguments.ptr());
  } catch (...) {  // by force: nothing in there throws
    park();
  }
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

// ---- References that the garbage collector sees

namespace {

// Held objects by owner, under the interpreter's lock; never destroyed.
using Table = std::unordered_multimap<const void*, Held*>;
Table& table() {
  static auto* const all = new Table;
  return *all;
}
template <class F>
int each_of(const void* owner, const F& f) {
  const auto [begin, end] = table().equal_range(owner);
  for (auto it = begin; it != end; ++it)
    if (const int stop = f(*it->second)) return stop;
  return 0;
}
void clear_of(const void* owner) {
  std::vector<Held*> all;  // a removed object may take others with it
  each_of(owner, [&](Held& held) { return all.push_back(&held), 0; });
  for (Held* const one : all)
    if (each_of(owner, [&](Held& held) { return &held == one; }) != 0) one->clear();
}

// The collector subtracts the references that it sees, and then asks which objects are left that others refer to. A
// subtracted reference must be the only owner's; in any other question too much is said at no risk. The count of owners
// changes under its feet, by ops in other threads, so it is asked for in the subtraction alone.
visitproc subtracting = nullptr;  // none: nothing is ever seen

int find_subtraction(PyObject* self, visitproc visit, void* arg) {
  if (subtracting == nullptr) subtracting = visit;
  Py_VISIT(Py_TYPE(self));
  return 0;
}
// The collector's first question to an object that nothing but C++ refers to is the subtraction.
void learn_subtraction() {
  PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&find_subtraction)}, {0, nullptr}};
  PyType_Spec spec = {"cotangent._core._Probe", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                      slots};
  const nb::object type = nb::steal(PyType_FromSpec(&spec));
  const nb::object probe = type();
  nb::module_::import_("gc").attr("collect")(0);
}

// The owners that the collector may take for the tensor's own.
struct Owners {
  const void* leaf = nullptr;
  const void* node = nullptr;
};
Owners owners_of(PyObject* self, bool alone) {
  if (table().empty() || !nb::inst_ready(self)) return {};
  const Tensor& t = *nb::inst_ptr<Tensor>(self);
  if (!t.defined() || (alone && t.impl()->use_count() != 1)) return {};
  const RefCounted* node = t.impl()->grad_fn.get();
  // A node in the table is alive: its objects are released under the lock.
  if (node != nullptr && alone && (!table().contains(node) || node->use_count() != 1)) node = nullptr;
  return {t.impl(), node};
}
int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (subtracting == nullptr) return 0;
  const Owners owners = owners_of(self, visit == subtracting);
  const auto show = [&](const Held& held) { return held.visit(visit, arg); };
  if (const int stop = each_of(owners.leaf, show)) return stop;
  return each_of(owners.node, show);
}
int tensor_clear(PyObject* self) {
  const Owners owners = owners_of(self, true);
  if (owners.node) clear_of(owners.node);
  if (owners.leaf) clear_of(owners.leaf);
  return 0;
}

}  // namespace

PyType_Slot tensor_slots[3] = {{Py_tp_traverse, reinterpret_cast<void*>(&tensor_traverse)},
                               {Py_tp_clear, reinterpret_cast<void*>(&tensor_clear)},
                               {0, nullptr}};

Held::Held(const void* owner, nb::handle first, nb::handle second)
    : owner_(owner), objects_{first.inc_ref().ptr(), second.inc_ref().ptr()} {
  if (owner_ != nullptr) table().emplace(owner_, this);
}
Held::~Held() {
  const Acquired lock{std::nothrow};
  if (!lock) return;
  auto [it, end] = table().equal_range(owner_);
  while (it != end && it->second != this) ++it;
  if (it != end) table().erase(it);
  clear();
}
nb::object Held::call(const nb::tuple& arguments) const {
  CT_CHECK(objects_[0] != nullptr, Error, "python",
           "a function was called that the garbage collector has taken apart; keep a reference to its owner");
  return call_python(first(), arguments);
}
void Held::refuse(nb::handle made) const {
  const nb::str name(nb::getattr(first(), "__name__", first().type().attr("__name__")));
  const nb::str kind(made.type().attr("__name__"));
  PyErr_Format(PyExc_TypeError, "[%U] it gave a %U, which is no use to who called it", name.ptr(),
               kind.ptr());
  nb::raise_python_error();
}
int Held::visit(visitproc visit, void* arg) const {
  for (PyObject* one : objects_) Py_VISIT(one);
  return 0;
}
void Held::clear() {
  PyObject* const gone[] = {std::exchange(objects_[0], nullptr), std::exchange(objects_[1], nullptr)};
  for (PyObject* one : gone) Py_XDECREF(one);
}

// ---- Hooks

namespace {

// A hook that was registered; it keeps nothing alive.
struct HookHandle {
  std::weak_ptr<Held> held;
  std::uint64_t id;
  bool leaf;

  void remove() const {
    const std::shared_ptr<Held> hook = held.lock();  // whose owner is there as long as it is
    if (!hook) return;
    void* owner = const_cast<void*>(hook->owner());
    if (!leaf) {
      for (OutputHooks& h : static_cast<Node*>(static_cast<RefCounted*>(owner))->output_hooks)
        h.hooks.remove(id);
      return;
    }
    ct::detail::LeafMeta& meta = ct::detail::leaf_meta(*static_cast<TensorImpl*>(owner));
    meta.hooks.remove(id);
    meta.post_hooks.remove(id);
  }
};

std::shared_ptr<Held> hold_for(const Tensor& t, nb::handle hook, const char* op) {
  if (!PyCallable_Check(hook.ptr())) Argument{op, "hook"}.refuse(hook, "a function of the gradient");
  const void* owner = t.is_leaf() ? static_cast<const void*>(t.impl()) : t.impl()->grad_fn.get();
  return std::make_shared<Held>(owner, hook);
}
HookHandle register_hook(const Tensor& t, nb::handle hook) {
  const auto held = hold_for(t, hook, "register_hook");
  const Callback<std::optional<Tensor>(const Tensor&)> f{held};
  return {held, t.register_hook([f](const Tensor& g) { return f(g).value_or(Tensor()); }), t.is_leaf()};
}
HookHandle register_post_hook(const Tensor& t, nb::handle hook) {
  const auto held = hold_for(t, hook, "register_post_accumulate_grad_hook");
  return {held, t.register_post_accumulate_hook(Callback<void(const Tensor&)>{held}), true};
}

}  // namespace

void bind_hooks(nb::module_& m) {
  nb::class_<HookHandle>(m, "HookHandle", "A hook that was registered. It stays when this goes.")
      .def("remove", &HookHandle::remove, "Removes the hook; it may be gone already.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](const HookHandle& handle, const nb::args&) { handle.remove(); });
  nb::borrow<nb::class_<Tensor>>(m.attr("Tensor"))
      .def("register_hook", &register_hook, nb::arg("hook"),
           "hook(gradient) is called when this tensor's gradient is complete; a tensor takes its place.")
      .def("register_post_accumulate_grad_hook", &register_post_hook, nb::arg("hook"),
           "Of a leaf: hook(leaf) is called after a gradient was added to leaf.grad.")
      .def(
          "remove_hook", [](const Tensor&, const HookHandle& handle) { handle.remove(); }, nb::arg("handle"));
}

// ---- The module's beginning

void start_process() {
  learn_subtraction();
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&close));
  pthread_atfork(nullptr, nullptr, [] { outside = 0; });  // the other threads are no more
  const char* leaks = std::getenv("COTANGENT_PYTHON_LEAKS");
  nb::set_leak_warnings(leaks != nullptr && *leaks == '1');  // what others keep may outlive the module
}

}  // namespace ct::python
