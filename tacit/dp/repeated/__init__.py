"""Many rounds of one mechanism, given its hockey-stick curve: composed numerically, with proved upper bounds.

``losses`` turns a curve into a discrete privacy loss that is at least as bad, ``convolve`` adds up the losses of all
rounds, ``rounds`` holds the curves of sampled rounds and their answers.
"""
