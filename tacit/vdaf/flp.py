"""The fully linear proof system of Prio3 (draft-irtf-cfrg-vdaf, section 7.3; Boneh et al., CRYPTO 2019).

A prover shows that a secret vector satisfies a validity circuit. Vector and proof are secret-shared; each verifier
turns its shares into a short verifier share, and the sum of those decides. ``FlpBBCGGI19`` is bound to one circuit and
holds every table that depends on public parameters only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from tacit.errors import TacitError
from tacit.vdaf.circuits import Circuit
from tacit.vdaf.polynomials import WireDomain, missing_value_rows, next_power_of_2

M = TypeVar("M")


class VerifyError(TacitError, ValueError):
    """A report does not verify: a proof or its joint randomness is wrong. The message says which check failed, and
    nothing else."""


class FlpBBCGGI19(Generic[M]):
    """Prove, query and decide for one circuit. All lengths are numbers of field elements."""

    def __init__(self, circuit: Circuit[M]) -> None:
        self.circuit = circuit
        self.field = circuit.field
        arity, degree = circuit.gadget.ARITY, circuit.gadget.DEGREE
        self._wire_len = next_power_of_2(1 + circuit.calls)
        self._gadget_poly_len = degree * (self._wire_len - 1) + 1
        self._fine_len = next_power_of_2(self._gadget_poly_len)
        self._step = self._fine_len // self._wire_len
        self.MEAS_LEN = circuit.MEAS_LEN
        self.OUTPUT_LEN = circuit.OUTPUT_LEN
        self.JOINT_RAND_LEN = circuit.JOINT_RAND_LEN
        self.PROVE_RAND_LEN = arity
        # one query point for the only gadget, and weights where there are several outputs to combine
        self.QUERY_RAND_LEN = 1 + (circuit.EVAL_OUTPUT_LEN if circuit.EVAL_OUTPUT_LEN > 1 else 0)
        self.PROOF_LEN = arity + self._gadget_poly_len
        self.VERIFIER_LEN = 2 + arity

    @cached_property
    def _domain(self) -> WireDomain:
        return WireDomain(self.field, self._wire_len, self._step, self.circuit.gadget.ARITY)

    @cached_property
    def _missing_rows(self) -> list[list[int]]:
        return missing_value_rows(self.field, self._gadget_poly_len, self._fine_len)

    def prove(self, meas: Sequence[int], prove_rand: Sequence[int], joint_rand: Sequence[int]) -> list[int]:
        """The proof that the whole measurement ``meas`` is valid: ``PROOF_LEN`` elements. Run by the Client.

        Preconditions: ``PROVE_RAND_LEN`` and ``JOINT_RAND_LEN`` elements of randomness.
        """
        gadget, arity = self.circuit.gadget, self.circuit.gadget.ARITY
        inputs = self.circuit.wires(meas, joint_rand, num_shares=1)
        # The seeds are the wires' values at the root 1. They make the wires uniform at every point that is no root of
        # unity, so that what the verifiers see of them there tells nothing (zero knowledge).
        wires = [*prove_rand, *inputs]
        wires += [0] * (self._wire_len * arity - len(wires))
        values = [0] * self._fine_len
        # coset 0 is the grid of the wires themselves, whose values are at hand: only the others need a transform
        for coset, grid in enumerate((wires, *self._domain.cosets(wires))):
            values[coset :: self._step] = [
                gadget.eval(self.field, grid[at : at + arity]) for at in range(0, len(grid), arity)
            ]
        return [*prove_rand, *values[: self._gadget_poly_len]]

    def query(
        self,
        meas: Sequence[int],
        proof: Sequence[int],
        query_rand: Sequence[int],
        joint_rand: Sequence[int],
        num_shares: int,
    ) -> list[int]:
        """The verifier share for shares of a measurement and its proof: ``VERIFIER_LEN`` elements.

        Run by each Aggregator, with the same randomness. Raises ``VerifyError`` if the random point is one at
        which the wires are known (probability wire length / field size).
        """
        field, circuit = self.field, self.circuit
        arity = circuit.gadget.ARITY
        *reduction, point = query_rand
        if pow(point, self._wire_len, field.MODULUS) == 1:
            raise VerifyError("the query point is a root of unity")
        seeds, values = proof[:arity], list(proof[arity:])
        # the degree is below the number of values that are sent: they fix the others, linearly, so also share by share
        values += [field.inner_product(row, values) for row in self._missing_rows]
        step = self._step
        # the verifiers evaluate no gadget: the output of call k is the gadget polynomial's value at root k of the wires
        outputs = circuit.outputs(meas, values[step : step * (circuit.calls + 1) : step], num_shares)
        checked = field.inner_product(outputs, reduction) if reduction else outputs[0]
        weights = self._domain.weights(0, point)
        # the wires are 0 at the roots that no call uses, whose weights are left out
        first, per_call = weights[0], weights[1 : 1 + circuit.calls]
        wires = circuit.wires_at(meas, joint_rand, num_shares, per_call)
        return [
            checked,
            *[(first * seed + wire) % field.MODULUS for seed, wire in zip(seeds, wires, strict=True)],
            self._domain.evaluate_fine(values, point, weights),
        ]

    def decide(self, verifier: Sequence[int]) -> bool:
        """Whether ``verifier``, the sum of all verifier shares (``VERIFIER_LEN`` elements), accepts."""
        checked, *wires, value = verifier
        return checked == 0 and self.circuit.gadget.eval(self.field, wires) == value

    def encode(self, measurement: M) -> list[int]:
        """Field elements of a measurement. Raises ``ValueError`` if it is not in the circuit's domain."""
        return self.circuit.encode(measurement)

    def truncate(self, meas: Sequence[int]) -> list[int]:
        """The ``OUTPUT_LEN`` elements of an encoded measurement, or of a share of it, that are aggregated."""
        return self.circuit.truncate(meas)

    def decode(self, output: Sequence[int], num_measurements: int) -> Any:
        """The aggregate result from the summed outputs of ``num_measurements`` measurements."""
        return self.circuit.decode(output, num_measurements)
