// lanes.cuh as a text, for steps that are captured (core/op/around.h).
asm(".pushsection .rodata\n.globl cotangent_softmax_lanes\n.hidden cotangent_softmax_lanes\n"
    "cotangent_softmax_lanes: .incbin \"cotangent/ops/softmax/lanes.cuh\"\n.byte 0\n.popsection\n");
