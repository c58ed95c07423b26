#pragma once

// Optimizers, learning-rate schedules and gradient clipping.

#include <cotangent/nn/optim/adam.h>
#include <cotangent/nn/optim/clip_grad.h>
#include <cotangent/nn/optim/grad_scaler.h>
#include <cotangent/nn/optim/optimizer.h>
#include <cotangent/nn/optim/scheduler.h>
#include <cotangent/nn/optim/sgd.h>
