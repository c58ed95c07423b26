#include <cotangent/cotangent.h>

#include <cmath>
#include <cstdio>
#include <deque>
#include <numeric>

#include "examples/common/device.h"
#include "examples/common/small_program.h"

// Learns to balance a pole on a cart from nothing but the reward of not having fallen yet: deep Q-learning (Mnih et al.
// 2015), with the choice of the best next action and its value by different networks (van Hasselt et al. 2016).

namespace nn = ct::nn;
using ct::Tensor;

namespace {

struct Settings {
  std::int64_t steps = 60000, start = 1000, batch = 64, capacity = 20000;
  double lr = 5e-4, gamma = 0.99;
  std::uint64_t seed = 1;
  std::string device = "auto";
  bool eager = false;
};

// The cart of Barto, Sutton and Anderson (1983), as Gym's CartPole-v1 has it: each step of 0.02 s it is pushed to the left
// or to the right with 10 N, and a run ends where it has left [-2.4, 2.4], leans by more than 12 degrees, or after 500.
class CartPole {
 public:
  using State = std::vector<float>;  // place, speed, angle, angular speed

  State reset() {
    const auto draws = ct::rand({4}).to_vector<float>();
    for (std::size_t i = 0; i < 4; ++i) s_[i] = 0.1f * draws[i] - 0.05f;
    age_ = 0;
    return s_;
  }
  struct Step {
    State state;
    bool fell, over;
  };
  Step step(std::int64_t action) {
    constexpr float kDt = 0.02f, kGravity = 9.8f, kCart = 1, kPole = 0.1f, kHalf = 0.5f,
                    kMass = kCart + kPole;
    const float force = action == 1 ? 10.f : -10.f, sine = std::sin(s_[2]), cosine = std::cos(s_[2]);
    const float push = (force + kPole * kHalf * s_[3] * s_[3] * sine) / kMass;
    const float turn =
        (kGravity * sine - cosine * push) / (kHalf * (4.f / 3 - kPole * cosine * cosine / kMass));
    const float drive = push - kPole * kHalf * turn * cosine / kMass;
    s_ = {s_[0] + kDt * s_[1], s_[1] + kDt * drive, s_[2] + kDt * s_[3], s_[3] + kDt * turn};
    const bool fell = std::abs(s_[0]) > 2.4f || std::abs(s_[2]) > 12 * 2 * 3.14159265f / 360;
    return {s_, fell, fell || ++age_ == 500};
  }

