#include <cstdlib>

#include <cotangent/ops/collective/group_internal.h>

// init(): who this process is, as its starter says.

namespace ct::dist {
namespace {

constexpr char kInit[] = "dist::init";

std::optional<std::string> text(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<int> number(const char* name) {
  const std::optional<std::string> value = text(name);
  if (!value) return {};
  char* end = nullptr;
  const long n = std::strtol(value->c_str(), &end, 10);
  CT_CHECK(*end == 0 && n >= 0 && n < 1 << 24, ValueError, kInit, name, " is '", *value,
           "'; a number >= 0 is wanted");
  return static_cast<int>(n);
}

std::optional<int> first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const std::optional<int> n = number(name)) return n;
  return {};
}

Device device_of(const InitOptions& options, int local) {
  if (options.device) {
    check_device(kInit, *options.device);
    return *options.device;
  }
  const int gpus = cuda_device_count();
  if (gpus == 0) return cpu;
  CT_CHECK(local < gpus, DeviceError, kInit, "this is process ", local, " of its host, which has ", gpus,
           " GPUs; start fewer, or pass InitOptions::device");
  return cuda(local);
}

}  // namespace

Group init(const InitOptions& options) {
  std::optional<int> rank, size;
  std::unique_ptr<detail::Transport> transport;
  const int local =
      first_of({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}).value_or(0);
  if (text("RANK") || text("WORLD_SIZE")) {
    rank = number("RANK"), size = number("WORLD_SIZE");
    CT_CHECK(rank && size, ValueError, kInit, "of RANK and WORLD_SIZE one is missing; set both, or neither");
  } else if (text("OMPI_COMM_WORLD_SIZE") || text("PMI_SIZE")) {
    size = first_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
    if (*size > 1) {
      int mpi_rank = 0, mpi_size = 0;
      transport = detail::mpi_transport(mpi_rank, mpi_size);
      CT_CHECK(mpi_size == *size, ValueError, kInit, "mpirun has started ", *size,
               " processes, MPI knows of ", mpi_size,
               "; COTANGENT_MPI must name the library that belongs to this mpirun");
      rank = mpi_rank;
    }
  } else if (text("SLURM_STEP_NUM_TASKS")) {  // in a job's own script there are SLURM_NTASKS and rank 0 alone
    rank = number("SLURM_PROCID"), size = number("SLURM_STEP_NUM_TASKS");
    CT_CHECK(rank, ValueError, kInit,
             "SLURM_STEP_NUM_TASKS is set, SLURM_PROCID is not; start the program by srun");
  }
  const Device device = device_of(options, local);
  if (size.value_or(1) <= 1) {
    auto alone = std::make_shared<detail::GroupState>();
    alone->device = device;
    return Group(alone);
  }
  CT_CHECK(*rank < *size, ValueError, kInit, "the rank is ", *rank, " of ", *size, "; it must lie in [0, ",
           *size, ')');
  // The transport's watcher ends before the state does.
  const auto watched = std::make_shared<std::atomic<detail::GroupState*>>(nullptr);
  if (!transport) {
    const std::optional<std::string> address = text("MASTER_ADDR"), slurm = text("SLURM_LAUNCH_NODE_IPADDR");
    CT_CHECK(address || slurm, ValueError, kInit, "there are ", *size,
             " processes, and MASTER_ADDR does not say where rank 0 is; set it and MASTER_PORT");
    transport = detail::tcp_transport(*rank, *size, address ? *address : *slurm,
                                      number("MASTER_PORT").value_or(29500), options.timeout,
                                      [watched](const std::string& why) {
                                        if (detail::GroupState* const state = *watched) state->fail(why);
                                      });
  }
  auto state = detail::make_group(std::move(transport), *rank, *size, device, options.timeout);
  *watched = state.get();
  detail::meet(*state);
  return Group(state);
}

}  // namespace ct::dist
