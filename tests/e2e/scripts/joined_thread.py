# SPDX-License-Identifier: Apache-2.0
"""Trains in the main thread or in another one, for which the main thread waits. Usage: joined_thread.py main|thread"""

import sys
import threading
import time

import torch


def train():
    model = torch.nn.Linear(8, 8)
    for _ in range(300):
        model(torch.randn(4, 8)).sum().backward()


torch.set_num_threads(1)
if sys.argv[1] == "main":
    train()
else:
    joining = threading.Event()

    def train_later():
        joining.wait()
        time.sleep(0.5)  # the main thread is in join() by then
        train()

    thread = threading.Thread(target=train_later)
    thread.start()
    joining.set()
    thread.join()
