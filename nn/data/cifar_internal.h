#pragma once

#include <cotangent/nn/data/cifar.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::data {

CT_API ImageDataset read_cifar10(const io::ByteSource& source, IdxOptions options = {});

}  // namespace ct::data
