// The kernels of a sum over rows as a text, for steps that are captured (core/op/around.h).
asm(".pushsection .rodata\n.globl cotangent_sum_rows\n.hidden cotangent_sum_rows\n"
    "cotangent_sum_rows: .incbin \"cotangent/ops/engine/fold/plan.h\"\n"
    ".incbin \"cotangent/ops/engine/fold/fold_kernels.cuh\"\n"
    ".incbin \"cotangent/ops/engine/fold/sum_fold_cuda.cuh\"\n.byte 0\n.popsection\n");
