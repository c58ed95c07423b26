#include "bench/ladders/ladder.h"

#include <cotangent/cotangent.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

namespace ct::ladder {
namespace {

// The dtype of the case for floating tensors; labels and indices stay what they are.
Tensors converted(const Tensors& tensors, Device device, DType dtype) {
  Tensors result;
  for (const Tensor& t : tensors)
    result.push_back(is_floating(t.dtype()) ? t.to(device, dtype) : t.to(device));
  return result;
}

// Fills outputs with a value that no kernel writes by chance, so that an element left out is found.
void spill(const Tensors& tensors) {
  for (Tensor t : tensors)
    t.fill_(is_floating(t.dtype()) ? Scalar(std::numeric_limits<double>::quiet_NaN()) : Scalar(77));
}

Tensors copies(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& t : tensors) result.push_back(t.clone());
  return result;
}

bool same_bits(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a[i].equal(b[i])) return false;
  return true;
}

bool chosen(const Ladder& ladder, std::size_t index, const Case& of, int only) {
  const Rung& rung = ladder.rungs[index];
  const bool takes = std::find(rung.dtypes.begin(), rung.dtypes.end(), of.dtype) != rung.dtypes.end();
  return takes && (only == 0 || only == static_cast<int>(index) + 1) && runs_here(ladder, rung);
}

Device device_of(const Ladder& ladder) { return ladder.device == DeviceType::cpu ? cpu : cuda(0); }

// Something that is measured: a call does `work`.
struct Subject {
  std::function<void()> run;
  double work = 0;
  std::vector<double> seconds = {};
  double spent = 0;

  double median() {
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                     seconds.end());
    return seconds[seconds.size() / 2];
  }
};

double seconds_between(const Stream& stream, const std::function<void()>& run, int calls) {
  Event start(true), stop(true);
  start.record(stream);
  for (int i = 0; i < calls; ++i) run();
  stop.record(stream);
  return start.elapsed_ms(stop) * 1e-3;
}

// One round: a call that is not counted, then some that are. Where bytes are counted each finds the caches full of other
// data; where operations are, short calls follow one another, so that their launches overlap as they do in use.
void round(const Ladder& ladder, const Stream& stream, Tensor& other_data, Subject& s) {
  const double first = seconds_between(stream, s.run, 1);
  s.spent += first;
  if (ladder.unit == Unit::bytes) {
    for (int i = 0; i < 3; ++i) {
      other_data.add_(1);
      s.seconds.push_back(seconds_between(stream, s.run, 1));
      s.spent += s.seconds.back();
    }
    return;
  }
  if (first > 0.1) {  // too long to be done once more, and for what comes before it to matter
    s.seconds.push_back(first);
    return;
  }
  const int calls = static_cast<int>(std::clamp(2e-3 / std::max(first, 1e-6), 1.0, 20.0));
  const double time = seconds_between(stream, s.run, calls);
  s.seconds.push_back(time / calls);
  s.spent += time;
}

}  // namespace

double distance(const Tensors& found, const Tensors& wanted) {
  const double never = std::numeric_limits<double>::infinity();
  if (found.size() != wanted.size()) return never;
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].shape() != wanted[i].shape()) return never;
    if (found[i].numel() == 0) continue;
    const Tensor w = wanted[i].to(f64).to(found[i].device());
    const double off = (found[i].to(f64) - w).abs().max().item<double>();
    const double scale = w.abs().max().item<double>();
    const double ratio = off == 0 ? 0 : off / scale;
    if (!(ratio >= 0)) return never;  // no number
    largest = std::max(largest, ratio);
  }
  return largest;
}

double tolerance(const Ladder& ladder, DType dtype) {
  const double one = dtype == f32    ? 1e-5
                     : dtype == f16  ? 2e-3
                     : dtype == bf16 ? 1e-2
                     : dtype == f64  ? 1e-12
                                     : 0;
  return one * ladder.slack;
}

Call prepare(const Ladder& ladder, const Case& of) {
  Call call{of, converted(ladder.inputs(of), device_of(ladder), of.dtype), {}};
  call.out = copies(ladder.library(call.in));
  return call;
}

int verify(const Ladder& ladder, const Case& of, bool timed, int only, bool spoil) {
  const NoGrad no_grad;
  const Call call = prepare(ladder, of);
  const Tensors wanted = timed ? copies(call.out) : ladder.plain(converted(call.in, cpu, f64));
  const double allowed = tolerance(ladder, of.dtype);
  int wrong = 0;
  const auto check = [&](const char* name, double off, bool spoilt) {
    if ((off <= allowed) != spoilt) return;
    ++wrong;
    if (spoilt) {
      std::printf("NOT SEEN: %s, %s, %s: a number was changed, and it passes\n", ladder.name,
                  describe(of).c_str(), name);
      return;
    }
    std::printf("WRONG: %s on %s, %s, %s: off by %.3g of the largest number, %.3g is allowed\n", ladder.name,
                to_string(device_of(ladder)).c_str(), describe(of).c_str(), name, off, allowed);
  };
  if (!timed) check(ladder.library_name, distance(call.out, wanted), false);
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    if (!chosen(ladder, i, of, only)) continue;
    spill(call.out);
    ladder.rungs[i].run(call);
    if (spoil) {
      const Tensor& y = call.out[0];
      const double by = 1 + wanted[0].abs().max().item<double>();
      Tensor one = y.reshape({-1}).narrow(0, y.numel() / 2, 1);
      one.add_(is_floating(y.dtype()) ? Scalar(by) : Scalar(static_cast<std::int64_t>(by)));
    }
    check(ladder.rungs[i].name, distance(call.out, wanted), spoil);
  }
  return wrong;
}

Result measure(const Ladder& ladder, const Case& of, int only) {
  const NoGrad no_grad;
  const Call call = prepare(ladder, of);
  const Device device = device_of(ladder);
  const Stream stream = current_stream(device);
  // More than any cache holds.
  Tensor other_data = ladder.unit == Unit::bytes ? zeros({64 << 20}, {.device = device}) : Tensor();

  Result result{of, {}, 0, 0};
  const double work = ladder.work(of);
  std::vector<Subject> subjects;
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    if (!chosen(ladder, i, of, only)) continue;
    const Rung& rung = ladder.rungs[i];
    subjects.push_back({[&call, &rung] { rung.run(call); }, work});
    Row row{rung.name, rung.why};
    rung.run(call);
    const Tensors first = copies(call.out);
    for (int again = 1; again < ladder.runs; ++again) {
      rung.run(call);
      row.same_bits &= same_bits(call.out, first);
    }
    result.rows.push_back(row);
  }
  subjects.push_back({[&] { ladder.library(call.in); }, work});
  const double limit = limit_work(ladder, of.dtype);
  if (limit > 0) subjects.push_back({[&] { limit_work(ladder, of.dtype); }, limit});

  constexpr int kLeast = 3, kMost = 15;
  constexpr double kEnough = 0.5;  // seconds of a subject
  for (int r = 0; r < kMost; ++r)
    for (Subject& s : subjects)
      if (r < kLeast || s.spent < kEnough) round(ladder, stream, other_data, s);
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    result.rows[i].seconds = subjects[i].median();
    result.rows[i].rate = work / result.rows[i].seconds;
  }
  result.library_rate = work / subjects[result.rows.size()].median();
  if (limit > 0) result.limit_rate = limit / subjects.back().median();
  return result;
}

}  // namespace ct::ladder
