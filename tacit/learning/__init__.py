"""Training of models by the sums that devices contribute: architectures, what a device computes, server optimisers.

All but ``model_file`` needs NumPy (extra ``learn``), so only a device that trains and the operator of a training run
import it, when they do.
"""
