// The kernels of rows in registers as a text, for steps that are captured (core/op/around.h).
asm(".pushsection .rodata\n.globl cotangent_norm_rows\n.hidden cotangent_norm_rows\n"
    "cotangent_norm_rows: .incbin \"cotangent/ops/normalization/rescue_internal.h\"\n"
    ".incbin \"cotangent/ops/normalization/rows.cuh\"\n.byte 0\n.popsection\n");
