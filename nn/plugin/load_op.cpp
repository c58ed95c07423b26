#include <cotangent/nn/plugin/load_op.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>

#include <dlfcn.h>

#include <cotangent_compiler.h>

#include <cotangent/core/jit/build_internal.h>
#include <cotangent/core/op/registry.h>

namespace fs = std::filesystem;

namespace ct {
namespace {

constexpr const char* kLoad = "load_op";

// The words of a text, which spaces separate.
std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> found;
  for (std::string word; in >> word;) found.push_back(word);
  return found;
}

std::string compiler(const LoadOptions& options) {
  if (!options.compiler.empty()) return options.compiler;
  const std::string ours = jit::find_program(COTANGENT_CXX_COMPILER);
  return jit::variable("COTANGENT_CXX", ours.empty() ? "c++" : ours);
}

// The headers: those that the program was compiled with, or where its compiler did not tell, those of the library's build.
std::string headers(const LoadOptions& options) {
  std::string tried;
  for (const std::string& folder :
       {jit::variable("COTANGENT_INCLUDE"), options.include, std::string(COTANGENT_INCLUDE_FOLDER)}) {
    if (folder.empty()) continue;
    if (fs::is_regular_file(fs::path(folder) / "cotangent/core/op/op_def.h")) return folder;
    tried += (tried.empty() ? "" : " and ") + folder;
  }
  detail::fail<IoError>(kLoad, "there are no headers of Cotangent in ", tried,
                        "; name their folder in COTANGENT_INCLUDE");
}

// The shared object that the library is in, which an op must be linked to; empty where it is the program itself.
std::string library_object() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&version), &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code none;
  return fs::equivalent(info.dli_fname, "/proc/self/exe", none) ? ""
                                                                : fs::absolute(info.dli_fname, none).string();
}

// Number of headers, and the time when the newest was written.
std::string state_of_headers(const fs::path& include) {
  std::size_t count = 0;
  fs::file_time_type newest = fs::file_time_type::min();
  for (const char* folder : {"core", "autograd", "ops", "nn"})
    for (const auto& entry : fs::recursive_directory_iterator(include / "cotangent" / folder))
      if (const std::string kind = entry.path().extension(); kind == ".h" || kind == ".inc")
        newest = std::max(newest, entry.last_write_time()), ++count;
  return std::to_string(count) + ' ' + std::to_string(newest.time_since_epoch().count());
}

bool is_source(const fs::path& file) {
  const std::string kind = file.extension();
  return kind == ".cpp" || kind == ".cu" || kind == ".h" || kind == ".cuh" || kind == ".inc";
}

// f(), with errors of the file system as IoError.
template <class F>
auto with_files(F f) {
  try {
    return f();
  } catch (const fs::filesystem_error& e) {
    detail::fail<IoError>(kLoad, e.what(), "; a folder that can be read is wanted");
  }
}

// A name for all that the op of a folder is made of.
std::string fingerprint(const fs::path& folder, const std::vector<std::string>& command,
                        const std::string& include, const std::string& object) {
  jit::Fingerprint key;
  for (const std::string& word : command) key.add(word);
  key.add(build_info().version);
  key.add(build_info().commit);
  key.add(state_of_headers(include));
  for (const std::string& file : {command[0], object})
    if (!file.empty()) key.add_file(fs::canonical(file));
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && is_source(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    key.add(file.filename().string());
    key.add(jit::read_text(kLoad, file));
  }
  return key.text();
}

// Refuses, before anything in the file runs, what is no op or is one for another library.
void check_stamp(const std::string& file) {
  const std::string contents = jit::read_text(kLoad, file);
  static constexpr auto ours = detail::op_stamp();
  const std::size_t at = contents.find(detail::kOpMarker);
  CT_CHECK(
      at != std::string::npos, Error, kLoad, file,
      " is no op: it does not say CT_OWN_OP(...); a shared object made by `./ct op build FOLDER` is wanted");
  const std::string_view stamp(contents.c_str() + at, std::min(ours.size() - 1, contents.size() - at));
  const auto version_of = [](std::string_view text) {
    return text.substr(
        detail::kOpMarker.size(),
        text.find_first_of(std::string_view(" \0", 2), detail::kOpMarker.size()) - detail::kOpMarker.size());
  };
  CT_CHECK(stamp == std::string_view(ours.data()), Error, kLoad, file, " was built for Cotangent ",
           version_of(stamp),
           version_of(stamp) == version_of(ours.data()) ? " with other headers or settings" : "",
           "; this is ", version_of(ours.data()),
           ": build it again with `./ct op build FOLDER`, or load its folder");
}

