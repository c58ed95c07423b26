#pragma once

#include <cotangent/core/base/error.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/safetensors.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/interrupts.h"
#include "examples/common/run_record.h"

/// Folders that this process makes; those that are empty in the end go again.
class MadeFolders {
 public:
  MadeFolders() = default;
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;
  ~MadeFolders() {
    for (const std::string& folder : folders_) rmdir(folder.c_str());
  }
  /// Makes `path`, and those above it, where they are missing.
  void make(const std::filesystem::path& path, std::error_code& error) {
    std::vector<std::string> missing;
    std::error_code ignored;
    for (auto at = path; !at.empty() && !std::filesystem::exists(at, ignored); at = at.parent_path())
      missing.push_back(at.string());
    folders_.insert(folders_.begin(), missing.begin(), missing.end());
    std::filesystem::create_directories(path, error);
  }
  /// False if somebody else has made `path`.
  bool make_new(const std::string& path, std::error_code& error) {
    if (!std::filesystem::create_directory(path, error)) return false;
    folders_.insert(folders_.begin(), path);
    return true;
  }

 private:
  std::vector<std::string> folders_;  // the innermost first
};

/// A folder that one process writes to: made where there is none, and locked until the end of the process.
class ClaimedFolder {
 public:
  /// `path`, or, if it is empty, a new folder runs/PROGRAM-DATE-TIME. Throws ct::IoError, also if a process that is still
  /// running has it.
  ClaimedFolder(const std::string& program, const std::string& path) : path_(path) {
    std::error_code error;
    if (path.empty()) {
      make_default(program, error);
    } else {
      made_.make(path, error);
    }
    CT_CHECK(!error, ct::IoError, program.c_str(), "can't make the run folder ", path_, ": ", error.message(),
             "; choose another with --out");
    lock(program);
  }
  /// Folders that it made and nothing was written to go again: that run never began.
  ~ClaimedFolder() {
    unlink(lock_name().c_str());
    close(lock_);
  }
  ClaimedFolder(const ClaimedFolder&) = delete;
  ClaimedFolder& operator=(const ClaimedFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string lock_name() const { return path_ + "/.lock"; }

  void make_default(const std::string& program, std::error_code& error) {
    const std::time_t now = std::time(nullptr);
    char text[64];
    std::strftime(text, sizeof text, "-%Y%m%d-%H%M%S", std::localtime(&now));
    const std::string first = "runs/" + program + text;
    made_.make("runs", error);
    path_ = first;
    // Runs that start in the same second get folders of their own: a name belongs to the one that makes it.
    for (int i = 2; !error && !made_.make_new(path_, error); ++i) path_ = first + "-" + std::to_string(i);
  }

  // The system drops the lock when the process ends, however it ends.
  void lock(const std::string& program) {
    while (true) {
      lock_ = open(lock_name().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      CT_CHECK(lock_ >= 0, ct::IoError, program.c_str(), "can't write to the run folder ", path_, ": ",
               std::strerror(errno), "; choose another with --out");
      // Any other failure is that of a file system without locks.
      const bool taken = flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      if (taken) close(lock_);
      CT_CHECK(!taken, ct::IoError, program.c_str(), "another process is training in ", path_,
               "; wait for its end, or choose another --out");
      // The process that had the lock before may have removed the file between the two calls.
      struct stat own;
      if (fstat(lock_, &own) != 0 || own.st_nlink > 0) return;
      close(lock_);
    }
  }

  std::string path_;
  MadeFolders made_;
  int lock_ = -1;
};

/// Folder where a run leaves its files. Every file appears as a whole or not at all.
class RunFolder {
 public:
  /// Claims the folder (ClaimedFolder): `out`, else the one of the checkpoint to `resume`, else
  /// runs/PROGRAM-DATE-TIME. Of several ranks the first `writes`; the others have no folder, and write nothing. Watches for
  /// interrupts from here on: there is something to put away. Throws ct::IoError; also if `out` holds what this run would write over: another run, or files that are not this program's.
  RunFolder(const std::string& program, const std::string& out, const std::string& resume, bool writes)
      : resumed_(resume.empty() ? "" : checkpoint_in(program, resume)) {
    watch_interrupts();
    if (!writes) return;
    claim_.emplace(program, !out.empty() || resume.empty() ? out : folder_of(resumed_));
    if (goes_on()) return;
    const std::string owner = program_of(path());
    CT_CHECK(owner.empty() || owner == program, ct::IoError, program.c_str(), path(), " is a run of ", owner,
             "; choose another --out");
    for (const char* name : {kLast, kBest})
      CT_CHECK(!holds(name), ct::IoError, program.c_str(), path(), " holds a run already (", name,
               "), which would be lost; go on with it (--resume ", path(), ") or choose another --out");
    for (const char* name : {"config.json", "tokenizer.json"})
      CT_CHECK(owner == program || !holds(name), ct::IoError, program.c_str(), path(), " holds a ", name,
               " that no run of this program wrote; choose another --out");
    for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
      CT_CHECK(!holds(name), ct::IoError, program.c_str(), path(), " holds a model (", name,
               "); choose another --out");
  }
  bool writes() const { return claim_.has_value(); }
  std::string path() const { return writes() ? claim_->path() : folder_of(resumed_); }
  std::string operator/(const std::string& name) const { return path() + "/" + name; }
  bool holds(const std::string& name) const {
    std::error_code ignored;
    return std::filesystem::exists(path() + "/" + name, ignored);
  }
  void write(const std::string& name, const std::string& text) const {
    if (writes()) ct::io::write_file(*this / name, text);
  }

  /// Number `extra` of the best checkpoint beside the one to resume. Empty without one, and when resuming
  /// from the last checkpoint, which holds the same number: the file would be read as a whole.
  std::optional<double> best(const std::string& extra) const {
    std::error_code ignored;
    const std::string file = folder_of(resumed_) + "/" + kBest;
    if (std::filesystem::path(resumed_).filename() == kLast || !std::filesystem::exists(file, ignored))
      return {};
    return ct::io::load(file).value<double>("extra." + extra);
  }

  /// Whether the checkpoint to resume is in this folder.
  bool goes_on() const { return !resumed_.empty() && same_place(folder_of(resumed_), path()); }

  /// The first that is written, once all is loaded: config.json, a line of history.jsonl, and what
  /// `write_more` writes, without which a run can't be resumed. One that goes on in another folder then has
  /// all that it had with it. If that fails nothing of it stays, and if the process is killed the folder can
  /// be resumed, or given to --out again.
  template <class WriteMore>
  void begin(const RunRecord& record, WriteMore&& write_more) const {
    if (!writes()) return;
    const std::string earlier = resumed_.empty() ? "" : text_of(folder_of(resumed_) + "/" + kHistory);
    const auto write_settings = [&] {
      write("config.json", record.config());
      write(kHistory, earlier + record.history_line());
      write_more();
    };
    if (goes_on()) return write_settings();
    std::vector<std::string> added;
    for (const char* name : {"config.json", kHistory, "tokenizer.json", "metrics.csv", "loss.svg",
                             "samples.txt", kSeconds, kBest, kLast})
      if (!holds(name)) added.emplace_back(name);
    try {
      write_settings();
      for (const char* name : {"metrics.csv", "loss.svg", "samples.txt", kSeconds}) {
        if (const auto file = resumed_.empty() ? nullptr : copy(folder_of(resumed_) + "/" + name, name)) {
          file->commit();
        } else {  // what a run without a checkpoint has left here is not this one's
          unlink((*this / name).c_str());
        }
      }
      if (resumed_.empty()) return;
      // Both are there as a whole before either has its name, which makes the folder a run. The best one
      // first: without the last one it can be resumed, and the other way round it would be forgotten.
      const auto best = copy(folder_of(resumed_) + "/" + kBest, kBest), last = copy(resumed_, kLast);
      if (best) best->commit();
      if (last) last->commit();
    } catch (...) {
      for (const std::string& name : added) unlink((*this / name).c_str());
      throw;
    }
  }

  /// The seconds that a run took, for its next part. Not in the checkpoints: equal runs have equal ones.
  void save_seconds(double seconds) const { write(kSeconds, std::to_string(seconds) + "\n"); }
  double load_seconds() const {
    double seconds = 0;
    std::ifstream(*this / kSeconds) >> seconds;
    return seconds;
  }

  /// The checkpoint that a path names: itself, or the last one in a run folder; the best one where a run was
  /// killed before the last one was written. Throws ct::IoError.
  static std::string checkpoint_in(const std::string& program, const std::string& path) {
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(path, ignored);
    for (const std::string& file : {folder ? path + "/" + kLast : path, path + "/" + kBest})
      if (std::filesystem::exists(file, ignored)) return file;
    CT_CHECK(!folder || program_of(path).empty(), ct::IoError, program.c_str(), path,
             " holds a run that was ended before its first checkpoint; begin it again with --out ", path);
    ct::detail::fail<ct::IoError>(program.c_str(), "there is no checkpoint ", path, folder ? "/" : "",
                                  folder ? kLast : "", "; a run folder or a checkpoint file is wanted");
  }
  static std::string folder_of(const std::string& checkpoint) {
    const std::string folder = std::filesystem::path(checkpoint).parent_path().string();
    return folder.empty() ? std::string(".") : folder;
  }

  static constexpr char kLast[] = "checkpoint-last.safetensors";
  static constexpr char kBest[] = "checkpoint-best.safetensors";

 private:
  static constexpr char kSeconds[] = "seconds.txt", kHistory[] = "history.jsonl";

  static bool same_place(const std::string& a, const std::string& b) {
    std::error_code ignored;
    return std::filesystem::equivalent(a, b, ignored);
  }
  // A copy that has to be committed; null if there is nothing to copy.
  std::unique_ptr<ct::io::AtomicFile> copy(const std::string& from, const std::string& name) const {
    std::error_code ignored;
    if (!std::filesystem::exists(from, ignored)) return nullptr;
    std::ifstream in(from, std::ios::binary);
    auto to = std::make_unique<ct::io::AtomicFile>(*this / name);
    std::vector<char> bytes(1 << 20);
    while (in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())), in.gcount() > 0)
      to->write(bytes.data(), static_cast<std::size_t>(in.gcount()));
    CT_CHECK(in.eof(), ct::IoError, "copy", "can't read ", from, "; check the disk it is on");
    return to;
  }

  std::string resumed_;  // the checkpoint
  std::optional<ClaimedFolder> claim_;
};
