#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>

#include <cotangent/core/base/error.h>
#include <cotangent/core/memory/memory_text_internal.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/json.h>
#include <cotangent/nn/profile/profile_internal.h>

// The recording as rows, as a table, as a trace.

namespace ct {
namespace {

using profile_impl::direction;

// Limits of each device and dtype that calls of this profile ran with.
class Limits {
 public:
  const DeviceLimits& of(const Profile::Call& call) {
    const DType dtype = is_floating(call.dtype) ? call.dtype : DType::f32;
    const auto key = std::tuple(call.device.is_cpu() ? -1 : call.device.index, dtype);
    const auto found = known_.find(key);
    return found != known_.end() ? found->second
                                 : known_.emplace(key, device_limits(call.device, dtype)).first->second;
  }
  double least_us(const Profile::Call& call) {
    return 1e6 * of(call).least_seconds({call.flops, call.bytes});
  }

 private:
  std::map<std::tuple<int, DType>, DeviceLimits> known_;
};

std::string in_mib(double bytes) { return detail::fixed(bytes / (1 << 20), 1); }
std::string percent(double share, int decimals) { return detail::fixed(100 * share, decimals) + '%'; }

// Time on `device` in which none of its calls ran.
struct Gaps {
  std::size_t count = 0;
  double us = 0, median_us = 0;
};
Gaps gaps_of(const Profile& profile, Device device) {
  std::vector<std::pair<double, double>> spans;
  for (const Profile::Call& c : profile.calls)
    if (c.parent == -1 && c.device == device) spans.emplace_back(c.start_us, c.start_us + c.us);
  std::sort(spans.begin(), spans.end());
  spans.emplace_back(1e6 * profile.seconds, 1e6 * profile.seconds);
  std::vector<double> gaps;
  double reached = 0, sum = 0;
  for (const auto& [start, end] : spans) {
    if (start > reached) gaps.push_back(start - reached), sum += start - reached;
    reached = std::max(reached, end);
  }
  if (gaps.empty()) return {};
  std::nth_element(gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2), gaps.end());
  return {gaps.size(), sum, gaps[gaps.size() / 2]};
}

// The device that works longest.
Device main_device(const std::vector<ProfileRow>& rows) {
  std::vector<std::pair<Device, double>> sums;
  for (const ProfileRow& row : rows) {
    const auto found = std::ranges::find(sums, row.device, &std::pair<Device, double>::first);
    if (found == sums.end())
      sums.emplace_back(row.device, row.self_us);
    else
      found->second += row.self_us;
  }
  const auto most = std::ranges::max_element(sums, {}, &std::pair<Device, double>::second);
  return most == sums.end() ? cpu : most->first;
}

std::string named(const std::string& op, const std::string& direction) {
  return op.empty() ? direction : op + ' ' + direction;
}

using Line = std::vector<std::string>;

// Columns as wide as their longest text; the first two begin at the left.
void print(std::ostream& out, const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(lines[0].size());
  for (const Line& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const Line& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string room(widths[i] - line[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (i < 2 ? line[i] + room : room + line[i]);
    }
    text.resize(text.find_last_not_of(' ') + 1);
    out << text << '\n';
  }
}

}  // namespace

std::vector<ProfileRow> Profile::rows() const {
  std::map<std::tuple<std::uint32_t, bool, int>, std::size_t> places;
  std::vector<ProfileRow> rows;
  struct Least {
    double us = 0, memory_us = 0;
  };
  std::vector<Least> least;
  std::vector<double> self(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    self[i] += calls[i].us;
    if (calls[i].parent >= 0) self[static_cast<std::size_t>(calls[i].parent)] -= calls[i].us;
  }
  Limits limits;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& c = calls[i];
    const auto [at, fresh] =
        places.try_emplace({c.op, c.backward, c.device.is_cpu() ? -1 : c.device.index}, rows.size());
    if (fresh) {
      least.emplace_back();
      rows.push_back({.op = ops[c.op], .backward = c.backward, .device = c.device});
    }
    ProfileRow& row = rows[at->second];
    ++row.calls, row.kernels += c.kernels;
    row.self_us += self[i], row.total_us += c.us, row.flops += c.flops, row.bytes += c.bytes;
    least[at->second].us += limits.least_us(c);
    least[at->second].memory_us += 1e6 * c.bytes / limits.of(c).bytes_at(c.bytes);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ProfileRow& row = rows[i];
    row.share = seconds > 0 ? row.self_us / (1e6 * seconds) : 0;
    // Faster than its limit is what did less than its cost says: clipping with a factor of 1, a step that is left out.
    row.limit = row.total_us > 0 && least[i].us < 1.05 * row.total_us ? least[i].us / row.total_us : 0;
    row.memory_bound = least[i].memory_us >= 0.5 * least[i].us;
    for (const Peak& peak : peaks)
      for (const Owner& owner : peak.owners)
        if (peak.device == row.device && owner.op == row.op && owner.direction == direction(row.backward))
          row.kept += static_cast<std::int64_t>(owner.bytes);
  }
  std::ranges::stable_sort(rows, std::greater<>(), &ProfileRow::self_us);
  return rows;
}

