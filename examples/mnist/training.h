#pragma once

#include <cotangent/cotangent.h>

#include "examples/mnist/options.h"

/// Runs the whole program: data, model, training, evaluation, run folder. Returns the exit code.
int train(const Options& options);
