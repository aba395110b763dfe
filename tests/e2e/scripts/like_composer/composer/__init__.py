# SPDX-License-Identifier: Apache-2.0
"""As much of Composer (mosaicml 0.32) as cprof.composer touches, made again from its documentation: the real package
wants another PyTorch and torchvision. The engine runs each event inside its mark, callbacks and algorithms inside theirs."""
