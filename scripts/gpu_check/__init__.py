# SPDX-License-Identifier: Apache-2.0
"""The acceptance run on a GPU (scripts/gpu_check.sh): `plan` has the parts, `rules` the checks of a trace, `run` runs the programs."""
