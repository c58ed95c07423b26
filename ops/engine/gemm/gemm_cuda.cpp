#include <cotangent/ops/engine/gemm/gemm_cuda.h>

#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include <cotangent/core/base/precision.h>
#include <cotangent/core/cuda/blas.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>

// Rows and columns. cuBLASLt thinks in columns: what it calls a matrix of r rows and c columns with leading
// dimension ld has element (i, j) at i + j * ld. A row-major m x n matrix read that way is its transpose, so
// C = A B is handed over as C' = B' A': cuBLASLt's A is our B, its m is our n. An operand of ours with column
// stride 1 is then "not transposed" and one with row stride 1 is "transposed"; no data is moved either way.

namespace ct::gemm {
namespace {

using namespace gpu;

// One operand as cuBLASLt sees it.
struct Operand {
  bool transposed = false;  // row stride 1
  std::int64_t ld = 0;
};

// Description of a rows x cols operand for cuBLASLt. False for strides that cuBLASLt does not take. The
// stride of an axis of size 1 means nothing: ld is then the least that is allowed.
bool describe_operand(std::int64_t rows, std::int64_t cols, std::int64_t row, std::int64_t col,
                      Operand& out) {
  if ((col == 1 || cols == 1) && (row >= cols || rows == 1)) {
    out = {false, rows == 1 ? cols : row};
    return true;
  }
  if ((row == 1 || rows == 1) && (col >= rows || cols == 1)) {
    out = {true, cols == 1 ? rows : col};
    return true;
  }
  return false;
}

// Everything that the choice of an algorithm depends on. Compared and hashed as words.
struct Key {
  std::int64_t m, n, k, lda, ldb, ldc, batch, a_batch, b_batch, c_batch;
  std::uint64_t flags;
  bool operator==(const Key&) const = default;
};
static_assert(sizeof(Key) == 11 * 8);

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::array<std::uint64_t, 11> words;
    std::memcpy(words.data(), &key, sizeof key);
    std::uint64_t h = 0x9e3779b97f4a7c15u;
    for (const std::uint64_t w : words) h = (std::rotl(h, 23) ^ w) * 0xd6e8feb86659fd93u;
    return static_cast<std::size_t>(h ^ h >> 32);
  }
};

// Parameters of a launch. The structs are plain data that cuBLASLt fills in place, so a CublasPlan can be copied.
struct CublasPlan {
  bool found = false;
  cublasLtMatmulDescOpaque_t operation = {};
  cublasLtMatrixLayoutOpaque_t a = {}, b = {}, c = {};
  cublasLtMatmulAlgo_t algorithm = {};
  std::size_t workspace = 0;
};

// The power of two, up to 256, that an address is a multiple of.
std::uint32_t alignment(const void* p) {
  const auto bits = reinterpret_cast<std::uintptr_t>(p) | 256;
  return 1u << std::countr_zero(bits);
}

struct Call {
  const Product& p;
  Operand a, b;
  Epilogue epilogue;
  void* vector;
  bool tf32;
};

Key key_of(const Call& call) {
  const Product& p = call.p;
  const auto log = [](const void* q) { return static_cast<std::uint64_t>(std::countr_zero(alignment(q))); };
  std::uint64_t flags = static_cast<std::uint64_t>(p.dtype);
  const auto add = [&](std::uint64_t value, int bits) { flags = flags << bits | value; };
  add(static_cast<std::uint64_t>(p.c_dtype), 4), add(static_cast<std::uint64_t>(call.epilogue), 4);
  add(call.a.transposed, 1), add(call.b.transposed, 1), add(call.tf32, 1), add(p.accumulate, 1);
  add(log(p.a), 4), add(log(p.b), 4), add(log(p.c), 4), add(call.vector ? log(call.vector) : 0, 4);
  add(static_cast<std::uint64_t>(current_cuda_device()), 8);
  return {p.m,     p.n,       p.k,       call.a.ld, call.b.ld, p.m == 1 ? p.n : p.c_row,
          p.batch, p.a_batch, p.b_batch, p.c_batch, flags};
}

