#pragma once

#include <cotangent/cotangent.h>

#include <memory>
#include <string>
#include <vector>

#include "examples/mnist/options.h"

/// A new network as the options want it, on the CPU: a perceptron, or convolutions and a perceptron behind them. Draws
/// from the default generator. The norms of several ranks in training have statistics of them all.
ct::nn::Sequential make_model(const Options& options, const ct::dist::Group& ranks = {});

std::unique_ptr<ct::optim::Optimizer> make_optimizer(const Options& options,
                                                     const std::vector<ct::Tensor>& parameters);

/// The learning rate as a share of its highest value, at a step (from 0) of `total`. `kind`: --schedule.
double schedule(const std::string& kind, double step, double total);
