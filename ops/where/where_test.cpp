#include <cotangent/ops/unary/unary.h>

#include "tests/catch.h"
