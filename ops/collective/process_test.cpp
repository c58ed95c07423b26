#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <cotangent/ops.h>
#include <cotangent/ops/collective/collective.h>

#include "tests/catch.h"

// Ranks that are processes, over TCP and MPI.

using namespace ct;
using dist::Group;
using namespace std::chrono_literals;

namespace {

int free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(s, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(s, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(s);
  return ntohs(address.sin_port);
}

// Names of rank, number of ranks and rank on its host, and of rank 0's host.
constexpr std::array kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"};
constexpr std::array kSrun{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                           "SLURM_LAUNCH_NODE_IPADDR"};

// Runs f(group) in `ranks` processes; what it returns, or the message of its error, is the rank's text.
std::vector<std::string> processes(int ranks, std::chrono::milliseconds limit,
                                   const std::function<std::string(const Group&)>& f,
                                   const std::array<const char*, 4>& names = kTorchrun) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("ct_dist_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const int port = free_port();
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (const auto& [name, value] : {std::pair<const char*, int>{names[0], r},
                                        {names[1], ranks},
                                        {names[2], r},
                                        {"MASTER_PORT", port}})
        ::setenv(name, std::to_string(value).c_str(), 1);
      ::setenv(names[3], "127.0.0.1", 1);
      std::string text;
      try {
        text = f(dist::init({.device = cpu, .timeout = limit}));
      } catch (const std::exception& e) { text = e.what(); }
      std::ofstream(folder + "/" + std::to_string(r)) << text;
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  std::vector<std::string> texts;
  for (int r = 0; r < ranks; ++r) {
    std::ostringstream text;
    text << std::ifstream(folder + "/" + std::to_string(r)).rdbuf();
    texts.push_back(text.str());
  }
  std::filesystem::remove_all(folder);
  return texts;
}

// The bits of collectives, as text.
std::string digest(const Group& g) {
  std::ostringstream text;
  for (const std::int64_t n : {0, 3, 5000}) {
    Tensor x = (arange(n).to(f32) * 0.37 + g.rank()).sin();
    for (const Tensor& t :
         {dist::all_reduce(x, g), dist::all_reduce(x.to(bf16), g, dist::ReduceOp::mean).to(f32),
          dist::broadcast(x, g, 1), dist::all_gather(x, g)})
      text << std::hexfloat << sum(t.to(f64)).item() << ' ' << sum(square(t.to(f64))).item() << '\n';
  }
  dist::barrier(g);
  return text.str();
}

std::string digest_of_threads(int n) {
  std::string text;
  dist::run_threads(n, [&](const Group& g) {
    const std::string mine = digest(g);
    if (g.rank() == 0) text = mine;
  });
  return text;
}

}  // namespace

TEST_CASE("processes over TCP give the bits of threads", "[dist]") {
  for (const int n : {2, 3, 8}) {
    const std::string wanted = digest_of_threads(n);
    REQUIRE(wanted.size() > 100);
    for (const std::string& text : processes(
             n, 60s, [](const Group& g) { return g.backend() == "tcp" ? digest(g) : "another backend"; },
             n == 2 ? kSrun : kTorchrun))
      CHECK(text == wanted);
  }
}

TEST_CASE("a process that is killed is named by all others within seconds", "[dist]") {
  for (const int victim : {0, 2}) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::string> texts = processes(3, 120s, [&](const Group& g) {
      dist::barrier(g);
      if (g.rank() == victim) {
        std::this_thread::sleep_for(100ms);  // the others are through
        ::kill(::getpid(), SIGKILL);
      }
      dist::all_reduce(ones({7}), g);
      return std::string("went on");
    });
    CHECK(std::chrono::steady_clock::now() - start < 20s);
    for (int r = 0; r < 3; ++r) {
      CAPTURE(victim, r, texts[static_cast<std::size_t>(r)]);
      if (r == victim) continue;
      CHECK_THAT(texts[static_cast<std::size_t>(r)],
                 Catch::Contains("rank " + std::to_string(victim) + " is gone"));
      CHECK_THAT(texts[static_cast<std::size_t>(r)], Catch::Contains("all_reduce f32[7]"));
    }
  }
}

