"""PyTorch's place of Function, grad() and the checks of gradients."""
from ._grad import enable_grad as enable_grad, grad as grad, no_grad as no_grad, set_grad_enabled as set_grad_enabled
from .function import Function as Function
from .testing import gradcheck as gradcheck, gradgradcheck as gradgradcheck
