#pragma once

#include "examples/gpt/options.h"

/// Runs the training: corpus, model, steps, evaluations, samples, run folder. Returns the exit code.
int train(const Options& options);
