#pragma once

// Optimizers, learning-rate schedules, gradient clipping, loss scaling and averages of parameters.

#include <cotangent/nn/optim/adagrad.h>
#include <cotangent/nn/optim/adam.h>
#include <cotangent/nn/optim/clip_grad.h>
#include <cotangent/nn/optim/ema.h>
#include <cotangent/nn/optim/grad_scaler.h>
#include <cotangent/nn/optim/gradient_state.h>
#include <cotangent/nn/optim/lbfgs.h>
#include <cotangent/nn/optim/lion.h>
#include <cotangent/nn/optim/muon.h>
#include <cotangent/nn/optim/optimizer.h>
#include <cotangent/nn/optim/param_groups.h>
#include <cotangent/nn/optim/rmsprop.h>
#include <cotangent/nn/optim/scheduler.h>
#include <cotangent/nn/optim/sgd.h>
