#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/print.h>
#include <cotangent/ops/view/view.h>

#include <limits>
#include <sstream>

#include "tests/catch.h"

// The texts are those of PyTorch 2 for the same tensors, with this library's names of dtypes.

namespace {

std::string print(const ct::Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("tensors print as in PyTorch", "[print]") {
  CHECK(print(ct::tensor(3.5f)) == "tensor(3.5000)");
  CHECK(print(ct::tensor(7)) == "tensor(7)");
  CHECK(print(ct::tensor(2.f)) == "tensor(2.)");
  CHECK(print(ct::tensor(1e10f)) == "tensor(1.0000e+10)");
  CHECK(print(ct::tensor(1e-8f)) == "tensor(1.0000e-08)");
  CHECK(print(ct::tensor({1.f, 2.f, 3.f})) == "tensor([1., 2., 3.])");
  CHECK(print(ct::tensor({1.5f, -2.25f, 100.f})) == "tensor([  1.5000,  -2.2500, 100.0000])");
  CHECK(print(ct::tensor({1.f, 1e5f, 123456789.f})) == "tensor([1.0000e+00, 1.0000e+05, 1.2346e+08])");
  CHECK(print(ct::tensor({1.f, 1e9f})) == "tensor([1.0000e+00, 1.0000e+09])");
  CHECK(print(ct::tensor({0.001f, 1.f, 1000.f})) == "tensor([1.0000e-03, 1.0000e+00, 1.0000e+03])");
  CHECK(print(ct::tensor({1e-5f, 2e-5f})) == "tensor([1.0000e-05, 2.0000e-05])");
  CHECK(print(ct::tensor({1.5f, 1e8f})) == "tensor([1.5000e+00, 1.0000e+08])");
  CHECK(print(ct::tensor({kNan, 1.5f, kInf, -kInf})) == "tensor([   nan, 1.5000,    inf,   -inf])");
  CHECK(print(ct::tensor({kNan, 1.f, kInf})) == "tensor([nan, 1., inf])");
  CHECK(print(ct::tensor({kNan, kNan})) == "tensor([nan, nan])");
  CHECK(print(ct::zeros({2, 2})) ==
        "tensor([[0., 0.],\n"
        "        [0., 0.]])");
  CHECK(print(ct::tensor({{1.f, 2.f}, {3.f, 4.f}})) ==
        "tensor([[1., 2.],\n"
        "        [3., 4.]])");
  CHECK(print(ct::tensor({{0.1234567f, -2.f}, {3.f, 400.25f}})) ==
        "tensor([[ 1.2346e-01, -2.0000e+00],\n"
        "        [ 3.0000e+00,  4.0025e+02]])");
  CHECK(print(ct::tensor({{1, -20}, {300, 4}})) ==
        "tensor([[  1, -20],\n"
        "        [300,   4]])");
  CHECK(print(ct::tensor({{true, false}})) == "tensor([[ True, False]])");
  CHECK(print(ct::tensor(true)) == "tensor(True)");
  CHECK(print(ct::empty({0})) == "tensor([])");
  CHECK(print(ct::empty({2, 0})) == "tensor([], size=(2, 0))");
  CHECK(print(ct::empty({0}, {.dtype = ct::i64})) == "tensor([], dtype=i64)");
  CHECK(print(ct::empty({0, 3}, {.dtype = ct::i64})) == "tensor([], size=(0, 3), dtype=i64)");
  CHECK(print(ct::tensor({1.f, 2.f}, {.dtype = ct::f64})) == "tensor([1., 2.], dtype=f64)");
  CHECK(print(ct::tensor({1.f, 2.5f}, {.dtype = ct::f16})) == "tensor([1.0000, 2.5000], dtype=f16)");
  CHECK(print(ct::tensor({1, 2}, {.dtype = ct::i32})) == "tensor([1, 2], dtype=i32)");
  CHECK(print(ct::tensor({1, 255}, {.dtype = ct::u8})) == "tensor([  1, 255], dtype=u8)");
  CHECK(print(ct::arange(12.f).view({2, 2, 3})) ==
        "tensor([[[ 0.,  1.,  2.],\n"
        "         [ 3.,  4.,  5.]],\n"
        "\n"
        "        [[ 6.,  7.,  8.],\n"
        "         [ 9., 10., 11.]]])");
  CHECK(print(ct::arange(8).view({2, 1, 2, 2})) ==
        "tensor([[[[0, 1],\n"
        "          [2, 3]]],\n"
        "\n"
        "\n"
        "        [[[4, 5],\n"
        "          [6, 7]]]])");
  CHECK(print(ct::arange(30.f)) ==
        "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
        "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
        "        28., 29.])");
  CHECK(print(ct::arange(0, 25000, 1000)) ==
        "tensor([    0,  1000,  2000,  3000,  4000,  5000,  6000,  7000,  8000,  9000,\n"
        "        10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000, 18000, 19000,\n"
        "        20000, 21000, 22000, 23000, 24000])");
  CHECK(print(ct::arange(1001.f)) == "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])");
  CHECK(print(ct::arange(2000)) == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])");
  CHECK(print(ct::arange(2000.f).view({40, 50})) ==
        "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.7000e+01, 4.8000e+01,\n"
        "         4.9000e+01],\n"
        "        [5.0000e+01, 5.1000e+01, 5.2000e+01,  ..., 9.7000e+01, 9.8000e+01,\n"
        "         9.9000e+01],\n"
        "        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.4700e+02, 1.4800e+02,\n"
        "         1.4900e+02],\n"
        "        ...,\n"
        "        [1.8500e+03, 1.8510e+03, 1.8520e+03,  ..., 1.8970e+03, 1.8980e+03,\n"
        "         1.8990e+03],\n"
        "        [1.9000e+03, 1.9010e+03, 1.9020e+03,  ..., 1.9470e+03, 1.9480e+03,\n"
        "         1.9490e+03],\n"
        "        [1.9500e+03, 1.9510e+03, 1.9520e+03,  ..., 1.9970e+03, 1.9980e+03,\n"
        "         1.9990e+03]])");
  CHECK(print(ct::arange(7 * 8 * 20).view({7, 8, 20})) ==
        "tensor([[[   0,    1,    2,  ...,   17,   18,   19],\n"
        "         [  20,   21,   22,  ...,   37,   38,   39],\n"
        "         [  40,   41,   42,  ...,   57,   58,   59],\n"
        "         ...,\n"
        "         [ 100,  101,  102,  ...,  117,  118,  119],\n"
        "         [ 120,  121,  122,  ...,  137,  138,  139],\n"
        "         [ 140,  141,  142,  ...,  157,  158,  159]],\n"
        "\n"
        "        [[ 160,  161,  162,  ...,  177,  178,  179],\n"
        "         [ 180,  181,  182,  ...,  197,  198,  199],\n"
        "         [ 200,  201,  202,  ...,  217,  218,  219],\n"
        "         ...,\n"
        "         [ 260,  261,  262,  ...,  277,  278,  279],\n"
        "         [ 280,  281,  282,  ...,  297,  298,  299],\n"
        "         [ 300,  301,  302,  ...,  317,  318,  319]],\n"
        "\n"
        "        [[ 320,  321,  322,  ...,  337,  338,  339],\n"
        "         [ 340,  341,  342,  ...,  357,  358,  359],\n"
        "         [ 360,  361,  362,  ...,  377,  378,  379],\n"
        "         ...,\n"
        "         [ 420,  421,  422,  ...,  437,  438,  439],\n"
        "         [ 440,  441,  442,  ...,  457,  458,  459],\n"
        "         [ 460,  461,  462,  ...,  477,  478,  479]],\n"
        "\n"
        "        ...,\n"
        "\n"
        "        [[ 640,  641,  642,  ...,  657,  658,  659],\n"
        "         [ 660,  661,  662,  ...,  677,  678,  679],\n"
        "         [ 680,  681,  682,  ...,  697,  698,  699],\n"
        "         ...,\n"
        "         [ 740,  741,  742,  ...,  757,  758,  759],\n"
        "         [ 760,  761,  762,  ...,  777,  778,  779],\n"
        "         [ 780,  781,  782,  ...,  797,  798,  799]],\n"
        "\n"
        "        [[ 800,  801,  802,  ...,  817,  818,  819],\n"
        "         [ 820,  821,  822,  ...,  837,  838,  839],\n"
        "         [ 840,  841,  842,  ...,  857,  858,  859],\n"
        "         ...,\n"
        "         [ 900,  901,  902,  ...,  917,  918,  919],\n"
        "         [ 920,  921,  922,  ...,  937,  938,  939],\n"
        "         [ 940,  941,  942,  ...,  957,  958,  959]],\n"
        "\n"
        "        [[ 960,  961,  962,  ...,  977,  978,  979],\n"
        "         [ 980,  981,  982,  ...,  997,  998,  999],\n"
        "         [1000, 1001, 1002,  ..., 1017, 1018, 1019],\n"
        "         ...,\n"
        "         [1060, 1061, 1062,  ..., 1077, 1078, 1079],\n"
        "         [1080, 1081, 1082,  ..., 1097, 1098, 1099],\n"
        "         [1100, 1101, 1102,  ..., 1117, 1118, 1119]]])");
  CHECK(print(ct::arange(2400).view({800, 3})) ==
        "tensor([[   0,    1,    2],\n"
        "        [   3,    4,    5],\n"
        "        [   6,    7,    8],\n"
        "        ...,\n"
        "        [2391, 2392, 2393],\n"
        "        [2394, 2395, 2396],\n"
        "        [2397, 2398, 2399]])");
  CHECK(print(ct::arange(1200).view({6, 200})) ==
        "tensor([[   0,    1,    2,  ...,  197,  198,  199],\n"
        "        [ 200,  201,  202,  ...,  397,  398,  399],\n"
        "        [ 400,  401,  402,  ...,  597,  598,  599],\n"
        "        [ 600,  601,  602,  ...,  797,  798,  799],\n"
        "        [ 800,  801,  802,  ...,  997,  998,  999],\n"
        "        [1000, 1001, 1002,  ..., 1197, 1198, 1199]])");
  CHECK(print(ct::arange(1400).view({7, 200})) ==
        "tensor([[   0,    1,    2,  ...,  197,  198,  199],\n"
        "        [ 200,  201,  202,  ...,  397,  398,  399],\n"
        "        [ 400,  401,  402,  ...,  597,  598,  599],\n"
        "        ...,\n"
        "        [ 800,  801,  802,  ...,  997,  998,  999],\n"
        "        [1000, 1001, 1002,  ..., 1197, 1198, 1199],\n"
        "        [1200, 1201, 1202,  ..., 1397, 1398, 1399]])");
  CHECK(print(ct::tensor({1.f, 2.f}, {.requires_grad = true})) == "tensor([1., 2.], requires_grad=True)");
  CHECK(print(ct::ones({2, 2}, {.dtype = ct::f64, .requires_grad = true})) ==
        "tensor([[1., 1.],\n"
        "        [1., 1.]], dtype=f64, requires_grad=True)");
  CHECK(print(ct::empty({0}, {.dtype = ct::f64, .requires_grad = true})) ==
        "tensor([], dtype=f64, requires_grad=True)");
  CHECK(print(ct::tensor({-0.f, 1.f})) == "tensor([-0., 1.])");
  CHECK(print(ct::tensor({12345678.f, 1.f})) == "tensor([1.2346e+07, 1.0000e+00])");
  CHECK(print(ct::tensor(3.14159265f)) == "tensor(3.1416)");
  CHECK(print(ct::tensor({9.99999f, 1.f})) == "tensor([10.0000,  1.0000])");
  CHECK(print(ct::tensor({99999.6f, 1.f})) == "tensor([1.0000e+05, 1.0000e+00])");
  CHECK(print(ct::tensor({65504.f, 0.5f}, {.dtype = ct::f16})) ==
        "tensor([6.5504e+04, 5.0000e-01], dtype=f16)");
  CHECK(print(ct::empty({2, 0, 3})) == "tensor([], size=(2, 0, 3))");
  CHECK(print(ct::linspace(0, 100, 1001)) ==
        "tensor([  0.0000,   0.1000,   0.2000,  ...,  99.8000,  99.9000, 100.0000])");
  CHECK(print(ct::arange(3006).view({3, 1002})) ==
        "tensor([[   0,    1,    2,  ...,  999, 1000, 1001],\n"
        "        [1002, 1003, 1004,  ..., 2001, 2002, 2003],\n"
        "        [2004, 2005, 2006,  ..., 3003, 3004, 3005]])");
  CHECK(print(ct::tensor({1e20f})) == "tensor([1.0000e+20])");
  CHECK(print(ct::tensor({kInf, -kInf})) == "tensor([inf, -inf])");
  CHECK(print(ct::tensor(kInf)) == "tensor(inf)");
  CHECK(print(ct::tensor({std::numeric_limits<std::int64_t>::min(), std::int64_t{5}})) ==
        "tensor([-9223372036854775808,                    5])");
  CHECK(print(ct::arange(10.f, {.requires_grad = true})) ==
        "tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9.], requires_grad=True)");
  CHECK(print(ct::arange(11.f, {.requires_grad = true})) ==
        "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10.],\n"
        "       requires_grad=True)");
  CHECK(print(ct::arange(12.f, {.requires_grad = true})) ==
        "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.],\n"
        "       requires_grad=True)");
  CHECK(print(ct::arange(28.f).view({2, 14}).set_requires_grad()) ==
        "tensor([[ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.],\n"
        "        [14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.]],\n"
        "       requires_grad=True)");
}

TEST_CASE("printing names what made a tensor, and an undefined one", "[print]") {
  const ct::Tensor x = ct::ones({2}, {.requires_grad = true});
  CHECK(print(x.view({2, 1})) ==
        "tensor([[1.],\n"
        "        [1.]], grad_fn=<view>)");
  CHECK(print(ct::Tensor{}) == "tensor(undefined)");
}

TEST_CASE("views print their own elements", "[print]") {
  const ct::Tensor x = ct::arange(6).view({2, 3});
  CHECK(print(x.t()) ==
        "tensor([[0, 3],\n"
        "        [1, 4],\n"
        "        [2, 5]])");
  CHECK(print(ct::tensor(2.f).expand({3})) == "tensor([2., 2., 2.])");
  // Summarised through a stride, and without touching the middle.
  CHECK(print(ct::arange(4000).slice(0, 0, INT64_MAX, 2)) ==
        "tensor([   0,    2,    4,  ..., 3994, 3996, 3998])");
}

TEST_CASE("printing leaves no trace on the tape", "[print]") {
  const ct::Tensor x = ct::ones({2000}, {.requires_grad = true});
  print(x);
  CHECK(x.is_leaf());
  CHECK(!x.grad().defined());
}

TEST_CASE("printing names the device", "[print][cuda]") {
  CHECK(print(ct::tensor({1.f, 2.f}, {.dtype = ct::f64, .device = ct::cuda()})) ==
        "tensor([1., 2.], device='cuda:0', dtype=f64)");
  CHECK(print(ct::arange(2000, {.device = ct::cuda()})) ==
        "tensor([   0,    1,    2,  ..., 1997, 1998, 1999], device='cuda:0')");
}

TEST_CASE("print options are PyTorch's", "[print]") {
  using ct::to_string;
  const ct::Tensor x = ct::tensor({1.23456f, 100.f});
  CHECK(to_string(x) == print(x));
  CHECK(to_string(x, {.precision = 2}) == "tensor([  1.23, 100.00])");
  CHECK(to_string(x, {.scientific = true}) == "tensor([1.2346e+00, 1.0000e+02])");
  CHECK(to_string(ct::zeros({2}), {.precision = 1, .scientific = true}) == "tensor([0.0e+00, 0.0e+00])");
  CHECK(to_string(ct::tensor({0.001f, 1.f, 1000.f}), {.scientific = false}) ==
        "tensor([   0.0010,    1.0000, 1000.0000])");
  CHECK(to_string(ct::arange(10), {.threshold = 5, .edge_items = 2}) == "tensor([0, 1,  ..., 8, 9])");
  CHECK(to_string(ct::arange(10), {.threshold = 5, .edge_items = 0}) == "tensor([ ...])");
  CHECK(to_string(ct::arange(4), {.line_width = 16}) ==
        "tensor([0, 1, 2,\n"
        "        3])");
  CHECK(to_string(ct::Tensor()) == "tensor(undefined)");
  ct::set_print_options({.precision = 1});
  CHECK(print(x) == "tensor([  1.2, 100.0])");
  CHECK(ct::print_options().precision == 1);
  ct::set_print_options({});
  CHECK(print(x) == "tensor([  1.2346, 100.0000])");
  CHECK_THROWS_AS(ct::set_print_options({.precision = 18}), ct::ValueError);
  CHECK_THROWS_AS(ct::set_print_options({.line_width = 0}), ct::ValueError);
}