struct Loaded {
  std::string path;
  const OwnOp* own;
};
// Loaded ops by name. Nothing is ever unloaded: a tape may hold it.
std::map<std::string, Loaded>& loaded_ops() {
  static auto* const ops = new std::map<std::string, Loaded>;
  return *ops;
}

const OwnOp& open_op(const std::string& file) {
  check_stamp(file);
  std::string contents;
  CT_CHECK(jit::read_whole(file, contents), IoError, kLoad, file,
           " is damaged, or was not made by build_op(); build it again with `./ct op build FOLDER`");
  ::dlerror();
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const text = ::dlerror();
    detail::fail<Error>(kLoad, "the op can't be loaded: ", text ? text : file.c_str(),
                        "; where a symbol of the library is missing, the program does not export it: link "
                        "Cotangent::loader");
  }
  const auto* const own = static_cast<const OwnOp*>(::dlsym(handle, "cotangent_own_op"));
  if (own != nullptr && own->op != nullptr) return *own;
  ::dlclose(handle);
  detail::fail<Error>(kLoad, file,
                      " holds no op; CT_OWN_OP(.op = ..., .tests = ...) is wanted at the end of op.cpp");
}

}  // namespace

namespace detail {
std::string include_folder_of(const char* header) {
  std::error_code none;
  return fs::absolute(header, none)
      .lexically_normal()
      .parent_path()
      .parent_path()
      .parent_path()
      .parent_path();
}
}  // namespace detail

static std::string build(const std::string& folder, const LoadOptions& options, bool* built) {
  const fs::path root = fs::absolute(folder).lexically_normal(), source = root / "op.cpp";
  CT_CHECK(fs::is_regular_file(source), IoError, kLoad, folder,
           " has no op.cpp; a folder of an op is wanted: ./ct op new NAME makes one");
  const std::string include = headers(options);
  const std::string cxx = compiler(options), program = jit::find_program(cxx);
  CT_CHECK(!program.empty(), IoError, kLoad, "there is no compiler ", cxx,
           "; install g++ or clang++, or name one in COTANGENT_CXX");
  const std::string flags =
      options.flags.empty() ? jit::variable("COTANGENT_CXX_FLAGS", build_info().flags) : options.flags;

  // Warnings are the owner's; speed is what the library's own kernels have (cmake/CotangentFlags.cmake).
  std::vector<std::string> command{program, "-std=c++20", "-fno-math-errno", "-fno-trapping-math"};
  for (const std::string& word : words(flags)) command.push_back(word);
  for (const char* word : {"-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-psabi", "-fPIC", "-shared",
                           "-fvisibility=hidden", "-DCOTANGENT_LOADED_OP=1"})
    command.emplace_back(word);
#ifdef _GLIBCXX_DEBUG
  command.emplace_back("-D_GLIBCXX_DEBUG");
#endif
  command.insert(command.end(), {"-I", include, "-I", root.string(), source.string()});
  const std::string object = library_object();
  // A libstdc++ in the op is not for the process that the library was loaded into.
  if (!object.empty()) command.insert(command.end(), {object, "-Wl,--exclude-libs,libstdc++.a"});

  const std::string key = fingerprint(root, command, include, object);
  return jit::cached(
      kLoad, options.cache, key + ".so",
      [&](const std::string& to) {
        command.insert(command.end(), {"-o", to});
        if (const jit::Ran ran = jit::run(command); !ran.ok) jit::fail_compiling(kLoad, source.string(), ran);
      },
      built);
}

static LoadedOp load(const std::string& path, const LoadOptions& options) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  LoadedOp result;
  CT_CHECK(fs::exists(path), IoError, kLoad, path,
           " is not there; the folder of an op is wanted, or what was built of it");
  result.library = fs::is_directory(path) ? build(path, options, &result.built) : fs::absolute(path).string();
  for (const auto& [name, known] : loaded_ops())
    if (known.path == result.library && !result.built) {
      static_cast<OwnOp&>(result) = *known.own;
      return result;
    }
  const OwnOp& own = open_op(result.library);
  Loaded& known = loaded_ops()[own.op->name];
  if (known.own != nullptr && known.own->op != own.op && find_op(own.op->name) == known.own->op)
    unregister_op(*known.own->op);
  register_op(*own.op);
  known = {result.library, &own};
  static_cast<OwnOp&>(result) = own;
  return result;
}

std::string build_op(const std::string& folder, const LoadOptions& options, bool* built) {
  return with_files([&] { return build(folder, options, built); });
}
LoadedOp load_op(const std::string& path, const LoadOptions& options) {
  return with_files([&] { return load(path, options); });
}

}  // namespace ct
