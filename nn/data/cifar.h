#pragma once

#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/data/idx.h>

namespace ct::data {

/// A file of CIFAR-10's binary version (Krizhevsky, 2009): records of a label in [0, 10) and the 3 x 32 x 32 bytes of an
/// image. Throws IoError for a file that is missing, empty, truncated or of another kind.
CT_API ImageDataset read_cifar10(const std::string& path, IdxOptions options = {});

/// The data set in `folder`: data_batch_1.bin to data_batch_5.bin, or test_batch.bin for the test part. Images are
/// u8 [n, 3, 32, 32]. Throws IoError as read_cifar10().
CT_API ImageDataset cifar10(const std::string& folder, Split split = Split::train, IdxOptions options = {});

}  // namespace ct::data
