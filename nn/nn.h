#pragma once

// Everything of nn: modules, optimizers, data and files.

#include <cotangent/nn/activation.h>
#include <cotangent/nn/attention.h>
#include <cotangent/nn/container.h>
#include <cotangent/nn/convolution.h>
#include <cotangent/nn/data/dataset.h>
#include <cotangent/nn/data/idx.h>
#include <cotangent/nn/data/loader.h>
#include <cotangent/nn/data/tokens.h>
#include <cotangent/nn/dropout.h>
#include <cotangent/nn/embedding.h>
#include <cotangent/nn/init.h>
#include <cotangent/nn/io/atomic_file.h>
#include <cotangent/nn/io/checkpoint.h>
#include <cotangent/nn/io/huggingface.h>
#include <cotangent/nn/io/npy.h>
#include <cotangent/nn/io/safetensors.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/loss.h>
#include <cotangent/nn/models/gpt2.h>
#include <cotangent/nn/models/language_model.h>
#include <cotangent/nn/models/llama.h>
#include <cotangent/nn/module.h>
#include <cotangent/nn/normalization.h>
#include <cotangent/nn/optim/optim.h>
#include <cotangent/nn/pooling.h>
#include <cotangent/nn/state_dict.h>
#include <cotangent/nn/text/bpe.h>
#include <cotangent/nn/text/tokenizer.h>
#include <cotangent/nn/transformer.h>
