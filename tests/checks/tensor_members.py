#!/usr/bin/env python3
"""A Parameter has every public member of Tensor, and no other: nn/tensor_members.h repeats core/tensor/tensor.h.
   usage: tensor_members.py SOURCE_DIR
"""
import re
import sys

# How tensors are made, what lies below them, what SlotHandle has by itself, and what else stands in front of a bracket.
NOT_REPEATED = {"allocate", "from_storage", "impl", "ref", "defined"} | {
    "bool", "void", "impl_", "move", "take", "default_generator"}


def members_of_tensor(text):
    body = re.sub(r"//[^\n]*", "", text[text.index("class CT_API Tensor {"):])
    declarations, depth = "", 0
    for char in body[body.index("{") + 1:body.index("\n private:")]:  # without what stands in braces
        depth += char == "{"
        declarations += char if depth == 0 else ""
        depth -= char == "}"
    return set(re.findall(r"\b([a-z]\w*)\s*\(", declarations))


def main():
    root = sys.argv[1]
    with open(root + "/core/tensor/tensor.h") as header:
        wanted = members_of_tensor(header.read()) - NOT_REPEATED
    with open(root + "/nn/tensor_members.h") as header:
        text = header.read()
    text = text[text.index("class TensorMembers {"):text.index("\n private:")]
    repeated = set(re.findall(r"\bX\((\w+)\)", text)) | set(re.findall(r"^  \S.*?\b([a-z]\w*)\([^\n]*const \{", text, re.M))
    missing, other = sorted(wanted - repeated), sorted(repeated - wanted)
    if missing:
        print("nn/tensor_members.h lacks members of Tensor:", *missing)
    if other:
        print("nn/tensor_members.h has names that Tensor has not:", *other)
    return bool(missing or other)


if __name__ == "__main__":
    sys.exit(main())
