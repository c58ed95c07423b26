#pragma once

// A product whose tiles are on their way while others are multiplied.

namespace answer {

/// Loads the tiles of the steps 0 to steps - 1 (there may be none) and multiplies them, in that order, with two buffers, 0 and 1:
///   m.load(step, buffer)   begins to load a step's tile into a buffer, and returns at once; loads are done one after the other
///   m.wait(step)           waits until that step's tile is there
///   m.multiply(buffer)     multiplies what the buffer holds, and returns when that is done
template <class Machine>
void multiply_all(Machine& m, int steps) {
  for (int step = 0; step < steps; ++step) {  // yours: a load while another tile is multiplied
    m.load(step, 0);
    m.wait(step);
    m.multiply(0);
  }
}

}  // namespace answer