double Profile::least_seconds() const {
  Limits limits;
  double us = 0;
  for (const Call& c : calls)
    if (c.parent == -1) us += std::min(limits.least_us(c), c.us);
  return 1e-6 * us;
}

void Profile::table(std::ostream& out) const {
  const std::vector<ProfileRow> all = rows();
  const Device device = main_device(all);
  std::vector<Line> lines{{"op", "dir", "calls", "kernels", "time us", "share", "GB/s",
                           device.is_cpu() ? "GFLOP/s" : "TFLOP/s", "% of limit"}};
  if (!peaks.empty()) lines[0].emplace_back("kept MiB");
  for (const ProfileRow& row : all) {
    const auto rate = [&](double amount, double unit, int decimals) {
      return amount > 0 && row.total_us > 0 ? detail::fixed(amount / (row.total_us * unit), decimals) : "-";
    };
    Line& line = lines.emplace_back();
    line = {row.device == device ? row.op : detail::cat(row.op, " (", row.device, ')'),
            direction(row.backward),
            std::to_string(row.calls),
            row.kernels > 0 ? std::to_string(row.kernels) : "-",
            detail::fixed(row.self_us, 0),
            percent(row.share, 1),
            rate(row.bytes, 1e3, 1),
            rate(row.flops, device.is_cpu() ? 1e3 : 1e6, 1),
            row.limit > 0 ? percent(row.limit, 0) + (row.memory_bound ? " memory " : " product") : "-"};
    if (!peaks.empty()) line.push_back(row.kept > 0 ? in_mib(static_cast<double>(row.kept)) : "-");
  }
  const Gaps gaps = gaps_of(*this, device);
  const double share = seconds > 0 ? gaps.us / (1e6 * seconds) : 0;
  lines.push_back(
      {"(gaps)", "", std::to_string(gaps.count), "", detail::fixed(gaps.us, 0), percent(share, 1)});
  print(out, lines);
  out << detail::fixed(1e3 * seconds, 2) << " ms on " << device << ", ";
  if (const double least = least_seconds(); seconds > 0 && least > 0)
    out << percent(least / seconds, 0) << " of its limit (" << detail::fixed(1e3 * least, 2) << " ms), ";
  out << "median gap " << detail::fixed(gaps.median_us, 1) << " us, " << waits
      << (waits == 1 ? " wait" : " waits") << " of the host\n";
  for (const Peak& peak : peaks) {
    out << "memory of " << peak.device << ": at most " << detail::format_bytes(peak.bytes) << ", in "
        << named(peak.op, peak.direction) << ':';
    constexpr std::size_t kShown = 6;
    std::size_t rest = 0;
    for (std::size_t i = 0; i < peak.owners.size(); ++i) {
      const Owner& owner = peak.owners[i];
      if (i < kShown)
        out << (i == 0 ? " " : ", ") << detail::format_bytes(owner.bytes) << ' '
            << (owner.op.empty() ? "" : "of ") << named(owner.op, owner.direction);
      else
        rest += owner.bytes;
    }
    if (rest > 0) out << ", " << detail::format_bytes(rest) << " of others";
    out << '\n';
  }
}

std::ostream& operator<<(std::ostream& out, const Profile& profile) {
  profile.table(out);
  return out;
}

void Profile::trace(const std::string& path) const {
  io::AtomicFile file(path);
  file.write(R"({"displayTimeUnit":"ms","traceEvents":[)");
  file.write(R"({"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"host"}})");
  std::vector<bool> told;
  const auto event = [&](const Call& c, std::size_t thread, double start, double us) {
    const std::string name = io::Json(ops[c.op] + (c.backward ? " backward" : "")).dump("profile");
    file.write(detail::cat(",\n{\"name\":", name, ",\"cat\":\"", direction(c.backward),
                           "\",\"ph\":\"X\",\"pid\":1,\"tid\":", thread, ",\"ts\":", detail::fixed(start, 3),
                           ",\"dur\":", detail::fixed(us, 3), ",\"args\":{\"flops\":",
                           detail::fixed(c.flops, 0), ",\"bytes\":", detail::fixed(c.bytes, 0), "}}"));
  };
  for (const Call& c : calls) {
    if (c.host_us > 0) event(c, 1, c.host_start_us, c.host_us);
    if (c.device.is_cpu()) continue;
    const auto place = static_cast<std::size_t>(1 + c.device.index);
    if (told.size() <= place) told.resize(place + 1);
    if (!told[place])
      file.write(detail::cat(",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":", place + 1,
                             ",\"args\":{\"name\":\"", c.device, "\"}}"));
    told[place] = true;
    event(c, place + 1, c.start_us, c.us);
  }
  file.write("]}\n");
  file.commit();
}

}  // namespace ct
