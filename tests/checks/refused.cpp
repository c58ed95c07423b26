// Calls that must not compile, since they would mean something else than they say, each with a word that
// the compiler's message must contain. Read by api.sh.

#include <cotangent/cotangent.h>

#include <string>

using namespace ct;

enum Level { low, high };

void refused(Tensor x, const Tensor y, nn::Linear layer, const float* pointer, Level level) {
  // Guards that end where they begin.
  NoGrad();                                 // refused: NoGrad
  Autocast(bf16);                           // refused: Autocast
  StreamGuard(current_stream(x.device()));  // refused: StreamGuard
  // Numbers that are none.
  (void)(x + "a");            // refused: operator+
  (void)(x * pointer);        // refused: operator*
  (void)(x - 'a');            // refused: operator-
  (void)(x / level);          // refused: operator/
  (void)full({2}, "1");       // refused: Scalar
  (void)sum(x, 0, 1);         // refused: Flag
  (void)sum(x, true);         // refused: Dims
  (void)max(x, 0.5);          // refused: Integer
  (void)var(x, 0, true);      // refused: Real
  (void)softmax(x, true);     // refused: Integer
  (void)dropout(x, true);     // refused: Real
  (void)dropout(x, 0.5, 1);   // refused: Flag
  (void)x[1.5];               // refused: Integer
  (void)x[true];              // refused: Integer
  (void)x.index({1.5});       // refused: TensorIndices
  (void)x.index({true});      // refused: TensorIndices
  (void)concat(x, 1);         // refused: TensorList
  (void)linspace(0, 1, 2.5);  // refused: Integer
  x.set_requires_grad("no");  // refused: Flag
  x.backward({}, 1);          // refused: Flag
  // Shapes that are none, or could be read in two ways.
  (void)zeros(2.5);        // refused: Shape
  (void)zeros(true);       // refused: Shape
  (void)zeros("3");        // refused: Shape
  (void)zeros({2.5, 1});   // refused: Shape
  (void)zeros(2, 3.5);     // refused: TensorOptions
  (void)zeros(2, f64, 3);  // refused: TensorOptions
  (void)x.view(2.0, 3);    // refused: view
  // Assignments.
  x = 3;      // refused: operator=
  y = x;      // refused: operator=
  y += x;     // refused: operator+=
  x[0] = {};  // refused: ambiguous
  // Truths.
  const Tensor both = (x > 0) && (x < 1);  // refused: Tensor
  if (x == y) return;                      // refused: eq() compares elements, equal() whole tensors
  if (x != y) return;                      // refused: ne() compares elements, !equal() whole tensors
  if (x == 3) return;                      // refused: eq() compares elements
  if (3 != x) return;                      // refused: ne() compares elements
  if (layer.weight()) return;              // refused: defined()
  const bool some = x;                     // refused: bool
  // Arguments that are no layer, and no dataset.
  nn::Sequential net(layer, 3);       // refused: nn::Sequential takes modules
  data::DataLoader batches(Level{});  // refused: a DataLoader wants a dataset
  // Types that tensors do not hold, and memory that they may not write to.
  (void)x.to_vector<std::string>();              // refused: to_vector<T>() gives numbers
  (void)x.item<const char*>();                   // refused: a Scalar becomes a number
  (void)x.data<long long>();                     // refused: data<T>() wants an element type
  (void)from_vector(std::vector<char>{1}, {1});  // refused: tensors hold numbers
  (void)tensor(std::string("a"));                // refused: tensor
  (void)tensor({"a"});                           // refused: tensor
  (void)from_blob(pointer, {2});                 // refused: from_span()
  (void)Tensor(0);                               // refused: no tensor is Tensor()
  const Device device = 1;                       // refused: Device
  const Generator generator = 1;                 // refused: Generator
}
