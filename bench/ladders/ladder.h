#pragma once

#include <cotangent/core/tensor/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

// A ladder is one piece of work written several times, from the plainest kernel to one that is as fast as the library's,
// each a rung with the reason why it is faster than the one before. The program (main.cpp, ./ct ladder NAME) holds every
// rung to the plain form, then measures it beside the library and the machine's limit.
//
// A file NAME_cpu.cpp or NAME.cu in this folder holds a ladder, in a namespace of its own, and hands it over:
//
//   const bool kAdded = ct::ladder::add({.name = "gemm", ...});

namespace ct::ladder {

/// Sizes of the work; the ladder says what they are (m, n, k).
struct Case {
  DType dtype = DType::f32;
  std::vector<std::int64_t> size;
};

/// Arguments of a rung: contiguous tensors on the ladder's device. Inputs of floating type have the case's dtype,
/// outputs have the shapes and dtypes that the library returned.
struct Call {
  Case of;
  std::vector<Tensor> in, out;

  std::int64_t size(int i) const { return of.size[static_cast<std::size_t>(i)]; }
  template <class T>
  const T* input(int i) const {
    return static_cast<const T*>(in[static_cast<std::size_t>(i)].raw_data());
  }
  template <class T>
  T* output(int i) const {
    return static_cast<T*>(out[static_cast<std::size_t>(i)].raw_data());
  }
};

/// One version of the work. On the GPU `run` queues it on the current stream (gpu::launch) and does not wait.
struct Rung {
  const char* name;  ///< in lower case, words joined by "-"
  const char* why;   ///< a sentence: what makes it faster than the one before
  void (*run)(const Call&);
  std::vector<DType> dtypes = {DType::f32};
  bool hopper = false;  ///< made of instructions that only compute capability 9.0 has
};

using Tensors = std::vector<Tensor>;

/// Unit of the rate. Work in bytes is measured with caches that hold other data.
enum class Unit : std::uint8_t { flops, bytes };

struct Ladder {
  const char* name;
  const char* what;  ///< a line: the formula, and what the numbers of a case are
  DeviceType device = DeviceType::cpu;
  Unit unit = Unit::flops;
  std::vector<Case>
      small;  ///< verified against `plain`: ragged sizes, unless the rungs say that they take none
  std::vector<Case> timed;         ///< verified against the library, and measured
  double (*work)(const Case&);     ///< operations, or bytes that must be read and written, of a call
  Tensors (*inputs)(const Case&);  ///< on the CPU, floating ones in f32; the program converts and moves them
  Tensors (*plain)(const Tensors&);    ///< the oracle: from inputs in f64 on the CPU to outputs in f64
  Tensors (*library)(const Tensors&);  ///< the best there is: from inputs on the device to outputs
  const char* library_name;            ///< of it, in the table
  std::vector<Rung> rungs = {};
  double slack =
      1;         ///< times the dtype's tolerance: the largest difference, by the largest number of the result
  int runs = 2;  ///< whose bits are compared
};

/// Adds a ladder to those of the program; returns true. Called before main() by the files that hold ladders.
bool add(Ladder ladder);

/// All ladders, by name, those of the CPU first.
std::vector<Ladder>& all();

/// Whether `rung` runs here: its instructions are built in and the device has them.
bool runs_here(const Ladder& ladder, const Rung& rung);

/// Error of a result: the largest absolute difference from `wanted`, divided by the largest absolute value there. Infinite
/// where a shape, an infinity or a NaN differs.
double distance(const Tensors& found, const Tensors& wanted);

/// The largest distance() that a result of this dtype may have.
double tolerance(const Ladder& ladder, DType dtype);

/// Runs one case of a rung on inputs that it makes, for the first time, and returns its outputs.
Call prepare(const Ladder& ladder, const Case& of);

/// One row of a measured table.
struct Row {
  std::string name, why;
  double seconds = 0;  ///< the median of the rounds
  double rate = 0;     ///< work by second
  bool same_bits = true;
};

/// Measurement of a case: the rungs, and in the same rounds the library and the limit.
struct Result {
  Case of;
  std::vector<Row> rows;
  double library_rate = 0;
  double limit_rate = 0;  ///< 0 where none can be measured
};

/// Verifies the rungs (all for `only` = 0, else the one of that number) of a case against the plain form, or for `timed`
/// against the library. Prints a line for each that is wrong and returns their number. With `spoil` a number of each
/// result is changed first, and a rung that passes nonetheless is what is wrong.
int verify(const Ladder& ladder, const Case& of, bool timed, int only, bool spoil);

/// Measures rungs, library and limit in turns: in each round each of them, so that a machine that slows down slows all.
Result measure(const Ladder& ladder, const Case& of, int only);

/// The limit of a case's unit and dtype on the ladder's device: does some work and returns how much, or 0 if there is no
/// such work. Behind `work` the GPU's may still run.
double limit_work(const Ladder& ladder, DType dtype);

/// Throws ct::IoError unless `file` has the lines `<!-- ladder NAME DEVICE -->` and `<!-- /ladder -->`; writes the tables of
/// the results between them, and beside the file a picture for each result, NAME_DEVICE_DTYPE.svg.
void write_results(const Ladder& ladder, const std::vector<Result>& results, const std::string& file);

/// The table of a result, padded for a terminal, or as Markdown.
std::string table(const Ladder& ladder, const Result& result, bool markdown);

/// "f32, 1024 x 1024 x 1024"
std::string describe(const Case& of);

/// The machine, driver and library as one line.
std::string machine(const Ladder& ladder);

}  // namespace ct::ladder