TEST_CASE("a process that is late, differs or ends by an exception is named by all", "[dist]") {
  for (const std::string& text : processes(3, 500ms, [](const Group& g) {
         if (g.rank() == 1) std::this_thread::sleep_for(1500ms);
         return digest(g);
       }))
    CHECK_THAT(text, Catch::Contains("rank 1 did not come to call 2, all_reduce f32[0] (sum)"));
  for (const std::string& text : processes(2, 60s, [](const Group& g) {
         dist::all_reduce(ones({g.rank() + 2}), g);
         return std::string("went on");
       }))
    CHECK_THAT(text, Catch::Contains(
                         "rank 1 makes all_reduce f32[3] (sum) where rank 0 makes all_reduce f32[2] (sum)"));
  const std::vector<std::string> texts = processes(2, 60s, [](const Group& g) {
    if (g.rank() == 1) throw ValueError("a program's own");
    dist::barrier(g);
    return std::string("went on");
  });
  CHECK(texts[1] == "a program's own");
  CHECK_THAT(texts[0], Catch::Contains("rank 1 ends by an exception"));
  const std::vector<std::string> left = processes(2, 60s, [](const Group& g) {
    if (g.rank() == 1) return std::string("left");
    dist::barrier(g);
    return std::string("went on");
  });
  CHECK_THAT(left[0], Catch::Contains("rank 1"));
  CHECK_THAT(left[0], Catch::Contains("in call 2, barrier"));
}

TEST_CASE("dist::init refuses an environment that makes no sense", "[dist]") {
  const auto with = [](std::initializer_list<std::pair<const char*, const char*>> settings) {
    for (const auto& [name, value] : settings) ::setenv(name, value, 1);
    std::string text;
    try {
      text = dist::init({.device = cpu, .timeout = 300ms}).backend();
    } catch (const Error& e) { text = e.what(); }
    for (const auto& [name, value] : settings) ::unsetenv(name);
    return text;
  };
  CHECK(with({}) == "alone");
  CHECK(with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == "alone");
  CHECK_THAT(with({{"RANK", "0"}}), Catch::Contains("of RANK and WORLD_SIZE one is missing"));
  CHECK_THAT(with({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), Catch::Contains("RANK is 'one'"));
  CHECK_THAT(with({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), Catch::Contains("the rank is 2 of 2"));
  CHECK_THAT(with({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
             Catch::Contains("MASTER_ADDR does not say where rank 0 is"));
  // A job's own script, which srun has not started, is alone.
  CHECK(with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}}) == "alone");
  CHECK(with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}) == "alone");
  CHECK_THAT(with({{"SLURM_STEP_NUM_TASKS", "2"}}), Catch::Contains("SLURM_PROCID is not"));
  CHECK_THAT(with({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
             Catch::Contains("MASTER_ADDR does not say where rank 0 is"));
  const std::string port = std::to_string(free_port());
  CHECK_THAT(
      with({{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port.c_str()}}),
      Catch::Contains("ranks 1 2 of 3 have not come to rank 0 in time"));
  CHECK_THAT(
      with({{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port.c_str()}}),
      Catch::Contains("rank 0 does not answer"));
}

// Started by mpirun, below; whoever runs all cases of this file starts it, too.
TEST_CASE("a rank of mpirun", "[.mpi]") {
  if (!std::getenv("OMPI_COMM_WORLD_SIZE") && !std::getenv("PMI_SIZE")) {
    SUCCEED("mpirun has not started this process");
    return;
  }
  const Group g = dist::init({.device = cpu, .timeout = 60s});
  CHECK(g.backend() == "mpi");
  const int n = g.size();
  CHECK(digest(g) == digest_of_threads(n));
  Tensor large = full({3 << 20}, g.rank() + 1);
  CHECK(dist::all_reduce_(large, g).max().item() == n * (n + 1) / 2);
}

TEST_CASE("processes of mpirun give the bits of threads", "[dist]") {
#ifdef CT_SANITIZED
  SUCCEED("mpirun's own leaks would be found");
  return;
#endif
  if (std::system("mpirun --version > /dev/null 2>&1") != 0) {
    SUCCEED("there is no mpirun");
    return;
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  for (const int ranks : {2, 8}) {
    const std::string command =
        "mpirun --allow-run-as-root --oversubscribe --mca btl_vader_single_copy_mechanism none -n " +
        std::to_string(ranks) + " '" + self + "' '[.mpi]' 2>&1";
    std::string text;
    FILE* const out = ::popen(command.c_str(), "r");
    REQUIRE(out);
    std::array<char, 4096> part;
    while (const std::size_t n = ::fread(part.data(), 1, part.size(), out)) text.append(part.data(), n);
    CAPTURE(ranks, text);
    CHECK(::pclose(out) == 0);
  }
}
