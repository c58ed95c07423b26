#include <cotangent/core/device/stream.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include <cotangent/core/device/device.h>
#include <cotangent/core/device/index_error.h>
#include <cotangent/core/memory/allocator.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/cotangent.h>

#include "tests/catch.h"

using namespace ct;
using Catch::Matchers::Contains;

TEST_CASE("device: text both ways") {
  CHECK(parse_device("cpu") == cpu);
  CHECK(parse_device("cuda") == cuda(0));
  CHECK(parse_device("cuda:1") == cuda(1));
  CHECK(parse_device("auto") == best_device());
  CHECK(to_string(cpu) == "cpu");
  CHECK(to_string(cuda(3)) == "cuda:3");
  for (const char* text : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:1000", "cpu:0"})
    CHECK_THROWS_WITH(parse_device(text), Contains("[device] got \"" + std::string(text) + "\"; want "));
}

TEST_CASE("device: one that is not there is refused with the reason") {
  const int count = cuda_device_count();
  CHECK(cuda_is_available() == (count > 0));
  CHECK(best_device() == (count > 0 ? cuda(0) : cpu));
  CHECK_NOTHROW(check_device("test", cpu));
  CHECK_THROWS_AS(check_device("test", cuda(count)), DeviceError);
  CHECK_THROWS_AS(current_allocator(cuda(count)), DeviceError);
  CHECK_THROWS_AS(current_allocator(cuda(100)), DeviceError);
  CHECK_THROWS_AS(DeviceGuard(cuda(count)), DeviceError);
  CHECK_THROWS_AS(new_stream(cuda(count)), DeviceError);
  CHECK_THROWS_AS(cuda_properties(-1), DeviceError);
  CHECK(memory_stats(cuda(count)).requests == 0);
  if (!built_with_cuda())
    CHECK_THROWS_WITH(check_device("to", cuda(0)),
                      "[to] device cuda:0 is not there: this library was built without CUDA; use cpu, or "
                      "best_device() to choose");
  else if (count > 0)
    CHECK_THROWS_WITH(check_device("to", cuda(count)),
                      Contains("is not there: this machine has " + std::to_string(count) + " GPU"));
}

TEST_CASE("stream: on the cpu everything is done at once") {
  const Stream s = current_stream(cpu);
  CHECK(s.device == cpu);
  CHECK(new_stream(cpu) == s);
  StreamGuard guard(s);
  Event start(true), stop(true);
  CHECK(start.query());
  start.record(s);
  stop.record(s);
  s.wait(stop);
  stop.synchronize();
  s.synchronize();
  synchronize(cpu);
  CHECK(s.query());
  CHECK(start.elapsed_ms(stop) >= 0);
  CHECK_THROWS_WITH(start.elapsed_ms(Event()), Contains("[event] elapsed_ms needs two recorded events"));
  Event moved = std::move(stop);
  CHECK(start.elapsed_ms(moved) >= 0);
}

TEST_CASE("stream: implicit waits are counted, or refused by the thread's policy") {
  const std::uint64_t before = sync_count();
  note_sync("item");
  CHECK(sync_count() == before + 1);
  {
    SyncPolicyGuard guard(SyncPolicy::error);
    CHECK_THROWS_WITH(note_sync("item"), Contains("[item] makes the host wait for the device"));
    std::thread([] { note_sync("item"); }).join();  // the policy is the thread's own
  }
  CHECK_NOTHROW(note_sync("item"));
  CHECK(sync_count() == before + 3);
}

TEST_CASE("index errors: the sentences") {
  CHECK_THROWS_WITH(
      throw_index_error("cross_entropy", IndexKind::class_label, 11, 10),
      "[cross_entropy] class label 11 is out of range for 10 classes; labels must lie in [0, 10) "
      "or equal ignore_index");
  CHECK_THROWS_WITH(throw_index_error("embedding", IndexKind::token, -1, 5),
                    "[embedding] token -1 is out of range for a table of 5 rows; tokens must lie in [0, 5)");
  CHECK_THROWS_WITH(throw_index_error("index_add", IndexKind::position, 7, 7),
                    Contains("index 7 is out of range for an axis of size 7; indices must lie in [0, 7)"));
  CHECK_THROWS_WITH(throw_index_error("gather", IndexKind::index, 4, 3),
                    Contains("index 4 is out of range for an axis of size 3; indices must lie in [-3, 3)"));
  CHECK_THROWS_AS(throw_index_error("gather", IndexKind::index, 4, 3), IndexError);
  CHECK_NOTHROW(raise_pending_device_errors(cpu));
  CHECK_NOTHROW(raise_pending_device_errors(cuda(0)));
}

TEST_CASE("memory: copies and fills on the cpu") {
  std::vector<int> a = {1, 2, 3}, b(3);
  copy_bytes(b.data(), cpu, a.data(), cpu, 3 * sizeof(int));
  CHECK(a == b);
  fill_bytes(b.data(), cpu, 0xff, 2 * sizeof(int));
  CHECK(b == std::vector<int>{-1, -1, 3});
  zero_bytes(b.data(), cpu, sizeof(int));
  CHECK(b == std::vector<int>{0, -1, 3});
  CHECK_NOTHROW(copy_bytes(nullptr, cuda(0), nullptr, cpu, 0));  // nothing to do, no device asked
  CHECK_NOTHROW(fill_bytes(nullptr, cuda(0), 0, 0));
}

TEST_CASE("stream: streams of the gpu are ordered by events", "[cuda]") {
  const Device gpu = cuda(0);
  CHECK(current_stream(gpu).native == nullptr);
  const Stream first = new_stream(gpu), second = new_stream(gpu, -1);
  CHECK(!(first == second));
  CHECK(first.id != second.id);
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  void* p = current_allocator(gpu).allocate(kBytes, first);
  Event start(true), written(true);
  std::vector<unsigned char> back(16);
  {
    StreamGuard guard(first);
    CHECK(current_stream(gpu) == first);
    std::thread([&] { CHECK(current_stream(gpu).native == nullptr); }).join();
    start.record(first);
    for (int i = 0; i < 50; ++i) fill_bytes(p, gpu, i, kBytes);
    written.record(first);
  }
  CHECK(current_stream(gpu).native == nullptr);
  second.wait(written);
  {
    StreamGuard guard(second);
    copy_bytes(back.data(), cpu, static_cast<char*>(p) + kBytes - 16, gpu, 16);
  }
  CHECK(back == std::vector<unsigned char>(16, 49));
  CHECK(written.query());
  CHECK(start.elapsed_ms(written) > 0.5);
  CHECK(start.elapsed_ms(written) < 1000);
  first.synchronize();
  CHECK(first.query());
  current_allocator(gpu).deallocate(p, kBytes, first);
  CHECK_THROWS_AS(written.record(current_stream(cpu)), DeviceError);
}

TEST_CASE("stream: the pool of streams hands them out in turn", "[cuda]") {
  const Stream first = new_stream(cuda(0));
  int different = 0;
  for (int i = 0; i < 31; ++i) different += !(new_stream(cuda(0)) == first);
  CHECK(different == 31);
  CHECK(new_stream(cuda(0)) == first);
}

TEST_CASE("memory: a copy to the cpu waits, counts and can be refused", "[cuda]") {
  const Device gpu = cuda(0);
  const Stream s = current_stream(gpu);
  void* p = current_allocator(gpu).allocate(64, s);
  fill_bytes(p, gpu, 3, 64);
  std::vector<unsigned char> back(64);
  const std::uint64_t before = sync_count();
  copy_bytes(p, gpu, back.data(), cpu, 64);  // pageable memory to the device does not wait
  CHECK(sync_count() == before);
  fill_bytes(p, gpu, 3, 64);
  copy_bytes(back.data(), cpu, p, gpu, 64);
  CHECK(sync_count() == before + 1);
  CHECK(back == std::vector<unsigned char>(64, 3));
  {
    SyncPolicyGuard guard(SyncPolicy::error);
    CHECK_THROWS_AS(copy_bytes(back.data(), cpu, p, gpu, 64), DeviceError);
    CHECK_NOTHROW(synchronize(gpu));  // asked for, so allowed
  }
  current_allocator(gpu).deallocate(p, 64, s);
}

TEST_CASE("device: the child of a fork has the cpu alone, and says why", "[cuda]") {
  const Tensor there = ones({2, 3}, f32, cuda(0));
  const pid_t child = fork();
  if (child == 0) {
    int bad = cuda_is_available() + 2 * (best_device() != cpu) + 4 * (sum(ones({5})).item<float>() != 5);
    for (int i = 0; i < 2; ++i) try {
        ones({2, 3}).to(cuda(0));
        bad |= 8;
      } catch (const DeviceError& e) {
        bad |= std::string_view(e.what()).find("fork()") == std::string_view::npos ? 16 : 0;
      }
    _exit(bad);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(sum(there).item<float>() == 6);
}

TEST_CASE("index errors: what a kernel noted is thrown once, by whatever waits", "[cuda]") {
  const Device gpu = cuda(0);
  detail::DeviceErrors* record = detail::device_errors(gpu);
  const auto note = [&] {  // as gpu::report_index_error() does
    record->site = IndexSite{"cross_entropy", IndexKind::class_label};
    record->value = 11;
    record->limit = 10;
    record->state = 2;
  };
  const std::string text =
      "[cross_entropy] class label 11 is out of range for 10 classes; labels must lie in [0, 10) or equal "
      "ignore_index";
  note();
  CHECK_THROWS_WITH(synchronize(gpu), text);
  CHECK_NOTHROW(synchronize(gpu));
  note();
  CHECK_THROWS_WITH(current_stream(gpu).synchronize(), text);
  note();
  Event event;
  event.record(current_stream(gpu));
  CHECK_THROWS_WITH(event.synchronize(), text);
  note();
  void* p = current_allocator(gpu).allocate(4, current_stream(gpu));
  int value = 0;
  CHECK_THROWS_WITH(copy_bytes(&value, cpu, p, gpu, 4), text);
  CHECK_NOTHROW(copy_bytes(&value, cpu, p, gpu, 4));
  current_allocator(gpu).deallocate(p, 4, current_stream(gpu));
}

TEST_CASE("device: properties of the gpu", "[cuda]") {
  const DeviceProperties& p = cuda_properties(0);
  CHECK_FALSE(p.name.empty());
  CHECK(p.multiprocessors > 0);
  CHECK(p.total_memory > (std::size_t{1} << 30));
  CHECK(p.shared_bytes_per_block >= 48 * 1024);
  CHECK(&cuda_properties(0) == &p);
}