void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const auto& value) {
  CT_CUBLAS_OP("matmul", blas().cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
}
void set(cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
  CT_CUBLAS_OP("matmul", blas().cublasLtMatmulPreferenceSetAttribute(pref, attribute, &value, sizeof value));
}

cublasLtEpilogue_t native(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::relu_bias: return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::gelu_bias: return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::none: break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

cublasComputeType_t compute_type(DType t, bool tf32) {
  if (t == DType::f64) return CUBLAS_COMPUTE_64F;
  return t == DType::f32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

void make_layout(cublasLtMatrixLayout_t layout, cudaDataType_t type, std::int64_t rows, std::int64_t cols,
                 std::int64_t ld, std::int64_t batch, std::int64_t step) {
  CT_CUBLAS_OP("matmul", blas().cublasLtMatrixLayoutInit_internal(layout, sizeof *layout, type,
                                                                  static_cast<std::uint64_t>(rows),
                                                                  static_cast<std::uint64_t>(cols), ld));
  if (batch == 1) return;
  const auto count = static_cast<std::int32_t>(batch);
  CT_CUBLAS_OP("matmul", blas().cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                                 &count, sizeof count));
  CT_CUBLAS_OP("matmul", blas().cublasLtMatrixLayoutSetAttribute(
                             layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step));
}

// Picks one of the algorithms that the heuristic proposes, best guess first. A measured search belongs here:
// run each of the candidates on the call's operands and return the fastest.
int choose(const Call&, const cublasLtMatmulHeuristicResult_t*, int) { return 0; }

CublasPlan make_plan(const Call& call) {
  const Product& p = call.p;
  CublasPlan plan;
  const cudaDataType_t type = cuda_type("matmul", p.dtype);
  const cudaDataType_t scale = p.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F;
  CT_CUBLAS_OP("matmul", blas().cublasLtMatmulDescInit_internal(&plan.operation, sizeof plan.operation,
                                                                compute_type(p.dtype, call.tf32), scale));
  const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(&plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, op(call.b.transposed));
  set(&plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, op(call.a.transposed));
  if (call.epilogue != Epilogue::none) {
    set(&plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, native(call.epilogue));
    set(&plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.vector);
  }
  // Row-major rows x cols is column-major cols x rows; an operand of row stride 1 is column-major as it is.
  const auto layout = [&](cublasLtMatrixLayout_t l, const Operand& o, std::int64_t rows, std::int64_t cols,
                          std::int64_t step) {
    make_layout(l, type, o.transposed ? rows : cols, o.transposed ? cols : rows, o.ld, p.batch, step);
  };
  layout(&plan.a, call.b, p.k, p.n, p.b_batch);
  layout(&plan.b, call.a, p.m, p.k, p.a_batch);
  make_layout(&plan.c, cuda_type("matmul", p.c_dtype), p.n, p.m, p.m == 1 ? p.n : p.c_row, p.batch,
              p.c_batch);

  cublasLtMatmulPreferenceOpaque_t pref;
  CT_CUBLAS_OP("matmul", blas().cublasLtMatmulPreferenceInit_internal(&pref, sizeof pref));
  set(&pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kBlasWorkspaceBytes});
  // Partial sums of a split k are added in a fixed order, and in the accumulator's type: neither atomically
  // in place nor rounded to 16 bits in between.
  set(&pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(&pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b));
  set(&pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a));
  set(&pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.c));
  set(&pref, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.c));

  constexpr int kCandidates = 1;
  cublasLtMatmulHeuristicResult_t results[kCandidates] = {};
  int count = 0;
  const cublasStatus_t status = blas().cublasLtMatmulAlgoGetHeuristic(
      blas_lt(), &plan.operation, &plan.a, &plan.b, &plan.c, &plan.c, &pref, kCandidates, results, &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) return plan;  // it has none
  const cublasLtMatmulHeuristicResult_t& best = results[choose(call, results, count)];
  if (best.state != CUBLAS_STATUS_SUCCESS) return plan;
  plan.found = true;
  plan.algorithm = best.algo;
  plan.workspace = best.workspaceSize;
  return plan;
}

// The table of plans. A plan is copied out (well under a kilobyte), so that the table may be emptied at any
// time and the epilogue's pointer be set without disturbing other threads.
struct Plans {
  std::shared_mutex mutex;
  std::unordered_map<Key, CublasPlan, KeyHash> map;
};
Plans& plans() {
  static Plans& table = *new Plans;  // never destroyed: products may run while the process ends
  return table;
}
// Sizes that change from step to step (lengths of sequences) must not fill the memory.
constexpr std::size_t kMaxPlans = 4096;

void find_plan(const Call& call, CublasPlan& plan) {
  const Key key = key_of(call);
  Plans& table = plans();
  {
    std::shared_lock lock(table.mutex);
    if (const auto found = table.map.find(key); found != table.map.end()) {
      plan = found->second;
      return;
    }
  }
  plan = make_plan(call);
  std::unique_lock lock(table.mutex);
  if (table.map.size() >= kMaxPlans) table.map.clear();
  table.map.emplace(key, plan);
}

// With k = 0 there is nothing to multiply: C is zero, or stays what it is.
void clear(const char* op, const Product& p) {
  if (p.accumulate) return;
  const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n) * size_of(p.c_dtype); };
  for (std::int64_t s = 0; s < p.batch; ++s)
    CT_CUDA_OP(
        op, cudaMemset2DAsync(static_cast<char*>(p.c) + static_cast<std::ptrdiff_t>(bytes(s * p.c_batch)),
                              bytes(p.c_row), 0, bytes(p.n), static_cast<std::size_t>(p.m), native_stream()));
}

}  // namespace

bool gemm(const char* op, const Product& p, Epilogue epilogue, void* vector) {
  const bool plain = epilogue == Epilogue::none;
  if (p.k == 0) return plain && (clear(op, p), true);
  if (plain && p.m == 1 && p.n == 1 && p.batch == 1) return gemm_dot(op, p), true;
  Call call{p, {}, {}, epilogue, vector, p.dtype == DType::f32 && allow_tf32()};
  const bool usable = is_floating(p.dtype) && describe_operand(p.m, p.k, p.a_row, p.a_col, call.a) &&
                      describe_operand(p.k, p.n, p.b_row, p.b_col, call.b) && p.batch <= INT32_MAX;
  // Epilogues load their vector in words of 16 bytes.
  if (!plain && (!usable || p.batch != 1 || alignment(vector) < 16)) return false;

  CublasPlan plan;
  if (usable) find_plan(call, plan);
  if (!plan.found) return plain && (gemm_tiled(op, p), true);

  if (!plain) set(&plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  const Workspace workspace(plan.workspace);
  const double one64 = 1, beta64 = p.accumulate;
  const float one32 = 1, beta32 = p.accumulate;
  const bool wide = p.dtype == DType::f64;
  const void* alpha = wide ? static_cast<const void*>(&one64) : &one32;
  const void* beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  CT_CUBLAS_OP(op, blas().cublasLtMatmul(blas_lt(), &plan.operation, alpha, p.b, &plan.a, p.a, &plan.b, beta,
                                         p.c, &plan.c, p.c, &plan.c, &plan.algorithm, workspace.data(),
                                         plan.workspace, native_stream()));
  return true;
}

}  // namespace ct::gemm
