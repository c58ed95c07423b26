#pragma once

#include <memory>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/function_ref.h>

// Threads of the program's own in the place of the library's pool (core/device/parallel.h), or none.
//
// A program that has a scheduler already, a game or a server, lends it with set_executor(); the library then starts no
// thread for its kernels. It is one setting for the whole process: an op's work is cut and shared below everything that
// knows who called it, and tensors pass between threads freely. What one thread wants for itself is NoThreads.
//
// Results have the same bits with any executor and any number of threads: the chunks of the work depend on the problem
// alone, and an executor only says who runs them.

namespace ct {

/// Runs pieces of work on threads of its own. Its functions may be called by several threads at once.
class CT_API Executor {
 public:
  virtual ~Executor() = default;

  /// How many pieces may run at the same time, that of the calling thread included. Asked for every piece of parallel
  /// work; where it is 1 or less, the caller does its work alone and run() is not called.
  virtual int concurrency() const = 0;

  /// Calls piece(i) for each i of [0, n), 1 < n <= concurrency(), once, in any order, on any threads, and returns when
  /// no call goes on or is still to come. All that was written before run() is visible to the pieces, and what they
  /// wrote to the caller afterwards, as queues with locks, atomics or joins see to.
  ///
  ///  * piece() never throws: what an op's kernel throws is kept and thrown in the op's caller.
  ///  * The calling thread should take pieces itself. It has to where it may be one of the executor's own, as in a task
  ///    that calls ops: one that waits for threads that all wait is never done. It takes pieces of this call alone, and
  ///    does nothing else that calls ops meanwhile, since kernels keep scratch memory by thread (Error where it is seen).
  ///  * Pieces share what there is to do. One that runs late finds nothing, one that is left out is done by the caller,
  ///    so that an executor in a hurry may run fewer.
  ///  * Inside of a piece, the library's parallel work runs in the piece's thread: run() is not called from there.
  ///  * An exception of run() itself leaves the op. There too no call may be going on or be still to come.
  virtual void run(int n, FunctionRef<void(int)> piece) = 0;
};

/// Makes `executor` run the parallel work of the whole process; null gives it back to the pool, which it belongs to at
/// first. The pool's threads end meanwhile. Work that was begun ends where it began, without this call waiting for it,
/// and the library lets go of the executor with the last of it; one that is installed when the program ends is not
/// destroyed. num_threads() is then executor->concurrency(), and what set_num_threads() sets is the pool's.
/// The child of a fork() has the pool again, since threads are not inherited.
/// Throws Error from inside of parallel work.
CT_API void set_executor(std::shared_ptr<Executor> executor);

/// `ct::NoThreads alone;`: while it lives, what this thread does in parallel elsewhere runs in this thread alone. For
/// programs that run one model in each of many threads, and for real-time threads that are to wake no other.
class CT_API NoThreads {
 public:
  [[nodiscard]] NoThreads();
  ~NoThreads();
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  bool before_;
};

}  // namespace ct