 private:
  State s_ = {0, 0, 0, 0};
  int age_ = 0;
};

// Replay memory: a ring that overwrites the oldest step. Row i of the five tensors is one step.
struct Memory {
  Memory(std::int64_t capacity, ct::Device device)
      : states(ct::zeros({capacity, 4}, {.device = device})),
        next(ct::zeros({capacity, 4}, {.device = device})),
        actions(ct::zeros({capacity, 1}, {.dtype = ct::i64, .device = device})),
        goes_on(ct::zeros({capacity, 1}, {.device = device})) {}
  void add(const CartPole::State& state, std::int64_t action, const CartPole::Step& step) {
    const std::int64_t row = count++ % states.size(0);
    states[row] = ct::from_vector(state);
    next[row] = ct::from_vector(step.state);
    actions[row] = action;
    goes_on[row] = step.fell ? 0 : 1;
  }
  // Rows of moments that were lived through, at random.
  Tensor some(std::int64_t n) const {
    return ct::randint(0, std::min(count, states.size(0)), {n},
                       {.dtype = ct::i64, .device = states.device()});
  }
  Tensor states, next, actions, goes_on;
  std::int64_t count = 0;
};

// The value of each action in each state: the rewards that are still to come, each counting gamma times the one before.
nn::Sequential make_network() {
  return nn::Sequential(nn::Linear(4, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(), nn::Linear(128, 2));
}

class Agent {
 public:
  Agent(const Settings& s, ct::Device device)
      : s_(s), device_(device), adam_((q_.to(device), q_.parameters()), {.lr = s.lr}) {}

  std::int64_t act(const CartPole::State& state, double chance) {
    if (ct::rand({1}).item() < chance) return ct::randint(0, 2, {1}).item<std::int64_t>();
    const ct::NoGrad guard;
    return ct::argmax(q_.forward(ct::from_vector(state).to(device_))).item<std::int64_t>();
  }

  // One step towards Q(s, a) = 1 + gamma max_b Q(s', b), which holds of the true values, on moments of the past.
  void learn(const Memory& memory, const Tensor& rows) {
    const auto of = [&](const Tensor& all) { return ct::index_select(all, 0, rows); };
    Tensor target;
    {
      const ct::NoGrad guard;
      const Tensor next = of(memory.next);
      const Tensor best = ct::argmax(q_.forward(next), 1, true);
      // The target must not move with each step: its values are those of the averaged network.
      const ct::optim::EmaScope averaged(average_);
      target = 1 + s_.gamma * of(memory.goes_on) * ct::gather(q_.forward(next), 1, best);
    }
    adam_.zero_grad();
    const Tensor guess = ct::gather(q_.forward(of(memory.states)), 1, of(memory.actions));
    ct::smooth_l1_loss(guess, target).backward();
    ct::optim::clip_grad_norm_(q_.parameters(), 10);
    adam_.step();
    average_.update();
  }

 private:
  Settings s_;
  ct::Device device_;
  nn::Sequential q_ = make_network();
  ct::optim::Adam adam_;
  ct::optim::Ema average_{q_, {.decay = 0.995}};
};

void train(const Settings& s) {
  ct::manual_seed(s.seed);
  ct::set_num_threads(1);  // products this small are done before a second thread wakes up
  const ct::Device device = usable_device("dqn", s.device);
  CartPole cart;
  Memory memory(s.capacity, device);
  Agent agent(s, device);
  auto learn = ct::capture([&](const Tensor& rows) { agent.learn(memory, rows); },
                           {.enabled = flags::captures(device.is_cuda(), s.eager)});
  CartPole::State state = cart.reset();
  std::deque<int> lengths = {0};  // of the last runs; the last one goes on
  int runs = 0;
  for (std::int64_t step = 1; step <= s.steps; ++step) {
    // At first at random, later less and less.
    const double chance =
        std::max(0.02, 1 - static_cast<double>(step) / (0.2 * static_cast<double>(s.steps)));
    const std::int64_t action = agent.act(state, chance);
    const CartPole::Step after = cart.step(action);
    memory.add(state, action, after);
    state = after.over ? cart.reset() : after.state;
    ++lengths.back();
    if (step > s.start) {
      profile_step();
      learn(memory.some(s.batch));
    }
    if (after.over) {
      if (++runs >= 20) lengths.pop_front();
      lengths.push_back(0);
    }
    if (step % std::max<std::int64_t>(1, s.steps / 12) == 0 && runs > 0) {
      const auto whole = static_cast<double>(lengths.size() - 1);
      std::printf("step %6lld  runs %4d  the last %2.0f balanced for %5.1f steps of 500%s\n",
                  static_cast<long long>(step), runs, whole,
                  std::accumulate(lengths.begin(), lengths.end() - 1, 0.0) / whole,
                  limit_share(device).c_str());
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  return small_program(
      "dqn", "Learns to balance a pole on a cart, by deep Q-learning.", argc, argv,
      [&](flags::Flags flags) {
        flags.device(s.device);
        flags.on("--eager", s.eager, flags::kEagerHelp);
        flags.whole("--steps", s.steps, "of the cart, and of learning");
        flags.whole("--start", s.start, "steps before it begins to learn");
        flags.whole("--batch", s.batch, "moments to learn from in a step");
        flags.whole("--capacity", s.capacity, "moments that are remembered");
        flags.positive("--lr", s.lr, "learning rate");
        flags.between("--gamma", s.gamma, "what a reward a step later counts", 0, 1);
        flags.seed("--seed", s.seed, "of the network, the carts and the choices");
        add_profile(flags);
      },
      [&] { train(s); });
}
