#pragma once

#include <memory>

#include <cotangent/nn/data/tokens.h>
#include <cotangent/nn/io/source_internal.h>

namespace ct::data {

/// Tokens::open() for bytes from anywhere.
CT_API Tokens open_tokens(std::shared_ptr<const io::ByteSource> bytes);

}  // namespace ct::data
