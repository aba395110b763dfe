# SPDX-License-Identifier: Apache-2.0
"""The acceptance run on a GPU (scripts/gpu_check.sh): `parts` is what is done, `rules` what is asked of a trace, `run` how programs are run."""
