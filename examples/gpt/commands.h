#pragma once

#include "examples/gpt/options.h"

// Commands besides training. Each returns the exit code.

int generate(const GenerateOptionsLine& options);
int logits(const LogitsOptions& options);
int export_model(const ExportOptions& options);
int tokenize(const TokenizeOptions& options);
