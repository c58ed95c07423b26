#pragma once

#include "examples/mnist/options.h"

// Commands on a trained network. Each returns the exit code.

int eval(const UseOptions& options);
int predict(const UseOptions& options);
