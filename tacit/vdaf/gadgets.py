"""Gadgets: the non-affine parts of a validity circuit (draft-irtf-cfrg-vdaf, section 7.3).

A gadget is a polynomial in ``ARITY`` variables of total degree ``DEGREE``. The prover evaluates it on the
wires of the circuit, the verifiers once, on the wire polynomials at a random point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tacit.vdaf.field import Field


class Gadget(ABC):
    """A polynomial of ``ARITY`` inputs and degree ``DEGREE`` that a circuit evaluates."""

    ARITY: int
    DEGREE: int

    @abstractmethod
    def eval(self, field: type[Field], inputs: Sequence[int]) -> int:
        """The gadget at ``ARITY`` inputs, which may be unreduced; the result is reduced."""


class Mul(Gadget):
    """The product of two elements."""

    ARITY = 2
    DEGREE = 2

    def eval(self, field: type[Field], inputs: Sequence[int]) -> int:
        return inputs[0] * inputs[1] % field.MODULUS


class PolyEval(Gadget):
    """A polynomial in one variable; ``coefficients`` are integers, constant first, the last one not zero."""

    ARITY = 1

    def __init__(self, coefficients: Sequence[int]) -> None:
        if len(coefficients) < 2 or coefficients[-1] == 0:
            raise ValueError("a gadget polynomial needs degree 1 or more and a non-zero leading coefficient")
        self.DEGREE = len(coefficients) - 1
        self._falling = tuple(reversed(coefficients))

    def eval(self, field: type[Field], inputs: Sequence[int]) -> int:
        value = 0
        for coefficient in self._falling:
            value = (value * inputs[0] + coefficient) % field.MODULUS
        return value


class ParallelSumMul(Gadget):
    """The draft's ParallelSum(Mul, count): the sum of the products of ``count`` neighbouring pairs."""

    DEGREE = 2

    def __init__(self, count: int) -> None:
        self.ARITY = 2 * count

    def eval(self, field: type[Field], inputs: Sequence[int]) -> int:
        return field.inner_product(inputs[0::2], inputs[1::2])
